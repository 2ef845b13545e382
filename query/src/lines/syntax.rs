//! Syntax of single values in CSV and NDJSON.

use std::borrow::Cow;

use event::Result;
use polars::prelude::{Column, DataFrame};
use polars_arrow::array::View;
use polars_io::{
    SerWriter,
    csv::write::CsvWriter,
    json::{JsonFormat, JsonWriter},
};

use crate::{
    frame::{failed, refused},
    output::with_text_times,
};

/// The syntax of values in a format.
pub(super) trait Syntax {
    /// Text of a null.
    const NULL: &'static [u8];
    /// Text on both sides of an instant or a day.
    const QUOTE: &'static [u8];

    /// Returns the text before the values of a column.
    fn before(&self, is_first: bool, name: &str) -> Vec<u8>;
    /// Returns the text behind the last value of a row.
    fn end(&self) -> &'static [u8];
    fn text(&self, value: &str, to: &mut Vec<u8>);
    /// Writes a text that a view holds inline, with `len` bytes and zeros behind them; returns `false` if it must be written by
    /// `text`.
    fn short(&self, value: &Short, len: usize, to: &mut Vec<u8>) -> bool;
    fn not_finite(&self, value: f64, to: &mut Vec<u8>);
    /// Writes the values of a column with polars.
    ///
    /// # Errors
    /// An error if polars fails.
    fn by_polars(&self, column: &Column) -> Result<Vec<Vec<u8>>>;
}

/// Builds a frame of one column, with times as text.
fn alone(column: &Column) -> Result<DataFrame> {
    let alone = DataFrame::new(column.len(), vec![column.clone()]).map_err(failed)?;
    with_text_times(&alone)
}

/// Returns each line of a text, without its first `before` bytes and its last `after`.
fn cells(text: &[u8], before: usize, after: usize) -> Vec<Vec<u8>> {
    let lines = text.split(|byte| *byte == b'\n');
    lines
        .map(|line| line.get(before..line.len().saturating_sub(after)).unwrap_or_default().to_vec())
        .collect()
}

/// Returns a text as a cell of CSV: control characters except tabs and line ends, which steer a terminal, are escaped, as in
/// tables. For spreadsheets, a text that would be taken for a formula gets an apostrophe in front.
pub(crate) fn cell(text: &str, is_for_spreadsheets: bool) -> Cow<'_, str> {
    let steers = |letter: char| letter.is_control() && !matches!(letter, '\t' | '\n' | '\r');
    let is_formula = is_for_spreadsheets
        && text.starts_with(['=', '+', '-', '@', '\t', '\n', '\r', '＝', '＋', '－', '＠']);
    if !is_formula && !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut cell = String::from(if is_formula { "'" } else { "" });
    for letter in text.chars() {
        match steers(letter) {
            true => cell.extend(letter.escape_default()),
            false => cell.push(letter),
        }
    }
    Cow::Owned(cell)
}

pub(super) struct Csv {
    /// True if texts are kept from being formulas.
    pub(super) is_for_spreadsheets: bool,
}

impl Csv {
    /// Returns true if a byte may be written unchanged: it is no control character, nor the first byte of one, and does not end a
    /// value.
    fn is_plain(byte: u8) -> bool {
        (byte >= 0x20) & (byte != b',') & (byte != b'"') & (byte != 0x7f) & (byte != 0xc2)
    }
}

impl Syntax for Csv {
    const NULL: &'static [u8] = b"";
    const QUOTE: &'static [u8] = b"";

    fn before(&self, is_first: bool, _: &str) -> Vec<u8> {
        if is_first { Vec::new() } else { b",".to_vec() }
    }

