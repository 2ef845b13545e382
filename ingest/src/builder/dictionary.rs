//! Text of few distinct strings: a string becomes a code as it comes.

use event::columns::{Coded, Strings};

/// The most distinct strings that codes of one byte tell apart.
const MAX_CODES: usize = 256;
/// Places of the hash table, a power of two; at most half of them are taken.
const PLACES: usize = 2 * MAX_CODES;
const EMPTY: u16 = u16::MAX;
/// An odd multiplier that mixes the bits of eight bytes (from the golden ratio).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// A dictionary that grows, and the codes of the rows.
#[derive(Clone, Debug)]
pub(crate) struct DictionaryBuilder {
    pub(crate) codes: Vec<u8>,
    dictionary: Strings,
    places: Vec<u16>,
    last: u8,
}

/// What the dictionary says about a string.
pub(crate) enum Known {
    Code(u8),
    /// It is not there, and would go to this place.
    New(usize),
}

impl DictionaryBuilder {
    pub(crate) fn new() -> Self {
        Self { codes: Vec::new(), dictionary: Strings::default(), places: vec![EMPTY; PLACES], last: 0 }
    }

    /// Looks the string up: first whether it is that of the row before.
    #[inline]
    pub(crate) fn find(&mut self, text: &str) -> Known {
        if !self.dictionary.is_empty() && self.dictionary.get(usize::from(self.last)) == text {
            return Known::Code(self.last);
        }
        let mut place = (hash(text.as_bytes()) >> 32) as usize % PLACES;
        loop {
            let code = self.places[place];
            if code == EMPTY {
                return Known::New(place);
            }
            if self.dictionary.get(usize::from(code)) == text {
                self.last = code as u8;
                return Known::Code(self.last);
            }
            place = (place + 1) % PLACES;
        }
    }

    /// The string of a row that is not null.
    pub(crate) fn get(&self, row: usize) -> &str {
        self.dictionary.get(usize::from(self.codes[row]))
    }

    /// Takes a new string in at the place that [`DictionaryBuilder::find`] named. `None` when all codes are taken.
    pub(crate) fn add(&mut self, text: &str, place: usize) -> Option<u8> {
        let code = self.dictionary.len();
        if code >= MAX_CODES {
            return None;
        }
        self.dictionary.push(text);
        self.places[place] = code as u16;
        self.last = code as u8;
        Some(self.last)
    }

    /// The strings of all rows, those under a null empty.
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

fn hash(bytes: &[u8]) -> u64 {
    let mut mixed = bytes.len() as u64;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        mixed = (mixed ^ word).wrapping_mul(MIX).rotate_left(29);
    }
    let rest = words.remainder().iter().fold(0, |rest, byte| rest << 8 | u64::from(*byte));
    let mixed = (mixed ^ rest).wrapping_mul(MIX);
    (mixed ^ (mixed >> 29)).wrapping_mul(MIX)
}

#[cfg(test)]
mod tests {
    use super::*;

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
