//! The text of a sketch: whole numbers in digits of base 64, the least first, five bits a digit; the sixth
//! bit says that another digit follows. First the level, then how many zeros there are; then for each
//! cell by how much its number is greater than the last one (the first one itself, as twice its size, plus
//! one below zero), and its count. Without a number it is empty.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Unexpected},
};

use super::{
    Sketch,
    axis::{number, place},
    near::{COARSEST, Near},
};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Maximum number of digits of a number.
const MAX_DIGITS: usize = 13;

/// Number of digits of a number.
#[inline]
fn digits(number: u64) -> usize {
    (64 - (number | 1).leading_zeros()).div_ceil(5) as usize
}

/// Estimates the bytes of a text: exact, but with the maximum for the level and the first cell. It stops counting
/// beyond `enough`.
pub(super) fn bytes(zeros: u64, cells: &[(i64, u64)], enough: usize) -> usize {
    let mut bytes = 2 + digits(zeros) + MAX_DIGITS + cells.first().map_or(0, |(_, n)| digits(*n));
    for pair in cells.windows(2) {
        bytes += digits(pair[1].0.abs_diff(pair[0].0)) + digits(pair[1].1);
        if bytes > enough {
            break;
        }
    }
    bytes
}

fn write(mut number: u64, text: &mut String) {
    loop {
        let more = u64::from(number >= 32) << 5;
        text.push(char::from(DIGITS[(number & 31 | more) as usize]));
        number >>= 5;
        if more == 0 {
            return;
        }
    }
}

fn text_of(near: &Near) -> String {
    let mut text = String::new();
    if near.zeros == 0 && near.cells.is_empty() {
        return text;
    }
    write(u64::from(near.level), &mut text);
    write(near.zeros, &mut text);
    let mut last: Option<i64> = None;
    for &(cell, n) in &near.cells {
        match last {
            // A sign and a size; no cell is the minimum `i64`.
            None => write((cell << 1 ^ cell >> 63) as u64, &mut text),
            Some(last) => write(cell.abs_diff(last), &mut text),
        }
        write(n, &mut text);
        last = Some(cell);
    }
    text
}

/// Reader of the digits of a text.
struct Reader<'a>(std::slice::Iter<'a, u8>);

impl Reader<'_> {
    fn next(&mut self) -> Option<u64> {
        let mut number = 0u128;
        for place in 0..MAX_DIGITS {
            let byte = *self.0.next()?;
            let digit = DIGITS.iter().position(|digit| *digit == byte)? as u128;
            number |= (digit & 31) << (place * 5);
            if digit < 32 {
                // A last digit of zero would be another text of the same number.
                let is_shortest = digit > 0 || place == 0;
                return u64::try_from(number).ok().filter(|_| is_shortest);
            }
        }
        None
    }
}

fn near_of(text: &str) -> Option<Near> {
    let mut reader = Reader(text.as_bytes().iter());
    let level = u32::try_from(reader.next()?).ok().filter(|level| *level <= COARSEST)?;
    let zeros = reader.next()?;
    let mut cells = Vec::<(i64, u64)>::new();
    while !reader.0.as_slice().is_empty() {
        let step = reader.next()?;
        let cell = match cells.last() {
            None => (step >> 1) as i64 ^ -((step & 1) as i64),
            Some((last, _)) => last.checked_add_unsigned(step).filter(|_| step > 0)?,
        };
        cells.push((cell, reader.next().filter(|n| *n > 0)?));
    }
    let bytes = bytes(zeros, &cells, usize::MAX);
    let near = Near { level, zeros, cells, bytes };
    let is_one = |cell: i64| match level {
        // A finite nonzero number.
        0 => number(cell).is_finite() && number(cell) != 0.0,
        level => (place(f64::MIN) >> (level - 1)..=place(f64::MAX) >> (level - 1)).contains(&cell),
    };
    (near.n() > 0 && near.cells.iter().all(|(cell, _)| is_one(*cell))).then_some(near)
}

impl<const BYTES: usize, const FLOOR: u32> Serialize for Sketch<BYTES, FLOOR> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text_of(&self.near))
    }
}

impl<'de, const BYTES: usize, const FLOOR: u32> Deserialize<'de> for Sketch<BYTES, FLOOR> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(Self::default());
        }
        let wrong = || D::Error::invalid_value(Unexpected::Str(&text), &"the text of a sketch");
        near_of(&text).map(|near| Self { near }).ok_or_else(wrong)
    }
}
