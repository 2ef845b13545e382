//! Metrics compared with the results of scikit-learn, scipy and NannyML, which `tests/reference/make.py` computed, and
//! with those of pytrec_eval by `tests/reference/groups.py`.

use std::{collections::BTreeMap, fs, path::PathBuf};

use event::{Costs, CustomMetric, Definition, Task, lane::LogPosition};
use serde_json::Value;

use super::*;
use crate::{
    LogSegment,
    evaluation::{Evaluator, IntervalsOf},
    testing::{self, Outcome, Prediction},
};

/// Maximum difference of two implementations.
const TOLERANCE: f64 = 1e-9;

/// A case: predictions of some releases, and outcomes.
struct Case {
    predictions: Vec<Prediction>,
    outcomes: Vec<Outcome>,
    has_intervals: bool,
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference"))
}

impl Case {
    fn read(name: &str) -> Self {
        let text = fs::read_to_string(folder().join(format!("data/{name}.csv"))).unwrap();
        let mut lines = String::leak(text).lines();
        let header: Vec<&'static str> = lines.next().unwrap().split(',').collect();
        let known =
            ["release", "key", "score", "label", "value", "outcome", "outcome_label", "outcome_value"];
        assert_eq!(header[..known.len()], known);
        let mut predictions = Vec::new();
        let mut outcomes = BTreeMap::new();
        for line in lines {
            let cells: Vec<Option<&'static str>> =
                line.split(',').map(|cell| (!cell.is_empty()).then_some(cell)).collect();
            let (&[release, key, score, label, value, outcome, outcome_label, outcome_value], more) =
                cells.split_first_chunk::<8>().unwrap();
            let more: BTreeMap<&'static str, f64> = header[known.len()..]
                .iter()
                .zip(more)
                .filter_map(|(name, cell)| Some((*name, cell.as_ref()?.parse().unwrap())))
                .collect();
            let class = |(name, score): (&&'static str, &f64)| Some((name.strip_prefix("score.")?, *score));
            let number = |cell: Option<&str>| cell.map(|cell| cell.parse().unwrap());
            let key = key.unwrap();
            if let Some(release) = release {
                let (score, value) = (number(score), number(value));
                predictions.push(Prediction {
                    release,
                    key,
                    at: 0,
                    score,
                    label,
                    value,
                    lower: more.get("lower").copied(),
                    upper: more.get("upper").copied(),
                    scores: more.iter().filter_map(class).collect(),
                    ..Prediction::default()
                });
            }
            if outcome == Some("1") {
                let (label, value) = (outcome_label, number(outcome_value));
                outcomes.insert(key, Outcome { key, label, value, ..Outcome::default() });
            }
        }
        Self { predictions, outcomes: outcomes.into_values().collect(), has_intervals: false }
    }

    fn judge(&self, task: &str, threshold: Option<f64>) -> Evaluation {
        let task = Task::parse(task, (task == "binary").then_some("late")).unwrap();
        let reference = reference();
        let (costs, level) = (reference["costs"].as_str().unwrap(), reference["interval_level"].as_f64());
        let definition = Definition {
            costs: Costs::parse(costs).ok().filter(|_| task.is_binary()),
            interval_level: level.filter(|_| task == Task::Regression),
            custom_metrics: custom_metrics(&reference),
            ..Definition::of(task.clone())
        };
        let definition = |row: &Prediction| (row.release.to_owned(), definition.clone());
        let by = self.predictions.iter().map(definition).collect();
        let (predictions, outcomes) =
            (testing::predictions(&self.predictions, true), testing::outcomes(&self.outcomes, false));
        let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
        let mut evaluator = Evaluator::new(by)
            .at_threshold(threshold)
            .with_intervals(self.has_intervals.then_some(IntervalsOf::ALL));
        evaluator.add(&segment(&predictions), &segment(&outcomes)).unwrap();
        evaluator.finish()
    }
}

/// Compares numbers; a tiny number must agree relative to its own size.
fn is_close(found: f64, expected: f64) -> bool {
    let size =
        if expected != 0.0 && expected.abs() < 1e-100 { expected.abs() } else { expected.abs().max(1.0) };
    (found - expected).abs() <= TOLERANCE * size
}

/// Returns the value of a metric that is not a text.
fn found(metric: &Metric, row: &Row<'_>, zero_division: Option<f64>) -> Option<f64> {
    match metric.getter {
        Getter::Text(_) => None,
        Getter::Count(read) => read(row).map(|count| count as f64),
        Getter::Number(_) => metric.number(row, zero_division),
    }
}

/// Comparison of metrics with their references.
#[derive(Default)]
struct Comparison {
    wrong: Vec<String>,
    compared: BTreeSet<&'static str>,
    unknown: BTreeSet<String>,
}

impl Comparison {
    fn compare(&mut self, metric: &'static Metric, found: Option<f64>, expected: Option<f64>, of: &str) {
        match (found, expected) {
            (Some(found), Some(expected)) if is_close(found, expected) => {
                self.compared.insert(metric.name);
            }
            (None, None) => {}
            _ => self.wrong.push(format!("{of} {metric:?}: {found:?} is not {expected:?}")),
        }
    }

