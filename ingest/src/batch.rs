//! Batches: the events of one request, checked and in columns.

use std::collections::{BTreeMap, BTreeSet};

use event::{Columns, Day, Kind, RowProblem, Timestamp};
use log::content;

use crate::limits::{MAX_BATCH_DAYS, MAX_IDEMPOTENCY_KEY_BYTES};

/// Events of one kind that are appended together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Kind of the events.
    pub kind: Kind,
    /// The events.
    pub columns: Columns,
    /// Day to which each event belongs; for a waiting one, the day on which it was read.
    pub days: Vec<Day>,
    /// True for each event that waits, since it does not name the prediction that it judges; empty when none waits.
    pub waits: Vec<bool>,
    /// Position of each event in the request or file, from 1.
    pub numbers: Vec<u64>,
    /// Id that a single event gives itself. It is not stored.
    pub event_id: Option<String>,
}

/// Fault of a row: its index, the field and the message.
pub(crate) type RowIssue = (usize, &'static str, String);

/// Events of a batch that belong to one day, or that wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The events.
    pub columns: Columns,
    /// Position of each event in the request or file, from 1.
    pub numbers: Vec<u64>,
}

/// Number that stands in a digest for the day of a waiting event.
const NO_DAY: i32 = i32::MIN;

/// Events of a batch by the day to which they belong; waiting ones have no day.
pub type Parts = BTreeMap<Option<Day>, Part>;

impl Part {
    /// Takes the events at these rows.
    pub fn take(&self, rows: &[usize]) -> Self {
        Self {
            columns: self.columns.take(rows),
            numbers: rows.iter().map(|row| self.numbers[*row]).collect(),
        }
    }
}

