//! Exact sums of doubles, so that a sum does not depend on the order of its terms.
//!
//! Adding doubles rounds at every step, so the same numbers in another order, or summed in parts, give another result
//! in the last digits. A fold must give the same bytes in whatever pieces the log was read, so it cannot use that.
//! [`ExactSum`] keeps every bit instead: it is a fixed-point number wide enough for all finite doubles, and only
//! [`ExactSum::value`] rounds, once.
//!
//! It is the small superaccumulator of Radford M. Neal, "Fast exact summation using small and
//! large superaccumulators", 2015, <https://arxiv.org/abs/1505.05571>.

use std::fmt;

/// Number of a chunk's own bits; bits above them are carry not yet propagated.
const CHUNK_BITS: u32 = 32;

/// Mask of a chunk's own bits.
const CHUNK_MASK: i64 = (1 << CHUNK_BITS) - 1;

/// Doubles span 2098 bits, from the least subnormal 2^-1074 to just below 2^1024. The other bits
/// of 68 chunks are room for the sum of 2^77 of the greatest doubles, and for the sign.
const CHUNKS: usize = 68;

/// Bits of the fraction of a double as it is stored, without the leading one.
const FRACTION_BITS: u32 = 52;

/// The exponent field of a double that is infinite or not a number.
const SPECIAL_EXPONENT: u64 = 0x7ff;

/// Maximum number of terms added before carries must be propagated: a term changes a chunk by less than 2^52, a chunk
/// starts below 2^32, and 2047 * 2^52 + 2^32 + 2^31 (a carry) < 2^63.
const TERMS_BEFORE_CARRY: u32 = 2047;

/// Number of terms cut into levels together.
const BLOCK: usize = 256;

/// Bits of a term of the greatest exponent in the first level: the sum of a block of such terms has 53 bits.
const LEVEL_BITS: i32 = 44;

/// Maximum number of levels; blocks that need more are added term by term.
const LEVELS: usize = 4;

/// Exponent fields of the greatest term of a block for which each level is made of normal doubles.
const LEVELLED: std::ops::RangeInclusive<u64> = 320..=2_000;

/// Number of chunks dropped from a sum beyond the range of doubles, in order to divide it.
const DROPPED_CHUNKS: usize = 3;

/// Exact sum of finite doubles. It does not depend on the order of the terms: equal sums are equal values. Negative
/// zero counts as zero, and the sum of no terms is zero.
#[derive(Clone)]
pub struct ExactSum {
    /// Fixed point in base 2^32, lowest chunk first. Chunks may be negative or exceed 32 bits until carries are
    /// propagated.
    chunks: [i64; CHUNKS],
    /// Number of terms added since carries were last propagated.
    pending: u32,
}

impl ExactSum {
    /// Returns the sum of no terms: zero.
    pub const fn new() -> Self {
        Self { chunks: [0; CHUNKS], pending: 0 }
    }

    /// Adds one term.
    ///
    /// # Panics
    /// Panics if `term` is infinite or not a number, which have no exact sum.
    #[inline]
    pub fn add(&mut self, term: f64) {
        if self.pending == TERMS_BEFORE_CARRY {
            self.carry();
        }
        self.pending += 1;
        let bits = term.to_bits();
        let exponent = (bits >> FRACTION_BITS) & SPECIAL_EXPONENT;
        assert!(exponent != SPECIAL_EXPONENT, "only finite numbers have an exact sum, not {term}");
        let fraction = bits & ((1 << FRACTION_BITS) - 1);
        // Subnormals have the exponent field 0, the scale of field 1, and no leading one.
        let normal = u64::from(exponent != 0);
        let mantissa = fraction | (normal << FRACTION_BITS);
        let position = exponent - normal;
        let (chunk, shift) = ((position / u64::from(CHUNK_BITS)) as usize, position as u32 % CHUNK_BITS);
        let low = ((mantissa << shift) as i64) & CHUNK_MASK;
        let high = (mantissa >> (CHUNK_BITS - shift)) as i64;
        // All ones for a negative term: `(x ^ sign) - sign` is then -x, without a branch.
        let sign = (bits as i64) >> 63;
        self.chunks[chunk] += (low ^ sign) - sign;
        self.chunks[chunk + 1] += (high ^ sign) - sign;
    }

