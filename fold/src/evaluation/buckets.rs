//! Results of an evaluator by bucket.

use super::{Bucket, Cases, Duels, ReleaseEvaluation, cases::bytes_of};

/// Results by bucket, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// Buckets with predictions.
    pub buckets: Vec<(Bucket, ReleaseEvaluation)>,
    /// See [`Evaluation::outcomes`](super::Evaluation::outcomes).
    pub outcomes: u64,
    /// See [`Evaluation::orphaned`](super::Evaluation::orphaned).
    pub orphaned: u64,
    /// Meetings of each requested pair of releases: see [`Evaluator::between`](super::Evaluator::between).
    pub duels: Vec<Duels>,
    /// Predictions of classes with scores, if kept.
    pub cases: Cases,
    /// Results by the buckets of each further grouping of predictions: see
    /// [`Evaluator::dealt_by`](super::Evaluator::dealt_by).
    pub more: Vec<Vec<(Bucket, ReleaseEvaluation)>>,
}

impl Buckets {
    /// Returns the number of bytes of the kept predictions, scores and meetings.
    pub fn kept_bytes(&self) -> usize {
        let results = self.buckets.iter().chain(self.more.iter().flatten());
        let singles = results.filter_map(|(_, of)| of.singles.as_ref()).map(|singles| singles.bytes());
        self.duels.iter().map(bytes_of).sum::<usize>() + self.cases.bytes() + singles.sum::<usize>()
    }
}
