//! Numbers in cells, at the least level that fits.

use super::{
    Beside, Run,
    axis::{edge, number, ordered, place},
    text,
};

/// Level at which at most two cells are left: the negative numbers, and the rest.
pub(super) const COARSEST: u32 = 63;

/// Bits of the span of the cells from level 1 on: the last cell is less than two to this power after the first one.
/// So numbers can be counted in an array, without sorting.
const SPAN_BITS: u32 = 12;

/// Cells of the current version.
#[derive(Clone, Debug, Default, Eq)]
pub(super) struct Near {
    pub(super) level: u32,
    pub(super) zeros: u64,
    /// Counts by cell, in order: a cell is the ordered bits of a number at level 0, above it its [`place`] without
    /// the low bits.
    pub(super) cells: Vec<(i64, u64)>,
    /// Estimated bytes of its text.
    pub(super) bytes: usize,
}

/// Compares all but the bytes, which follow from the rest.
impl PartialEq for Near {
    fn eq(&self, other: &Self) -> bool {
        (self.level, self.zeros, &self.cells) == (other.level, other.zeros, &other.cells)
    }
}

/// Appends a cell to a sorted list, or adds to the last one if it is the same.
pub(super) fn push(cells: &mut Vec<(i64, u64)>, cell: i64, n: u64) {
    match cells.last_mut() {
        Some((last, known)) if *last == cell => *known = known.saturating_add(n),
        _ => cells.push((cell, n)),
    }
}

/// Walks over two sorted lists of cells: each cell, with its counts in the one and in the other.
pub(super) fn walked(one: &[(i64, u64)], other: &[(i64, u64)], mut each: impl FnMut(i64, [u64; 2])) {
    let (mut a, mut b) = (0, 0);
    while a < one.len() && b < other.len() {
        let (left, right) = (one[a], other[b]);
        let n = if left.0 <= right.0 { left.1 } else { 0 };
        let more = if right.0 <= left.0 { right.1 } else { 0 };
        a += usize::from(left.0 <= right.0);
        b += usize::from(right.0 <= left.0);
        each(left.0.min(right.0), [n, more]);
    }
    one[a..].iter().for_each(|(cell, n)| each(*cell, [*n, 0]));
    other[b..].iter().for_each(|(cell, n)| each(*cell, [0, *n]));
}

/// Merges two sorted lists of cells.
pub(super) fn merged(one: &[(i64, u64)], other: &[(i64, u64)]) -> Vec<(i64, u64)> {
    let mut cells = Vec::with_capacity(one.len() + other.len());
    walked(one, other, |cell, [n, more]| cells.push((cell, n.saturating_add(more))));
    cells
}

impl Near {
    pub(super) fn n(&self) -> u64 {
        self.cells.iter().fold(self.zeros, |n, (_, more)| n.saturating_add(*more))
    }

    /// Returns the cells at a coarser level.
    pub(super) fn at_level(&self, level: u32) -> Vec<(i64, u64)> {
        let mut cells = Vec::with_capacity(self.cells.len());
        for &(cell, n) in &self.cells {
            let cell = match self.level {
                0 => place(number(cell)) >> (level - 1),
                known => cell >> (level - known),
            };
            push(&mut cells, cell, n);
        }
        cells
    }

    pub(super) fn coarsen(&mut self, level: u32) {
        if level > self.level {
            self.cells = self.at_level(level);
            self.level = level;
        }
    }

    /// Goes to the least level that fits: the text has at most `bytes` bytes, and above level 0 the cells do not
    /// exceed the maximum span; at least to level `floor`.
    pub(super) fn fit(&mut self, bytes: usize, floor: u32) {
        self.coarsen(floor);
        let is_too_wide = self.level > 0 && !self.spans(self.level);
        self.bytes = if is_too_wide { usize::MAX } else { text::bytes(self.zeros, &self.cells, bytes) };
        if self.bytes <= bytes {
            return;
        }
        let mut level = self.level + 1;
        while level < COARSEST && !self.spans(level) {
            level += 1;
        }
        while self.bytes > bytes && level <= COARSEST {
            self.coarsen(level);
            self.bytes = text::bytes(self.zeros, &self.cells, bytes);
            level += 1;
        }
    }

    /// Returns whether the cells are within the maximum span at a level from 1 on.
    pub(super) fn spans(&self, level: u32) -> bool {
        let at = |cell: i64| match self.level {
            0 => place(number(cell)) >> (level - 1),
            known => cell >> (level - known),
        };
        let ends = self.cells.first().zip(self.cells.last());
        ends.is_none_or(|(first, last)| at(last.0) - at(first.0) < 1 << SPAN_BITS)
    }

