//! Events of every benchmark: predictions of loan defaults, over some days, by two releases, and later the truth.
//! They are the same in every run, whichever part of them is requested.
//!
//! Events are made a batch at a time, so a hundred million of them take no more memory than one batch. [`json`] and
//! [`frame`] write them in the forms in which they travel.

use event::{Day, Timestamp, time::DAY_MICROS};

pub mod frame;
pub mod json;
mod numbers;

pub use numbers::Numbers;

/// Default number of days that the events are spread over.
pub const DAYS: usize = 30;
/// First day.
const FIRST_DAY: &str = "2025-01-01";
/// Number of rows of a batch.
pub const BATCH_ROWS: usize = 10_000;
/// Releases that predict: the first makes seven of ten predictions.
pub const RELEASES: [&str; 2] = ["v1", "v2"];
/// Values of the tag `branch`.
pub const BRANCHES: [&str; 12] = [
    "north", "south", "east", "west", "centre", "harbour", "airport", "online", "phone", "partner", "rural",
    "abroad",
];
/// Labels: the negative one first, then the positive one.
pub const LABELS: [&str; 2] = ["repaid", "default"];
/// Rate of repeated keys: one key of this many is that of an earlier prediction.
const REPEATED_KEYS: u64 = 50;
/// Rate of missing outcomes: one prediction of this many is never judged.
const NEVER_JUDGED: u64 = 20;
/// Delay of the truth: 1 to 72 hours.
const DELAY_MICROS: (u64, u64) = (3_600_000_000, 71 * 3_600_000_000);
const MILLI: i64 = 1_000;

/// A key: twelve letters and digits.
pub type Key = [u8; 12];

/// A prediction with the truth that arrives later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Key of the loan.
    pub key: Key,
    /// Time of the prediction, in microseconds since 1970, to the millisecond.
    pub predicted_at: i64,
    /// Index in [`RELEASES`].
    pub release: usize,
    /// Predicted probability of a default.
    pub score: f64,
    /// Index in [`BRANCHES`].
    pub branch: usize,
    /// Truth, unless it never becomes known.
    pub truth: Option<Truth>,
}

/// Truth of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truth {
    /// Time at which it became known, in microseconds since 1970, to the millisecond.
    pub observed_at: i64,
    /// True for a default.
    pub is_positive: bool,
}

impl Prediction {
    /// Returns the predicted label, as an index in [`LABELS`].
    pub fn label(&self) -> usize {
        usize::from(self.score >= 0.5)
    }
}

/// An outcome: a prediction with its truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Key of the prediction.
    pub key: Key,
    /// Instant of the prediction.
    pub predicted_at: i64,
    /// Truth of the prediction.
    pub truth: Truth,
}

/// A number of predictions over some days, with their outcomes.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    rows: usize,
    days: usize,
    first: Day,
}

impl Data {
    /// Creates `rows` predictions over [`DAYS`] days.
    pub fn new(rows: usize) -> Self {
        Self::over(DAYS, rows)
    }

    /// Creates `rows` predictions over `days` days.
    pub fn over(days: usize, rows: usize) -> Self {
        Self { rows, days, first: FIRST_DAY.parse().expect("a day of the calendar") }
    }

    /// Returns the number of days.
    pub fn days(&self) -> usize {
        self.days
    }

    /// Returns the number of predictions.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the day of index `day`, from 0.
    pub fn day(&self, day: usize) -> Day {
        let start = self.first.start().micros() + day as i64 * DAY_MICROS;
        Timestamp::from_micros(start).expect("within the calendar").day()
    }

    /// Returns the last day.
    pub fn last_day(&self) -> Day {
        self.day(self.days - 1)
    }

    /// Returns the number of predictions of a day.
    pub fn rows_of(&self, day: usize) -> usize {
        self.rows / self.days + usize::from(day < self.rows % self.days)
    }

    /// Returns the number of batches of predictions of a day.
    pub fn batches_of(&self, day: usize) -> usize {
        self.rows_of(day).div_ceil(BATCH_ROWS)
    }

    /// Iterates over all batches of predictions, as day and index in the day.
    pub fn batches(&self) -> impl Iterator<Item = (usize, usize)> {
        let data = *self;
        (0..self.days).flat_map(move |day| (0..data.batches_of(day)).map(move |batch| (day, batch)))
    }

