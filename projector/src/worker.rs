//! The worker: follows the change feed, and keeps every day's rollup and evaluation up to date.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
    time::Duration,
};

use store::{
    Error, ErrorKind, Kind, Result, Table,
    catalog::Catalog,
    key::{self, LogId},
    rollup::Applied,
    table::Position,
};
use tokio::time::Instant;

use crate::{
    WorkspaceDay,
    evaluate::{evaluate, tasks},
    project::project,
    sweep::sweep,
};

/// A day is evaluated when its events have grown by this share since it was last evaluated,
const GROWTH: f64 = 0.1;
/// or when it has not changed for this long,
const QUIET: Duration = Duration::from_millis(300);
/// and the last evaluation is this many times its own duration ago: so evaluating a day that changes
/// a little every second takes a bounded share of the time;
const REST: u32 = 10;
/// or at the latest this long after it changed.
const LATEST: Duration = Duration::from_secs(60);
/// How long the feed is asked to wait for a change when nothing else is to be done.
const IDLE_WAIT: Duration = Duration::from_secs(5);
/// How often new shards are looked for, besides when one ends.
const DISCOVER_EVERY: Duration = Duration::from_secs(60);
/// How often all logs are compared with what is folded.
const SWEEP_EVERY: Duration = Duration::from_secs(15 * 60);
/// How many evaluations are remembered.
const MAX_REMEMBERED: usize = 10_000;
/// How long to wait after a failure of the table.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A day that grew since it was last evaluated.
#[derive(Clone, Debug)]
struct Pending {
    applied: Applied,
    events: u64,
    /// When it changed for the first time since, and for the last.
    since: Instant,
    changed: Instant,
}

/// When a day was last evaluated.
#[derive(Clone, Copy, Debug)]
struct Evaluated {
    events: u64,
    ended: Instant,
    took: Duration,
}

impl Pending {
    fn is_due(&self, last: Option<&Evaluated>, now: Instant) -> bool {
        let Some(last) = last else { return true };
        let has_grown = self.events as f64 >= last.events as f64 * (1.0 + GROWTH);
        let is_quiet = now - self.changed >= QUIET && now - last.ended >= last.took * REST;
        has_grown || is_quiet || now - self.since >= LATEST
    }
}

/// One projector.
struct Worker {
    table: Arc<dyn Table>,
    catalog: Catalog,
    /// Where each shard is read from next; `None` when it is read to its end.
    positions: BTreeMap<String, Option<Position>>,
    discover_at: Instant,
    sweep_at: Instant,
    dirty: BTreeMap<WorkspaceDay, BTreeSet<LogId>>,
    pending: BTreeMap<WorkspaceDay, Pending>,
    /// When the days that are followed were last evaluated.
    evaluated: BTreeMap<WorkspaceDay, Evaluated>,
}

/// Follows the change feed until `shutdown`. It begins with a sweep, so it needs no memory of where
/// it ended.
///
/// A failure that may pass is retried. A day that cannot be folded or evaluated is logged, at every
/// sweep again, and holds up nobody else.
///
/// # Errors
/// When the catalog or the feed cannot be used at all.
pub async fn run(table: Arc<dyn Table>, shutdown: impl Future<Output = ()>) -> Result<()> {
    let mut worker = Worker {
        catalog: Catalog::new(Arc::clone(&table)),
        table,
        positions: BTreeMap::new(),
        discover_at: Instant::now(),
        sweep_at: Instant::now(),
        dirty: BTreeMap::new(),
        pending: BTreeMap::new(),
        evaluated: BTreeMap::new(),
    };
    tokio::select! {
        () = shutdown => Ok(()),
        ended = worker.follow() => ended,
    }
}

/// Whether it is worth trying again.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Throttled | ErrorKind::Unavailable)
}

