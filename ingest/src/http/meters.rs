//! Metrics of appends as clients see them.

use std::time::Duration;

use event::Kind;
use meter::{
    Counter, Histogram,
    catalogue::{APPEND_BATCHES, APPEND_ROWS, APPEND_SECONDS},
};
use web::Problem;

use crate::append::Receipt;

/// Handles of the metrics of one kind of events.
#[derive(Debug)]
pub(super) struct Meters {
    seconds: Histogram,
    stored: Counters,
    replayed: Counters,
    refused: Counters,
    failed: Counter,
}

#[derive(Debug)]
struct Counters {
    batches: Counter,
    rows: Counter,
}

impl Counters {
    fn note(&self, rows: usize) {
        self.batches.increment(1);
        self.rows.increment(rows as u64);
    }
}

impl Meters {
    pub(super) fn new(kind: Kind) -> Self {
        let batches = |outcome| APPEND_BATCHES.counter([kind.name(), outcome]);
        let outcome =
            |name| Counters { batches: batches(name), rows: APPEND_ROWS.counter([kind.name(), name]) };
        Self {
            seconds: APPEND_SECONDS.histogram([kind.name()]),
            stored: outcome("stored"),
            replayed: outcome("replayed"),
            refused: outcome("refused"),
            failed: batches("failed"),
        }
    }

    /// Records a durable batch, and the time that it took.
    pub(super) fn durable(&self, receipt: &Receipt, took: Duration) {
        self.seconds.record(took);
        if receipt.replayed { &self.replayed } else { &self.stored }.note(receipt.rows);
    }

    /// Records a batch that is not stored.
    pub(super) fn not_stored(&self, problem: &Problem) {
        if problem.status().is_server_error() {
            self.failed.increment(1);
        } else {
            self.refused.note(problem.error_count().unwrap_or(0));
        }
    }
}