    /// Counts all numbers, each by itself.
    pub(super) fn exact(numbers: &[f64]) -> Self {
        let mut bits: Vec<i64> =
            numbers.iter().filter(|number| **number != 0.0).map(|x| ordered(*x)).collect();
        bits.sort_unstable();
        let mut cells = Vec::new();
        bits.chunk_by(|a, b| a == b).for_each(|same| cells.push((same[0], same.len() as u64)));
        Self { level: 0, zeros: (numbers.len() - bits.len()) as u64, cells, bytes: 0 }
    }

    /// Counts numbers that do not fit at level 0, at a level at which they may: in an array, without sorting.
    pub(super) fn counted(numbers: &[f64]) -> Self {
        let places: Vec<i64> = numbers.iter().filter(|number| **number != 0.0).map(|x| place(*x)).collect();
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        for &place in &places {
            (least, greatest) = (least.min(place), greatest.max(place));
        }
        let mut shift = 0;
        while (greatest >> shift) - (least >> shift) >= 1 << SPAN_BITS {
            shift += 1;
        }
        let first = least >> shift;
        let mut counts = [0u32; 1 << SPAN_BITS];
        places.iter().for_each(|place| counts[((place >> shift) - first) as usize % (1 << SPAN_BITS)] += 1);
        let cells = (first..).zip(&counts).filter(|(_, n)| **n > 0).map(|(cell, n)| (cell, u64::from(*n)));
        Self {
            level: shift + 1,
            zeros: (numbers.len() - places.len()) as u64,
            cells: cells.collect(),
            bytes: 0,
        }
    }

    /// Returns the least and the greatest number of a cell.
    pub(super) fn bounds(&self, cell: i64) -> (f64, f64) {
        match (self.level, cell < 0) {
            (0, _) => (number(cell), number(cell)),
            (level, false) => (edge((cell as u128) << (level - 1)), edge((cell as u128 + 1) << (level - 1))),
            (level, true) => {
                let size = !cell as u128;
                (-edge((size + 1) << (level - 1)), -edge(size << (level - 1)))
            }
        }
    }

    /// Returns the cells of both, at the level of the coarser one.
    pub(super) fn beside(&self, other: &Self) -> Vec<Beside> {
        let level = self.level.max(other.level);
        let at = |near: &Self| if near.level == level { near.cells.clone() } else { near.at_level(level) };
        let (this, other_cells) = (at(self), at(other));
        let at_level = Self { level, ..Self::default() };
        let mut cells = Vec::with_capacity(this.len() + other_cells.len() + 1);
        let mut zero_at = 0;
        walked(&this, &other_cells, |cell, n| {
            let (least, greatest) = at_level.bounds(cell);
            zero_at += usize::from(cell < 0);
            cells.push(Beside { least, greatest, n });
        });
        let zeros = [self.zeros, other.zeros];
        if zeros != [0; 2] {
            cells.insert(zero_at, Beside { least: 0.0, greatest: 0.0, n: zeros });
        }
        cells
    }

    pub(super) fn runs(&self) -> Vec<Run> {
        let run = |&(cell, n): &(i64, u64)| {
            let (least, greatest) = self.bounds(cell);
            Run { least, greatest, n }
        };
        let at = self.cells.partition_point(|(cell, _)| *cell < 0);
        let mut runs: Vec<Run> = self.cells.iter().map(run).collect();
        if self.zeros > 0 {
            runs.insert(at, Run { least: 0.0, greatest: 0.0, n: self.zeros });
        }
        runs
    }
}

/// Cells of the numbers of a column at a level, to be counted by group repeatedly.
pub(crate) struct Floored {
    /// Number of the first cell.
    pub(super) first: i64,
    /// Number of cells from the first to the last.
    pub(super) width: u32,
    /// Cell of each row: 0 for zero, else counted from the first as 1.
    pub(super) cells: Vec<u32>,
}

impl Floored {
    /// Takes a column; the cells of nulls are meaningless.
    pub(crate) fn new(numbers: &[f64], level: u32) -> Self {
        let places: Vec<i64> = numbers.iter().map(|x| place(*x) >> (level - 1)).collect();
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        for (place, number) in places.iter().zip(numbers) {
            if *number != 0.0 {
                (first, last) = (first.min(*place), last.max(*place));
            }
        }
        let (first, width) = if first <= last { (first, (last - first) as u32 + 1) } else { (0, 0) };
        let cell =
            |(place, number): (&i64, &f64)| if *number == 0.0 { 0 } else { (place - first) as u32 + 1 };
        Self { first, width, cells: places.iter().zip(numbers).map(cell).collect() }
    }
}
