//! Folding a segment of predictions into an empty rollup.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use event::{Kind, lane::Place};
use fold::{Delta, LogSegment};

mod common;

fn rollup(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fold");
    for rows in common::SIZES {
        let columns = common::predictions(rows);
        group.throughput(Throughput::Elements(rows as u64));
        group.bench_with_input(BenchmarkId::new("predictions", rows), &columns, |bencher, columns| {
            bencher.iter(|| {
                Delta::of(Kind::Predictions, black_box(LogSegment { place: Place::of(0, 1), columns }))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, rollup);
criterion_main!(benches);
