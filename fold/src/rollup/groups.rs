//! Grouping the rows of a segment: by one column of strings or by the pairs of two. Whole-column
//! loops over small numbers, so that a row costs a few nanoseconds whatever its strings are.

use std::collections::{BTreeMap, HashMap};

use super::{
    bounded::{Bounded, Cell, cut},
    numbers::{Bins, Distribution},
    sums::numbers,
};
use crate::{
    hash::hash,
    read::{Codes, Numbers},
    sketch::{self, Sketch},
};

/// Up to this many possible pairs are numbered by a plain array.
const DENSE_PAIRS: usize = 1 << 16;

/// Up to this many counts of bins are kept in a plain array.
const DENSE_BINS: usize = 1 << 14;

/// How many rows each code has; the last entry counts nulls.
pub(super) fn count(codes: &[u32], groups: usize) -> Vec<u64> {
    let mut counts = vec![0; groups];
    codes.iter().for_each(|&code| counts[code as usize] += 1);
    counts
}

/// Calls `visit` with the group and the number of each row that has one.
#[inline]
pub(super) fn each(groups: &[u32], column: Numbers<'_, f64>, mut visit: impl FnMut(usize, f64)) {
    let rows = groups.iter().zip(column.values);
    match column.valid {
        None => rows.for_each(|(&group, &number)| visit(group as usize, number)),
        Some(valid) => {
            let present = rows.zip(valid).filter(|(_, valid)| **valid);
            present.for_each(|((&group, &number), _)| visit(group as usize, number));
        }
    }
}

/// The histogram of the scores of each group.
pub(super) fn score_bins(codes: &[u32], groups: usize, column: Option<Numbers<'_, f64>>) -> Vec<Bins> {
    let mut bins = vec![Bins::default(); groups];
    if let Some(column) = column {
        each(codes, column, |group, score| bins[group].add(score));
    }
    bins
}

/// The sketch of the numbers of each group.
pub(super) fn sketches<const MAX: usize>(
    codes: &[u32],
    groups: usize,
    column: Numbers<'_, f64>,
) -> Vec<Sketch<MAX>> {
    // Zero is frequent and far from all other numbers, so it would make the array long.
    let zero = sketch::bin(0.0);
    let mut zeros = vec![0; groups];
    let (mut least, mut greatest) = (i64::MAX, i64::MIN);
    each(codes, column, |_, number| {
        let bin = sketch::bin(number);
        least = least.min(if bin == zero { i64::MAX } else { bin });
        greatest = greatest.max(if bin == zero { i64::MIN } else { bin });
    });
    let width = usize::try_from(greatest.saturating_sub(least)).map_or(0, |width| width + 1);
    if width.saturating_mul(groups) > DENSE_BINS {
        return sparse_sketches(codes, groups, column);
    }
    let mut counts = vec![0u64; width * groups];
    each(codes, column, |group, number| match sketch::bin(number) {
        bin if bin == zero => zeros[group] += 1,
        bin => counts[group * width + (bin - least) as usize] += 1,
    });
    let of_group = |(group, zeros): (usize, u64)| {
        let bins = (least..).zip(&counts[group * width..][..width]).map(|(bin, &n)| (bin, n));
        let (below, above): (Vec<_>, Vec<_>) = bins.filter(|(_, n)| *n > 0).partition(|(bin, _)| *bin < zero);
        let zeros = (zeros > 0).then_some((zero, zeros));
        Sketch::of(below.into_iter().chain(zeros).chain(above))
    };
    zeros.into_iter().enumerate().map(of_group).collect()
}

fn sparse_sketches<const MAX: usize>(
    codes: &[u32],
    groups: usize,
    column: Numbers<'_, f64>,
) -> Vec<Sketch<MAX>> {
    let mut bins = Vec::new();
    each(codes, column, |group, number| bins.push((group, sketch::bin(number))));
    bins.sort_unstable();
    let mut counts = vec![Vec::new(); groups];
    for same in bins.chunk_by(|a, b| a == b) {
        counts[same[0].0].push((same[0].1, same.len() as u64));
    }
    counts.into_iter().map(Sketch::of).collect()
}

/// The numbers of each group with their quantiles.
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

/// Rows grouped by a column of any number of strings, of which only those that a breakdown may keep
/// have a group of their own.
pub(super) struct Admitted<'a> {
    /// For each row its group: a name, the others, or none.
    pub(super) codes: Vec<u32>,
    names: Vec<&'a str>,
    /// The least hash of the others, if there are any.
    beyond: Option<u64>,
}

impl<'a> Admitted<'a> {
    /// Admits what a `Bounded<V, BUDGET>` keeps of the strings of a segment. It keeps no other when the
    /// segment is a part of the day, so they need no figures of their own.
    pub(super) fn new<V: Cell, const BUDGET: usize>(strings: &Codes<'a>) -> Self {
        let counts = count(&strings.codes, strings.len());
        let used = |code: usize| counts[code] > 0;
        let occurring = (0..strings.names.len()).filter(|&code| used(code)).map(|code| strings.names[code]);
        let beyond = cut(occurring, Bounded::<V, BUDGET>::weight, BUDGET);
        let (mut names, mut groups) = (Vec::new(), Vec::with_capacity(strings.len()));
        for (code, &name) in strings.names.iter().enumerate() {
            let stays = used(code) && beyond.is_none_or(|beyond| hash(name.as_bytes()) < beyond);
            // Groups count names; what they do not count is numbered below.
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

    /// How many groups there are: the names, the others, the rows without a string.
    pub(super) fn len(&self) -> usize {
        self.names.len() + 2
    }

    /// The breakdown of the values of the groups.
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

/// How often each string occurs; nulls are none.
pub(super) fn counts<const BUDGET: usize>(strings: &Codes<'_>) -> Bounded<u64, BUDGET> {
    let groups = Admitted::new::<u64, BUDGET>(strings);
    groups.collect(count(&groups.codes, groups.len()))
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

/// How often each label occurs in each group; nulls are no labels.
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
