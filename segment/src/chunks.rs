//! A byte string of known length, stored as chunks, each with its own compression. Byte planes differ much from one
//! to the next (a high byte hardly changes, a low one is noise), so each may become a chunk of its own.

use std::{borrow::Cow, cell::RefCell, io, mem};

use zstd::bulk::{Compressor, Decompressor};

use super::{
    bytes::{Checked, Cursor, put_varint},
    histogram::Histogram,
};

/// Uncompressed bytes.
const RAW: u64 = 0;
/// One zstd frame.
const ZSTD: u64 = 1;
/// One byte, repeated.
const REPEAT: u64 = 2;

/// Minimum number of bytes of a chunk worth a zstd frame.
const MIN_ZSTD_BYTES: usize = 64;
/// Entropy in bits a byte above which zstd would cost time and save next to nothing.
const MAX_ZSTD_ENTROPY: f32 = 7.6;
/// Bytes of a zstd chunk before its first symbol: chunk header, frame header, block header.
const ZSTD_OVERHEAD: f32 = 18.0;
/// Bytes that one more symbol adds to a Huffman table.
const SYMBOL_OVERHEAD: f32 = 0.5;

/// Appends `bytes`. A chunk may end after every `plane` bytes; neighbouring planes share a chunk if that is expected
/// to be no larger.
pub(super) fn put_chunks(out: &mut Vec<u8>, bytes: &[u8], plane: usize) {
    if bytes.is_empty() {
        return;
    }
    let plane = if plane < MIN_ZSTD_BYTES { bytes.len() } else { plane };
    let mut start = 0;
    let mut end = plane;
    let mut histogram = Histogram::of(&bytes[..plane]);
    for next in bytes[plane..].chunks(plane) {
        let one = Histogram::of(next);
        let both = histogram.merged(&one);
        if expected_bytes(&both) <= expected_bytes(&histogram) + expected_bytes(&one) {
            histogram = both;
        } else {
            put_chunk(out, &bytes[start..end], &histogram);
            start = end;
            histogram = one;
        }
        end += next.len();
    }
    put_chunk(out, &bytes[start..], &histogram);
}

/// Estimates the length of a chunk with this histogram.
fn expected_bytes(histogram: &Histogram) -> f32 {
    let distinct = histogram.distinct();
    if distinct == 1 {
        return 4.0;
    }
    let raw = histogram.bytes() as f32 + 3.0;
    if histogram.bytes() < MIN_ZSTD_BYTES {
        return raw;
    }
    raw.min(histogram.entropy_bits() / 8.0 + ZSTD_OVERHEAD + SYMBOL_OVERHEAD * distinct as f32)
}

fn put_chunk(out: &mut Vec<u8>, bytes: &[u8], histogram: &Histogram) {
    let length = (bytes.len() as u64) << 2;
    if histogram.distinct() == 1 {
        put_varint(out, length | REPEAT);
        out.push(bytes[0]);
        return;
    }
    let worth_a_try =
        bytes.len() >= MIN_ZSTD_BYTES && histogram.entropy_bits() <= MAX_ZSTD_ENTROPY * bytes.len() as f32;
    let shrunk = worth_a_try
        && with_compressed(bytes, |stored| {
            put_varint(out, length | ZSTD);
            put_varint(out, stored.len() as u64);
            out.extend_from_slice(stored);
        });
    if !shrunk {
        put_varint(out, length | RAW);
        out.extend_from_slice(bytes);
    }
}