    /// Returns a batch of predictions in the order of their time: [`BATCH_ROWS`] of them, or fewer in the last batch
    /// of a day.
    pub fn predictions(&self, day: usize, batch: usize) -> Vec<Prediction> {
        let of_day = self.rows_of(day);
        let rows = batch * BATCH_ROWS..((batch + 1) * BATCH_ROWS).min(of_day);
        let start = self.day(day).start().micros();
        let mut numbers = Numbers::new((day as u64) << 32 | batch as u64);
        let mut predictions: Vec<Prediction> = Vec::with_capacity(rows.len());
        for row in rows {
            let offset = (row as f64 + numbers.unit()) / of_day as f64 * DAY_MICROS as f64;
            let predicted_at = start + (offset as i64).min(DAY_MICROS - 1) / MILLI * MILLI;
            let key = if predictions.len() > 1 && numbers.below(REPEATED_KEYS) == 0 {
                // Not the previous one, which may have the same millisecond.
                predictions[numbers.below(predictions.len() as u64 - 1) as usize].key
            } else {
                key(&mut numbers)
            };
            let score = score(&mut numbers);
            let is_positive = numbers.unit() < score;
            let delay = (DELAY_MICROS.0 + numbers.below(DELAY_MICROS.1)) as i64 / MILLI * MILLI;
            let truth = (numbers.below(NEVER_JUDGED) > 0)
                .then_some(Truth { observed_at: predicted_at + delay, is_positive });
            let release = usize::from(numbers.below(10) >= 7);
            let branch = numbers.below(BRANCHES.len() as u64) as usize;
            predictions.push(Prediction { key, predicted_at, release, score, branch, truth });
        }
        predictions
    }

    /// Returns all outcomes of a day's predictions, in the order in which they become known.
    pub fn outcomes(&self, day: usize) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(self.rows_of(day));
        for batch in 0..self.batches_of(day) {
            let predictions = self.predictions(day, batch);
            outcomes.extend(predictions.iter().filter_map(|prediction| {
                let (key, predicted_at) = (prediction.key, prediction.predicted_at);
                Some(Outcome { key, predicted_at, truth: prediction.truth? })
            }));
        }
        outcomes.sort_by_key(|outcome| outcome.truth.observed_at);
        outcomes
    }
}

fn key(numbers: &mut Numbers) -> Key {
    const LETTERS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    // Twelve letters of 36 take 62.04 bits; two streams of six are simpler than an odd one.
    let (mut left, mut right) = (numbers.whole(), numbers.whole());
    let mut key = [0; 12];
    for at in 0..6 {
        key[at] = LETTERS[(left % 36) as usize];
        key[at + 6] = LETTERS[(right % 36) as usize];
        (left, right) = (left / 36, right / 36);
    }
    key
}

/// Returns a probability with all the digits of a double: the logistic of a nearly normal number.
fn score(numbers: &mut Numbers) -> f64 {
    let normal = (0..4).map(|_| numbers.unit()).sum::<f64>() - 2.0;
    1.0 / (1.0 + libm::exp(1.2 - 3.0 * normal))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_events_are_what_the_report_says() {
        let data = Data::new(60_000);
        let all: Vec<Prediction> =
            data.batches().flat_map(|(day, batch)| data.predictions(day, batch)).collect();
        assert_eq!(all.len(), 60_000);
        assert_eq!(all[12_345], data.predictions(6, 0)[345], "the same, in whatever order they are made");
        let keys: BTreeSet<Key> = all.iter().map(|prediction| prediction.key).collect();
        assert!((0.97..0.99).contains(&(keys.len() as f64 / 60_000.0)), "{} keys", keys.len());
        let places: BTreeSet<(Key, i64)> =
            all.iter().map(|prediction| (prediction.key, prediction.predicted_at)).collect();
        assert_eq!(places.len(), all.len(), "key and instant name one prediction");
        let judged = all.iter().filter(|prediction| prediction.truth.is_some()).count() as f64;
        assert!((0.945..0.955).contains(&(judged / 60_000.0)), "{judged} are judged");
        let positives = all.iter().filter(|row| row.truth.is_some_and(|truth| truth.is_positive)).count();
        let expected: f64 = all.iter().filter(|row| row.truth.is_some()).map(|row| row.score).sum();
        assert!((positives as f64 / expected - 1.0).abs() < 0.03, "{positives} positives, not {expected}");
        assert!(all.windows(2).all(|pair| pair[0].predicted_at <= pair[1].predicted_at));
    }

    #[test]
    fn outcomes_come_1_to_72_hours_later() {
        let data = Data::new(3_000);
        let outcomes = data.outcomes(29);
        let hours = |outcome: &Outcome| (outcome.truth.observed_at - outcome.predicted_at) as f64 / 3.6e9;
        assert!(outcomes.iter().all(|outcome| (1.0..72.0).contains(&hours(outcome))));
        assert_eq!(data.day(29).to_string(), "2025-01-30");
        assert!(
            outcomes
                .iter()
                .all(|o| o.predicted_at.div_euclid(DAY_MICROS) == i64::from(data.day(29).number()))
        );
    }
}
