//! Sums of numbers and of their squares, over the whole range of doubles.
//!
//! Doubles fall into groups of 128 powers of two ([`group`]). Each is added in full, in the units of its group, so
//! nothing is truncated or rounded. The sums of the greatest non-empty group are kept, and of the one below it: a
//! number is left out only if it is less than 2^-128 of the greatest. The kept groups depend on the numbers alone,
//! and sums of one group never carry over to another; so order and grouping do not matter (as in the binned sums of
//! Demmel and Nguyen, "Parallel reproducible summation", 2015).

use serde::{Deserialize, Serialize};

use super::Merge;
use crate::fixed::{self, Squares, Sum, variance};

/// Number of powers of two in a group.
const POWERS: i32 = fixed::GROUP_POWERS;

/// Group if all numbers are zero.
const NONE: i32 = i32::MIN;

/// Two sums of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pair {
    sum: Sum,
    squares: Squares,
}

/// Number of numbers summed up together by their exponent fields; `CELLS` is the number of fields, from the greatest
/// down.
const BLOCK: usize = 1 << 10;
const CELLS: usize = 16;

/// Sums of numbers of one exponent field and of their squares, in units of their last place. It has room for 2^20
/// numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) sum: i128,
    pub(super) squares: u128,
}

impl Cell {
    #[inline]
    pub(super) fn add(&mut self, number: f64) {
        let (bits, _) = fixed::parts(number);
        let sign = i64::from(number.is_sign_negative());
        self.sum += i128::from((bits as i64 ^ -sign) + sign);
        self.squares += u128::from(bits) * u128::from(bits);
    }
}

/// Sums of numbers and of their squares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moments {
    /// Greatest group with a number.
    top: i32,
    upper: Pair,
    /// Sums of the group below; `None` as long as all numbers are of one group.
    lower: Option<Pair>,
}

/// As they are written. A sum is in the number's own units, whatever its group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Text {
    sum: String,
    squares: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    low: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    low_squares: Option<String>,
}

/// Maximum number of bytes of the sums of numbers of one group, with their names.
pub(super) const NARROW_TEXT: usize = Sum::MAX_TEXT + Squares::MAX_TEXT + 24;

/// Maximum number of bytes of any sums.
pub(super) const MAX_TEXT: usize = 2 * NARROW_TEXT + 8;

/// Returns the group of a nonzero number: from 2^(128 g - 64) on, below 2^(128 g + 64).
#[inline]
fn group(number: f64) -> i32 {
    group_of(fixed::exponent(number))
}

#[inline]
fn group_of(field: i32) -> i32 {
    (field - fixed::BIAS + POWERS / 2).div_euclid(POWERS)
}

impl Moments {
    /// Creates the sums of no numbers.
    pub(crate) const fn empty() -> Self {
        Self { top: NONE, upper: Pair { sum: Sum::ZERO, squares: Squares::ZERO }, lower: None }
    }

    /// Returns whether there are numbers of different groups.
    pub(super) fn is_wide(&self) -> bool {
        self.lower.is_some()
    }

    /// Returns the sums of a group; `None` if it is not kept.
    #[inline]
    fn pair(&mut self, group: i32) -> Option<&mut Pair> {
        if group != self.top {
            return self.other_pair(group);
        }
        Some(&mut self.upper)
    }

    #[cold]
    fn other_pair(&mut self, group: i32) -> Option<&mut Pair> {
        if self.top == NONE {
            self.top = group;
        }
        if group > self.top {
            self.raise(group);
        }
        match self.top - group {
            0 => Some(&mut self.upper),
            1 => Some(self.lower.get_or_insert_default()),
            _ => {
                self.lower.get_or_insert_default();
                None
            }
        }
    }

    fn raise(&mut self, group: i32) {
        let upper = std::mem::take(&mut self.upper);
        self.lower = Some(if group == self.top + 1 { upper } else { Pair::default() });
        self.top = group;
    }

    /// Adds a number.
    #[inline]
    pub(crate) fn add(&mut self, number: f64) {
        if number != 0.0 {
            let group = group(number);
            if let Some(pair) = self.pair(group) {
                pair.sum.add(number, group);
                pair.squares.add_square(number, group);
            }
        }
    }

