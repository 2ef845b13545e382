//! Repeated measurements of one quantity.

/// Measurements in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Takes the measurements `values`, in any order.
    pub fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// Returns the number of measurements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the median; for an even number, the mean of the middle two. NaN without measurements.
    pub fn median(&self) -> f64 {
        let half = self.0.len() / 2;
        match (self.0.len(), self.0.len() % 2) {
            (0, _) => f64::NAN,
            (_, 1) => self.0[half],
            _ => self.0[half - 1].midpoint(self.0[half]),
        }
    }

    /// Returns the least value that a share of the measurements (from 0 to 1) does not exceed. NaN without
    /// measurements.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles() {
        let of = |values: &[f64]| Samples::new(values.to_vec());
        assert_eq!(of(&[3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(of(&[4.0, 1.0]).median(), 2.5);
        assert!(of(&[]).median().is_nan() && of(&[]).quantile(0.5).is_nan());
        let hundred = Samples::new((1..=100).map(f64::from).collect());
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| hundred.quantile(share)), [1.0, 50.0, 99.0, 100.0]);
    }
}
