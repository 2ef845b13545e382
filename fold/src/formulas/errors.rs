//! Metrics of predicted numbers.

use std::io;

use serde::{Deserialize, Serialize};

use super::mean;
use crate::{
    ExactSum,
    rollup::Moments,
    runs::{Run, Runs},
};

/// Number of predictions evaluated in one batch, which is faster than one by one.
const TOGETHER: usize = 256;

/// Evaluates predicted numbers. The error of one is predicted minus real.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    sums: Sums,
    /// Predicted and real numbers not yet in the sums, fewer than [`TOGETHER`].
    waiting: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    absolute: ExactSum,
    square: Squares,
    signed: ExactSum,
    share: Terms,
    symmetric: Terms,
    logarithmic: Terms,
    real: Moments,
    /// All errors held, for their quantiles.
    all: Vec<f64>,
    spilled: Spilled,
    /// Quantiles, if errors were in a file.
    quantiles: Option<Quantiles>,
}

/// Errors in a file, and their absolute values.
#[derive(Clone, Debug, Default)]
struct Spilled {
    n: usize,
    errors: Vec<Run>,
    absolute: Vec<Run>,
}

/// Quantiles of errors: 0.1, 0.5 and 0.9, and the median of their absolute values.
#[derive(Clone, Copy, Debug, Default)]
struct Quantiles {
    of_errors: [Option<f64>; 3],
    median_absolute: Option<f64>,
}

/// Metrics of predicted numbers. A value beyond the range of doubles is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ErrorMetrics {
    /// Number of predictions taken.
    pub n: u64,
    /// Mean of |error| (`mean_absolute_error`), in the unit of the value.
    pub mae: Option<f64>,
    /// Square root of the mean of error^2 (`root_mean_squared_error`), in the unit of the value.
    pub rmse: Option<f64>,
    /// Mean of the error, in the unit of the value; positive when predictions are too high.
    pub bias: Option<f64>,
    /// All other metrics.
    pub detail: ErrorDetail,
}

/// Metrics of numbers besides the mean absolute error, the root mean squared error and the bias. A value beyond the
/// range of doubles is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// Mean of error^2 (`mean_squared_error`).
    pub mse: Option<f64>,
    /// Mean of |error| / max(|real|, 2^-52) (`mean_absolute_percentage_error`): 0.1 is a tenth of the real number.
    pub mape: Option<f64>,
    /// Mean of 2 |error| / (|predicted| + |real|), 0 if both are 0 (Makridakis 1993): from 0 to 2.
    pub smape: Option<f64>,
    /// Mean of (ln(1 + predicted) - ln(1 + real))^2 (`mean_squared_log_error`). `None` if a number is -1 or less.
    pub msle: Option<f64>,
    /// 1 - the sum of error^2 divided by the sum of the squared distances of the real numbers from their mean
    /// (`r2_score`). `None` if all real numbers are equal.
    pub r2: Option<f64>,
    /// Median of |error| (`median_absolute_error`).
    pub median_absolute_error: Option<f64>,
    /// Tenth percentile of the error, by numpy's default method (`linear`).
    pub error_p10: Option<f64>,
    /// Median of the error.
    pub error_p50: Option<f64>,
    /// Ninetieth percentile of the error.
    pub error_p90: Option<f64>,
}

impl Errors {
    /// Takes one finite prediction and the finite truth.
    #[inline]
    pub fn add(&mut self, predicted: f64, real: f64) {
        self.waiting.push((predicted, real));
        if self.waiting.len() == TOGETHER {
            self.sums.add(&self.waiting);
            self.waiting.clear();
        }
    }

    /// Returns the number of bytes of the kept errors.
    pub fn bytes(&self) -> usize {
        (self.sums.all.len() + self.waiting.len()) * size_of::<f64>()
    }

    /// Moves the errors held to a file.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn spill(&mut self, runs: &mut Runs) -> io::Result<()> {
        self.sums.spill(runs)
    }

    /// Computes the quantiles, if errors are in a file.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn settle(&mut self, runs: &mut Runs) -> io::Result<()> {
        if self.sums.spilled.n > 0 {
            self.sums.add(&std::mem::take(&mut self.waiting));
            self.sums.spill(runs)?;
            let quantiles = self.sums.spilled.quantiles(runs)?;
            self.sums.quantiles = Some(quantiles);
        }
        Ok(())
    }

    /// Returns the metrics.
    pub fn judge(mut self) -> ErrorMetrics {
        self.sums.add(&self.waiting);
        self.sums.judge()
    }
}

