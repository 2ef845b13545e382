//! Shared state of the loops of a worker: the table, the schedule, requested sweeps, and findings.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use catalog::Catalog;
use event::{Clock, Error, Id};
use log::{
    key::{OfDay, OfWorkspace},
    segment_cache::SegmentCache,
};
use table::Table;
use tokio::{sync::Notify, time::Instant};

use crate::{
    WorkspaceDay,
    alert::FiringRule,
    compact::Compactor,
    deliver::WebhookSender,
    following::Following,
    lease::SWEEP,
    lock,
    meters::Meters,
    schedule::Schedule,
    sweeper::tasks::DueTasks,
    unmatched::{Append, Looks},
};

/// Minimum time between two folds of a slowly growing day, on an engine where each write costs by its size.
pub const PAID_REST: Duration = Duration::from_secs(30);

/// Options of a worker.
#[derive(Clone, Debug)]
pub struct Options {
    /// Id of the worker, unique among those that run at once.
    pub worker: String,
    /// Clock for people and for the expiry of events; all else uses the monotonic clock.
    pub clock: Clock,
    /// Time between two heartbeats and looks at the leases. A worker whose heartbeat has not grown for three periods is
    /// dead.
    pub period: Duration,
    /// Time between two comparisons of all logs with their projections, by the one worker that sweeps.
    pub sweep_every: Duration,
    /// Poster of deliveries to webhooks; without one they wait.
    pub sender: Option<Arc<dyn WebhookSender>>,
    /// Appender of matched outcomes; without one they wait.
    pub append: Option<Arc<dyn Append>>,
    /// Segments appended by this process.
    pub segment_cache: SegmentCache,
    /// True if small segments of past days are merged.
    pub compacts: bool,
    /// Minimum time between two folds of a day that has grown by less than one in [`SMALL`](crate::SMALL) of its
    /// segments. It rests for four times the duration of its last fold in any case.
    pub rest: Duration,
}

impl Options {
    /// Creates the default options, with a new worker id.
    pub fn new(clock: Clock) -> Self {
        Self {
            worker: Id::new(clock.now()).to_string(),
            clock,
            period: Duration::from_secs(2),
            sweep_every: Duration::from_secs(15 * 60),
            sender: None,
            append: None,
            segment_cache: SegmentCache::default(),
            compacts: true,
            rest: Duration::ZERO,
        }
    }

    /// Sets the appender of matched outcomes.
    #[must_use]
    pub fn appending_by(self, append: Arc<dyn Append>) -> Self {
        Self { append: Some(append), ..self }
    }

    /// Sets the cache of segments.
    #[must_use]
    pub fn taking(self, segment_cache: SegmentCache) -> Self {
        Self { segment_cache, ..self }
    }

    /// Sets whether small segments are merged.
    #[must_use]
    pub fn compacting(self, compacts: bool) -> Self {
        Self { compacts, ..self }
    }

    /// Sets the rest of slowly growing days.
    #[must_use]
    pub fn resting(self, rest: Duration) -> Self {
        Self { rest, ..self }
    }

    /// Sets the poster of deliveries.
    #[must_use]
    pub fn posting_by(self, sender: Option<Arc<dyn WebhookSender>>) -> Self {
        Self { sender, ..self }
    }
}

/// Extent of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Latest days of all workspaces, and all days of those whose turn it is.
    Latest,
    /// All days of one workspace.
    Workspace(Id),
}

/// Requested sweep.
#[derive(Debug)]
pub(crate) struct Request {
    /// Mark that stays unsettled until all findings are written.
    pub(crate) mark: u64,
    pub(crate) extent: Extent,
}

/// Counters, and some gauges.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) segments: AtomicU64,
    pub(crate) evaluated_rows: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) dead_letters: AtomicU64,
    pub(crate) sweeps: AtomicU64,
    pub(crate) swept_behind: AtomicU64,
    pub(crate) firing: Mutex<Option<Vec<FiringRule>>>,
    pub(crate) unmatched: Mutex<BTreeMap<Id, u64>>,
    pub(crate) meters: Meters,
}

/// Logs that the table is not available and the work that waits. A denial is logged once, by [`log::store::Denials`].
pub(crate) fn waits(error: &Error, subject: &dyn Display, what: &str) {
    match error.is_denied() {
        true => tracing::debug!(%subject, %error, "{what}"),
        false => tracing::warn!(%subject, %error, "{what}"),
    }
}

/// Adds to a counter.
pub(crate) fn add(metric: &AtomicU64, by: u64) {
    metric.fetch_add(by, Ordering::Relaxed);
}

