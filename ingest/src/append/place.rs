//! Logs of the events of a batch: each day and kind has its lanes, and each key its lane.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use event::{
    Error, Result,
    lane::{deal, lanes_of_kind},
};
use log::{audit::current, key::LogId, scan, segment_item::Segment};
use table::Table;
use tokio::time::Instant;

use super::{
    look::LOOK_AGAIN,
    meters::Meters,
    off_thread,
    times::{PUT_WITHIN, Times},
};
use crate::batch::Part;

/// Maximum number of remembered lane counts, which never change.
const MAX_KNOWN: usize = 100_000;

/// The events of a batch for one log.
#[derive(Debug)]
pub(super) struct Dealt {
    pub(super) log: LogId,
    pub(super) part: Part,
    /// True if no segment of the log says yet how many lanes its day has, so that one was assumed. It holds if the first of
    /// these events are in its first segment.
    pub(super) is_assumed: bool,
}

/// Lane counts of days.
#[derive(Debug)]
pub(super) struct Places {
    table: Arc<dyn Table>,
    times: Times,
    meters: Arc<Meters>,
    /// Known lane counts, by lane 0.
    known: Mutex<HashMap<LogId, u8>>,
}

impl Places {
    pub(super) fn new(table: Arc<dyn Table>, times: Times, meters: Arc<Meters>) -> Self {
        Self { table, times, meters, known: Mutex::default() }
    }

    /// Deals a part to the lanes of its day, which are to be `wanted` if the day has none yet. `log` is
    /// its lane 0.
    pub(super) async fn deal(&self, log: LogId, part: Part, wanted: u8) -> Result<Vec<Dealt>> {
        let (lanes, is_assumed) = match self.lanes(&log, wanted).await? {
            Some(lanes) => (lanes, false),
            None => (1, true),
        };
        if lanes == 1 {
            return Ok(vec![Dealt { log, part, is_assumed }]);
        }
        let rows = part.columns.rows;
        off_thread(rows, move || {
            let dealt = deal(log.kind, &part.columns, lanes);
            let to_log = |(lane, rows): (u8, Vec<usize>)| Dealt {
                log: LogId { lane, ..log.clone() },
                part: part.take(&rows),
                is_assumed: false,
            };
            dealt.into_iter().map(to_log).collect()
        })
        .await
    }

    /// Returns the number of lanes of a day and kind, as the first segment of its lane 0 says. If there is none and one
    /// lane is wanted, it returns `None`; then a first segment with events will say so. If more are wanted, it puts a first
    /// segment without events.
    async fn lanes(&self, log: &LogId, wanted: u8) -> Result<Option<u8>> {
        // A kind that has only one lane never gets more, so that need not be looked up.
        let wanted = lanes_of_kind(log.kind, wanted);
        if lanes_of_kind(log.kind, u8::MAX) == 1 {
            return Ok(Some(1));
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(log).copied();
        if known.is_some() {
            return Ok(known);
        }
        let looked = Instant::now();
        let first = match scan::first_of(&*self.table, log).await? {
            None if wanted == 1 => return Ok(None),
            None => self.open(log, wanted, looked).await?,
            Some(first) => first,
        };
        let lanes = first.lanes.unwrap_or(1);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(log.clone(), lanes);
        Ok(Some(lanes))
    }

    /// The first segment of a log, put if it is not there; it was not when it was `looked` for.
    async fn open(&self, log: &LogId, lanes: u8, looked: Instant) -> Result<Segment> {
        let now = self.times.for_put(&*self.table).await?;
        if looked.elapsed() >= LOOK_AGAIN {
            return Err(Error::unavailable(format!("{log} was not looked at lately; try again")));
        }
        // It has no event, and must not hide what is stated of those behind it.
        let known_at = current().known_at().map(|at| at.min(now));
        let segment = Segment { known_at, ..Segment::opening(log.clone(), lanes, now)? };
        match self.table.put_new(vec![segment.to_item()], PUT_WITHIN).await.1 {
            Ok(()) => {
                self.meters.appended(&segment);
                Ok(segment)
            }
            Err(error) if error.is_conflict() => {
                let first = scan::first_of(&*self.table, log).await?;
                first.ok_or_else(|| Error::unavailable(format!("{log} is being deleted; try again")))
            }
            Err(error) => Err(error),
        }
    }
}
