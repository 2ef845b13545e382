//! Filter of the keys of a day: a key is certainly absent from its events, or possibly present.
//!
//! A key of an event is always possibly present. About one of 256 absent keys is possibly present too; for that a
//! filter takes about 10 bits a distinct key: binary fuse filters (Graf and Lemire 2022,
//! <https://arxiv.org/abs/2201.01174>) of the crate `xorf`, over 64-bit hashes of keys. Keys are assigned to parts by
//! their hash, so a filter of any size is made and read in bounded pieces.
//!
//! **It is a stored format.** The same keys give the same bytes. [`KeyFilterPart::to_bytes`] begins with a version,
//! and the hash of keys is pinned by its own test.

use std::{fmt, ops::Range};

use xorf::{BinaryFuse8, Descriptor, Filter};

use crate::{
    Result,
    hash::hash,
    read::{Texts, required_texts},
};

/// Approximate number of events in a part: 16,384 distinct keys take about 21 KB.
pub const ROWS_OF_PART: u64 = 16_384;

/// Prefix of every part: the format and its version.
const MAGIC: &[u8; 5] = b"ALMK\x01";

/// Bytes of the magic, the seed, the two lengths and the checksum.
const FRAME_BYTES: usize = MAGIC.len() + 8 + 4 + 4 + 4;

/// Returns the number of parts of a filter of `rows` events.
pub fn parts_of(rows: u64) -> u32 {
    rows.div_ceil(ROWS_OF_PART).clamp(1, u64::from(u32::MAX)) as u32
}

/// Returns the part of a key, out of `parts`.
pub fn part_of(key: &str, parts: u32) -> u32 {
    part_of_hash(hash(key.as_bytes()), parts)
}

fn part_of_hash(hash: u64, parts: u32) -> u32 {
    (((hash >> 32) * u64::from(parts)) >> 32) as u32
}

/// Collects the keys of events for some parts of a filter.
#[derive(Debug)]
pub struct KeyFilterBuilder {
    parts: u32,
    wanted: Range<u32>,
    hashes: Vec<u64>,
}

impl KeyFilterBuilder {
    /// Creates a builder of the parts `wanted`, out of `parts`.
    pub fn new(parts: u32, wanted: Range<u32>) -> Self {
        Self { parts, wanted, hashes: Vec::new() }
    }

    /// Adds the keys of a segment.
    ///
    /// # Errors
    /// Fails if its column `key` is missing or invalid.
    pub fn add(&mut self, columns: &event::Columns) -> Result<()> {
        if columns.rows == 0 {
            return Ok(());
        }
        let keys: Texts<'_> = required_texts(columns, "key")?;
        let hashes = (0..columns.rows).filter_map(|row| keys.get(row)).map(|key| hash(key.as_bytes()));
        self.hashes.extend(hashes.filter(|hash| self.wanted.contains(&part_of_hash(*hash, self.parts))));
        Ok(())
    }

    /// Returns the parts, in order, each with its number of distinct keys.
    pub fn finish(mut self) -> Vec<(KeyFilterPart, u64)> {
        // The order and repeats of events must not matter.
        self.hashes.sort_unstable();
        self.hashes.dedup();
        let mut rest = &self.hashes[..];
        let part = |number| {
            let (these, others) =
                rest.split_at(rest.partition_point(|hash| part_of_hash(*hash, self.parts) <= number));
            rest = others;
            (KeyFilterPart::of(these), these.len() as u64)
        };
        self.wanted.clone().map(part).collect()
    }
}

/// A part of a filter.
#[derive(Clone)]
pub struct KeyFilterPart {
    /// Keys that may be present.
    holds: Holds,
}

#[derive(Clone)]
enum Holds {
    /// No key.
    Nothing,
    /// Any key: construction failed for these keys.
    Anything,
    Fuse(BinaryFuse8),
}

impl fmt::Debug for KeyFilterPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.to_bytes().len();
        write!(f, "KeyFilterPart({bytes} bytes)")
    }
}

/// Reason why some bytes are no part of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFilter(&'static str);

impl fmt::Display for NoFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is no part of a filter of keys: {}", self.0)
    }
}

impl std::error::Error for NoFilter {}

impl KeyFilterPart {
    /// Creates a part of distinct hashes in ascending order.
    fn of(hashes: &[u64]) -> Self {
        let holds = match hashes {
            [] => Holds::Nothing,
            _ => BinaryFuse8::try_from(hashes).map_or(Holds::Anything, Holds::Fuse),
        };
        Self { holds }
    }

