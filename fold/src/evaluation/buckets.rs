//! The results of what an evaluator judged, by bucket.

use super::{Bucket, Cases, Duels, ReleaseEvaluation, cases::bytes_of};

/// The results by bucket, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// The buckets in which something was predicted.
    pub buckets: Vec<(Bucket, ReleaseEvaluation)>,
    /// See [`Evaluation::outcomes`](super::Evaluation::outcomes).
    pub outcomes: u64,
    /// See [`Evaluation::unmatched`](super::Evaluation::unmatched).
    pub unmatched: u64,
    /// The meetings of each pair of releases of which they are kept: see
    /// [`Evaluator::between`](super::Evaluator::between).
    pub duels: Vec<Duels>,
    /// The predictions of classes with scores, where these are kept.
    pub cases: Cases,
    /// The results by the buckets of each of the other ways in which predictions were dealt: see
    /// [`Evaluator::dealt_by`](super::Evaluator::dealt_by).
    pub more: Vec<Vec<(Bucket, ReleaseEvaluation)>>,
}

impl Buckets {
    /// How many bytes the predictions, scores and meetings take that are kept.
    pub fn kept_bytes(&self) -> usize {
        let results = self.buckets.iter().chain(self.more.iter().flatten());
        let singles = results.filter_map(|(_, of)| of.singles.as_ref()).map(|singles| singles.bytes());
        self.duels.iter().map(bytes_of).sum::<usize>() + self.cases.bytes() + singles.sum::<usize>()
    }
}
