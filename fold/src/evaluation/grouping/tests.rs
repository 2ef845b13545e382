use std::sync::Arc;

use event::{Columns, Definition, Task, lane::LogPosition};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::{
    FoldError,
    evaluation::{Buckets, Evaluator, IntervalsOf, ReleaseEvaluation},
    testing::{self, Outcome, Prediction},
};

const RELEASES: [&str; 3] = ["v1", "v2", "w1"];
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

pub(in crate::evaluation) fn definitions() -> BTreeMap<String, Definition> {
    let binary = |threshold| Definition {
        threshold,
        ..Definition::of(Task::Binary { positive_label: "late".into() })
    };
    [("v1", binary(0.5)), ("v2", binary(0.3)), ("w1", Definition::of(Task::Regression))]
        .map(|(name, definition)| (name.to_owned(), definition))
        .into()
}

/// Evaluates partition by partition.
fn evaluated(
    predictions: &[Prediction],
    outcomes: &[Outcome],
    grouping: Grouping,
    parts: usize,
) -> crate::Result<Buckets> {
    evaluated_with(predictions, outcomes, grouping, parts, false)
}

fn evaluated_with(
    predictions: &[Prediction],
    outcomes: &[Outcome],
    grouping: Grouping,
    parts: usize,
    has_intervals: bool,
) -> crate::Result<Buckets> {
    let grouping = Arc::new(grouping);
    let evaluator = Evaluator::new(definitions())
        .grouped(grouping)
        .with_intervals(has_intervals.then_some(IntervalsOf::ALL));
    Ok(fed(evaluator, &in_segments(predictions), outcomes, parts)?.finish_buckets())
}

/// Packs predictions as the segments of a log.
pub(in crate::evaluation) fn in_segments(predictions: &[Prediction]) -> Vec<Columns> {
    predictions.chunks(5).map(|rows| testing::predictions(rows, true)).collect()
}

/// Feeds all rows to the evaluator, partition by partition.
pub(in crate::evaluation) fn fed(
    mut evaluator: Evaluator,
    predictions: &[Columns],
    outcomes: &[Outcome],
    parts: usize,
) -> crate::Result<Evaluator> {
    let outcomes = testing::outcomes(outcomes, false);
    for number in 0..parts {
        let predictions: Vec<Columns> =
            predictions.iter().map(|columns| testing::part(columns, number, parts)).collect();
        let outcomes = testing::part(&outcomes, number, parts);
        let log = |(seq, columns)| LogSegment { place: LogPosition::of(0, seq), columns };
        let log: Vec<_> = (1..).zip(&predictions).map(log).collect();
        evaluator.add(&log, &[LogSegment { place: LogPosition::of(0, 1), columns: &outcomes }])?;
    }
    Ok(evaluator)
}

/// Returns the name under which the predictions of a release count while they are not evaluated.
fn other(release: &str) -> &'static str {
    match release {
        "v1" => "other than v1",
        "v2" => "other than v2",
        _ => "other than w1",
    }
}

fn by_tag() -> By {
    By::Texts { column: "tag.t".into(), kept: Some(["x".to_owned(), "y".to_owned()].into()) }
}

fn by_feature() -> By {
    By::Bins { column: "feature.f".into(), edges: vec![0.0, 10.0] }
}

fn value_of(by: &By, row: &Prediction) -> Value {
    match by {
        By::Texts { .. } => match row.tag {
            None => Value::Null,
            Some(tag @ ("x" | "y")) => Value::Text(tag.into()),
            Some(_) => Value::Others,
        },
        By::Bins { .. } => match row.feature {
            None => Value::Null,
            Some(number) if number < 0.0 => Value::Bin(0),
            Some(number) if number < 10.0 => Value::Bin(1),
            Some(_) => Value::Bin(2),
        },
    }
}

