//! Sums in fixed point: exact, short as text, cheap to add and merge.
//!
//! [`crate::ExactSum`] holds every finite double and would take up to 550 characters. A rollup keeps thousands of
//! sums and must stay small for any input. So a sum here is of numbers of one group: 128 powers of two, whose numbers
//! are whole multiples of one unit. Groups other than that of 1 are scaled by a power of two, which changes no bit. A
//! sum does not depend on the order and grouping of the terms.

use std::fmt;

/// Number of powers of two in a group. Group g holds the numbers from 2^(128 g - 64) on, below 2^(128 g + 64).
pub const GROUP_POWERS: i32 = 128;

/// Places of sums, which are multiples of two to minus this power, times that of the group: 64 powers below 1, 52
/// bits of a fraction.
const SUM_PLACES: i32 = 116;

/// Places of sums of squares, which are multiples of two to minus this power, times twice that of the group.
const SQUARE_PLACES: i32 = 2 * SUM_PLACES;

/// Bits of the fraction of a double as it is stored, without the leading one.
const FRACTION_BITS: u32 = 52;

/// The exponent field of 1.
pub(crate) const BIAS: i32 = 1023;

/// A sum of numbers below 2^64: 116 places, 64 bits before the point, room for 2^64 terms, the sign.
pub type Sum = Fixed<4, SUM_PLACES>;

/// A sum of their squares: 232 places, 128 bits before the point, room for 2^64 terms, the sign.
pub type Squares = Fixed<7, SQUARE_PLACES>;

/// Integer of `LIMBS` times 64 bits in two's complement, times 2^-`PLACES`. Equal numbers are equal values with equal
/// text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fixed<const LIMBS: usize, const PLACES: i32>([u64; LIMBS]);

/// Returns the exponent field of a double.
#[inline]
pub(crate) fn exponent(number: f64) -> i32 {
    (number.to_bits() >> FRACTION_BITS) as i32 & 0x7ff
}

/// Returns the 53 bits of a double, and the power of two that they are multiplied by.
#[inline]
pub(crate) fn parts(number: f64) -> (u64, i32) {
    let field = exponent(number);
    let normal = i32::from(field != 0);
    let fraction = number.to_bits() & ((1 << FRACTION_BITS) - 1);
    (fraction | (normal as u64) << FRACTION_BITS, field - normal + 1 - BIAS - FRACTION_BITS as i32)
}

impl<const LIMBS: usize, const PLACES: i32> Fixed<LIMBS, PLACES> {
    /// Zero.
    pub const ZERO: Self = Self([0; LIMBS]);

    /// Maximum number of characters of the text: the sign, a hexadecimal digit for four bits, the power.
    pub const MAX_TEXT: usize = LIMBS * 16 + 8;

    /// Adds another sum.
    #[inline]
    pub fn merge(&mut self, other: &Self) {
        let mut carry = false;
        for (limb, more) in self.0.iter_mut().zip(other.0) {
            (*limb, carry) = add(*limb, more, carry);
        }
    }

    /// Adds `bits` times two to the power `exponent`, which is a multiple of 2^-`PLACES`.
    #[inline]
    fn add_bits(&mut self, bits: u128, exponent: i32, negative: bool) {
        let shift = (exponent + PLACES).max(0) as u32;
        let (first, within) = ((shift / 64) as usize, shift % 64);
        let low = bits << within;
        // Shifted twice, because a shift by 128 is not allowed.
        let words = [low as u64, (low >> 64) as u64, ((bits >> 64 >> (63 - within)) >> 1) as u64];
        let flip = if negative { u64::MAX } else { 0 };
        // In two's complement -x is !x + 1; the one is the first carry, from below all limbs.
        let mut carry = negative;
        for (at, limb) in self.0.iter_mut().enumerate().skip(first) {
            let word = words.get(at - first).copied().unwrap_or(0);
            // The remaining sign and carry are zero or cancel each other.
            if at - first >= words.len() && negative == carry {
                return;
            }
            (*limb, carry) = add(*limb, word ^ flip, carry);
        }
    }