    /// Returns whether an event may have the key, which must belong to this part.
    pub fn may_hold(&self, key: &str) -> bool {
        match &self.holds {
            Holds::Nothing => false,
            Holds::Anything => true,
            Holds::Fuse(fuse) => fuse.contains(&hash(key.as_bytes())),
        }
    }

    /// Returns its stored form: the magic with a version; the seed, the length of a segment and of all segments but
    /// the last two, as little-endian; the fingerprints; and the CRC-32 of all that. Both lengths are 0 for no key,
    /// and they are 1 and 0 for any key.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (seed, lengths, fingerprints): (u64, [u32; 2], &[u8]) = match &self.holds {
            Holds::Nothing => (0, [0, 0], &[]),
            Holds::Anything => (0, [1, 0], &[]),
            Holds::Fuse(BinaryFuse8 { descriptor, fingerprints }) => {
                (descriptor.seed, [descriptor.segment_length, descriptor.segment_count_length], fingerprints)
            }
        };
        let mut bytes = Vec::with_capacity(FRAME_BYTES + fingerprints.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&seed.to_le_bytes());
        lengths.iter().for_each(|length| bytes.extend_from_slice(&length.to_le_bytes()));
        bytes.extend_from_slice(fingerprints);
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the bytes made by [`KeyFilterPart::to_bytes`].
    ///
    /// # Errors
    /// Fails if they are malformed, or of a newer version.
    pub fn from_bytes(bytes: &[u8]) -> std::result::Result<Self, NoFilter> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(NoFilter("it does not begin as one"))?;
        let Some((_, sum)) = bytes.split_last_chunk::<4>().filter(|_| bytes.len() >= FRAME_BYTES) else {
            return Err(NoFilter("it is too short"));
        };
        if crc32fast::hash(&bytes[..bytes.len() - 4]) != u32::from_le_bytes(*sum) {
            return Err(NoFilter("its checksum is another one"));
        }
        let short = NoFilter("it is too short");
        let (seed, rest) = rest.split_first_chunk::<8>().ok_or(short)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or(short)?;
        let (all, rest) = rest.split_first_chunk::<4>().ok_or(short)?;
        let fingerprints = &rest[..rest.len() - 4];
        let [segment_length, segment_count_length] = [length, all].map(|bytes| u32::from_le_bytes(*bytes));
        let holds = match (segment_length, segment_count_length) {
            (0, 0) if fingerprints.is_empty() => Holds::Nothing,
            (1, 0) if fingerprints.is_empty() => Holds::Anything,
            _ => {
                // No key may look beyond the fingerprints.
                let fits = segment_length.is_power_of_two()
                    && segment_count_length >= segment_length
                    && segment_count_length.is_multiple_of(segment_length)
                    && fingerprints.len() as u64
                        == u64::from(segment_count_length) + 2 * u64::from(segment_length);
                if !fits {
                    return Err(NoFilter("its lengths do not fit each other"));
                }
                let descriptor = Descriptor {
                    seed: u64::from_le_bytes(*seed),
                    segment_length,
                    segment_length_mask: segment_length - 1,
                    segment_count_length,
                };
                Holds::Fuse(BinaryFuse8 { descriptor, fingerprints: fingerprints.into() })
            }
        };
        Ok(Self { holds })
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::testing::{columns, texts};

    fn keys(keys: &[String]) -> event::Columns {
        let rows: Vec<Option<&str>> = keys.iter().map(|key| Some(key.as_str())).collect();
        columns(vec![texts("key", &rows, false)])
    }

    fn filter(of: &[String], parts: u32) -> Vec<KeyFilterPart> {
        let mut builder = KeyFilterBuilder::new(parts, 0..parts);
        builder.add(&keys(of)).unwrap();
        builder.finish().into_iter().map(|(part, _)| part).collect()
    }

    fn may_hold(filter: &[KeyFilterPart], key: &str) -> bool {
        filter[part_of(key, filter.len() as u32) as usize].may_hold(key)
    }

    fn numbered(from: usize, to: usize) -> Vec<String> {
        (from..to).map(|number| format!("loan-{number}")).collect()
    }

    #[test]
    fn key_filter_is_small_with_few_false_positives() {
        let all = numbered(0, 100_000);
        let parts = parts_of(all.len() as u64);
        assert_eq!(parts, 7);
        let filter = filter(&all, parts);
        assert!(all.iter().all(|key| may_hold(&filter, key)));
        let wrong = numbered(100_000, 200_000).iter().filter(|key| may_hold(&filter, key)).count();
        assert!((200..=600).contains(&wrong), "{wrong} of 100,000");
        let bytes: usize = filter.iter().map(|part| part.to_bytes().len()).sum();
        assert!(bytes * 8 < all.len() * 11, "{} bits a key", bytes as f64 * 8.0 / all.len() as f64);
        assert!(filter.iter().all(|part| part.to_bytes().len() < 20_000));
    }

    /// Pins the stored bytes. Stored filters are read forever, so these change only together with the version.
    #[test]
    fn the_stored_form_stays_as_it_is() {
        let hex = |part: &KeyFilterPart| {
            part.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let few = filter(&numbered(0, 5), 1);
        let none = filter(&[], 1);
        // The sum leaves out the part's own checksum: including it, every part has the same CRC-32.
        let of_part = |part: &KeyFilterPart| {
            let bytes = part.to_bytes();
            crc32fast::hash(&bytes[..bytes.len() - 4])
        };
        let sum = |of: &[KeyFilterPart]| {
            let sums = of.iter().map(|part| format!("{:08x}", of_part(part)));
            sums.collect::<Vec<_>>().join(" ")
        };
        insta::assert_snapshot!(
            [hex(&few[0]), hex(&none[0]), sum(&filter(&numbered(0, 40_000), 3))].join("\n")
        );
    }

    #[test]
    fn key_filter_ignores_order_repeats_and_passes() {
        let all = numbered(0, 3_000);
        let bytes = |filter: &[KeyFilterPart]| filter.iter().map(KeyFilterPart::to_bytes).collect::<Vec<_>>();
        let expected = bytes(&filter(&all, 3));
        let mut other: Vec<String> = all.iter().rev().chain(&all[..100]).cloned().collect();
        other.rotate_left(700);
        assert_eq!(bytes(&filter(&other, 3)), expected);
        let passes = (0..3).flat_map(|number| {
            let mut builder = KeyFilterBuilder::new(3, number..number + 1);
            builder.add(&keys(&all[..1_000])).unwrap();
            builder.add(&keys(&all[1_000..])).unwrap();
            builder.finish()
        });
        let (passes, counts): (Vec<_>, Vec<_>) = passes.unzip();
        assert_eq!((bytes(&passes), counts.iter().sum()), (expected, 3_000));
    }

    #[test]
    fn empty_filter_part_rejects_and_unfiltered_accepts() {
        let none = filter(&[], 2);
        assert!(!may_hold(&none, "a"));
        let any = KeyFilterPart { holds: Holds::Anything };
        for (part, holds) in [(&none[0], false), (&any, true)] {
            let read = KeyFilterPart::from_bytes(&part.to_bytes()).unwrap();
            assert_eq!(read.may_hold("a"), holds);
        }
        assert_eq!([0, 1, ROWS_OF_PART, ROWS_OF_PART + 1].map(parts_of), [1, 1, 1, 2]);
    }

    proptest! {
        #[test]
        fn what_was_stored_is_read_again(of in vec("[a-z0-9]{1,12}", 1..200), parts in 1u32..5) {
            for part in filter(&of, parts) {
                let read = KeyFilterPart::from_bytes(&part.to_bytes()).unwrap();
                prop_assert_eq!(read.to_bytes(), part.to_bytes());
            }
            let read: Vec<KeyFilterPart> = filter(&of, parts)
                .iter().map(|part| KeyFilterPart::from_bytes(&part.to_bytes()).unwrap()).collect();
            prop_assert!(of.iter().all(|key| may_hold(&read, key)));
        }

        /// Arbitrary bytes are read or refused, and then queried without a panic.
        #[test]
        fn other_bytes_are_refused(
            mut bytes in vec(any::<u8>(), 0..80),
            at in any::<prop::sample::Index>(),
            lengths in (0u32..40, 0u32..80),
            sums in any::<bool>(),
        ) {
            if sums && bytes.len() > FRAME_BYTES {
                bytes[..5].copy_from_slice(MAGIC);
                bytes[13..17].copy_from_slice(&lengths.0.to_le_bytes());
                bytes[17..21].copy_from_slice(&lengths.1.to_le_bytes());
                let end = bytes.len() - 4;
                let sum = crc32fast::hash(&bytes[..end]);
                bytes[end..].copy_from_slice(&sum.to_le_bytes());
            }
            if let Ok(part) = KeyFilterPart::from_bytes(&bytes) {
                _ = part.may_hold("a");
            }
            let mut part = filter(&["a".to_owned()], 1)[0].to_bytes();
            let at = at.index(part.len());
            part[at] ^= 1;
            prop_assert!(KeyFilterPart::from_bytes(&part).is_err());
        }
    }
}
