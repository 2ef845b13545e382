//! A quantile sketch: a histogram whose bins grow with the size of the numbers, so that a quantile is
//! known within a relative error.
//!
//! A bin is a power of two cut into equal parts, so its number is a shift of the bits of a double and
//! no logarithm is taken (log-linear bins, as in HdrHistogram and in Hartmann and Schlossnagle,
//! "Circllhist", 2020, <https://arxiv.org/abs/2001.06561>). When there are more bins than fit, all
//! are merged in pairs (the uniform collapse of Epicoco et al., "UDDSketch", 2020,
//! <https://arxiv.org/abs/2004.08604>). How often that happens depends on the set of bins alone: so
//! any grouping and order of the numbers gives the same sketch.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::rollup::Merge;

/// A power of two has at most two to this power bins: a quantile is then known within 1/128, 0.8%.
pub const FINEST_BITS: u32 = 6;

/// How many low bits of a double the finest bins leave out.
const FINEST_SHIFT: u32 = 52 - FINEST_BITS;

/// All bits but the sign: with so many left out there are two bins, below zero and not.
const COARSEST_SHIFT: u32 = 63;

/// How many numbers fell in which bin, in at most `MAX` bins.
///
/// Its text is an array: how many low bits are left out, the first bin, its count, then in turn by how
/// much the next bin's number is greater, and its count. Empty, it is `[]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch<const MAX: usize> {
    shift: u32,
    /// By bin, in order: `bits >> shift` of a number without the sign bit, and `-1 - (bits >> shift)` of the
    /// size of a number with it.
    bins: Vec<(i64, u64)>,
}

/// The finest bin of a finite number.
#[inline]
pub(crate) fn bin(number: f64) -> i64 {
    let bits = number.to_bits() as i64;
    let size = (bits & i64::MAX) >> FINEST_SHIFT;
    // -1 - size for a number with the sign bit.
    size ^ (bits >> 63)
}

/// Adds a bin after all others of a sorted list, or to the last one if it is the same.
fn push(bins: &mut Vec<(i64, u64)>, bin: i64, n: u64) {
    match bins.last_mut() {
        Some((last, known)) if *last == bin => *known = known.saturating_add(n),
        _ => bins.push((bin, n)),
    }
}

impl<const MAX: usize> Sketch<MAX> {
    /// The most bytes of its text: a step and a count a bin, each with a comma.
    pub const MAX_TEXT: usize = 32 + MAX * (18 + 1 + 20 + 1);

    /// Whether it knows no number.
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    /// How many numbers it knows.
    pub fn n(&self) -> u64 {
        self.bins.iter().fold(0, |n, (_, more)| n.saturating_add(*more))
    }

    /// Counts in the finest bins, in order.
    pub(crate) fn of(bins: impl IntoIterator<Item = (i64, u64)>) -> Self {
        let mut sketch = Self { shift: FINEST_SHIFT, bins: bins.into_iter().collect() };
        debug_assert!(sketch.bins.is_sorted_by(|a, b| a.0 < b.0));
        sketch.collapse();
        sketch
    }

    fn collapse(&mut self) {
        while self.bins.len() > MAX {
            self.coarsen(1);
        }
    }

    /// Merges bins: two by two, or more for more bits. An arithmetic shift serves both signs: -1 - size
    /// becomes -1 - size / 2.
    fn coarsen(&mut self, bits: u32) {
        self.shift += bits;
        let mut merged = Vec::with_capacity(self.bins.len());
        self.bins.iter().for_each(|&(bin, n)| push(&mut merged, bin >> bits, n));
        self.bins = merged;
    }

    /// The relative error of a quantile, unless it is near zero; 1/128 unless bins were merged.
    pub fn relative_error(&self) -> f64 {
        let parts = f64::from(52u32.saturating_sub(self.shift).min(FINEST_BITS));
        0.5 / parts.exp2()
    }

