//! A quantile sketch: how many numbers lie in which cell, in a bounded number of bytes.
//!
//! As long as they fit, each distinct number is a cell of its own and quantiles are exact. After that,
//! cells are equal steps of the bits of a double: a power of two is cut into equal cells. Between 1/2 and 1 it is
//! the distance from 1 that is cut so, because that is where probabilities crowd. With every four powers of two away
//! from there the cells become twice as wide, so that tails do not take them all (`axis`).
//! When cells do not fit, all are merged in pairs until they do (the uniform collapse of Epicoco et
//! al., "UDDSketch", 2020, <https://arxiv.org/abs/2004.08604>). Zero has a cell of its own, always.
//!
//! **The same bytes in any grouping.** The [`level`](Sketch::level), how often pairs were merged, is the
//! least at which the text and the span of the cells fit. More numbers never make either of them less: so if
//! a part does not fit at a level the whole does not either, and the level is a function of the numbers alone.
//!
//! **What a quantile is worth.** Counts of cells are exact, so it is certain between which ranks a reported
//! number stands: [`Quantile`] carries them. No bound in rank can be promised beforehand: where a summary
//! of bounded size, the same in any grouping, no longer tells `x` from `y` in some set, it does not tell a million
//! more of `x` from as many of `y`. So numbers that crowd within a cell are known by their cell only, and the
//! ranks say so. What is promised beforehand is the width of a cell ([`Sketch::width`]).

mod axis;
mod near;
mod old;
mod text;

pub(crate) use self::near::Floored;
use self::{
    near::{Near, merged},
    old::OldCells,
};
use crate::rollup::bounded::{Cell, Merge};

/// With fewer numbers than this, sorting them costs less than an array.
const FEW: usize = 1024;

/// How many numbers lie where, in at most `BYTES` bytes of text, at a level of at least `FLOOR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch<const BYTES: usize, const FLOOR: u32 = 0> {
    cells: Cells,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Cells {
    Near(Near),
    /// Read from what an older version stored.
    Old(OldCells),
    /// Numbers in cells of different kinds were added up: where they lie is no longer known.
    Mixed,
}

/// A quantile, and between which ranks the reported number stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// The number.
    pub value: f64,
    /// It is not less than the number of this rank, a share of all in [0, 1].
    pub from: f64,
    /// It is not greater than the number of this rank.
    pub to: f64,
}

