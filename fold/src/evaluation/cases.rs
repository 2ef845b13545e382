//! Predictions of classes with scores, kept while days are evaluated.

use std::collections::BTreeMap;

use event::{Definition, Task, fields::same_label};

use super::{
    Bucket,
    evaluator::Rows,
    fields::Fields,
    grouping::Dealt,
    judge::{Instead, says_positive},
};
use crate::estimate::{Case, ClassCases};

/// Predictions of each bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cases {
    /// Predictions of binary tasks.
    pub binary: BTreeMap<Bucket, Vec<Case>>,
    /// Predictions of several classes.
    pub classes: BTreeMap<Bucket, ClassCases>,
}

impl Cases {
    /// Returns the number of bytes held.
    pub(super) fn bytes(&self) -> usize {
        bytes_of(&self.binary) + self.classes.values().map(ClassCases::bytes).sum::<usize>()
    }
}

/// Returns the number of bytes of the kept rows of all buckets.
pub(super) fn bytes_of<T>(kept: &BTreeMap<Bucket, Vec<T>>) -> usize {
    kept.values().map(|rows| size_of_val(rows.as_slice())).sum()
}

/// Adds the predictions of a join.
pub(super) fn add(cases: &mut Cases, rows: &Rows<'_>, dealt: &Dealt) {
    let mut binary = vec![Vec::new(); dealt.buckets.len()];
    let mut classes = vec![ClassCases::default(); dealt.buckets.len()];
    for (number, pair) in rows.joined.pairs.iter().enumerate() {
        let Some(bucket) = dealt.bucket(number, pair.release) else { continue };
        let Some(definition) = rows.definitions[pair.release as usize] else { continue };
        let (prediction, outcome) = rows.fields(pair);
        let truth = outcome.and_then(|outcome| outcome.label);
        match &definition.task {
            Task::Binary { positive_label } => {
                let of = (definition, positive_label.as_str());
                binary[bucket].extend(binary_case(of, rows.options.instead, &prediction, truth));
            }
            Task::Multiclass => add_class(&mut classes[bucket], &prediction, truth),
            Task::Regression | Task::Ranking { .. } => {}
        }
    }
    for (bucket, found) in dealt.buckets.iter().zip(binary).filter(|(_, found)| !found.is_empty()) {
        cases.binary.entry(bucket.clone()).or_default().extend(found);
    }
    let has_some = |(_, found): &(&Bucket, ClassCases)| !found.is_empty() || found.has_too_many();
    for (bucket, found) in dealt.buckets.iter().zip(classes).filter(has_some) {
        cases.classes.entry(bucket.clone()).or_default().extend(&found);
    }
}

/// Returns a prediction of a binary task, if it has a score and a class.
fn binary_case(
    (definition, positive_label): (&Definition, &str),
    instead: Instead,
    prediction: &Fields<'_>,
    truth: Option<&str>,
) -> Option<Case> {
    let score = prediction.score.filter(|score| (0.0..=1.0).contains(score))?;
    let says_positive = says_positive(prediction, positive_label, instead.threshold, definition.threshold)?;
    let is_positive = truth.map(|label| same_label(label, positive_label));
    let worth = instead.costs.or(definition.costs).map(|costs| match says_positive {
        true => [-costs.fp, costs.tp],
        false => [costs.tn, -costs.fn_],
    });
    Some(Case { score, says_positive, is_positive, worth })
}

/// Adds a prediction of several classes, if it has a class and scores from 0 to 1.
fn add_class(cases: &mut ClassCases, prediction: &Fields<'_>, truth: Option<&str>) {
    let (Some(scores), Some(says)) = (prediction.scores, prediction.class()) else { return };
    if scores.iter().all(|(_, score)| (0.0..=1.0).contains(&score)) {
        cases.add(scores.iter(), says, truth);
    }
}