    /// The number below which the share `q` of the numbers lies, `q` in [0, 1]: within its bin, which
    /// is where the number of rank q (n - 1) is, the numbers are taken to be evenly spread. `None`
    /// when it knows no number.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let n = self.n();
        let rank = q.clamp(0.0, 1.0) * n.saturating_sub(1) as f64;
        let mut before = 0u64;
        for &(bin, count) in &self.bins {
            if rank < before.saturating_add(count) as f64 {
                let (from, to) = self.bounds(bin);
                let within = (rank - before as f64 + 0.5) / count as f64;
                return Some(from + (to - from) * within.min(1.0));
            }
            before = before.saturating_add(count);
        }
        None
    }

    /// The least and the greatest number of a bin.
    fn bounds(&self, bin: i64) -> (f64, f64) {
        let size = if bin < 0 { -1 - bin } else { bin } as u64;
        let edge = |size: u64| {
            let bits = u128::from(size) << self.shift;
            // The bin after the last one begins at infinity, or beyond it.
            if bits < u128::from(f64::INFINITY.to_bits()) { f64::from_bits(bits as u64) } else { f64::MAX }
        };
        let (least, greatest) = (edge(size), edge(size + 1));
        if bin < 0 { (-greatest, -least) } else { (least, greatest) }
    }
}

impl<const MAX: usize> Default for Sketch<MAX> {
    fn default() -> Self {
        Self { shift: FINEST_SHIFT, bins: Vec::new() }
    }
}

impl<const MAX: usize> Merge for Sketch<MAX> {
    fn merge(&mut self, other: &Self) {
        if self.shift < other.shift {
            self.coarsen(other.shift - self.shift);
        }
        let more = self.shift - other.shift;
        let mut bins = Vec::with_capacity(self.bins.len() + other.bins.len());
        let mut rest = other.bins.iter().map(|&(bin, n)| (bin >> more, n)).peekable();
        for &(bin, n) in &self.bins {
            while let Some((before, n)) = rest.next_if(|(other, _)| *other < bin) {
                push(&mut bins, before, n);
            }
            push(&mut bins, bin, n);
            while let Some((_, n)) = rest.next_if(|(other, _)| *other == bin) {
                push(&mut bins, bin, n);
            }
        }
        rest.for_each(|(bin, n)| push(&mut bins, bin, n));
        self.bins = bins;
        self.collapse();
    }
}

impl<const MAX: usize> Serialize for Sketch<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut flat: Vec<i128> = Vec::with_capacity(self.bins.len() * 2 + 1);
        if !self.bins.is_empty() {
            flat.push(i128::from(self.shift));
        }
        let mut last = 0;
        for &(bin, n) in &self.bins {
            flat.extend([i128::from(bin - last), i128::from(n)]);
            last = bin;
        }
        flat.serialize(serializer)
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Sketch<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat = Vec::<i128>::deserialize(deserializer)?;
        read(&flat).ok_or_else(|| de::Error::custom("an array is not the text of a sketch"))
    }
}