/// Shared state of the loops of a worker.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) table: Arc<dyn Table>,
    pub(crate) catalog: Catalog,
    pub(crate) options: Options,
    schedule: Mutex<Schedule>,
    /// Notified of new work in the schedule.
    pub(crate) work: Notify,
    pub(crate) requests: Mutex<Vec<Request>>,
    /// Notified of a requested sweep.
    pub(crate) sweep: Notify,
    /// Periodic tasks of workspaces that are due.
    pub(crate) due_tasks: Mutex<DueTasks>,
    /// Notified of new ones among them.
    pub(crate) tasks: Notify,
    /// True if the table may demand a sweep of all workspaces ([`crate::full_sweep`]).
    pub(crate) is_demanded: AtomicBool,
    /// Workspaces whose dead letters are to be counted again.
    pub(crate) recount: Mutex<BTreeSet<Id>>,
    /// Number of dead letters that stop something, by workspace, as last counted.
    pub(crate) stopped: Mutex<BTreeMap<Id, u64>>,
    /// Workspaces whose unmatched outcomes are to be searched, or were recently.
    pub(crate) unmatched: Mutex<BTreeMap<Id, Looks>>,
    /// Notified of new ones among them.
    pub(crate) unmatched_came: Notify,
    /// Days that were worked on since the last sweep.
    pub(crate) touched: Mutex<BTreeSet<WorkspaceDay>>,
    /// Projections that cannot be written, as last counted or found, with the reason.
    pub(crate) unwritten: Mutex<BTreeMap<(WorkspaceDay, OfDay), String>>,
    /// Failed tasks of workspaces, as last counted or found, with the reason.
    pub(crate) undone: Mutex<BTreeMap<(Id, OfWorkspace), String>>,
    /// Instant at which this worker began.
    pub(crate) began: Instant,
    /// Instant of its last sweep of all workspaces.
    pub(crate) swept_at: Mutex<Option<Instant>>,
    /// Instant of its last heartbeat.
    pub(crate) last_beat: Mutex<Option<Instant>>,
    /// Shards that it should read and cannot begin to, each with the instant since which.
    pub(crate) unheard: Mutex<BTreeMap<String, Instant>>,
    /// Instant since which the shards of the stream cannot be listed.
    pub(crate) unlisted: Mutex<Option<Instant>>,
    /// Notified of changed shards or leases.
    pub(crate) discover: Notify,
    pub(crate) following: Mutex<BTreeMap<String, Arc<Following>>>,
    pub(crate) stats: Stats,
    pub(crate) compactor: Compactor,
}

impl Shared {
    /// State of a worker that has done nothing yet.
    pub(crate) fn new(table: Arc<dyn Table>, options: Options) -> Self {
        Self {
            catalog: Catalog::new(Arc::clone(&table)),
            table,
            schedule: Mutex::new(Schedule::resting(options.rest)),
            options,
            work: Notify::new(),
            requests: Mutex::default(),
            sweep: Notify::new(),
            due_tasks: Mutex::default(),
            tasks: Notify::new(),
            is_demanded: AtomicBool::new(false),
            recount: Mutex::default(),
            stopped: Mutex::default(),
            unmatched: Mutex::default(),
            unmatched_came: Notify::new(),
            touched: Mutex::default(),
            unwritten: Mutex::default(),
            undone: Mutex::default(),
            began: Instant::now(),
            swept_at: Mutex::default(),
            last_beat: Mutex::default(),
            unheard: Mutex::default(),
            unlisted: Mutex::default(),
            discover: Notify::new(),
            following: Mutex::default(),
            stats: Stats::default(),
            compactor: Compactor::default(),
        }
    }

    pub(crate) fn schedule(&self) -> MutexGuard<'_, Schedule> {
        lock(&self.schedule)
    }

    /// Time by which this worker decides: the earlier one of its own clock and the engine's, so that a clock that is
    /// ahead decides nothing about days that are not over.
    pub(crate) fn now(&self) -> event::Timestamp {
        let now = self.options.clock.now();
        self.table.engine_time().map_or(now, |engine| engine.min(now))
    }

    /// Requests a sweep; returns its mark.
    pub(crate) fn ask_for_sweep(&self, extent: Extent) -> u64 {
        let mark = self.schedule().hold();
        lock(&self.requests).push(Request { mark, extent });
        self.sweep.notify_one();
        mark
    }

    /// Makes this worker check whether the table demands a sweep of all workspaces.
    pub(crate) fn look_for_demand(&self) {
        self.is_demanded.store(true, Ordering::Relaxed);
        self.sweep.notify_one();
    }

    /// Requests a sweep for the tasks of `mark`, which is not settled before the sweep is.
    pub(crate) fn ask_for_sweep_under(&self, mark: u64, extent: Extent) {
        self.schedule().carry(mark);
        lock(&self.requests).push(Request { mark, extent });
        self.sweep.notify_one();
    }

    /// Returns whether it is the worker that sweeps periodically.
    pub(crate) fn has_sweep_lease(&self) -> bool {
        lock(&self.following).get(SWEEP).is_some_and(|sweep| sweep.has_lease())
    }
}
