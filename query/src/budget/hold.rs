//! What one query holds: it counts more, and less, and ends when nobody waits for the answer.

use std::sync::{Arc, atomic::Ordering};

use event::{Error, Result};
use tokio::time::timeout;

use super::{Full, Hold, LEAST_ROW_BYTES, Wanted, in_words, not_whole};
use crate::explain::{Step, Tally, Timed};

impl Hold {
    /// Counts `bytes` more, when there is room for them, or as soon as there is.
    pub(crate) async fn grow(&self, bytes: u64) -> Result<(), Full> {
        let bounds = &self.0.budget.0.bounds;
        timeout(bounds.wait, self.grow_when_free(bytes)).await.unwrap_or(Err(Full::Busy))
    }

    async fn grow_when_free(&self, bytes: u64) -> Result<(), Full> {
        let shared = &self.0.budget.0;
        loop {
            let freed = shared.freed.notified();
            tokio::pin!(freed);
            // Noted before looking, so that nothing is freed unseen in between.
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

    /// Counts `bytes` more, as [`Hold::grow`] does; what is too much is the error of the query.
    pub(crate) async fn take(&self, bytes: u64) -> Result<()> {
        self.grow(bytes).await.map_err(|full| self.refusal(full))
    }

    /// How many bytes it may hold, when the other queries hold none.
    pub(crate) fn memory(&self) -> u64 {
        self.0.memory
    }

    /// The error of one whose answer is too large or comes at a bad time.
    pub(crate) fn refusal(&self, full: Full) -> Error {
        match full {
            Full::Busy => self.0.budget.busy(),
            Full::TooLarge { bytes } => self.too_large(&format!("it holds {} so far", in_words(bytes))),
            Full::NotWhole => not_whole(),
        }
    }

    /// The error of one who asks for more than there may ever be; `so_far` says what was done.
    pub(crate) fn too_large(&self, so_far: &str) -> Error {
        let (memory, all) = (self.0.memory, self.0.budget.0.bounds.memory);
        self.0.budget.0.too_large.increment(1);
        let whose = if memory == all { "all queries" } else { "the queries of one caller" };
        Error::too_large(format!(
            "this query takes more than the {} that {whose} may hold together: {so_far}; ask for fewer days, for one release or for fewer columns, or give `almanac up`, or the command that asks, a larger --query-memory",
            in_words(memory)
        ))
    }

    /// Counts `bytes` and no more; what is too much is the error of the query.
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

    /// From now on it holds no more than an answer that is made as a whole. When all rows that are read are in the answer,
    /// it reads no more of them than such an answer has, so that this is known before they are unpacked.
    pub(crate) fn stay_whole(&self, has_all_rows: bool) {
        let bounds = &self.0.budget.0.bounds;
        let most = bounds.whole.min(bounds.memory / 2);
        self.0.most.store(most, Ordering::Relaxed);
        if has_all_rows {
            self.0.rows_left.store(most / LEAST_ROW_BYTES, Ordering::Relaxed);
        }
    }

    /// Counts rows before they are unpacked. Fails when an answer that is made as a whole has not so many.
    pub(crate) fn read_rows(&self, rows: u64) -> Result<()> {
        let less = |left: u64| (left != u64::MAX).then(|| left.saturating_sub(rows));
        match self.0.rows_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(left) if left < rows => Err(not_whole()),
            _ => Ok(()),
        }
    }

    /// Whether an answer that is made as a whole has not so many rows.
    pub(crate) fn has_no_room_for(&self, rows: u64) -> bool {
        rows > self.0.rows_left.load(Ordering::Relaxed)
    }

    /// It is read as a whole, and may hold again what any query may.
    pub(crate) fn may_grow(&self) {
        self.0.most.store(u64::MAX, Ordering::Relaxed);
        self.0.rows_left.store(u64::MAX, Ordering::Relaxed);
    }

    /// The answer is made: it waits for its client only, and does not grow any more.
    pub(crate) fn made(&self) {
        self.0.budget.0.taken().growing.remove(&self.0.number);
        self.0.budget.0.freed.notify_waiters();
    }

    /// Whether the client has gone.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }

    /// Fails when the client has gone.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::unavailable("the query was broken off")) } else { Ok(()) }
    }

    /// Counts rows that are judged again for intervals. Fails when these are too many for one query, or the client has
    /// gone.
    pub(crate) fn draw(&self, rows: u64) -> Result<()> {
        self.check()?;
        let most = self.0.budget.0.bounds.drawn;
        if self.0.drawn.fetch_add(rows, Ordering::Relaxed).saturating_add(rows) <= most {
            return Ok(());
        }
        self.0.budget.0.too_large.increment(1);
        Err(Error::too_large(format!(
            "the intervals of this query take more than {most} predictions, drawn again and again; ask for fewer days, for a longer --group-by or without --interval"
        )))
    }

    /// What cancels it when it is dropped.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted(self.clone())
    }

    /// What counts for an explanation, when one was asked for.
    pub(crate) fn tally(&self) -> Option<&Arc<Tally>> {
        self.0.budget.1.as_ref()
    }

    /// Begins a step of what is explained, which lasts until it is dropped.
    pub(crate) fn step(&self, step: Step) -> Option<Timed> {
        self.0.budget.step(step)
    }
}