impl Worker {
    async fn follow(&mut self) -> Result<()> {
        loop {
            match self.step().await {
                Ok(()) => {}
                Err(error) if may_pass(&error) => {
                    tracing::warn!(%error, "the table is not available; trying again");
                    tokio::time::sleep(RETRY_AFTER).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn step(&mut self) -> Result<()> {
        if Instant::now() >= self.discover_at {
            self.discover_at = self.discover().await?;
        }
        if Instant::now() >= self.sweep_at {
            self.sweep().await?;
            self.sweep_at = Instant::now() + SWEEP_EVERY;
        }
        self.work().await?;
        self.listen().await
    }

    /// Finds shards that are new. The position in one is taken before the sweep looks, so nothing
    /// falls between the two; the child of a shard that was followed is read from its beginning.
    /// Returns when to look again.
    async fn discover(&mut self) -> Result<Instant> {
        let mut again = Instant::now() + DISCOVER_EVERY;
        let shards = self.table.shards().await?;
        let is_first = self.positions.is_empty();
        self.positions.retain(|known, _| shards.iter().any(|shard| shard.id == *known));
        for shard in shards {
            if self.positions.contains_key(&shard.id) {
                continue;
            }
            let is_child =
                !is_first && shard.parent.is_some_and(|parent| self.positions.contains_key(&parent));
            let position = if is_child {
                Some(Position::Oldest)
            } else {
                self.sweep_at = Instant::now();
                self.table.changes(&shard.id, &Position::Latest, Duration::ZERO).await?.next
            };
            if position.is_none() {
                // It closed after it was listed: its children are to be found at once.
                again = Instant::now();
            }
            self.positions.insert(shard.id, position);
        }
        Ok(again)
    }

    /// Waits for changes on all open shards at once, and marks the logs that grew.
    async fn listen(&mut self) -> Result<()> {
        let open: Vec<(String, Position)> = self
            .positions
            .iter()
            .filter_map(|(shard, position)| Some((shard.clone(), position.clone()?)))
            .collect();
        // One shard may be waited for at leisure; of several, none should wait for the others, and
        // without any the children of the last one will soon be there.
        let wait = if self.pending.is_empty() && open.len() == 1 { IDLE_WAIT } else { QUIET };
        if open.is_empty() {
            self.discover_at = Instant::now();
            tokio::time::sleep(wait).await;
        }
        let table = &self.table;
        let reads = open.iter().map(|(shard, from)| table.changes(shard, from, wait));
        let answers = futures::future::join_all(reads).await;
        for ((shard, _), answer) in open.iter().zip(answers) {
            let changes = answer?;
            if changes.gap {
                tracing::warn!(shard, "changes are gone from the feed; comparing all logs");
                self.sweep_at = Instant::now();
            }
            if changes.next.is_none() {
                // The shard is closed and read to its end: its children go on.
                self.discover_at = Instant::now();
            }
            changes.keys.iter().filter_map(key::parse_segment).for_each(|(log, _)| self.mark(log));
            self.positions.insert(shard.clone(), changes.next);
        }
        Ok(())
    }

    fn mark(&mut self, log: LogId) {
        let day = WorkspaceDay { workspace: log.workspace.clone(), day: log.day };
        self.dirty.entry(day).or_default().insert(log);
    }

    async fn sweep(&mut self) -> Result<()> {
        for workspace in self.catalog.workspaces().await? {
            let behind = sweep(&*self.table, workspace.id()).await?;
            tracing::debug!(workspace = workspace.path, logs = behind.logs.len(), "swept");
            behind.logs.into_iter().for_each(|log| self.mark(log));
            for day in behind.evaluations {
                self.dirty.entry(day.clone()).or_default();
                let now = Instant::now();
                self.pending
                    .insert(day, Pending { applied: Applied::new(), events: 0, since: now, changed: now });
            }
        }
        Ok(())
    }

    /// Brings every dirty day up to date, and evaluates those that are due.
    async fn work(&mut self) -> Result<()> {
        while let Some((day, logs)) = self.dirty.pop_first() {
            match self.project(&day, &logs).await {
                Err(error) if may_pass(&error) => {
                    self.dirty.insert(day, logs);
                    return Err(error);
                }
                Err(error) => {
                    tracing::error!(%day, %error, "this day cannot be folded; the others go on");
                    self.pending.remove(&day);
                }
                Ok(()) => self.evaluate_if_due(&day).await?,
            }
        }
        for day in self.pending.keys().cloned().collect::<Vec<_>>() {
            self.evaluate_if_due(&day).await?;
        }
        Ok(())
    }

    async fn project(&mut self, day: &WorkspaceDay, logs: &BTreeSet<LogId>) -> Result<()> {
        let projection = project(&*self.table, day, logs).await?;
        if !projection.grown && !self.pending.contains_key(day) {
            return Ok(());
        }
        let events =
            [Kind::Predictions, Kind::Outcomes].map(|kind| projection.rollup.events(kind)).iter().sum();
        let now = Instant::now();
        let before = self.pending.get(day);
        let since = before.map_or(now, |pending| pending.since);
        let changed = before.filter(|_| !projection.grown).map_or(now, |pending| pending.changed);
        self.pending.insert(day.clone(), Pending { applied: projection.applied, events, since, changed });
        Ok(())
    }

    async fn evaluate_if_due(&mut self, day: &WorkspaceDay) -> Result<()> {
        let started = Instant::now();
        let last = self.evaluated.get(day);
        if !self.pending.get(day).is_some_and(|pending| pending.is_due(last, started)) {
            return Ok(());
        }
        let Some(pending) = self.pending.remove(day) else { return Ok(()) };
        match self.try_evaluate(day, &pending.applied).await {
            Err(error) if may_pass(&error) => {
                self.pending.insert(day.clone(), pending);
                Err(error)
            }
            Err(error) => {
                tracing::error!(%day, %error, "this day cannot be evaluated; the others go on");
                Ok(())
            }
            Ok(()) => {
                let ended = Instant::now();
                let last = Evaluated { events: pending.events, ended, took: ended - started };
                self.evaluated.insert(day.clone(), last);
                self.forget_old_evaluations(ended);
                Ok(())
            }
        }
    }

    /// Keeps what is remembered of evaluations bounded: the oldest matter least.
    fn forget_old_evaluations(&mut self, now: Instant) {
        if self.evaluated.len() > MAX_REMEMBERED {
            self.evaluated.retain(|_, last| now - last.ended < LATEST);
        }
    }

    async fn try_evaluate(&self, day: &WorkspaceDay, applied: &Applied) -> Result<()> {
        // A release is in the catalog before it can be in the log, so none that matters is missing.
        let tasks = tasks(&self.catalog, &day.workspace).await?;
        evaluate(&*self.table, day, applied, &tasks).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_evaluated_when_it_grew_or_rested_or_waited_long() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let pending = |events, since, changed| Pending {
            applied: Applied::new(),
            events,
            since: after(since),
            changed: after(changed),
        };
        let last = Evaluated { events: 1_000, ended: start, took: Duration::from_millis(200) };
        assert!(pending(1, 0, 0).is_due(None, start), "never evaluated");
        assert!(pending(1_100, 0, 10).is_due(Some(&last), after(10)), "grown by a tenth");
        assert!(!pending(1_099, 0, 10).is_due(Some(&last), after(10)), "not grown, not quiet");
        assert!(!pending(1_001, 0, 10).is_due(Some(&last), after(1_000)), "quiet, but not rested");
        assert!(pending(1_001, 0, 10).is_due(Some(&last), after(2_000)), "quiet and rested");
        assert!(!pending(1_001, 0, 59_999).is_due(Some(&last), after(59_999)), "never quiet");
        assert!(pending(1_001, 0, 60_000).is_due(Some(&last), after(60_000)), "waited long");
    }
}
