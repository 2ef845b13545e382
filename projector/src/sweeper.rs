//! When to sweep: at the start, after gaps, when a workspace's active version changes, and now and
//! then by the one worker that has the lease of it.

use std::{mem::take, time::Duration};

use store::{Id, Result, counted};
use tokio::time::Instant;

use crate::{
    WorkspaceDay, board,
    counters::move_old,
    dlq::{self, State},
    expire::expire,
    lease::SWEEP,
    project::record_segment,
    sweep::sweep,
    worker::{Shared, add, lock, may_pass},
};

/// How long to wait after a failure of the table.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// From how many hours on a clock that is ahead of the table's time is told of.
const TOLERATED_HOURS: i64 = 24;

/// A sweep that is to be made.
#[derive(Debug)]
pub(crate) struct Request {
    /// What it holds back until everything it found is written.
    mark: u64,
    /// Only this workspace; all when `None`.
    workspace: Option<Id>,
}

impl Shared {
    /// Asks for a sweep of a workspace, or of all; returns its mark.
    pub(crate) fn ask_for_sweep(&self, workspace: Option<Id>) -> u64 {
        let mark = self.schedule().hold();
        lock(&self.requests).push(Request { mark, workspace });
        self.sweep.notify_one();
        mark
    }

    /// Says when this clock is far ahead of the time by which expired days are deleted.
    async fn compare_clocks(&self) -> Result<()> {
        let Some(time) = counted::load(&*self.table).await? else { return Ok(()) };
        let hours = (self.now().micros() - time.at.micros()) / 3_600_000_000;
        if hours >= TOLERATED_HOURS {
            tracing::warn!(
                hours,
                counted = %time.at,
                "this clock is ahead of the time that the table has counted; until that has caught up, days that expire are left out of answers and not deleted"
            );
        }
        Ok(())
    }

    async fn sweep_all(&self) -> Result<Vec<(WorkspaceDay, Option<store::key::LogId>)>> {
        let mut found = Vec::new();
        let mut behind = 0;
        for workspace in self.catalog.workspaces().await? {
            behind += self.sweep_one(workspace.id(), &mut found).await?;
            self.move_counters(workspace.id()).await?;
            self.expire(workspace.id()).await?;
            self.rank(workspace.id()).await?;
        }
        self.record_again().await?;
        self.compare_clocks().await?;
        add(&self.stats.sweeps, 1);
        self.stats.swept_behind.store(behind, std::sync::atomic::Ordering::Relaxed);
        Ok(found)
    }

    async fn sweep_one(
        &self,
        workspace: &Id,
        found: &mut Vec<(WorkspaceDay, Option<store::key::LogId>)>,
    ) -> Result<u64> {
        let behind = match sweep(&*self.table, workspace).await {
            Err(error) if !may_pass(&error) => {
                tracing::error!(%workspace, %error, "this workspace cannot be swept; the others go on");
                return Ok(0);
            }
            behind => behind?,
        };
        tracing::debug!(%workspace, segments = behind.segments, "swept");
        self.count_letters(workspace).await?;
        found.extend(behind.logs.into_keys().map(|log| {
            let day = WorkspaceDay { workspace: log.workspace.clone(), day: log.day };
            (day, Some(log))
        }));
        found.extend(behind.evaluations.into_iter().map(|day| (day, None)));
        Ok(behind.segments)
    }

    /// Counts the dead letters of a workspace that stop something.
    async fn count_letters(&self, workspace: &Id) -> Result<()> {
        let letters = match dlq::list(&*self.table, workspace).await {
            Err(error) if !may_pass(&error) => {
                tracing::error!(%workspace, %error, "its dead letters cannot be counted");
                return Ok(());
            }
            letters => letters?,
        };
        let stopped = letters.iter().filter(|letter| letter.state == State::Stopped).count();
        lock(&self.stopped).insert(workspace.clone(), stopped as u64);
        Ok(())
    }

    /// Puts right what the leaderboard was not told of, such as another primary metric.
    pub(crate) async fn rank(&self, workspace: &Id) -> Result<()> {
        match board::refresh(&*self.table, &self.catalog, workspace).await {
            Err(error) if !may_pass(&error) => {
                tracing::error!(%workspace, %error, "this leaderboard cannot be made; the others go on");
                Ok(())
            }
            other => other,
        }
    }

