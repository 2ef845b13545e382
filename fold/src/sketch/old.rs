//! What older versions stored of where numbers lie. The days that it is of may have expired, so it is read for
//! good; a day whose events are there is folded again.

use super::{
    Beside, Run,
    near::{merged, push, walked},
};

/// How many equal bins of [0, 1] scores by tag were counted in.
const TWENTIETHS: i64 = 20;

/// The first shift of version 2, whose cells are 64 equal parts of a power of two.
const FINEST_SHIFT: u32 = 46;

/// Up to this shift the first cell on each side of zero holds zeros alone, and numbers so small that few
/// machines compute with them.
const ZERO_SHIFT: u32 = 52;

/// How many low bits the coarsest cells leave out: all but the sign.
const COARSEST_SHIFT: u32 = 63;

/// Cells of version 2: either so many low bits of doubles left out, or twentieths of [0, 1] (shift 0).
///
/// Its text is an array: the shift, the first cell, its count, then in turn by how much the next cell's
/// number is greater, and its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OldCells {
    shift: u32,
    cells: Vec<(i64, u64)>,
}

/// The number with these bits, or the greatest one.
fn finite(bits: u64) -> f64 {
    if bits < f64::INFINITY.to_bits() { f64::from_bits(bits) } else { f64::MAX }
}

impl OldCells {
    /// Merges cells until the text takes at most so many bytes. Twentieths always do.
    pub(super) fn fit(&mut self, bytes: usize) {
        while self.shift > 0 && self.shift < COARSEST_SHIFT && self.text_bytes() > bytes {
            *self = Self { shift: self.shift + 1, cells: self.at_shift(self.shift + 1) };
        }
    }

    fn text_bytes(&self) -> usize {
        self.to_array().iter().map(|number| number.to_string().len() + 1).sum::<usize>() + 1
    }

    pub(super) fn n(&self) -> u64 {
        self.cells.iter().fold(0, |n, (_, more)| n.saturating_add(*more))
    }

    pub(super) fn width(&self) -> f64 {
        match self.shift {
            0 => 1.0 / TWENTIETHS as f64,
            shift => (f64::from(shift) - 52.0).exp2(),
        }
    }

    /// Whether the other's numbers could be added.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        if (self.shift == 0) != (other.shift == 0) {
            return false;
        }
        let shift = self.shift.max(other.shift);
        self.cells = merged(&self.at_shift(shift), &other.at_shift(shift));
        self.shift = shift;
        true
    }

    /// The cells of both, as wide as those of the coarser one; `None` when one has twentieths and the other one has not.
    pub(super) fn beside(&self, other: &Self) -> Option<Vec<Beside>> {
        if (self.shift == 0) != (other.shift == 0) {
            return None;
        }
        let shift = self.shift.max(other.shift);
        let at_shift = Self { shift, cells: Vec::new() };
        let mut cells = Vec::new();
        walked(&self.at_shift(shift), &other.at_shift(shift), |cell, n| {
            let (least, greatest) = at_shift.bounds(cell);
            cells.push(Beside { least, greatest, n });
        });
        Some(cells)
    }

    fn at_shift(&self, shift: u32) -> Vec<(i64, u64)> {
        let mut coarse = Vec::with_capacity(self.cells.len());
        self.cells.iter().for_each(|&(cell, n)| push(&mut coarse, cell >> (shift - self.shift), n));
        coarse
    }

    pub(super) fn runs(&self) -> Vec<Run> {
        let run = |&(cell, n): &(i64, u64)| {
            let (least, greatest) = self.bounds(cell);
            Run { least, greatest, n }
        };
        self.cells.iter().map(run).collect()
    }

    fn bounds(&self, cell: i64) -> (f64, f64) {
        if self.shift == 0 {
            let edge = |cell: i64| cell as f64 / TWENTIETHS as f64;
            return (edge(cell), edge(cell + 1));
        }
        if self.shift <= ZERO_SHIFT && (cell == 0 || cell == -1) {
            return (0.0, 0.0);
        }
        let edge = |size: u128| finite(u64::try_from(size << self.shift).unwrap_or(u64::MAX));
        let size = if cell < 0 { !cell } else { cell } as u128;
        let (least, greatest) = (edge(size), edge(size + 1));
        if cell < 0 { (-greatest, -least) } else { (least, greatest) }
    }

    pub(super) fn to_array(&self) -> Vec<i128> {
        let mut array = vec![i128::from(self.shift)];
        let mut last = 0;
        for &(cell, n) in &self.cells {
            array.extend([i128::from(cell - last), i128::from(n)]);
            last = cell;
        }
        array
    }

    pub(super) fn read(array: &[i128]) -> Option<Self> {
        let (&shift, pairs) = array.split_first()?;
        let shift = u32::try_from(shift).ok()?;
        let range = match shift {
            0 => 0..TWENTIETHS,
            FINEST_SHIFT..=COARSEST_SHIFT => {
                let range = 1i64 << (COARSEST_SHIFT - shift);
                -range..range
            }
            _ => return None,
        };
        let (mut cells, mut cell) = (Vec::<(i64, u64)>::new(), 0i64);
        for pair in pairs.chunks(2) {
            let &[step, n] = pair else { return None };
            cell = i64::try_from(i128::from(cell).checked_add(step)?)
                .ok()
                .filter(|cell| range.contains(cell))?;
            let is_next = cells.last().is_none_or(|(last, _)| *last < cell);
            cells.push((cell, u64::try_from(n).ok().filter(|&n| n > 0 && is_next)?));
        }
        (!cells.is_empty()).then_some(Self { shift, cells })
    }
}
