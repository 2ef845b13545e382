//! Numbers of two sides.

use std::ops::Range;

use super::{Drift, Sides, divergences, tail::kolmogorov, totals};
use crate::{rollup::Distribution, sketch::Beside};

/// Number of bins of the reference for the population stability index and the Jensen-Shannon distance.
const TENTHS: f64 = 10.0;

/// Distributions of the numbers of the reference and of the window: in common cells, in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    cells: Vec<Beside>,
    /// Population standard deviation of the reference.
    std: Option<f64>,
}

impl Spread {
    /// Takes finite numbers, known one by one.
    pub fn of_numbers(reference: &[f64], window: &[f64]) -> Self {
        let side = |numbers: &[f64], side: usize| -> Vec<(f64, usize)> {
            // Negative zero becomes zero.
            numbers.iter().map(|number| (number + 0.0, side)).collect()
        };
        let mut numbers = [side(reference, 0), side(window, 1)].concat();
        numbers.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let cells = numbers.chunk_by(|one, other| one.0 == other.0).map(|same| {
            let mut n = [0; 2];
            same.iter().for_each(|(_, side)| n[*side] += 1);
            Beside { least: same[0].0, greatest: same[0].0, n }
        });
        let n = reference.len() as f64;
        let mean = reference.iter().sum::<f64>() / n;
        let squares = reference.iter().map(|number| (number - mean) * (number - mean)).sum::<f64>();
        Self { cells: cells.collect(), std: (n > 0.0).then(|| (squares / n).sqrt()) }
    }

    /// Compares stored distributions.
    pub fn of<const MAX: usize>(reference: &Distribution<MAX>, window: &Distribution<MAX>) -> Self {
        let [one, other] = [reference, window].map(|side| side.numbers.extremes());
        let cells = reference.sketch.beside(&window.sketch, (one.0.min(other.0), one.1.max(other.1)));
        Self { cells, std: Some(reference.numbers.std()) }
    }

    /// Takes cells, without a deviation.
    #[cfg(test)]
    pub(super) fn of_cells(cells: Vec<Beside>) -> Self {
        Self { cells, std: None }
    }

    /// Compares the window with the reference.
    pub fn drift(&self) -> Drift {
        let counts: Vec<Sides> = self.cells.iter().map(|cell| cell.n).collect();
        let Some(total) = totals(&counts) else { return Drift::default() };
        let areas = self.areas(total);
        let divergences = divergences(&in_bins(&counts, total[0]));
        let wasserstein = Some(areas.area).filter(|area| area.is_finite());
        let scale = self.std.filter(|std| *std > 0.0);
        Drift {
            psi: divergences.map(|(psi, _)| psi),
            js_distance: divergences.map(|(_, js)| js),
            wasserstein,
            wasserstein_error: Some(areas.area_error).filter(|error| error.is_finite()),
            wasserstein_scaled: wasserstein.zip(scale).map(|(area, std)| area / std),
            ks: Some(areas.gap),
            ks_error: Some(areas.greatest_gap - areas.gap),
            ks_p: Some(kolmogorov(areas.gap * (total[0] * total[1] / (total[0] + total[1])).sqrt())),
            ..Drift::default()
        }
    }

    fn areas(&self, total: [f64; 2]) -> Areas {
        let mut found = Areas::default();
        // Counts of each side below the cell.
        let (mut below, mut last) = ([0.0; 2], None);
        for cell in &self.cells {
            let gap_before = below[0] / total[0] - below[1] / total[1];
            // The area between two cells is exact, since they have no numbers between them.
            found.area += last.map_or(0.0, |last| gap_before.abs() * (cell.least - last));
            let before = [below[0] / total[0], below[1] / total[1]];
            below = [below[0] + cell.n[0] as f64, below[1] + cell.n[1] as f64];
            let after = [below[0] / total[0], below[1] / total[1]];
            found.gap = found.gap.max((after[0] - after[1]).abs());
            found.within(cell, before, after);
            last = Some(cell.greatest);
        }
        found.greatest_gap = found.greatest_gap.max(found.gap);
        found
    }
}

/// Areas and differences between two cumulative distributions.
#[derive(Clone, Copy, Debug, Default)]
struct Areas {
    area: f64,
    area_error: f64,
    /// Greatest difference at the edges of cells, which is exact.
    gap: f64,
    /// Greatest possible difference within a cell.
    greatest_gap: f64,
}

impl Areas {
    /// Adds a cell, in which the distributions rise from `before` to `after`: evenly, by assumption.
    fn within(&mut self, cell: &Beside, before: [f64; 2], after: [f64; 2]) {
        let width = cell.greatest - cell.least;
        if width <= 0.0 {
            return;
        }
        let (from, to) = (before[0] - before[1], after[0] - after[1]);
        let even = match from * to < 0.0 {
            false => f64::midpoint(from.abs(), to.abs()),
            true => (from * from + to * to) / (2.0 * (from.abs() + to.abs())),
        };
        // All of one side may come before all of the other one.
        let (least, greatest) = (before[0] - after[1], after[0] - before[1]);
        let most = least.abs().max(greatest.abs());
        let fewest = if least > 0.0 { least } else { (-greatest).max(0.0) };
        self.area += even * width;
        self.area_error += (most - even).max(even - fewest) * width;
        self.greatest_gap = self.greatest_gap.max(most);
    }
}

/// Groups cells into bins, as ranges of cells: the tenths of the reference, the cells below all of it, the cells
/// above. A tenth ends with the cell that completes its share of the reference.
pub(super) fn bins(counts: &[Sides], reference: f64) -> Vec<Range<usize>> {
    let first = counts.iter().position(|n| n[0] > 0).unwrap_or(0);
    let end = counts.iter().rposition(|n| n[0] > 0).map_or(0, |last| last + 1);
    let (mut bins, mut from, mut before, mut ended) = (Vec::new(), first, 0, 0);
    for (at, [of_reference, _]) in counts.iter().enumerate().take(end).skip(first) {
        before += of_reference;
        let tenths = (before as f64 * TENTHS / reference) as usize;
        if tenths > ended && tenths < TENTHS as usize {
            ended = tenths;
            bins.push(from..at + 1);
            from = at + 1;
        }
    }
    bins.extend([from..end, 0..first, end..counts.len()]);
    bins
}

/// Returns the counts of each side by bin.
pub(super) fn in_bins(counts: &[Sides], reference: f64) -> Vec<Sides> {
    let sum = |cells: &[Sides]| cells.iter().fold([0; 2], |all, n| [all[0] + n[0], all[1] + n[1]]);
    bins(counts, reference).into_iter().map(|bin| sum(&counts[bin])).collect()
}
