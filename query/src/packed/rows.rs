//! LZ4 of buffers with rows of one width that often repeat an earlier row: views of a few texts, days, nulls. It looks for whole
//! rows only, which takes a fraction of the time of a search for any bytes. Any LZ4 decoder reads the output
//! (<https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>).

use bytemuck::Pod;

/// Maximum distance of a match, in bytes.
const MAX_OFFSET: usize = 65_535;

/// Number of bytes at the end of a block that are in no match.
const LAST_BYTES: usize = 12;

/// Minimum bytes of a match.
const MIN_MATCH: usize = 4;

/// Maximum length in a token; a longer one continues in the bytes that follow.
const MAX_NIBBLE: usize = 15;

/// Number of rows at the beginning from which the number of values is estimated.
const SAMPLE_ROWS: usize = 256;

/// Binary logarithm of the size of the table of last rows, with one row per slot.
const TABLE_BITS: u32 = 12;

/// The multiplier of Fibonacci hashing, 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming, volume 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The unit of the search for matches: a row of 4, 8 or 16 bytes, or some consecutive rows.
pub(super) trait Unit: Pod + Eq {
    /// Returns bits that mostly differ for different values.
    fn bits(self) -> u64;

    /// Returns its slot in a table of 2 to the power of [`TABLE_BITS`] slots.
    fn place(self) -> usize {
        (self.bits().wrapping_mul(GOLDEN) >> (u64::BITS - TABLE_BITS)) as usize
    }
}

impl Unit for u32 {
    fn bits(self) -> u64 {
        u64::from(self)
    }
}

impl Unit for u64 {
    fn bits(self) -> u64 {
        self
    }
}

impl Unit for u128 {
    fn bits(self) -> u64 {
        let (low, high) = (self as u64, (self >> u64::BITS) as u64);
        low ^ high.wrapping_mul(GOLDEN).rotate_left(u64::BITS / 2)
    }
}

impl<T: Unit> Unit for [T; 2] {
    fn bits(self) -> u64 {
        self[0].bits().wrapping_mul(GOLDEN).rotate_left(u64::BITS / 2) ^ self[1].bits()
    }
}

/// Maximum numbers of different values for which four rows, or two rows, mostly repeat four or two near enough before.
const FOUR_OF: usize = 4;
const TWO_OF: usize = 24;

/// Writes a block of LZ4, with a unit of as many rows as the first rows suggest.
pub(super) fn compress<T: Unit>(rows: &[T], to: &mut Vec<u8>) {
    let mut different: Vec<T> = Vec::with_capacity(TWO_OF);
    for row in rows.iter().take(SAMPLE_ROWS) {
        if different.len() <= TWO_OF && !different.contains(row) {
            different.push(*row);
        }
    }
    match different.len() {
        few if few <= FOUR_OF => block::<T, [[T; 2]; 2]>(rows, to),
        few if few <= TWO_OF => block::<T, [T; 2]>(rows, to),
        _ => block::<T, T>(rows, to),
    }
}

fn block<T: Unit, U: Unit>(rows: &[T], to: &mut Vec<u8>) {
    let width = size_of::<U>();
    let most = size_of_val(rows).saturating_sub(LAST_BYTES) / width;
    let (units, rest) = rows.split_at(most * (width / size_of::<T>()));
    let units: &[U] = bytemuck::cast_slice(units);
    let mut last = [u32::MAX; 1 << TABLE_BITS];
    let (mut at, mut literals) = (0, 0);
    while at < units.len() {
        let value = units[at];
        let before = std::mem::replace(&mut last[value.place()], at as u32) as usize;
        let is_match = units.get(before) == Some(&value) && (at - before) * width <= MAX_OFFSET;
        if !is_match {
            at += 1;
            continue;
        }
        let (begin, distance) = (at, at - before);
        at += 1;
        while at < units.len() && units[at] == units[at - distance] {
            // Recording the last one of a run of equal units is enough.
            if distance > 1 {
                last[units[at].place()] = at as u32;
            }
            at += 1;
        }
        if distance == 1 {
            last[value.place()] = at as u32 - 1;
        }
        let literal: &[u8] = bytemuck::cast_slice(&units[literals..begin]);
        sequence(literal, Some((distance * width, (at - begin) * width)), to);
        literals = at;
    }
    let literal = [bytemuck::cast_slice::<U, u8>(&units[literals..]), bytemuck::cast_slice(rest)].concat();
    sequence(&literal, None, to);
}