    /// Returns the sign and magnitude of the sum plus that of the group below, in the units of the latter.
    fn with_lower(&self, lower: &Self, powers: usize) -> (bool, [u64; WIDE]) {
        let (negative, size) = self.magnitude();
        let (lower_negative, lower_size) = lower.magnitude();
        let (mut whole, mut below) = ([0u64; WIDE], [0u64; WIDE]);
        whole[powers / 64..][..LIMBS].copy_from_slice(&size);
        below[..LIMBS].copy_from_slice(&lower_size);
        whole = if negative { negated(whole) } else { whole };
        below = if lower_negative { negated(below) } else { below };
        let mut carry = false;
        for (limb, more) in whole.iter_mut().zip(below) {
            (*limb, carry) = add(*limb, more, carry);
        }
        let negative = whole[WIDE - 1] >> 63 == 1;
        (negative, if negative { negated(whole) } else { whole })
    }

    fn magnitude(&self) -> (bool, [u64; LIMBS]) {
        let negative = self.0[LIMBS - 1] >> 63 == 1;
        (negative, if negative { negated(self.0) } else { self.0 })
    }
}

#[inline]
fn add(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let (sum, one) = a.overflowing_add(b);
    let (sum, two) = sum.overflowing_add(u64::from(carry));
    (sum, one | two)
}

/// Number of limbs that hold the sums of two groups, multiplied by a count or by each other.
const WIDE: usize = 15;

fn negated<const LIMBS: usize>(limbs: [u64; LIMBS]) -> [u64; LIMBS] {
    let mut carry = true;
    limbs.map(|limb| {
        let sum;
        (sum, carry) = add(!limb, 0, carry);
        sum
    })
}

/// Returns an integer, lowest limb first, times 2^-`places`, as the nearest double. It is in the range of normal
/// doubles because both are below 2^1000.
fn to_float(limbs: &[u64], places: i32) -> f64 {
    let Some(top) = limbs.iter().rposition(|&limb| limb != 0) else { return 0.0 };
    let zeros = limbs[top].leading_zeros();
    let below = if top == 0 { 0 } else { limbs[top - 1] };
    let window = (u128::from(limbs[top]) << 64 | u128::from(below)) << zeros;
    // Lower limbs only break ties, as a sticky bit.
    let rest = window as u64 != 0 || limbs[..top.saturating_sub(1)].iter().any(|&limb| limb != 0);
    let bits = (window >> 64) as u64 | u64::from(rest);
    let power = top as i32 * 64 - zeros as i32 - places;
    bits as f64 * f64::from_bits(((power + BIAS) as u64) << FRACTION_BITS)
}

impl Sum {
    /// Adds a number of a group.
    #[inline]
    pub fn add(&mut self, number: f64, group: i32) {
        let (bits, exponent) = parts(number);
        self.add_bits(u128::from(bits), exponent - group * GROUP_POWERS, number.is_sign_negative());
    }

    /// Adds `sum` times the last place of doubles of an exponent field, which is not 0 and of the group.
    pub(crate) fn add_whole(&mut self, sum: i128, field: i32, group: i32) {
        let exponent = field - BIAS - FRACTION_BITS as i32 - group * GROUP_POWERS;
        self.add_bits(sum.unsigned_abs(), exponent, sum < 0);
    }

    /// Returns the sum of two groups, of which `lower` is the one below, rounded once, to the nearest double, ties to
    /// even; in the scale of the upper one.
    pub fn value(&self, lower: &Self) -> f64 {
        let (negative, size) = self.with_lower(lower, GROUP_POWERS as usize);
        let size = to_float(&size, SUM_PLACES + GROUP_POWERS);
        if negative { -size } else { size }
    }
}

impl Squares {
    /// Adds the square of a number of a group.
    #[inline]
    pub fn add_square(&mut self, number: f64, group: i32) {
        let (bits, exponent) = parts(number);
        self.add_bits(u128::from(bits) * u128::from(bits), 2 * (exponent - group * GROUP_POWERS), false);
    }

    /// Adds `sum` times the square of the last place of doubles of an exponent field, which is not 0.
    pub(crate) fn add_whole(&mut self, sum: u128, field: i32, group: i32) {
        let exponent = field - BIAS - FRACTION_BITS as i32 - group * GROUP_POWERS;
        self.add_bits(sum, 2 * exponent, false);
    }
}

