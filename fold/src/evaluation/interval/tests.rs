use std::convert::Infallible;

use event::{Columns, Definition, Task, lane::LogPosition};

use super::*;
use crate::{
    LogSegment,
    evaluation::{Evaluator, fields::View},
    testing::{self, Outcome, Prediction},
};

const KEYS: [&str; 20] =
    ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"];

/// Returns the intervals of a single release, whose predictions are added partition by partition.
fn intervals(task: Task, predictions: &[Prediction], outcomes: &[Outcome], halvings: u32) -> Intervals {
    let by = BTreeMap::from([("v1".to_owned(), Definition::of(task))]);
    let (predictions, outcomes) =
        (testing::predictions(predictions, true), testing::outcomes(outcomes, false));
    let mut evaluator = Evaluator::new(by).with_intervals(Some(IntervalsOf::ALL));
    let parts = 1 << halvings;
    for number in 0..parts {
        let take = |columns: &Columns| testing::part(columns, number, parts);
        let (predictions, outcomes) = (take(&predictions), take(&outcomes));
        let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
        evaluator.add(&segment(&predictions), &segment(&outcomes)).unwrap();
    }
    evaluator.finish().releases.remove("v1").unwrap().intervals.unwrap()
}

fn binary() -> Task {
    Task::Binary { positive_label: "late".into() }
}

/// Predicts each key at some instants; every third key is late, every fourth key is predicted late.
fn days(instants: i64) -> (Vec<Prediction>, Vec<Outcome>) {
    let of_key = |(n, key): (usize, &&'static str)| {
        let score = if n % 4 == 0 { 0.6 } else { n as f64 / 50.0 };
        (0..instants)
            .map(|at| Prediction { release: "v1", key, at, score: Some(score), ..Prediction::default() })
            .collect::<Vec<_>>()
    };
    let outcome = |(n, key): (usize, &&'static str)| {
        let label = Some(if n % 3 == 0 { "late" } else { "on time" });
        Outcome { key, label, ..Outcome::default() }
    };
    let predictions = KEYS.iter().enumerate().flat_map(of_key).collect();
    (predictions, KEYS.iter().enumerate().map(outcome).collect())
}

#[test]
fn order_and_partitions_leave_no_trace() {
    for instants in [1, 3] {
        let (mut predictions, mut outcomes) = days(instants);
        let whole = intervals(binary(), &predictions, &outcomes, 0);
        assert_eq!(whole.keys, 20);
        assert!(whole.estimates["f1"].interval.is_some() && whole.estimates["auc"].interval.is_some());
        predictions.reverse();
        outcomes.rotate_left(7);
        assert_eq!(intervals(binary(), &predictions, &outcomes, 0), whole);
        assert_eq!(intervals(binary(), &predictions, &outcomes, 2), whole);
    }
}

#[test]
fn repeated_keys_make_no_metric_surer() {
    let of = |instants| {
        let (predictions, outcomes) = days(instants);
        intervals(binary(), &predictions, &outcomes, 0)
    };
    let (once, often) = (of(1), of(25));
    assert_eq!((often.keys, often.estimates["accuracy"].n, once.estimates["accuracy"].n), (20, 500, 20));
    let (low, high) = often.estimates["accuracy"].interval.unwrap();
    // As certain as of 20 predictions, not of 500.
    let (least, most) = once.estimates["accuracy"].interval.unwrap();
    let (narrow, wide) = wilson(250, 500).unwrap();
    assert!(high - low > 2.0 * (wide - narrow), "{low} {high}");
    assert!((low - least).abs() < 0.1 && (high - most).abs() < 0.1, "{low} {high}, {least} {most}");
    // The draws are the same, however often each key was predicted.
    let percentiles = |of: &Intervals, name: &str| of.estimates[name].interval.unwrap();
    assert_eq!(percentiles(&of(3), "f1"), percentiles(&once, "f1"));
}

