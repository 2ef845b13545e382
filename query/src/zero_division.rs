//! The value of evaluations for a division by zero.

use event::{Error, Result};

/// The names of [`Request::zero_division`](crate::Request::zero_division), with their values.
pub(crate) const ZERO_DIVISIONS: [(&str, Option<f64>); 3] =
    [("0", Some(0.0)), ("1", Some(1.0)), ("null", None)];

/// Parses one of the names.
pub(crate) fn zero_division_of(word: &str) -> Result<Option<f64>> {
    let found = ZERO_DIVISIONS.into_iter().find(|(name, _)| *name == word);
    found
        .map(|(_, value)| value)
        .ok_or_else(|| Error::invalid(format!("zero-division: `{word}` is none of 0, 1, null")))
}
