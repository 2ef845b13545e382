//! Which outcome judges which prediction of a day.
//!
//! - A prediction is identified by (release, key, `predicted_at`). If it was sent several times, the
//!   last one in log order (lane, seq, row) counts.
//! - An outcome with `predicted_at` judges the predictions of its key at exactly that instant; one
//!   without it, all predictions of its key on that day. Both judge them for every release.
//! - If several outcomes fit a prediction, the one with the greatest (`observed_at`, lane, seq, row)
//!   wins: a later observation corrects an earlier one, whichever way it names the prediction.
//!
//! A hash join: outcomes go into a table, distinct predictions look them up. The pairs come in the
//! log order of their predictions, so the result depends on the log alone, neither on hashes nor on
//! the order in which segments are handed in.

use std::collections::BTreeMap;

use crate::{
    LogSegment, Result, RowRef,
    hash::{Table, hash, mix},
    read::{required_texts, required_times, times},
    segment::in_log_order,
};

/// The columns that [`join`] needs of predictions.
pub const PREDICTION_COLUMNS: &[&str] = &["key", "predicted_at", "release"];

/// The columns that [`join`] needs of outcomes.
pub const OUTCOME_COLUMNS: &[&str] = &["key", "predicted_at", "observed_at"];

/// A prediction and the outcome that judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The prediction, in the slice of prediction segments.
    pub prediction: RowRef,
    /// The outcome, in the slice of outcome segments; `None` while there is none.
    pub outcome: Option<RowRef>,
    /// The release that predicted, as an index into [`Joined::releases`].
    pub release: u32,
}

/// The distinct predictions of a day with their outcomes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// The releases that predicted, in the order of their names.
    pub releases: Vec<String>,
    /// One pair for each distinct prediction, in log order.
    pub pairs: Vec<Pair>,
}

/// Joins the predictions of a day with the outcomes in the log of the same day.
///
/// # Errors
/// When a column is not what its kind must have, or there are more than 2^32 - 3 rows.
pub fn join(predictions: &[LogSegment<'_>], outcomes: &[LogSegment<'_>]) -> Result<Joined> {
    let predictions = Predictions::read(predictions)?;
    let outcomes = Outcomes::read(outcomes)?;
    let index = OutcomeIndex::new(&outcomes);
    let counts = predictions.last_of_each();
    let mut pairs = Vec::with_capacity(counts.iter().filter(|counts| **counts).count());
    for (at, _) in counts.iter().enumerate().filter(|(_, counts)| **counts) {
        let row = &predictions.rows[at];
        let outcome = index.judge(&outcomes, row, predictions.times[at]).map(|at| outcomes.rows[at as usize].at);
        pairs.push(Pair { prediction: row.at, outcome, release: predictions.releases[at] });
    }
    let releases = predictions.names.into_iter().map(str::to_owned).collect();
    Ok(Joined { releases, pairs })
}

/// What every row has, side by side because it is used together.
struct Row<'a> {
    key: &'a str,
    hash: u64,
    at: RowRef,
}

/// The predictions in log order.
struct Predictions<'a> {
    rows: Vec<Row<'a>>,
    times: Vec<i64>,
    releases: Vec<u32>,
    names: Vec<&'a str>,
}

impl<'a> Predictions<'a> {
    fn read(segments: &[LogSegment<'a>]) -> Result<Self> {
        let (segments, count) = in_log_order(segments)?;
        let mut rows = Vec::with_capacity(count);
        let mut times = Vec::with_capacity(count);
        let mut coded = Vec::with_capacity(segments.len());
        let mut names = BTreeMap::new();
        for &(segment, columns) in &segments {
            push_rows(&mut rows, segment, columns)?;
            times.extend_from_slice(required_times(columns, "predicted_at")?);
            let codes = required_texts(columns, "release")?.codes();
            // Names that no row uses are left out: they are no releases that predicted.
            let mut used = vec![false; codes.names.len()];
            codes.codes.iter().for_each(|&code| used[code as usize] = true);
            names.extend(codes.names.iter().zip(used).filter(|(_, used)| *used).map(|(&name, _)| (name, 0)));
            coded.push(codes);
        }
        names.values_mut().enumerate().for_each(|(number, slot)| *slot = number as u32);
        let mut releases = Vec::with_capacity(count);
        for codes in coded {
            let numbers: Vec<u32> = codes.names.iter().map(|name| names.get(name).copied().unwrap_or(0)).collect();
            releases.extend(codes.codes.iter().map(|&code| numbers[code as usize]));
        }
        Ok(Self { rows, times, releases, names: names.into_keys().collect() })
    }

    /// For each row whether it is the last one of its identity.
    fn last_of_each(&self) -> Vec<bool> {
        let mut last = vec![true; self.rows.len()];
        let mut seen = Table::new(self.rows.len());
        // Backwards, so that the first one seen is the last one sent.
        for (at, row) in self.rows.iter().enumerate().rev() {
            let (time, release) = (self.times[at], self.releases[at]);
            let same = |other: u32| {
                let other = other as usize;
                self.times[other] == time && self.releases[other] == release && self.rows[other].key == row.key
            };
            let identity = mix(instant_hash(row.hash, time), u64::from(release));
            last[at] = seen.keep(identity, at as u32, same, |_| false).is_none();
        }
        last
    }
}

/// The outcomes in log order.
struct Outcomes<'a> {
    rows: Vec<Row<'a>>,
    /// The instant of the prediction that is judged; `None` for all of the day.
    instants: Vec<Option<i64>>,
    observed: Vec<i64>,
}

