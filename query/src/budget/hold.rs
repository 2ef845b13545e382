//! What one query holds: it counts more, and less, and ends when nobody waits for the answer.

use std::sync::{Arc, atomic::Ordering};

use event::{Error, Result};
use tokio::time::timeout;

use super::{Budget, Full, Hold, LEAST_ROW_BYTES, Own, Wanted, not_whole};
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
                let own = taken.own(self.0.number);
                let after = Own { held: own.held.saturating_add(bytes), ..own };
                if after.held > shared.bounds.memory {
                    return Err(Full::TooLarge { bytes: after.held });
                }
                if after.held > self.0.most.load(Ordering::Relaxed) {
                    return Err(Full::NotWhole);
                }
                let more = after.counts() - own.counts();
                if taken.bytes.saturating_add(more) <= shared.bounds.memory {
                    taken.set(self.0.number, after);
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
        self.grow(bytes).await.map_err(|full| self.0.budget.refusal(full))
    }

    /// Counts `bytes` and no more; what is too much is the error of the query.
    pub(crate) async fn settle(&self, bytes: u64) -> Result<()> {
        let own = self.0.budget.0.taken().own(self.0.number).held;
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
        let own = taken.own(self.0.number);
        taken.set(self.0.number, Own { held: own.held.saturating_sub(bytes), ..own });
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

    pub(crate) fn budget(&self) -> &Budget {
        &self.0.budget
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
