//! Nulls: a bitmap marks the rows with a value, and only those values are stored.

use std::borrow::Cow;

use super::bytes::{Checked, Cursor};
use super::chunks::{put_chunks, take_chunks};

/// Appends one bit a row, the first row in the lowest bit of the first byte; 1 means a value.
pub(super) fn put_validity(out: &mut Vec<u8>, valid: &[bool]) {
    let bits: Vec<u8> = valid
        .chunks(8)
        .map(|rows| rows.iter().enumerate().fold(0, |byte, (bit, &present)| byte | u8::from(present) << bit))
        .collect();
    put_chunks(out, &bits, bits.len());
}

/// Reads a bitmap of [`put_validity`] and checks that exactly `nulls` of the rows are null.
pub(super) fn take_validity(cursor: &mut Cursor, rows: usize, nulls: usize) -> Checked<Vec<bool>> {
    let bits = take_chunks(cursor, rows.div_ceil(8))?;
    let ones: usize = bits.iter().map(|byte| byte.count_ones() as usize).sum();
    let padding = if rows.is_multiple_of(8) { 0 } else { bits.last().map_or(0, |last| last >> (rows % 8)) };
    if ones != rows - nulls || padding != 0 {
        return Err("the null bitmap disagrees with the null count".into());
    }
    let mut valid: Vec<bool> =
        bits.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).collect();
    valid.truncate(rows);
    Ok(valid)
}

/// Returns only the values that are not null.
pub(super) fn without_nulls<'a, T: Copy>(values: &'a [T], valid: Option<&[bool]>) -> Cow<'a, [T]> {
    match valid {
        None => Cow::Borrowed(values),
        Some(valid) => Cow::Owned(
            values.iter().zip(valid).filter(|(_, present)| **present).map(|(value, _)| *value).collect(),
        ),
    }
}

/// Puts the values back into their rows, with `T::default()` for nulls.
pub(super) fn with_nulls<T: Copy + Default>(values: Vec<T>, valid: Option<&[bool]>) -> Vec<T> {
    let Some(valid) = valid else { return values };
    let mut values = values.into_iter();
    valid.iter().map(|present| present.then(|| values.next()).flatten().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_round_trip() {
        for rows in [1, 7, 8, 9, 1000] {
            let valid: Vec<bool> = (0..rows).map(|row| row % 3 != 0).collect();
            let nulls = valid.iter().filter(|present| !**present).count();
            let mut out = Vec::new();
            put_validity(&mut out, &valid);
            assert_eq!(take_validity(&mut Cursor::new(&out), rows, nulls), Ok(valid));
            assert!(take_validity(&mut Cursor::new(&out), rows, nulls - 1).is_err(), "another null count");
        }
        assert!(take_validity(&mut Cursor::new(&[4, 0b101]), 2, 1).is_err(), "a bit beyond the last row");
    }

    #[test]
    fn values_go_back_to_their_rows() {
        let valid = [true, false, false, true];
        let dense = without_nulls(&[1, 2, 3, 4], Some(&valid)).into_owned();
        assert_eq!(dense, [1, 4]);
        assert_eq!(with_nulls(dense, Some(&valid)), [1, 0, 0, 4]);
        assert_eq!(with_nulls(vec![1, 4], None), [1, 4]);
    }
}
