//! The header: content and layout of a segment, readable without the columns.

use super::{
    MAX_CELLS, MAX_COLUMNS, MAX_ROWS, MAX_TEXT_BYTES, VERSION,
    bytes::{Checked, Cursor, put_varint},
};

/// First bytes of every segment.
pub(super) const MAGIC: [u8; 4] = *b"ALMS";

/// Maximum length of blocks inside the header: a checksum of their own would be a large part of them, and of a
/// segment that holds a single event.
const MAX_INLINE_BYTES: usize = 32;
/// Maximum length of a block, which keeps sums of lengths far from overflow.
const MAX_STORED_BYTES: usize = MAX_TEXT_BYTES * 4;

const HAS_CONSTANT: u8 = 0b0000_0001;
const HAS_NULLS: u8 = 0b0000_0100;

/// Description of a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Version of the format.
    pub version: u8,
    /// Number of rows of each column.
    pub rows: usize,
    /// Columns, in storage order.
    pub columns: Vec<ColumnHeader>,
}

impl Header {
    /// Returns the column called `name`.
    pub fn column(&self, name: &str) -> Option<&ColumnHeader> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// Description of one column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnHeader {
    /// Name of the column.
    pub name: String,
    /// Type of its values.
    pub kind: ColumnKind,
    /// Encoding of the values; see `docs/segment.md`.
    pub encoding: u8,
    /// Number of nulls.
    pub nulls: usize,
    /// The bits of the value that all rows have which are not null, of a constant column of times or floats.
    pub constant: Option<u64>,
    /// Number of bytes of the column, its entry in the header not counted.
    pub stored_bytes: usize,
    /// Position of the block: from the start of the segment when read, among all blocks while written.
    pub(super) place: std::ops::Range<usize>,
    pub(super) checksum: u32,
}

impl ColumnHeader {
    /// Returns whether the block is part of the header, whose checksum covers it.
    pub(super) fn is_inline(&self) -> bool {
        self.stored_bytes <= MAX_INLINE_BYTES
    }
}

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Microseconds since 1970-01-01T00:00:00Z.
    Time,
    /// Doubles.
    Float,
    /// Strings.
    Text,
    /// Unknown to this version; decoding leaves the column out.
    Unknown(u8),
}

impl ColumnKind {
    fn code(self) -> u8 {
        match self {
            ColumnKind::Time => 1,
            ColumnKind::Float => 2,
            ColumnKind::Text => 3,
            ColumnKind::Unknown(code) => code,
        }
    }

    fn from_code(code: u8) -> Self {
        match code {
            1 => ColumnKind::Time,
            2 => ColumnKind::Float,
            3 => ColumnKind::Text,
            code => ColumnKind::Unknown(code),
        }
    }
}