pub(in crate::evaluation) fn rows() -> impl Strategy<Value = Vec<Prediction>> {
    let row = (
        (select(RELEASES.to_vec()), select(KEYS.to_vec()), 0i64..30),
        select(vec![Some("x"), Some("y"), Some("z"), None]),
        select(vec![Some(-1.0), Some(0.0), Some(5.0), Some(10.0), None]),
        option::of(select(vec![0.1, 0.3, 0.4, 0.5, 0.9])),
    );
    vec(row, 0..40).prop_map(|rows| {
        let row = |((release, key, at), tag, feature, score)| Prediction {
            release,
            key,
            at,
            tag,
            feature,
            score,
            value: score,
            ..Prediction::default()
        };
        rows.into_iter().map(row).collect()
    })
}

pub(in crate::evaluation) fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
    let row =
        (select(KEYS.to_vec()), option::of(0i64..30), select(vec![Some("late"), Some("on time"), None]));
    vec(row, 0..12).prop_map(|rows| {
        let row = |(at, (key, of, label))| Outcome {
            key,
            at: of,
            observed: at,
            label,
            value: label.map(|_| 0.5),
            ..Outcome::default()
        };
        (0..).zip(rows).map(row).collect()
    })
}

/// Leaves out predictions that were sent again later.
fn distinct(rows: &[Prediction]) -> Vec<Prediction> {
    let same = |a: &Prediction, b: &Prediction| (a.release, a.key, a.at) == (b.release, b.key, b.at);
    let is_last = |at: usize| !rows[at + 1..].iter().any(|later| same(later, &rows[at]));
    (0..rows.len()).filter(|at| is_last(*at)).map(|at| rows[at].clone()).collect()
}

/// Clears the number of repeated predictions, which counts in the bucket of the superseded one.
fn without_repeated(of: &ReleaseEvaluation) -> ReleaseEvaluation {
    ReleaseEvaluation { repeated: 0, ..of.clone() }
}

/// Condition that keeps predictions with the tag `x`.
#[derive(Debug)]
struct OfX([String; 1]);

impl Condition for OfX {
    fn columns(&self) -> &[String] {
        &self.0
    }

    fn holds(&self, predictions: &[LogSegment<'_>]) -> crate::Result<Vec<bool>> {
        let of_row = |columns: &Columns, row| {
            columns.column(&self.0[0]).and_then(|column| column.text(row)) == Some("x")
        };
        let of_segment = |segment: &LogSegment<'_>| -> Vec<bool> {
            (0..segment.columns.rows).map(|row| of_row(segment.columns, row)).collect()
        };
        Ok(predictions.iter().flat_map(of_segment).collect())
    }
}

