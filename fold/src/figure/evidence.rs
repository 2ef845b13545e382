//! What a test of the difference between two figures needs, from counts and sums.

use std::ops::{AddAssign, Sub};

use event::Costs;

use crate::{
    ExactSum,
    evaluation::{Binary, Regression},
    metrics::{Confusion, normal_beyond, student_975, student_beyond, wilson},
};

/// What equal numbers may seem to vary by, as a share of their squares, since their sums are rounded.
const ROUNDING: f64 = 1e-12;

/// Of a figure that is a share or a mean of what single predictions say: what its test needs. Those of days add up, and what
/// a part lacks of a whole is the difference of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Evidence {
    /// Of a share.
    Share {
        /// How many predictions have what it counts.
        right: u64,
        /// Of how many.
        n: u64,
    },
    /// Of a mean.
    Mean {
        /// How many numbers.
        n: u64,
        /// Their sum.
        sum: f64,
        /// The sum of their squares.
        squares: f64,
    },
}

impl Evidence {
    /// Of the mean of numbers; `None` of none. In which order they come makes no difference.
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

    /// Of absolute errors: the squares are those of the errors.
    pub(super) fn of_errors(of: &Regression) -> Option<Self> {
        let (mae, rmse) = (of.mae?, of.rmse?);
        let n = of.judged as f64;
        let squares = of.detail.as_ref().and_then(|detail| detail.mse).unwrap_or(rmse * rmse);
        Some(Self::Mean { n: of.judged, sum: n * mae, squares: n * squares })
    }

    /// Of what predictions gain and cost; `None`, when not all have the same costs.
    pub(super) fn of_worth(of: &Binary) -> Option<Self> {
        let (Costs { tp, tn, fp, fn_ }, worth, cells) = (of.costs?, of.worth?, of.confusion);
        let Confusion { tp: tps, fp: fps, tn: tns, fn_: fns } = cells;
        let squares = [(tps, tp), (tns, tn), (fps, fp), (fns, fn_)];
        let squares = squares.iter().map(|(count, worth)| *count as f64 * worth * worth).sum();
        (worth.n == cells.n()).then_some(Self::Mean { n: worth.n, sum: worth.value, squares })
    }

    /// How many predictions the figure is made of.
    pub fn n(&self) -> u64 {
        match self {
            Self::Share { n, .. } | Self::Mean { n, .. } => *n,
        }
    }

    /// The 95% interval of the figure, where the predictions are independent of each other: of a share that of Wilson (1927;
    /// `scipy.stats.binomtest`, `method="wilson"`), of a mean that of Student. `None`, when there are too few predictions.
    pub fn interval(&self) -> Option<(f64, f64)> {
        if let Self::Share { right, n } = *self {
            return wilson(right, n);
        }
        let Self::Mean { n, sum, .. } = *self else { return None };
        let (_, variance, freedom) = self.mean_and_error()?;
        let (mean, half) = (sum / n as f64, student_975(freedom) * variance.sqrt());
        Some((mean - half, mean + half))
    }

    /// How probable a difference of both figures so great is if there is none, where the predictions are independent of each other. Of
    /// shares by the z-test of two proportions, pooled (`statsmodels.stats.proportion.proportions_ztest`); of means by Welch's
    /// t-test (Welch 1947; `scipy.stats.ttest_ind_from_stats`, `equal_var=False`). `None`, when one has too few predictions or
    /// nothing varies.
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

    /// The mean, the variance of the mean, and the degrees of freedom; `None` of fewer than two numbers.
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
            // A figure is always of the one or of the other.
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
