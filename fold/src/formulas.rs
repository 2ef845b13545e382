//! Formulas by which predictions are evaluated, as in scikit-learn 1.x unless noted otherwise.
//!
//! Each is fed one evaluated prediction at a time and does not depend on their order: counts are integers, sums are
//! exact, and the logarithm is `libm`'s, so that every platform gives the same bits. An undefined result, such as
//! recall without positives, is `None`.

mod bounds;
mod class_scores;
mod classes;
mod curve;
mod errors;
mod groups;
mod interval;
mod scores;
mod value;

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::ExactSum;

pub use bounds::{Bounds, Intervals, Side};
pub use class_scores::{ClassProbabilities, ClassScores, TOP};
pub use classes::{ClassCounts, Classes, MAX_CLASSES, MAX_CONFUSED, Tally};
pub use curve::Curve;
pub(crate) use errors::quantile;
pub use errors::{ErrorDetail, ErrorMetrics, Errors};
pub(crate) use groups::GROUP_METRICS;
pub use groups::{GroupMeans, Groups, MAX_RELEVANCE};
pub(crate) use interval::{
    NORMAL_975, Placements, delong, normal_beyond, student_975, student_beyond, variance_of_mean, wilson,
};
pub use scores::{Ranked, Ranks, Scores};
pub(crate) use value::value;
pub use value::{Best, Worth};

/// Number of equal bins of [0, 1] in the calibration.
pub const CALIBRATION_BINS: usize = 10;

/// Returns `part / whole`; `None` if the whole is zero.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Predicted against real classes of a binary task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confusion {
    /// Predicted positive, really positive.
    pub tp: u64,
    /// Predicted positive, really negative.
    pub fp: u64,
    /// Predicted negative, really negative.
    pub tn: u64,
    /// Predicted negative, really positive.
    #[serde(rename = "fn")]
    pub fn_: u64,
}

impl Confusion {
    /// Counts one prediction.
    pub fn add(&mut self, predicted: bool, real: bool) {
        match (predicted, real) {
            (true, true) => self.tp += 1,
            (true, false) => self.fp += 1,
            (false, false) => self.tn += 1,
            (false, true) => self.fn_ += 1,
        }
    }

    /// Returns the number of counted predictions.
    pub fn n(&self) -> u64 {
        self.tp + self.fp + self.tn + self.fn_
    }

    /// Returns (tp + tn) / n (`accuracy_score`).
    pub fn accuracy(&self) -> Option<f64> {
        ratio(self.tp + self.tn, self.n())
    }

    /// Returns tp / (tp + fp) (`precision_score`): the share of predicted positives that are real.
    pub fn precision(&self) -> Option<f64> {
        ratio(self.tp, self.tp + self.fp)
    }

    /// Returns (tp + fp) / n (`selection_rate` of fairlearn): the share of predicted positives.
    pub fn selection_rate(&self) -> Option<f64> {
        ratio(self.tp + self.fp, self.n())
    }

    /// Returns tp / (tp + fn) (`recall_score`): the share of real positives that were found.
    pub fn recall(&self) -> Option<f64> {
        ratio(self.tp, self.tp + self.fn_)
    }

    /// Returns 2 tp / (2 tp + fp + fn) (`f1_score`): the harmonic mean of precision and recall.
    pub fn f1(&self) -> Option<f64> {
        ratio(2 * self.tp, 2 * self.tp + self.fp + self.fn_)
    }

    /// Returns tn / (tn + fp) (`recall_score` of the negative class): the share of real negatives that were found.
    pub fn specificity(&self) -> Option<f64> {
        ratio(self.tn, self.tn + self.fp)
    }

    /// Returns fp / (tn + fp): the share of real negatives that were predicted positive.
    pub fn fpr(&self) -> Option<f64> {
        ratio(self.fp, self.tn + self.fp)
    }

    /// Returns fn / (tp + fn): the share of real positives that were predicted negative.
    pub fn fnr(&self) -> Option<f64> {
        ratio(self.fn_, self.tp + self.fn_)
    }

    /// Returns the mean of recall and specificity (`balanced_accuracy_score`); 1/2 for random guesses. `None` unless
    /// there are both positives and negatives.
    pub fn balanced_accuracy(&self) -> Option<f64> {
        Some((self.recall()? + self.specificity()?) / 2.0)
    }

    /// Returns (tp tn - fp fn) / sqrt((tp + fp) (tp + fn) (tn + fp) (tn + fn)) (`matthews_corrcoef`; Matthews 1975):
    /// the correlation of predicted and real classes, from -1 to 1. `None` unless both classes were predicted and are
    /// real.
    pub fn mcc(&self) -> Option<f64> {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let (right, wrong) = (product(self.tp, self.tn), product(self.fp, self.fn_));
        let size = right.abs_diff(wrong) as f64;
        let of_positives = product(self.tp + self.fp, self.tp + self.fn_) as f64;
        let of_negatives = product(self.tn + self.fp, self.tn + self.fn_) as f64;
        let scale = of_positives.sqrt() * of_negatives.sqrt();
        let correlation = (size / scale).min(1.0);
        (scale > 0.0).then_some(if right < wrong { -correlation } else { correlation })
    }
}

