//! The figures of predicted numbers.

use serde::{Deserialize, Serialize};

use super::mean;
use crate::{ExactSum, rollup::Moments};

/// Judges predicted numbers. The error of one is predicted minus real.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    n: u64,
    absolute: ExactSum,
    square: Squares,
    signed: ExactSum,
    share: Terms,
    symmetric: Terms,
    logarithmic: Terms,
    real: Moments,
    /// All errors, for their quantiles.
    all: Vec<f64>,
}

/// The figures of numbers beside the mean absolute error, the root mean squared error and the bias. What is beyond the
/// doubles is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// Mean of error^2 (`mean_squared_error`).
    pub mse: Option<f64>,
    /// Mean of |error| / max(|real|, 2^-52) (`mean_absolute_percentage_error`): 0.1 is a tenth of the real number.
    pub mape: Option<f64>,
    /// Mean of 2 |error| / (|predicted| + |real|), 0 where both are 0 (Makridakis 1993): from 0 to 2.
    pub smape: Option<f64>,
    /// Mean of (ln(1 + predicted) - ln(1 + real))^2 (`mean_squared_log_error`). `None` when a number is -1 or less.
    pub msle: Option<f64>,
    /// 1 - the sum of error^2 by the sum of the squared distances of the real numbers from their mean (`r2_score`).
    /// `None` when all real numbers are the same.
    pub r2: Option<f64>,
    /// Median of |error| (`median_absolute_error`).
    pub median_absolute_error: Option<f64>,
    /// The tenth percentile of the error, as numpy's default has it (`linear`).
    pub error_p10: Option<f64>,
    /// Its median.
    pub error_p50: Option<f64>,
    /// Its ninetieth percentile.
    pub error_p90: Option<f64>,
}

impl Errors {
    /// Takes one finite prediction and the finite truth.
    #[inline]
    pub fn add(&mut self, predicted: f64, real: f64) {
        let error = predicted - real;
        self.n += 1;
        self.square.add(predicted, real);
        if error.is_finite() {
            self.absolute.add(error.abs());
            self.signed.add(error);
        } else {
            // The signs differ. The mean may be a double where the error is none.
            self.absolute.extend([predicted.abs(), real.abs()]);
            self.signed.extend([predicted, -real]);
        }
        self.share.add(error.abs() / real.abs().max(f64::EPSILON));
        self.symmetric.add(symmetric(predicted, real));
        self.logarithmic.add(logarithmic(predicted, real));
        self.real.add(real);
        self.all.push(error);
    }

    /// How many bytes the errors take that are kept.
    pub fn bytes(&self) -> usize {
        size_of_val(self.all.as_slice())
    }

    /// How many were taken.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Mean of |error| (`mean_absolute_error`), in the unit of the value.
    pub fn mae(&self) -> Option<f64> {
        mean(&self.absolute, self.n)
    }

    /// Square root of the mean of error^2 (`root_mean_squared_error`), in the unit of the value.
    pub fn rmse(&self) -> Option<f64> {
        self.square.root_mean(self.n)
    }

    /// Mean of the error, in the unit of the value; positive when predictions are too high.
    pub fn bias(&self) -> Option<f64> {
        mean(&self.signed, self.n)
    }

    /// The other figures.
    pub fn detail(mut self) -> ErrorDetail {
        let rmse = self.rmse();
        let spread = self.real.variance(self.n.max(1)).map(|(_, deviation)| deviation);
        let r2 = rmse.zip(spread.filter(|spread| *spread > 0.0)).map(|(rmse, spread)| {
            let share = rmse / spread;
            1.0 - share * share
        });
        let [error_p10, error_p50, error_p90] = [0.1, 0.5, 0.9].map(|q| quantile(&mut self.all, q));
        self.all.iter_mut().for_each(|error| *error = error.abs());
        ErrorDetail {
            mse: self.square.mean(self.n),
            mape: self.share.mean(self.n),
            smape: self.symmetric.mean(self.n),
            msle: self.logarithmic.mean(self.n),
            r2: r2.filter(|r2| r2.is_finite()),
            median_absolute_error: quantile(&mut self.all, 0.5),
            error_p10,
            error_p50,
            error_p90,
        }
    }
}

/// 2 |predicted - real| / (|predicted| + |real|), from 0 to 2.
fn symmetric(predicted: f64, real: f64) -> f64 {
    let share = |predicted: f64, real: f64| {
        let (error, size) = ((predicted - real).abs(), predicted.abs() + real.abs());
        if size == 0.0 { 0.0 } else { 2.0 * (error / size) }
    };
    match predicted.abs() + real.abs() {
        // A quarter of each has a sum that is a double, and the share is the same.
        size if size.is_infinite() => share(predicted / 4.0, real / 4.0),
        _ => share(predicted, real),
    }
}