    /// Moves the counters of older versions out of the workspace's page.
    async fn move_counters(&self, workspace: &Id) -> Result<()> {
        match move_old(&*self.table, workspace).await {
            Err(error) if !may_pass(&error) => {
                tracing::error!(%workspace, %error, "old counters cannot be moved; they are read where they are");
            }
            moved => {
                let counters = moved?;
                if counters > 0 {
                    tracing::info!(%workspace, counters, "moved counters out of the workspace's page");
                }
            }
        }
        Ok(())
    }

    /// Tries again to record what is live where that failed.
    async fn record_again(&self) -> Result<()> {
        let again = lock(&self.unrecorded).clone();
        for (log, seq) in again {
            match record_segment(&*self.table, &log, seq).await? {
                None => _ = lock(&self.unrecorded).remove(&(log, seq)),
                Some(reason) => {
                    tracing::error!(workspace = %log.workspace, day = %log.day, seq, reason, "what is live still cannot be recorded");
                }
            }
        }
        Ok(())
    }

    /// Deletes what has expired. What is not projected yet waits for a later sweep.
    async fn expire(&self, workspace: &Id) -> Result<()> {
        match expire(&*self.table, &self.catalog, workspace, self.now()).await {
            Err(error) if !may_pass(&error) => {
                tracing::error!(%workspace, %error, "what has expired here cannot be deleted; the others go on");
            }
            deleted => {
                let deleted = deleted?;
                if deleted.days > 0 {
                    let (days, segments) = (deleted.days, deleted.segments);
                    tracing::info!(%workspace, days, segments, "deleted events that have expired");
                }
                if deleted.waiting > 0 {
                    tracing::warn!(%workspace, days = deleted.waiting, "expired, but not projected yet");
                }
            }
        }
        Ok(())
    }

    async fn answer(&self, requests: &[Request]) -> Result<()> {
        let Some(oldest) = requests.iter().map(|request| request.mark).min() else { return Ok(()) };
        let found = if requests.iter().any(|request| request.workspace.is_none()) {
            self.sweep_all().await?
        } else {
            let mut found = Vec::new();
            for request in requests {
                if let Some(workspace) = &request.workspace {
                    self.sweep_one(workspace, &mut found).await?;
                }
            }
            found
        };
        let now = Instant::now();
        let mut schedule = self.schedule();
        // Under the oldest mark: nothing that any of these sweeps stands for is settled before.
        found.into_iter().for_each(|(day, log)| schedule.mark(day, log, Some(oldest), now));
        requests.iter().for_each(|request| schedule.release(request.mark));
        drop(schedule);
        self.work.notify_one();
        Ok(())
    }

    pub(crate) fn has_sweep_lease(&self) -> bool {
        lock(&self.following).get(SWEEP).is_some_and(|sweep| sweep.has_lease())
    }
}

/// Sweeps forever.
pub(crate) async fn run(shared: &Shared) -> Result<()> {
    shared.ask_for_sweep(None);
    let mut periodic = Instant::now() + shared.options.sweep_every;
    loop {
        let requests = take(&mut *lock(&shared.requests));
        if !requests.is_empty()
            && let Err(error) = shared.answer(&requests).await
        {
            if !may_pass(&error) {
                return Err(error);
            }
            tracing::warn!(%error, "the table is not available; sweeping again");
            lock(&shared.requests).extend(requests);
            tokio::time::sleep(RETRY_AFTER).await;
            continue;
        }
        let changed = take(&mut *lock(&shared.recount));
        for workspace in changed {
            // The next sweep counts as well.
            if let Err(error) = shared.count_letters(&workspace).await {
                tracing::debug!(%workspace, %error, "its dead letters are counted later");
            }
        }
        tokio::select! {
            biased;
            () = shared.sweep.notified() => {}
            () = tokio::time::sleep_until(periodic) => {
                periodic = Instant::now() + shared.options.sweep_every;
                if shared.has_sweep_lease() {
                    shared.ask_for_sweep(None);
                }
            }
        }
    }
}