    /// Adds numbers. The result is that of adding them one by one, but faster for numbers of similar size.
    pub(crate) fn add_all(&mut self, numbers: &[f64]) {
        for block in numbers.chunks(BLOCK) {
            let greatest = block.iter().map(|number| fixed::exponent(*number)).max().unwrap_or(0);
            // Exponent field 0 is that of zero and of numbers that are rarer still.
            let least = (greatest + 1 - CELLS as i32).max(1);
            let mut cells = [Cell::default(); CELLS];
            for number in block {
                match cells.get_mut((fixed::exponent(*number) - least) as usize) {
                    Some(cell) => cell.add(*number),
                    None => self.add(*number),
                }
            }
            for (cell, field) in cells.iter().zip(least..).filter(|(cell, _)| cell.squares > 0) {
                self.add_whole(cell.sum, cell.squares, field);
            }
        }
    }

    /// Adds the sum of numbers of one exponent field, and that of their squares, in units of their last place.
    pub(super) fn add_whole(&mut self, sum: i128, squares: u128, field: i32) {
        let group = group_of(field);
        if let Some(pair) = self.pair(group) {
            pair.sum.add_whole(sum, field, group);
            pair.squares.add_whole(squares, field, group);
        }
    }

    /// Returns the arithmetic mean of `n` numbers with these sums.
    pub(super) fn mean(&self, n: u64) -> f64 {
        let lower = self.lower.unwrap_or_default();
        libm::scalbn(self.upper.sum.value(&lower.sum) / n as f64, self.power())
    }

    /// The population variance, and its square root, which may be finite where the variance is not.
    pub(crate) fn variance(&self, n: u64) -> (f64, f64) {
        let lower = self.lower.unwrap_or_default();
        let variance = variance(n, (&self.upper.sum, &lower.sum), (&self.upper.squares, &lower.squares));
        (libm::scalbn(variance, 2 * self.power()), libm::scalbn(variance.sqrt(), self.power()))
    }

    /// Returns the power of two that sums of numbers are scaled by.
    fn power(&self) -> i32 {
        if self.top == NONE { 0 } else { self.top * POWERS }
    }

    pub(super) fn text(&self) -> Text {
        let power = self.power();
        let low = |text: &dyn Fn(&Pair) -> String| self.lower.as_ref().map(text);
        Text {
            sum: self.upper.sum.text(power),
            squares: self.upper.squares.text(2 * power),
            low: low(&|pair| pair.sum.text(power - POWERS)),
            low_squares: low(&|pair| pair.squares.text(2 * (power - POWERS))),
        }
    }

    /// Reads the sums of numbers of which `greatest` is the greatest in size.
    pub(super) fn read(text: &Text, greatest: f64) -> Result<Self, String> {
        let top = if greatest == 0.0 || !greatest.is_finite() { NONE } else { group(greatest) };
        let moments = Self { top, ..Self::empty() };
        let power = moments.power();
        let pair = |sum: &str, squares: &str, power: i32| {
            Ok::<_, String>(Pair { sum: Sum::read(sum, power)?, squares: Squares::read(squares, 2 * power)? })
        };
        let upper = pair(&text.sum, &text.squares, power)?;
        let lower = match (&text.low, &text.low_squares) {
            (None, None) => None,
            (Some(sum), Some(squares)) => Some(pair(sum, squares, power - POWERS)?),
            _ => return Err("`low` and `low_squares` come together".into()),
        };
        Ok(Self { upper, lower, ..moments })
    }
}

impl Default for Moments {
    fn default() -> Self {
        Self::empty()
    }
}

impl Merge for Moments {
    fn merge(&mut self, other: &Self) {
        if other.top == NONE {
            return;
        }
        if self.top == NONE {
            self.clone_from(other);
            return;
        }
        if other.lower.is_some() {
            self.lower.get_or_insert_default();
        }
        let pairs = [(other.top, Some(&other.upper)), (other.top - 1, other.lower.as_ref())];
        for (group, more) in pairs {
            if let Some(more) = more
                && (group >= self.top - 1 || group == other.top)
                && let Some(pair) = self.pair(group)
            {
                pair.sum.merge(&more.sum);
                pair.squares.merge(&more.squares);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn batched_moments_equal_single_additions(
            numbers in vec(prop_oneof![4 => -1e3..1e3f64, 1 => -1e-30..1e30f64, 1 => proptest::num::f64::NORMAL | proptest::num::f64::ZERO | proptest::num::f64::SUBNORMAL], 0..60),
        ) {
            let (mut together, mut alone) = (Moments::empty(), Moments::empty());
            together.add_all(&numbers);
            numbers.iter().for_each(|number| alone.add(*number));
            prop_assert_eq!(&together, &alone);
            together.add_all(&[0.5; 3_000]);
            (0..3_000).for_each(|_| alone.add(0.5));
            prop_assert_eq!(together, alone);
        }
    }
}
