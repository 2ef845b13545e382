//! Distinct strings of a column, as long as they are few.

use super::bytes::Checked;

/// Maximum number of strings: codes are single bytes.
pub(super) const MAX_ENTRIES: usize = 256;
/// Number of slots, four times the entries, so that a search seldom meets another string.
const SLOTS: usize = 1024;
const EMPTY: u16 = u16::MAX;

/// Distinct strings, numbered in the order of their first appearance.
pub(super) struct Dictionary<'a> {
    entries: Vec<&'a str>,
    digests: Vec<(u64, usize)>,
    slots: [u16; SLOTS],
}

impl<'a> Dictionary<'a> {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new(), digests: Vec::new(), slots: [EMPTY; SLOTS] }
    }

    pub(super) fn entries(&self) -> &[&'a str] {
        &self.entries
    }

    /// Returns the code of `value`, which is new if needed; `None` if the dictionary is full.
    pub(super) fn code(&mut self, value: &'a str) -> Option<u8> {
        let digest = (digest(value.as_bytes()), value.len());
        let hash = digest.0.wrapping_add(value.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = (hash >> 54) as usize % SLOTS;
        while self.slots[slot] != EMPTY {
            let code = self.slots[slot] as usize;
            // Up to 8 bytes, the digest and the length determine the string.
            if self.digests[code] == digest && (value.len() <= 8 || self.entries[code] == value) {
                return Some(code as u8);
            }
            slot = (slot + 1) % SLOTS;
        }
        if self.entries.len() == MAX_ENTRIES {
            return None;
        }
        let code = self.entries.len();
        self.slots[slot] = code as u16;
        self.entries.push(value);
        self.digests.push(digest);
        Some(code as u8)
    }
}

/// Hashes a string. Up to 8 bytes: different for different strings of one length. Longer: the first and last words
/// with everything between folded in.
fn digest(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        let middle = bytes.as_chunks::<8>().0.iter().fold(u64::from_le_bytes(*first), |folded, word| {
            (folded.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        return if bytes.len() == 8 {
            u64::from_le_bytes(*first)
        } else {
            middle ^ u64::from_le_bytes(*last)
        };
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
    }
    match bytes {
        [] => 0,
        _ => {
            [0, bytes.len() / 2, bytes.len() - 1].iter().fold(0, |word, &at| word << 8 | u64::from(bytes[at]))
        }
    }
}

/// Returns the number of bits of a code: 0, 1, 2, 4 or 8.
pub(super) fn code_bits(entries: usize) -> usize {
    match entries {
        0..=1 => 0,
        2 => 1,
        3..=4 => 2,
        5..=16 => 4,
        _ => 8,
    }
}

/// Packs codes into bytes, the first code in the lowest bits. `bits` is 1, 2, 4 or 8.
pub(super) fn pack(codes: &[u8], bits: usize) -> Vec<u8> {
    let pack_byte =
        |codes: &[u8]| codes.iter().rev().fold(0, |byte, code| (u16::from(byte) << bits) as u8 | code);
    codes.chunks(8 / bits).map(pack_byte).collect()
}

/// Inverts [`pack`] for `count` codes; each must be below `entries`.
pub(super) fn unpack(packed: &[u8], bits: usize, count: usize, entries: usize) -> Checked<Vec<u8>> {
    let mut codes = match bits {
        1 => spread::<8>(packed),
        2 => spread::<4>(packed),
        4 => spread::<2>(packed),
        _ => packed.to_vec(),
    };
    if codes[count.min(codes.len())..].iter().any(|&code| code != 0) {
        return Err("bits are set after the last dictionary code".into());
    }
    codes.truncate(count);
    match codes.iter().max() {
        Some(&largest) if usize::from(largest) >= entries => {
            Err(format!("dictionary code {largest}, but there are {entries} entries").into())
        }
        _ => Ok(codes),
    }
}

/// Unpacks each byte into `N` codes of 8 / N bits.
fn spread<const N: usize>(packed: &[u8]) -> Vec<u8> {
    let bits = 8 / N;
    let mask = (1u8 << bits) - 1;
    let mut codes = vec![0; packed.len() * N];
    for (codes, byte) in codes.as_chunks_mut::<N>().0.iter_mut().zip(packed) {
        *codes = std::array::from_fn(|i| byte >> (bits * i) & mask);
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_first_appearance() {
        let words = ["", "b", "bb", "a", "b", "abcdefgh", "abcdefghi", "abcdefgh", "abcdxfghi", "äb", ""];
        let mut dictionary = Dictionary::new();
        let codes: Vec<u8> = words.iter().filter_map(|word| dictionary.code(word)).collect();
        assert_eq!(codes, [0, 1, 2, 3, 1, 4, 5, 4, 6, 7, 0]);
        assert_eq!(dictionary.entries()[4], "abcdefgh");
    }

    #[test]
    fn the_257th_string_does_not_fit() {
        let words: Vec<String> = (0..257).map(|i| format!("word number {i}")).collect();
        let mut dictionary = Dictionary::new();
        let codes: Vec<Option<u8>> = words.iter().map(|word| dictionary.code(word)).collect();
        assert!(codes[..256].iter().enumerate().all(|(i, code)| *code == Some(i as u8)));
        assert_eq!(codes[256], None);
        assert_eq!(dictionary.code(&words[255]), Some(255));
    }

    #[test]
    fn digests_of_short_strings_are_exact() {
        let mut seen = std::collections::HashSet::new();
        for length in 0..=8usize {
            for place in 0..length {
                for byte in 1..=255u8 {
                    let mut bytes = vec![0; length];
                    bytes[place] = byte;
                    assert!(seen.insert((digest(&bytes), length)), "{bytes:?}");
                }
            }
        }
    }

    #[test]
    fn codes_round_trip_through_bits() {
        for entries in [2, 3, 4, 5, 16, 17, 256] {
            for count in [1, 7, 8, 9, 100] {
                let codes: Vec<u8> = (0..count).map(|i| (i * 7 % entries) as u8).collect();
                let bits = code_bits(entries);
                let packed = pack(&codes, bits);
                assert_eq!(packed.len(), (count * bits).div_ceil(8));
                assert_eq!(unpack(&packed, bits, count, entries), Ok(codes));
            }
        }
        assert_eq!(pack(&[1, 0, 1, 1], 1), [0b1101]);
        assert!(unpack(&[0b11], 2, 1, 3).is_err(), "code 3 of 3 entries");
        assert!(unpack(&[0b10], 1, 1, 2).is_err(), "a bit after the last code");
    }
}
