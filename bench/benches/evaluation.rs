//! Joining a day's predictions with its outcomes, and judging them.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::{collections::BTreeMap, hint::black_box};

use bench::data::{LABELS, RELEASES};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use event::{Columns, Definition, Task, lane::Place};
use fold::{LogSegment, evaluate, join};

mod common;

/// The sizes of a day, in predictions.
const DAYS: [usize; 3] = [100, 10_000, 100_000];

fn in_log(segments: &[Columns]) -> Vec<LogSegment<'_>> {
    (1..).zip(segments).map(|(seq, columns)| LogSegment { place: Place::of(0, seq), columns }).collect()
}

fn evaluation(criterion: &mut Criterion) {
    let task = Task::parse("binary", Some(LABELS[1])).expect("a task");
    let tasks: BTreeMap<String, Definition> =
        RELEASES.map(|name| (name.to_owned(), Definition::of(task.clone()))).into();
    let mut group = criterion.benchmark_group("evaluation");
    for rows in DAYS {
        let (predictions, outcomes) = common::day(rows);
        let without_instant = outcomes.iter().map(common::without_instant).collect::<Vec<_>>();
        group.throughput(Throughput::Elements(rows as u64));
        let predictions = in_log(&predictions);
        for (which, outcomes) in [("", &outcomes), ("-by-key", &without_instant)] {
            let outcomes = in_log(outcomes);
            group.bench_function(BenchmarkId::new(format!("join{which}"), rows), |bencher| {
                bencher.iter(|| join(black_box(&predictions), black_box(&outcomes)));
            });
            group.bench_function(BenchmarkId::new(format!("evaluate{which}"), rows), |bencher| {
                bencher.iter(|| evaluate(black_box(&predictions), black_box(&outcomes), &tasks));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, evaluation);
criterion_main!(benches);
