//! Metrics of folding and evaluating. The counts of a worker about itself are in its [`Health`](crate::Health), for the service
//! to expose.

use std::time::Duration;

use event::Kind;
use meter::{
    Counter, Histogram,
    catalogue::{
        PROJECTOR_DECODED_BYTES, PROJECTOR_DELIVERIES, PROJECTOR_EVALUATION_SECONDS, PROJECTOR_FOLD_SECONDS,
        PROJECTOR_MERGED, PROJECTOR_MERGED_AWAY, PROJECTOR_ROWS, PROJECTOR_UNRECORDED,
    },
};

use crate::{caught, day::Taken, deliver::Outcome};

/// Handles of the metrics.
#[derive(Debug)]
pub(crate) struct Meters {
    fold: Histogram,
    evaluation: Histogram,
    /// Counters by the place in [`Kind::ALL`].
    rows: [Counter; Kind::ALL.len()],
    bytes: Counter,
    pub(crate) unrecorded: Counter,
    /// Merged items that were written.
    pub(crate) merged: Counter,
    /// Items that were deleted, since merged items hold their segments.
    pub(crate) merged_away: Counter,
    /// Deliveries: accepted, failed, given up.
    deliveries: [Counter; 3],
    /// Counter of panics, which is incremented elsewhere; held here so that it is exposed from the start.
    _panics: Counter,
}

impl Default for Meters {
    fn default() -> Self {
        Self {
            fold: PROJECTOR_FOLD_SECONDS.histogram([]),
            evaluation: PROJECTOR_EVALUATION_SECONDS.histogram([]),
            rows: Kind::ALL.map(|kind| PROJECTOR_ROWS.counter([kind.name()])),
            bytes: PROJECTOR_DECODED_BYTES.counter([]),
            unrecorded: PROJECTOR_UNRECORDED.counter([]),
            merged: PROJECTOR_MERGED.counter([]),
            merged_away: PROJECTOR_MERGED_AWAY.counter([]),
            deliveries: ["delivered", "failed", "given_up"]
                .map(|outcome| PROJECTOR_DELIVERIES.counter([outcome])),
            _panics: caught::count(),
        }
    }
}

impl Meters {
    /// Records a folded day.
    pub(crate) fn folded(&self, taken: &Taken, took: Duration) {
        self.fold.record(took);
        self.bytes.increment(taken.bytes);
        for (kind, counter) in Kind::ALL.iter().zip(&self.rows) {
            counter.increment(taken.rows.get(kind).copied().unwrap_or(0));
        }
    }

    /// Records the result of posts.
    pub(crate) fn posted(&self, outcome: Outcome) {
        let Outcome { delivered, failed, given_up } = outcome;
        for (counter, count) in self.deliveries.iter().zip([delivered, failed, given_up]) {
            counter.increment(count);
        }
    }

    /// Records an evaluated day.
    pub(crate) fn evaluated(&self, took: Duration) {
        self.evaluation.record(took);
    }
}
