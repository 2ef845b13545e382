//! Join of the predictions of a day with the outcomes that label them.
//!
//! - A prediction is identified by (release, key, `predicted_at`). If it was sent several times, the
//!   last one in log order (the [`LogPosition`](event::lane::LogPosition) of its segment, row) counts.
//! - An outcome with `predicted_at` labels the predictions of its key at exactly that instant; one
//!   without it, all predictions of its key on that day. Both label them for every release.
//! - If several outcomes fit a prediction, the one with the greatest (`observed_at`, place, row)
//!   wins: a later observation corrects an earlier one, whichever way it names the prediction.
//! - A retracted event removes itself and all events of its identity before it: for a prediction that is (release,
//!   key, `predicted_at`), for an outcome (key, `predicted_at` or none, `observed_at`). Later events count again.
//!
//! A partitioned hash join. Both sides are first distributed into buckets by the hash of the key, keys copied along;
//! then each bucket is joined on its own, small enough to stay in the cache. On a million rows by a million, every
//! access to memory would otherwise be a miss. The pairs come in the log order of their predictions, so the result
//! depends on the log alone, neither on hashes nor on the order of the given segments.

mod bucket;

use std::collections::BTreeMap;

use bucket::{Bucket, Found, Met, Round};
use event::fields::RETRACTED;

use crate::{
    LogSegment, Result, RowRef,
    read::{Codes, Texts, required_texts, required_times, texts, times},
    segment::in_log_order,
};

/// Columns that [`join`] needs of predictions.
pub const PREDICTION_COLUMNS: &[&str] = &["key", "predicted_at", "release", RETRACTED];

/// Columns that [`join`] needs of outcomes.
pub const OUTCOME_COLUMNS: &[&str] = &["key", "predicted_at", "observed_at", RETRACTED];

/// A prediction and the outcome that labels it.
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
    /// Releases with predictions, in the order of their names.
    pub releases: Vec<String>,
    /// One pair for each distinct prediction, in log order.
    pub pairs: Vec<Pair>,
    /// Number of superseded predictions of each of [`Joined::releases`]: the same one, by release, key and
    /// `predicted_at`, is later in the log.
    pub repeated: Vec<u64>,
    /// Superseded predictions, with the index of their release.
    pub repeats: Vec<(RowRef, u32)>,
    /// Number of outcomes that are not retracted.
    pub outcomes: u64,
    /// Number of these that fit no prediction of the day: none has their key or, if they name an instant, their key
    /// at that instant.
    pub orphaned: u64,
}

/// Joins the predictions of a day with the outcomes in the log of the same day.
///
/// # Errors
/// Fails if a column is not as its kind requires, or if there are more than 2^32 - 3 rows.
pub fn join(predictions: &[LogSegment<'_>], outcomes: &[LogSegment<'_>]) -> Result<Joined> {
    join_in_buckets(predictions, outcomes, bucket::buckets_of)
}

/// Joins in as many buckets as `buckets_of` returns for the rows of the longer side.
fn join_in_buckets(
    predictions: &[LogSegment<'_>],
    outcomes: &[LogSegment<'_>],
    buckets_of: impl Fn(usize) -> usize,
) -> Result<Joined> {
    let (predictions, rows) = in_log_order(predictions)?;
    let (outcomes, outcome_rows) = in_log_order(outcomes)?;
    let (names, releases) = number_releases(&predictions, rows)?;
    let mut found = vec![Found::Nothing; rows];
    let mut met = Met::default();
    for round in Round::of_buckets(buckets_of(rows.max(outcome_rows))) {
        let left = deal_predictions(&predictions, &releases, round)?;
        let right = deal_outcomes(&outcomes, outcome_rows, round)?;
        for (left, right) in left.iter().zip(right) {
            met += bucket::join(left, right, &mut found);
        }
    }
    let places = predictions.iter().flat_map(|&(segment, columns)| {
        (0..columns.rows).map(move |row| RowRef { segment, row: row as u32 })
    });
    let mut pairs = Vec::with_capacity(found.iter().filter(|found| found.counts()).count());
    let mut repeated = vec![0; names.len()];
    let mut repeats = Vec::new();
    for ((prediction, release), found) in places.zip(releases).zip(found) {
        let outcome = match found {
            Found::Repeated => {
                repeated[release as usize] += 1;
                repeats.push((prediction, release));
                continue;
            }
            Found::Retracted => continue,
            Found::Nothing => None,
            Found::Outcome(at) => Some(at),
        };
        pairs.push(Pair { prediction, outcome, release });
    }
    let releases = names.into_keys().map(str::to_owned).collect();
    let Met { outcomes, orphaned } = met;
    Ok(Joined { releases, pairs, repeated, repeats, outcomes, orphaned }.without_silent())
}

impl Joined {
    /// Removes releases whose predictions are all retracted.
    fn without_silent(mut self) -> Self {
        let mut speaks = vec![false; self.releases.len()];
        self.pairs.iter().for_each(|pair| speaks[pair.release as usize] = true);
        if speaks.iter().all(|speaks| *speaks) {
            return self;
        }
        let mut numbers = Vec::with_capacity(speaks.len());
        let mut before = 0;
        for speaks in &speaks {
            numbers.push(before);
            before += u32::from(*speaks);
        }
        self.pairs.iter_mut().for_each(|pair| pair.release = numbers[pair.release as usize]);
        self.repeats.iter_mut().for_each(|(_, release)| *release = numbers[*release as usize]);
        let mut of_names = speaks.iter();
        self.releases.retain(|_| of_names.next().is_some_and(|speaks| *speaks));
        let mut of_counts = speaks.iter();
        self.repeated.retain(|_| of_counts.next().is_some_and(|speaks| *speaks));
        self
    }
}

/// Segments in log order with their index in the slice that was handed in.
type Segments<'a> = [(u32, &'a event::Columns)];

