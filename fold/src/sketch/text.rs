//! Text of a sketch: integers in digits of base 64, the least first, five bits a digit; the sixth bit is set if
//! another digit follows. First the level, then the number of zeros; then for each cell its difference from the last
//! one (for the first one itself, as twice its size, plus one below zero), and its count. Without numbers it is
//! empty.
//!
//! Version 2 wrote arrays of numbers, which are read as [`OldCells`].

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, SeqAccess, Unexpected, Visitor},
};

use super::{
    Cells, Sketch,
    axis::{number, place},
    near::{COARSEST, Near},
    old::OldCells,
};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Maximum number of digits of a number.
const MAX_DIGITS: usize = 13;

/// Text of a sketch with mixed cells.
const MIXED: &str = "?";

/// Returns the number of digits of a number.
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
    if text.is_empty() {
        return Some(Near::default());
    }
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
        match &self.cells {
            Cells::Near(near) => serializer.serialize_str(&text_of(near)),
            Cells::Old(old) => old.to_array().serialize(serializer),
            Cells::Mixed => serializer.serialize_str(MIXED),
        }
    }
}

impl<'de, const BYTES: usize, const FLOOR: u32> Deserialize<'de> for Sketch<BYTES, FLOOR> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Text).map(|cells| match cells {
            Cells::Near(near) if near == Near::default() => Self::default(),
            Cells::Old(mut old) => {
                old.fit(BYTES);
                Self { cells: Cells::Old(old) }
            }
            cells => Self { cells },
        })
    }
}

/// Visitor of a string, or of the array of version 2.
struct Text;

impl<'de> Visitor<'de> for Text {
    type Value = Cells;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text of a sketch")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Cells, E> {
        let cells = if text == MIXED { Some(Cells::Mixed) } else { near_of(text).map(Cells::Near) };
        cells.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Cells, A::Error> {
        let mut numbers = Vec::<i128>::new();
        while let Some(number) = array.next_element()? {
            numbers.push(number);
        }
        match numbers.as_slice() {
            [] => Ok(Cells::Near(Near::default())),
            numbers => OldCells::read(numbers)
                .map(Cells::Old)
                .ok_or_else(|| de::Error::invalid_value(Unexpected::Seq, &self)),
        }
    }
}
