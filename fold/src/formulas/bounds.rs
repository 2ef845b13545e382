//! Metrics of predicted intervals.

use serde::{Deserialize, Serialize};

use super::mean;
use crate::ExactSum;

/// Metrics of the intervals of predicted numbers. The default is for no intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Predictions with both ends whose outcome has a value.
    pub n: u64,
    /// Number of these values that lie in the interval, its ends included.
    pub inside: u64,
    /// Mean of upper - lower of these predictions.
    pub width: Option<f64>,
    /// Distances of predictions with a lower end.
    pub lower: Side,
    /// Distances of predictions with an upper end.
    pub upper: Side,
}

/// Distances of real numbers from one end of the interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Number of predictions with this end.
    pub n: u64,
    /// Mean excess of the real number over the end, 0 if below it.
    pub above: Option<f64>,
    /// Mean shortfall of the real number below the end, 0 if above it.
    pub below: Option<f64>,
}

impl Side {
    /// Returns the pinball loss of the end as a quantile (`mean_pinball_loss` with this `alpha`).
    pub fn pinball(&self, alpha: f64) -> Option<f64> {
        Some(alpha * self.above? + (1.0 - alpha) * self.below?).filter(|loss| loss.is_finite())
    }
}

/// Evaluates predicted intervals.
#[derive(Clone, Debug, Default)]
pub struct Intervals {
    n: u64,
    inside: u64,
    width: ExactSum,
    sides: [Distances; 2],
}

#[derive(Clone, Debug, Default)]
struct Distances {
    n: u64,
    above: ExactSum,
    below: ExactSum,
}

impl Intervals {
    /// Takes the ends of one interval, at least one, and the truth; all are finite.
    pub fn add(&mut self, lower: Option<f64>, upper: Option<f64>, real: f64) {
        if let (Some(lower), Some(upper)) = (lower, upper) {
            self.n += 1;
            self.inside += u64::from((lower..=upper).contains(&real));
            add_difference(&mut self.width, upper, lower);
        }
        for (side, end) in self.sides.iter_mut().zip([lower, upper]) {
            if let Some(end) = end {
                side.n += 1;
                let (sum, high, low) =
                    if real > end { (&mut side.above, real, end) } else { (&mut side.below, end, real) };
                add_difference(sum, high, low);
            }
        }
    }

    /// Returns the metrics.
    pub fn judge(&self) -> Bounds {
        let side =
            |of: &Distances| Side { n: of.n, above: mean(&of.above, of.n), below: mean(&of.below, of.n) };
        let [lower, upper] = self.sides.each_ref().map(side);
        Bounds { n: self.n, inside: self.inside, width: mean(&self.width, self.n), lower, upper }
    }
}

/// Adds a difference, which may overflow although the mean does not.
fn add_difference(sum: &mut ExactSum, high: f64, low: f64) {
    match high - low {
        difference if difference.is_finite() => sum.add(difference),
        _ => sum.extend([high, -low]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(rows: &[(Option<f64>, Option<f64>, f64)]) -> Bounds {
        let mut judged = Intervals::default();
        rows.iter().for_each(|&(lower, upper, real)| judged.add(lower, upper, real));
        judged.judge()
    }

    #[test]
    fn intervals_by_hand() {
        let found = judged(&[
            (Some(1.0), Some(3.0), 2.0),
            (Some(1.0), Some(3.0), 3.0),
            (Some(1.0), Some(2.0), 4.0),
            (None, Some(2.0), 1.0),
            (Some(0.0), None, -1.0),
        ]);
        assert_eq!((found.n, found.inside, found.width), (3, 2, Some(5.0 / 3.0)));
        assert_eq!(found.lower, Side { n: 4, above: Some(6.0 / 4.0), below: Some(1.0 / 4.0) });
        assert_eq!(found.upper, Side { n: 4, above: Some(2.0 / 4.0), below: Some(2.0 / 4.0) });
        // mean_pinball_loss([2, 3, 4, -1], [1, 1, 1, 0], alpha=0.1)
        assert!((found.lower.pinball(0.1).unwrap() - 0.375).abs() < 1e-15);
        assert_eq!(judged(&[]), Bounds::default());
        assert_eq!(Bounds::default().lower.pinball(0.5), None);
    }

    #[test]
    fn mean_interval_width_avoids_intermediate_overflow() {
        let found = judged(&[(Some(f64::MIN), Some(f64::MAX), 0.0), (Some(1.0), Some(1.0), 1.0)]);
        assert_eq!((found.inside, found.width), (2, Some(f64::MAX)));
        assert_eq!(judged(&[(Some(f64::MIN), Some(f64::MAX), 0.0)]).width, None);
        let far = judged(&[(Some(f64::MIN), None, f64::MAX), (Some(0.0), None, 0.0)]);
        assert_eq!((far.lower.above, far.lower.below), (Some(f64::MAX), Some(0.0)));
    }
}
