//! What a rollup is made of.

use serde::{Deserialize, Serialize};

use super::{
    MAX_LABELS, MAX_METRICS, MAX_RELEASES,
    breakdown::{Breakdown, Merge},
};
use crate::ExactSum;

/// How many equal bins of [0, 1] scores are counted in.
pub const SCORE_BINS: usize = 20;

/// Count, sum and extremes of at least one finite number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberRollup {
    /// How many numbers.
    pub n: u64,
    /// Their exact sum.
    pub sum: ExactSum,
    /// The least one; negative zero is less than zero.
    pub min: f64,
    /// The greatest one; zero is greater than negative zero.
    pub max: f64,
}

impl NumberRollup {
    /// The arithmetic mean: the exact sum, rounded, divided by the count.
    pub fn mean(&self) -> f64 {
        self.sum.value() / self.n as f64
    }

    /// No number yet. Such a one is never stored, it has no extremes: see [`Self::some`].
    pub(super) const fn empty() -> Self {
        Self { n: 0, sum: ExactSum::new(), min: f64::INFINITY, max: f64::NEG_INFINITY }
    }

    /// Itself, if there was a number.
    pub(super) fn some(self) -> Option<Self> {
        (self.n > 0).then_some(self)
    }

    #[inline]
    pub(super) fn add(&mut self, number: f64) {
        self.n += 1;
        self.sum.add(number);
        self.extremes(number, number);
    }

    /// `f64::min` may return either of two zeros; a total order leaves no choice.
    #[inline]
    fn extremes(&mut self, min: f64, max: f64) {
        if min.total_cmp(&self.min).is_lt() {
            self.min = min;
        }
        if max.total_cmp(&self.max).is_gt() {
            self.max = max;
        }
    }
}

impl Merge for NumberRollup {
    fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.sum.merge(&other.sum);
        self.extremes(other.min, other.max);
    }
}

/// How often each label (or action) occurs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Labels {
    /// How many events have one.
    pub n: u64,
    /// How many have which.
    pub counts: Breakdown<u64, MAX_LABELS>,
}

impl Labels {
    pub(super) fn add(&mut self, label: &str, n: u64) {
        self.n += n;
        self.counts.add(label, n);
    }
}

impl Merge for Labels {
    fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.counts.merge(&other.counts);
    }
}

/// The predictions of one release. How many have no score, label or value follows from the counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReleasePredictions {
    /// How many predictions.
    pub n: u64,
    /// Their scores.
    pub score: Option<NumberRollup>,
    /// Scores by bin: bin b counts those with b = floor(20 score) in double arithmetic, the last one
    /// also the score 1. A score outside of [0, 1] is in no bin.
    pub score_bins: [u64; SCORE_BINS],
    /// Their labels.
    pub labels: Labels,
    /// Their values.
    pub value: Option<NumberRollup>,
}

impl ReleasePredictions {
    /// How many predictions have no score.
    pub fn null_scores(&self) -> u64 {
        self.n - self.score.as_ref().map_or(0, |score| score.n)
    }

    /// How many predictions have no label.
    pub fn null_labels(&self) -> u64 {
        self.n - self.labels.n
    }

    /// How many predictions have no value.
    pub fn null_values(&self) -> u64 {
        self.n - self.value.as_ref().map_or(0, |value| value.n)
    }
}

impl Merge for ReleasePredictions {
    fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.score.merge(&other.score);
        self.score_bins.iter_mut().zip(other.score_bins).for_each(|(bin, more)| *bin += more);
        self.labels.merge(&other.labels);
        self.value.merge(&other.value);
    }
}

/// All predictions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictionRollup {
    /// How many.
    pub n: u64,
    /// Those of each release.
    pub releases: Breakdown<ReleasePredictions, MAX_RELEASES>,
}

impl Merge for PredictionRollup {
    fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.releases.merge(&other.releases);
    }
}

/// All outcomes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutcomeRollup {
    /// How many.
    pub n: u64,
    /// Their labels.
    pub labels: Labels,
    /// Their values.
    pub value: Option<NumberRollup>,
}

impl Merge for OutcomeRollup {
    fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.labels.merge(&other.labels);
        self.value.merge(&other.value);
    }
}

/// The observations of one metric for one release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The observed values.
    pub numbers: NumberRollup,
    /// When the last one was measured, in microseconds since 1970-01-01T00:00:00Z.
    pub last_at: i64,
    /// The last observed value; of several at the same instant the greatest.
    pub last: f64,
}

impl Series {
    /// No observation yet; never stored.
    pub(super) const fn empty() -> Self {
        Self { numbers: NumberRollup::empty(), last_at: i64::MIN, last: f64::NEG_INFINITY }
    }

    #[inline]
    pub(super) fn add(&mut self, at: i64, value: f64) {
        self.numbers.add(value);
        self.latest(at, value);
    }

    #[inline]
    fn latest(&mut self, at: i64, value: f64) {
        if at > self.last_at || at == self.last_at && value.total_cmp(&self.last).is_gt() {
            (self.last_at, self.last) = (at, value);
        }
    }
}

impl Merge for Series {
    fn merge(&mut self, other: &Self) {
        self.numbers.merge(&other.numbers);
        self.latest(other.last_at, other.last);
    }
}

/// All metric observations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricRollup {
    /// How many.
    pub n: u64,
    /// By the name of the metric, then by release; under the empty name those of no release.
    pub names: Breakdown<Breakdown<Series, MAX_RELEASES>, MAX_METRICS>,
}

impl Merge for MetricRollup {
    fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.names.merge(&other.names);
    }
}

/// All release changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReleaseRollup {
    /// How many.
    pub n: u64,
    /// For each release how often which action was taken.
    pub releases: Breakdown<Labels, MAX_RELEASES>,
}

impl Merge for ReleaseRollup {
    fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.releases.merge(&other.releases);
    }
}