#[test]
fn a_bootstrap_of_equal_errors_has_no_width() {
    let value = |n: usize| if n.is_multiple_of(2) { 1.0 } else { -1.0 };
    let prediction = |(n, key): (usize, &&'static str)| Prediction {
        release: "v1",
        key,
        value: Some(value(n)),
        ..Prediction::default()
    };
    let outcome = |key: &&'static str| Outcome { key, value: Some(0.0), ..Outcome::default() };
    let predictions: Vec<_> = KEYS.iter().enumerate().map(prediction).collect();
    let outcomes: Vec<_> = KEYS.iter().map(outcome).collect();
    let found = intervals(Task::Regression, &predictions, &outcomes, 0);
    assert_eq!(found.estimates["rmse"], Estimate { n: 20, interval: Some((1.0, 1.0)) });
    assert_eq!(found.estimates["mae"], Estimate { n: 20, interval: Some((1.0, 1.0)) });
    let (low, high) = found.estimates["bias"].interval.unwrap();
    assert!(low < -0.4 && (low + high).abs() < 1e-15, "{low} {high}");
    assert!(!found.estimates.contains_key("auc"));
    // One prediction is too few for an interval.
    let one = intervals(Task::Regression, &predictions[..1], &outcomes, 0);
    assert_eq!(one.estimates["mae"], Estimate { n: 1, interval: None });
    assert_eq!(one.estimates["rmse"], Estimate { n: 1, interval: None });
}

#[test]
fn release_over_row_limit_has_no_intervals() {
    let fields = Fields { value: Some(1.0), ..Fields::default() };
    let mut rows = Rows::new(&Definition::of(Task::Regression), Instead::default(), IntervalsOf::ALL);
    for _ in 0..MAX_ROWS {
        rows.keep("a", &fields, &fields);
    }
    assert!(rows.rows.is_some());
    rows.keep("a", &fields, &Fields { value: None, ..fields });
    assert!(rows.rows.is_some(), "it is not judged");
    let labelled = Fields { label: Some("late"), ..fields };
    let mut some =
        Rows { rows: Some(Vec::new()), work: 0, by: rows.by.clone(), current: 0, asked: rows.asked };
    some.keep("a", &fields, &labelled);
    assert_eq!(some.bytes(), size_of::<Row>() + 4);
    assert_eq!(rows.bytes(), MAX_ROWS * size_of::<Row>());
    rows.keep("a", &fields, &fields);
    assert!(rows.rows.is_none());
    assert_eq!(rows.bytes(), 0, "what is taken may become less from one day to the next");
    let found = rows.intervals(&ReleaseEvaluation::default(), &mut |_| Ok::<_, ()>(()));
    assert_eq!(found, Ok(None));
}

#[test]
fn multi_day_keys_use_definition_of_their_day() {
    let (predictions, outcomes) = days(1);
    let (predictions, outcomes) =
        (testing::predictions(&predictions, true), testing::outcomes(&outcomes, false));
    let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
    let by = |label: &str| {
        let task = Task::Binary { positive_label: label.into() };
        BTreeMap::from([("v1".to_owned(), Definition::of(task))])
    };
    let mut evaluator = Evaluator::new(by("late")).with_intervals(Some(IntervalsOf::ALL));
    evaluator.add(&segment(&predictions), &segment(&outcomes)).unwrap();
    let before = evaluator.bytes();
    evaluator.next_day(by("on time")).unwrap();
    evaluator.add(&segment(&predictions), &segment(&outcomes)).unwrap();
    assert_eq!(evaluator.bytes(), 2 * before);
    let release = evaluator.finish().releases.remove("v1").unwrap();
    let intervals = release.intervals.as_ref().unwrap();
    assert_eq!((intervals.keys, intervals.estimates["accuracy"].n), (20, 40));
    // A prediction right by one label is wrong by the other, so each draw has an accuracy of one half.
    assert_eq!(release.metric(Metric::named("accuracy").unwrap()), Some(0.5));
    assert_eq!(intervals.estimates["accuracy"].interval, Some((0.5, 0.5)));
}

#[test]
fn interval_is_independent_of_other_requested_metrics() {
    let (predictions, outcomes) = days(1);
    let (predictions, outcomes) =
        (testing::predictions(&predictions, true), testing::outcomes(&outcomes, false));
    let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
    let asked = |of: IntervalsOf| {
        let by = BTreeMap::from([("v1".to_owned(), Definition::of(binary()))]);
        let mut evaluator = Evaluator::new(by).with_intervals(Some(of));
        evaluator.add(&segment(&predictions), &segment(&outcomes)).unwrap();
        let mut steps = 0;
        let count = &mut |_| {
            steps += 1;
            Ok::<_, Infallible>(())
        };
        let Ok(found) = evaluator.finish_while(count);
        let (_, release) = found.buckets.into_iter().next().unwrap();
        (release.intervals.unwrap(), steps)
    };
    let (all, _) = asked(IntervalsOf::ALL);
    for (metric, draws) in [("accuracy", 0), ("auc", 0), ("f1", MAX_DRAWS)] {
        let (of_one, steps) = asked(IntervalsOf::default().and(Metric::named(metric).unwrap()));
        assert_eq!(of_one.estimates, BTreeMap::from([(metric, all.estimates[metric])]));
        assert_eq!((of_one.keys, steps), (all.keys, 1 + draws), "{metric}");
    }
    assert_eq!(asked(IntervalsOf::default()).0, Intervals { keys: 20, estimates: BTreeMap::new() });
}