/// Reads chunks until they hold `total` bytes, which the caller has checked to be reasonable: never more is
/// allocated, whatever the chunks claim.
pub(super) fn take_chunks<'a>(cursor: &mut Cursor<'a>, total: usize) -> Checked<Cow<'a, [u8]>> {
    let mut bytes = Vec::new();
    while bytes.len() < total {
        let head = cursor.varint()?;
        let length = match usize::try_from(head >> 2) {
            Ok(length) if (1..=total - bytes.len()).contains(&length) => length,
            _ => return Err(format!("a chunk of {} bytes does not fit", head >> 2).into()),
        };
        if head & 3 == RAW && length == total {
            return cursor.take(total).map(Cow::Borrowed);
        }
        bytes.reserve_exact(total - bytes.len());
        match head & 3 {
            RAW => bytes.extend_from_slice(cursor.take(length)?),
            ZSTD => {
                let stored = cursor.varint_at_most(length, "the stored length of a chunk")?;
                decompress(cursor.take(stored)?, length, &mut bytes)?;
            }
            REPEAT => bytes.resize(bytes.len() + length, cursor.u8()?),
            _ => {
                return Err(
                    "a chunk has codec 3, which is unknown; a newer Almanac may have written it".into()
                );
            }
        }
    }
    Ok(Cow::Owned(bytes))
}

/// Measured on our columns: higher levels gain nothing and take longer.
const LEVEL: i32 = 1;

// A context of each direction a thread: creating one costs more than using it on the few kilobytes of a chunk.
thread_local! {
    static COMPRESSOR: RefCell<Option<(Compressor<'static>, Vec<u8>)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Passes the compressed bytes to `keep`, or returns `false` if compression does not make them shorter. Any failure
/// of compression counts as that: the bytes stay raw.
fn with_compressed(bytes: &[u8], keep: impl FnOnce(&[u8])) -> bool {
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
fn decompress(stored: &[u8], length: usize, target: &mut Vec<u8>) -> Checked<()> {
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let decompressor = match slot {
            Some(ready) => ready,
            None => slot.insert(Decompressor::new().map_err(|error| format!("zstd did not start: {error}"))?),
        };
        let before = target.len();
        let mut behind = io::Cursor::new(mem::take(target));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(bytes: &[u8], plane: usize) -> usize {
        let mut out = Vec::new();
        put_chunks(&mut out, bytes, plane);
        let mut cursor = Cursor::new(&out);
        assert_eq!(take_chunks(&mut cursor, bytes.len()).expect("just written"), bytes);
        cursor.finish().expect("nothing left");
        out.len()
    }

    fn noise(count: usize) -> Vec<u8> {
        (0..count as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37) as u8).collect()
    }

    #[test]
    fn each_plane_kind_has_its_own_encoding() {
        assert_eq!(round_trip(&[], 1), 0);
        assert_eq!(round_trip(b"short", 5), 6, "raw: one byte of header");
        assert_eq!(round_trip(&[9; 5000], 5000), 4, "repeated: three bytes of header");
        assert_eq!(round_trip(&noise(5000), 5000), 5003, "noise stays raw");
        let letters: Vec<u8> = noise(5000).iter().map(|byte| b'a' + byte % 16).collect();
        assert!(round_trip(&letters, 5000) < 2700, "four bits a letter");
        let planes = [noise(5000), vec![0; 5000], letters].concat();
        assert!(round_trip(&planes, 5000) < 5003 + 4 + 2700);
    }

    #[test]
    fn small_planes_share_a_chunk() {
        let letters: Vec<u8> = noise(1200).iter().map(|byte| b'a' + byte % 16).collect();
        assert!(round_trip(&letters, 100) <= round_trip(&letters, 1200) + 1);
    }

    #[test]
    fn wrong_chunks_are_refused() {
        let take = |bytes: &[u8], total| take_chunks(&mut Cursor::new(bytes), total).map(|_| ());
        assert!(take(&[5 << 2, 1, 2, 3, 4, 5], 4).is_err(), "longer than the byte string");
        assert!(take(&[0], 4).is_err(), "an empty chunk");
        assert!(take(&[4 << 2, 1, 2], 4).is_err(), "cut short");
        assert!(take(&[4 << 2 | 3, 1, 2, 3, 4], 4).is_err(), "unknown codec");
        assert!(take(&[4 << 2 | 1, 2, 1, 2], 4).is_err(), "not zstd");
        let mut out = Vec::new();
        put_chunks(&mut out, &[1; 100].map(|one| one), 100);
        assert!(take(&out, 101).is_err(), "too few bytes");
    }
}
