//! Sums in fixed point: exact for numbers of ordinary size, short as text, cheap to add and merge.
//!
//! [`crate::ExactSum`] holds every finite double and may take 550 characters. A rollup keeps thousands
//! of sums and must stay small whatever arrives, so its numbers are cut to multiples of 2^-96 and
//! must be smaller than 2^95 in size; their squares are whole multiples of 2^-192. What is cut
//! depends on the number alone, so order and grouping of the terms leave no trace.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number must be smaller in size than two to this power, about 4e28, to be summed.
pub const LIMIT_EXPONENT: i32 = 95;

/// Sums are multiples of two to minus this power, about 1e-29.
const SUM_PLACES: i32 = 96;

/// Sums of squares are multiples of two to minus this power.
const SQUARE_PLACES: i32 = 2 * SUM_PLACES;

/// Bits of the fraction of a double as it is stored, without the leading one.
const FRACTION_BITS: u32 = 52;

/// The exponent field of 1.
const BIAS: i32 = 1023;

/// A sum of numbers below 2^95: 96 places, 95 bits before the point, room for 2^64 terms, the sign.
pub type Sum = Fixed<4, SUM_PLACES>;

/// A sum of their squares: 192 places, 190 bits before the point, room for 2^64 terms, the sign.
pub type Squares = Fixed<7, SQUARE_PLACES>;

/// A whole number of `LIMBS` times 64 bits in two's complement, times 2^-`PLACES`. Equal numbers are
/// equal values with equal text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fixed<const LIMBS: usize, const PLACES: i32>([u64; LIMBS]);

/// Whether a number is small enough in size to be summed.
#[inline]
pub fn is_summable(number: f64) -> bool {
    exponent(number) < LIMIT
}

/// The exponent field of the least number that is too large to be summed.
pub(crate) const LIMIT: i32 = BIAS + LIMIT_EXPONENT;

/// From this exponent field on, numbers are whole multiples of 2^-96 and nothing of them is cut.
pub(crate) const LEAST_WHOLE_EXPONENT: i32 = BIAS + FRACTION_BITS as i32 - SUM_PLACES;

/// The exponent field of a double.
#[inline]
pub(crate) fn exponent(number: f64) -> i32 {
    (number.to_bits() >> FRACTION_BITS) as i32 & 0x7ff
}

