//! How CSV and NDJSON write single values.

use polars_arrow::array::View;

/// How values are written in a format.
pub(super) trait Syntax {
    /// What stands for a value that is not there.
    const NULL: &'static [u8];
    /// What stands on both sides of an instant or a day.
    const QUOTE: &'static [u8];

    /// What stands before the values of a column.
    fn before(&self, is_first: bool, name: &str) -> Vec<u8>;
    /// What stands behind the last value of a row.
    fn end(&self) -> &'static [u8];
    fn text(&self, value: &str, to: &mut Vec<u8>);
    /// Writes a text of which a view holds all `len` bytes, and zeros behind them; `false`, when it is to be written as any other.
    fn short(&self, value: &Short, len: usize, to: &mut Vec<u8>) -> bool;
    fn not_finite(&self, value: f64, to: &mut Vec<u8>);
}

pub(super) struct Csv;

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
        let is_plain = |byte: u8| !matches!(byte, b',' | b'"' | b'\n' | b'\r');
        // No early end, so that many bytes are looked at by one instruction.
        if !value.is_empty() && value.bytes().fold(true, |plain, byte| plain & is_plain(byte)) {
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
        let is_plain = |byte: &u8| !matches!(byte, b',' | b'"' | b'\n' | b'\r');
        let is_plain = len > 0 && value.iter().fold(true, |plain, byte| plain & is_plain(byte));
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

    fn not_finite(&self, _: f64, to: &mut Vec<u8>) {
        to.extend_from_slice(Self::NULL);
    }
}

/// Writes a value as JSON does, which for numbers both formats do.
pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T, to: &mut Vec<u8>) {
    // A vector takes all that is written to it.
    _ = serde_json::to_writer(to, value);
}

/// Appends the first bytes of an array. All of it is copied at first, which is a move or two where a copy of any length is a call.
#[inline]
pub(super) fn append_some<const N: usize>(bytes: &[u8; N], len: usize, to: &mut Vec<u8>) {
    let end = to.len() + len;
    to.extend_from_slice(bytes);
    to.truncate(end);
}

/// A text that its view holds.
pub(super) type Short = [u8; MAX_SHORT];

const MAX_SHORT: usize = View::MAX_INLINE_SIZE as usize;

/// The text of a view that holds all of it, and how long it is.
#[inline]
pub(super) fn short(view: View) -> Option<(Short, usize)> {
    if !view.is_inline() {
        return None;
    }
    // Its length comes first, then the text.
    let [_, _, _, _, text @ ..] = view.as_u128().to_ne_bytes();
    Some((text, view.length as usize))
}
