//! Columns of each kind and size, from the events of every benchmark.
#![allow(dead_code, reason = "every benchmark uses its own part of this")]

use bench::data::{BRANCHES, Data, LABELS, Outcome, Prediction, RELEASES};
use event::{Column, Columns, Values};

/// Measured sizes, in rows.
pub(crate) const SIZES: [usize; 3] = [1, 100, 10_000];

/// Returns the first `rows` predictions of a day, at most 10,000.
pub(crate) fn predictions(rows: usize) -> Columns {
    columns(&events()[..rows])
}

fn events() -> Vec<Prediction> {
    Data::new(300_000).predictions(3, 0)
}

fn columns(events: &[Prediction]) -> Columns {
    let texts = |text: fn(&Prediction) -> &str| Values::Text(events.iter().map(text).collect());
    let columns = vec![
        Column::new("key", texts(|row| key(&row.key))),
        Column::new("predicted_at", Values::Time(events.iter().map(|row| row.predicted_at).collect())),
        Column::new("release", texts(|row| RELEASES[row.release])),
        Column::new("score", Values::Float(events.iter().map(|row| row.score).collect())),
        Column::new("label", texts(|row| LABELS[row.label()])),
        Column::new("tag.branch", texts(|row| BRANCHES[row.branch])),
    ];
    Columns { rows: events.len(), columns }
}

fn key(key: &[u8; 12]) -> &str {
    std::str::from_utf8(key).expect("letters and digits")
}

/// Returns a day of `rows` predictions and its outcomes, each in segments of 10,000.
pub(crate) fn day(rows: usize) -> (Vec<Columns>, Vec<Columns>) {
    let data = Data::new(rows * bench::data::DAYS);
    let predictions = (0..data.batches_of(3)).map(|batch| columns(&data.predictions(3, batch)));
    let outcomes = data.outcomes(3);
    (predictions.collect(), outcomes.chunks(bench::data::BATCH_ROWS).map(outcome_columns).collect())
}

fn outcome_columns(events: &[Outcome]) -> Columns {
    let labels = events.iter().map(|row| LABELS[usize::from(row.truth.is_positive)]);
    let columns = vec![
        Column::new("key", Values::Text(events.iter().map(|row| key(&row.key)).collect())),
        Column::new("predicted_at", Values::Time(events.iter().map(|row| row.predicted_at).collect())),
        Column::new("observed_at", Values::Time(events.iter().map(|row| row.truth.observed_at).collect())),
        Column::new("label", Values::Text(labels.collect())),
    ];
    Columns { rows: events.len(), columns }
}

/// Removes the instants of outcomes, so that they judge all predictions of their key.
pub(crate) fn without_instant(outcomes: &Columns) -> Columns {
    let columns = outcomes.columns.iter().filter(|column| column.name != "predicted_at").cloned().collect();
    Columns { rows: outcomes.rows, columns }
}