/// The 53 bits of a double, and the power of two that they are multiplied by.
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

    /// The most characters of the text: the sign, a hexadecimal digit for four bits, the power.
    pub const MAX_TEXT: usize = LIMBS * 16 + 6;

    /// Adds another sum.
    #[inline]
    pub fn merge(&mut self, other: &Self) {
        let mut carry = false;
        for (limb, more) in self.0.iter_mut().zip(other.0) {
            (*limb, carry) = add(*limb, more, carry);
        }
    }

    /// Adds `bits` times two to the power `exponent`, cut to a multiple of 2^-`PLACES`.
    #[inline]
    fn add_bits(&mut self, bits: u128, exponent: i32, negative: bool) {
        let shift = exponent + PLACES;
        let (bits, shift) = if shift < 0 {
            (bits.checked_shr(shift.unsigned_abs()).unwrap_or(0), 0)
        } else {
            (bits, shift as u32)
        };
        let (first, within) = ((shift / 64) as usize, shift % 64);
        let low = bits << within;
        // Twice, because a shift by 128 is none.
        let words = [low as u64, (low >> 64) as u64, ((bits >> 64 >> (63 - within)) >> 1) as u64];
        let flip = if negative { u64::MAX } else { 0 };
        // In two's complement -x is !x + 1; the one is the first carry, from below all limbs.
        let mut carry = negative;
        for (at, limb) in self.0.iter_mut().enumerate().skip(first) {
            let word = words.get(at - first).copied().unwrap_or(0);
            // Nothing, or nothing but sign and carry, which cancel, is left to add.
            if at - first >= words.len() && negative == carry {
                return;
            }
            (*limb, carry) = add(*limb, word ^ flip, carry);
        }
    }

    /// The number rounded once, to the nearest double, ties to even.
    pub fn value(&self) -> f64 {
        let (negative, magnitude) = self.magnitude();
        let size = to_float(&magnitude, PLACES);
        if negative { -size } else { size }
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

fn negated<const LIMBS: usize>(limbs: [u64; LIMBS]) -> [u64; LIMBS] {
    let mut carry = true;
    limbs.map(|limb| {
        let sum;
        (sum, carry) = add(!limb, 0, carry);
        sum
    })
}

/// A whole number, lowest limb first, times 2^-`places`, as the nearest double. It is in the range of
/// normal doubles because both are below 2^1000.
fn to_float(limbs: &[u64], places: i32) -> f64 {
    let Some(top) = limbs.iter().rposition(|&limb| limb != 0) else { return 0.0 };
    let zeros = limbs[top].leading_zeros();
    let below = if top == 0 { 0 } else { limbs[top - 1] };
    let window = (u128::from(limbs[top]) << 64 | u128::from(below)) << zeros;
    // What is left of lower limbs counts only as "a little more".
    let rest = window as u64 != 0 || limbs[..top.saturating_sub(1)].iter().any(|&limb| limb != 0);
    let bits = (window >> 64) as u64 | u64::from(rest);
    let power = top as i32 * 64 - zeros as i32 - places;
    bits as f64 * f64::from_bits(((power + BIAS) as u64) << FRACTION_BITS)
}

impl Sum {
    /// Adds a number that [`is_summable`].
    #[inline]
    pub fn add(&mut self, number: f64) {
        let (bits, exponent) = parts(number);
        self.add_bits(u128::from(bits), exponent, number.is_sign_negative());
    }

    /// Adds `sum` times the last place of doubles of an exponent field, which is not 0.
    pub(crate) fn add_whole(&mut self, sum: i128, field: i32) {
        self.add_bits(sum.unsigned_abs(), field - BIAS - FRACTION_BITS as i32, sum < 0);
    }
}

impl Squares {
    /// Adds the square of a number that [`is_summable`].
    #[inline]
    pub fn add_square(&mut self, number: f64) {
        let (bits, exponent) = parts(number);
        self.add_bits(u128::from(bits) * u128::from(bits), 2 * exponent, false);
    }

    /// Adds `sum` times the square of the last place of doubles of an exponent field, which is not 0.
    pub(crate) fn add_whole(&mut self, sum: u128, field: i32) {
        self.add_bits(sum, 2 * (field - BIAS - FRACTION_BITS as i32), false);
    }
}

/// The population variance of `n` numbers, (n sum(x^2) - sum(x)^2) / n^2: the difference is exact, so
/// nothing cancels, and the quotient is rounded.
pub fn variance(n: u64, sum: &Sum, squares: &Squares) -> f64 {
    const WIDE: usize = 9;
    let mut left = [0u64; WIDE];
    add_product(&mut left, &squares.0, &[n]);
    let (_, size) = sum.magnitude();
    let mut right = [0u64; WIDE];
    add_product(&mut right, &size, &size);
    let mut carry = false;
    for (limb, more) in left.iter_mut().zip(negated(right)) {
        (*limb, carry) = add(*limb, more, carry);
    }
    // Squares were cut as well as numbers, so equal tiny numbers may miss zero by a little.
    let is_negative = left[WIDE - 1] >> 63 == 1;
    if is_negative { 0.0 } else { to_float(&left, SQUARE_PLACES) / n as f64 / n as f64 }
}

/// Adds `a` times `b`, both without sign, digit by digit.
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

/// `[-]<hexadecimal>p<power>` with an odd whole number, as [`crate::ExactSum`] writes it; zero is `0`.
impl<const LIMBS: usize, const PLACES: i32> fmt::Display for Fixed<LIMBS, PLACES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, magnitude) = self.magnitude();
        let Some(lowest) = magnitude.iter().position(|&limb| limb != 0) else { return f.write_str("0") };
        let shift = lowest as u32 * 64 + magnitude[lowest].trailing_zeros();
        let (limbs, bits) = ((shift / 64) as usize, shift % 64);
        let mut digits = String::with_capacity(Self::MAX_TEXT);
        for at in (limbs..LIMBS).rev() {
            let above = magnitude.get(at + 1).copied().unwrap_or(0);
            let limb = ((u128::from(above) << 64 | u128::from(magnitude[at])) >> bits) as u64;
            digits.push_str(&format!("{limb:016x}"));
        }
        let sign = if negative { "-" } else { "" };
        write!(f, "{sign}{}p{}", digits.trim_start_matches('0'), shift as i32 - PLACES)
    }
}

impl<const LIMBS: usize, const PLACES: i32> fmt::Debug for Fixed<LIMBS, PLACES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fixed({self})")
    }
}

/// The text is not one that a sum is written as.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the text of a sum, such as `3p-1` for one and a half")]
pub struct ParseSumError(String);

impl<const LIMBS: usize, const PLACES: i32> FromStr for Fixed<LIMBS, PLACES> {
    type Err = ParseSumError;

    /// # Errors
    /// When the text is not exactly one that a sum is written as.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Writing it again refuses every text that is readable but not the one of its number.
        let number = if text == "0" { Some(Self::ZERO) } else { Self::read(text) };
        number
            .filter(|number| number.to_string() == text)
            .ok_or_else(|| ParseSumError(text.chars().take(Self::MAX_TEXT).collect()))
    }
}

impl<const LIMBS: usize, const PLACES: i32> Fixed<LIMBS, PLACES> {
    fn read(text: &str) -> Option<Self> {
        let (digits, power) = text.split_once('p')?;
        let (negative, digits) = digits.strip_prefix('-').map_or((false, digits), |digits| (true, digits));
        let mut at = u32::try_from(power.parse::<i32>().ok()?.checked_add(PLACES)?).ok()?;
        let mut limbs = [0u64; LIMBS];
        for digit in digits.chars().rev() {
            let wide = u128::from(digit.to_digit(16)?) << (at % 64);
            let (limb, over) = ((at / 64) as usize, (wide >> 64) as u64);
            *limbs.get_mut(limb)? |= wide as u64;
            if over != 0 {
                *limbs.get_mut(limb + 1)? |= over;
            }
            at += 4;
        }
        Some(Self(if negative { negated(limbs) } else { limbs }))
    }
}