/// Returns the population variance of `n` numbers, (n sum(x^2) - sum(x)^2) / n^2, from the sums of a group and of the
/// one below: the difference is exact, so nothing cancels, and the quotient is rounded.
pub fn variance(n: u64, sum: (&Sum, &Sum), squares: (&Squares, &Squares)) -> f64 {
    let (_, squares) = squares.0.with_lower(squares.1, 2 * GROUP_POWERS as usize);
    let mut left = [0u64; WIDE];
    add_product(&mut left, &squares, &[n]);
    let (_, size) = sum.0.with_lower(sum.1, GROUP_POWERS as usize);
    let mut right = [0u64; WIDE];
    add_product(&mut right, &size, &size);
    let mut carry = false;
    for (limb, more) in left.iter_mut().zip(negated(right)) {
        (*limb, carry) = add(*limb, more, carry);
    }
    to_float(&left, SQUARE_PLACES + 2 * GROUP_POWERS) / n as f64 / n as f64
}

/// Adds `a` times `b`, both unsigned, digit by digit.
fn add_product(into: &mut [u64], a: &[u64], b: &[u64]) {
    for (at, &x) in a.iter().enumerate() {
        let mut carry = 0u128;
        for (place, slot) in into[at..].iter_mut().enumerate() {
            let y = b.get(place).copied().unwrap_or(0);
            let whole = u128::from(x) * u128::from(y) + u128::from(*slot) + carry;
            *slot = whole as u64;
            carry = whole >> 64;
        }
    }
}

impl<const LIMBS: usize, const PLACES: i32> Default for Fixed<LIMBS, PLACES> {
    fn default() -> Self {
        Self::ZERO
    }
}

/// Shows the sum in the scale of the group of 1.
impl<const LIMBS: usize, const PLACES: i32> fmt::Debug for Fixed<LIMBS, PLACES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fixed({})", self.text(0))
    }
}

impl<const LIMBS: usize, const PLACES: i32> Fixed<LIMBS, PLACES> {
    /// Returns the text of the sum times two to `power`: `[-]<hexadecimal>p<power>` with an odd integer, which is
    /// multiplied by two to the power; zero is `0`.
    pub fn text(&self, power: i32) -> String {
        let (negative, magnitude) = self.magnitude();
        let Some(lowest) = magnitude.iter().position(|&limb| limb != 0) else { return "0".to_owned() };
        let shift = lowest as u32 * 64 + magnitude[lowest].trailing_zeros();
        let (limbs, bits) = ((shift / 64) as usize, shift % 64);
        let mut digits = String::with_capacity(Self::MAX_TEXT);
        for at in (limbs..LIMBS).rev() {
            let above = magnitude.get(at + 1).copied().unwrap_or(0);
            let limb = ((u128::from(above) << 64 | u128::from(magnitude[at])) >> bits) as u64;
            digits.push_str(&format!("{limb:016x}"));
        }
        let sign = if negative { "-" } else { "" };
        format!("{sign}{}p{}", digits.trim_start_matches('0'), shift as i32 - PLACES + power)
    }

    /// Reads what [`Self::text`] wrote with the same power.
    ///
    /// # Errors
    /// When the text is not exactly one that a sum is written as.
    pub fn read(text: &str, power: i32) -> Result<Self, String> {
        // Writing it again refuses every text that is readable but not the one of its number.
        let sum = if text == "0" { Some(Self::ZERO) } else { Self::parse(text, power) };
        sum.filter(|sum| sum.text(power) == text).ok_or_else(|| {
            let text: String = text.chars().take(Self::MAX_TEXT).collect();
            format!("`{text}` is not the text of a sum, such as `3p-1` for one and a half")
        })
    }

