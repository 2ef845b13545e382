//! Grouping the rows of a segment: by one column of strings or by the pairs of two. Whole-column
//! loops over small numbers, so that a row costs a few nanoseconds whatever its strings are.

use std::collections::HashMap;

use super::parts::{NumberRollup, SCORE_BINS};
use crate::read::{Codes, Numbers};

/// Up to this many possible pairs are numbered by a plain array.
const DENSE_PAIRS: usize = 1 << 16;

/// How many rows each code has; the last entry counts nulls.
pub(super) fn count(codes: &[u32], groups: usize) -> Vec<u64> {
    let mut counts = vec![0; groups];
    codes.iter().for_each(|&code| counts[code as usize] += 1);
    counts
}

/// The numbers of each group.
pub(super) fn numbers(groups: &Codes<'_>, column: Option<Numbers<'_, f64>>) -> Vec<Option<NumberRollup>> {
    let mut sums = vec![NumberRollup::empty(); groups.len()];
    if let Some(column) = column {
        match column.valid {
            None => {
                let rows = groups.codes.iter().zip(column.values);
                rows.for_each(|(&group, &value)| sums[group as usize].add(value));
            }
            Some(valid) => {
                let rows = groups.codes.iter().zip(column.values).zip(valid);
                let present = rows.filter(|(_, valid)| **valid);
                present.for_each(|((&group, &value), _)| sums[group as usize].add(value));
            }
        }
    }
    sums.into_iter().map(NumberRollup::some).collect()
}

/// The histogram of the scores of each group.
pub(super) fn score_bins(groups: &Codes<'_>, column: Option<Numbers<'_, f64>>) -> Vec<[u64; SCORE_BINS]> {
    let mut bins = vec![[0; SCORE_BINS]; groups.len()];
    let Some(column) = column else { return bins };
    for (row, (&group, &score)) in groups.codes.iter().zip(column.values).enumerate() {
        if (0.0..=1.0).contains(&score) && column.valid.is_none_or(|valid| valid[row]) {
            let bin = ((score * SCORE_BINS as f64) as usize).min(SCORE_BINS - 1);
            bins[group as usize][bin] += 1;
        }
    }
    bins
}

/// Rows grouped by the pair of two columns.
pub(super) struct Pairs {
    /// For each row the number of its pair.
    pub(super) codes: Vec<u32>,
    /// The pairs that occur, as codes of the first and the second column.
    pub(super) pairs: Vec<(u32, u32)>,
}

impl Pairs {
    pub(super) fn new(first: &Codes<'_>, second: &Codes<'_>) -> Self {
        let mut pairs = Vec::new();
        let rows = first.codes.iter().zip(&second.codes);
        let mut next = |a: u32, b: u32| {
            pairs.push((a, b));
            pairs.len() as u32 - 1
        };
        let codes = if first.len() * second.len() <= DENSE_PAIRS {
            let mut numbers = vec![u32::MAX; first.len() * second.len()];
            rows.map(|(&a, &b)| {
                let number = &mut numbers[a as usize * second.len() + b as usize];
                if *number == u32::MAX {
                    *number = next(a, b);
                }
                *number
            })
            .collect()
        } else {
            let mut numbers = HashMap::<(u32, u32), u32>::new();
            rows.map(|(&a, &b)| *numbers.entry((a, b)).or_insert_with(|| next(a, b))).collect()
        };
        Self { codes, pairs }
    }

    /// How many rows each pair has.
    pub(super) fn counts(&self) -> impl Iterator<Item = ((u32, u32), u64)> {
        self.pairs.iter().copied().zip(count(&self.codes, self.pairs.len()))
    }
}
