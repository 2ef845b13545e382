//! Names of two sides, such as labels or the values of a tag.

use super::{Drift, Sides, divergences, tail::chi_squared, totals};
use crate::rollup::{
    TagCounts,
    bounded::{Bounded, Cell, Merge},
};

/// Cell with a number of predictions.
pub trait Counted: Cell {
    /// Returns the number of predictions.
    fn predictions(&self) -> u64;
}

impl Counted for u64 {
    fn predictions(&self) -> u64 {
        *self
    }
}

impl Counted for TagCounts {
    fn predictions(&self) -> u64 {
        self.predictions
    }
}

/// Predictions of the reference and of the window, counted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub(super) counts: Vec<(String, Sides)>,
    /// Predictions with names that are not kept apart on both sides.
    pub(super) others: Sides,
}

impl Names {
    /// Takes counts of names that are all known.
    pub fn of_counts(counts: impl IntoIterator<Item = (String, [u64; 2])>) -> Self {
        Self { counts: counts.into_iter().collect(), others: [0; 2] }
    }

    /// Takes stored counts. Names that one of the sides does not keep are summed as one.
    pub fn of<V: Counted, const BUDGET: usize>(
        reference: &Bounded<V, BUDGET>,
        window: &Bounded<V, BUDGET>,
    ) -> Self {
        // A name kept by the merged counts is known on each side: an absent one does not occur.
        let mut both = reference.clone();
        both.merge(window);
        let sides = [reference, window];
        let counts: Vec<(String, Sides)> = both
            .names()
            .keys()
            .map(|name| (name.clone(), sides.map(|side| side.get(name).map_or(0, V::predictions))))
            .filter(|(_, n)| *n != [0; 2])
            .collect();
        let mut others = sides.map(|side| {
            let all = side.names().values().chain(side.others()).map(V::predictions);
            all.fold(0u64, u64::saturating_add)
        });
        for (_, n) in &counts {
            others.iter_mut().zip(n).for_each(|(others, n)| *others = others.saturating_sub(*n));
        }
        Self { counts, others }
    }

    /// Returns the totals of both sides: the reference, the window.
    pub fn totals(&self) -> [u64; 2] {
        let sum = |sum: Sides, n: &Sides| [sum[0].saturating_add(n[0]), sum[1].saturating_add(n[1])];
        self.counts.iter().fold(self.others, |all, (_, n)| sum(all, n))
    }

    /// Returns the names of the window that the reference does not have, with their counts: the most frequent first.
    pub fn unseen(&self) -> Vec<(&str, u64)> {
        let unseen = self.counts.iter().filter(|(_, [reference, window])| *reference == 0 && *window > 0);
        let mut unseen: Vec<(&str, u64)> = unseen.map(|(name, n)| (name.as_str(), n[1])).collect();
        unseen.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        unseen
    }

    /// Compares the window with the reference.
    pub fn drift(&self) -> Drift {
        let others = Some(self.others).filter(|n| *n != [0; 2]);
        let counts: Vec<Sides> = self.counts.iter().map(|(_, n)| *n).chain(others).collect();
        let (Some(total), Some((psi, js))) = (totals(&counts), divergences(&counts)) else {
            return Drift::default();
        };
        let shares = counts.iter().map(|n| (n[0] as f64 / total[0] - n[1] as f64 / total[1]).abs());
        let freedom = counts.len() - 1;
        let unseen = self.unseen().iter().fold(0u64, |all, (_, n)| all.saturating_add(*n));
        let chi2 = (freedom > 0).then(|| chi2(&counts, total));
        Drift {
            psi: Some(psi),
            js_distance: Some(js),
            chi2,
            chi2_p: chi2.map(|chi2| chi_squared(chi2, freedom as f64)),
            l_infinity: shares.reduce(f64::max),
            unseen_rate: Some(unseen as f64 / total[1]),
            others_rate: Some((self.others[0] as f64 / total[0]).max(self.others[1] as f64 / total[1])),
            ..Drift::default()
        }
    }
}

/// Returns the statistic of Pearson's chi-squared test of the table of both sides by all names, without Yates'
/// correction.
fn chi2(counts: &[Sides], total: [f64; 2]) -> f64 {
    let all = total[0] + total[1];
    let of_name = |n: &Sides| -> f64 {
        let both = n[0] as f64 + n[1] as f64;
        let of_side = n.iter().zip(total).map(|(n, total)| {
            let expected = both * total / all;
            (*n as f64 - expected) * (*n as f64 - expected) / expected
        });
        of_side.sum()
    };
    counts.iter().map(of_name).sum()
}
