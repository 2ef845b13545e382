//! One worker: it reads the shards that it has leases of, sweeps, and writes what is dirty.
//!
//! Six loops share a `Schedule`: the coordinator (`coordinator`) keeps the heartbeat and the
//! leases and starts a reader for each shard, alert rules are judged (`alert`), what crossed is posted (`deliver`), keys are erased (`erase`), the sweeper (`sweeper`) compares logs with
//! rollups, and the workshop (`work`) folds and evaluates. Whatever they start ends with them, so
//! dropping the future of [`Projector::run`] is a crash, and a crash at any point is harmless.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use event::{Clock, Result};
use table::Table;
use tokio::time::Instant;

pub use crate::shared::Options;

use crate::{
    alert, alert::FiringRule, coordinator::Coordinator, deliver, digest, erase, executor, heartbeat,
    lease::SWEEP, lock, shared::Shared, sweeper, unmatched,
};

/// What a worker has done, and what is still to be done, since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether everything that was behind at the start was found.
    pub has_swept: bool,
    /// Days that are not folded yet.
    pub dirty_days: u64,
    /// Changes that were announced and are not folded yet.
    pub waiting: u64,
    /// For how long the oldest of those days has waited: since it was announced, or for what a sweep found, since its oldest segment
    /// that is not folded was appended. It means nothing before the first sweep.
    pub oldest: Duration,
    /// Shards that it reads under a lease.
    pub shards: u64,
    /// For how long the oldest of their checkpoints has not moved although there was something to move for.
    pub oldest_checkpoint: Duration,
    /// Segments that were folded.
    pub segments: u64,
    /// Rows that were joined in evaluations.
    pub evaluated_rows: u64,
    /// How often it folded or evaluated again, since somebody else wrote in between.
    pub retries: u64,
    /// Segments that it found to be undecodable, and projections that it found it cannot write.
    pub dead_letters: u64,
    /// Segments that stop their log or their day's evaluation, and projections that cannot be written, found
    /// by any worker, as last counted. 0 for a worker without the lease of the sweep, so that they are
    /// counted once.
    pub stopped: u64,
    /// Projections that cannot be written, and what cannot be done for workspaces, as far as this worker knows.
    pub unwritten: u64,
    /// The first of them, and why.
    pub unwritten_example: Option<String>,
    /// Days that are folded and not evaluated yet.
    pub unevaluated_days: u64,
    /// How long ago its heartbeat was written; `None` before the first.
    pub heartbeat_age: Option<Duration>,
    /// For how long the shard that is read worst has told nothing, not even that there is nothing new.
    pub feed_age: Duration,
    /// How long ago all workspaces were swept, or this worker began, when it has not swept; `None` for one that has and is not the
    /// one that sweeps now and then.
    pub sweep_age: Option<Duration>,
    /// For how long it has been working.
    pub age: Duration,
    /// Sweeps of all workspaces.
    pub sweeps: u64,
    /// Segments that the last of them found behind.
    pub swept_behind: u64,
    /// Alert rules that fire, as last judged; none for a worker without the lease of the sweep. `None`, while one that has just begun has not judged.
    pub firing: Option<Vec<FiringRule>>,
    /// Outcomes without a date that wait for their predictions, as last looked for. 0 for a worker without the lease of the sweep.
    pub unmatched: u64,
}

/// One worker.
#[derive(Clone, Debug)]
pub struct Projector {
    shared: Arc<Shared>,
}

impl Projector {
    /// A worker on `table`.
    pub fn new(table: Arc<dyn Table>, options: Options) -> Self {
        Self { shared: Arc::new(Shared::new(table, options)) }
    }

