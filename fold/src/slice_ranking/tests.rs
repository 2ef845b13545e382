use std::collections::BTreeMap;

use event::{Costs, Definition, Task, lane::LogPosition};
use proptest::{collection::vec, prelude::*};
use serde::Deserialize;

use super::*;
use crate::{
    Evaluation, LogSegment, Metric, evaluate,
    evaluation::{By, Evaluator, Grouping, Value},
    metric::Method,
    testing::{self, Outcome, Prediction},
};

#[derive(Deserialize)]
struct Reference {
    shares: Vec<Shares>,
    means: Vec<Means>,
    scores: Vec<Scores>,
    classes: Vec<Classes>,
    ranked: ReferenceRanking,
}

#[derive(Deserialize)]
struct Shares {
    right: [u64; 2],
    n: [u64; 2],
    p_value: Option<f64>,
}

#[derive(Deserialize)]
struct Means {
    numbers: [Vec<f64>; 2],
    p_value: Option<f64>,
}

/// Probabilities of a slice and of the rest, each with its truth, and the p-values by metric.
#[derive(Deserialize)]
struct Scores {
    rows: [Vec<(f64, u8)>; 2],
    auc: Option<f64>,
    brier: Option<f64>,
    log_loss: Option<f64>,
}

/// Probabilities of three classes, each with the number of the real one.
#[derive(Deserialize)]
struct Classes {
    rows: [Vec<([f64; 3], usize)>; 2],
    log_loss: Option<f64>,
}

/// Slices of one release, each with its number of right predictions and of all.
#[derive(Deserialize)]
struct ReferenceRanking {
    slices: Vec<(String, u64, u64)>,
    says: Vec<(String, f64, f64)>,
}

