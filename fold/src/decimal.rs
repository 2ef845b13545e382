//! Differences of decimal numbers that doubles hold only approximately: 0.3 - 0.2 and 0.2 - 0.1 are both 0.1.

/// Rounding error of doubles, as a share of the greatest number that they were computed from: 8 units in its last
/// place. Reading a number adds half a unit, and so does each step of a computation.
pub(crate) const NOISE: f64 = 8.0 * f64::EPSILON;

/// Smallest decimal unit considered, in places from the first digit of the greater number: far more than noise.
const PLACES: i32 = 13;

/// Powers of ten that a double represents exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Returns the first number less the second: the decimal of few places within rounding error of the difference, if
/// any.
pub(crate) fn difference(one: f64, other: f64) -> f64 {
    let (found, scale) = (one - other, one.abs().max(other.abs()));
    if found == 0.0 || !found.is_finite() {
        return found;
    }
    let places = PLACES - libm::log10(scale).ceil() as i32;
    let Some(places) = usize::try_from(places).ok().and_then(|places| POWERS.get(places)) else {
        return found;
    };
    let near = (found * places).round() / places;
    if (near - found).abs() <= NOISE * scale { near } else { found }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_decimals_have_equal_forms() {
        assert_eq!(difference(0.3, 0.2), 0.1);
        assert_eq!(difference(0.2, 0.1), 0.1);
        assert_eq!(difference(1.0, 0.9), 0.1);
        assert_eq!(difference(0.1 + 0.2, 0.3), 0.0);
        assert_eq!(difference(10.1, 10.3), -0.2);
        assert_eq!(difference(1e6 + 0.1, 1e6), 0.1);
        assert_eq!(difference(1e300, 1e299), 1e300 - 1e299);
        assert_eq!(difference(f64::MIN_POSITIVE, 0.0), f64::MIN_POSITIVE);
        assert_eq!(difference(0.0, 0.0), 0.0);
        assert!(difference(f64::NAN, 1.0).is_nan() && difference(f64::INFINITY, 1.0).is_infinite());
    }

    proptest! {
        /// For decimals, the result is the double nearest to the exact difference.
        #[test]
        fn differences_of_decimals_are_exact(one in -1_000_000_i64..1_000_000, other in -1_000_000_i64..1_000_000, places in 0_usize..7) {
            let of = |number: i64| number as f64 / POWERS[places];
            prop_assert_eq!(difference(of(one), of(other)), of(one - other));
        }

        /// For any numbers, the result moves by no more than their own rounding error.
        #[test]
        fn differences_are_moved_within_noise(one in any::<f64>(), other in any::<f64>()) {
            let (found, plain) = (difference(one, other), one - other);
            let noise = NOISE * one.abs().max(other.abs());
            prop_assert!(found.to_bits() == plain.to_bits() || (found - plain).abs() <= noise);
        }
    }
}
