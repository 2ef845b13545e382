//! Reading and writing the small parts: bytes, little-endian numbers and varints.

use std::borrow::Cow;

/// Result of reading stored bytes: the value, or a description of the flaw. The caller adds the name of the column.
pub type Checked<T> = Result<T, Cow<'static, str>>;

/// Stored bytes that have not been read yet.
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the beginning of the bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the number of bytes left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Reads the next `count` bytes.
    pub fn take(&mut self, count: usize) -> Checked<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("it is cut short")?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads all remaining bytes.
    pub(super) fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    fn array<const N: usize>(&mut self) -> Checked<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or("it is cut short")?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Checked<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Checked<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Checked<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a number written by [`put_varint`].
    pub fn varint(&mut self) -> Checked<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let low = u64::from(byte & 0x7f);
            if shift == 63 && low > 1 {
                break;
            }
            value |= low << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number does not fit 64 bits".into())
    }

    /// Reads a varint that must be at most `limit`; `what` names it in the error.
    pub fn varint_at_most(&mut self, limit: usize, what: &str) -> Checked<usize> {
        let value = self.varint()?;
        match usize::try_from(value) {
            Ok(value) if value <= limit => Ok(value),
            _ => Err(format!("{what} is {value}, at most {limit} is allowed").into()),
        }
    }

    /// Checks that everything has been read.
    pub(super) fn finish(self) -> Checked<()> {
        if self.rest.is_empty() { Ok(()) } else { Err("bytes are left over".into()) }
    }
}

/// Appends seven bits a byte, the low ones first; the top bit is set if more follow.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Moves the sign into the lowest bit, so that small negative numbers stay short.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Inverts [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_refuse_overflow() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut cursor = Cursor::new(&out);
            assert_eq!(cursor.varint(), Ok(value));
            assert_eq!(cursor.finish(), Ok(()));
        }
        assert!(Cursor::new(&[0xff; 10]).varint().is_err(), "more than 64 bits");
        assert!(Cursor::new(&[0x80; 11]).varint().is_err(), "more than ten bytes");
        assert!(Cursor::new(&[0x80]).varint().is_err(), "cut short");
    }

    #[test]
    fn zigzag_keeps_small_numbers_small() {
        assert_eq!([0, -1, 1, -2, i64::MAX, i64::MIN].map(zigzag), [0, 1, 2, 3, u64::MAX - 1, u64::MAX]);
        for value in [0, -1, 1, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }
}