    fn end(&self) -> &'static [u8] {
        b"\n"
    }

    fn text(&self, value: &str, to: &mut Vec<u8>) {
        // No early exit, so that one instruction checks many bytes.
        let is_plain =
            value.bytes().fold(!self.is_for_spreadsheets, |plain, byte| plain & Self::is_plain(byte));
        if is_plain && !value.is_empty() {
            return to.extend_from_slice(value.as_bytes());
        }
        let value = cell(value, self.is_for_spreadsheets);
        if !value.is_empty() && !value.contains([',', '"', '\n', '\r']) {
            return to.extend_from_slice(value.as_bytes());
        }
        to.push(b'"');
        for byte in value.bytes() {
            if byte == b'"' {
                to.push(b'"');
            }
            to.push(byte);
        }
        to.push(b'"');
    }

    #[inline]
    fn short(&self, value: &Short, len: usize, to: &mut Vec<u8>) -> bool {
        let all = value.iter().enumerate();
        let is_plain = !self.is_for_spreadsheets
            && len > 0
            && all.fold(true, |plain, (at, byte)| plain & (Self::is_plain(*byte) | (at >= len)));
        if is_plain {
            append_some(value, len, to);
        }
        is_plain
    }

    fn not_finite(&self, value: f64, to: &mut Vec<u8>) {
        to.extend_from_slice(match value {
            f64::INFINITY => b"inf",
            f64::NEG_INFINITY => b"-inf",
            _ => b"NaN",
        });
    }

    fn by_polars(&self, column: &Column) -> Result<Vec<Vec<u8>>> {
        let mut text = Vec::new();
        // A statement may make columns that are no cells, such as lists.
        CsvWriter::new(&mut text).include_header(false).finish(&mut alone(column)?).map_err(refused)?;
        Ok(cells(&text, 0, 0))
    }
}

pub(super) struct Ndjson;

impl Syntax for Ndjson {
    const NULL: &'static [u8] = b"null";
    const QUOTE: &'static [u8] = b"\"";

    fn before(&self, is_first: bool, name: &str) -> Vec<u8> {
        let mut before = if is_first { b"{".to_vec() } else { b",".to_vec() };
        self.text(name, &mut before);
        before.push(b':');
        before
    }

    fn end(&self) -> &'static [u8] {
        b"}\n"
    }

    fn text(&self, value: &str, to: &mut Vec<u8>) {
        let is_plain = |byte: u8| (byte >= 0x20) & (byte != b'"') & (byte != b'\\');
        if !value.bytes().fold(true, |plain, byte| plain & is_plain(byte)) {
            return json(value, to);
        }
        to.push(b'"');
        to.extend_from_slice(value.as_bytes());
        to.push(b'"');
    }

    #[inline]
    fn short(&self, value: &Short, len: usize, to: &mut Vec<u8>) -> bool {
        let is_plain = |byte: u8| (byte >= 0x20) & (byte != b'"') & (byte != b'\\');
        let all = value.iter().enumerate();
        let is_plain = all.fold(true, |plain, (at, byte)| plain & (is_plain(*byte) | (at >= len)));
        if is_plain {
            let mut quoted = [b'"'; MAX_SHORT + 2];
            quoted[1..=MAX_SHORT].copy_from_slice(value);
            quoted[len + 1] = b'"';
            append_some(&quoted, len + 2, to);
        }
        is_plain
    }

    /// Writes the names of numbers that JSON lacks, as in events.
    fn not_finite(&self, value: f64, to: &mut Vec<u8>) {
        to.extend_from_slice(match value {
            f64::INFINITY => b"\"Infinity\"",
            f64::NEG_INFINITY => b"\"-Infinity\"",
            _ => b"\"NaN\"",
        });
    }

    fn by_polars(&self, column: &Column) -> Result<Vec<Vec<u8>>> {
        let mut text = Vec::new();
        let mut writer = JsonWriter::new(&mut text).with_json_format(JsonFormat::JsonLines);
        writer.finish(&mut alone(column)?).map_err(failed)?;
        Ok(cells(&text, self.before(true, column.name()).len(), 1))
    }
}

/// Writes a value as JSON; numbers look alike in both formats.
pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T, to: &mut Vec<u8>) {
    // Writing to a vector never fails.
    _ = serde_json::to_writer(to, value);
}

/// Appends the first `len` bytes of an array. All of it is copied first, which is a move or two, while a copy of variable length
/// is a call.
#[inline]
pub(super) fn append_some<const N: usize>(bytes: &[u8; N], len: usize, to: &mut Vec<u8>) {
    let end = to.len() + len;
    to.extend_from_slice(bytes);
    to.truncate(end);
}

/// A text held inline by its view.
pub(super) type Short = [u8; MAX_SHORT];

const MAX_SHORT: usize = View::MAX_INLINE_SIZE as usize;

/// Returns the text of a view that holds it inline, and its length.
#[inline]
pub(super) fn short(view: View) -> Option<(Short, usize)> {
    if !view.is_inline() {
        return None;
    }
    // Layout of the view: the length in 4 bytes, then the text.
    let [_, _, _, _, text @ ..] = view.as_u128().to_ne_bytes();
    Some((text, view.length as usize))
}
