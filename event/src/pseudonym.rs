//! Pseudonyms: replacements for the keys of erased events.
//!
//! A pseudonym is random, so it reveals nothing of the key, except that it is in the same lanes. All events of a key
//! stay in their logs when the key is erased, and a reader of some keys looks for them in their lane.

use crate::{
    id::{LETTERS, random_letters},
    lane::lane_of,
};

/// Prefix of every pseudonym, which no key sent by a client may have.
pub const PSEUDONYM_PREFIX: &str = "erased~";

/// Number of random letters that follow; `MOVED` more letters are chosen to match the lanes.
const CHANCE: usize = 22;
const MOVED: u32 = 4;

/// Number of bytes of a pseudonym.
pub const PSEUDONYM_BYTES: usize = PSEUDONYM_PREFIX.len() + CHANCE + MOVED as usize;

/// Returns whether a key is a pseudonym of an erased one, or looks like it.
pub fn is_pseudonym(key: &str) -> bool {
    key.starts_with(PSEUDONYM_PREFIX)
}

/// Returns a pseudonym of a key, in the same lane for each of these numbers of lanes. Each call returns another one.
pub fn pseudonym_of(key: &str, lanes: &[u8]) -> String {
    loop {
        let chance = format!("{PSEUDONYM_PREFIX}{}", random_letters(CHANCE));
        let base = LETTERS.len();
        // There are twenty for each of the 720,720 combinations of remainders that all numbers of lanes can give.
        for number in 0..base.pow(MOVED) {
            let letter = |at: u32| char::from(LETTERS[number / base.pow(at) % base]);
            let pseudonym: String = chance.chars().chain((0..MOVED).rev().map(letter)).collect();
            if lanes.iter().all(|lanes| lane_of(&pseudonym, *lanes) == lane_of(key, *lanes)) {
                return pseudonym;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::MAX_LANES;

    #[test]
    fn pseudonym_keeps_lanes_and_is_otherwise_random() {
        for key in ["", "loan-17", "äöü", &"x".repeat(256)] {
            for lanes in [&[][..], &[1], &[4], &[3, 7, 16]] {
                let pseudonym = pseudonym_of(key, lanes);
                assert!(is_pseudonym(&pseudonym) && pseudonym.len() == PSEUDONYM_BYTES, "{pseudonym}");
                assert!(lanes.iter().all(|lanes| lane_of(&pseudonym, *lanes) == lane_of(key, *lanes)));
                assert_ne!(pseudonym_of(key, lanes), pseudonym, "another one each time");
            }
        }
        assert!(!is_pseudonym("loan-17") && !is_pseudonym("erased"));
    }

    #[test]
    fn one_pseudonym_fits_all_lane_counts() {
        let lanes: Vec<u8> = (1..=MAX_LANES).collect();
        let pseudonym = pseudonym_of("loan-17", &lanes);
        assert!(lanes.iter().all(|lanes| lane_of(&pseudonym, *lanes) == lane_of("loan-17", *lanes)));
    }
}
