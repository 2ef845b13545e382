//! Appending decided outcomes: those whose judged prediction was found, and the answers of reviewers.

use std::collections::BTreeMap;

use event::{Id, Result};
use log::{
    batch::BatchId,
    key::{DecisionId, LogId, ReviewItemId},
};

use super::{Appender, Job, Remember, identity, off_thread, pack::Look};
use crate::batch::Batch;

impl Appender {
    /// Reads, for each log that the outcomes of a decision go to, a segment that stands before any of them, for a decision still
    /// to be made.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn bounds_of_decided(
        &self,
        workspace: &Id,
        lanes: u8,
        outcomes: Batch,
    ) -> Result<BTreeMap<LogId, u64>> {
        let to = (outcomes.kind, lanes, self.times.now().day());
        let dealt = self.deal(workspace, to, outcomes.into_parts()).await?;
        self.bounds(&dealt).await
    }

    /// Appends the missing outcomes of a decision, which are always the same, and returns the number of appended rows. `after`
    /// names, for each log known at the time of the decision, a segment that stands before any of them.
    ///
    /// # Errors
    /// Errors of the table. After an error the same call may be made again.
    pub async fn append_decided(
        &self,
        workspace: &Id,
        lanes: u8,
        (id, outcomes): (&DecisionId, Batch),
        after: &BTreeMap<LogId, u64>,
    ) -> Result<usize> {
        self.append_under(workspace, lanes, (identity::of_decision(id), outcomes), after).await
    }

    /// Appends the outcome of an answer, unless it is there, and returns the number of appended rows. `after` is as in
    /// [`Appender::append_decided`].
    ///
    /// # Errors
    /// As [`Appender::append_decided`].
    pub async fn append_answer(
        &self,
        id: &ReviewItemId,
        lanes: u8,
        outcome: Batch,
        after: &BTreeMap<LogId, u64>,
    ) -> Result<usize> {
        self.append_under(&id.workspace, lanes, (identity::of_answer(id), outcome), after).await
    }

    async fn append_under(
        &self,
        workspace: &Id,
        lanes: u8,
        (batch, outcomes): (BatchId, Batch),
        after: &BTreeMap<LogId, u64>,
    ) -> Result<usize> {
        let (kind, rows, now) = (outcomes.kind, outcomes.rows(), self.times.now());
        let parts = off_thread(rows, move || outcomes.into_parts()).await?;
        let (digest, remember) = (String::new(), Remember::Forever);
        let job = Job { workspace, kind, lanes, digest, remember, now, arrival: now.day() };
        let dealt = self.deal(workspace, job.to(), parts).await?;
        let look = |log: &LogId| Look::Behind(after.get(log).copied().unwrap_or(0));
        Ok(self.store(&job, batch, dealt, &look).await?.rows)
    }
}
