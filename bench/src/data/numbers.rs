//! Deterministic pseudorandom numbers (Vigna's SplitMix64).

/// A stream of numbers determined by its seed.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// Creates the stream of a seed. Streams of neighbouring seeds are unrelated.
    pub fn new(seed: u64) -> Self {
        let mut numbers = Self(seed);
        numbers.0 = numbers.whole();
        numbers
    }

    /// Returns a number of 64 bits.
    pub fn whole(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns an integer below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.whole() % limit
    }

    /// Returns a number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.whole() >> 11) as f64 / (1u64 << 53) as f64
    }
}
