//! Every figure against what scikit-learn, scipy and NannyML say; `tests/reference/make.py` made it.

use std::{collections::BTreeMap, fs, path::PathBuf};

use event::{Definition, Task, lane::Place};
use serde_json::Value;

use super::*;
use crate::{
    LogSegment, evaluate,
    testing::{self, Outcome, Prediction},
};

/// How close two implementations must be.
const TOLERANCE: f64 = 1e-9;

/// A case: predictions of some releases, and outcomes.
struct Case {
    predictions: Vec<Prediction>,
    outcomes: Vec<Outcome>,
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference"))
}

impl Case {
    fn read(name: &str) -> Self {
        let text = fs::read_to_string(folder().join(format!("data/{name}.csv"))).unwrap();
        let mut lines = String::leak(text).lines();
        assert_eq!(lines.next(), Some("release,key,score,label,value,outcome,outcome_label,outcome_value"));
        let mut predictions = Vec::new();
        let mut outcomes = BTreeMap::new();
        for line in lines {
            let cells: Vec<Option<&'static str>> =
                line.split(',').map(|cell| (!cell.is_empty()).then_some(cell)).collect();
            let &[release, key, score, label, value, outcome, outcome_label, outcome_value] = &cells[..]
            else {
                panic!("{line}");
            };
            let number = |cell: Option<&str>| cell.map(|cell| cell.parse().unwrap());
            let key = key.unwrap();
            if let Some(release) = release {
                let (score, value) = (number(score), number(value));
                predictions.push(Prediction { release, key, score, label, value, ..Prediction::default() });
            }
            if outcome == Some("1") {
                let (label, value) = (outcome_label, number(outcome_value));
                outcomes.insert(key, Outcome { key, label, value, ..Outcome::default() });
            }
        }
        Self { predictions, outcomes: outcomes.into_values().collect() }
    }

    fn judge(&self, task: &str) -> Evaluation {
        let task = Task::parse(task, (task == "binary").then_some("late")).unwrap();
        let definition = |row: &Prediction| (row.release.to_owned(), Definition::of(task.clone()));
        let by = self.predictions.iter().map(definition).collect();
        let (predictions, outcomes) =
            (testing::predictions(&self.predictions, true), testing::outcomes(&self.outcomes, false));
        let segment = |columns| [LogSegment { place: Place::of(0, 1), columns }];
        evaluate(&segment(&predictions), &segment(&outcomes), &by).unwrap()
    }
}

/// A tiny number must agree in its own size.
fn is_close(found: f64, expected: f64) -> bool {
    let size =
        if expected != 0.0 && expected.abs() < 1e-100 { expected.abs() } else { expected.abs().max(1.0) };
    (found - expected).abs() <= TOLERANCE * size
}

#[test]
fn every_figure_agrees_with_its_reference() {
    let reference: Value =
        serde_json::from_str(&fs::read_to_string(folder().join("figures.json")).unwrap()).unwrap();
    // Texts say what was asked for.
    let numbers = || FIGURES.iter().filter(|figure| !matches!(figure.getter, Getter::Text(_)));
    let (mut unknown, mut wrong, mut compared) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    for (name, case) in reference["cases"].as_object().unwrap() {
        let evaluation = Case::read(name).judge(case["task"].as_str().unwrap());
        let rows: BTreeMap<_, _> = evaluation.rows().map(|row| (row.name.unwrap(), row)).collect();
        let releases = case["releases"].as_object().unwrap();
        assert_eq!(releases.keys().collect::<Vec<_>>(), rows.keys().collect::<Vec<_>>(), "{name}");
        for (release, expected) in releases {
            let expected = expected.as_object().unwrap();
            unknown.extend(expected.keys().filter(|figure| Figure::named(figure).is_none()));
            for figure in numbers() {
                let expected = expected.get(figure.name).and_then(Value::as_f64);
                let found = match figure.getter {
                    Getter::Text(_) => None,
                    Getter::Count(read) => read(&rows[release.as_str()]).map(|count| count as f64),
                    Getter::Number(read) => read(&rows[release.as_str()]),
                };
                match (found, expected) {
                    (Some(found), Some(expected)) if is_close(found, expected) => {
                        compared.insert(figure.name);
                    }
                    (None, None) => {}
                    _ => wrong.push(format!("{name} {release} {figure:?}: {found:?} is not {expected:?}")),
                }
            }
        }
    }
    assert_eq!(wrong, [""; 0], "{} are wrong", wrong.len());
    assert!(unknown.is_empty(), "there are no figures {unknown:?}");
    let missing: Vec<&str> =
        numbers().map(|figure| figure.name).filter(|name| !compared.contains(name)).collect();
    assert_eq!(missing, [""; 0], "have no reference; tests/reference/make.py makes them");
}