proptest! {
    /// A condition gives the result of the bucket of the same predictions.
    #[test]
    fn a_condition_keeps_a_bucket(predictions in rows(), outcomes in outcomes()) {
        let condition = Some(Arc::new(OfX(["tag.t".into()])) as Arc<dyn Condition>);
        let kept = Grouping { condition, ..Grouping::default() };
        let found = evaluated(&predictions, &outcomes, kept.clone(), 1).unwrap();
        prop_assert_eq!(&found, &evaluated(&predictions, &outcomes, kept, 2).unwrap());
        let by_tag = Grouping { by: vec![by_tag()], ..Grouping::default() };
        let mut by_tag = evaluated(&predictions, &outcomes, by_tag, 1).unwrap();
        by_tag.buckets.retain(|(bucket, _)| bucket.values == [Value::Text("x".into())]);
        by_tag.buckets.iter_mut().for_each(|(bucket, _)| bucket.values.clear());
        prop_assert_eq!(found.buckets, by_tag.buckets);
    }

    /// Buckets add up to the whole, and each has the metrics of an evaluation of its predictions alone.
    #[test]
    fn a_bucket_is_an_evaluation_of_its_predictions(predictions in rows(), outcomes in outcomes()) {
        let (borders, of_columns) = (vec![0, 10, 20], vec![by_tag(), by_feature()]);
        let by = Grouping { by: of_columns.clone(), borders, ..Grouping::default() };
        let found = evaluated(&predictions, &outcomes, by.clone(), 1).unwrap();
        prop_assert_eq!(&found, &evaluated(&predictions, &outcomes, by, 2).unwrap());
        let distinct = distinct(&predictions);
        let mut buckets = BTreeMap::<Bucket, Vec<Prediction>>::new();
        for row in distinct.iter().filter(|row| row.at < 20) {
            let values = of_columns.iter().map(|by| value_of(by, row)).collect();
            let period = (row.at / 10) as usize;
            buckets.entry(Bucket { period, name: row.release.into(), values }).or_default().push(row.clone());
        }
        let names: Vec<&Bucket> = found.buckets.iter().map(|(bucket, _)| bucket).collect();
        prop_assert_eq!(names, buckets.keys().collect::<Vec<_>>());
        for (bucket, of) in &found.buckets {
            // The other releases of the cell are included, as they meet.
            let cell = buckets.iter().filter(|(other, _)| (other.period, &other.values) == (bucket.period, &bucket.values));
            let alone: Vec<Prediction> = distinct.iter()
                .filter(|row| cell.clone().any(|(_, rows)| rows.iter().any(|one| (one.release, one.key, one.at) == (row.release, row.key, row.at))))
                .cloned().collect();
            let alone = evaluated(&alone, &outcomes, Grouping::default(), 1).unwrap();
            let alone = alone.buckets.iter().find(|(other, _)| other.name == bucket.name).unwrap();
            prop_assert_eq!(without_repeated(of), without_repeated(&alone.1), "{:?}", bucket);
        }
        // Each release is compared over all values.
        let all = Grouping { by: of_columns, ..Grouping::default() };
        let (all, whole) = (
            evaluated(&predictions, &outcomes, all, 1).unwrap(),
            evaluated(&predictions, &outcomes, Grouping::default(), 1).unwrap(),
        );
        prop_assert_eq!((all.outcomes, all.orphaned), (whole.outcomes, whole.orphaned));
        for (bucket, of) in &whole.buckets {
            let parts = all.buckets.iter().filter(|(part, _)| part.name == bucket.name);
            let sum = |count: fn(&ReleaseEvaluation) -> u64| parts.clone().map(|(_, part)| count(part)).sum::<u64>();
            prop_assert_eq!(sum(|of| of.predictions), of.predictions);
            prop_assert_eq!(sum(|of| of.labelled), of.labelled);
            prop_assert_eq!(sum(ReleaseEvaluation::judged), of.judged());
        }
    }

    /// Predictions of live releases and the rest add up to the whole.
    #[test]
    fn live_grouping_uses_time_of_prediction(predictions in rows(), outcomes in outcomes()) {
        let live: LiveSpans = [("v1".to_owned(), vec![(0, 5), (12, 20)]), ("v2".to_owned(), vec![(5, 12)])].into();
        let was_live = |row: &Prediction| match row.release {
            "v1" => row.at < 5 || (12..20).contains(&row.at),
            "v2" => (5..12).contains(&row.at),
            _ => false,
        };
        for is_live in [true, false] {
            let judged = Some(Judged { live: live.clone(), is_live });
            let found = evaluated(&predictions, &outcomes, Grouping { judged, ..Grouping::default() }, 1);
            // Predictions that are not evaluated are met as if other releases had made them.
            let renamed = |row: Prediction| match was_live(&row) == is_live {
                true => row,
                false => Prediction { release: other(row.release), ..row },
            };
            let all: Vec<_> = distinct(&predictions).into_iter().map(renamed).collect();
            let of_others = RELEASES.map(|name| (other(name).to_owned(), definitions()[name].clone()));
            let evaluator = Evaluator::new(definitions().into_iter().chain(of_others).collect());
            let mut alone = fed(evaluator, &in_segments(&all), &outcomes, 1).unwrap().finish_buckets();
            alone.buckets.retain(|(bucket, _)| RELEASES.contains(&&*bucket.name));
            let plain = |of: Buckets| -> Vec<_> {
                of.buckets.into_iter().map(|(bucket, of)| (bucket, without_repeated(&of))).collect()
            };
            prop_assert_eq!(plain(found.unwrap()), plain(alone));
        }
    }

    /// A pool has the counts of its releases together, each evaluated by its own definition, in any order.
    #[test]
    fn pool_evaluates_each_release_by_its_definition(predictions in rows(), outcomes in outcomes()) {
        let pools = [("v1", "m"), ("v2", "m"), ("w1", "w")].map(|(name, pool)| (name.to_owned(), pool.to_owned()));
        let pooled = Grouping { pools: Some(pools.into()), ..Grouping::default() };
        let found = evaluated(&predictions, &outcomes, pooled.clone(), 1).unwrap();
        prop_assert_eq!(&found, &evaluated(&predictions, &outcomes, pooled, 4).unwrap());
        let alone = evaluated(&predictions, &outcomes, Grouping::default(), 1).unwrap();
        for (bucket, of) in &found.buckets {
            let releases: Vec<_> = alone.buckets.iter()
                .filter(|(release, _)| (release.name == "w1") == (bucket.name == "w"))
                .map(|(_, of)| of).collect();
            prop_assert_eq!(of.predictions, releases.iter().map(|of| of.predictions).sum::<u64>());
            prop_assert_eq!(of.repeated, releases.iter().map(|of| of.repeated).sum::<u64>());
            let counts = |name: &str| releases.iter()
                .filter_map(|of| crate::Metric::named(name)?.count(of)).sum::<u64>();
            for name in ["tp", "fp", "tn", "fn", "positives"] {
                let found = crate::Metric::named(name).and_then(|metric| metric.count(of)).unwrap_or(0);
                prop_assert_eq!(found, counts(name), "{}", name);
            }
        }
    }
}

