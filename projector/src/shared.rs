//! What the loops of a worker share: the table, the schedule, what is to be swept, and what was found.

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
    unmatched::{Append, Looks},
};

/// How long a day that grows a little rests between folds where each write is paid for by its size.
pub const PAID_REST: Duration = Duration::from_secs(30);

/// How a worker works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its id. Two workers that run at once must have two.
    pub worker: String,
    /// Tells the time for people, and which events have expired; all else asks the monotonic clock.
    pub clock: Clock,
    /// How often its heartbeat moves, and it looks at the leases. A worker whose heartbeat has not moved
    /// for three periods is taken for dead.
    pub period: Duration,
    /// How often all logs are compared with what is folded, by one worker of all.
    pub sweep_every: Duration,
    /// Posts what crossed to webhooks; without one it waits.
    pub sender: Option<Arc<dyn WebhookSender>>,
    /// Appends outcomes whose predictions were found; without one they wait.
    pub append: Option<Arc<dyn Append>>,
    /// What ingest hands over in this process.
    pub segment_cache: SegmentCache,
    /// Whether small segments of days that are over are merged.
    pub compacts: bool,
    /// How long a day that has grown by less than one in [`SMALL`](crate::SMALL) of its segments rests at least between
    /// folds. It rests for four times as long as its last fold took in any case.
    pub rest: Duration,
}

impl Options {
    /// The usual ones, for a new worker.
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

    /// The same, and outcomes are appended whose predictions were found.
    #[must_use]
    pub fn appending_by(self, append: Arc<dyn Append>) -> Self {
        Self { append: Some(append), ..self }
    }

    /// The same, and what ingest hands over is not read.
    #[must_use]
    pub fn taking(self, segment_cache: SegmentCache) -> Self {
        Self { segment_cache, ..self }
    }

    /// The same, and small segments are merged, or not.
    #[must_use]
    pub fn compacting(self, compacts: bool) -> Self {
        Self { compacts, ..self }
    }

    /// The same, and days that grow a little rest so long between folds.
    #[must_use]
    pub fn resting(self, rest: Duration) -> Self {
        Self { rest, ..self }
    }

    /// The same, and what crossed is posted to webhooks.
    #[must_use]
    pub fn posting_by(self, sender: Option<Arc<dyn WebhookSender>>) -> Self {
        Self { sender, ..self }
    }
}

/// What a sweep compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The latest days of all workspaces, and all days of those whose turn it is.
    Latest,
    /// All days of one workspace.
    Workspace(Id),
}

/// A sweep that is to be made.
#[derive(Debug)]
pub(crate) struct Request {
    /// What it holds back until everything it found is written.
    pub(crate) mark: u64,
    pub(crate) extent: Extent,
}

/// Metrics that only grow, and some that do not.
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

/// Says that the table is not available and what waits for that. What is denied is said once, by [`log::store::Denials`].
pub(crate) fn waits(error: &Error, subject: &dyn Display, what: &str) {
    match error.is_denied() {
        true => tracing::debug!(%subject, %error, "{what}"),
        false => tracing::warn!(%subject, %error, "{what}"),
    }
}

/// Adds to a metric.
pub(crate) fn add(metric: &AtomicU64, by: u64) {
    metric.fetch_add(by, Ordering::Relaxed);
}

/// What the loops of a worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) table: Arc<dyn Table>,
    pub(crate) catalog: Catalog,
    pub(crate) options: Options,
    schedule: Mutex<Schedule>,
    /// There is something new in the schedule.
    pub(crate) work: Notify,
    pub(crate) requests: Mutex<Vec<Request>>,
    /// There is a sweep to be made.
    pub(crate) sweep: Notify,
    /// Whether the table may demand a sweep of all workspaces ([`crate::full_sweep`]).
    pub(crate) is_demanded: AtomicBool,
    /// Workspaces whose dead letters are to be counted again.
    pub(crate) recount: Mutex<BTreeSet<Id>>,
    /// How many dead letters stop something, by workspace, as last counted.
    pub(crate) stopped: Mutex<BTreeMap<Id, u64>>,
    /// Workspaces in which unmatched outcomes are to be looked at, or were of late.
    pub(crate) unmatched: Mutex<BTreeMap<Id, Looks>>,
    /// There is something new among them.
    pub(crate) unmatched_came: Notify,
    /// Days that were worked on since the last sweep.
    pub(crate) touched: Mutex<BTreeSet<WorkspaceDay>>,
    /// What cannot be written, as last counted or found, and why.
    pub(crate) unwritten: Mutex<BTreeMap<(WorkspaceDay, OfDay), String>>,
    /// What cannot be done for workspaces, as last counted or found, and why.
    pub(crate) undone: Mutex<BTreeMap<(Id, OfWorkspace), String>>,
    /// When this worker began.
    pub(crate) began: Instant,
    /// When it last swept all workspaces.
    pub(crate) swept_at: Mutex<Option<Instant>>,
    /// When the heartbeat was last written.
    pub(crate) last_beat: Mutex<Option<Instant>>,
    /// Shards that it should read and could not begin to, and since when.
    pub(crate) unheard: Mutex<BTreeMap<String, Instant>>,
    /// Since when the shards of the stream cannot be listed.
    pub(crate) unlisted: Mutex<Option<Instant>>,
    /// Shards or leases are not what they were.
    pub(crate) discover: Notify,
    pub(crate) following: Mutex<BTreeMap<String, Arc<Following>>>,
    pub(crate) stats: Stats,
    pub(crate) compactor: Compactor,
}

impl Shared {
    /// Of a worker that has done nothing yet.
    pub(crate) fn new(table: Arc<dyn Table>, options: Options) -> Self {
        Self {
            catalog: Catalog::new(Arc::clone(&table)),
            table,
            schedule: Mutex::new(Schedule::resting(options.rest)),
            options,
            work: Notify::new(),
            requests: Mutex::default(),
            sweep: Notify::new(),
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

    /// The time by which this worker decides: the earlier of its own clock and the engine's, so that one that is ahead decides nothing about
    /// days that are not over.
    pub(crate) fn now(&self) -> event::Timestamp {
        let now = self.options.clock.now();
        self.table.engine_time().map_or(now, |engine| engine.min(now))
    }

    /// Asks for a sweep; returns its mark.
    pub(crate) fn ask_for_sweep(&self, extent: Extent) -> u64 {
        let mark = self.schedule().hold();
        lock(&self.requests).push(Request { mark, extent });
        self.sweep.notify_one();
        mark
    }

    /// Has this worker look whether the table demands a sweep of all workspaces.
    pub(crate) fn look_for_demand(&self) {
        self.is_demanded.store(true, Ordering::Relaxed);
        self.sweep.notify_one();
    }

    /// Asks for a sweep that belongs to what carries `mark`: that is not settled before the sweep is.
    pub(crate) fn ask_for_sweep_under(&self, mark: u64, extent: Extent) {
        self.schedule().carry(mark);
        lock(&self.requests).push(Request { mark, extent });
        self.sweep.notify_one();
    }

    /// Whether it is the worker that sweeps now and then.
    pub(crate) fn has_sweep_lease(&self) -> bool {
        lock(&self.following).get(SWEEP).is_some_and(|sweep| sweep.has_lease())
    }
}
