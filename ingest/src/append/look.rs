//! State of a log in memory, and the search for rows of a batch that are stored already.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use event::{Error, ErrorKind, Result, Timestamp};
use log::{
    batch::BatchId,
    key::{self, LogId},
    scan,
    segment_item::{SUMMARY, Segment},
};
use table::{Pages, Query, Table};
use tokio::time::Instant;

use super::{
    pack::{Entry, Look},
    recent::{Budget, Recent, Seen},
};
use crate::limits::REPEAT_SECONDS;

/// Maximum rows whose segments are read in a row to see the appends of other writers.
const MAX_CATCH_UP_ROWS: usize = 500_000;

/// Time for which the seen end of a log is trusted.
const FRESH: Duration = Duration::from_secs(1);

/// Time for which a writer may put behind the head that it has seen before it reads the end again. A segment that is merged
/// meanwhile was not the head for longer than that ([`log::merged::QUIET`]), so its number is never taken for a free one.
pub(super) const LOOK_AGAIN: Duration = log::merged::LOOK_AGAIN;

/// Number of segments read back at once.
const BACK_SEGMENTS: usize = 100;

/// Rows of an entry that are not in a log.
pub(super) enum Missing {
    /// None: all rows are there.
    Nothing,
    /// Rows from this one on.
    From(usize),
    /// These rows.
    Rows(Vec<usize>),
}

/// State of the log in memory. Its lock keeps the appends of this process in line.
#[derive(Debug, Default)]
pub(super) struct LogState {
    /// Batches of all segments from some segment on up to the last known one.
    pub(super) recent: Option<Recent>,
    /// Number of the last segment.
    pub(super) head: u64,
    /// Time at which it was appended.
    last_at: Timestamp,
    /// Time at which its events were known.
    pub(super) last_known: Timestamp,
    /// True if there may be more segments than `head`, written by this process itself.
    pub(super) is_doubtful: bool,
    /// Time at which certainly nothing stood behind `head`.
    pub(super) looked: Option<Instant>,
    /// Size and time of the last group commit.
    pub(super) last: Option<(usize, Instant)>,
}

impl LogState {
    /// Time of the log at clock time `now`: it never goes back.
    pub(super) fn time(&self, now: Timestamp) -> Timestamp {
        now.max(self.last_at)
    }

    /// Returns whether the head was read recently enough to put a segment behind it.
    pub(super) fn is_fresh(&self) -> bool {
        self.looked.is_some_and(|looked| looked.elapsed() < LOOK_AGAIN)
    }

    /// Adds the segment behind the last one. A read that came too early may see a later one first: the segments before it are
    /// there as well, and will be read.
    pub(super) fn note(&mut self, segment: &Segment) {
        if segment.seq != self.head + 1 {
            return;
        }
        self.head = segment.seq;
        self.last_at = self.last_at.max(segment.appended_at);
        self.last_known = self.last_known.max(segment.known());
        let limit = repeats_after(self.last_at);
        if let Some(recent) = &mut self.recent {
            recent.note(segment, limit);
        }
    }
}

/// Earliest time of append of a batch without a key that counts as the same batch when it comes again at `now`.
fn repeats_after(now: Timestamp) -> Timestamp {
    now.plus_seconds(-REPEAT_SECONDS)
}

/// Reader of a log, for the writer whose turn it is.
#[derive(Debug)]
pub(super) struct LogReader {
    pub(super) id: LogId,
    pub(super) table: Arc<dyn Table>,
    /// Segment of the log, and the time at which it was the last one.
    bound: Mutex<Option<(u64, Instant)>>,
    budget: Budget,
}

impl LogReader {
    pub(super) fn new(id: LogId, table: Arc<dyn Table>, budget: Budget) -> Self {
        Self { id, table, bound: Mutex::default(), budget }
    }

