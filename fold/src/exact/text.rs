//! The text of an exact sum: `[-]<hexadecimal>p<power>`, which is the hexadecimal whole number
//! times 2 to the decimal power. The whole number is odd, so that a sum has one text only; zero is
//! `0`. One and a half is `3p-1`. Sums of numbers of similar size take about 20 to 30 characters,
//! the longest possible one about 550.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{CHUNK_BITS, CHUNKS, ExactSum, LOWEST_EXPONENT};

/// Bits that a text may use: all but the sign.
const BITS: u32 = CHUNKS as u32 * CHUNK_BITS - 1;

/// The text is not one that [`ExactSum`] writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the text of an exact sum, such as `3p-1` for one and a half")]
pub struct ParseExactSumError(String);

impl fmt::Display for ExactSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, magnitude) = self.magnitude();
        let (Some(lowest), Some(top)) = (magnitude.lowest_bit(), magnitude.top_bit()) else {
            return f.write_str("0");
        };
        let mut digits = String::with_capacity(48);
        if negative {
            digits.push('-');
        }
        for digit in (0..=(top - lowest) / 4).rev() {
            let nibble = magnitude.bits(lowest + 4 * digit, 4) as usize;
            digits.push(char::from(b"0123456789abcdef"[nibble]));
        }
        write!(f, "{digits}p{}", lowest as i32 + LOWEST_EXPONENT)
    }
}

impl fmt::Debug for ExactSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExactSum({self})")
    }
}

impl FromStr for ExactSum {
    type Err = ParseExactSumError;

    /// # Errors
    /// When the text is not exactly one that a sum is written as.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Writing it again refuses every text that is readable but not the one of its sum.
        let sum = if text == "0" { Some(Self::new()) } else { read(text) };
        sum.filter(|sum| sum.to_string() == text).ok_or_else(|| ParseExactSumError(text.to_owned()))
    }
}

fn read(text: &str) -> Option<ExactSum> {
    let (digits, power) = text.split_once('p')?;
    let (negative, digits) = digits.strip_prefix('-').map_or((false, digits), |digits| (true, digits));
    let lowest = u32::try_from(power.parse::<i32>().ok()?.checked_sub(LOWEST_EXPONENT)?).ok()?;
    let mut sum = ExactSum::new();
    let mut at = lowest;
    for digit in digits.chars().rev() {
        let nibble = i64::from(digit.to_digit(16)?);
        if at >= BITS || nibble != 0 && at + nibble.ilog2() >= BITS {
            return None;
        }
        // A nibble may reach into the next chunk; the carry passes it on.
        sum.chunks[(at / CHUNK_BITS) as usize] += nibble << (at % CHUNK_BITS);
        at += 4;
    }
    if negative {
        sum.chunks.iter_mut().for_each(|chunk| *chunk = -*chunk);
    }
    sum.carry();
    Some(sum)
}

impl Serialize for ExactSum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ExactSum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}