    /// How it is doing.
    pub fn health(&self) -> Health {
        let shared = &self.shared;
        let now = Instant::now();
        let (dirty_days, waiting, oldest, unevaluated) = {
            let schedule = shared.schedule();
            let (days, waiting, oldest) = schedule.backlog();
            (days, waiting, oldest, schedule.unevaluated())
        };
        let is_sweeper = shared.has_sweep_lease();
        let unwritten = unwritten_or_undone(shared);
        let following = lock(&shared.following);
        let held = following.values().filter(|one| one.shard != SWEEP && one.has_lease());
        let silent = following.values().filter(|one| one.shard != SWEEP).map(|one| one.silent_for(now));
        let unheard = lock(&shared.unheard);
        let unlisted = *lock(&shared.unlisted);
        let feed_age = silent.chain(unheard.values().copied().chain(unlisted).map(|since| now - since)).max();
        let swept = *lock(&shared.swept_at);
        let stats = &shared.stats;
        let metric = |metric: &AtomicU64| metric.load(Ordering::Relaxed);
        Health {
            has_swept: metric(&stats.sweeps) > 0,
            dirty_days: dirty_days as u64,
            waiting,
            oldest: oldest.map_or(Duration::ZERO, |oldest| now - oldest),
            shards: held.clone().count() as u64,
            oldest_checkpoint: held.map(|one| one.waits_since(now)).max().unwrap_or_default(),
            segments: metric(&stats.segments),
            evaluated_rows: metric(&stats.evaluated_rows),
            retries: metric(&stats.retries),
            dead_letters: metric(&stats.dead_letters),
            stopped: if is_sweeper { lock(&shared.stopped).values().sum() } else { 0 },
            unwritten: unwritten.len() as u64,
            unwritten_example: unwritten.into_iter().next(),
            unevaluated_days: unevaluated as u64,
            feed_age: feed_age.unwrap_or_default(),
            sweep_age: (is_sweeper || swept.is_none()).then(|| now - swept.unwrap_or(shared.began)),
            age: now - shared.began,
            heartbeat_age: lock(&shared.last_beat).map(|at| now - at),
            sweeps: metric(&stats.sweeps),
            swept_behind: metric(&stats.swept_behind),
            firing: lock(&stats.firing).clone(),
            unmatched: if is_sweeper { lock(&stats.unmatched).values().sum() } else { 0 },
        }
    }

    /// Works until `shutdown`, then hands its leases over.
    ///
    /// It begins with a sweep, so it needs no memory of where it ended. A failure that may pass is
    /// tried again. A segment that cannot be read becomes a dead letter and holds up its own log only.
    ///
    /// # Errors
    /// When the leases or the feed cannot be used at all.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let shared = &self.shared;
        let loops = async {
            futures::try_join!(
                Coordinator::new(Arc::clone(shared)).run(),
                sweeper::run(shared),
                alert::run(shared),
                deliver::run(shared),
                digest::run(shared),
                erase::run(shared),
                executor::run(shared),
                unmatched::run(shared),
            )
        };
        let ended = tokio::select! {
            biased;
            () = shutdown => Ok(()),
            ended = loops => ended.map(|_| ()),
        };
        hand_over(shared).await;
        ended
    }
}

/// What cannot be written or done, as far as this worker knows, in words.
fn unwritten_or_undone(shared: &Shared) -> Vec<String> {
    let of_days = lock(&shared.unwritten)
        .iter()
        .map(|((day, what), reason)| format!("the {} of {day}: {reason}", what.name()))
        .collect::<Vec<_>>();
    let undone = lock(&shared.undone);
    let of_workspaces = undone.iter();
    let of_workspaces = of_workspaces
        .map(|((workspace, what), reason)| format!("the {} of {workspace}: {reason}", what.name()));
    of_days.into_iter().chain(of_workspaces).collect()
}

/// Gives back what it holds, so that no worker waits for it. Failing in that is a crash, which is harmless.
async fn hand_over(shared: &Shared) {
    let following: Vec<_> = std::mem::take(&mut *lock(&shared.following)).into_values().collect();
    for one in following {
        shared.hand_over(&one).await;
    }
    if let Err(error) = heartbeat::farewell(&*shared.table, &shared.options.worker).await {
        tracing::debug!(%error, "the heartbeat stays behind");
    }
}

/// Follows the change feed until `shutdown`, as [`Projector::run`] does, with the usual options.
///
/// # Errors
/// As [`Projector::run`].
pub async fn run(table: Arc<dyn Table>, shutdown: impl Future<Output = ()>) -> Result<()> {
    Projector::new(table, Options::new(Clock::system())).run(shutdown).await
}