#[test]
fn only_the_shown_release_gets_intervals() {
    let (rows, outcomes) = days(1);
    let others = rows.iter().map(|row| Prediction { release: "v2", ..row.clone() });
    let both: Vec<Prediction> = rows.iter().cloned().chain(others).collect();
    let (predictions, outcomes) = (testing::predictions(&both, true), testing::outcomes(&outcomes, false));
    let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
    let asked = |shown: Option<&str>| {
        let by = ["v1", "v2"].map(|name| (name.to_owned(), Definition::of(binary())));
        let evaluator = Evaluator::new(by.clone().into()).with_intervals(Some(IntervalsOf::ALL));
        let mut evaluator = evaluator.with_intervals_of(shown.map(str::to_owned));
        evaluator.add(&segment(&predictions), &segment(&outcomes)).unwrap();
        // One more day, as in a window.
        evaluator.next_day(by.into()).unwrap();
        evaluator.finish().releases
    };
    let all = asked(None);
    let mut of_one = asked(Some("v2"));
    assert_eq!(of_one["v1"].intervals, None);
    let of_both = |name: &str| all[name].intervals.clone();
    assert!(of_both("v1").is_some());
    of_one.get_mut("v1").unwrap().intervals = of_both("v1");
    assert_eq!(of_one, all);
}

#[test]
fn drawing_ends_on_request() {
    let (predictions, outcomes) = days(1);
    let (predictions, outcomes) =
        (testing::predictions(&predictions, true), testing::outcomes(&outcomes, false));
    let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
    let asked_before_it_ends = |most: usize| {
        let by = BTreeMap::from([("v1".to_owned(), Definition::of(binary()))]);
        let mut evaluator = Evaluator::new(by).with_intervals(Some(IntervalsOf::ALL));
        evaluator.add(&segment(&predictions), &segment(&outcomes)).unwrap();
        let mut asked = Vec::new();
        let finished = evaluator.finish_while(&mut |rows| {
            asked.push(rows);
            if asked.len() < most { Ok(()) } else { Err("enough") }
        });
        (finished.map(|found| found.buckets.len()), asked)
    };
    assert_eq!(asked_before_it_ends(3), (Err("enough"), vec![20, 520, 520]), "it draws no more");
    // One call for the predictions alone, then one for each draw.
    let (finished, asked) = asked_before_it_ends(usize::MAX);
    assert_eq!((finished, asked.len()), (Ok(1), 1 + MAX_DRAWS));
}

#[test]
fn class_scores_have_intervals_and_add_work() {
    let of_key = |(n, key): (usize, &&'static str)| {
        let p = 0.2 + n as f64 / 40.0;
        let scores = vec![("a", p), ("b", 0.5 * (1.0 - p)), ("c", 0.5 * (1.0 - p))];
        Prediction { release: "v1", key, scores, ..Prediction::default() }
    };
    let predictions: Vec<_> = KEYS.iter().enumerate().map(of_key).collect();
    let label = |n: usize| Some(["b", "a", "c", "a"][n % 4]);
    let outcomes: Vec<_> = KEYS
        .iter()
        .enumerate()
        .map(|(n, key)| Outcome { key, label: label(n), ..Outcome::default() })
        .collect();
    let found = intervals(Task::Multiclass, &predictions, &outcomes, 0);
    assert_eq!(intervals(Task::Multiclass, &predictions, &outcomes, 2), found);
    for metric in ["auc", "log_loss", "top_2_accuracy", "accuracy", "macro_f1"] {
        let estimate = found.estimates[metric];
        assert!(estimate.n == 20 && estimate.interval.is_some_and(|(low, high)| low < high), "{metric}");
    }
    let mut rows = Rows::new(&Definition::of(Task::Multiclass), Instead::default(), IntervalsOf::ALL);
    let (columns, outcomes) = (testing::predictions(&predictions, true), testing::outcomes(&outcomes, true));
    let segment = |columns| LogSegment { place: LogPosition::of(0, 1), columns };
    let (left, right) = (View::read(&segment(&columns)).unwrap(), View::read(&segment(&outcomes)).unwrap());
    let at = crate::RowRef { segment: 0, row: 0 };
    rows.keep("a", &left.fields(at), &right.fields(at));
    assert_eq!(rows.work, 4, "the prediction and its three scores");
    assert!(rows.bytes() > size_of::<Row>() + 3 * 8);
}
