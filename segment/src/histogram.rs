//! Counts of bytes, and the result of an order-0 entropy coder. The encoder estimates with it before using zstd,
//! because that is ten times cheaper.

/// Counts of each byte value in some bytes.
pub(super) struct Histogram {
    counts: [u32; 256],
    bytes: usize,
    distinct: usize,
    entropy_bits: f32,
}

impl Histogram {
    pub(super) fn of(bytes: &[u8]) -> Self {
        // Four tables, so that a run of equal bytes does not wait for its own counter.
        let mut tables = [[0u32; 256]; 4];
        let (quads, tail) = bytes.as_chunks::<4>();
        for quad in quads {
            for (table, &byte) in tables.iter_mut().zip(quad) {
                table[byte as usize] += 1;
            }
        }
        for &byte in tail {
            tables[0][byte as usize] += 1;
        }
        let [a, b, c, d] = &tables;
        Self::from_counts(std::array::from_fn(|value| a[value] + b[value] + c[value] + d[value]))
    }

    /// Returns the histogram of both inputs together.
    pub(super) fn merged(&self, other: &Self) -> Self {
        Self::from_counts(std::array::from_fn(|value| self.counts[value] + other.counts[value]))
    }

    fn from_counts(counts: [u32; 256]) -> Self {
        let bytes = counts.iter().sum::<u32>();
        let distinct = counts.iter().map(|&count| u32::from(count > 0)).sum::<u32>();
        // Eight parallel sums, which the compiler turns into vector instructions.
        let mut sums = [0f32; 8];
        for lanes in counts.as_chunks::<8>().0 {
            for (sum, &count) in sums.iter_mut().zip(lanes) {
                *sum += count as f32 * log2(count);
            }
        }
        let entropy_bits = (bytes as f32 * log2(bytes) - sums.iter().sum::<f32>()).max(0.0);
        Self { counts, bytes: bytes as usize, distinct: distinct as usize, entropy_bits }
    }

    /// Returns the number of counted bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of different byte values.
    pub(super) fn distinct(&self) -> usize {
        self.distinct
    }

    /// Returns the entropy of all bytes together, in bits.
    pub(super) fn entropy_bits(&self) -> f32 {
        self.entropy_bits
    }
}

/// Returns the base-2 logarithm within 0.01, and some finite number for 0. Plain arithmetic, the same on every
/// machine (unlike a library logarithm), so equal columns give equal segments everywhere.
fn log2(value: u32) -> f32 {
    let bits = (value as f32).to_bits();
    let exponent = (bits >> 23) as i32 - 127;
    let rest = f32::from_bits(bits & 0x007f_ffff | 0x3f80_0000) - 1.0;
    exponent as f32 + rest + 0.343 * rest * (1.0 - rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log2_is_close_enough() {
        for value in (1..100_000).step_by(7) {
            assert!((log2(value) - (value as f32).log2()).abs() < 0.01, "{value}");
        }
        assert!(log2(0).is_finite());
    }

    #[test]
    fn entropy_of_known_distributions() {
        assert_eq!(Histogram::of(&[7; 1000]).entropy_bits(), 0.0);
        let two: Vec<u8> = (0..1000u32).map(|i| (i % 2) as u8).collect();
        assert!((Histogram::of(&two).entropy_bits() - 1000.0).abs() < 20.0);
        let all: Vec<u8> = (0..=255).cycle().take(2560).collect();
        assert!((Histogram::of(&all).entropy_bits() / 2560.0 - 8.0).abs() < 0.02);
        assert_eq!(Histogram::of(&all).distinct(), 256);
        assert_eq!(Histogram::of(&two).merged(&Histogram::of(&all)).bytes(), 3560);
    }
}