/// Content of a prediction besides key and instant.
struct Prediction {
    /// Number in log order.
    row: u32,
    release: u32,
    is_retracted: bool,
}

/// Content of an outcome besides key and instant.
struct Outcome {
    observed: i64,
    at: RowRef,
    /// True if it labels one instant; otherwise it labels the whole day, and its instant is meaningless.
    of_instant: bool,
    is_retracted: bool,
}

/// Retraction flags of the events of a segment.
struct Retracted<'a>(Option<Texts<'a>>);

impl<'a> Retracted<'a> {
    fn read(columns: &'a event::Columns) -> Result<Self> {
        Ok(Self(texts(columns, RETRACTED)?))
    }

    /// Returns whether a row is a retraction. The column has only one possible text.
    #[inline]
    fn has(&self, row: usize) -> bool {
        self.0.is_some_and(|texts| texts.get(row).is_some())
    }
}

/// Numbers the releases with predictions, in the order of their names; and returns the number of each prediction's
/// release, in log order.
fn number_releases<'a>(segments: &Segments<'a>, rows: usize) -> Result<(BTreeMap<&'a str, u32>, Vec<u32>)> {
    // Numbered in order of appearance first, then by name.
    let mut names = BTreeMap::<&str, u32>::new();
    let mut releases = Vec::with_capacity(rows);
    for (_, columns) in segments {
        let Codes { codes, names: of_codes } = required_texts(columns, "release")?.codes();
        // A dictionary may hold names that no row uses; these have no predictions.
        let mut used = vec![false; of_codes.len()];
        codes.iter().for_each(|&code| used[code as usize] = true);
        let number = |(&name, used)| {
            let next = names.len() as u32;
            if used { *names.entry(name).or_insert(next) } else { 0 }
        };
        let numbers: Vec<u32> = of_codes.iter().zip(used).map(number).collect();
        releases.extend(codes.iter().map(|&code| numbers[code as usize]));
    }
    let mut by_name = vec![0; names.len()];
    for (number, come) in (0..).zip(names.values_mut()) {
        by_name[*come as usize] = number;
        *come = number;
    }
    releases.iter_mut().for_each(|release| *release = by_name[*release as usize]);
    Ok((names, releases))
}

/// Returns the total number of bytes of the keys.
fn key_bytes(segments: &Segments<'_>) -> Result<usize> {
    segments.iter().map(|(_, columns)| Ok(required_texts(columns, "key")?.bytes())).sum()
}

/// Distributes the predictions of a round into buckets.
fn deal_predictions(
    segments: &Segments<'_>,
    releases: &[u32],
    round: Round,
) -> Result<Vec<Bucket<Prediction>>> {
    let mut dealt = round.empty(releases.len(), key_bytes(segments)?);
    let mut numbered = releases.iter().zip(0..);
    for (_, columns) in segments {
        let (keys, instants) = (required_texts(columns, "key")?, required_times(columns, "predicted_at")?);
        let retracted = Retracted::read(columns)?;
        for (row, (&instant, (&release, number))) in instants.iter().zip(&mut numbered).enumerate() {
            // The keys were checked to be without nulls.
            let key = keys.get(row).unwrap_or_default();
            let is_retracted = retracted.has(row);
            round.deal(&mut dealt, key, instant, Prediction { row: number, release, is_retracted });
        }
    }
    Ok(dealt)
}

/// Distributes the outcomes of a round into buckets.
fn deal_outcomes(segments: &Segments<'_>, rows: usize, round: Round) -> Result<Vec<Bucket<Outcome>>> {
    let mut dealt = round.empty(rows, key_bytes(segments)?);
    for &(segment, columns) in segments {
        let (keys, instants) = (required_texts(columns, "key")?, times(columns, "predicted_at")?);
        let retracted = Retracted::read(columns)?;
        for (row, &observed) in required_times(columns, "observed_at")?.iter().enumerate() {
            let instant = instants.and_then(|instants| instants.get(row));
            let at = RowRef { segment, row: row as u32 };
            let is_retracted = retracted.has(row);
            let outcome = Outcome { observed, at, of_instant: instant.is_some(), is_retracted };
            round.deal(&mut dealt, keys.get(row).unwrap_or_default(), instant.unwrap_or_default(), outcome);
        }
    }
    Ok(dealt)
}

#[cfg(test)]
mod tests;