impl Sums {
    fn add(&mut self, rows: &[(f64, f64)]) {
        let mut room = [0.0; TOGETHER];
        let terms = &mut room[..rows.len()];
        let errors = fill(terms, rows, |predicted, real| predicted - real);
        self.all.extend_from_slice(errors);
        if are_finite(errors) {
            self.signed.add_all(errors);
            self.absolute.add_all(fill(terms, rows, |predicted, real| (predicted - real).abs()));
        } else {
            rows.iter().for_each(|(predicted, real)| self.add_far(*predicted, *real));
        }
        self.square
            .add_all(rows, fill(terms, rows, |predicted, real| (predicted - real) * (predicted - real)));
        let share = |predicted: f64, real: f64| (predicted - real).abs() / real.abs().max(f64::EPSILON);
        self.share.add_all(fill(terms, rows, share));
        let is_far = rows
            .iter()
            .fold(false, |any, (predicted, real)| any | (predicted.abs() + real.abs()).is_infinite());
        self.symmetric.add_all(if is_far {
            fill(terms, rows, far_symmetric)
        } else {
            fill(terms, rows, symmetric)
        });
        // After one number without a logarithm the mean is undefined.
        if !self.logarithmic.has_no_mean {
            fill(terms, rows, |predicted, real| (predicted - real) / (1.0 + real));
            terms.iter_mut().zip(rows).for_each(|(term, row)| *term = logarithmic(*term, *row));
            self.logarithmic.add_all(terms);
        }
        self.real.add_all(fill(terms, rows, |_, real| real));
    }

    #[cold]
    fn add_far(&mut self, predicted: f64, real: f64) {
        let error = predicted - real;
        if error.is_finite() {
            self.absolute.add(error.abs());
            self.signed.add(error);
        } else {
            // The signs differ. The mean may be finite although the error overflows.
            self.absolute.extend([predicted.abs(), real.abs()]);
            self.signed.extend([predicted, -real]);
        }
    }

    fn spill(&mut self, runs: &mut Runs) -> io::Result<()> {
        let errors = std::mem::take(&mut self.all);
        if errors.is_empty() {
            return Ok(());
        }
        self.spilled.n += errors.len();
        let mut numbers: Vec<u64> = errors.into_iter().map(ordered_bits).collect();
        self.spilled.errors.push(runs.write(&mut numbers)?);
        numbers.iter_mut().for_each(|number| *number = of_number(*number).abs().to_bits());
        self.spilled.absolute.push(runs.write(&mut numbers)?);
        Ok(())
    }

    fn judge(self) -> ErrorMetrics {
        let n = (self.spilled.n + self.all.len()) as u64;
        let squares = self.square.scaled_mean(n);
        let rmse = squares.and_then(Scaled::root);
        let (_, spread) = self.real.variance(n.max(1));
        let r2 = rmse.filter(|_| spread > 0.0).map(|rmse| {
            let share = rmse / spread;
            1.0 - share * share
        });
        let Quantiles { of_errors: [error_p10, error_p50, error_p90], median_absolute } =
            self.quantiles.unwrap_or_else(|| quantiles(self.all));
        let detail = ErrorDetail {
            mse: squares.and_then(Scaled::value),
            mape: self.share.mean(n),
            smape: self.symmetric.mean(n),
            msle: self.logarithmic.mean(n),
            r2: r2.filter(|r2| r2.is_finite()),
            median_absolute_error: median_absolute,
            error_p10,
            error_p50,
            error_p90,
        };
        ErrorMetrics { n, mae: mean(&self.absolute, n), rmse, bias: mean(&self.signed, n), detail }
    }
}

impl Spilled {
    fn quantiles(&self, runs: &mut Runs) -> io::Result<Quantiles> {
        let [low, middle, high] = [0.1, 0.5, 0.9].map(|q| Place::of(q, self.n));
        let of_errors = self.at(runs, &self.errors, &[low, middle, high], of_number)?;
        let of_absolute = self.at(runs, &self.absolute, &[middle], f64::from_bits)?;
        Ok(Quantiles {
            of_errors: [of_errors[0], of_errors[1], of_errors[2]],
            median_absolute: of_absolute[0],
        })
    }

    /// Returns the quantiles at some places of numbers in a file.
    fn at(
        &self,
        runs: &mut Runs,
        of: &[Run],
        places: &[Option<Place>],
        number: fn(u64) -> f64,
    ) -> io::Result<Vec<Option<f64>>> {
        let mut found = vec![(0.0, 0.0); places.len()];
        let mut at = self.n;
        runs.merge(of, |bits| {
            at -= 1;
            for (place, (low, high)) in places.iter().flatten().zip(&mut found) {
                if at == place.below {
                    *low = number(bits);
                } else if at == place.below + 1 {
                    *high = number(bits);
                }
            }
        })?;
        let between = |(place, (low, high)): (&Option<Place>, (f64, f64))| {
            let place = (*place)?;
            place.between(low, if place.share > 0.0 { high } else { low })
        };
        Ok(places.iter().zip(found).map(between).collect())
    }
}

