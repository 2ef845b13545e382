//! Grouping the rows of a segment: by one column of strings or by the pairs of two. Whole-column loops over small
//! numbers, so that a row costs a few nanoseconds for any strings.

use std::collections::{BTreeMap, HashMap};

use super::{
    bounded::{Bounded, Cell, cut},
    numbers::{Bins, Distribution},
    sums::{each, numbers},
};
use crate::{
    hash::hash,
    read::{Codes, Numbers},
    sketch::Sketch,
};

/// Maximum number of possible pairs numbered by a plain array.
const DENSE_PAIRS: usize = 1 << 16;

/// Counts the rows of each code; the last entry counts nulls.
pub(super) fn count(codes: &[u32], groups: usize) -> Vec<u64> {
    let mut counts = vec![0; groups];
    codes.iter().for_each(|&code| counts[code as usize] += 1);
    counts
}

/// Returns the histogram of the scores of each group.
pub(super) fn score_bins(codes: &[u32], groups: usize, column: Option<Numbers<'_, f64>>) -> Vec<Bins> {
    let mut bins = vec![Bins::default(); groups];
    if let Some(column) = column {
        each(codes, column, |group, score| bins[group].add(score));
    }
    bins
}

/// Returns the sketch of the numbers of each group.
pub(super) fn sketches<const MAX: usize>(
    codes: &[u32],
    groups: usize,
    column: Numbers<'_, f64>,
) -> Vec<Sketch<MAX>> {
    // End of the numbers of each group, once all are laid out group after group.
    let mut ends = vec![0usize; groups];
    each(codes, column, |group, _| ends[group] += 1);
    let mut end = 0;
    for count in &mut ends {
        end += *count;
        *count = end - *count;
    }
    let mut laid_out = vec![0.0; end];
    each(codes, column, |group, number| {
        laid_out[ends[group]] = number;
        ends[group] += 1;
    });
    let mut start = 0;
    let of_group = |end| {
        let numbers = &laid_out[start..end];
        start = end;
        Sketch::of(numbers)
    };
    ends.into_iter().map(of_group).collect()
}

/// Returns the numbers of each group with their quantiles.
pub(super) fn distributions<const MAX: usize>(
    codes: &[u32],
    groups: usize,
    column: Option<Numbers<'_, f64>>,
) -> Vec<Option<Distribution<MAX>>> {
    let Some(column) = column else { return vec![None; groups] };
    let numbers = numbers(codes, groups, Some(column));
    let both = numbers.into_iter().zip(sketches(codes, groups, column));
    both.map(|(numbers, sketch)| numbers.map(|numbers| Distribution { numbers, sketch })).collect()
}

/// Rows grouped by a column of any number of strings; only strings that a breakdown may keep have a group of their
/// own.
pub(super) struct Admitted<'a> {
    /// Group of each row: a name, the rest, or none.
    pub(super) codes: Vec<u32>,
    names: Vec<&'a str>,
    /// Least hash of the rest, if there is one.
    beyond: Option<u64>,
}

/// Returns the least hash of some names that a `Bounded<V, BUDGET>` certainly does not keep.
pub(super) fn beyond<V: Cell, const BUDGET: usize>(names: &[&str]) -> Option<u64> {
    let least = |name: &&str| Bounded::<V, BUDGET>::weight(name, V::LEAST_BYTES);
    cut(names.iter().map(|name| (*name, least(name))), BUDGET)
}

impl<'a> Admitted<'a> {
    /// Admits the strings of a segment with hashes below that of `beyond`: the least hash that the breakdowns made of
    /// them certainly do not keep. The breakdowns of the day, of which the segment is a part, do not keep those
    /// either, so they need no metrics of their own.
    pub(super) fn new(strings: &Codes<'a>, beyond: impl FnOnce(&[&str]) -> Option<u64>) -> Self {
        let counts = count(&strings.codes, strings.len());
        let used = |code: usize| counts[code] > 0;
        let occurring: Vec<&str> =
            (0..strings.names.len()).filter(|&code| used(code)).map(|code| strings.names[code]).collect();
        let beyond = beyond(&occurring);
        let (mut names, mut groups) = (Vec::new(), Vec::with_capacity(strings.len()));
        for (code, &name) in strings.names.iter().enumerate() {
            let stays = used(code) && beyond.is_none_or(|beyond| hash(name.as_bytes()) < beyond);
            // Names have the first groups; the rest are numbered below.
            groups.push(stays.then(|| {
                names.push(name);
                names.len() as u32 - 1
            }));
        }
        let others = names.len() as u32;
        let groups: Vec<u32> =
            groups.into_iter().map(|group| group.unwrap_or(others)).chain([others + 1]).collect();
        let codes = strings.codes.iter().map(|&code| groups[code as usize]).collect();
        Self { codes, names, beyond }
    }

    /// Returns the number of groups: the names, the rest, the rows without a string.
    pub(super) fn len(&self) -> usize {
        self.names.len() + 2
    }

    /// Returns the breakdown of the values of the groups.
    pub(super) fn collect<V: Cell, const BUDGET: usize>(&self, values: Vec<V>) -> Bounded<V, BUDGET> {
        let mut values = values.into_iter();
        let mut names = BTreeMap::<String, V>::new();
        for (name, value) in self.names.iter().zip(values.by_ref()) {
            // A coded column may hold a string twice.
            match names.get_mut(*name) {
                Some(known) => known.merge(&value),
                None => drop(names.insert((*name).to_owned(), value)),
            }
        }
        Bounded::admitted(names, self.beyond.zip(values.next()))
    }
}

/// Counts the occurrences of each string, without nulls.
pub(super) fn counts<const BUDGET: usize>(strings: &Codes<'_>) -> Bounded<u64, BUDGET> {
    let groups = Admitted::new(strings, beyond::<u64, BUDGET>);
    groups.collect(count(&groups.codes, groups.len()))
}

/// Rows grouped by the pair of two columns.
pub(super) struct Pairs {
    /// Number of the pair of each row.
    pub(super) codes: Vec<u32>,
    /// Occurring pairs, as codes of the first and the second column.
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

    /// Counts the rows of each pair.
    pub(super) fn counts(&self) -> impl Iterator<Item = ((u32, u32), u64)> {
        self.pairs.iter().copied().zip(count(&self.codes, self.pairs.len()))
    }
}

/// Counts the occurrences of each label in each group, without nulls.
pub(super) fn labels_by<const BUDGET: usize>(
    groups: &Codes<'_>,
    labels: &Codes<'_>,
) -> Vec<(u64, Bounded<u64, BUDGET>)> {
    let mut counts = vec![(0, Bounded::default()); groups.len()];
    if labels.names.is_empty() {
        return counts;
    }
    for ((group, label), n) in Pairs::new(groups, labels).counts() {
        if let Some(label) = labels.names.get(label as usize) {
            let (all, by_label) = &mut counts[group as usize];
            *all += n;
            by_label.add(label, &n);
        }
    }
    counts
}