impl<const LIMBS: usize, const PLACES: i32> Serialize for Fixed<LIMBS, PLACES> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const LIMBS: usize, const PLACES: i32> Deserialize<'de> for Fixed<LIMBS, PLACES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
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
            sum.add(term);
            squares.add_square(term);
        }
        (sum, squares)
    }

    #[test]
    fn known_sums_and_their_texts() {
        let cases: [(&[f64], f64, &str, f64, &str); 7] = [
            (&[], 0.0, "0", 0.0, "0"),
            (&[1.5], 1.5, "3p-1", 2.25, "9p-2"),
            (&[-1.5, -0.0], -1.5, "-3p-1", 2.25, "9p-2"),
            (&[0.1, 0.1, 0.1], 0.30000000000000004, "26666666666667p-55", 0.030000000000000002, ""),
            (&[1e16, 1.0, -1e16], 1.0, "1p0", 2e32, ""),
            (&[1e-300, -1e-300], 0.0, "0", 0.0, "0"),
            (&[3e28, 3e28], 6e28, "", 1.8e57, ""),
        ];
        for (terms, sum, text, square, squares_text) in cases {
            let (found, squares) = sums(terms);
            assert_eq!((found.value(), squares.value()), (sum, square), "{terms:?}");
            assert!(text.is_empty() || found.to_string() == text, "{terms:?}: {found}");
            assert!(squares_text.is_empty() || squares.to_string() == squares_text, "{terms:?}: {squares}");
        }
        assert!(
            is_summable(3e28) && !is_summable(4e28) && !is_summable(f64::INFINITY) && !is_summable(-1e300)
        );
    }

    #[test]
    fn variance_does_not_cancel() {
        let (sum, squares) = sums(&[1e15 + 1.0, 1e15 + 2.0, 1e15 + 3.0, 1e15 + 4.0]);
        assert_eq!(variance(4, &sum, &squares), 1.25);
        let (sum, squares) = sums(&[0.1; 1000]);
        assert_eq!(variance(1000, &sum, &squares), 0.0);
        let (sum, squares) = sums(&[3e28, -3e28]);
        assert_eq!(variance(2, &sum, &squares), 9e56);
        let (sum, squares) = sums(&[1e-20, 3e-20]);
        assert!((variance(2, &sum, &squares) / 1e-40 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn the_room_for_many_terms_is_there() {
        let greatest = f64::from_bits((((BIAS + LIMIT_EXPONENT) as u64) << FRACTION_BITS) - 1);
        let (mut sum, mut squares) = sums(&[-greatest]);
        // 2^63 terms by doubling.
        for _ in 0..63 {
            sum.merge(&sum.clone());
            squares.merge(&squares.clone());
        }
        assert_eq!(sum.value(), -greatest * 2f64.powi(63));
        assert_eq!(squares.value(), greatest * greatest * 2f64.powi(63));
        assert!(sum.to_string().len() <= Sum::MAX_TEXT && squares.to_string().len() <= Squares::MAX_TEXT);
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
            "1p-97",
            "1p400",
            "Ap0",
            "1p",
            "+1p0",
            &long,
            "1p99999999999",
        ] {
            assert!(text.parse::<Sum>().is_err(), "{text}");
        }
    }

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![-1.0..1.0f64, -1e3..1e3f64, -1e28..1e28f64, Just(0.1), Just(-0.0), Just(2f64.powi(-96))]
    }

    proptest! {
        #[test]
        fn agrees_with_the_exact_sum_in_any_grouping(terms in vec(number(), 0..40), cut in 0usize..40) {
            let terms: Vec<f64> = terms.into_iter().map(|term| (term * 1e6).trunc() / 64.0).filter(|&term| is_summable(term)).collect();
            let (sum, squares) = sums(&terms);
            let (left, right) = terms.split_at(cut.min(terms.len()));
            let (mut merged, mut merged_squares) = sums(right);
            merged.merge(&sums(left).0);
            merged_squares.merge(&sums(left).1);
            prop_assert_eq!((merged, merged_squares), (sum, squares));
            prop_assert_eq!(sum.value(), terms.iter().copied().collect::<ExactSum>().value());
            prop_assert_eq!(sum.to_string().parse::<Sum>().unwrap(), sum);
            prop_assert_eq!(squares.to_string().parse::<Squares>().unwrap(), squares);
            let n = terms.len() as f64;
            if !terms.is_empty() {
                let mean = sum.value() / n;
                let naive = terms.iter().map(|term| (term - mean).powi(2)).sum::<f64>() / n;
                let found = variance(terms.len() as u64, &sum, &squares);
                prop_assert!((found - naive).abs() <= 1e-9 * naive + 1e-12, "{} {}", found, naive);
            }
        }
    }
}
