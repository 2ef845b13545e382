//! Repair of checksums in segments whose bytes were changed on purpose.

use super::{
    bytes::Cursor,
    header::{MAGIC, take_column},
};

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
