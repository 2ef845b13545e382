//! The formulas by which predictions are judged, as in scikit-learn 1.x unless said otherwise.
//!
//! Each is fed one judged prediction at a time and does not depend on their order: counts are whole
//! numbers, sums are exact, and the logarithm is `libm`'s, so that every platform gives the same
//! bits. A result that is not defined, such as recall without positives, is `None`.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::ExactSum;

/// How many equal bins of [0, 1] the calibration has.
pub const CALIBRATION_BINS: usize = 10;

/// `part / whole`; `None` when the whole is nothing.
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

    /// How many were counted.
    pub fn n(&self) -> u64 {
        self.tp + self.fp + self.tn + self.fn_
    }

    /// (tp + tn) / n (`accuracy_score`).
    pub fn accuracy(&self) -> Option<f64> {
        ratio(self.tp + self.tn, self.n())
    }

    /// tp / (tp + fp) (`precision_score`): of those predicted positive, the share that really is.
    pub fn precision(&self) -> Option<f64> {
        ratio(self.tp, self.tp + self.fp)
    }

    /// tp / (tp + fn) (`recall_score`): of those really positive, the share that was found.
    pub fn recall(&self) -> Option<f64> {
        ratio(self.tp, self.tp + self.fn_)
    }

    /// 2 tp / (2 tp + fp + fn) (`f1_score`): the harmonic mean of precision and recall.
    pub fn f1(&self) -> Option<f64> {
        ratio(2 * self.tp, 2 * self.tp + self.fp + self.fn_)
    }

    /// The mean of recall and of the share of negatives that was found (`balanced_accuracy_score`); 1/2 for what guesses.
    /// `None` unless there are both positives and negatives.
    pub fn balanced_accuracy(&self) -> Option<f64> {
        let specificity = ratio(self.tn, self.tn + self.fp)?;
        Some((self.recall()? + specificity) / 2.0)
    }

    /// (tp tn - fp fn) / sqrt((tp + fp) (tp + fn) (tn + fp) (tn + fn)) (`matthews_corrcoef`; Matthews 1975): the correlation
    /// of predicted and real classes, from -1 to 1. `None` unless both classes were predicted and are real.
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

/// Area under the receiver operating characteristic (`roc_auc_score`): the probability that a
/// positive scores above a negative, a tie counting one half.
///
/// Computed as the statistic of Mann and Whitney (1947) with midranks for ties, in whole numbers up
/// to the one division at the end.
#[derive(Clone, Debug, Default)]
pub struct Auc {
    /// The bits of a score in [0, 1] sort like the score and leave the top bit free; shifted by one
    /// they take the class in the lowest bit.
    ranked: Vec<u64>,
}

impl Auc {
    /// Takes one score in [0, 1] and whether it is of a positive.
    #[inline]
    pub fn add(&mut self, score: f64, positive: bool) {
        // Adding zero turns negative zero, which would sort apart from zero, into zero.
        self.ranked.push((score + 0.0).to_bits() << 1 | u64::from(positive));
    }

    /// The area; `None` unless there are both positives and negatives.
    pub fn value(mut self) -> Option<f64> {
        self.ranked.sort_unstable();
        let positives = self.ranked.iter().map(|ranked| ranked & 1).sum::<u64>();
        let negatives = self.ranked.len() as u64 - positives;
        // Twice the number of pairs in which the positive is above, so that a tie counts one.
        let (mut twice_above, mut below) = (0u128, 0u64);
        for tied in self.ranked.chunk_by(|a, b| a >> 1 == b >> 1) {
            let tied_positives = tied.iter().map(|ranked| ranked & 1).sum::<u64>();
            let tied_negatives = tied.len() as u64 - tied_positives;
            twice_above += u128::from(tied_positives) * u128::from(2 * below + tied_negatives);
            below += tied_negatives;
        }
        let pairs = u128::from(positives) * u128::from(negatives);
        (pairs > 0).then(|| twice_above as f64 / (2 * pairs) as f64)
    }
}

/// A bin of the calibration: how often what was given a probability really happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CalibrationBin {
    /// How many probabilities are in the bin.
    pub n: u64,
    /// Their sum: n times the mean probability.
    pub sum: f64,
    /// How many were really positive.
    pub positives: u64,
}

impl AddAssign for CalibrationBin {
    fn add_assign(&mut self, other: Self) {
        self.n += other.n;
        self.sum += other.sum;
        self.positives += other.positives;
    }
}