impl<'a> Outcomes<'a> {
    fn read(segments: &[LogSegment<'a>]) -> Result<Self> {
        let (segments, count) = in_log_order(segments)?;
        let mut rows = Vec::with_capacity(count);
        let mut instants = Vec::with_capacity(count);
        let mut observed = Vec::with_capacity(count);
        for &(segment, columns) in &segments {
            push_rows(&mut rows, segment, columns)?;
            observed.extend_from_slice(required_times(columns, "observed_at")?);
            let times = times(columns, "predicted_at")?;
            instants.extend((0..columns.rows).map(|row| times.and_then(|times| times.get(row))));
        }
        Ok(Self { rows, instants, observed })
    }

    /// Whether outcome `a` wins over outcome `b`. Row numbers are in log order.
    fn wins(&self, a: u32, b: u32) -> bool {
        (self.observed[a as usize], a) > (self.observed[b as usize], b)
    }
}

/// The winning outcome of each key and of each key and instant.
struct OutcomeIndex {
    of_key: Table,
    of_instant: Table,
    /// Whether there is anything to find, which spares the usual case one of the two look-ups.
    has: (bool, bool),
}

impl OutcomeIndex {
    fn new(outcomes: &Outcomes<'_>) -> Self {
        let with_instant = outcomes.instants.iter().flatten().count();
        let without = outcomes.rows.len() - with_instant;
        let mut of_key = Table::new(without);
        let mut of_instant = Table::new(with_instant);
        for (at, (row, instant)) in outcomes.rows.iter().zip(&outcomes.instants).enumerate() {
            let same = |other: u32| {
                let other = other as usize;
                outcomes.instants[other] == *instant && outcomes.rows[other].key == row.key
            };
            let at = at as u32;
            let wins = |other: u32| outcomes.wins(at, other);
            match instant {
                Some(instant) => of_instant.keep(instant_hash(row.hash, *instant), at, same, wins),
                None => of_key.keep(row.hash, at, same, wins),
            };
        }
        Self { of_key, of_instant, has: (without > 0, with_instant > 0) }
    }

    /// The outcome that judges a prediction.
    fn judge(&self, outcomes: &Outcomes<'_>, row: &Row<'_>, instant: i64) -> Option<u32> {
        let same_key = |other: u32| outcomes.rows[other as usize].key == row.key;
        let same_instant = |other: u32| outcomes.instants[other as usize] == Some(instant) && same_key(other);
        let of_key = if self.has.0 { self.of_key.find(row.hash, same_key) } else { None };
        let of_instant =
            if self.has.1 { self.of_instant.find(instant_hash(row.hash, instant), same_instant) } else { None };
        match (of_key, of_instant) {
            (Some(a), Some(b)) => Some(if outcomes.wins(a, b) { a } else { b }),
            (a, b) => a.or(b),
        }
    }
}

#[inline]
fn instant_hash(key: u64, instant: i64) -> u64 {
    mix(key, instant as u64)
}

fn push_rows<'a>(rows: &mut Vec<Row<'a>>, segment: u32, columns: &'a store::Columns) -> Result<()> {
    let keys = required_texts(columns, "key")?;
    rows.extend((0..columns.rows).map(|row| {
        // No row is null, which has just been checked.
        let key = keys.get(row).unwrap_or_default();
        Row { key, hash: hash(key.as_bytes()), at: RowRef { segment, row: row as u32 } }
    }));
    Ok(())
}

#[cfg(test)]
mod tests;
