//! The worker: follows the change feed, and keeps every day's rollup and evaluation up to date.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    future::Future,
    sync::Arc,
    time::Duration,
};

use store::{
    ErrorKind, Kind, Result, Table,
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

/// A day is evaluated when it has not changed for this long...
const QUIET: Duration = Duration::from_millis(300);
/// ... or when its events have grown by this share since it was last evaluated.
const GROWTH: f64 = 0.1;
/// How long the feed is asked to wait for a change when nothing else is to be done.
const IDLE_WAIT: Duration = Duration::from_secs(5);
/// How often all logs are compared with what is folded.
const SWEEP_EVERY: Duration = Duration::from_secs(15 * 60);
/// How long to wait after a failure of the table.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A day that grew since it was last evaluated.
#[derive(Clone, Debug)]
struct Pending {
    applied: Applied,
    changed: Instant,
}

/// One projector.
struct Worker {
    table: Arc<dyn Table>,
    catalog: Catalog,
    dirty: BTreeMap<WorkspaceDay, BTreeSet<LogId>>,
    pending: BTreeMap<WorkspaceDay, Pending>,
    /// How many events each day had when it was last evaluated.
    evaluated: BTreeMap<WorkspaceDay, u64>,
}

/// Follows the change feed until `shutdown`. It begins with a sweep, so it needs no memory of where
/// it ended.
///
/// # Errors
/// `Corrupt` or `Invalid`, when the table cannot be used at all. A failure that may pass is retried; a
/// day that cannot be folded is logged and holds up nobody else.
pub async fn run(table: Arc<dyn Table>, shutdown: impl Future<Output = ()>) -> Result<()> {
    let mut worker = Worker {
        catalog: Catalog::new(Arc::clone(&table)),
        table,
        dirty: BTreeMap::new(),
        pending: BTreeMap::new(),
        evaluated: BTreeMap::new(),
    };
    tokio::select! {
        () = shutdown => Ok(()),
        ended = worker.follow() => ended,
    }
}

impl Worker {
    async fn follow(&mut self) -> Result<()> {
        let mut positions = BTreeMap::<String, Option<Position>>::new();
        let mut sweep_at = Instant::now();
        loop {
            let step = self.step(&mut positions, &mut sweep_at).await;
            match step {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), ErrorKind::Throttled | ErrorKind::Unavailable) => {
                    tracing::warn!(%error, "the table is not available; trying again");
                    tokio::time::sleep(RETRY_AFTER).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn step(
        &mut self,
        positions: &mut BTreeMap<String, Option<Position>>,
        sweep_at: &mut Instant,
    ) -> Result<()> {
        for shard in self.table.shards().await? {
            if let Entry::Vacant(unknown) = positions.entry(shard.id) {
                // The position is taken before the sweep looks, so nothing falls between the two.
                let now = self.table.changes(unknown.key(), &Position::Latest, Duration::ZERO).await?;
                unknown.insert(now.next);
                *sweep_at = Instant::now();
            }
        }
        if Instant::now() >= *sweep_at {
            self.sweep().await?;
            *sweep_at = Instant::now() + SWEEP_EVERY;
        }
        self.work().await?;
        let wait = if self.pending.is_empty() { IDLE_WAIT } else { QUIET };
        for (shard, position) in positions.iter_mut() {
            let Some(from) = position else { continue };
            let changes = self.table.changes(shard, from, wait).await?;
            if changes.gap {
                tracing::warn!(shard, "changes are gone from the feed; comparing all logs");
                *sweep_at = Instant::now();
            }
            changes.keys.iter().filter_map(key::parse_segment).for_each(|(log, _)| self.mark(log));
            *position = changes.next;
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
                // Nothing says when it changed last; if it still does, it is evaluated again.
                let now = Instant::now();
                let changed = now.checked_sub(QUIET).unwrap_or(now);
                self.pending.insert(day, Pending { applied: Applied::new(), changed });
            }
        }
        Ok(())
    }

    /// Brings every dirty day up to date, and evaluates those that are due.
    async fn work(&mut self) -> Result<()> {
        while let Some((day, logs)) = self.dirty.pop_first() {
            match self.project(&day, &logs).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    tracing::error!(%day, %error, "this day cannot be folded; the others go on");
                    self.pending.remove(&day);
                }
                Err(error) => {
                    self.dirty.insert(day, logs);
                    return Err(error);
                }
            }
        }
        let now = Instant::now();
        let quiet = self.pending.iter().filter(|(_, pending)| now - pending.changed >= QUIET);
        for day in quiet.map(|(day, _)| day.clone()).collect::<Vec<_>>() {
            self.evaluate(&day).await?;
        }
        Ok(())
    }

    async fn project(&mut self, day: &WorkspaceDay, logs: &BTreeSet<LogId>) -> Result<()> {
        let projection = project(&*self.table, day, logs).await?;
        let is_due = self.pending.contains_key(day);
        if !projection.grown && !is_due {
            return Ok(());
        }
        let events: u64 =
            [Kind::Predictions, Kind::Outcomes].map(|kind| projection.rollup.events(kind)).iter().sum();
        let changed = match self.pending.get(day) {
            Some(pending) if !projection.grown => pending.changed,
            _ => Instant::now(),
        };
        self.pending.insert(day.clone(), Pending { applied: projection.applied, changed });
        let before = self.evaluated.get(day).copied().unwrap_or(0);
        if events as f64 >= before as f64 * (1.0 + GROWTH) && projection.grown {
            self.evaluate(day).await?;
            self.evaluated.insert(day.clone(), events);
        }
        Ok(())
    }

    async fn evaluate(&mut self, day: &WorkspaceDay) -> Result<()> {
        let Some(pending) = self.pending.remove(day) else { return Ok(()) };
        let ended = self.try_evaluate(day, &pending.applied).await;
        match ended {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::error!(%day, %error, "this day cannot be evaluated; the others go on");
                Ok(())
            }
            Err(error) => {
                self.pending.insert(day.clone(), pending);
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    async fn try_evaluate(&self, day: &WorkspaceDay, applied: &Applied) -> Result<()> {
        // A release is in the catalog before it can be in the log, so none that matters is missing.
        let tasks = tasks(&self.catalog, &day.workspace).await?;
        evaluate(&*self.table, day, applied, &tasks).await
    }
}