#[test]
fn buckets_and_pools_have_intervals() {
    let score = |n: usize| Some([0.1, 0.4, 0.6, 0.9][n % 4]);
    let tag = |n: usize| Some(["x", "y"][n % 2]);
    let row = |n: usize| Prediction {
        release: ["v1", "v2"][n / 2 % 2],
        key: KEYS[n % 5],
        at: n as i64,
        score: score(n),
        tag: tag(n),
        ..Prediction::default()
    };
    let rows: Vec<Prediction> = (0..24).map(row).collect();
    let outcomes: Vec<Outcome> = (0..5)
        .map(|n| Outcome { key: KEYS[n], label: Some(["late", "on time"][n % 2]), ..Outcome::default() })
        .collect();
    let run = |grouping: Grouping, rows: &[Prediction]| {
        [1, 2].map(|parts| evaluated_with(rows, &outcomes, grouping.clone(), parts, true).unwrap().buckets)
    };
    let [by_value, in_halves] = run(Grouping { by: vec![by_tag()], ..Grouping::default() }, &rows);
    assert_eq!(by_value, in_halves);
    assert_eq!(by_value.len(), 4);
    let of_x: Vec<Prediction> = rows.iter().filter(|row| row.tag == Some("x")).cloned().collect();
    let [alone, _] = run(Grouping::default(), &of_x);
    let accuracy = |of: &ReleaseEvaluation| of.intervals.clone().unwrap().estimates["accuracy"];
    assert_eq!(accuracy(&by_value[0].1), accuracy(&alone[0].1));
    assert!(accuracy(&alone[0].1).interval.is_some());
    let pools = [("v1", "m"), ("v2", "m")].map(|(name, pool)| (name.to_owned(), pool.to_owned()));
    let [pooled, in_halves] = run(Grouping { pools: Some(pools.into()), ..Grouping::default() }, &rows);
    assert_eq!(pooled, in_halves);
    assert_eq!(accuracy(&pooled[0].1).n, 24);
}

#[test]
fn releases_of_other_tasks_are_not_pooled() {
    let rows = [
        Prediction { release: "v1", key: "a", score: Some(0.5), ..Prediction::default() },
        Prediction { release: "w1", key: "a", value: Some(0.5), ..Prediction::default() },
    ];
    let pools = Some([("v1".to_owned(), "m".to_owned()), ("w1".to_owned(), "m".to_owned())].into());
    let found = evaluated(&rows, &[], Grouping { pools, ..Grouping::default() }, 1);
    assert_eq!(found, Err(FoldError::OtherTasks { pool: "m".into() }));
}