/// How many numbers of two sketches lie in a cell that both have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    /// No number of the cell is less.
    pub least: f64,
    /// None is greater. Equal to the least one where the cell has one number only.
    pub greatest: f64,
    /// How many there are in the one and in the other.
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
    /// The most bytes of its text.
    pub const MAX_TEXT: usize = BYTES;

    /// Whether it knows no number.
    pub fn is_empty(&self) -> bool {
        matches!(&self.cells, Cells::Near(near) if near.zeros == 0 && near.cells.is_empty())
    }

    /// How many numbers it knows.
    pub fn n(&self) -> u64 {
        match &self.cells {
            Cells::Near(near) => near.n(),
            Cells::Old(old) => old.n(),
            Cells::Mixed => 0,
        }
    }

    /// The sketch of these numbers, all of them finite.
    pub(crate) fn of(numbers: &[f64]) -> Self {
        let mut near = if FLOOR > 0 || numbers.len() <= FEW {
            Near::exact(numbers)
        } else {
            // What does not fit of some does not fit of all.
            let some = Near::exact(&numbers[..FEW.min(BYTES / 8)]);
            match text::bytes(some.zeros, &some.cells, BYTES) > BYTES {
                true => Near::counted(numbers),
                false => Near::exact(numbers),
            }
        };
        near.fit(BYTES, FLOOR);
        Self { cells: Cells::Near(near) }
    }

    /// The sketches of groups of a column: `rows` are numbers of rows, with the codes of their groups.
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
            Self { cells: Cells::Near(near) }
        };
        counts.chunks(width).map(of_group).collect()
    }

    /// How often cells were merged in pairs: 0 while each distinct number has its own. `None` when it was
    /// stored by an older version.
    pub fn level(&self) -> Option<u32> {
        if let Cells::Near(near) = &self.cells { Some(near.level) } else { None }
    }

    /// The width of a cell: as a share of the distance of its numbers from zero, or from 1 between 1/2
    /// and 1. So much a quantile is off at most; 0 while it is exact. Twice as much with every four powers of two
    /// away from 1/2 or 1.
    pub fn width(&self) -> f64 {
        match &self.cells {
            Cells::Near(near) if near.level == 0 => 0.0,
            Cells::Near(near) => (f64::from(near.level) - 53.0).exp2(),
            Cells::Old(old) => old.width(),
            Cells::Mixed => f64::INFINITY,
        }
    }

    /// The cells of both, from the least to the greatest, as wide as those of the coarser one, where all numbers lie within the
    /// extremes. `None` when an older version stored one of them, in cells of another kind.
    pub fn beside(&self, other: &Self, (min, max): (f64, f64)) -> Option<Vec<Beside>> {
        let mut cells = match (&self.cells, &other.cells) {
            (Cells::Near(one), Cells::Near(other)) => one.beside(other),
            (Cells::Old(one), Cells::Old(other)) => one.beside(other)?,
            _ => return None,
        };
        for cell in &mut cells {
            (cell.least, cell.greatest) = (cell.least.max(min).min(max), cell.greatest.min(max).max(min));
        }
        Some(cells)
    }

    /// What a text of it may take: never less than one of fewer numbers takes.
    fn most_bytes(&self) -> usize {
        if self.is_empty() {
            return 2;
        }
        match &self.cells {
            Cells::Near(near) if near.level <= FLOOR => near.bytes.min(BYTES) + 2,
            _ => BYTES + 2,
        }
    }

    /// The number below which the share `q` of the numbers lies, `q` in [0, 1], where all numbers lie within
    /// the extremes: that of rank q (n - 1), between two ranks in a straight line (the default of
    /// numpy and pandas). Within a cell the numbers are taken to be evenly spread. `None` when it knows no number.
    pub fn quantile(&self, q: f64, (min, max): (f64, f64)) -> Option<Quantile> {
        let mut runs = match &self.cells {
            Cells::Near(near) => near.runs(),
            Cells::Old(old) => old.runs(),
            Cells::Mixed => return None,
        };
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

/// What is known of the number of a rank.
#[derive(Clone, Copy, Debug)]
struct Known {
    number: f64,
    is_exact: bool,
    /// The greatest rank whose number is certainly not greater than this one.
    from: u64,
    /// The least rank whose number is certainly not less.
    to: u64,
}

/// The number of a rank, within its cell if that holds several numbers.
fn at(runs: &[Run], rank: u64, last: u64) -> Option<Known> {
    let mut before = 0u64;
    for run in runs {
        let after = before.saturating_add(run.n);
        if rank >= after {
            before = after;
            continue;
        }
        if run.least == run.greatest {
            return Some(Known { number: run.least, is_exact: true, from: rank, to: rank });
        }
        let within = ((rank - before) as f64 + 0.5) / run.n as f64;
        let number = run.least + (run.greatest - run.least) * within;
        // Those of the cell may lie to either side of it.
        return Some(Known { number, is_exact: false, from: before.saturating_sub(1), to: after.min(last) });
    }
    None
}

/// `share` of the way from one number to the next, as numpy computes it.
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
        Self { cells: Cells::Near(Near { level: FLOOR, ..Near::default() }) }
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
        match (&mut self.cells, &other.cells) {
            (Cells::Near(near), Cells::Near(other)) => {
                near.coarsen(other.level);
                near.zeros = near.zeros.saturating_add(other.zeros);
                near.cells = match near.level > other.level {
                    true => merged(&near.cells, &other.at_level(near.level)),
                    false => merged(&near.cells, &other.cells),
                };
                near.fit(BYTES, FLOOR);
            }
            (Cells::Old(old), Cells::Old(other)) => match old.merge(other) {
                true => old.fit(BYTES),
                false => self.cells = Cells::Mixed,
            },
            _ => self.cells = Cells::Mixed,
        }
    }
}

#[cfg(test)]
mod tests;
