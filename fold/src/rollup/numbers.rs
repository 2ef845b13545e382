//! Summary of numbers: count, sums, extremes, a histogram of scores.

use serde::{Deserialize, Serialize, Serializer};

use super::{
    bounded::{Cell, Merge, Optional},
    moments::{self, Moments},
};
use crate::sketch::{Quantile, Sketch};

/// Number of equal bins of [0, 1] that scores are counted in.
pub const SCORE_BINS: usize = 20;

/// Count, sums and extremes of finite numbers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Text")]
pub struct NumberRollup {
    /// Number of numbers.
    pub n: u64,
    /// Their sums.
    moments: Moments,
    /// The least one; negative zero is less than zero. Infinite when there is no number.
    pub min: f64,
    /// Maximum; zero is greater than negative zero.
    pub max: f64,
}

/// Stored form.
#[derive(Serialize, Deserialize)]
struct Text {
    n: u64,
    #[serde(flatten)]
    moments: moments::Text,
    min: f64,
    max: f64,
}

impl Serialize for NumberRollup {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Text { n: self.n, moments: self.moments.text(), min: self.min, max: self.max }.serialize(serializer)
    }
}

impl TryFrom<Text> for NumberRollup {
    type Error = String;

    fn try_from(text: Text) -> Result<Self, String> {
        let greatest = text.min.abs().max(text.max.abs());
        let moments = Moments::read(&text.moments, greatest)?;
        Ok(Self { n: text.n, moments, min: text.min, max: text.max })
    }
}

impl NumberRollup {
    /// Creates a rollup without numbers, and so without extremes. It is never stored: see [`Self::some`].
    pub(super) const fn empty() -> Self {
        Self { n: 0, moments: Moments::empty(), min: f64::INFINITY, max: f64::NEG_INFINITY }
    }

    /// Returns itself, if there was a number.
    pub(super) fn some(self) -> Option<Self> {
        (self.n > 0).then_some(self)
    }

    /// Returns the minimum and the maximum.
    pub fn extremes(&self) -> (f64, f64) {
        (self.min, self.max)
    }

    /// The arithmetic mean: the sum, rounded, divided by the count. Numbers smaller than 2^-128 of the greatest
    /// may be left out of the sum.
    pub fn mean(&self) -> f64 {
        self.moments.mean(self.n)
    }

    /// The sum, rounded once; infinite where it is too large for a double.
    pub fn sum(&self) -> f64 {
        self.moments.mean(1)
    }

    /// The population variance, that is the mean squared distance from the mean (divided by the count,
    /// not by one less). The sums are exact, so nothing cancels. It may be too large for a double.
    pub fn variance(&self) -> f64 {
        self.moments.variance(self.n).0
    }

    /// The population standard deviation.
    pub fn std(&self) -> f64 {
        self.moments.variance(self.n).1
    }

    #[inline]
    pub(super) fn add(&mut self, number: f64) {
        self.count(number);
        self.add_sums(number);
    }

    /// Counts a number without adding it.
    #[inline]
    pub(super) fn count(&mut self, number: f64) {
        self.n += 1;
        self.widen(number, number);
    }

    /// Adds a number without counting it.
    #[inline]
    pub(super) fn add_sums(&mut self, number: f64) {
        self.moments.add(number);
    }

    /// Adds the sum of numbers of one exponent, and that of their squares, in units of their last place.
    pub(super) fn add_whole(&mut self, sum: i128, squares: u128, exponent: i32) {
        self.moments.add_whole(sum, squares, exponent);
    }

    /// Extends the extremes. `f64::min` may return either of two zeros; a total order is unique.
    #[inline]
    fn widen(&mut self, min: f64, max: f64) {
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
        self.n = self.n.saturating_add(other.n);
        self.moments.merge(&other.moments);
        self.widen(other.min, other.max);
    }
}

impl NumberRollup {
    /// Maximum number of bytes of its text: a count, the sums, two doubles of 24 characters, and the names.
    pub const MAX_TEXT: usize = Self::OTHER_TEXT + moments::MAX_TEXT;

    /// Maximum number of bytes of all but the sums.
    const OTHER_TEXT: usize = 20 + 2 * 24 + 24;