/// Returns whether all terms are finite; checking all is faster than stopping early.
#[inline]
fn are_finite(terms: &[f64]) -> bool {
    terms.iter().fold(true, |all, term| all & term.is_finite())
}

/// Computes a term of each row.
#[inline]
fn fill<'a>(terms: &'a mut [f64], rows: &[(f64, f64)], term: impl Fn(f64, f64) -> f64) -> &'a [f64] {
    terms.iter_mut().zip(rows).for_each(|(slot, (predicted, real))| *slot = term(*predicted, *real));
    terms
}

/// Returns 2 |predicted - real| / (|predicted| + |real|), from 0 to 2, if the sum is finite.
#[inline]
fn symmetric(predicted: f64, real: f64) -> f64 {
    let (error, size) = ((predicted - real).abs(), predicted.abs() + real.abs());
    // Both are zero, and so is the error.
    let size = if size == 0.0 { 1.0 } else { size };
    2.0 * (error / size)
}

/// Returns [`symmetric`], also if the sum overflows.
fn far_symmetric(predicted: f64, real: f64) -> f64 {
    match predicted.abs() + real.abs() {
        // Quarters have a finite sum and the same quotient.
        size if size.is_infinite() => symmetric(predicted / 4.0, real / 4.0),
        _ => symmetric(predicted, real),
    }
}

/// Returns the squared distance of the logarithms, given `share`, which is (predicted - real) / (1 + real); NaN if a
/// logarithm is undefined.
#[inline]
fn logarithmic(share: f64, (predicted, real): (f64, f64)) -> f64 {
    if predicted <= -1.0 || real <= -1.0 {
        return f64::NAN;
    }
    // ln((1 + predicted) / (1 + real)); separate logarithms if the difference overflows.
    let distance = match share {
        share if share.is_finite() && share > -1.0 => libm::log1p(share),
        _ => libm::log1p(predicted) - libm::log1p(real),
    };
    distance * distance
}

