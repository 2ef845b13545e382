//! Surrogates: what stands in the place of the key of an event that was erased.
//!
//! A surrogate is by chance, so it says nothing of the key, but for one thing: it is in the same lanes. All events of a key
//! stay in their logs when the key is erased, and a reader of some keys looks for them where their lane is.

use crate::{
    id::{LETTERS, random_letters},
    lane::lane_of,
};

/// What every surrogate begins with, and no key that a client may send.
pub const SURROGATE_PREFIX: &str = "erased~";

/// How many letters by chance follow, and by how many it is moved to the lanes.
const CHANCE: usize = 22;
const MOVED: u32 = 4;

/// How many bytes a surrogate has.
pub const SURROGATE_BYTES: usize = SURROGATE_PREFIX.len() + CHANCE + MOVED as usize;

/// Whether a key is the surrogate of one that was erased, or looks like it.
pub fn is_surrogate(key: &str) -> bool {
    key.starts_with(SURROGATE_PREFIX)
}

/// A surrogate of a key, which is in the same lane of each of these numbers of lanes. It is another one each time.
pub fn surrogate_of(key: &str, lanes: &[u8]) -> String {
    loop {
        let chance = format!("{SURROGATE_PREFIX}{}", random_letters(CHANCE));
        let base = LETTERS.len();
        // There are twenty for each of the 720,720 rests that all numbers of lanes can leave together.
        for number in 0..base.pow(MOVED) {
            let letter = |at: u32| char::from(LETTERS[number / base.pow(at) % base]);
            let surrogate: String = chance.chars().chain((0..MOVED).rev().map(letter)).collect();
            if lanes.iter().all(|lanes| lane_of(&surrogate, *lanes) == lane_of(key, *lanes)) {
                return surrogate;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::MAX_LANES;

    #[test]
    fn a_surrogate_stays_in_the_lanes_of_its_key_and_says_no_more() {
        for key in ["", "loan-17", "äöü", &"x".repeat(256)] {
            for lanes in [&[][..], &[1], &[4], &[3, 7, 16]] {
                let surrogate = surrogate_of(key, lanes);
                assert!(is_surrogate(&surrogate) && surrogate.len() == SURROGATE_BYTES, "{surrogate}");
                assert!(lanes.iter().all(|lanes| lane_of(&surrogate, *lanes) == lane_of(key, *lanes)));
                assert_ne!(surrogate_of(key, lanes), surrogate, "another one each time");
            }
        }
        assert!(!is_surrogate("loan-17") && !is_surrogate("erased"));
    }

    #[test]
    fn there_is_one_for_all_numbers_of_lanes_at_once() {
        let lanes: Vec<u8> = (1..=MAX_LANES).collect();
        let surrogate = surrogate_of("loan-17", &lanes);
        assert!(lanes.iter().all(|lanes| lane_of(&surrogate, *lanes) == lane_of("loan-17", *lanes)));
    }
}