/// Reason for refusing a request. Nothing of it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Some rows are wrong.
    Rows {
        /// First of the faults.
        errors: Vec<RowProblem>,
        /// Number of faults.
        error_count: usize,
    },
    /// The request as a whole is wrong.
    Whole(String),
    /// The request is larger than a limit.
    TooLarge(String),
    /// No memory is left for the decoded request: other requests hold it now.
    NoRoom,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Whole(message) | Refused::TooLarge(message) => f.write_str(message),
            Refused::NoRoom => f.write_str("too much is under way; nothing was stored, try again"),
            Refused::Rows { errors, error_count } => {
                write!(f, "{error_count} bad {}", if *error_count == 1 { "row" } else { "rows" })?;
                match errors.first() {
                    Some(RowProblem { row, field: Some(field), message }) => {
                        write!(f, "; the first: row {row}, `{field}` {message}")
                    }
                    Some(RowProblem { row, field: None, message }) => {
                        write!(f, "; the first: row {row}: {message}")
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for Refused {}

impl Batch {
    /// Number of events.
    pub fn rows(&self) -> usize {
        self.columns.rows
    }

    /// Takes the events at these rows.
    pub fn take(&self, rows: &[usize]) -> Self {
        Self {
            kind: self.kind,
            columns: self.columns.take(rows),
            days: rows.iter().map(|row| self.days[*row]).collect(),
            waits: self.waiting(rows),
            numbers: rows.iter().map(|row| self.numbers[*row]).collect(),
            event_id: self.event_id.clone(),
        }
    }

    /// Returns whether a row waits until the prediction that it judges is found.
    pub fn is_waiting(&self, row: usize) -> bool {
        self.waits.get(row).is_some_and(|waits| *waits)
    }

    /// Returns why a row cannot have been known at its stated instant, as of `now`.
    pub fn not_known(&self, row: usize, at: Timestamp, now: Timestamp) -> Option<RowProblem> {
        let name = self.kind.time_field();
        let own =
            self.columns.column(name).and_then(|column| column.time(row)).and_then(Timestamp::from_micros);
        let message = if self.kind == Kind::Releases {
            "it counts from when it is appended: for release events no known_at can be stated".to_owned()
        } else if self.is_waiting(row) {
            "known_at can be stated only of an outcome that says which prediction it judges: give predicted_at or predicted_on".to_owned()
        } else if at > now {
            format!("known_at is {at}, which is later than now")
        } else {
            let own = own.filter(|own| *own > at)?;
            format!("is {own}, which is later than it was known: known_at is {at}")
        };
        Some(RowProblem { row: self.numbers[row], field: Some(name.into()), message })
    }

    /// Flags of the waiting ones among some rows; empty when none waits.
    fn waiting(&self, rows: &[usize]) -> Vec<bool> {
        match rows.iter().any(|row| self.is_waiting(*row)) {
            true => rows.iter().map(|row| self.is_waiting(*row)).collect(),
            false => Vec::new(),
        }
    }

    /// Splits the events by day, with the waiting ones under no day.
    pub fn into_parts(self) -> Parts {
        let mut rows = BTreeMap::<Option<Day>, Vec<usize>>::new();
        for (row, day) in self.days.iter().enumerate() {
            rows.entry((!self.is_waiting(row)).then_some(*day)).or_default().push(row);
        }
        let all = Part { columns: self.columns, numbers: self.numbers };
        if rows.len() == 1 {
            return rows.into_keys().zip([all]).collect();
        }
        let is_mixed = rows.contains_key(&None);
        let part = |(day, rows): (Option<Day>, Vec<usize>)| {
            let mut part = all.take(&rows);
            if is_mixed {
                let kind = if day.is_none() { Kind::Unmatched } else { self.kind };
                part.columns.columns.retain(|column| kind.may_have(&column.name));
            }
            (day, part)
        };
        rows.into_iter().map(part).collect()
    }

    /// Splits the batch before each row that would add one day too many.
    pub fn by_days(self) -> Vec<Self> {
        let mut ends = Vec::new();
        let mut days = BTreeSet::<Day>::new();
        for (row, day) in self.days.iter().enumerate() {
            if !days.contains(day) {
                if days.len() == MAX_BATCH_DAYS {
                    ends.push(row);
                    days.clear();
                }
                days.insert(*day);
            }
        }
        if ends.is_empty() {
            return vec![self];
        }
        ends.push(self.rows());
        let mut from = 0;
        let part = |to: usize| {
            let rows: Vec<usize> = (from..to).collect();
            from = to;
            let mut part = self.take(&rows);
            let is_required = |name: &str| self.kind.field(name).is_some_and(|field| field.is_required);
            part.columns.columns.retain(|column| column.nulls() < rows.len() || is_required(&column.name));
            part
        };
        ends.into_iter().map(part).collect()
    }

    /// Digest of the events: equal for equal events in any format.
    pub fn digest(&self) -> String {
        // A waiting event has the same digest on any day.
        let day = |row: usize| if self.is_waiting(row) { NO_DAY } else { self.days[row].number() };
        let days: Vec<i32> = (0..self.days.len()).map(day).collect();
        content::digest(self.kind, &self.columns, &days)
    }
}

/// Refuses an idempotency key that is too long, or has a character that is not allowed.
pub(crate) fn check_idempotency_key(key: &str) -> Result<(), Refused> {
    if key.is_empty()
        || key.len() > MAX_IDEMPOTENCY_KEY_BYTES
        || key.bytes().any(|byte| !byte.is_ascii_graphic())
    {
        let message = format!(
            "an idempotency key is 1 to {MAX_IDEMPOTENCY_KEY_BYTES} printable ASCII characters without blanks"
        );
        return Err(Refused::Whole(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use event::{Column, Values, columns::Coded};
    use sha2::{Digest, Sha256};

    use super::*;

    /// Computes the digest by its definition, an entry at a time.
    fn by_definition(batch: &Batch) -> String {
        let mut bytes = batch.kind.letter().as_bytes().to_vec();
        bytes.extend((batch.rows() as u64).to_le_bytes());
        batch.days.iter().for_each(|day| bytes.extend(day.number().to_le_bytes()));
        for column in &batch.columns.columns {
            bytes.extend((column.name.len() as u64).to_le_bytes());
            bytes.extend(column.name.bytes());
            bytes.extend((0..batch.rows()).map(|row| u8::from(column.is_valid(row))));
            for row in 0..batch.rows() {
                match &column.values {
                    Values::Time(values) => bytes.extend(values[row].to_le_bytes()),
                    Values::Float(values) => bytes.extend(values[row].to_le_bytes()),
                    _ => {
                        let text = column.text(row).unwrap_or_default();
                        bytes.extend((text.len() as u32).to_le_bytes());
                        bytes.extend(text.bytes());
                    }
                }
            }
        }
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Digests are stored with batches: they must not change.
    #[test]
    fn batch_digest_stays_stable() {
        let columns = |coded: bool| {
            let texts = |row: usize| if row.is_multiple_of(3) { "north" } else { "süd" };
            let branch = match coded {
                true => Values::Coded(Coded {
                    codes: (0..3000).map(|row| u8::from(row % 3 != 0)).collect(),
                    dictionary: ["north", "süd"].into_iter().collect(),
                }),
                false => Values::Text((0..3000).map(texts).collect()),
            };
            let valid = |n: usize| Some((0..3000).map(|row| row % n != 0).collect());
            let score = (0..3000).map(|row| if row % 7 == 0 { 0.0 } else { row as f64 / 3000.0 }).collect();
            let key: Vec<String> = (0..3000).map(|row| format!("key-{row}")).collect();
            vec![
                Column::new("predicted_at", Values::Time((0..3000).collect())),
                Column::new("key", Values::Text(key.iter().map(String::as_str).collect())),
                Column { valid: valid(7), ..Column::new("score", Values::Float(score)) },
                Column { valid: valid(5), ..Column::new("tag.branch", branch) },
            ]
        };
        let batch = |columns| Batch {
            kind: Kind::Predictions,
            columns: Columns { rows: 3000, columns },
            days: vec!["2013-06-01".parse().unwrap(); 3000],
            waits: Vec::new(),
            numbers: (1..=3000).collect(),
            event_id: None,
        };
        let digest = batch(columns(true)).digest();
        assert_eq!(digest, batch(columns(false)).digest(), "coded or not");
        assert_eq!(digest, by_definition(&batch(columns(false))));
        insta::assert_snapshot!(digest, @"1a689f7b23bf008489d68c9baf3eea7df284850c32480583f359e908eea4e2bb");
    }
}
