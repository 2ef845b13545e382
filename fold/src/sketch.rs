//! A quantile sketch: counts of numbers by cell, in a bounded number of bytes.
//!
//! As long as they fit, each distinct number is a cell of its own and quantiles are exact. After that, cells are
//! equal steps of the bits of a double: a power of two is cut into equal cells. Between 1/2 and 1 the distance from 1
//! is cut so, because probabilities crowd there. With every four powers of two away from there the cells become twice
//! as wide, so that tails do not take them all (`axis`). If cells do not fit, all are merged in pairs until they do
//! (the uniform collapse of Epicoco et al., "UDDSketch", 2020, <https://arxiv.org/abs/2004.08604>). Zero always has a
//! cell of its own.
//!
//! **The same bytes in any grouping.** The [`level`](Sketch::level), the number of times that pairs were merged, is
//! the least at which the text and the span of the cells fit. More numbers never make either of them less: so if a
//! part does not fit at a level the whole does not either, and the level is a function of the numbers alone.
//!
//! **Accuracy of a quantile.** Counts of cells are exact, so the ranks that enclose a reported number are certain:
//! [`Quantile`] carries them. No bound in rank can be guaranteed beforehand: if a summary of bounded size, the same
//! in any grouping, does not distinguish `x` from `y` in some set, it does not distinguish a million more of `x` from
//! as many of `y`. So numbers that crowd within a cell are known by their cell only, and the ranks show that. The
//! width of a cell is guaranteed beforehand ([`Sketch::width`]).

mod axis;
mod near;
mod text;

pub(crate) use self::near::Floored;
use self::near::{Near, merged};
use crate::rollup::bounded::{Cell, Merge};

/// Number of numbers below which sorting costs less than an array.
const FEW: usize = 1024;

/// Counts of numbers by cell, in at most `BYTES` bytes of text, at a level of at least `FLOOR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch<const BYTES: usize, const FLOOR: u32 = 0> {
    near: Near,
}

/// A quantile with the ranks that enclose it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// The number.
    pub value: f64,
    /// Rank, as a share of all in [0, 1], whose number is certainly not greater.
    pub from: f64,
    /// Rank whose number is certainly not less.
    pub to: f64,
}

/// Numbers of two sketches in a cell of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    /// Lower bound of the numbers of the cell.
    pub least: f64,
    /// Upper bound. Equal to the lower bound if the cell has one number only.
    pub greatest: f64,
    /// Number of numbers in the one and in the other.
    pub n: [u64; 2],
}

/// Equal numbers, or numbers of one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    least: f64,
    greatest: f64,
    n: u64,
}

impl<const BYTES: usize, const FLOOR: u32> Sketch<BYTES, FLOOR> {
    /// Maximum number of bytes of its text.
    pub const MAX_TEXT: usize = BYTES;

    /// Returns whether it has no numbers.
    pub fn is_empty(&self) -> bool {
        self.near.zeros == 0 && self.near.cells.is_empty()
    }

    /// Returns the number of numbers.
    pub fn n(&self) -> u64 {
        self.near.n()
    }

    /// Creates the sketch of these numbers, all of them finite.
    pub(crate) fn of(numbers: &[f64]) -> Self {
        let mut near = if FLOOR > 0 || numbers.len() <= FEW {
            Near::exact(numbers)
        } else {
            // If some do not fit, all do not fit.
            let some = Near::exact(&numbers[..FEW.min(BYTES / 8)]);
            match text::bytes(some.zeros, &some.cells, BYTES) > BYTES {
                true => Near::counted(numbers),
                false => Near::exact(numbers),
            }
        };
        near.fit(BYTES, FLOOR);
        Self { near }
    }

    /// Creates the sketches of groups of a column: `rows` are numbers of rows, with the codes of their groups.
    pub(crate) fn of_groups(
        groups: usize,
        floored: &Floored,
        rows: impl Iterator<Item = (usize, u32)>,
    ) -> Vec<Self> {
        let width = floored.width as usize + 1;
        let mut counts = vec![0u32; groups * width];
        rows.for_each(|(row, group)| counts[group as usize * width + floored.cells[row] as usize] += 1);
        let of_group = |counts: &[u32]| {
            let (zeros, counts) = counts.split_first().unwrap_or((&0, &[]));
            let cells = (floored.first..).zip(counts).filter(|(_, n)| **n > 0);
            let cells = cells.map(|(cell, n)| (cell, u64::from(*n))).collect();
            let mut near = Near { level: FLOOR, zeros: u64::from(*zeros), cells, bytes: 0 };
            near.fit(BYTES, FLOOR);
            Self { near }
        };
        counts.chunks(width).map(of_group).collect()
    }

    /// Number of times that cells were merged in pairs: 0 while each distinct number has its own cell.
    pub fn level(&self) -> u32 {
        self.near.level
    }

