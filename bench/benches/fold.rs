//! Folding segments into rollups, and their exact sums.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use event::{Columns, Kind, lane::LogPosition};
use fold::{Delta, ExactSum, LogSegment, rollup::Merge as _};

mod common;

/// Number of rows of a day.
const DAY_ROWS: usize = 100_000;

/// Returns the states of a day, folded segment by segment.
fn day(kind: Kind, segments: &[Columns]) -> Vec<String> {
    let mut day = Delta::default();
    for (seq, columns) in (1..).zip(segments) {
        let segment = LogSegment { place: LogPosition::of(0, seq), columns };
        day.merge(&Delta::of(kind, segment).expect("good columns"));
    }
    let parts = day.parts.values().map(|part| part.to_state());
    [day.rollup.to_state()].into_iter().chain(parts).collect()
}

fn rollup(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fold");
    for rows in common::SIZES {
        let columns = common::predictions(rows);
        group.throughput(Throughput::Elements(rows as u64));
        group.bench_with_input(BenchmarkId::new("predictions", rows), &columns, |bencher, columns| {
            bencher.iter(|| {
                Delta::of(Kind::Predictions, black_box(LogSegment { place: LogPosition::of(0, 1), columns }))
            });
        });
    }
    let (predictions, outcomes) = common::day(DAY_ROWS);
    group.throughput(Throughput::Elements(DAY_ROWS as u64));
    for (kind, segments) in [(Kind::Predictions, &predictions), (Kind::Outcomes, &outcomes)] {
        group.bench_function(BenchmarkId::new(format!("day of {}", kind.name()), DAY_ROWS), |bencher| {
            bencher.iter(|| day(kind, black_box(segments)));
        });
    }
    group.finish();
    let terms: Vec<f64> = (0..DAY_ROWS).map(|row| (row as f64 * 0.7).sin()).collect();
    let mut group = criterion.benchmark_group("sum");
    group.throughput(Throughput::Elements(DAY_ROWS as u64));
    group.bench_function("exact", |bencher| {
        bencher.iter(|| black_box(&terms).iter().copied().collect::<ExactSum>().value());
    });
    group.bench_function("plain", |bencher| bencher.iter(|| black_box(&terms).iter().sum::<f64>()));
    group.finish();
}

criterion_group!(benches, rollup);
criterion_main!(benches);