fn reference() -> Reference {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference/slices.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn is_close(found: f64, said: f64) -> bool {
    (found - said).abs() <= 1e-9 * said
}

fn agree(found: Option<f64>, said: Option<f64>) -> bool {
    match (found, said) {
        (Some(found), Some(said)) => is_close(found, said),
        (found, said) => found == said,
    }
}

fn of_numbers(numbers: &[f64]) -> Evidence {
    let squares = numbers.iter().map(|number| number * number).sum();
    Evidence::Mean { n: numbers.len() as u64, sum: numbers.iter().sum(), squares }
}

/// Returns the evidence of the rest as all less the slice, as in an answer.
fn of_rest(slice: Evidence, rest: Evidence) -> Evidence {
    let mut whole = slice;
    whole += rest;
    whole - slice
}

#[test]
fn tests_are_those_of_statsmodels_and_scipy() {
    let reference = reference();
    assert!(reference.shares.len() > 20 && reference.means.len() > 6);
    for case in reference.shares {
        let [slice, rest] = [0, 1].map(|at| Evidence::Share { right: case.right[at], n: case.n[at] });
        let found = slice.p_value(&of_rest(slice, rest));
        assert!(agree(found, case.p_value), "{slice:?}, {rest:?}: {found:?} for {:?}", case.p_value);
    }
    for case in reference.means {
        let [slice, rest] = case.numbers.each_ref().map(|numbers| of_numbers(numbers));
        let found = slice.p_value(&of_rest(slice, rest));
        assert!(agree(found, case.p_value), "{:?}: {found:?} for {:?}", case.numbers, case.p_value);
    }
    assert_eq!(of_numbers(&[1.0]).p_value(&Evidence::Share { right: 1, n: 2 }), None);
}

/// Returns the samples of a slice and of all predictions by a metric, given the slice and the rest.
fn of_slice(metric: &str, rows: [Vec<(Prediction, &'static str)>; 2], task: Task) -> [Sample; 2] {
    let (mut predictions, mut outcomes) = (Vec::new(), Vec::new());
    for (tag, (prediction, label)) in ["slice", "rest"]
        .into_iter()
        .zip(rows)
        .flat_map(|(tag, rows)| rows.into_iter().map(move |row| (tag, row)))
    {
        // Keys of the testing module are static.
        let key: &'static str = format!("k{}", outcomes.len()).leak();
        predictions.push(Prediction { release: "v1", key, tag: Some(tag), ..prediction });
        outcomes.push(Outcome { key, label: Some(label), ..Outcome::default() });
    }
    let (predictions, outcomes) =
        (testing::predictions(&predictions, true), testing::outcomes(&outcomes, true));
    let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
    let metric = Metric::named(metric).unwrap();
    let by = vec![By::Texts { column: "tag.t".into(), kept: None }];
    let grouping = Grouping { by, ..Grouping::default() };
    let definitions = BTreeMap::from([("v1".to_owned(), Definition::of(task))]);
    let evaluator = Evaluator::new(definitions).dealt_by(&[Arc::new(grouping)]).tested_by(metric.tested);
    let mut evaluator = evaluator;
    evaluator.add(&segment(&predictions), &segment(&outcomes)).unwrap();
    let buckets = evaluator.finish_buckets();
    let slice = buckets.more[0].iter().find(|(bucket, _)| bucket.values == [Value::Text("slice".into())]);
    [&slice.unwrap().1, &buckets.buckets[0].1].map(|of| sample(metric.name, std::slice::from_ref(of)))
}

fn p_value_of_slice(metric: &str, rows: [Vec<(Prediction, &'static str)>; 2], task: Task) -> Option<f64> {
    let [slice, whole] = of_slice(metric, rows, task);
    slice.p_value(&whole)
}

fn of_scores(rows: &[Vec<(f64, u8)>; 2]) -> [Vec<(Prediction, &'static str)>; 2] {
    let prediction = |score| Prediction { score: Some(score), ..Prediction::default() };
    let label = |real: u8| ["not", "late"][usize::from(real)];
    rows.each_ref().map(|rows| rows.iter().map(|(score, real)| (prediction(*score), label(*real))).collect())
}

#[test]
fn score_tests_match_scipy_and_delong() {
    let reference = reference();
    assert!(reference.scores.len() > 10 && reference.classes.len() > 2);
    let late = || Task::Binary { positive_label: "late".into() };
    for case in &reference.scores {
        for (metric, said) in [("auc", case.auc), ("brier", case.brier), ("log_loss", case.log_loss)] {
            let found = p_value_of_slice(metric, of_scores(&case.rows), late());
            assert!(agree(found, said), "{metric} of {:?}: {found:?} for {said:?}", case.rows);
        }
    }
    let class = |at: usize| ["a", "b", "c"][at];
    for case in &reference.classes {
        let row = |(scores, real): &([f64; 3], usize)| {
            let scores = scores.iter().enumerate().map(|(at, score)| (class(at), *score)).collect();
            (Prediction { scores, ..Prediction::default() }, class(*real))
        };
        let rows = || case.rows.each_ref().map(|rows| rows.iter().map(row).collect());
        let found = p_value_of_slice("log_loss", rows(), Task::Multiclass);
        assert!(agree(found, case.log_loss), "{:?}: {found:?} for {:?}", case.rows, case.log_loss);
        // The mean of the areas of several classes has no variance by DeLong.
        assert_eq!(p_value_of_slice("auc", rows(), Task::Multiclass), None);
    }
}

/// A class without a score in a prediction has the score 0, as in the mean.
#[test]
fn losses_of_classes_without_scores_count() {
    let row = |scores: &[(&'static str, f64)], real| {
        (Prediction { scores: scores.to_vec(), ..Prediction::default() }, real)
    };
    let slice = vec![row(&[("a", 0.5), ("b", 0.5)], "c"), row(&[("a", 1.0)], "a"), row(&[("b", 0.25)], "b")];
    let [slice, whole] = of_slice("log_loss", [slice, vec![row(&[("a", 0.5)], "a")]], Task::Multiclass);
    let losses = [-f64::EPSILON.ln(), -(1.0 - f64::EPSILON).ln(), -0.25f64.ln(), -0.5f64.ln()];
    for (sample, losses) in [(slice, &losses[..3]), (whole, &losses)] {
        let (Some(Evidence::Mean { n, sum, squares }), Evidence::Mean { sum: all, squares: of_all, .. }) =
            (sample.evidence(), of_numbers(losses))
        else {
            panic!("{sample:?}")
        };
        assert_eq!(n as usize, losses.len());
        assert!(
            (sum - all).abs() < 1e-12 && (squares - of_all).abs() < 1e-9,
            "{sum} {all} {squares} {of_all}"
        );
        assert!((sample.value().unwrap() - sum / n as f64).abs() < 1e-12);
    }
}

/// Scores are only kept if a test is requested.
#[test]
fn scores_are_kept_for_tests_alone() {
    let rows = || of_scores(&reference().scores[0].rows);
    let late = || Task::Binary { positive_label: "late".into() };
    let kept =
        |metric: &str| of_slice(metric, rows(), late()).map(|of| (of.evidence.is_some(), of.curve.is_some()));
    assert_eq!(kept("auc"), [(false, true); 2]);
    assert_eq!(kept("brier"), [(true, false); 2]);
    assert_eq!(kept("log_loss"), [(true, false); 2]);
    assert_eq!(kept("ks"), [(false, false); 2]);
    // The area of several results together is the mean of theirs, which has no curve and so no variance.
    let [slice, whole] = of_slice("auc", rows(), late());
    assert!(slice.p_value(&whole).is_some());
    let twice = Sample { results: 2, ..whole };
    assert_eq!((slice.p_value(&twice), twice.p_value(&slice)), (None, None));
}

/// Returns a day on which a release predicted all as positive, and `right` of `n` were.
fn binary(right: u64, n: u64) -> ReleaseEvaluation {
    let names: Vec<String> = (0..n).map(|key| format!("k{key}")).collect();
    let rows: Vec<(&str, Option<f64>, &str)> = (0..n as usize)
        .map(|at| (&*names[at], Some(0.9), if at < right as usize { "late" } else { "not" }))
        .collect();
    judged(&rows, Task::Binary { positive_label: "late".into() }, None)
}

fn judged(rows: &[(&str, Option<f64>, &str)], task: Task, costs: Option<&str>) -> ReleaseEvaluation {
    let rows: Vec<_> =
        rows.iter().map(|(key, score, label)| (key.to_string(), *score, label.to_string())).collect();
    // Test data outlives all tests: keys of the testing module are static.
    let leak = |text: &String| -> &'static str { text.clone().leak() };
    let predictions: Vec<Prediction> = rows
        .iter()
        .map(|(key, score, _)| Prediction {
            release: "v1",
            key: leak(key),
            score: *score,
            ..Prediction::default()
        })
        .collect();
    let outcomes: Vec<Outcome> = rows
        .iter()
        .map(|(key, _, label)| Outcome { key: leak(key), label: Some(leak(label)), ..Outcome::default() })
        .collect();
    let definition =
        Definition { costs: costs.and_then(|costs| Costs::parse(costs).ok()), ..Definition::of(task) };
    of_day(&predictions, &outcomes, definition)
}

fn of_day(predictions: &[Prediction], outcomes: &[Outcome], definition: Definition) -> ReleaseEvaluation {
    let (predictions, outcomes) =
        (testing::predictions(predictions, true), testing::outcomes(outcomes, true));
    let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
    let by = BTreeMap::from([("v1".to_owned(), definition)]);
    let evaluation: Evaluation = evaluate(&segment(&predictions), &segment(&outcomes), &by).unwrap();
    evaluation.releases["v1"].clone()
}

fn sample(metric: &str, days: &[ReleaseEvaluation]) -> Sample {
    let mut sample = Sample::new(&AnyMetric::named(metric).unwrap());
    days.iter().for_each(|day| sample.add(day));
    sample
}

#[test]
fn worst_slice_ranks_first_with_reference_p_values() {
    let ReferenceRanking { slices, says } = reference().ranked;
    let (right, n) = slices.iter().fold((0, 0), |sum, slice| (sum.0 + slice.1, sum.1 + slice.2));
    let whole = sample("accuracy", &[binary(right, n)]);
    let samples: Vec<_> =
        slices.iter().map(|(label, right, n)| (label, sample("accuracy", &[binary(*right, *n)]))).collect();
    let of = samples.iter().map(|(label, sample)| ((*label).clone(), sample, &whole));
    let found = ranked(of, Direction::Max, 30);
    assert!(says.len() > 3);
    for (slice, (label, p_value, p_adjusted)) in found.iter().zip(&says) {
        assert_eq!(&slice.label, label);
        assert!(is_close(slice.p_value.unwrap(), *p_value), "{slice:?}");
        assert!(is_close(slice.p_adjusted.unwrap(), *p_adjusted), "{slice:?}");
        assert!((slice.gap() - (slice.value - right as f64 / n as f64)).abs() < 1e-15);
    }
    // The slice that is too small to be ranked comes last, however bad it is, and does not count as a test.
    let [last] = &found[says.len()..] else { panic!("{found:?}") };
    assert_eq!((last.n, last.is_ranked, last.p_value, last.p_adjusted), (5, false, None, None));
    // For a metric that is better when less, the greatest comes first.
    let least =
        ranked(samples.iter().map(|(label, sample)| ((*label).clone(), sample, &whole)), Direction::Min, 30);
    assert_eq!(least[0].label, says[says.len() - 1].0);
}

#[test]
fn slice_evidence_of_means_adds_up_over_days() {
    let rows = [
        ("a", Some(0.9), "late"),
        ("b", Some(0.8), "not"),
        ("c", Some(0.1), "late"),
        ("d", Some(0.2), "not"),
    ];
    let task = || Task::Binary { positive_label: "late".into() };
    let days = [
        judged(&rows[..1], task(), Some("tp=3,tn=1,fp=2,fn=5")),
        judged(&rows[1..], task(), Some("tp=3,tn=1,fp=2,fn=5")),
    ];
    let found = sample("value_per_prediction", &days);
    assert_eq!(found.evidence(), Some(of_numbers(&[3.0, -2.0, -5.0, 1.0])));
    let number = |key, value, real| {
        let prediction = Prediction { release: "v1", key, value: Some(value), ..Prediction::default() };
        let outcome = Outcome { key, value: Some(real), ..Outcome::default() };
        of_day(&[prediction], &[outcome], Definition::of(Task::Regression))
    };
    let found = sample("mae", &[number("a", 1.0, 3.0), number("b", 2.0, 1.0), number("c", 4.0, 4.0)]);
    assert_eq!(found.evidence(), Some(of_numbers(&[2.0, 1.0, 0.0])));
    // A metric with only its value stored has no evidence, nor has a sum of days of which one has none.
    assert_eq!(sample("brier", &days).evidence(), None);
    let mixed = [judged(&rows[..1], task(), Some("tp=3,fp=2")), judged(&rows[1..], task(), None)];
    assert!(sample("value_per_prediction", &mixed[..1]).evidence().is_some());
    assert_eq!(sample("accuracy", &days).n(), 4);
    // Only predicted positives count for precision.
    assert_eq!((sample("precision", &days).n(), sample("recall", &days).n()), (2, 2));
    assert_eq!(sample("precision", &days).value(), Some(0.5));
}

/// Each metric that can rank slices has a test if it is a share, as its method of Wilson shows.
#[test]
fn shares_have_tests() {
    for metric in Metric::ranking_ones() {
        assert!(metric.method != Some(Method::Wilson) || metric.evidence.is_some(), "{metric:?}");
    }
}

proptest! {
    /// A p-value is a probability, and a slice equal to the rest does not differ from it.
    #[test]
    fn p_values_are_probabilities(right in vec(0u64..40, 2), more in vec(0u64..40, 2)) {
        let slice = Evidence::Share { right: right[0], n: right[0] + more[0] };
        let rest = Evidence::Share { right: right[1], n: right[1] + more[1] };
        if let Some(p) = slice.p_value(&rest) {
            prop_assert!((0.0..=1.0).contains(&p));
            prop_assert_eq!(Some(p), rest.p_value(&slice));
        }
        prop_assert!(slice.p_value(&slice).is_none_or(|p| p == 1.0));
    }
}
