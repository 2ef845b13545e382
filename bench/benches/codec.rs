//! Packing and unpacking segments: each kind of column by itself, and all together.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use event::{Column, Columns, Values};

mod common;

/// Columns of predictions that a query of evaluations reads.
const SOME: [&str; 3] = ["predicted_at", "score", "label"];

/// Divides the numbers by three, so that they have all digits, which no scaled integer holds.
fn full_floats(columns: &Columns) -> Columns {
    let column = &columns.columns[0];
    let digits = (0..columns.rows).map(|row| column.float(row).expect("a number") / 3.0).collect();
    Columns { rows: columns.rows, columns: vec![Column::new(&column.name, Values::Float(digits))] }
}

fn codec(criterion: &mut Criterion) {
    for rows in common::SIZES {
        let all = common::predictions(rows);
        let single = |name: &str| Columns {
            rows,
            columns: all.columns.iter().filter(|column| column.name == name).cloned().collect(),
        };
        for (kind, columns) in [
            ("all", all.clone()),
            ("key", single("key")),
            ("time", single("predicted_at")),
            ("float", single("score")),
            ("full-float", full_floats(&single("score"))),
            ("few-texts", single("tag.branch")),
        ] {
            let bytes = segment::encode(&columns).expect("within bounds");
            let mut group = criterion.benchmark_group(format!("codec/{kind}"));
            group.throughput(Throughput::Elements(rows as u64));
            group.bench_with_input(BenchmarkId::new("encode", rows), &columns, |bencher, columns| {
                bencher.iter(|| segment::encode(black_box(columns)));
            });
            group.bench_with_input(BenchmarkId::new("decode", rows), &bytes, |bencher, bytes| {
                bencher.iter(|| segment::decode(black_box(bytes)));
            });
            if kind == "all" {
                group.bench_with_input(BenchmarkId::new("decode-some", rows), &bytes, |bencher, bytes| {
                    bencher.iter(|| segment::decode_only(black_box(bytes), |name| SOME.contains(&name)));
                });
            }
            group.finish();
        }
    }
}

criterion_group!(benches, codec);
criterion_main!(benches);
