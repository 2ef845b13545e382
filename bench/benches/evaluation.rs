//! Joining a day's predictions with its outcomes, and judging them.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::{collections::BTreeMap, hint::black_box};

use bench::data::{LABELS, RELEASES};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use event::{Column, Columns, Definition, Task, Values, lane::LogPosition};
use fold::{LogSegment, evaluate, join};

mod common;

/// Sizes of a day, in predictions.
const DAYS: [usize; 3] = [100, 10_000, 100_000];

fn in_log(segments: &[Columns]) -> Vec<LogSegment<'_>> {
    (1..).zip(segments).map(|(seq, columns)| LogSegment { place: LogPosition::of(0, seq), columns }).collect()
}

fn definitions(task: &str, positive_label: Option<&str>) -> BTreeMap<String, Definition> {
    let task = Task::parse(task, positive_label).expect("a task");
    RELEASES.map(|name| (name.to_owned(), Definition::of(task.clone()))).into()
}

/// Converts the events to another task: without scores and labels, but with the column `name`.
fn of_task(segments: &[Columns], name: &str, values: impl Fn(usize) -> Values) -> Vec<Columns> {
    let of = |columns: &Columns| {
        let kept =
            columns.columns.iter().filter(|column| !["score", "label"].contains(&column.name.as_str()));
        let column = Column::new(name, values(columns.rows));
        Columns { rows: columns.rows, columns: kept.cloned().chain([column]).collect() }
    };
    segments.iter().map(of).collect()
}

/// Returns numbers with one decimal.
fn numbers(rows: usize, step: usize) -> Values {
    Values::Float((0..rows).map(|row| (row * step % 1_009) as f64 / 10.0 + 1.0).collect())
}

/// Returns six classes, one of which has half of the rows.
fn classes(rows: usize, step: usize) -> Values {
    const CLASSES: [&str; 6] = ["bread", "cheese", "fish", "fruit", "meat", "wine"];
    let class = |row: usize| if row.is_multiple_of(2) { "bread" } else { CLASSES[row * step % 1_009 % 6] };
    Values::Text((0..rows).map(class).collect())
}

/// Judges tasks other than that of the data.
fn tasks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("evaluation");
    for rows in DAYS {
        let (predictions, outcomes) = common::day(rows);
        group.throughput(Throughput::Elements(rows as u64));
        for (task, column, values) in
            [("regression", "value", numbers as fn(usize, usize) -> Values), ("multiclass", "label", classes)]
        {
            let by = definitions(task, None);
            let predictions = of_task(&predictions, column, |rows| values(rows, 37));
            let outcomes = of_task(&outcomes, column, |rows| values(rows, 41));
            let (predictions, outcomes) = (in_log(&predictions), in_log(&outcomes));
            group.bench_function(BenchmarkId::new(format!("evaluate-{task}"), rows), |bencher| {
                bencher.iter(|| evaluate(black_box(&predictions), black_box(&outcomes), &by));
            });
        }
    }
    group.finish();
}

fn evaluation(criterion: &mut Criterion) {
    let tasks = definitions("binary", Some(LABELS[1]));
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

criterion_group!(benches, evaluation, tasks);
criterion_main!(benches);
