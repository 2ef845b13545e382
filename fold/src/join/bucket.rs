//! A bucket of the join: all rows of both sides whose keys hash to it, joined on their own.

use std::{mem, ops::AddAssign};

use super::{Outcome, Prediction};
use crate::{
    RowRef,
    hash::{Table, hash, mix, same as same_key},
};

/// Target number of rows of a side in a bucket: keys, rows and table of both sides fit a cache of 1 MiB.
const BUCKET_ROWS: usize = 4096;

/// Maximum number of buckets in a round; more would not fit the cache while rows are distributed. Larger joins take
/// several rounds, which also bounds the memory of the buckets.
const MAX_BUCKETS: usize = 256;

/// Returns the number of buckets for `rows` rows of a side.
pub(super) fn buckets_of(rows: usize) -> usize {
    rows.div_ceil(BUCKET_ROWS).max(1)
}

/// Range of buckets that are filled and joined together, out of all buckets.
#[derive(Clone, Copy)]
pub(super) struct Round {
    first: usize,
    count: usize,
    of: usize,
}

impl Round {
    /// Returns the rounds that fill and join `of` buckets, at least one.
    pub(super) fn of_buckets(of: usize) -> impl Iterator<Item = Self> {
        let size = of.div_ceil(of.div_ceil(MAX_BUCKETS));
        (0..of).step_by(size).map(move |first| Self { first, count: size.min(of - first), of })
    }

    /// Creates the empty buckets of this round, sized for its share of `rows` rows and `bytes` of keys.
    pub(super) fn empty<T>(self, rows: usize, bytes: usize) -> Vec<Bucket<T>> {
        // Hashes distribute evenly, but not exactly.
        let [rows, bytes] = [rows, bytes].map(|all| all / self.of * 17 / 16);
        let bucket = || Bucket { keys: Vec::with_capacity(bytes), rows: Vec::with_capacity(rows) };
        std::iter::repeat_with(bucket).take(self.count).collect()
    }

    /// Adds a row to its bucket, if that is in this round.
    #[inline]
    pub(super) fn deal<T>(self, buckets: &mut [Bucket<T>], key: &str, instant: i64, more: T) {
        let hash = hash(key.as_bytes());
        // The high half scaled to the number of buckets, which need not be a power of two. The tables use the low
        // half first.
        let bucket = (((hash >> 32) * self.of as u64) >> 32) as usize;
        let Some(bucket) = buckets.get_mut(bucket.wrapping_sub(self.first)) else { return };
        let start = bucket.keys.len();
        bucket.keys.extend_from_slice(key.as_bytes());
        bucket.rows.push(Row { hash, instant, start, len: key.len() as u32, more });
    }
}

/// Rows of one side in one bucket, in log order.
pub(super) struct Bucket<T> {
    /// Bytes of all keys.
    keys: Vec<u8>,
    rows: Vec<Row<T>>,
}

struct Row<T> {
    /// Hash of the key.
    hash: u64,
    instant: i64,
    /// Start of the key in the bytes of all keys.
    start: usize,
    len: u32,
    more: T,
}

impl<T> Row<T> {
    /// Hashes key and instant.
    #[inline]
    fn instant_hash(&self) -> u64 {
        mix(self.hash, self.instant as u64)
    }
}

impl<T> Bucket<T> {
    #[inline]
    fn key(&self, row: &Row<T>) -> &[u8] {
        &self.keys[row.start..row.start + row.len as usize]
    }
}

impl Row<Outcome> {
    /// Returns the identity of an outcome among those of its key: its instant, if it names one, and the time of
    /// observation.
    fn identity(&self) -> (bool, i64, i64) {
        (self.more.of_instant, self.instant, self.more.observed)
    }
}

impl Bucket<Outcome> {
    /// Removes retracted outcomes: the retracting ones, and those of the same identity before them.
    fn retract(&mut self) {
        if !self.rows.iter().any(|row| row.more.is_retracted) {
            return;
        }
        let mut seen = Table::new(self.rows.len());
        // Flag at the last outcome of each identity: true once a retraction was seen.
        let mut taken_back = vec![false; self.rows.len()];
        let mut counts = vec![true; self.rows.len()];
        for (at, row) in self.rows.iter().enumerate().rev() {
            let key = self.key(row);
            let same = |other: u32| {
                let other = &self.rows[other as usize];
                other.identity() == row.identity() && same_key(self.key(other), key)
            };
            let identity = mix(row.instant_hash(), row.more.observed as u64);
            let last = seen.keep(identity, at as u32, same, |_| false).map_or(at, |last| last as usize);
            taken_back[last] |= row.more.is_retracted;
            counts[at] = !taken_back[last];
        }
        let mut counts = counts.into_iter();
        self.rows.retain(|_| counts.next().unwrap_or_default());
    }
}

/// Result of the join for a prediction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Retracted.
    Retracted,
    /// Not labelled by any outcome.
    Nothing,
    /// Superseded: the same prediction was sent again later.
    Repeated,
    /// Labelled by this outcome.
    Outcome(RowRef),
}

impl Found {
    /// Returns whether the prediction counts.
    pub(super) fn counts(self) -> bool {
        matches!(self, Self::Nothing | Self::Outcome(_))
    }
}

/// Counts of outcomes.
#[derive(Clone, Copy, Default)]
pub(super) struct Met {
    /// Number of outcomes that are not retracted.
    pub(super) outcomes: u64,
    /// Number of these that fit no prediction.
    pub(super) orphaned: u64,
}