/// Maps a double to an integer, in the order of [`f64::total_cmp`].
#[inline]
fn ordered(number: f64) -> i64 {
    let bits = number.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// Maps such an integer back to its double.
#[inline]
fn of_ordered(ordered: i64) -> f64 {
    // The bits of negative numbers are flipped back.
    f64::from_bits((ordered ^ (((ordered >> 63) as u64) >> 1) as i64) as u64)
}

/// Bit that is flipped so that unsigned integers have the order of [`ordered`].
const SIGN: u64 = 1 << 63;

/// Maps a double to an unsigned integer, in the order of [`f64::total_cmp`].
pub(super) fn ordered_bits(number: f64) -> u64 {
    ordered(number) as u64 ^ SIGN
}

/// Maps such an unsigned integer back to its double.
fn of_number(number: u64) -> f64 {
    of_ordered((number ^ SIGN) as i64)
}

/// Place of a quantile among sorted numbers: on one of them, or between it and the next.
#[derive(Clone, Copy)]
struct Place {
    below: usize,
    share: f64,
}

impl Place {
    /// Returns the place of a quantile of `n` numbers; `None` if there are none.
    fn of(q: f64, n: usize) -> Option<Self> {
        let place = q * n.checked_sub(1)? as f64;
        Some(Self { below: place as usize, share: place.fract() })
    }

    /// Returns the quantile by numpy's `linear` method; `None` if it is beyond the range of doubles. It reorders the
    /// numbers: less or equal ones before the place, greater or equal ones after it.
    fn select(self, numbers: &mut [i64]) -> Option<f64> {
        let (_, &mut low, above) = numbers.select_nth_unstable(self.below);
        let high = if self.share > 0.0 { above.iter().copied().min() } else { None };
        self.between(of_ordered(low), of_ordered(high.unwrap_or(low)))
    }

    fn between(self, low: f64, high: f64) -> Option<f64> {
        let (share, step) = (self.share, high - low);
        let between = match (step.is_finite(), share < 0.5) {
            (true, true) => low + step * share,
            (true, false) => high - step * (1.0 - share),
            (false, _) => low * (1.0 - share) + high * share,
        };
        // Negative zero becomes zero.
        Some(between + 0.0).filter(|between| between.is_finite())
    }
}

/// Returns the quantiles of errors that are held.
fn quantiles(errors: Vec<f64>) -> Quantiles {
    let mut numbers: Vec<i64> = errors.into_iter().map(ordered).collect();
    let of_errors = outer_and_middle(&mut numbers);
    numbers.iter_mut().for_each(|error| *error = ordered(of_ordered(*error).abs()));
    let median_absolute = Place::of(0.5, numbers.len()).and_then(|place| place.select(&mut numbers));
    Quantiles { of_errors, median_absolute }
}

/// Returns the quantiles 0.1, 0.5 and 0.9.
fn outer_and_middle(numbers: &mut [i64]) -> [Option<f64>; 3] {
    let n = numbers.len();
    let [Some(low), Some(middle), Some(high)] = [0.1, 0.5, 0.9].map(|q| Place::of(q, n)) else {
        return [None; 3];
    };
    let of_middle = middle.select(numbers);
    // The outer quantiles are in the halves, unless the lower half is too short for a place and the next.
    let (below, above) = numbers.split_at_mut(middle.below);
    let of_high = Place { below: high.below - middle.below, ..high }.select(above);
    let of_low = if low.below + 1 < below.len() { low.select(below) } else { low.select(numbers) };
    [of_low, of_middle, of_high]
}

/// Returns the quantile of numbers by numpy's `linear` method. `None` if there are none, or it is beyond the range of
/// doubles.
pub(crate) fn quantile(numbers: &[f64], q: f64) -> Option<f64> {
    let mut numbers: Vec<i64> = numbers.iter().copied().map(ordered).collect();
    Place::of(q, numbers.len())?.select(&mut numbers)
}

/// Sum of terms, without a mean once a term is not finite.
#[derive(Clone, Debug, Default)]
struct Terms {
    sum: ExactSum,
    has_no_mean: bool,
}

impl Terms {
    #[inline]
    fn add_all(&mut self, terms: &[f64]) {
        if are_finite(terms) {
            self.sum.add_all(terms);
        } else {
            self.has_no_mean = true;
        }
    }

    fn mean(&self, n: u64) -> Option<f64> {
        if self.has_no_mean { None } else { mean(&self.sum, n) }
    }
}

/// Least square with full precision.
const LEAST_SQUARE: f64 = 1e-290;

/// Power of two by which numbers are scaled whose squares overflow or lose precision.
const SCALE: i32 = 600;

/// Sum of the squares of differences of any size.
#[derive(Clone, Debug, Default)]
struct Squares {
    sum: ExactSum,
    /// Sum of squares that would overflow, scaled down; and of those that are too small, scaled up.
    apart: Option<Box<[ExactSum; 2]>>,
}

impl Squares {
    /// Adds the squares of differences; `squares` has their doubles, which may overflow or underflow.
    #[inline]
    fn add_all(&mut self, pairs: &[(f64, f64)], squares: &[f64]) {
        let is_exact = |square: f64, (one, other): (f64, f64)| {
            (LEAST_SQUARE..f64::INFINITY).contains(&square) | (one == other)
        };
        let rows = squares.iter().zip(pairs);
        if rows.clone().fold(true, |all, (square, pair)| all & is_exact(*square, *pair)) {
            return self.sum.add_all(squares);
        }
        for (square, pair) in rows {
            if is_exact(*square, *pair) { self.sum.add(*square) } else { self.add_apart(pair.0, pair.1) }
        }
    }

    #[cold]
    fn add_apart(&mut self, one: f64, other: f64) {
        let [large, small] = &mut **self.apart.get_or_insert_default();
        let difference = one - other;
        let (sum, scaled) = if difference.abs() > 1.0 {
            // Each is scaled by itself: their difference may overflow.
            (large, libm::scalbn(one, -SCALE) - libm::scalbn(other, -SCALE))
        } else {
            (small, libm::scalbn(difference, SCALE))
        };
        sum.add(scaled * scaled);
    }

    fn scaled_mean(&self, n: u64) -> Option<Scaled> {
        let middle = mean(&self.sum, n)?;
        let Some([large, small]) = self.apart.as_deref() else {
            return Some(Scaled { mean: middle, power: 0 });
        };
        let (large, small) = (mean(large, n)?, mean(small, n)?);
        let (mean, power) = match (large > 0.0, middle > 0.0) {
            (true, _) => (large + libm::scalbn(middle, -2 * SCALE), SCALE),
            (false, true) => (middle + libm::scalbn(small, -2 * SCALE), 0),
            (false, false) => (small, -SCALE),
        };
        Some(Scaled { mean, power })
    }
}

/// Mean of the squares of numbers divided by a power of two.
#[derive(Clone, Copy)]
struct Scaled {
    mean: f64,
    power: i32,
}

impl Scaled {
    /// Returns the mean of the squares themselves.
    fn value(self) -> Option<f64> {
        Some(libm::scalbn(self.mean, 2 * self.power)).filter(|mean| mean.is_finite())
    }

    /// Returns its root.
    fn root(self) -> Option<f64> {
        // IEEE 754 rounds square roots correctly, so this one is the same on every platform.
        Some(libm::scalbn(self.mean.sqrt(), self.power)).filter(|root| root.is_finite())
    }
}