    /// Adds terms. The result is that of adding them one by one, but faster for terms of similar size.
    ///
    /// # Panics
    /// See [`ExactSum::add`].
    pub fn add_all(&mut self, terms: &[f64]) {
        for block in terms.chunks(BLOCK) {
            match by_levels(block) {
                Some(levels) => levels.iter().for_each(|level| self.add(*level)),
                None => block.iter().for_each(|term| self.add(*term)),
            }
        }
    }

    /// Returns the sum rounded once, to the nearest double, ties to even. A sum beyond the range of doubles is
    /// infinite; a sum of zero is positive zero.
    pub fn value(&self) -> f64 {
        let (negative, magnitude) = self.magnitude();
        Self::rounded(negative, &magnitude)
    }

    /// Returns the sum divided by `n`: finite even if the sum is beyond the range of doubles.
    pub fn mean(&self, n: u64) -> f64 {
        let (negative, magnitude) = self.magnitude();
        let sum = Self::rounded(negative, &magnitude);
        if sum.is_finite() {
            return sum / n as f64;
        }
        // The sum of at most 2^64 doubles is less than 2^1088; 2^64 of a unit do not matter to one beyond 2^1024.
        let below = Self::rounded(negative, &magnitude.without_last(DROPPED_CHUNKS));
        below / n as f64 * 2f64.powi(DROPPED_CHUNKS as i32 * CHUNK_BITS as i32)
    }

    fn rounded(negative: bool, magnitude: &Magnitude) -> f64 {
        let Some(top) = magnitude.top_bit() else { return 0.0 };
        let bits = match top.checked_sub(FRACTION_BITS) {
            // At most 53 bits: already the bits of a double, with an exponent field of 0 or 1.
            None | Some(0) => magnitude.bits(0, 53),
            Some(below) => {
                let kept = magnitude.bits(below, 53);
                let half = magnitude.bits(below - 1, 1) == 1;
                let round_up = half && (kept & 1 == 1 || magnitude.any_below(below - 1));
                // The leading one of `kept` adds one to the exponent field, and a carry out of rounding one more, as
                // required.
                (u64::from(below) << FRACTION_BITS) + kept + u64::from(round_up)
            }
        };
        let size = f64::from_bits(bits.min(SPECIAL_EXPONENT << FRACTION_BITS));
        if negative { -size } else { size }
    }

    /// Propagates carries, so that every chunk but the top one is in [0, 2^32) and the top one carries the sign. This
    /// form is unique for a sum.
    fn carry(&mut self) {
        let mut carry = 0;
        for chunk in &mut self.chunks[..CHUNKS - 1] {
            let whole = *chunk + carry;
            *chunk = whole & CHUNK_MASK;
            carry = whole >> CHUNK_BITS;
        }
        self.chunks[CHUNKS - 1] += carry;
        self.pending = 0;
    }

    /// Returns whether the sum is negative, and its magnitude.
    fn magnitude(&self) -> (bool, Magnitude) {
        let mut sum = self.clone();
        sum.carry();
        let negative = sum.chunks[CHUNKS - 1] < 0;
        if negative {
            sum.chunks.iter_mut().for_each(|chunk| *chunk = -*chunk);
            sum.carry();
        }
        // Carried chunks fit 32 bits; so does the top one, which is spare room that is never used up.
        (negative, Magnitude(sum.chunks.map(|chunk| chunk as u32)))
    }
}