    /// Reads a segment behind which every later append stands, or 0.
    pub(super) async fn bound(&self) -> Result<u64> {
        let known = *self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seq, _)) = known.filter(|(_, seen)| seen.elapsed() < FRESH) {
            return Ok(seq);
        }
        let seq = scan::head(&*self.table, &self.id).await?;
        self.set_bound(seq);
        Ok(seq)
    }

    pub(super) fn set_bound(&self, seq: u64) {
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner) = Some((seq, Instant::now()));
    }

    /// Begins to remember segments behind the last one.
    async fn start(&self, state: &mut LogState) -> Result<()> {
        let mut query = Query::table(key::segments_from(&self.id, 0)).backward().limit(1).only(SUMMARY);
        let last = loop {
            let page = self.table.query(&query).await?;
            match (page.items.into_iter().next(), page.next) {
                (Some(item), _) => break Some(Segment::from_item(item)?),
                // A page may be empty and yet not be the last.
                (None, Some(next)) => query.after = Some(next),
                (None, None) => break None,
            }
        };
        state.head = last.as_ref().map_or(0, |last| last.seq);
        let mut recent = Recent::new(state.head + 1, self.budget.clone());
        if let Some(last) = &last {
            state.last_at = state.last_at.max(last.appended_at);
            state.last_known = state.last_known.max(last.known());
            recent.note_time_before(last);
        }
        state.recent = Some(recent);
        Ok(())
    }

    /// Reads the segments behind the last known one.
    pub(super) async fn catch_up(&self, state: &mut LogState) -> Result<()> {
        let looked = Instant::now();
        if state.recent.is_none() {
            self.start(state).await?;
            (state.is_doubtful, state.looked) = (false, Some(looked));
            self.set_bound(state.head);
            return Ok(());
        }
        let mut query = Query::table(key::segments_from(&self.id, state.head + 1)).only(SUMMARY);
        let mut read = 0;
        loop {
            let page = self.table.query(&query).await?;
            for item in page.items {
                let segment = Segment::from_item(item)?;
                read += segment.rows;
                state.note(&segment);
            }
            match page.next {
                None => break,
                Some(_) if read >= MAX_CATCH_UP_ROWS => {
                    // Other writers have appended many: their segments are looked up only where it matters.
                    self.start(state).await?;
                    query = Query::table(key::segments_from(&self.id, state.head + 1)).only(SUMMARY);
                    read = 0;
                }
                Some(next) => query.after = Some(next),
            }
        }
        (state.is_doubtful, state.looked) = (false, Some(looked));
        self.set_bound(state.head);
        Ok(())
    }

    /// Finds the rows of an entry that are not in the log, whose time is `now`.
    pub(super) async fn missing(
        &self,
        state: &mut LogState,
        entry: &Entry,
        now: Timestamp,
    ) -> Result<Missing> {
        if let (Some(indexes), Look::Behind(after)) = (&entry.indexes, entry.look) {
            let stored = self.indexes_behind(state, entry.batch, after).await?;
            let is_missing = |row: &usize| !stored.contains(&indexes[*row]);
            let missing: Vec<usize> = (0..indexes.len()).filter(is_missing).collect();
            return Ok(match missing.len() {
                0 => Missing::Nothing,
                all if all == indexes.len() => Missing::From(0),
                _ => Missing::Rows(missing),
            });
        }
        let stored = self.stored(state, entry, now).await?;
        Ok(if stored < entry.columns.rows { Missing::From(stored) } else { Missing::Nothing })
    }

    /// Counts the rows of an entry, from the first on, that are in the log, whose time is `now`.
    pub(super) async fn stored(&self, state: &mut LogState, entry: &Entry, now: Timestamp) -> Result<usize> {
        let limit = repeats_after(now);
        match entry.look {
            Look::Behind(after) => self.stored_behind(state, entry, after).await,
            Look::Lately => {
                self.read_back(state, limit).await?;
                Ok(seen(state, entry).filter(|seen| seen.at > limit).map_or(0, |seen| seen.rows))
            }
            Look::Nowhere => Ok(seen(state, entry).map_or(0, |seen| seen.rows)),
        }
    }

    /// Counts the rows of an entry that are in the log behind a segment.
    async fn stored_behind(&self, state: &LogState, entry: &Entry, after: u64) -> Result<usize> {
        let known_from = state.recent.as_ref().map_or(0, Recent::from);
        // Under one key a batch may have been stored before that segment as well.
        let mut stored = seen(state, entry).filter(|seen| seen.since > after).map_or(0, |seen| seen.rows);
        if after + 1 < known_from && stored < entry.columns.rows {
            let range = key::segments_between(&self.id, after + 1, known_from - 1);
            let mut query = Query::table(range).only(SUMMARY);
            loop {
                let page = self.table.query(&query).await?;
                for item in page.items {
                    let parts = Segment::from_item(item)?.batches;
                    let parts = parts.iter().filter(|part| part.batch == entry.batch);
                    stored = parts.map(|part| part.first + part.rows).fold(stored, usize::max);
                }
                match page.next {
                    Some(next) if stored < entry.columns.rows => query.after = Some(next),
                    _ => break,
                }
            }
        }
        Ok(stored)
    }

    /// Finds the rows of a chunk that are in the log behind a segment.
    async fn indexes_behind(&self, state: &LogState, batch: BatchId, after: u64) -> Result<BTreeSet<u32>> {
        let recent = state.recent.as_ref();
        let seen = recent.and_then(|recent| recent.get(batch));
        let (from, to) = match (recent.is_some_and(|recent| recent.from() <= after + 1), seen) {
            (true, None) => return Ok(BTreeSet::new()),
            (true, Some(seen)) => (seen.since.max(after + 1), seen.seq),
            (false, _) => (after + 1, state.head),
        };
        let mut stored = BTreeSet::new();
        if from > to {
            return Ok(stored);
        }
        let query = Query::table(key::segments_between(&self.id, from, to)).only(SUMMARY);
        let mut pages = Pages::of(&*self.table, query);
        while let Some(items) = pages.next().await? {
            for item in items {
                let segment = Segment::from_item(item)?;
                let parts = segment.parts().filter(|(part, _)| part.batch == batch);
                stored.extend(parts.flat_map(|(_, indexes)| indexes));
            }
        }
        Ok(stored)
    }

    /// Reads the log backwards until all segments appended after `limit` are known.
    async fn read_back(&self, state: &mut LogState, limit: Timestamp) -> Result<()> {
        let Some(recent) = state.recent.as_mut() else { return Ok(()) };
        if recent.reaches(limit) {
            return Ok(());
        }
        let range = key::segments_between(&self.id, 1, recent.from().saturating_sub(1));
        let mut query = Query::table(range).only(SUMMARY).backward().limit(BACK_SEGMENTS);
        while !recent.reaches(limit) {
            if self.budget.is_full() {
                return Err(Error::new(ErrorKind::Throttled, too_many(&self.id)));
            }
            let page = self.table.query(&query).await?;
            for item in page.items {
                let segment = Segment::from_item(item)?;
                if segment.appended_at <= limit {
                    recent.note_time_before(&segment);
                    break;
                }
                recent.note_before(&segment);
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        Ok(())
    }
}

fn seen(state: &LogState, entry: &Entry) -> Option<Seen> {
    state.recent.as_ref().and_then(|recent| recent.get(entry.batch))
}

fn too_many(log: &LogId) -> String {
    format!(
        "more batches came to {log} within {} minutes than can be compared with one that has no key; \
         send it with an Idempotency-Key, or later",
        REPEAT_SECONDS / 60
    )
}
