//! Worker: reads the shards of its leases, sweeps, and writes changed days.
//!
//! Its loops share a `Schedule`: the coordinator (`coordinator`) keeps the heartbeat and the leases and starts a reader
//! for each shard; alert rules are evaluated (`alert`), deliveries posted (`deliver`) and keys erased (`erase`); the
//! sweeper (`sweeper`) compares logs with rollups; the executor folds and evaluates. All tasks end with their loop, so
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

/// State of a worker: work done since its start, and work left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// True if everything that was behind at the start was found.
    pub has_swept: bool,
    /// Number of days not folded yet.
    pub dirty_days: u64,
    /// Number of announced changes not folded yet.
    pub waiting: u64,
    /// Time for which the oldest of these days has waited: since it was announced, or, for a finding of a sweep, since
    /// its oldest unfolded segment was appended. Meaningless before the first sweep.
    pub oldest: Duration,
    /// Number of shards read under a lease.
    pub shards: u64,
    /// Longest time for which a checkpoint has not moved although there were changes. It waits for evaluations as well.
    pub oldest_checkpoint: Duration,
    /// Time since the first try of the oldest fold that has not succeeded; zero when there is none.
    pub fold_age: Duration,
    /// Number of folded segments.
    pub segments: u64,
    /// Number of rows joined in evaluations.
    pub evaluated_rows: u64,
    /// Number of repeated folds and evaluations, because another worker wrote in between.
    pub retries: u64,
    /// Number of undecodable segments and unwritable projections found by this worker.
    pub dead_letters: u64,
    /// Number of dead letters that stop something, found by any worker, as last counted: segments and projections. 0
    /// for a worker without the lease of the sweep, so that each is counted once.
    pub stopped: u64,
    /// Number of projections that cannot be written and of failed tasks of workspaces, as far as this worker knows.
    pub unwritten: u64,
    /// First of them, with the reason.
    pub unwritten_example: Option<String>,
    /// Number of days folded and not evaluated yet.
    pub unevaluated_days: u64,
    /// Time since the last heartbeat; `None` before the first.
    pub heartbeat_age: Option<Duration>,
    /// Longest time for which the feed of a shard has not answered.
    pub feed_age: Duration,
    /// Time since the last sweep of all workspaces, or since this worker began; `None` for one that has swept and does
    /// not sweep periodically.
    pub sweep_age: Option<Duration>,
    /// Time since its start.
    pub age: Duration,
    /// Number of sweeps of all workspaces.
    pub sweeps: u64,
    /// Number of segments that the last of them found behind.
    pub swept_behind: u64,
    /// Firing alert rules, as last evaluated; none for a worker without the lease of the sweep. `None` before the first
    /// evaluation.
    pub firing: Option<Vec<FiringRule>>,
    /// Number of unmatched outcomes, as last counted. 0 for a worker without the lease of the sweep.
    pub unmatched: u64,
}

/// Worker of the projector.
#[derive(Clone, Debug)]
pub struct Projector {
    shared: Arc<Shared>,
}

impl Projector {
    /// Creates a worker on `table`.
    pub fn new(table: Arc<dyn Table>, options: Options) -> Self {
        Self { shared: Arc::new(Shared::new(table, options)) }
    }

    /// Returns its state.
    pub fn health(&self) -> Health {
        let shared = &self.shared;
        let now = Instant::now();
        let (dirty_days, waiting, oldest, unevaluated, tried_since) = {
            let schedule = shared.schedule();
            let (days, waiting, oldest) = schedule.backlog();
            (days, waiting, oldest, schedule.unevaluated(), schedule.tried_since())
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
            fold_age: tried_since.map(|since| now - since).unwrap_or_default(),
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

    /// Works until `shutdown`, then gives its leases back.
    ///
    /// It begins with a sweep, so it needs no memory of its last position. A transient failure is retried. An
    /// unreadable segment becomes a dead letter and stops its own log only.
    ///
    /// # Errors
    /// Fails if the leases or the feed cannot be used at all.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let shared = &self.shared;
        let loops = async {
            futures::try_join!(
                Coordinator::new(Arc::clone(shared)).run(),
                sweeper::run(shared),
                sweeper::tasks::run(shared),
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

/// Names the projections that cannot be written and the failed tasks, as far as this worker knows.
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

/// Gives back its leases, so that no worker waits for them. A failure has the effect of a crash, which is harmless.
async fn hand_over(shared: &Shared) {
    let following: Vec<_> = std::mem::take(&mut *lock(&shared.following)).into_values().collect();
    for one in following {
        shared.hand_over(&one).await;
    }
    if let Err(error) = heartbeat::farewell(&*shared.table, &shared.options.worker).await {
        tracing::debug!(%error, "the heartbeat stays behind");
    }
}

/// Follows the change feed until `shutdown`, as [`Projector::run`] does, with the default options.
///
/// # Errors
/// As [`Projector::run`].
pub async fn run(table: Arc<dyn Table>, shutdown: impl Future<Output = ()>) -> Result<()> {
    Projector::new(table, Options::new(Clock::system())).run(shutdown).await
}
