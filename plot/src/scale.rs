//! Scales from numbers to positions.

/// A range of numbers that is spread over a length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Scale {
    /// Builds the range between two finite numbers; around them if they are equal.
    pub(crate) fn new(from: f64, to: f64) -> Self {
        if from < to {
            return Self { from, to };
        }
        let room = (from.abs() * 0.05).max(f64::MIN_POSITIVE * 4.0);
        // A single number stands in the middle; zero, and numbers near it, have a room of 0.5.
        let room = if from.abs() < 1e-300 { 0.5 } else { room };
        Self { from: (from - room).max(f64::MIN), to: (from + room).min(f64::MAX) }
    }

    /// Builds the least range that holds all numbers; from 0 to 1 if there is none.
    pub(crate) fn around(numbers: impl Iterator<Item = f64>) -> Self {
        let wider = |(from, to): (f64, f64), number: f64| (from.min(number), to.max(number));
        match numbers.fold((f64::INFINITY, f64::NEG_INFINITY), wider) {
            (from, to) if from <= to => Self::new(from, to),
            _ => Self { from: 0.0, to: 1.0 },
        }
    }

    /// Returns the position of a number in the range: 0 at its beginning, 1 at its end. It is computed with halves, since the
    /// length of the range may exceed the greatest double.
    pub(crate) fn share(self, number: f64) -> f64 {
        (number / 2.0 - self.from / 2.0) / (self.to / 2.0 - self.from / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_has_positive_length_for_any_numbers() {
        for numbers in
            [&[][..], &[0.0], &[-3.0, -3.0], &[f64::MAX, f64::MIN], &[f64::MAX], &[1e-310], &[5e-324]]
        {
            let scale = Scale::around(numbers.iter().copied());
            assert!(scale.from < scale.to, "{numbers:?}: {scale:?}");
            for number in numbers {
                assert!((0.0..=1.0).contains(&scale.share(*number)), "{numbers:?}: {scale:?}");
            }
        }
    }
}