/// [`Probabilities::ece`] of bins whose sums are rounded.
pub fn calibration_error(bins: &[CalibrationBin]) -> Option<f64> {
    let n: u64 = bins.iter().map(|bin| bin.n).sum();
    let gaps: f64 = bins.iter().map(|bin| (bin.sum - bin.positives as f64).abs()).sum();
    (n > 0).then(|| gaps / n as f64)
}

/// Judges probabilities of the positive class.
#[derive(Clone, Debug, Default)]
pub struct Probabilities {
    n: u64,
    log_loss: ExactSum,
    brier: ExactSum,
    bins: [(u64, ExactSum, u64); CALIBRATION_BINS],
}

impl Probabilities {
    /// Takes one probability in [0, 1] and whether its case was really positive.
    #[inline]
    pub fn add(&mut self, probability: f64, positive: bool) {
        self.n += 1;
        let of_truth = if positive { probability } else { 1.0 - probability };
        self.log_loss.add(-libm::log(of_truth.clamp(f64::EPSILON, 1.0 - f64::EPSILON)));
        let error = probability - f64::from(u8::from(positive));
        self.brier.add(error * error);
        let bin = ((probability * CALIBRATION_BINS as f64) as usize).min(CALIBRATION_BINS - 1);
        let (n, sum, positives) = &mut self.bins[bin];
        *n += 1;
        sum.add(probability);
        *positives += u64::from(positive);
    }

    /// How many were taken.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Mean of -ln p, where p is the probability given to what really happened, clipped to
    /// [eps, 1 - eps] with eps = 2^-52 (`log_loss`). In nats.
    pub fn log_loss(&self) -> Option<f64> {
        mean(&self.log_loss, self.n)
    }

    /// Mean of (p - y)^2, where p is the probability and y is 1 for positives, else 0
    /// (`brier_score_loss`; Brier 1950, in its form for one event).
    pub fn brier(&self) -> Option<f64> {
        mean(&self.brier, self.n)
    }

    /// Bin b holds the probabilities p with b = floor(10 p) in double arithmetic, the last one also 1.
    pub fn calibration(&self) -> [CalibrationBin; CALIBRATION_BINS] {
        self.bins.each_ref().map(|&(n, ref sum, positives)| CalibrationBin { n, sum: sum.value(), positives })
    }

    /// Expected calibration error: the mean over bins, weighted by their n, of
    /// |mean probability - share of positives| (Naeini, Cooper, Hauskrecht 2015). That is the sum
    /// over bins of |sum of probabilities - positives|, divided by the number of all.
    pub fn ece(&self) -> Option<f64> {
        let gap = |&(_, ref sum, positives): &(u64, ExactSum, u64)| {
            let mut gap = sum.clone();
            gap.add(-(positives as f64));
            gap.value().abs()
        };
        mean(&self.bins.iter().map(gap).collect(), self.n)
    }
}

/// Judges predicted numbers. The error of one is predicted minus real.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    n: u64,
    absolute: Terms,
    square: Terms,
    signed: Terms,
}

impl Errors {
    /// Takes one finite prediction and the finite truth.
    #[inline]
    pub fn add(&mut self, predicted: f64, real: f64) {
        let error = predicted - real;
        self.n += 1;
        self.absolute.add(error.abs());
        self.square.add(error * error);
        self.signed.add(error);
    }

    /// How many were taken.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Mean of |error| (`mean_absolute_error`), in the unit of the value.
    pub fn mae(&self) -> Option<f64> {
        self.absolute.mean(self.n)
    }

    /// Square root of the mean of error^2 (`root_mean_squared_error`), in the unit of the value.
    pub fn rmse(&self) -> Option<f64> {
        // IEEE 754 rounds square roots correctly, so this one is the same everywhere.
        self.square.mean(self.n).map(f64::sqrt)
    }

    /// Mean of the error, in the unit of the value; positive when predictions are too high.
    pub fn bias(&self) -> Option<f64> {
        self.signed.mean(self.n)
    }
}

/// A sum of terms that may overflow a double, after which there is no mean.
#[derive(Clone, Debug, Default)]
struct Terms {
    sum: ExactSum,
    overflowed: bool,
}

impl Terms {
    #[inline]
    fn add(&mut self, term: f64) {
        if term.is_finite() {
            self.sum.add(term);
        } else {
            self.overflowed = true;
        }
    }

    fn mean(&self, n: u64) -> Option<f64> {
        if self.overflowed { None } else { mean(&self.sum, n) }
    }
}

/// The sum, rounded once, divided by `n`. `None` when there is none, or the sum overflows.
pub(crate) fn mean(sum: &ExactSum, n: u64) -> Option<f64> {
    (n > 0).then(|| sum.value() / n as f64).filter(|mean| mean.is_finite())
}

#[cfg(test)]
mod tests;