    /// Compares the metrics in an object.
    fn compare_named(&mut self, expected: &Value, row: &Row<'_>, zero_division: Option<f64>, of: &str) {
        for (name, expected) in expected.as_object().unwrap() {
            let metric = Metric::named(name).unwrap();
            self.compare(metric, found(metric, row, zero_division), expected.as_f64(), of);
        }
    }
}

/// Parses the custom metrics of all cases.
fn custom_metrics(reference: &Value) -> Vec<CustomMetric> {
    let all = reference["custom"].as_object().unwrap().iter();
    let all = all.map(|(name, text)| CustomMetric::parse(name, text.as_str().unwrap()).unwrap());
    CustomMetric::together(all.collect()).unwrap()
}

fn reference() -> Value {
    serde_json::from_str(&fs::read_to_string(folder().join("metrics.json")).unwrap()).unwrap()
}

/// Returns all metrics but texts, which only echo the input.
fn numbers() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().filter(|metric| !matches!(metric.getter, Getter::Text(_)))
}

#[test]
fn custom_metrics_agree_with_their_references() {
    let reference = reference();
    let mut known = BTreeMap::<&str, usize>::new();
    for (name, case) in reference["cases"].as_object().unwrap() {
        let evaluation = Case::read(name).judge(case["task"].as_str().unwrap(), None);
        for (release, of) in case["releases"].as_object().unwrap() {
            let found = &evaluation.releases[release].custom;
            assert_eq!(found.len(), of["custom"].as_object().unwrap().len());
            for (metric, expected) in of["custom"].as_object().unwrap() {
                match (found[metric].value, expected.as_f64()) {
                    (Some(found), Some(expected)) if is_close(found, expected) => {
                        *known.entry(metric).or_default() += 1;
                    }
                    (None, None) => {}
                    (found, expected) => panic!("{name} {release} {metric}: {found:?} is not {expected:?}"),
                }
            }
        }
    }
    let compared: Vec<&str> = known.keys().copied().collect();
    let declared: Vec<&str> = reference["custom"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(compared, declared);
}

#[test]
fn every_metric_agrees_with_its_reference() {
    const APART: [&str; 5] = ["zero_division", "thresholds", "intervals", "bootstraps", "custom"];
    let mut all = Comparison::default();
    for (name, case) in reference()["cases"].as_object().unwrap() {
        let evaluation = Case::read(name).judge(case["task"].as_str().unwrap(), None);
        let rows: BTreeMap<_, _> = evaluation.rows().map(|row| (row.name.unwrap(), row)).collect();
        let releases = case["releases"].as_object().unwrap();
        assert_eq!(releases.keys().collect::<Vec<_>>(), rows.keys().collect::<Vec<_>>(), "{name}");
        for (release, expected) in releases {
            let (of, row) = (format!("{name} {release}"), &rows[release.as_str()]);
            let expected = expected.as_object().unwrap();
            let is_known = |name: &str| APART.contains(&name) || Metric::named(name).is_some();
            all.unknown.extend(expected.keys().filter(|name| !is_known(name)).cloned());
            for metric in numbers() {
                let expected = expected.get(metric.name).and_then(Value::as_f64);
                all.compare(metric, found(metric, row, None), expected, &of);
            }
        }
    }
    assert_eq!(all.wrong, [""; 0], "{} are wrong", all.wrong.len());
    assert!(all.unknown.is_empty(), "there are no metrics {:?}", all.unknown);
    let own = numbers().filter(|metric| metric.of != Of::Groups).map(|metric| metric.name);
    let missing: Vec<&str> = own.filter(|name| !all.compared.contains(name)).collect();
    assert_eq!(missing, [""; 0], "have no reference; tests/reference/make.py makes them");
}

#[test]
fn zero_division_metrics_agree_with_references() {
    let mut all = Comparison::default();
    for (name, case) in reference()["cases"].as_object().unwrap() {
        let evaluation = Case::read(name).judge(case["task"].as_str().unwrap(), None);
        for row in evaluation.rows() {
            let of_release = &case["releases"][row.name.unwrap()];
            for (word, zero) in [("0", 0.0), ("1", 1.0)] {
                if let Some(expected) = of_release.pointer(&format!("/zero_division/{word}")) {
                    all.compare_named(expected, &row, Some(zero), &format!("{name} by {word}"));
                }
            }
        }
    }
    assert_eq!(all.wrong, [""; 0]);
    let divided = METRICS.iter().filter(|metric| metric.divided.is_some()).map(|metric| metric.name);
    assert_eq!(all.compared, divided.collect());
}

#[test]
fn metrics_at_a_threshold_agree_with_their_references() {
    let mut all = Comparison::default();
    for (name, case) in reference()["cases"].as_object().unwrap() {
        if case["task"] != "binary" {
            continue;
        }
        for threshold in ["0.1", "0.3", "0.7"] {
            let evaluation = Case::read(name).judge("binary", Some(threshold.parse().unwrap()));
            for row in evaluation.rows() {
                let expected = &case["releases"][row.name.unwrap()]["thresholds"][threshold];
                all.compare_named(expected, &row, None, &format!("{name} at {threshold}"));
            }
        }
    }
    assert_eq!(all.wrong, [""; 0]);
    assert!(all.compared.len() >= 10, "{:?}", all.compared);
}

/// Maximum difference of percentile intervals, in widths of the interval: five times their error of about 2%, ours
/// and theirs, at this number of draws.
const DRAWN_TOLERANCE: f64 = 0.1;

#[test]
fn bootstraps_agree_with_scipy() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for (name, case) in reference()["cases"].as_object().unwrap() {
        let Some(expected) = case["releases"]["v1"]["bootstraps"].as_object() else { continue };
        let evaluation =
            Case { has_intervals: true, ..Case::read(name) }.judge(case["task"].as_str().unwrap(), None);
        let found = evaluation.releases["v1"].intervals.as_ref().unwrap();
        for (metric, ends) in expected {
            let (low, high) = found.estimates[metric.as_str()].interval.unwrap();
            let ends = [0, 1].map(|at| ends[at].as_f64().unwrap());
            let most = DRAWN_TOLERANCE * (ends[1] - ends[0]);
            if (low - ends[0]).abs() > most || (high - ends[1]).abs() > most {
                wrong.push(format!("{name} {metric}: {low} to {high} is not {ends:?}"));
            }
            assert_eq!(Metric::named(metric).unwrap().method, Some(Method::Bootstrap));
            compared += 1;
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(compared >= 10, "{compared}");
}

#[test]
fn intervals_agree_with_their_references() {
    let (mut compared, mut from_stored) = (BTreeSet::new(), BTreeSet::new());
    let mut wrong = Vec::new();
    let reference = reference();
    for (name, case) in reference["cases"].as_object().unwrap() {
        if name == "flights" {
            // This case has too many rows to draw from quickly.
            continue;
        }
        let evaluation =
            Case { has_intervals: true, ..Case::read(name) }.judge(case["task"].as_str().unwrap(), None);
        for (release, of) in &evaluation.releases {
            let intervals = of.intervals.as_ref().unwrap();
            assert_eq!(intervals.keys, of.judged(), "{name}: no key repeats");
            for (metric, expected) in case["releases"][release]["intervals"].as_object().into_iter().flatten()
            {
                let found = intervals.estimates.get(metric.as_str());
                let Some(expected) = expected.as_array() else {
                    assert_eq!(found, None, "{name} {metric}");
                    continue;
                };
                let found = found.unwrap_or_else(|| panic!("{name} {metric}"));
                let ends = expected[1].as_f64().zip(expected[2].as_f64());
                let is_right = match (found.interval, ends) {
                    (Some(found), Some(ends)) => is_close(found.0, ends.0) && is_close(found.1, ends.1),
                    (found, ends) => found == ends,
                };
                // The stored evidence gives the interval too, if it is sufficient.
                let stored = Metric::named(metric).and_then(|metric| of.evidence(metric)?.interval());
                let is_same = |stored: (f64, f64)| {
                    ends.is_some_and(|ends| is_close(stored.0, ends.0) && is_close(stored.1, ends.1))
                };
                if !is_right || found.n != expected[0] || stored.is_some_and(|stored| !is_same(stored)) {
                    wrong.push(format!("{name} {metric}: {found:?} is not {expected:?}"));
                }
                compared.insert(metric.clone());
                from_stored.extend(stored.map(|_| metric.clone()));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(["accuracy", "recall", "mae"].iter().all(|metric| from_stored.contains(*metric)));
    let formula = |metric: &&Metric| metric.method.is_some_and(|method| method != Method::Bootstrap);
    let all = METRICS.iter().filter(formula).filter(|metric| metric.of != Of::Groups);
    assert_eq!(compared, all.map(|metric| metric.name.to_owned()).collect());
}

/// Returns the predictions of a release that ranks, and the outcomes, of a case of `groups.json`.
fn items_of(case: &Value) -> (Vec<Prediction>, Vec<Outcome>) {
    let (mut predictions, mut outcomes) = (Vec::new(), Vec::new());
    for (instant, (name, items)) in (0..).zip(case["groups"].as_object().unwrap()) {
        let group: Option<&'static str> = Some(name.clone().leak());
        for item in items.as_array().unwrap() {
            let key: &'static str = item[0].as_str().unwrap().to_owned().leak();
            // A key is another item in each group.
            let prediction = Prediction { release: "v1", key, at: instant, ..Prediction::default() };
            predictions.push(Prediction { group, score: item[1].as_f64(), ..prediction });
            let value = item[2].as_f64();
            outcomes.extend(value.map(|_| Outcome { key, at: Some(instant), value, ..Outcome::default() }));
        }
    }
    (predictions, outcomes)
}

#[test]
fn group_metrics_agree_with_sklearn_and_trec_eval() {
    let cases = fs::read_to_string(folder().join("groups.json")).unwrap();
    let mut all = Comparison::default();
    for case in serde_json::from_str::<Vec<Value>>(&cases).unwrap() {
        let (predictions, outcomes) = items_of(&case);
        let (left, right) = (testing::predictions(&predictions, true), testing::outcomes(&outcomes, false));
        let definition = Definition::of(Task::parse("ranking", None).unwrap());
        let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
        let mut evaluator = Evaluator::new(BTreeMap::from([("v1".to_owned(), definition)]))
            .with_intervals(Some(IntervalsOf::ALL));
        evaluator.add(&segment(&left), &segment(&right)).unwrap();
        let evaluation = evaluator.finish();
        let row = evaluation.rows().next().unwrap();
        for metric in METRICS.iter().filter(|metric| metric.of == Of::Groups) {
            let expected = case["said"].get(metric.name).unwrap().as_f64();
            all.compare(metric, found(metric, &row, None), expected, &case["name"].to_string());
        }
        let intervals = evaluation.releases["v1"].intervals.as_ref().unwrap();
        let interval = intervals.estimates.get("ndcg").and_then(|estimate| estimate.interval);
        assert_eq!(interval.is_some(), case["said"]["interval"].is_array(), "{}", case["name"]);
        for (end, at) in interval.iter().flat_map(|(low, high)| [(low, 0), (high, 1)]) {
            let expected = case["said"]["interval"][at].as_f64().unwrap();
            assert!(is_close(*end, expected), "{}: {end} is not {expected}", case["name"]);
        }
    }
    assert_eq!(all.wrong, [""; 0]);
    assert_eq!(all.compared.len(), METRICS.iter().filter(|metric| metric.of == Of::Groups).count());
}
