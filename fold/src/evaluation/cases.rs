//! The binary predictions that have scores, kept while days are judged.

use std::collections::BTreeMap;

use event::{Task, fields::same_label};

use super::{Bucket, evaluator::Rows, grouping::Dealt, judge::says_positive};
use crate::estimate::Case;

/// The predictions of each bucket.
pub type Cases = BTreeMap<Bucket, Vec<Case>>;

/// How many bytes the rows take that are kept of each bucket.
pub(super) fn bytes_of<T>(kept: &BTreeMap<Bucket, Vec<T>>) -> usize {
    kept.values().map(|rows| size_of_val(rows.as_slice())).sum()
}

/// Adds those of a join.
pub(super) fn add(cases: &mut Cases, rows: &Rows<'_>, dealt: &Dealt) {
    let mut by_bucket = vec![Vec::new(); dealt.buckets.len()];
    let instead = rows.options.instead;
    for (number, pair) in rows.joined.pairs.iter().enumerate() {
        let Some(bucket) = dealt.bucket(number, pair.release) else { continue };
        let Some(definition) = rows.definitions[pair.release as usize] else { continue };
        let Task::Binary { positive_label } = &definition.task else { continue };
        let (prediction, outcome) = rows.fields(pair);
        let score = prediction.score.filter(|score| (0.0..=1.0).contains(score));
        let says = says_positive(&prediction, positive_label, instead.threshold, definition.threshold);
        let (Some(score), Some(says_positive)) = (score, says) else { continue };
        let truth = outcome.and_then(|outcome| outcome.label);
        let is_positive = truth.map(|label| same_label(label, positive_label));
        let worth = instead.costs.or(definition.costs).map(|costs| match says_positive {
            true => [-costs.fp, costs.tp],
            false => [costs.tn, -costs.fn_],
        });
        by_bucket[bucket].push(Case { score, says_positive, is_positive, worth });
    }
    for (bucket, found) in dealt.buckets.iter().zip(by_bucket).filter(|(_, found)| !found.is_empty()) {
        cases.entry(bucket.clone()).or_default().extend(found);
    }
}