    /// Returns an upper bound of its bytes, never less than that of fewer numbers.
    pub(super) fn weight(&self) -> usize {
        match self.moments.is_wide() {
            true => Self::MAX_TEXT,
            false => Self::OTHER_TEXT + moments::NARROW_TEXT,
        }
    }
}

/// Numbers with a sketch of their quantiles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution<const MAX: usize> {
    /// Count, sums, extremes.
    pub numbers: NumberRollup,
    /// Their quantiles.
    pub sketch: Sketch<MAX>,
}

impl<const MAX: usize> Distribution<MAX> {
    /// Maximum number of bytes of its text.
    pub const MAX_TEXT: usize = NumberRollup::MAX_TEXT + Sketch::<MAX>::MAX_TEXT + 26;

    /// Returns the number below which the share `q` of the numbers lies: [`Sketch::quantile`], within the extremes,
    /// which are exact.
    pub fn quantile(&self, q: f64) -> Option<Quantile> {
        self.sketch.quantile(q, self.numbers.extremes())
    }
}

impl<const MAX: usize> Optional for Distribution<MAX> {
    const MAX_BYTES: usize = Self::MAX_TEXT;

    fn weight(&self) -> usize {
        self.numbers.weight() + Cell::weight(&self.sketch) + 24
    }
}

impl<const MAX: usize> Merge for Distribution<MAX> {
    fn merge(&mut self, other: &Self) {
        self.numbers.merge(&other.numbers);
        self.sketch.merge(&other.sketch);
    }
}

/// Scores by bin: bin b counts the scores with b = floor(20 score) in double arithmetic, the last one also a score
/// of 1. A score outside of [0, 1] is in no bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bins(pub [u64; SCORE_BINS]);

impl Bins {
    /// Maximum number of bytes of its text.
    pub const MAX_TEXT: usize = SCORE_BINS * 21 + 2;

    /// Returns whether no score is in a bin.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&n| n == 0)
    }

    /// Returns the number of scores in bins.
    pub fn n(&self) -> u64 {
        self.0.iter().fold(0, |n, more| n.saturating_add(*more))
    }

    #[inline]
    pub(super) fn add(&mut self, score: f64) {
        if (0.0..=1.0).contains(&score) {
            self.0[((score * SCORE_BINS as f64) as usize).min(SCORE_BINS - 1)] += 1;
        }
    }
}

impl Merge for Bins {
    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(bin, more)| *bin = bin.saturating_add(more));
    }
}

/// Number of predictions, and sums of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// Number of predictions. Numbers of missing scores, labels, values and latencies follow from the counts.
    pub n: u64,
    /// Number of predictions with a label.
    pub labelled: u64,
    /// Their scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<NumberRollup>,
    /// Their values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<NumberRollup>,
    /// Their latencies, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<NumberRollup>,
}

impl Headline {
    /// Maximum number of bytes of its text.
    pub const MAX_TEXT: usize = 2 * 20 + 3 * NumberRollup::MAX_TEXT + 60;

    /// Returns the share of predictions without one of their numbers, such as [`Headline::score`].
    pub fn null_rate(&self, numbers: Option<&NumberRollup>) -> Option<f64> {
        share(self.n - numbers.map_or(0, |numbers| numbers.n).min(self.n), self.n)
    }

    /// Returns the share of predictions without a label.
    pub fn label_null_rate(&self) -> Option<f64> {
        share(self.n - self.labelled.min(self.n), self.n)
    }
}

/// Returns `part / whole`; `None` if the whole is zero.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Merge for Headline {
    fn merge(&mut self, other: &Self) {
        self.n = self.n.saturating_add(other.n);
        self.labelled = self.labelled.saturating_add(other.labelled);
        self.score.merge(&other.score);
        self.value.merge(&other.value);
        self.latency.merge(&other.latency);
    }
}

impl Cell for Headline {
    const MAX_BYTES: usize = Self::MAX_TEXT;
    const LEAST_BYTES: usize = 2 * 20 + 60;

    fn weight(&self) -> usize {
        let numbers = [&self.score, &self.value, &self.latency].into_iter().flatten();
        Self::LEAST_BYTES + numbers.map(NumberRollup::weight).sum::<usize>()
    }
}