impl AddAssign for Confusion {
    fn add_assign(&mut self, other: Self) {
        self.tp += other.tp;
        self.fp += other.fp;
        self.tn += other.tn;
        self.fn_ += other.fn_;
    }
}

/// Bin of the calibration: predicted probabilities against the share of real positives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CalibrationBin {
    /// Number of probabilities in the bin.
    pub n: u64,
    /// Sum of the probabilities: n times their mean.
    pub sum: f64,
    /// Number of real positives.
    pub positives: u64,
}

impl AddAssign for CalibrationBin {
    fn add_assign(&mut self, other: Self) {
        self.n += other.n;
        self.sum += other.sum;
        self.positives += other.positives;
    }
}

/// Returns [`Probabilities::ece`] of bins whose sums are rounded.
pub fn calibration_error(bins: &[CalibrationBin]) -> Option<f64> {
    let n: u64 = bins.iter().map(|bin| bin.n).sum();
    let gaps: f64 = bins.iter().map(|bin| (bin.sum - bin.positives as f64).abs()).sum();
    (n > 0).then(|| gaps / n as f64)
}

/// Returns the logarithmic loss of one probability of the positive class: see [`Probabilities::log_loss`].
#[inline]
pub(crate) fn log_loss(probability: f64, positive: bool) -> f64 {
    log_loss_of_truth(if positive { probability } else { 1.0 - probability })
}

/// Returns the logarithmic loss of the predicted probability of the real class.
#[inline]
pub(crate) fn log_loss_of_truth(probability: f64) -> f64 {
    -libm::log(probability.clamp(f64::EPSILON, 1.0 - f64::EPSILON))
}

/// Returns the squared error of one probability of the positive class: see [`Probabilities::brier`].
#[inline]
pub(crate) fn brier(probability: f64, positive: bool) -> f64 {
    let error = probability - f64::from(u8::from(positive));
    error * error
}

/// Evaluates probabilities of the positive class.
#[derive(Clone, Debug, Default)]
pub struct Probabilities {
    n: u64,
    log_loss: ExactSum,
    brier: ExactSum,
    bins: Bins,
}

/// Equal bins of probabilities, each with their number, their sum and the number of right ones.
#[derive(Clone, Debug, Default)]
struct Bins([(u64, ExactSum, u64); CALIBRATION_BINS]);

impl Bins {
    #[inline]
    fn add(&mut self, bin: usize, probability: f64, is_right: bool) {
        let (n, sum, right) = &mut self.0[bin];
        *n += 1;
        sum.add(probability);
        *right += u64::from(is_right);
    }

    /// Returns the mean over the bins, weighted by their n, of |mean probability - share of right ones|. That is the
    /// sum over the bins of |sum of probabilities - number of right ones|, divided by the number of all.
    fn error(&self) -> Option<f64> {
        let gap = |&(_, ref sum, right): &(u64, ExactSum, u64)| {
            let mut gap = sum.clone();
            gap.add(-(right as f64));
            gap.value().abs()
        };
        mean(&self.0.iter().map(gap).collect(), self.0.iter().map(|(n, ..)| n).sum())
    }
}

impl Probabilities {
    /// Takes one probability in [0, 1]; `positive` is true if the positive class is the real one.
    #[inline]
    pub fn add(&mut self, probability: f64, positive: bool) {
        self.n += 1;
        self.log_loss.add(log_loss(probability, positive));
        self.brier.add(brier(probability, positive));
        let bin = ((probability * CALIBRATION_BINS as f64) as usize).min(CALIBRATION_BINS - 1);
        self.bins.add(bin, probability, positive);
    }

    /// Returns the number of probabilities taken.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Returns the mean of -ln p, where p is the predicted probability of the real class, clipped to [eps, 1 - eps]
    /// with eps = 2^-52 (`log_loss`). In nats.
    pub fn log_loss(&self) -> Option<f64> {
        mean(&self.log_loss, self.n)
    }

    /// Returns the mean of (p - y)^2, where p is the probability and y is 1 for positives, else 0
    /// (`brier_score_loss`; Brier 1950, in its form for one event).
    pub fn brier(&self) -> Option<f64> {
        mean(&self.brier, self.n)
    }

    /// Returns the bins: bin b holds the probabilities p with b = floor(10 p) in double arithmetic, the last one also
    /// 1.
    pub fn calibration(&self) -> [CalibrationBin; CALIBRATION_BINS] {
        self.bins.0.each_ref().map(|&(n, ref sum, positives)| CalibrationBin {
            n,
            sum: sum.value(),
            positives,
        })
    }

    /// Returns the expected calibration error over these bins: the mean, weighted by their n, of |mean probability -
    /// share of positives| (Naeini, Cooper, Hauskrecht 2015).
    pub fn ece(&self) -> Option<f64> {
        self.bins.error()
    }
}

/// Returns the exact sum divided by `n`, rounded twice. `None` if `n` is zero or the mean is not finite.
pub(crate) fn mean(sum: &ExactSum, n: u64) -> Option<f64> {
    (n > 0).then(|| sum.mean(n)).filter(|mean| mean.is_finite())
}

#[cfg(test)]
mod tests;
