//! Inputs of a test of the difference between two metrics, as counts and sums.

use std::ops::{AddAssign, Sub};

use event::Costs;

use crate::{
    ExactSum,
    evaluation::{Binary, Regression},
    formulas::{Confusion, normal_beyond, student_975, student_beyond, wilson},
};

/// Apparent variation of equal numbers due to rounded sums, as a share of their squares.
const ROUNDING: f64 = 1e-12;

/// Inputs of the test of a metric that is a share or a mean over single predictions. Evidence of several days adds
/// up; that of the rest is the whole minus a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Evidence {
    /// Evidence of a share.
    Share {
        /// Number of counted predictions.
        right: u64,
        /// Number of all predictions.
        n: u64,
    },
    /// Evidence of a mean.
    Mean {
        /// Number of values.
        n: u64,
        /// Sum of the values.
        sum: f64,
        /// Sum of their squares.
        squares: f64,
    },
}

impl Evidence {
    /// Returns the evidence of the mean of numbers; `None` without any. Their order does not matter.
    pub(crate) fn of_losses(each: impl FnOnce(&mut dyn FnMut(f64))) -> Option<Self> {
        let (mut n, mut sum, mut squares) = (0, ExactSum::new(), ExactSum::new());
        each(&mut |loss| {
            n += 1;
            sum.add(loss);
            squares.add(loss * loss);
        });
        (n > 0).then(|| Self::Mean { n, sum: sum.value(), squares: squares.value() })
    }

    pub(super) fn share(right: u64, n: u64) -> Self {
        Self::Share { right, n }
    }

    /// Returns the evidence of absolute errors, whose squares are those of the errors.
    pub(super) fn of_errors(of: &Regression) -> Option<Self> {
        let (mae, rmse) = (of.mae?, of.rmse?);
        let n = of.judged as f64;
        let squares = of.detail.mse.unwrap_or(rmse * rmse);
        Some(Self::Mean { n: of.judged, sum: n * mae, squares: n * squares })
    }

    /// Returns the evidence of the gains and costs of predictions; `None` if not all have the same costs.
    pub(super) fn of_worth(of: &Binary) -> Option<Self> {
        let (Costs { tp, tn, fp, fn_ }, worth, cells) = (of.costs?, of.worth?, of.confusion);
        let Confusion { tp: tps, fp: fps, tn: tns, fn_: fns } = cells;
        let squares = [(tps, tp), (tns, tn), (fps, fp), (fns, fn_)];
        let squares = squares.iter().map(|(count, worth)| *count as f64 * worth * worth).sum();
        (worth.n == cells.n()).then_some(Self::Mean { n: worth.n, sum: worth.value, squares })
    }

    /// Returns the number of predictions behind the metric.
    pub fn n(&self) -> u64 {
        match self {
            Self::Share { n, .. } | Self::Mean { n, .. } => *n,
        }
    }

    /// Returns the 95% interval of the metric, for predictions that are independent of each other: for a share that
    /// of Wilson (1927; `scipy.stats.binomtest`, `method="wilson"`), for a mean that of Student. `None` if there are
    /// too few predictions.
    pub fn interval(&self) -> Option<(f64, f64)> {
        if let Self::Share { right, n } = *self {
            return wilson(right, n);
        }
        let Self::Mean { n, sum, .. } = *self else { return None };
        let (_, variance, freedom) = self.mean_and_error()?;
        let (mean, half) = (sum / n as f64, student_975(freedom) * variance.sqrt());
        Some((mean - half, mean + half))
    }

    /// Returns the probability of so great a difference between both metrics if they are equal, for predictions that
    /// are independent of each other. Shares are compared by the z-test of two proportions, pooled
    /// (`statsmodels.stats.proportion.proportions_ztest`); means by Welch's t-test (Welch 1947;
    /// `scipy.stats.ttest_ind_from_stats`, `equal_var=False`). `None` if one has too few predictions or nothing
    /// varies.
    pub fn p_value(&self, other: &Self) -> Option<f64> {
        match (*self, *other) {
            (Self::Share { right, n }, Self::Share { right: others, n: of_others }) => {
                if n == 0 || of_others == 0 {
                    return None;
                }
                let (size, of_size) = (n as f64, of_others as f64);
                let pooled = (right + others) as f64 / (size + of_size);
                let error = (pooled * (1.0 - pooled) * (1.0 / size + 1.0 / of_size)).sqrt();
                (error > 0.0).then(|| normal_beyond((right as f64 / size - others as f64 / of_size) / error))
            }
            (one @ Self::Mean { .. }, other @ Self::Mean { .. }) => {
                let ((mean, error, freedom), (of_other, of_error, of_freedom)) =
                    (one.mean_and_error()?, other.mean_and_error()?);
                let variance = error + of_error;
                let freedom =
                    variance * variance / (error * error / freedom + of_error * of_error / of_freedom);
                (variance > 0.0).then(|| student_beyond((mean - of_other).abs() / variance.sqrt(), freedom))
            }
            _ => None,
        }
    }

    /// Returns the mean, the variance of the mean, and the degrees of freedom; `None` for fewer than two numbers.
    fn mean_and_error(&self) -> Option<(f64, f64, f64)> {
        let Self::Mean { n: n @ 2.., sum, squares } = *self else { return None };
        let (n, mean) = (n as f64, sum / n as f64);
        let around = squares - n * mean * mean;
        let around = if around > squares * ROUNDING { around } else { 0.0 };
        Some((mean, around / (n - 1.0) / n, n - 1.0))
    }
}

impl AddAssign for Evidence {
    fn add_assign(&mut self, other: Self) {
        match (self, other) {
            (Self::Share { right, n }, Self::Share { right: others, n: more }) => {
                *right += others;
                *n += more;
            }
            (Self::Mean { n, sum, squares }, Self::Mean { n: more, sum: others, squares: of_others }) => {
                *n += more;
                *sum += others;
                *squares += of_others;
            }
            // All evidence of one metric has one variant.
            _ => {}
        }
    }
}

impl Sub for Evidence {
    type Output = Self;

    fn sub(self, part: Self) -> Self {
        match (self, part) {
            (Self::Share { right, n }, Self::Share { right: of_part, n: in_part }) => {
                Self::Share { right: right.saturating_sub(of_part), n: n.saturating_sub(in_part) }
            }
            (Self::Mean { n, sum, squares }, Self::Mean { n: in_part, sum: of_part, squares: part }) => {
                Self::Mean {
                    n: n.saturating_sub(in_part),
                    sum: sum - of_part,
                    squares: (squares - part).max(0.0),
                }
            }
            (whole, _) => whole,
        }
    }
}
