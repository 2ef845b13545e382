//! The memory and the cancellation of one query.

use std::sync::{Arc, atomic::Ordering};

use event::{Error, Result};
use tokio::time::timeout;

use super::{Full, Hold, LEAST_ROW_BYTES, Wanted, in_words, not_whole};
use crate::explain::{Step, Tally, Timed};

impl Hold {
    /// Counts `bytes` more as soon as there is room for them.
    pub(crate) async fn grow(&self, bytes: u64) -> Result<(), Full> {
        let bounds = &self.0.budget.0.bounds;
        timeout(bounds.wait, self.grow_when_free(bytes)).await.unwrap_or(Err(Full::Busy))
    }

    async fn grow_when_free(&self, bytes: u64) -> Result<(), Full> {
        let shared = &self.0.budget.0;
        loop {
            let freed = shared.freed.notified();
            tokio::pin!(freed);
            // Enabled before the check, so that no notification in between is missed.
            freed.as_mut().enable();
            {
                let mut taken = shared.taken();
                let Some(own) = taken.by.get(&self.0.number) else { return Err(Full::Busy) };
                let held = own.held.saturating_add(bytes);
                if held > self.0.memory {
                    return Err(Full::TooLarge { bytes: held });
                }
                if held > self.0.most.load(Ordering::Relaxed) {
                    return Err(Full::NotWhole);
                }
                let more = held.max(own.kept) - own.counts();
                let others = taken.by.values().map(|own| (&own.share, own.counts()));
                if more == 0 || own.share.has_room((shared.bounds.memory, 0), more, others) {
                    taken.set(self.0.number, |own| own.held = held);
                    shared.note(&taken);
                    return Ok(());
                }
                if !self.0.is_stream && taken.growing.first() != Some(&self.0.number) {
                    return Err(Full::Busy);
                }
            }
            freed.await;
        }
    }

    /// Counts `bytes` more, as [`Hold::grow`] does, and maps a refusal to the error of the query.
    pub(crate) async fn take(&self, bytes: u64) -> Result<()> {
        self.grow(bytes).await.map_err(|full| self.refusal(full))
    }

    /// Returns the bytes that it may hold while no other query holds any.
    pub(crate) fn memory(&self) -> u64 {
        self.0.memory
    }

    /// Returns the error of a query whose answer is too large or has no room now.
    pub(crate) fn refusal(&self, full: Full) -> Error {
        match full {
            Full::Busy => self.0.budget.busy(),
            Full::TooLarge { bytes } => self.too_large(&format!("it holds {} so far", in_words(bytes))),
            Full::NotWhole => not_whole(),
        }
    }

    /// Returns the error of a query over the limit; `so_far` describes its progress.
    pub(crate) fn too_large(&self, so_far: &str) -> Error {
        let (memory, all) = (self.0.memory, self.0.budget.0.bounds.memory);
        self.0.budget.0.too_large.increment(1);
        let whose = if memory == all { "all queries" } else { "the queries of one caller" };
        Error::too_large(format!(
            "this query takes more than the {} that {whose} may hold together: {so_far}; ask for fewer days, for one release or for fewer columns, or give `almanac up`, or the command that asks, a larger --query-memory",
            in_words(memory)
        ))
    }

    /// Sets the count to `bytes`; a refusal is the error of the query.
    pub(crate) async fn settle(&self, bytes: u64) -> Result<()> {
        let own = self.0.budget.0.taken().held(self.0.number);
        match bytes.checked_sub(own) {
            Some(more) => self.take(more).await,
            None => {
                self.shrink(own - bytes);
                Ok(())
            }
        }
    }

    /// Counts `bytes` less.
    pub(crate) fn shrink(&self, bytes: u64) {
        let shared = &self.0.budget.0;
        let mut taken = shared.taken();
        taken.set(self.0.number, |own| own.held = own.held.saturating_sub(bytes));
        shared.note(&taken);
        drop(taken);
        shared.freed.notify_waiters();
    }

    /// Limits the query to the size of an answer that is made as a whole. If all rows read are in the answer, the number of rows
    /// is limited too, so that an excess is known before they are unpacked.
    pub(crate) fn stay_whole(&self, has_all_rows: bool) {
        let bounds = &self.0.budget.0.bounds;
        let most = bounds.whole.min(bounds.memory / 2);
        self.0.most.store(most, Ordering::Relaxed);
        if has_all_rows {
            self.0.rows_left.store(most / LEAST_ROW_BYTES, Ordering::Relaxed);
        }
    }

    /// Counts rows before they are unpacked. Fails if they exceed the rows of an answer that is made as a whole.
    pub(crate) fn read_rows(&self, rows: u64) -> Result<()> {
        let less = |left: u64| (left != u64::MAX).then(|| left.saturating_sub(rows));
        match self.0.rows_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(left) if left < rows => Err(not_whole()),
            _ => Ok(()),
        }
    }

    /// Returns true if these rows exceed the rows of an answer that is made as a whole.
    pub(crate) fn has_no_room_for(&self, rows: u64) -> bool {
        rows > self.0.rows_left.load(Ordering::Relaxed)
    }

    /// Lifts the limit of [`Hold::stay_whole`]: the answer is read as a whole.
    pub(crate) fn may_grow(&self) {
        self.0.most.store(u64::MAX, Ordering::Relaxed);
        self.0.rows_left.store(u64::MAX, Ordering::Relaxed);
    }

    /// Marks the answer as made: it waits for its client only, and does not grow any more.
    pub(crate) fn made(&self) {
        self.0.budget.0.taken().growing.remove(&self.0.number);
        self.0.budget.0.freed.notify_waiters();
    }

    /// Returns true if the client has gone.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }

    /// Fails if the client has gone.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::unavailable("the query was broken off")) } else { Ok(()) }
    }

    /// Counts rows that are evaluated again for intervals. Fails if they exceed the limit of one query, or the client has gone.
    pub(crate) fn draw(&self, rows: u64) -> Result<()> {
        self.check()?;
        let most = self.0.budget.0.bounds.drawn;
        if self.0.drawn.fetch_add(rows, Ordering::Relaxed).saturating_add(rows) <= most {
            return Ok(());
        }
        self.0.budget.0.too_large.increment(1);
        Err(Error::too_large(format!(
            "the intervals of this query take more than {most} predictions, drawn again and again; ask for fewer days, for a longer --period or without --interval"
        )))
    }

    /// Returns a handle that cancels the query when it is dropped.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted(self.clone())
    }

    /// Returns the counters of an explanation, if one was requested.
    pub(crate) fn tally(&self) -> Option<&Arc<Tally>> {
        self.0.budget.1.as_ref()
    }

    /// Begins a step of an explanation, which lasts until the result is dropped.
    pub(crate) fn step(&self, step: Step) -> Option<Timed> {
        self.0.budget.step(step)
    }
}
