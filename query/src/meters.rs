//! Metrics of queries.

use std::time::Duration;

use meter::{
    Counter, Histogram,
    catalogue::{QUERY_DECODED_BYTES, QUERY_LEFT_OUT, QUERY_ROWS, QUERY_SECONDS},
};

use crate::{follow, request::Dataset, sql};

/// Reasons why a segment is missing from an answer: it cannot be read, or an operator skipped it.
pub(crate) const WHY_LEFT_OUT: [&str; 2] = [UNREADABLE, SKIPPED];
pub(crate) const UNREADABLE: &str = "unreadable";
pub(crate) const SKIPPED: &str = "skipped";

/// Handles of the metrics, by name of the request.
#[derive(Debug)]
pub(crate) struct Meters(Vec<(&'static str, Histogram, Counter)>);

impl Default for Meters {
    fn default() -> Self {
        // Registers the metrics at 0, before any segment is read or left out.
        drop(QUERY_DECODED_BYTES.counter([]));
        WHY_LEFT_OUT.into_iter().for_each(|why| drop(QUERY_LEFT_OUT.counter([why])));
        let handles = |what| (what, QUERY_SECONDS.histogram([what]), QUERY_ROWS.counter([what]));
        Self(Dataset::all().map(Dataset::name).chain([sql::NAME, follow::NAME]).map(handles).collect())
    }
}

impl Meters {
    /// Counts an answer.
    pub(crate) fn answered(&self, what: &str, took: Duration, rows: usize) {
        for (_, seconds, counted) in self.0.iter().filter(|(known, ..)| *known == what) {
            seconds.record(took);
            counted.increment(rows as u64);
        }
    }
}