impl AddAssign for Met {
    fn add_assign(&mut self, more: Self) {
        self.outcomes += more.outcomes;
        self.orphaned += more.orphaned;
    }
}

/// Joins a bucket and writes the result of each prediction at its number in log order.
pub(super) fn join(
    predictions: &Bucket<Prediction>,
    mut outcomes: Bucket<Outcome>,
    found: &mut [Found],
) -> Met {
    outcomes.retract();
    let mut index = OutcomeIndex::new(&outcomes);
    let mut seen = Table::new(predictions.rows.len());
    let mut taken_back = vec![false; predictions.rows.len()];
    // Backwards, so that the first one seen of equal predictions is the last one sent.
    for (at, row) in predictions.rows.iter().enumerate().rev() {
        let key = predictions.key(row);
        let same = |other: u32| {
            let other = &predictions.rows[other as usize];
            (other.instant, other.more.release) == (row.instant, row.more.release)
                && same_key(predictions.key(other), key)
        };
        let identity = mix(row.instant_hash(), u64::from(row.more.release));
        let later = seen.keep(identity, at as u32, same, |_| false);
        let last = later.map_or(at, |later| later as usize);
        taken_back[last] |= row.more.is_retracted;
        found[row.more.row as usize] = match later {
            _ if taken_back[last] => Found::Retracted,
            Some(_) => Found::Repeated,
            None => index.judge(row, key).map_or(Found::Nothing, Found::Outcome),
        };
    }
    Met { outcomes: outcomes.rows.len() as u64, orphaned: index.orphaned }
}

/// Winning outcome of each key, and of each key and instant.
struct OutcomeIndex<'a> {
    outcomes: &'a Bucket<Outcome>,
    of_key: Table,
    of_instant: Table,
    /// Number of outcomes that each winner represents, with itself; 0 once a prediction fits them.
    group: Vec<u32>,
    /// Number of outcomes that fit no prediction so far.
    orphaned: u64,
}

impl<'a> OutcomeIndex<'a> {
    fn new(outcomes: &'a Bucket<Outcome>) -> Self {
        let with_instant = outcomes.rows.iter().filter(|row| row.more.of_instant).count();
        let of_key = Table::new(outcomes.rows.len() - with_instant);
        let group = vec![1; outcomes.rows.len()];
        let orphaned = outcomes.rows.len() as u64;
        let mut index = Self { outcomes, of_key, of_instant: Table::new(with_instant), group, orphaned };
        for (at, row) in outcomes.rows.iter().enumerate() {
            let (at, key) = (at as u32, outcomes.key(row));
            let same_key = |other: &Row<Outcome>| same_key(outcomes.key(other), key);
            let wins = |other: u32| wins(outcomes, at, other);
            let known = if row.more.of_instant {
                let same = |other: &Row<Outcome>| other.instant == row.instant && same_key(other);
                let same = |other: u32| same(&outcomes.rows[other as usize]);
                index.of_instant.keep(row.instant_hash(), at, same, wins)
            } else {
                index.of_key.keep(row.hash, at, |other| same_key(&outcomes.rows[other as usize]), wins)
            };
            if let Some(known) = known {
                let (winner, loser) = if wins(known) { (at, known) } else { (known, at) };
                index.group[winner as usize] += index.group[loser as usize];
            }
        }
        index
    }

    /// Returns the outcome that labels a prediction.
    #[inline]
    fn judge(&mut self, row: &Row<Prediction>, key: &[u8]) -> Option<RowRef> {
        let outcomes = self.outcomes;
        let outcome = |at: u32| &outcomes.rows[at as usize];
        let same_key = |at: u32| same_key(outcomes.key(outcome(at)), key);
        let of_key = self.of_key.find(row.hash, same_key);
        let same_instant = |at: u32| outcome(at).instant == row.instant && same_key(at);
        let of_instant = self.of_instant.find(row.instant_hash(), same_instant);
        for fits in of_key.into_iter().chain(of_instant) {
            self.orphaned -= u64::from(mem::take(&mut self.group[fits as usize]));
        }
        let winner = match (of_key, of_instant) {
            (Some(a), Some(b)) => Some(if wins(outcomes, a, b) { a } else { b }),
            (a, b) => a.or(b),
        };
        winner.map(|at| outcome(at).more.at)
    }
}

/// Returns whether outcome `a` wins over outcome `b`: observed later or, at the same time, later in the log, whose
/// order the rows of a bucket keep.
fn wins(outcomes: &Bucket<Outcome>, a: u32, b: u32) -> bool {
    let rank = |at: u32| (outcomes.rows[at as usize].more.observed, at);
    rank(a) > rank(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_has_its_round() {
        for of in [1, 2, MAX_BUCKETS, MAX_BUCKETS + 1, 806, 3 * MAX_BUCKETS, 10_000] {
            let mut next = 0;
            for round in Round::of_buckets(of) {
                assert_eq!((round.first, round.of), (next, of));
                assert!((1..=MAX_BUCKETS).contains(&round.count), "{of}: {}", round.count);
                next += round.count;
            }
            assert_eq!(next, of);
        }
        assert_eq!(buckets_of(0), 1);
        assert_eq!(Round::of_buckets(buckets_of(MAX_BUCKETS * BUCKET_ROWS)).count(), 1);
    }
}