fn read<const MAX: usize>(flat: &[i128]) -> Option<Sketch<MAX>> {
    let Some((&shift, pairs)) = flat.split_first() else { return Some(Sketch::default()) };
    let shift = u32::try_from(shift).ok().filter(|shift| (FINEST_SHIFT..=COARSEST_SHIFT).contains(shift))?;
    let range = 1i64 << (COARSEST_SHIFT - shift);
    let (mut bins, mut bin) = (Vec::<(i64, u64)>::new(), 0i64);
    for pair in pairs.chunks(2) {
        let &[step, n] = pair else { return None };
        bin = i64::try_from(i128::from(bin) + step).ok().filter(|bin| (-range..range).contains(bin))?;
        let is_next = bins.last().is_none_or(|(last, _)| *last < bin);
        bins.push((bin, u64::try_from(n).ok().filter(|&n| n > 0 && is_next)?));
    }
    (!bins.is_empty() && bins.len() <= MAX).then_some(Sketch { shift, bins })
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn sketch<const MAX: usize>(numbers: &[f64]) -> Sketch<MAX> {
        let mut sketch = Sketch::default();
        numbers.iter().for_each(|&number| sketch.merge(&Sketch::of([(bin(number), 1)])));
        sketch
    }

    #[test]
    fn bins_are_ordered_as_numbers() {
        let numbers = [-f64::MAX, -2.0, -1.5, -1e-300, -0.0, 0.0, 5e-324, 1e-3, 0.5, 0.75, 1.0, f64::MAX];
        let bins: Vec<i64> = numbers.iter().map(|&number| bin(number)).collect();
        assert!(bins.is_sorted());
        assert_eq!((bin(-0.0), bin(0.0), bin(5e-324)), (-1, 0, 0));
    }

    #[test]
    fn the_text_is_golden() {
        let few: Sketch<8> = sketch(&[1.0, 1.0, -2.0, 0.0]);
        let text = serde_json::to_string(&few).unwrap();
        assert_eq!(text, "[46,-65537,1,65537,1,65472,2]");
        assert_eq!(serde_json::from_str::<Sketch<8>>(&text).unwrap(), few);
        assert_eq!(serde_json::to_string(&Sketch::<8>::default()).unwrap(), "[]");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "[46]",
            "[46,1]",
            "[45,1,1]",
            "[64,0,1]",
            "[46,1,0]",
            "[46,1,-1]",
            "[46,1,1,0,1]",
            "[46,1,1,-1,1]",
            "[46,131072,1]",
            "[46,-131073,1]",
            "[46,1,1,1,1,1,1]",
            "[63,1,1]",
            "[46,1,18446744073709551616]",
            "{}",
        ] {
            assert!(serde_json::from_str::<Sketch<2>>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Sketch<2>>("[63,-1,1,1,1]").is_ok());
    }

    #[test]
    fn any_numbers_fit_the_least_number_of_bins() {
        let numbers: Vec<f64> =
            (0..2000).map(|n| 2f64.powi(n - 1000) * if n % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let two: Sketch<2> = sketch(&numbers);
        assert_eq!(two.n(), 2000);
        assert!(two.quantile(0.0).unwrap() < 0.0 && two.quantile(1.0).unwrap() > 0.0);
        assert!(serde_json::to_string(&two).unwrap().len() <= Sketch::<2>::MAX_TEXT);
    }

    #[test]
    fn quantiles_of_ten_thousand_scores() {
        let scores: Vec<f64> = (0..10_000).map(|n| f64::from(n) / 10_000.0).collect();
        let fine: Sketch<2000> = sketch(&scores);
        assert_eq!(fine.relative_error(), 1.0 / 128.0);
        for q in [0.01, 0.1, 0.5, 0.9, 0.99] {
            assert!((fine.quantile(q).unwrap() / q - 1.0).abs() <= 1.0 / 128.0, "{q}");
        }
        let coarse: Sketch<160> = sketch(&scores);
        let error = coarse.relative_error();
        assert_eq!(error, 1.0 / 16.0);
        for q in [0.01, 0.1, 0.5, 0.9, 0.99] {
            assert!((coarse.quantile(q).unwrap() / q - 1.0).abs() <= error, "{q}");
        }
        assert_eq!(Sketch::<8>::default().quantile(0.5), None);
    }

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![0.0..1.0f64, -1e9..1e9f64, proptest::num::f64::NORMAL | proptest::num::f64::ZERO]
    }

    proptest! {
        #[test]
        fn any_grouping_and_order_gives_the_same_sketch(
            (numbers, shuffled) in vec(number(), 0..200)
                .prop_flat_map(|numbers| (Just(numbers.clone()), Just(numbers).prop_shuffle())),
            (first, second) in (0usize..200, 0usize..200),
        ) {
            let whole: Sketch<16> = sketch(&numbers);
            let (low, high) = (first.min(second).min(shuffled.len()), first.max(second).min(shuffled.len()));
            let parts = [&shuffled[..low], &shuffled[low..high], &shuffled[high..]].map(sketch::<16>);
            let mut left = parts[0].clone();
            left.merge(&parts[1]);
            left.merge(&parts[2]);
            let mut right = parts[2].clone();
            right.merge(&parts[1]);
            let mut other = parts[0].clone();
            other.merge(&right);
            prop_assert_eq!(&left, &whole);
            prop_assert_eq!(&other, &whole);
            let text = serde_json::to_string(&whole).unwrap();
            prop_assert_eq!(serde_json::from_str::<Sketch<16>>(&text).unwrap(), whole);
        }

        #[test]
        fn a_quantile_is_in_the_bin_of_its_number(numbers in vec(number(), 1..100), q in 0.0..=1.0f64) {
            let sketch: Sketch<32> = sketch(&numbers);
            let mut sorted = numbers;
            sorted.sort_by(f64::total_cmp);
            let exact = sorted[(q * (sorted.len() - 1) as f64).floor() as usize];
            let (from, to) = sketch.bounds(bin(exact) >> (sketch.shift - FINEST_SHIFT));
            let found = sketch.quantile(q).unwrap();
            prop_assert!(from <= found && found <= to, "{} is not in [{}, {}]", found, from, to);
        }
    }
}