/// Writes literal bytes, and a match behind them: its distance and its length in bytes.
fn sequence(literals: &[u8], matched: Option<(usize, usize)>, to: &mut Vec<u8>) {
    let more = matched.map_or(0, |(_, length)| length - MIN_MATCH);
    let token = (literals.len().min(MAX_NIBBLE) << 4 | more.min(MAX_NIBBLE)) as u8;
    let offset = matched.map(|(offset, _)| (offset as u16).to_le_bytes());
    if let ([], Some([low, high])) = (literals, offset) {
        to.extend_from_slice(&[token, low, high]);
    } else {
        to.push(token);
        length(literals.len(), to);
        to.extend_from_slice(literals);
        to.extend(offset.into_iter().flatten());
    }
    length(more, to);
}

/// Writes the part of a length that the token does not hold.
fn length(length: usize, to: &mut Vec<u8>) {
    if let Some(mut more) = length.checked_sub(MAX_NIBBLE) {
        while more >= usize::from(u8::MAX) {
            to.push(u8::MAX);
            more -= usize::from(u8::MAX);
        }
        to.push(more as u8);
    }
}

#[cfg(test)]
mod tests {
    use lz4::block::decompress;
    use proptest::prelude::*;

    use super::*;

    fn again<T: Unit>(rows: &[T]) -> Vec<u8> {
        let mut block = Vec::new();
        compress(rows, &mut block);
        decompress(&block, Some(size_of_val(rows) as i32)).unwrap()
    }

    /// Generates rows of runs of a few values or of many.
    fn rows() -> impl Strategy<Value = Vec<u32>> {
        let run = (0_u32..2_000, 1_u32..4, 1_usize..60);
        let runs = prop::collection::vec(run, 0..120);
        runs.prop_map(|runs| {
            let of = |(from, many, length): (u32, u32, usize)| {
                (0..length as u32).map(move |row| (from + row % many).wrapping_mul(0x0101_0301))
            };
            runs.into_iter().flat_map(of).collect()
        })
    }

    proptest! {
        #[test]
        fn lz4_reads_rows_of_each_width(rows in rows()) {
            let eight: Vec<u64> = rows.iter().map(|row| u64::from(*row) << 20).collect();
            let sixteen: Vec<u128> = rows.iter().map(|row| u128::from(*row) * 0x1_0000_0001_0000_0001).collect();
            prop_assert!(again(&rows) == bytemuck::cast_slice::<_, u8>(&rows));
            prop_assert!(again(&eight) == bytemuck::cast_slice::<_, u8>(&eight));
            prop_assert!(again(&sixteen) == bytemuck::cast_slice::<_, u8>(&sixteen));
        }
    }

    #[test]
    fn repeated_rows_compress_to_few_bytes() {
        let same = vec![7_u128; 16_384];
        let few: Vec<u128> = (0..16_384_u128).map(|row| row * row % 12).collect();
        // The second half repeats rows that are too far back.
        let far: Vec<u128> = (0..8_192_u128).map(|row| row % 4_100).collect();
        for (rows, most) in [(&same, 1_200), (&few, 4 * few.len()), (&far, 17 * far.len())] {
            let mut block = Vec::new();
            compress(rows, &mut block);
            assert!(block.len() < most, "{}", block.len());
            assert!(again(rows) == bytemuck::cast_slice::<_, u8>(rows));
        }
        assert_eq!(again::<u64>(&[]), [0_u8; 0]);
    }
}