/// Appends the header, with those blocks in it that are short enough. The other blocks follow it.
pub(super) fn put(out: &mut Vec<u8>, header: &Header, blocks: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.push(header.version);
    put_varint(out, header.rows as u64);
    put_varint(out, header.columns.len() as u64);
    for column in &header.columns {
        put_column(out, column, blocks);
    }
    let checksum = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

fn put_column(out: &mut Vec<u8>, column: &ColumnHeader, blocks: &[u8]) {
    out.push(column.name.len() as u8);
    out.extend_from_slice(column.name.as_bytes());
    out.push(column.kind.code() | column.encoding << 4);
    let has_constant = if column.constant.is_some() { HAS_CONSTANT } else { 0 };
    out.push(has_constant | if column.nulls > 0 { HAS_NULLS } else { 0 });
    if column.nulls > 0 {
        put_varint(out, column.nulls as u64);
    }
    out.extend(column.constant.iter().flat_map(|bits| bits.to_le_bytes()));
    put_varint(out, column.stored_bytes as u64);
    if column.is_inline() {
        out.extend_from_slice(&blocks[column.place.clone()]);
    } else {
        out.extend_from_slice(&column.checksum.to_le_bytes());
    }
}

/// Reads the header of `bytes`; also returns the length of the segment with all its blocks.
pub(super) fn take(bytes: &[u8]) -> Checked<(Header, usize)> {
    let mut cursor = Cursor::new(bytes);
    if cursor.take(MAGIC.len()).ok() != Some(&MAGIC) {
        return Err("these are not the bytes of a segment".into());
    }
    let version = cursor.u8()?;
    if version != VERSION {
        return Err(format!(
            "version {version} is unknown, this program reads version {VERSION}; \
             it was written by a newer Almanac, read it with that"
        )
        .into());
    }
    let rows = cursor.varint_at_most(MAX_ROWS, "the number of rows")?;
    let count = cursor.varint_at_most(MAX_COLUMNS, "the number of columns")?;
    if rows * count > MAX_CELLS {
        return Err(format!("{rows} rows of {count} columns are more than {MAX_CELLS} values").into());
    }
    let mut columns =
        (0..count).map(|_| take_column(&mut cursor, rows, bytes.len())).collect::<Checked<Vec<_>>>()?;
    let checked = &bytes[..bytes.len() - cursor.remaining()];
    if cursor.u32()? != crc32fast::hash(checked) {
        return Err("the checksum of the header does not match".into());
    }
    let mut end = bytes.len() - cursor.remaining();
    for column in columns.iter_mut().filter(|column| !column.is_inline()) {
        column.place = end..end + column.stored_bytes;
        end = column.place.end;
    }
    if let Some(name) = repeated_name(columns.iter().map(|column| column.name.as_str())) {
        return Err(format!("column `{name}` occurs twice").into());
    }
    Ok((Header { version, rows, columns }, end))
}

/// Reads the header of a column. `total` is the length of the segment, from which the place of an inline block
/// follows.
fn take_column(cursor: &mut Cursor, rows: usize, total: usize) -> Checked<ColumnHeader> {
    let length = usize::from(cursor.u8()?);
    let name = str::from_utf8(cursor.take(length)?).map_err(|_| "the name of a column is not UTF-8")?;
    let code = cursor.u8()?;
    let (kind, encoding) = (ColumnKind::from_code(code & 15), code >> 4);
    let flags = cursor.u8()?;
    if flags & !(HAS_CONSTANT | HAS_NULLS) != 0 {
        return Err(format!(
            "column `{name}` has flags {flags:#04x}, which are unknown; \
             it was written by a newer Almanac, read it with that"
        )
        .into());
    }
    let nulls = match flags & HAS_NULLS {
        0 => 0,
        _ => cursor.varint_at_most(rows, "the number of nulls")?,
    };
    let constant = if flags & HAS_CONSTANT == 0 { None } else { Some(cursor.u64()?) };
    let stored_bytes = cursor.varint_at_most(MAX_STORED_BYTES, "the length of a column")?;
    let name = name.to_owned();
    let mut column =
        ColumnHeader { name, kind, encoding, nulls, constant, stored_bytes, place: 0..0, checksum: 0 };
    if column.is_inline() {
        let start = total - cursor.remaining();
        cursor.take(stored_bytes)?;
        column.place = start..start + stored_bytes;
    } else {
        column.checksum = cursor.u32()?;
    }
    Ok(column)
}

/// Returns a name that occurs more than once.
pub(super) fn repeated_name<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.array_windows().find(|[one, next]| one == next).map(|[name, _]| *name)
}

/// Corrects every checksum of a segment whose other bytes were changed, so that the code behind the checksums can be
/// tested. Bytes whose header cannot be parsed stay as they are.
pub fn with_checksums(bytes: &mut [u8]) {
    _ = try_repair(bytes);
}

fn try_repair(bytes: &mut [u8]) -> Option<()> {
    let total = bytes.len();
    let mut cursor = Cursor::new(bytes);
    cursor.take(MAGIC.len() + 1).ok()?;
    let rows = cursor.varint().ok()? as usize;
    let mut blocks = Vec::new();
    for _ in 0..cursor.varint().ok()? {
        let column = take_column(&mut cursor, rows, total).ok()?;
        if !column.is_inline() {
            blocks.push((total - cursor.remaining() - 4, column.stored_bytes));
        }
    }
    let header_end = total - cursor.remaining();
    let mut start = header_end + 4;
    for (place, length) in blocks {
        let checksum = crc32fast::hash(bytes.get(start..start + length)?);
        bytes[place..place + 4].copy_from_slice(&checksum.to_le_bytes());
        start += length;
    }
    let checksum = crc32fast::hash(&bytes[..header_end]);
    bytes.get_mut(header_end..header_end + 4)?.copy_from_slice(&checksum.to_le_bytes());
    Some(())
}
