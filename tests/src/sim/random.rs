//! Numbers from a seed.

use std::sync::{Mutex, PoisonError};

/// A splitmix64 sequence (Steele, Lea, Flood 2014).
#[derive(Debug)]
pub struct Random(Mutex<u64>);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x9E37_79B9_7F4A_7C15))
    }

    fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number less than `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True one time in `one_in`; never when 0.
    pub fn hits(&self, one_in: u64) -> bool {
        one_in > 0 && self.below(one_in) == 0
    }
}