    fn parse(text: &str, power: i32) -> Option<Self> {
        let (digits, exponent) = text.split_once('p')?;
        let (negative, digits) = digits.strip_prefix('-').map_or((false, digits), |digits| (true, digits));
        let mut at = exponent.parse::<i32>().ok()?.checked_sub(power)?.checked_add(PLACES)?;
        let mut limbs = [0u64; LIMBS];
        for digit in digits.chars().rev() {
            let digit = digit.to_digit(16)?;
            for bit in (0..4).filter(|bit| digit >> bit & 1 == 1) {
                let place = usize::try_from(at.checked_add(bit)?).ok()?;
                *limbs.get_mut(place / 64)? |= 1 << (place % 64);
            }
            at = at.checked_add(4)?;
        }
        // The highest bit is that of the sign.
        let fits = limbs[LIMBS - 1] >> 63 == 0;
        fits.then(|| Self(if negative { negated(limbs) } else { limbs }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::ExactSum;

    fn sums(terms: &[f64]) -> (Sum, Squares) {
        let (mut sum, mut squares) = (Sum::ZERO, Squares::ZERO);
        for &term in terms {
            sum.add(term, 0);
            squares.add_square(term, 0);
        }
        (sum, squares)
    }

    #[test]
    fn known_sums_and_their_texts() {
        let cases: [(&[f64], f64, &str, &str); 5] = [
            (&[], 0.0, "0", "0"),
            (&[1.5], 1.5, "3p-1", "9p-2"),
            (&[-1.5], -1.5, "-3p-1", "9p-2"),
            (&[0.1, 0.1, 0.1], 0.30000000000000004, "26666666666667p-55", ""),
            (&[1e16, 1.0, -1e16], 1.0, "1p0", ""),
        ];
        for (terms, value, text, squares_text) in cases {
            let (sum, squares) = sums(terms);
            assert_eq!(sum.value(&Sum::ZERO), value, "{terms:?}");
            assert_eq!(sum.text(0), text, "{terms:?}");
            assert!(squares_text.is_empty() || squares.text(0) == squares_text, "{terms:?}: {squares:?}");
            assert_eq!(Sum::read(text, 0), Ok(sum));
            assert_eq!(Sum::read(&sum.text(-128), -128), Ok(sum));
        }
    }

    #[test]
    fn variance_does_not_cancel() {
        let of = |terms: &[f64]| {
            let (sum, squares) = sums(terms);
            variance(terms.len() as u64, (&sum, &Sum::ZERO), (&squares, &Squares::ZERO))
        };
        assert_eq!(of(&[1e15 + 1.0, 1e15 + 2.0, 1e15 + 3.0, 1e15 + 4.0]), 1.25);
        assert_eq!(of(&[0.1; 1000]), 0.0);
        assert_eq!(of(&[1.8e19, -1.8e19]), 3.24e38);
    }

    #[test]
    fn the_room_for_many_terms_is_there() {
        let greatest = 2f64.powi(64) - 2048.0;
        let (mut sum, mut squares) = sums(&[-greatest]);
        // 2^63 terms by doubling.
        for _ in 0..63 {
            sum.merge(&sum.clone());
            squares.merge(&squares.clone());
        }
        assert_eq!(sum.value(&Sum::ZERO), -greatest * 2f64.powi(63));
        assert!(sum.text(-1024).len() <= Sum::MAX_TEXT && squares.text(-2048).len() <= Squares::MAX_TEXT);
    }

    #[test]
    fn other_texts_are_refused() {
        let long = format!("1{}p0", "0".repeat(100));
        for text in [
            "",
            "1",
            "2p0",
            "p0",
            "-0",
            "01p0",
            "1p-245",
            "1p400",
            "1p139",
            "Ap0",
            "1p",
            "+1p0",
            &long,
            "1p99999999999",
        ] {
            assert!(Sum::read(text, 0).is_err(), "{text}");
        }
    }

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![-1.0..1.0f64, -1e3..1e3f64, -1e18..1e18f64, Just(0.1), Just(2f64.powi(-63))]
    }

    proptest! {
        #[test]
        fn agrees_with_the_exact_sum_in_any_grouping(terms in vec(number(), 0..40), cut in 0usize..40) {
            let terms: Vec<f64> = terms.into_iter().filter(|term| term.abs() > 2f64.powi(-64)).collect();
            let (sum, squares) = sums(&terms);
            let (left, right) = terms.split_at(cut.min(terms.len()));
            let (mut merged, mut merged_squares) = sums(right);
            merged.merge(&sums(left).0);
            merged_squares.merge(&sums(left).1);
            prop_assert_eq!((merged, merged_squares), (sum, squares));
            prop_assert_eq!(sum.value(&Sum::ZERO), terms.iter().copied().collect::<ExactSum>().value());
            prop_assert_eq!(Sum::read(&sum.text(0), 0).unwrap(), sum);
            prop_assert_eq!(Squares::read(&squares.text(256), 256).unwrap(), squares);
        }
    }
}