    /// Returns the width of a cell, the maximum error of a quantile: as a share of the distance of its numbers from
    /// zero, or from 1 between 1/2 and 1; 0 while quantiles are exact. It doubles with every four powers of two away
    /// from 1/2 or 1.
    pub fn width(&self) -> f64 {
        if self.near.level == 0 { 0.0 } else { (f64::from(self.near.level) - 53.0).exp2() }
    }

    /// Returns the cells of both, from the least to the greatest, as wide as those of the coarser one, where all
    /// numbers lie within the extremes.
    pub fn beside(&self, other: &Self, (min, max): (f64, f64)) -> Vec<Beside> {
        let mut cells = self.near.beside(&other.near);
        for cell in &mut cells {
            (cell.least, cell.greatest) = (cell.least.max(min).min(max), cell.greatest.min(max).max(min));
        }
        cells
    }

    /// Returns an upper bound of its bytes, never less than that of fewer numbers.
    fn most_bytes(&self) -> usize {
        if self.is_empty() {
            return 2;
        }
        if self.near.level <= FLOOR { self.near.bytes.min(BYTES) + 2 } else { BYTES + 2 }
    }

    /// Returns the number below which the share `q` of the numbers lies, `q` in [0, 1]; all numbers lie within the
    /// extremes. It has rank q (n - 1), with linear interpolation between two ranks (the default of numpy and
    /// pandas). Within a cell the numbers are assumed to be evenly spread. `None` if it has no numbers.
    pub fn quantile(&self, q: f64, (min, max): (f64, f64)) -> Option<Quantile> {
        let mut runs = self.near.runs();
        for run in &mut runs {
            (run.least, run.greatest) = (run.least.max(min).min(max), run.greatest.min(max).max(min));
        }
        let last = runs.iter().fold(0u64, |n, run| n.saturating_add(run.n)).checked_sub(1)?;
        let rank = q.clamp(0.0, 1.0) * last as f64;
        let low = (rank.floor() as u64).min(last);
        let share = rank - low as f64;
        let low_end = at(&runs, low, last)?;
        let high_end = if share > 0.0 { at(&runs, (low + 1).min(last), last)? } else { low_end };
        let value = between(low_end.number, high_end.number, share);
        let of_all = |rank: f64| if last == 0 { q } else { rank / last as f64 };
        Some(match low_end.is_exact && high_end.is_exact {
            true => Quantile { value, from: of_all(rank), to: of_all(rank) },
            false => Quantile { value, from: of_all(low_end.from as f64), to: of_all(high_end.to as f64) },
        })
    }
}

/// Number of a rank with its bounds.
#[derive(Clone, Copy, Debug)]
struct RankedNumber {
    number: f64,
    is_exact: bool,
    /// Greatest rank whose number is certainly not greater than this one.
    from: u64,
    /// Least rank whose number is certainly not less.
    to: u64,
}

/// Returns the number of a rank, interpolated within its cell if that holds several numbers.
fn at(runs: &[Run], rank: u64, last: u64) -> Option<RankedNumber> {
    let mut before = 0u64;
    for run in runs {
        let after = before.saturating_add(run.n);
        if rank >= after {
            before = after;
            continue;
        }
        if run.least == run.greatest {
            return Some(RankedNumber { number: run.least, is_exact: true, from: rank, to: rank });
        }
        let within = ((rank - before) as f64 + 0.5) / run.n as f64;
        let number = run.least + (run.greatest - run.least) * within;
        // Other numbers of the cell may lie to either side of it.
        return Some(RankedNumber {
            number,
            is_exact: false,
            from: before.saturating_sub(1),
            to: after.min(last),
        });
    }
    None
}

/// Interpolates by `share` from one number to the next, as numpy computes it.
fn between(low: f64, high: f64, share: f64) -> f64 {
    let distance = high - low;
    match share {
        _ if !distance.is_finite() => low * (1.0 - share) + high * share,
        share if share >= 0.5 => high - distance * (1.0 - share),
        share => low + distance * share,
    }
}

impl<const BYTES: usize, const FLOOR: u32> Default for Sketch<BYTES, FLOOR> {
    fn default() -> Self {
        Self { near: Near { level: FLOOR, ..Near::default() } }
    }
}

impl<const BYTES: usize, const FLOOR: u32> Cell for Sketch<BYTES, FLOOR> {
    const MAX_BYTES: usize = BYTES + 2;
    const LEAST_BYTES: usize = 2;

    fn weight(&self) -> usize {
        self.most_bytes()
    }
}

impl<const BYTES: usize, const FLOOR: u32> Merge for Sketch<BYTES, FLOOR> {
    fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        let (near, other) = (&mut self.near, &other.near);
        near.coarsen(other.level);
        near.zeros = near.zeros.saturating_add(other.zeros);
        near.cells = match near.level > other.level {
            true => merged(&near.cells, &other.at_level(near.level)),
            false => merged(&near.cells, &other.cells),
        };
        near.fit(BYTES, FLOOR);
    }
}

#[cfg(test)]
mod tests;
