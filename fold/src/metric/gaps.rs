//! Fairness of predictions: the gaps between the groups that the values of a column form, such as a tag.
//!
//! The definitions are those of fairlearn; `tests/reference/fairness.py` computes its results.

use crate::{evaluation::Measures, evaluation::ReleaseEvaluation, formulas::Confusion};

/// A gap between groups of the predictions of a binary task.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// Name of the gap and its column.
    pub name: &'static str,
    read: fn(&[Rates]) -> Option<f64>,
}

/// Every gap, in the order of the columns.
pub static GAPS: &[Gap] = &[
    gap("demographic_parity_difference", |of| difference(of, Rates::selection)),
    gap("demographic_parity_ratio", |of| ratio(of, Rates::selection)),
    gap("equal_opportunity_difference", |of| difference(of, Rates::positives_found)),
    gap("equal_opportunity_ratio", |of| ratio(of, Rates::positives_found)),
    gap("equalized_odds_difference", |of| {
        let of = with_both(of);
        Some(difference(&of, Rates::positives_found)?.max(difference(&of, Rates::false_alarms)?))
    }),
    gap("equalized_odds_ratio", |of| {
        let of = with_both(of);
        // If one rate is 0 in every group, the other one decides.
        let ratios = [ratio(&of, Rates::positives_found), ratio(&of, Rates::false_alarms)];
        ratios.into_iter().flatten().reduce(f64::min)
    }),
];

const fn gap(name: &'static str, read: fn(&[Rates]) -> Option<f64>) -> Gap {
    Gap { name, read }
}

/// Rates of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Rates(Confusion);

impl Rates {
    fn selection(&self) -> Option<f64> {
        self.0.selection_rate()
    }

    fn positives_found(&self) -> Option<f64> {
        self.0.recall()
    }

    fn false_alarms(&self) -> Option<f64> {
        self.0.fpr()
    }
}

/// Returns the groups with both positives and negatives.
fn with_both(of: &[Rates]) -> Vec<Rates> {
    let has_both = |rates: &&Rates| rates.positives_found().is_some() && rates.false_alarms().is_some();
    of.iter().filter(has_both).copied().collect()
}

/// Returns the least and the greatest rate of the groups that have one; `None` for fewer than two.
fn extremes(of: &[Rates], rate: fn(&Rates) -> Option<f64>) -> Option<(f64, f64)> {
    let rates: Vec<f64> = of.iter().filter_map(rate).collect();
    let (min, max) = rates
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), rate| (min.min(*rate), max.max(*rate)));
    (rates.len() >= 2).then_some((min, max))
}

fn difference(of: &[Rates], rate: fn(&Rates) -> Option<f64>) -> Option<f64> {
    extremes(of, rate).map(|(min, max)| max - min)
}

fn ratio(of: &[Rates], rate: fn(&Rates) -> Option<f64>) -> Option<f64> {
    extremes(of, rate).filter(|(_, max)| *max > 0.0).map(|(min, max)| min / max)
}

impl Gap {
    /// Returns the gap of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        GAPS.iter().find(|gap| gap.name == name)
    }

    /// Returns the gap between groups; `None` if its rates are defined for fewer than two of them.
    pub fn between(&self, groups: &[&ReleaseEvaluation]) -> Option<f64> {
        let rates = groups.iter().filter_map(|group| match &group.measures {
            Some(Measures::Binary(of)) => Some(Rates(of.confusion)),
            _ => None,
        });
        (self.read)(&rates.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Case {
        groups: BTreeMap<String, [u64; 4]>,
        said: BTreeMap<String, Option<f64>>,
    }

    #[test]
    fn every_gap_agrees_with_fairlearn() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference/fairness.json");
        let cases: Vec<Case> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(cases.len() > 30);
        let mut compared = 0;
        for case in cases {
            let rates: Vec<Rates> = case
                .groups
                .values()
                .map(|[tp, fp, tn, fn_]| Rates(Confusion { tp: *tp, fp: *fp, tn: *tn, fn_: *fn_ }))
                .collect();
            assert_eq!(case.said.len(), GAPS.len());
            for gap in GAPS {
                let (found, said) = ((gap.read)(&rates), case.said[gap.name]);
                let is_same = match (found, said) {
                    (Some(found), Some(said)) => (found - said).abs() < 1e-9,
                    (found, said) => found == said,
                };
                assert!(is_same, "{}: {found:?} is not {said:?} of {:?}", gap.name, case.groups);
                compared += usize::from(said.is_some());
            }
        }
        assert!(compared > 150, "{compared}");
    }

    #[test]
    fn gaps_are_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
        let text = std::fs::read_to_string(path).unwrap();
        for gap in GAPS {
            assert!(text.contains(&format!("`{}`", gap.name)), "{}", gap.name);
            assert!(Gap::named(gap.name).is_some());
        }
    }
}