/// Returns the sum of at most [`BLOCK`] terms as doubles that add up to it exactly. Terms are cut at multiples of a
/// power of two, large enough for the multiples to add up without rounding; the remainder of each is cut again
/// (Demmel and Nguyen, "Fast reproducible floating-point summation", 2013). `None` if that takes too many levels, or
/// terms are too great, too small or not finite.
#[inline]
fn by_levels(terms: &[f64]) -> Option<[f64; LEVELS]> {
    /// Number of parallel sums, so that several terms are cut at once.
    const LANES: usize = 4;
    /// Number of levels cut in one pass over the terms: most blocks need no more.
    const PASS: usize = 2;
    let mut room = [0.0; BLOCK];
    let rest = room.get_mut(..terms.len().next_multiple_of(LANES))?;
    rest[..terms.len()].copy_from_slice(terms);
    // NaN compares as not greater here, and remains after all levels.
    let greater = |one: f64, other: f64| if one > other { one } else { other };
    let mut greatest = [0.0; LANES];
    for four in rest.chunks_exact(LANES) {
        (0..LANES).for_each(|lane| greatest[lane] = greater(four[lane].abs(), greatest[lane]));
    }
    let greatest = greatest.into_iter().fold(0.0, greater);
    let mut levels = [0.0; LEVELS];
    let exponent = greatest.to_bits() >> FRACTION_BITS;
    if exponent == 0 && terms.iter().all(|term| *term == 0.0) {
        return Some(levels);
    }
    if !LEVELLED.contains(&exponent) {
        return None;
    }
    // Adding this and subtracting it again rounds to multiples of its last bit.
    let cut_at = |exponent: i32| f64::from_bits((exponent as u64) << FRACTION_BITS) * 1.5;
    let mut exponent = exponent as i32 + 1 - LEVEL_BITS + FRACTION_BITS as i32;
    for pair in levels.chunks_exact_mut(PASS) {
        let cuts = [cut_at(exponent), cut_at(exponent - LEVEL_BITS - 1)];
        let (mut sums, mut left) = ([[0.0; LANES]; PASS], [0u64; LANES]);
        for four in rest.chunks_exact_mut(LANES) {
            for (cut, sums) in cuts.iter().zip(&mut sums) {
                for lane in 0..LANES {
                    let part = (four[lane] + cut) - cut;
                    four[lane] -= part;
                    sums[lane] += part;
                }
            }
            for lane in 0..LANES {
                left[lane] |= four[lane].to_bits() << 1;
            }
        }
        pair.iter_mut().zip(sums).for_each(|(level, sums)| *level = sums.iter().sum());
        if left == [0; LANES] {
            return Some(levels);
        }
        exponent -= PASS as i32 * (LEVEL_BITS + 1);
    }
    None
}

impl Default for ExactSum {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for ExactSum {
    fn eq(&self, other: &Self) -> bool {
        self.magnitude() == other.magnitude()
    }
}

impl Eq for ExactSum {}

impl fmt::Debug for ExactSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExactSum({:e})", self.value())
    }
}

impl Extend<f64> for ExactSum {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, terms: I) {
        terms.into_iter().for_each(|term| self.add(term));
    }
}

impl FromIterator<f64> for ExactSum {
    fn from_iter<I: IntoIterator<Item = f64>>(terms: I) -> Self {
        let mut sum = Self::new();
        sum.extend(terms);
        sum
    }
}

/// Magnitude of a sum in units of the least subnormal: base 2^32, lowest digit first.
#[derive(PartialEq)]
struct Magnitude([u32; CHUNKS]);

impl Magnitude {
    /// Returns the number of the highest bit that is set.
    fn top_bit(&self) -> Option<u32> {
        let chunk = self.0.iter().rposition(|&chunk| chunk != 0)?;
        Some(chunk as u32 * CHUNK_BITS + self.0[chunk].ilog2())
    }

    /// Returns the number of the lowest bit that is set.
    fn lowest_bit(&self) -> Option<u32> {
        let chunk = self.0.iter().position(|&chunk| chunk != 0)?;
        Some(chunk as u32 * CHUNK_BITS + self.0[chunk].trailing_zeros())
    }

    /// Returns up to 64 bits from bit `from` on; zeros beyond the top.
    fn bits(&self, from: u32, count: u32) -> u64 {
        let (first, shift) = ((from / CHUNK_BITS) as usize, from % CHUNK_BITS);
        let three = self.0.iter().skip(first).take(3).enumerate();
        let window = three.fold(0u128, |window, (at, &chunk)| window | u128::from(chunk) << (at * 32));
        (window >> shift) as u64 & (u64::MAX >> (64 - count))
    }

    /// Drops the lowest chunks, dividing by 2^32 for each.
    fn without_last(&self, chunks: usize) -> Self {
        let mut higher = [0; CHUNKS];
        higher[..CHUNKS - chunks].copy_from_slice(&self.0[chunks..]);
        Self(higher)
    }

    /// Returns whether a bit below bit `end` is set.
    fn any_below(&self, end: u32) -> bool {
        self.lowest_bit().is_some_and(|lowest| lowest < end)
    }
}

#[cfg(test)]
mod tests;
