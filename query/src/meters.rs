//! What is measured of queries.

use std::time::Duration;

use meter::{
    Counter, Histogram,
    catalogue::{QUERY_DECODED_BYTES, QUERY_ROWS, QUERY_SECONDS},
};

use crate::request::What;

/// Handles of the metrics, by what is asked for.
#[derive(Debug)]
pub(crate) struct Meters(Vec<(What, Histogram, Counter)>);

impl Default for Meters {
    fn default() -> Self {
        // So that it is there, at 0, before any segment is read.
        drop(QUERY_DECODED_BYTES.counter([]));
        let handles =
            |what: What| (what, QUERY_SECONDS.histogram([what.name()]), QUERY_ROWS.counter([what.name()]));
        Self(What::all().map(handles).collect())
    }
}

impl Meters {
    /// Notes an answer.
    pub(crate) fn answered(&self, what: What, took: Duration, rows: usize) {
        for (_, seconds, counted) in self.0.iter().filter(|(known, ..)| *known == what) {
            seconds.record(took);
            counted.increment(rows as u64);
        }
    }
}
