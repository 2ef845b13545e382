//! Text of few distinct strings: each string is replaced by a code as it is read.

use event::columns::{Coded, Strings};

/// Maximum distinct strings for codes of one byte.
const MAX_CODES: usize = 256;
/// Places of the hash table, a power of two; at most half of them are taken.
const PLACES: usize = 2 * MAX_CODES;
const EMPTY: u16 = u16::MAX;
/// An odd multiplier that mixes the bits of eight bytes (from the golden ratio).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Length of a text with its first and its last eight bytes. A short text is identified by them, without the call that compares
/// any number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    len: usize,
    first: u64,
    last: u64,
}

impl Ends {
    /// Maximum bytes of a text that is identified by its ends.
    const KNOWN_BYTES: usize = 16;

    #[inline]
    fn of(text: &[u8]) -> Self {
        let len = text.len();
        let (first, last) = match (text.first_chunk(), text.last_chunk()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => Self::of_few(text),
        };
        Self { len, first, last }
    }

    /// Reads the ends of less than eight bytes: the first and last four, or all of them.
    #[inline]
    fn of_few(text: &[u8]) -> (u64, u64) {
        match (text.first_chunk(), text.last_chunk()) {
            (Some(first), Some(last)) => {
                (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)))
            }
            _ => (text.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)), 0),
        }
    }

    /// Hashes `text`, which has these ends.
    #[inline]
    fn hash(self, text: &[u8]) -> u64 {
        let all = match self.len <= Self::KNOWN_BYTES {
            true => mix(self.first, self.last),
            false => text.chunks(8).fold(0, |all, word| mix(all, Self::of(word).first)),
        };
        mix(all, self.len as u64)
    }
}

#[inline]
fn mix(all: u64, word: u64) -> u64 {
    let mixed = (all.rotate_left(29) ^ word).wrapping_mul(MIX);
    mixed ^ (mixed >> 29)
}

/// Growing dictionary, and the codes of the rows.
#[derive(Clone, Debug)]
pub(crate) struct DictionaryBuilder {
    pub(crate) codes: Vec<u8>,
    dictionary: Strings,
    /// Ends of each string of the dictionary.
    ends: Vec<Ends>,
    places: Vec<u16>,
    last: u8,
}

/// Result of looking up a string.
pub(crate) enum Known {
    Code(u8),
    /// New string, which would go to this place.
    New(usize),
}

impl DictionaryBuilder {
    pub(crate) fn new() -> Self {
        let (codes, dictionary, ends) = (Vec::new(), Strings::default(), Vec::new());
        Self { codes, dictionary, ends, places: vec![EMPTY; PLACES], last: 0 }
    }

    /// Looks the string up, first comparing it with the string of the row before.
    #[inline]
    pub(crate) fn find(&mut self, text: &str) -> Known {
        let ends = Ends::of(text.as_bytes());
        if self.is(self.last, ends, text) {
            return Known::Code(self.last);
        }
        let mut place = (ends.hash(text.as_bytes()) >> 32) as usize % PLACES;
        loop {
            let code = self.places[place];
            if code == EMPTY {
                return Known::New(place);
            }
            if self.is(code as u8, ends, text) {
                self.last = code as u8;
                return Known::Code(self.last);
            }
            place = (place + 1) % PLACES;
        }
    }

    /// Returns whether the string of a code is `text`, which has these ends.
    #[inline]
    fn is(&self, code: u8, ends: Ends, text: &str) -> bool {
        self.ends.get(usize::from(code)).is_some_and(|known| *known == ends)
            && (ends.len <= Ends::KNOWN_BYTES || self.dictionary.get(usize::from(code)) == text)
    }

    /// Returns the string of a row that is not null.
    pub(crate) fn get(&self, row: usize) -> &str {
        self.dictionary.get(usize::from(self.codes[row]))
    }

    /// Adds a new string at the place that [`DictionaryBuilder::find`] returned. `None` when all codes are taken.
    pub(crate) fn add(&mut self, text: &str, place: usize) -> Option<u8> {
        let code = self.dictionary.len();
        if code >= MAX_CODES {
            return None;
        }
        self.dictionary.push(text);
        self.ends.push(Ends::of(text.as_bytes()));
        self.places[place] = code as u16;
        self.last = code as u8;
        Some(self.last)
    }

    /// Expands the strings of all rows; null rows get an empty string.
    pub(crate) fn into_strings(self, valid: Option<&[bool]>) -> Strings {
        let text = |(row, code): (usize, &u8)| match valid.is_none_or(|valid| valid[row]) {
            true => self.dictionary.get(usize::from(*code)),
            false => "",
        };
        self.codes.iter().enumerate().map(text).collect()
    }

    pub(crate) fn finish(self) -> Coded {
        Coded { codes: self.codes, dictionary: self.dictionary }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Strings of every length, many of which differ by a byte.
        #[test]
        fn dictionary_codes_are_unique_per_string(texts in prop::collection::vec("[ab]{0,20}", 0..200)) {
            let (mut coder, mut codes) = (DictionaryBuilder::new(), HashMap::new());
            for text in &texts {
                let code = match coder.find(text) {
                    Known::Code(code) => code,
                    Known::New(place) => {
                        prop_assert!(!codes.contains_key(text), "{} is known", text);
                        coder.add(text, place).unwrap()
                    }
                };
                prop_assert_eq!(*codes.entry(text).or_insert(code), code);
            }
            prop_assert_eq!(coder.dictionary.len(), codes.len());
        }
    }

    #[test]
    fn strings_get_codes_until_there_are_no_more() {
        let mut coder = DictionaryBuilder::new();
        for round in 0..2 {
            for n in 0..MAX_CODES {
                let text = format!("string {n}");
                let code = match coder.find(&text) {
                    Known::Code(code) => code,
                    Known::New(place) => coder.add(&text, place).unwrap(),
                };
                assert_eq!(usize::from(code), n, "round {round}");
                coder.codes.push(code);
            }
        }
        let Known::New(place) = coder.find("one more") else { panic!("it was never seen") };
        assert_eq!(coder.add("one more", place), None);
        let strings = coder.into_strings(None);
        assert_eq!((strings.len(), strings.get(300)), (512, "string 44"));
    }
}
