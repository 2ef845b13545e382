//! A batch: the events of one request, checked and in columns.

use std::{collections::BTreeMap, fmt::Write as _};

use sha2::{Digest, Sha256};
use store::{Column, Columns, Day, Kind, Values};
use web::RowProblem;

/// Events of one kind that are appended together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// What they are.
    pub kind: Kind,
    /// The events.
    pub columns: Columns,
    /// The day that each of them belongs to.
    pub days: Vec<Day>,
    /// Where each of them stood in the request or file, from 1.
    pub numbers: Vec<u64>,
    /// The id that the event gives itself, when it came alone. It is not stored.
    pub event_id: Option<String>,
}

/// The events of a batch that belong to one day.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The events.
    pub columns: Columns,
    /// Where each of them stood in the request or file, from 1.
    pub numbers: Vec<u64>,
}

/// Why a request was refused. Nothing of it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Some rows are wrong.
    Rows {
        /// The first of them.
        errors: Vec<RowProblem>,
        /// How many there are.
        error_count: usize,
    },
    /// The request as a whole is wrong.
    Whole(String),
    /// The request is larger than a limit.
    TooLarge(String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Whole(message) | Refused::TooLarge(message) => f.write_str(message),
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
    /// How many events there are.
    pub fn rows(&self) -> usize {
        self.columns.rows
    }

    /// The events at these rows.
    pub fn take(&self, rows: &[usize]) -> Self {
        Self {
            kind: self.kind,
            columns: self.columns.take(rows),
            days: rows.iter().map(|row| self.days[*row]).collect(),
            numbers: rows.iter().map(|row| self.numbers[*row]).collect(),
            event_id: self.event_id.clone(),
        }
    }

    /// The events of each day.
    pub fn into_parts(self) -> BTreeMap<Day, Part> {
        let mut rows = BTreeMap::<Day, Vec<usize>>::new();
        for (row, day) in self.days.iter().enumerate() {
            rows.entry(*day).or_default().push(row);
        }
        if rows.len() == 1 {
            let (columns, numbers) = (self.columns, self.numbers);
            return rows.into_keys().zip([Part { columns, numbers }]).collect();
        }
        let part = |rows: Vec<usize>| Part {
            columns: self.columns.take(&rows),
            numbers: rows.iter().map(|row| self.numbers[*row]).collect(),
        };
        rows.into_iter().map(|(day, rows)| (day, part(rows))).collect()
    }

    /// A digest of the events: equal for equal events, whatever format they came in.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(self.kind.letter());
        hasher.update((self.rows() as u64).to_le_bytes());
        for day in &self.days {
            hasher.update(day.number().to_le_bytes());
        }
        for column in &self.columns.columns {
            digest_column(&mut hasher, column);
        }
        hasher.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            _ = write!(text, "{byte:02x}");
            text
        })
    }
}

fn digest_column(hasher: &mut Sha256, column: &Column) {
    hasher.update((column.name.len() as u64).to_le_bytes());
    hasher.update(&column.name);
    let valid: Vec<u8> = (0..column.values.len()).map(|row| u8::from(column.is_valid(row))).collect();
    hasher.update(&valid);
    let bytes: Vec<u8> = match &column.values {
        Values::Time(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Values::Float(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Values::Text(_) | Values::Coded(_) => {
            let texts = (0..column.values.len()).map(|row| column.text(row).unwrap_or_default());
            texts.flat_map(|text| (text.len() as u32).to_le_bytes().into_iter().chain(text.bytes())).collect()
        }
    };
    hasher.update(&bytes);
}
