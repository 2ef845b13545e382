//! Usual tokens of JSON: strings without escapes, numbers, `true`, `false`, `null`. All others are left to `serde_json`, so this
//! module need not be complete, only exact.

use std::borrow::Cow;

use crate::builder::row::Scalar;

/// Powers of ten that a double holds exactly.
pub(super) const TENS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
/// Whole numbers up to this are doubles.
const MAX_EXACT: u64 = 1 << 53;
/// Number of digits that always fit into a `u64` and into an `i64`.
const MAX_DIGITS: usize = 18;

/// Optional beginning of Windows texts: the byte-order mark, in UTF-8.
pub(crate) const MARK: &[u8] = "\u{feff}".as_bytes();

/// Fault of a number that JSON does not have.
pub(super) const NO_JSON: &str = "which is no JSON; send null (a metric of a run may be \"NaN\" in quotes)";

/// Name of a number that JSON does not have, as many libraries write it, if the bytes begin with one.
pub(super) fn special(bytes: &[u8]) -> Option<&'static str> {
    ["NaN", "Infinity", "-Infinity"].into_iter().find(|token| bytes.starts_with(token.as_bytes()))
}

/// Finds the first byte at `at` or after it that is no white space.
#[inline]
pub(crate) fn skip_white(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// Finds the closing quote of a string that begins (after its opening quote) at `at`; `None` when it has escapes or control
/// characters, or does not end.
#[inline]
pub(crate) fn closing_quote(bytes: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*word);
        let quote = zeros(word ^ (ONES * u64::from(b'"')));
        let escape = zeros(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        // The lowest mark is exact: a borrow only reaches the bytes above a true one.
        let found = quote | escape | control;
        if found != 0 {
            let first = found.trailing_zeros() as usize / 8;
            return (bytes[at + first] == b'"').then_some(at + first);
        }
        at += 8;
    }
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return Some(at),
            b'\\' | 0..0x20 => return None,
            _ => at += 1,
        }
    }
    None
}

/// Reads the value at `at`, and its end; `None` when it is a list, an object, or anything unusual.
#[inline]
pub(crate) fn scalar(text: &str, at: usize) -> Option<(Scalar<'_>, usize)> {
    let bytes = text.as_bytes();
    match *bytes.get(at)? {
        b'"' => {
            let end = closing_quote(bytes, at + 1)?;
            Some((Scalar::Text(Cow::Borrowed(text.get(at + 1..end)?)), end + 1))
        }
        b'-' | b'0'..=b'9' => number(text, at),
        b'n' if bytes[at..].starts_with(b"null") => Some((Scalar::Null, at + 4)),
        b't' if bytes[at..].starts_with(b"true") => Some((Scalar::Bool(true), at + 4)),
        b'f' if bytes[at..].starts_with(b"false") => Some((Scalar::Bool(false), at + 5)),
        _ => None,
    }
}

/// Reads digits from `at` on: their value as long as there are few, and their end.
#[inline]
fn digits(bytes: &[u8], mut at: usize, mut value: u64) -> (u64, usize) {
    while let Some(digit) = bytes.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (value, at)
}

fn number(text: &str, start: usize) -> Option<(Scalar<'_>, usize)> {
    let bytes = text.as_bytes();
    let is_negative = bytes[start] == b'-';
    let first = start + usize::from(is_negative);
    let (whole, point) = digits(bytes, first, 0);
    if point == first || (bytes[first] == b'0' && point > first + 1) {
        return None;
    }
    match bytes.get(point) {
        Some(b'.') => {
            let (value, end) = digits(bytes, point + 1, whole);
            let places = end - point - 1;
            if places == 0 || matches!(bytes.get(end), Some(b'e' | b'E')) {
                return exponential(text, start, end).filter(|_| places > 0);
            }
            // Both numbers are exact doubles, so one division rounds once, and correctly.
            if point - first + places <= MAX_DIGITS && value <= MAX_EXACT && places < TENS.len() {
                let number = value as f64 / TENS[places];
                return Some((Scalar::Float(if is_negative { -number } else { number }), end));
            }
            finite(text, start, end)
        }
        Some(b'e' | b'E') => exponential(text, start, point),
        // As in serde_json, the whole number -0 is the double -0.0.
        _ if is_negative && whole == 0 && point == first + 1 => Some((Scalar::Float(-0.0), point)),
        _ if point - first <= MAX_DIGITS => {
            let number = whole as i64;
            Some((Scalar::Int(if is_negative { -number } else { number }), point))
        }
        _ => None,
    }
}

/// Reads a number with an exponent, whose `e` stands at `exponent`.
fn exponential(text: &str, start: usize, exponent: usize) -> Option<(Scalar<'_>, usize)> {
    let bytes = text.as_bytes();
    let signed = exponent + 1 + usize::from(matches!(bytes.get(exponent + 1), Some(b'+' | b'-')));
    let (_, end) = digits(bytes, signed, 0);
    if end == signed { None } else { finite(text, start, end) }
}

fn finite(text: &str, start: usize, end: usize) -> Option<(Scalar<'_>, usize)> {
    let number: f64 = text[start..end].parse().ok()?;
    number.is_finite().then_some((Scalar::Float(number), end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A recognized value equals that of serde_json, to the last bit.
    fn same(text: &str) {
        let Some((value, end)) = scalar(text, 0) else { return };
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Scalar<'_>>();
        let expected = values.next().unwrap().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(values.byte_offset(), end, "{text}");
        match (&value, &expected) {
            (Scalar::Float(a), Scalar::Float(b)) => assert_eq!(a.to_bits(), b.to_bits(), "{text}"),
            _ => assert_eq!(value, expected, "{text}"),
        }
    }

    #[test]
    fn common_tokens_are_recognised() {
        for text in [
            "0.8731234",
            "1",
            "-1",
            "-0",
            "-0.0",
            "1e5",
            "1.5E-3",
            "\"a\"",
            "null",
            "true",
            "123456789012345678",
        ] {
            assert!(scalar(text, 0).is_some(), "{text}");
            same(text);
        }
        for text in
            ["01", "1.", ".5", "-", "1e", "1.e5", "+1", "1e999", "\"a", "\"\\n\"", "\"\u{1}\"", "nul", "[1]"]
        {
            assert!(scalar(text, 0).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_serde(number in any::<f64>(), digits in "-?[0-9]{1,22}(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,4})?") {
            same(&format!("{number:?}"));
            same(&format!("{number}"));
            same(&digits);
        }

        #[test]
        fn strings_end_where_they_end(text in "\\PC{0,40}", rest in ".{0,10}") {
            let json = format!("{}{rest}", serde_json::to_string(&text).unwrap());
            if scalar(&json, 0).is_some() {
                let (value, end) = scalar(&json, 0).unwrap();
                prop_assert_eq!(value, Scalar::Text(text.as_str().into()));
                prop_assert_eq!(end, text.len() + 2);
            } else {
                prop_assert!(serde_json::to_string(&text).unwrap().contains('\\'));
            }
        }
    }
}
