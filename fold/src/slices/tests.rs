use std::collections::BTreeMap;

use event::{Costs, Definition, Task, lane::Place};
use proptest::{collection::vec, prelude::*};
use serde::Deserialize;

use super::*;
use crate::{
    Evaluation, Figure, LogSegment, evaluate,
    figure::Method,
    testing::{self, Outcome, Prediction},
};

#[derive(Deserialize)]
struct Reference {
    shares: Vec<Shares>,
    means: Vec<Means>,
    ranked: RankedSays,
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

/// Slices of one release: of each, how many are right among how many.
#[derive(Deserialize)]
struct RankedSays {
    slices: Vec<(String, u64, u64)>,
    says: Vec<(String, f64, f64)>,
}

fn reference() -> Reference {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference/segments.json");
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

/// The rest is what all have less what the slice has, as in an answer.
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

/// A day on which a release said all to be positive, and so many of so many were.
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
    let segment = |columns| [LogSegment { place: Place::of(0, 1), columns }];
    let by = BTreeMap::from([("v1".to_owned(), definition)]);
    let evaluation: Evaluation = evaluate(&segment(&predictions), &segment(&outcomes), &by).unwrap();
    evaluation.releases["v1"].clone()
}

fn sample(figure: &str, days: &[ReleaseEvaluation]) -> Sample {
    let mut sample = Sample::new(&AnyFigure::named(figure).unwrap());
    days.iter().for_each(|day| sample.add(day));
    sample
}

#[test]
fn the_worst_slice_comes_first_with_p_values_of_the_reference() {
    let RankedSays { slices, says } = reference().ranked;
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
    // Behind them stands what is too small to be ranked, however bad it is, and is no test among the tests.
    let [last] = &found[says.len()..] else { panic!("{found:?}") };
    assert_eq!((last.n, last.is_ranked, last.p_value, last.p_adjusted), (5, false, None, None));
    // Of what is better when it is less the greatest stands first.
    let least =
        ranked(samples.iter().map(|(label, sample)| ((*label).clone(), sample, &whole)), Direction::Min, 30);
    assert_eq!(least[0].label, says[says.len() - 1].0);
}

#[test]
fn what_single_predictions_say_of_a_mean_adds_up_over_days() {
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
    // A figure of which nothing but the value is stored has none, and so has a sum of days of which one has none.
    assert_eq!(sample("brier", &days).evidence(), None);
    let mixed = [judged(&rows[..1], task(), Some("tp=3,fp=2")), judged(&rows[1..], task(), None)];
    assert!(sample("value_per_prediction", &mixed[..1]).evidence().is_some());
    assert_eq!(sample("accuracy", &days).n(), 4);
    // Of precision only what was said to be positive counts.
    assert_eq!((sample("precision", &days).n(), sample("recall", &days).n()), (2, 2));
    assert_eq!(sample("precision", &days).value(), Some(0.5));
}

/// Each figure by which slices can be ranked has a test if it is a share: the interval of Wilson says that it is one.
#[test]
fn shares_have_tests() {
    for figure in Figure::ranking_ones() {
        assert!(figure.method != Some(Method::Wilson) || figure.evidence.is_some(), "{figure:?}");
    }
}

proptest! {
    /// A p-value is a probability, and a slice like the rest is not far from it.
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
