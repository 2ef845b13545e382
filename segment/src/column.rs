//! Encoding and decoding of one column as a block.

use event::{Column, Values, columns::Strings};

use super::{
    bytes::{Checked, Cursor},
    float,
    header::{ColumnHeader, ColumnKind},
    nulls::{put_validity, take_validity, with_nulls, without_nulls},
    text, time,
};

/// Encoding of a column whose values are all equal and in the header (text: in the block), or absent. It has one code
/// for every type.
const CONSTANT: u8 = 0;
const _: () = assert!(CONSTANT == text::CONSTANT);

/// Appends the block of `column`. Returns its header, and the number of bytes of text that a reader will hold.
pub(super) fn put(out: &mut Vec<u8>, column: &Column) -> Checked<(ColumnHeader, usize)> {
    let start = out.len();
    let (rows, nulls) = (column.values.len(), column.nulls());
    let kind = match column.values {
        Values::Time(_) => ColumnKind::Time,
        Values::Float(_) => ColumnKind::Float,
        Values::Text(_) | Values::Coded(_) => ColumnKind::Text,
    };
    let valid = column.valid.as_deref().filter(|_| nulls > 0);
    let mut stored = Stored { encoding: CONSTANT, constant: None, text_bytes: 0 };
    if nulls < rows {
        if let Some(valid) = valid {
            put_validity(out, valid);
        }
        stored = put_values(out, &column.values, valid)?;
    }
    let Stored { encoding, constant, text_bytes } = stored;
    let place = start..out.len();
    let (stored_bytes, checksum) = (place.len(), crc32fast::hash(&out[start..]));
    let name = column.name.clone();
    Ok((ColumnHeader { name, kind, encoding, nulls, constant, stored_bytes, place, checksum }, text_bytes))
}

struct Stored {
    encoding: u8,
    constant: Option<u64>,
    text_bytes: usize,
}

/// Appends the values that are not null, at least one.
fn put_values(out: &mut Vec<u8>, values: &Values, valid: Option<&[bool]>) -> Checked<Stored> {
    let (encoding, constant, text_bytes) = match values {
        Values::Time(values) => {
            let values = without_nulls(values, valid);
            match all_equal(&values, |value| *value) {
                Some(time) => (CONSTANT, Some(time as u64), 0),
                None => (time::put(out, &values), None, 0),
            }
        }
        Values::Float(values) => {
            let values = without_nulls(values, valid);
            match all_equal(&values, |value| value.to_bits()).filter(|float| !float.is_nan()) {
                Some(float) => (CONSTANT, Some(float.to_bits()), 0),
                None => (float::put(out, &values), None, 0),
            }
        }
        Values::Text(strings) => {
            let (encoding, text_bytes) = text::put_strings(out, strings, valid);
            (encoding, None, text_bytes)
        }
        Values::Coded(coded) => {
            let (encoding, text_bytes) =
                text::put_coded(out, coded, valid).ok_or("a code has no entry in the dictionary")?;
            (encoding, None, text_bytes)
        }
    };
    Ok(Stored { encoding, constant, text_bytes })
}

/// Returns the common value of all, compared by bits; there is at least one.
fn all_equal<T: Copy, B: PartialEq>(values: &[T], bits: impl Fn(&T) -> B) -> Option<T> {
    let first = bits(&values[0]);
    values.iter().all(|value| bits(value) == first).then_some(values[0])
}

/// Reads the block of a column of a known type; for `budget` see [`text::take`]. `None` for an unknown type.
pub(super) fn take(
    header: &ColumnHeader,
    block: &[u8],
    rows: usize,
    budget: &mut usize,
) -> Checked<Option<Column>> {
    if let ColumnKind::Unknown(_) = header.kind {
        return Ok(None);
    }
    if !header.is_inline() && crc32fast::hash(block) != header.checksum {
        return Err("its checksum does not match".into());
    }
    let mut cursor = Cursor::new(block);
    let has_bitmap = header.nulls > 0 && header.nulls < rows;
    let valid = if has_bitmap { Some(take_validity(&mut cursor, rows, header.nulls)?) } else { None };
    let values = if header.nulls == rows {
        empty_values(header.kind, rows)
    } else {
        take_values(&mut cursor, header, rows - header.nulls, valid.as_deref(), budget)?
    };
    let values = values.ok_or_else(|| {
        format!(
            "its encoding {} is unknown; it was written by a newer Almanac, read it with that",
            header.encoding
        )
    })?;
    cursor.finish()?;
    let valid = if header.nulls == rows && rows > 0 { Some(vec![false; rows]) } else { valid };
    Ok(Some(Column { name: header.name.clone(), values, valid }))
}

fn take_values(
    cursor: &mut Cursor,
    header: &ColumnHeader,
    count: usize,
    valid: Option<&[bool]>,
    budget: &mut usize,
) -> Checked<Option<Values>> {
    let constant = || header.constant.ok_or("it is constant, but the header does not say its value");
    match (header.kind, header.encoding) {
        (ColumnKind::Time, CONSTANT) => {
            Ok(Some(Values::Time(with_nulls(vec![constant()? as i64; count], valid))))
        }
        (ColumnKind::Float, CONSTANT) => {
            Ok(Some(Values::Float(with_nulls(vec![f64::from_bits(constant()?); count], valid))))
        }
        (ColumnKind::Time, encoding) => {
            Ok(time::take(cursor, encoding, count)?.map(|values| Values::Time(with_nulls(values, valid))))
        }
        (ColumnKind::Float, encoding) => {
            Ok(float::take(cursor, encoding, count)?.map(|values| Values::Float(with_nulls(values, valid))))
        }
        (ColumnKind::Text, encoding) => text::take(cursor, encoding, count, valid, budget),
        (ColumnKind::Unknown(_), _) => Ok(None),
    }
}

/// Returns only nulls, or no row at all.
fn empty_values(kind: ColumnKind, rows: usize) -> Option<Values> {
    match kind {
        ColumnKind::Time => Some(Values::Time(vec![0; rows])),
        ColumnKind::Float => Some(Values::Float(vec![0.0; rows])),
        ColumnKind::Text => Strings::from_parts(String::new(), vec![0; rows]).map(Values::Text),
        ColumnKind::Unknown(_) => None,
    }
}
