//! Compression by zstd, with one context of each direction a thread: creating one costs more than using it on the few
//! kilobytes of a chunk.

use std::{cell::RefCell, io::Cursor, mem::take};

use zstd::bulk::{Compressor, Decompressor};

use super::bytes::Checked;

/// Measured on our columns: higher levels gain nothing and take longer.
const LEVEL: i32 = 1;

thread_local! {
    static COMPRESSOR: RefCell<Option<(Compressor<'static>, Vec<u8>)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Passes the compressed bytes to `keep`, or returns `false` if compression does not make them shorter. Any failure
/// of compression counts as that: the bytes stay raw.
pub(super) fn with_compressed(bytes: &[u8], keep: impl FnOnce(&[u8])) -> bool {
    COMPRESSOR.with_borrow_mut(|slot| {
        let (compressor, buffer) = match slot {
            Some(ready) => ready,
            None => match Compressor::new(LEVEL) {
                Ok(compressor) => slot.insert((compressor, Vec::new())),
                Err(_) => return false,
            },
        };
        buffer.clear();
        buffer.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        // The chunk header of a compressed chunk has one to four bytes more.
        match compressor.compress_to_buffer(bytes, buffer) {
            Ok(stored) if stored + 4 < bytes.len() => {
                keep(buffer);
                true
            }
            _ => false,
        }
    })
}

/// Appends `length` bytes to `target`, up to its capacity: no more are unpacked.
pub(super) fn decompress(stored: &[u8], length: usize, target: &mut Vec<u8>) -> Checked<()> {
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let decompressor = match slot {
            Some(ready) => ready,
            None => slot.insert(Decompressor::new().map_err(|error| format!("zstd did not start: {error}"))?),
        };
        let before = target.len();
        let mut behind = Cursor::new(take(target));
        behind.set_position(before as u64);
        let unpacked = decompressor.decompress_to_buffer(stored, &mut behind);
        *target = behind.into_inner();
        match unpacked {
            Ok(unpacked) if unpacked == length => Ok(()),
            Ok(unpacked) => Err(format!("a chunk unpacks to {unpacked} bytes instead of {length}").into()),
            Err(error) => Err(format!("a chunk does not unpack: {error}").into()),
        }
    })
}
