//! Hash table of row numbers. The rows themselves stay in their columns, so the table is small, nothing is allocated
//! per row, and one probe touches one cache line.
//!
//! **The hash is part of a stored format.** The hash of a name decides whether a full breakdown keeps it
//! ([`crate::rollup::bounded`]), and the state has the hash from which on names are summed up as the rest. Another
//! hash would keep other names: folding the same events would give other bytes, and kept names of a day could not be
//! continued. So a change of it makes a new version of rollups (`rollup/versions.rs`); a test pins its values.
//!
//! The join and the [partitions](crate::evaluation::partitions) of a day use it as well; their results do not depend
//! on it.
//!
//! The hash is not keyed: a malicious writer can slow down the folds of their own workspace.

/// Multiplies to 128 bits and folds the halves, so that every bit of both sides counts. The step
/// of wyhash (Wang Yi, <https://github.com/wangyi-fudan/wyhash>), whose constants follow.
#[inline]
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x2d35_8dcc_aa6c_78a5) * u128::from(b ^ 0x8bb8_4b93_962e_acc9);
    product as u64 ^ (product >> 64) as u64
}

/// Hashes bytes.
#[inline]
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let half = |at: usize| bytes[at..].first_chunk().map_or(0, |half| u64::from(u32::from_le_bytes(*half)));
    let length = bytes.len();
    let seed = length as u64;
    match length {
        0 => mix(seed, 0),
        1..4 => {
            let three = [bytes[0], bytes[length / 2], bytes[length - 1], 0];
            mix(seed, u64::from(u32::from_le_bytes(three)))
        }
        4..8 => mix(seed, half(0) << 32 | half(length - 4)),
        // The last word overlaps the one before it, which saves a loop over single bytes.
        8..=16 => mix(mix(seed, word(0)), word(length - 8)),
        _ => {
            let starts = (0..length - 8).step_by(8);
            mix(starts.fold(seed, |state, at| mix(state, word(at))), word(length - 8))
        }
    }
}

/// Returns whether the bytes of two keys are equal, without a call for the lengths of most keys.
#[inline]
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    let word =
        |bytes: &[u8], at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let length = one.len();
    match length {
        _ if length != other.len() => false,
        // The last word may overlap the one before it.
        8..=16 => (word(one, 0) ^ word(other, 0)) | (word(one, length - 8) ^ word(other, length - 8)) == 0,
        _ => one == other,
    }
}

/// Set of numbers below `u32::MAX`, found by hash. Open addressing, at most half full.
pub(crate) struct Table {
    /// Zero if vacant, else the high half of the hash above the number plus one.
    slots: Vec<u64>,
}

impl Table {
    /// Creates an empty table for up to `entries` numbers.
    pub(crate) fn new(entries: usize) -> Self {
        Self { slots: vec![0; (entries * 2).next_power_of_two().max(2)] }
    }

    /// Returns the slot of the entry that has this hash and satisfies `same`, or the vacant slot where it belongs.
    #[inline]
    fn slot(&self, hash: u64, same: impl Fn(u32) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at & mask];
            if slot == 0 || (slot >> 32 == hash >> 32 && same(number(slot))) {
                return at & mask;
            }
            at += 1;
        }
    }

    /// Returns the number that has this hash and satisfies `same`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        let slot = self.slots[self.slot(hash, same)];
        (slot != 0).then(|| number(slot))
    }

    /// Inserts `new`, unless an existing number satisfies `same` and not `replaces`. Returns the existing number.
    #[inline]
    pub(crate) fn keep(
        &mut self,
        hash: u64,
        new: u32,
        same: impl Fn(u32) -> bool,
        replaces: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let at = self.slot(hash, same);
        let slot = self.slots[at];
        let old = (slot != 0).then(|| number(slot));
        if old.is_none_or(replaces) {
            self.slots[at] = (hash >> 32) << 32 | (u64::from(new) + 1);
        }
        old
    }
}

#[inline]
fn number(slot: u64) -> u32 {
    (slot as u32).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hashes_spread() {
        let texts =
            (0..200_000).map(|n| format!("{n}")).chain((0..200_000).map(|n| format!("flight-{n:016}")));
        let hashes: Vec<u64> = texts.map(|text| hash(text.as_bytes())).collect();
        let low: BTreeSet<u64> = hashes.iter().map(|hash| hash & 0xf_ffff).collect();
        let high: BTreeSet<u64> = hashes.iter().map(|hash| hash >> 32).collect();
        // 400,000 balls in 2^20 urns fill about 332,600 of them.
        assert!((325_000..340_000).contains(&low.len()), "{}", low.len());
        assert!(high.len() > 399_900, "{}", high.len());
    }

    #[test]
    fn every_byte_and_the_length_count() {
        for length in 0..40 {
            let zeros = vec![0u8; length];
            assert_ne!(hash(&zeros), hash(&vec![0u8; length + 1]));
            for at in 0..length {
                let mut other = zeros.clone();
                other[at] = 1;
                assert_ne!(hash(&zeros), hash(&other), "byte {at} of {length}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_same_bytes_are_the_same(bytes in proptest::collection::vec(0u8..3, 0..40), at in 0usize..40) {
            prop_assert!(same(&bytes, &bytes.clone()));
            let mut other = bytes.clone();
            match other.get_mut(at) {
                Some(byte) => *byte ^= 128,
                None => other.push(0),
            }
            prop_assert!(!same(&bytes, &other) && !same(&other, &bytes));
        }

        #[test]
        fn keeps_like_a_hash_map(texts in proptest::collection::vec("[a-c]{0,3}", 0..200), bits in 0u32..64) {
            // Few bits of hash cause probing and false tags.
            let hash = |text: &str| hash(text.as_bytes()) >> bits << bits;
            let mut table = Table::new(texts.len());
            let mut expected = HashMap::<&str, u32>::new();
            for (number, text) in texts.iter().enumerate() {
                let (number, replace) = (number as u32, number % 2 == 0);
                let old = table.keep(hash(text), number, |at| &texts[at as usize] == text, |_| replace);
                prop_assert_eq!(old, expected.get(text.as_str()).copied());
                if old.is_none() || replace {
                    expected.insert(text, number);
                }
            }
            for text in &texts {
                let found = table.find(hash(text), |at| &texts[at as usize] == text);
                prop_assert_eq!(found, expected.get(text.as_str()).copied());
            }
        }
    }
}