/// The squared distance of the logarithms; not a number when there are none.
fn logarithmic(predicted: f64, real: f64) -> f64 {
    if predicted <= -1.0 || real <= -1.0 {
        return f64::NAN;
    }
    // ln((1 + predicted) / (1 + real)); apart where the difference is beyond the doubles.
    let distance = match (predicted - real) / (1.0 + real) {
        share if share.is_finite() && share > -1.0 => libm::log1p(share),
        _ => libm::log1p(predicted) - libm::log1p(real),
    };
    distance * distance
}

/// The quantile of numbers between two of them, as numpy's `linear` has it. `None` when there is none, or it is
/// beyond the doubles. The numbers are put in another order.
pub(crate) fn quantile(numbers: &mut [f64], q: f64) -> Option<f64> {
    let place = q * numbers.len().checked_sub(1)? as f64;
    let (below, share) = (place as usize, place.fract());
    let (_, &mut low, above) = numbers.select_nth_unstable_by(below, f64::total_cmp);
    let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    let step = high - low;
    let between = match (step.is_finite(), share < 0.5) {
        (true, true) => low + step * share,
        (true, false) => high - step * (1.0 - share),
        (false, _) => low * (1.0 - share) + high * share,
    };
    // Zero has one sign.
    Some(between + 0.0).filter(|between| between.is_finite())
}

/// A sum of terms, after one of which that is no finite number there is no mean.
#[derive(Clone, Debug, Default)]
struct Terms {
    sum: ExactSum,
    has_no_mean: bool,
}

impl Terms {
    #[inline]
    fn add(&mut self, term: f64) {
        if term.is_finite() {
            self.sum.add(term);
        } else {
            self.has_no_mean = true;
        }
    }

    fn mean(&self, n: u64) -> Option<f64> {
        if self.has_no_mean { None } else { mean(&self.sum, n) }
    }
}

/// Squares of this size are as exact as any.
const LEAST_SQUARE: f64 = 1e-290;

/// The power of two by which numbers are scaled whose squares are not doubles, or not exact.
const SCALE: i32 = 600;

/// The sum of the squares of differences of any size.
#[derive(Clone, Debug, Default)]
struct Squares {
    sum: ExactSum,
    /// Of those whose squares are beyond the doubles, scaled down; of those whose squares are too small, scaled up.
    apart: Option<Box<[ExactSum; 2]>>,
}

impl Squares {
    /// Adds the square of a difference.
    #[inline]
    fn add(&mut self, one: f64, other: f64) {
        let difference = one - other;
        let square = difference * difference;
        if (LEAST_SQUARE..f64::INFINITY).contains(&square) || difference == 0.0 {
            self.sum.add(square);
        } else {
            self.add_apart(one, other);
        }
    }

    #[cold]
    fn add_apart(&mut self, one: f64, other: f64) {
        let [large, small] = &mut **self.apart.get_or_insert_default();
        let difference = one - other;
        let (sum, scaled) = if difference.abs() > 1.0 {
            // Each is scaled by itself: their difference may be beyond the doubles.
            (large, libm::scalbn(one, -SCALE) - libm::scalbn(other, -SCALE))
        } else {
            (small, libm::scalbn(difference, SCALE))
        };
        sum.add(scaled * scaled);
    }

    fn mean(&self, n: u64) -> Option<f64> {
        let (mean, power) = self.scaled_mean(n)?;
        Some(libm::scalbn(mean, 2 * power)).filter(|mean| mean.is_finite())
    }

    fn root_mean(&self, n: u64) -> Option<f64> {
        let (mean, power) = self.scaled_mean(n)?;
        // IEEE 754 rounds square roots correctly, so this one is the same everywhere.
        Some(libm::scalbn(mean.sqrt(), power)).filter(|root| root.is_finite())
    }

    /// The mean of the squares of the numbers divided by a power of two, and that power.
    fn scaled_mean(&self, n: u64) -> Option<(f64, i32)> {
        let middle = mean(&self.sum, n)?;
        let Some([large, small]) = self.apart.as_deref() else { return Some((middle, 0)) };
        let (large, small) = (mean(large, n)?, mean(small, n)?);
        Some(match (large > 0.0, middle > 0.0) {
            (true, _) => (large + libm::scalbn(middle, -2 * SCALE), SCALE),
            (false, true) => (middle + libm::scalbn(small, -2 * SCALE), 0),
            (false, false) => (small, -SCALE),
        })
    }
}
