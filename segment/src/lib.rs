//! Segments: many events packed as columns, each with its own encoding and compression. `docs/segment.md` specifies
//! the bytes.
//!
//! A segment is a header and one block a column. A reader takes the blocks it wants and skips the rest by their
//! length, so columns can be added, and types and encodings with them, without rewriting stored segments. Every part
//! has a checksum, and no claim of the bytes is trusted before it is checked: hostile bytes give an error, not a
//! panic or a large allocation.
//!
//! Encoding and decoding are functions of their arguments. Equal columns give equal bytes, as
//! long as the zstd library is the same.
//!
//! ```
//! use almanac_segment::{decode, encode, header};
//! use event::{Column, Columns, Values};
//!
//! let scores = Column::new("score", Values::Float(vec![0.1, 0.5, 0.2]));
//! let columns = Columns { rows: 3, columns: vec![scores] };
//! let bytes = encode(&columns)?;
//! assert_eq!(&bytes[..4], b"ALMS");
//! assert_eq!(header(&bytes)?.rows, 3);
//! assert_eq!(decode(&bytes)?, columns);
//! # Ok::<(), event::Error>(())
//! ```

pub mod bytes;
mod chunks;
mod column;
mod dictionary;
mod float;
mod frame;
mod header;
mod histogram;
mod nulls;
mod planes;
mod text;
mod time;

#[cfg(test)]
mod tests;

use event::{Columns, Error, Result, Values};

pub use header::{ColumnHeader, ColumnKind, Header, with_checksums};

/// The version of the format.
pub const VERSION: u8 = 1;
/// Maximum rows of a segment. Writers stay far below; this bounds the number that hostile bytes may claim.
pub const MAX_ROWS: usize = 1 << 20;
/// Maximum number of columns of a segment.
pub const MAX_COLUMNS: usize = 1_024;
/// The most values of a segment, rows times columns.
pub const MAX_CELLS: usize = 1 << 24;
/// Maximum number of bytes of text in a segment, all columns together.
pub const MAX_TEXT_BYTES: usize = 1 << 26;
/// Maximum number of bytes of the name of a column.
pub const MAX_NAME_BYTES: usize = 255;

/// Packs `columns`.
///
/// # Errors
/// [`ErrorKind::Invalid`](event::ErrorKind::Invalid) if a bound above is exceeded, a name occurs twice, a column has
/// another number of rows than the segment, or a code has no entry in its dictionary.
pub fn encode(columns: &Columns) -> Result<Vec<u8>> {
    check_bounds(columns)?;
    let mut blocks = Vec::with_capacity(expected_bytes(columns));
    let mut text_bytes = 0;
    let mut header =
        Header { version: VERSION, rows: columns.rows, columns: Vec::with_capacity(columns.columns.len()) };
    for column in &columns.columns {
        let (stored, text) = column::put(&mut blocks, column)
            .map_err(|flaw| Error::invalid(format!("column `{}`: {flaw}", column.name)))?;
        header.columns.push(stored);
        text_bytes += text;
    }
    if text_bytes > MAX_TEXT_BYTES {
        return Err(Error::invalid(format!(
            "{text_bytes} bytes of text in one segment, at most {MAX_TEXT_BYTES} are allowed"
        )));
    }
    let mut out = Vec::with_capacity(blocks.len() + 64 * (1 + header.columns.len()));
    header::put(&mut out, &header, &blocks);
    for column in header.columns.iter().filter(|column| !column.is_inline()) {
        out.extend_from_slice(&blocks[column.place.clone()]);
    }
    Ok(out)
}

/// Estimates the room for the blocks; it nearly always suffices, so that they need not move while they grow.
fn expected_bytes(columns: &Columns) -> usize {
    let bytes = |values: &Values| match values {
        Values::Time(values) => 4 * values.len(),
        Values::Float(values) => 8 * values.len(),
        Values::Text(strings) => strings.text().len(),
        Values::Coded(coded) => coded.codes.len(),
    };
    columns.columns.iter().map(|column| 64 + bytes(&column.values)).sum()
}

fn check_bounds(columns: &Columns) -> Result<()> {
    let (rows, count) = (columns.rows, columns.columns.len());
    for (what, value, limit) in [
        ("rows", rows, MAX_ROWS),
        ("columns", count, MAX_COLUMNS),
        ("values", rows.saturating_mul(count), MAX_CELLS),
    ] {
        if value > limit {
            return Err(Error::invalid(format!(
                "{value} {what} in one segment, at most {limit} are allowed"
            )));
        }
    }
    for column in &columns.columns {
        let name = &column.name;
        if name.len() > MAX_NAME_BYTES {
            return Err(Error::invalid(format!(
                "column `{name}`: the name has {} bytes, at most {MAX_NAME_BYTES} are allowed",
                name.len()
            )));
        }
        for length in [Some(column.values.len()), column.valid.as_ref().map(Vec::len)].into_iter().flatten() {
            if length != rows {
                return Err(Error::invalid(format!("column `{name}` has {length} rows instead of {rows}")));
            }
        }
    }
    match header::repeated_name(columns.columns.iter().map(|column| column.name.as_str())) {
        Some(name) => Err(Error::invalid(format!("column `{name}` occurs twice"))),
        None => Ok(()),
    }
}

/// Reads only the header. The blocks behind it may be missing.
///
/// # Errors
/// [`ErrorKind::Corrupt`](event::ErrorKind::Corrupt) if the header is damaged or of an unknown version.
pub fn header(bytes: &[u8]) -> Result<Header> {
    Ok(parse(bytes)?.0)
}

/// Unpacks every column of a known type. Columns of other types are left out.
///
/// # Errors
/// [`ErrorKind::Corrupt`](event::ErrorKind::Corrupt), naming the column and the flaw.
pub fn decode(bytes: &[u8]) -> Result<Columns> {
    decode_only(bytes, |_| true)
}

/// Unpacks the columns whose name is `wanted`, in storage order. Other columns are skipped unread, so damage in them
/// goes unnoticed.
///
/// # Errors
/// See [`decode`].
pub fn decode_only(bytes: &[u8], wanted: impl Fn(&str) -> bool) -> Result<Columns> {
    let (header, end) = parse(bytes)?;
    if bytes.len() != end {
        return Err(Error::corrupt(format!("segment: it has {} bytes instead of {end}", bytes.len())));
    }
    let mut columns = Columns { rows: header.rows, columns: Vec::new() };
    let mut budget = MAX_TEXT_BYTES;
    for stored in &header.columns {
        if wanted(&stored.name) {
            let block = &bytes[stored.place.clone()];
            let column = column::take(stored, block, header.rows, &mut budget)
                .map_err(|flaw| Error::corrupt(format!("segment column `{}`: {flaw}", stored.name)))?;
            columns.columns.extend(column);
        }
    }
    Ok(columns)
}

fn parse(bytes: &[u8]) -> Result<(Header, usize)> {
    header::take(bytes).map_err(|flaw| Error::corrupt(format!("segment: {flaw}")))
}
