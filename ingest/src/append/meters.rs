//! Metrics and log messages of appends.

use std::time::Duration;

use event::Kind;
use log::segment_item::Segment;
use meter::{
    Counter, Gauge, Histogram,
    catalogue::{
        APPEND_COMMIT_BATCHES, APPEND_COMMIT_SECONDS, APPEND_CONFLICTS, APPEND_SEGMENT_BYTES,
        APPEND_SEGMENTS, APPEND_WAITING, INGEST_UNRECORDED,
    },
};

/// Handles of the metrics, for all logs of an appender.
#[derive(Debug)]
pub(super) struct Meters {
    pub(super) waiting: Gauge,
    pub(super) conflicts: Counter,
    /// Appends whose latest values of runs could not be recorded.
    pub(super) unrecorded: Counter,
    seconds: Histogram,
    batches: Histogram,
    /// Counters by the place in [`Kind::STORED`].
    segments: [Counter; Kind::STORED.len()],
    bytes: [Counter; Kind::STORED.len()],
}

impl Default for Meters {
    fn default() -> Self {
        Self {
            waiting: APPEND_WAITING.gauge([]),
            conflicts: APPEND_CONFLICTS.counter([]),
            unrecorded: INGEST_UNRECORDED.counter([]),
            seconds: APPEND_COMMIT_SECONDS.histogram([]),
            batches: APPEND_COMMIT_BATCHES.histogram([]),
            segments: Kind::STORED.map(|kind| APPEND_SEGMENTS.counter([kind.name()])),
            bytes: Kind::STORED.map(|kind| APPEND_SEGMENT_BYTES.counter([kind.name()])),
        }
    }
}

impl Meters {
    /// Records a turn of this many batches together.
    pub(super) fn commit(&self, took: Duration, batches: usize) {
        self.seconds.record(took);
        self.batches.record(batches as f64);
    }

    /// Records a written segment.
    pub(super) fn appended(&self, segment: &Segment) {
        let log = &segment.log;
        let handles = Kind::STORED.iter().zip(self.segments.iter().zip(&self.bytes));
        for (_, (segments, bytes)) in handles.filter(|(kind, _)| **kind == log.kind) {
            segments.increment(1);
            bytes.increment(segment.data.len() as u64);
        }
        tracing::debug!(
            workspace = %log.workspace,
            day = %log.day,
            kind = log.kind.name(),
            lane = log.lane,
            seq = segment.seq,
            rows = segment.rows,
            bytes = segment.data.len(),
            "appended"
        );
    }
}
