//! Compact protocol of Thrift, to the extent needed to read the claims of a Parquet file before any of it is decoded. Every
//! length is checked against the available bytes.

/// Maximum depth of structs and lists; those of Parquet stay below 10.
const MAX_DEPTH: usize = 16;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub(super) const STRUCT: u8 = 12;

/// Reader of some bytes. Every method returns `None` for malformed bytes.
pub(super) struct Thrift<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Thrift<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a whole number of any width.
    pub(super) fn int(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a struct; `field` reads or skips the value of each of its fields, by number and type.
    pub(super) fn fields(&mut self, mut field: impl FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut id = 0i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            id = match head >> 4 {
                0 => self.int()?,
                delta => id.checked_add(i64::from(delta))?,
            };
            field(self, id, head & 0x0f)?;
        }
    }

    /// Reads a list; `element` reads or skips each element, by type.
    pub(super) fn list(&mut self, mut element: impl FnMut(&mut Self, u8) -> Option<()>) -> Option<()> {
        let head = self.byte()?;
        let length = match head >> 4 {
            15 => self.varint()?,
            short => u64::from(short),
        };
        self.fits(length)?;
        (0..length).try_for_each(|_| element(self, head & 0x0f))
    }

    /// Returns `None` unless this many elements can be there: each takes a byte at least.
    fn fits(&self, length: u64) -> Option<()> {
        (length <= (self.bytes.len() - self.at) as u64).then_some(())
    }

    /// Skips an element of a list or map, where a truth value takes a byte; the truth value of a field is in its head.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            TRUE | FALSE => self.byte().map(drop),
            _ => self.skip_within(kind, depth),
        }
    }

    /// Skips a value of a field.
    pub(super) fn skip(&mut self, kind: u8) -> Option<()> {
        self.skip_within(kind, MAX_DEPTH)
    }

    fn skip_within(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            TRUE | FALSE => Some(()),
            BYTE => self.byte().map(drop),
            DOUBLE => self.pass(8),
            BINARY => {
                let length = self.varint()?;
                self.pass(usize::try_from(length).ok()?)
            }
            LIST | SET => self.list(|list, kind| list.skip_element(kind, depth)),
            MAP => {
                let length = self.varint()?;
                if length == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                self.fits(length)?;
                for _ in 0..length {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 0x0f, depth)?;
                }
                Some(())
            }
            STRUCT => self.fields(|inner, _, kind| inner.skip_within(kind, depth)),
            4..=6 => self.varint().map(drop),
            _ => None,
        }
    }

    fn pass(&mut self, length: usize) -> Option<()> {
        self.at = self.at.checked_add(length).filter(|at| *at <= self.bytes.len())?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(kind: u8, bytes: &[u8]) -> Option<usize> {
        let mut read = Thrift::new(bytes);
        read.skip(kind).map(|()| read.at)
    }

    #[test]
    fn thrift_collection_booleans_take_one_byte() {
        assert_eq!(skipped(LIST, &[0x21, 1, 2, 9]), Some(3));
        assert_eq!(skipped(MAP, &[2, 0x12, 1, 2, 2, 1, 9]), Some(6));
        assert_eq!(skipped(STRUCT, &[0x11, 0x12, 0, 9]), Some(3), "those of fields take none");
    }

    #[test]
    fn overlong_element_count_is_refused_at_once() {
        // Too many to skip one after the other in finite time.
        let many = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        for kinds in [0x11, 0x1c, 0xcc, 0x88] {
            assert_eq!(skipped(MAP, &[&many[..], &[kinds, 1, 1, 1]].concat()), None);
        }
        for kind in [1, 8, 12] {
            assert_eq!(skipped(LIST, &[&[0xf0 | kind], &many[..], &[1, 1, 1]].concat()), None);
        }
        assert_eq!(skipped(MAP, &[0]), Some(1), "an empty map has no kinds");
    }
}
