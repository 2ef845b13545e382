//! The append: from a batch to durable segments, exactly once.
//!
//! A log remembers which batches are in it: a segment names them ([`log::batch`]). A writer appends at
//! head + 1, under the condition that nothing is there, and has read every segment before its own
//! (`log`), so it knows whether any writer has stored the batch already.
//!
//! The name of a batch decides how far back a writer must look:
//! - A batch with an idempotency key is **claimed** first (`record`): a marker under the key holds the digest
//!   of its events and for each log a segment that surely stands before any of its own. So a repeat, days
//!   later and from anywhere, looks at the right place, and other events under the same key are refused.
//! - A batch without a key is known by its digest, and is the same one only for as long as a client may be
//!   trying again: as what was appended to the log within the last [`crate::limits::REPEAT_SECONDS`], by
//!   the log's own times (`look`). That costs no write besides the segment that it shares with others.
//! - Outcomes without a date go to the logs of the day on which their batch came: that of its record. So such a batch is always
//!   claimed, and one without a key is by its digest.
//! - Decided outcomes are known by their decision, which says where to look ([`Appender::append_decided`]).
//! - A chunk of a file is known by its bytes, and each of its rows by its index, for good (`chunk`).
//!
//! The `identity` of a batch names it in the logs. The keys of its events decide in which log each belongs (`place`), and
//! one of two clocks says when they were appended (`times`).

mod chunk;
mod decided;
mod differ;
mod group_commit;
mod idempotency;
mod identity;
mod look;
mod meters;
mod pack;
mod place;
mod recent;
mod recorded;
mod times;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use catalog::{Catalog, Noted, record_metrics};
use event::{Clock, Columns, Day, Error, Id, Kind, Result, Share, Timestamp};
use log::{
    append_notifier::Appending, audit::current, batch::BatchId, content, key::LogId,
    segment_cache::SegmentCache, vintage,
};
use table::Table;
use tokio::time::Instant;

use self::{
    group_commit::Log,
    meters::Meters,
    pack::{Entry, Look},
    place::{Dealt, Places},
    recent::Budget,
    times::Times,
};
use crate::{
    batch::{Batch, Part, Parts},
    erased::Erased,
};

pub use self::{
    chunk::ChunkRows,
    times::{MAX_SKEW_SECONDS, check_clock},
};

/// Maximum number of known logs.
const MAX_KNOWN_LOGS: usize = 10_000;

/// Interval between sweeps that forget logs above their maximum.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Number of logs of one batch that are appended to side by side.
const MAX_LOGS_AT_ONCE: usize = 32;

/// Number of events from which on a batch is worked on away from the threads that serve.
const BLOCKING_ROWS: usize = 500;

/// Time for which a batch is protected from being counted twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remember {
    /// As long as a client may retry: [`crate::limits::IDEMPOTENCY_SECONDS`] when it has a key,
    /// [`crate::limits::REPEAT_SECONDS`] when it has none.
    Week,
    /// For good, when it has a key.
    Forever,
    /// As long as a client may retry when it has a key; when it has none, not at all: it is stored as often
    /// as it comes.
    Never,
}

/// Receipt of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The batch, by its idempotency key.
    pub batch: String,
    /// Kind of its events.
    pub kind: Kind,
    /// Number of its events.
    pub rows: usize,
    /// Number of its events on each day.
    pub days: BTreeMap<Day, usize>,
    /// Number of its events that wait for the predictions that they judge.
    pub unmatched: usize,
    /// Number of its events that this call stored; all other events had been stored before.
    pub appended: usize,
    /// True if all of the batch had been stored before.
    pub replayed: bool,
    /// Time at which events count as known that were stated to be known earlier: their log has other events that were known
    /// then.
    pub known_later: Option<Timestamp>,
}

/// Result of appending a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Appended {
    /// Number of appended rows.
    pub(crate) rows: usize,
    /// As [`Receipt::known_later`].
    pub(crate) known_later: Option<Timestamp>,
}

impl Appended {
    fn add(&mut self, more: Self) {
        self.rows += more.rows;
        self.known_later = self.known_later.max(more.known_later);
    }
}

impl Receipt {
    /// Says from when on events count as known that were stated to be known earlier.
    pub fn known_later(&self) -> Option<String> {
        self.known_later.map(|at| {
            format!(
                "some events count as known only from {at}, since events of their days are stored already that were known then; \
                 what was known first is appended first"
            )
        })
    }

    /// The receipt of a batch without events. Nothing is stored of it, nor is its key remembered.
    pub(crate) fn of_nothing(batch: String, kind: Kind) -> Self {
        let days = BTreeMap::new();
        Self { batch, kind, rows: 0, days, unmatched: 0, appended: 0, replayed: false, known_later: None }
    }
}

/// Appends batches to the log.
#[derive(Debug)]
pub struct Appender {
    pub(crate) table: Arc<dyn Table>,
    times: Times,
    places: Places,
    pub(crate) erased: Arc<Erased>,
    segment_cache: SegmentCache,
    logs: Mutex<Logs>,
    most_logs: usize,
    budget: Budget,
    meters: Arc<Meters>,
    /// Share of the keys whose features are kept.
    features: Share,
}

/// The logs that are known.
#[derive(Debug, Default)]
struct Logs {
    known: HashMap<LogId, Arc<Log>>,
    /// Time of the last sweep that forgot unused logs.
    swept: Option<Instant>,
}

/// A batch on its way into the logs.
struct Job<'a> {
    workspace: &'a Id,
    kind: Kind,
    /// Number of lanes for its days that have none yet.
    lanes: u8,
    digest: String,
    remember: Remember,
    now: Timestamp,
    /// The day on which it came, under which what waits of it stands.
    arrival: Day,
}

impl Job<'_> {
    /// Returns what decides in which logs its events belong.
    fn to(&self) -> (Kind, u8, Day) {
        (self.kind, self.lanes, self.arrival)
    }
}

impl Appender {
    /// An appender to `table`. What it appends has the time of `clock`, which must be near that of the
    /// engine.
    pub fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        Self::with(table, Times::new(clock, false))
    }

    /// An appender of history: `clock` tells when each event was appended then.
    pub fn replaying(table: Arc<dyn Table>, clock: Clock) -> Self {
        Self::with(table, Times::new(clock, true))
    }

    fn with(table: Arc<dyn Table>, times: Times) -> Self {
        let meters = Arc::<Meters>::default();
        let places = Places::new(Arc::clone(&table), times.clone(), Arc::clone(&meters));
        let erased = Arc::new(Erased::new(Catalog::new(Arc::clone(&table))));
        Self {
            table,
            times,
            places,
            erased,
            segment_cache: SegmentCache::default(),
            logs: Mutex::default(),
            most_logs: MAX_KNOWN_LOGS,
            budget: Budget::default(),
            meters,
            features: Share::ALL,
        }
    }

    /// Keeps the features of a share of all keys only. They are left out after a batch has its name, so a batch that is
    /// sent again is the same one whatever the share is by then.
    pub fn sampling_features(self, share: Share) -> Self {
        Self { features: share, ..self }
    }

    /// Hands over what it has put.
    pub fn caching_segments(self, segment_cache: SegmentCache) -> Self {
        Self { segment_cache, ..self }
    }

    /// Appends a batch under an idempotency key; without one the digest of its events is its name for some
    /// minutes, so that the same upload counts once. Returns after everything is durable.
    ///
    /// # Errors
    /// `Conflict`, when another batch had this key, with what differs; those of the table otherwise.
    /// After an error the same call may be made again: it goes on where the first one ended.
    pub async fn append(
        &self,
        workspace: &Id,
        lanes: u8,
        batch: Batch,
        idempotency_key: Option<&str>,
        remember: Remember,
    ) -> Result<Receipt> {
        let _appending = Appending::begin();
        let (kind, rows) = (batch.kind, batch.rows());
        let (digest, parts) = off_thread(rows, move || (batch.digest(), batch.into_parts())).await?;
        let name = idempotency_key.map_or_else(|| content::key(&digest), str::to_owned);
        let dated = parts.iter().filter_map(|(day, part)| Some(((*day)?, part.columns.rows)));
        let days: BTreeMap<Day, usize> = dated.collect();
        let unmatched = rows - days.values().sum::<usize>();
        let now = self.times.now();
        let job = Job { workspace, kind, lanes, digest, remember, now, arrival: now.day() };
        let is_stored_always = idempotency_key.is_none() && remember == Remember::Never;
        let Appended { rows: appended, known_later } = match idempotency_key {
            Some(key) => self.recorded(job, key, parts).await?,
            None if unmatched > 0 && !is_stored_always => self.recorded(job, &name, parts).await?,
            None => self.unclaimed(job, parts).await?,
        };
        let replayed = appended == 0;
        Ok(Receipt { batch: name, kind, rows, days, unmatched, appended, replayed, known_later })
    }

    /// Appends a batch that is known by its digest alone; how many of its rows were missing.
    async fn unclaimed(&self, job: Job<'_>, parts: Parts) -> Result<Appended> {
        let (batch, look) = match job.remember {
            Remember::Never => (identity::of_nothing(job.now), Look::Nowhere),
            Remember::Week | Remember::Forever => (content::batch(&job.digest), Look::Lately),
        };
        let dealt = self.deal(job.workspace, job.to(), parts).await?;
        self.store(&job, batch, dealt, &|_| look).await
    }

    /// Deals the parts of a batch of a kind to the logs that they belong in; days that have no lanes yet get `lanes`, and what waits
    /// stands under the day of its `arrival`.
    async fn deal(
        &self,
        workspace: &Id,
        (kind, lanes, arrival): (Kind, u8, Day),
        parts: Parts,
    ) -> Result<Vec<Dealt>> {
        let mut dealt = Vec::with_capacity(parts.len());
        let mut parts = parts.into_iter();
        loop {
            let some: Vec<_> = parts.by_ref().take(MAX_LOGS_AT_ONCE).collect();
            if some.is_empty() {
                return Ok(dealt);
            }
            let deals = some.into_iter().map(|(day, part)| {
                let (kind, day) = day.map_or((Kind::Unmatched, arrival), |day| (kind, day));
                let log = LogId { workspace: workspace.clone(), day, kind, lane: 0 };
                self.places.deal(log, part, lanes)
            });
            dealt.extend(futures::future::try_join_all(deals).await?.into_iter().flatten());
        }
    }

    /// Appends what was dealt of a batch, each part to its log; how many rows were missing. `look` says where
    /// a log may hold them already.
    async fn store(
        &self,
        job: &Job<'_>,
        batch: BatchId,
        mut dealt: Vec<Dealt>,
        look: &(dyn Fn(&LogId) -> Look + Sync),
    ) -> Result<Appended> {
        let mut appended = Appended::default();
        while !dealt.is_empty() {
            let (some, elsewhere) = self.store_as_dealt(batch, dealt, look, None).await?;
            appended.add(some);
            dealt = self.deal(job.workspace, job.to(), elsewhere).await?;
        }
        Ok(appended)
    }

    /// Appends what was dealt of a batch; how many rows were missing, and what belongs elsewhere because
    /// another process was quicker to say how many lanes a day has. Of a chunk of a file `index` says which of
    /// its rows has a number.
    async fn store_as_dealt(
        &self,
        batch: BatchId,
        dealt: Vec<Dealt>,
        look: &(dyn Fn(&LogId) -> Look + Sync),
        index: Option<&(dyn Fn(u64) -> u32 + Sync)>,
    ) -> Result<(Appended, Parts)> {
        note_stated(&*self.table, &dealt).await?;
        let (mut appended, mut elsewhere) = (Appended::default(), Parts::new());
        let mut runs = BTreeMap::<Id, Noted>::new();
        let mut dealt = dealt.into_iter();
        loop {
            let some: Vec<Dealt> = dealt.by_ref().take(MAX_LOGS_AT_ONCE).collect();
            if some.is_empty() {
                self.record_runs(runs).await;
                return Ok((appended, elsewhere));
            }
            let appends = some.into_iter().map(|mut dealt| async move {
                let log = dealt.log.clone();
                self.features.thin(log.kind, &mut dealt.part.columns);
                let (entry, numbers) = Entry::new(batch, dealt, look(&log));
                let entry = match index {
                    Some(index) => entry.of_chunk(numbers.iter().map(|number| index(*number)).collect()),
                    None => entry,
                };
                let entry = Arc::new(entry.packed(&log).await?);
                let stored = self.log(&log).append(Arc::clone(&entry)).await?;
                let part = || Part { columns: Columns::clone(&entry.columns), numbers };
                let day = (log.kind != Kind::Unmatched).then_some(log.day);
                let again = stored.is_elsewhere.then(|| (day, part()));
                Ok::<_, Error>((stored, again, log, entry))
            });
            for (stored, again, log, entry) in futures::future::try_join_all(appends).await? {
                appended.add(stored.appended);
                elsewhere.extend(again);
                // Where rows stand that an earlier call stored is not known.
                let is_placed = log.kind == Kind::Metrics && stored.appended.rows == entry.columns.rows;
                if let Some(segments) = stored.segments.filter(|_| is_placed) {
                    runs.entry(log.workspace.clone())
                        .or_default()
                        .add(&entry.columns, Some((&log, segments)));
                }
            }
        }
    }

    /// Records the latest values of metrics of runs and where they stand, so that who appended them finds them at once. They
    /// are in the log: whatever fails here, the projector records them as well.
    async fn record_runs(&self, runs: BTreeMap<Id, Noted>) {
        for (workspace, noted) in runs.into_iter().filter(|(_, noted)| !noted.is_empty()) {
            if let Err(error) = record_metrics(&*self.table, &workspace, noted).await {
                self.meters.unrecorded.increment(1);
                tracing::warn!(%workspace, %error, "metrics of runs are stored; the projector records the latest ones");
            }
        }
    }

    /// Returns a segment of each log that a new batch goes to, which stands before any of the batch.
    async fn bounds(&self, dealt: &[Dealt]) -> Result<BTreeMap<LogId, u64>> {
        let mut bounds = BTreeMap::new();
        for dealt in dealt.chunks(MAX_LOGS_AT_ONCE) {
            let reads = dealt.iter().map(|dealt| async move {
                let bound = self.log(&dealt.log).bound().await?;
                Ok::<_, Error>((dealt.log.clone(), bound))
            });
            bounds.extend(futures::future::try_join_all(reads).await?);
        }
        Ok(bounds)
    }

    fn log(&self, id: &LogId) -> Arc<Log> {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = logs.known.contains_key(id);
        let is_swept = logs.swept.is_some_and(|swept| swept.elapsed() < SWEEP_EVERY);
        if !is_known && logs.known.len() >= self.most_logs || self.budget.is_spent() && !is_swept {
            // They are read back when somebody appends to them again.
            logs.known.retain(|_, log| Arc::strong_count(log) > 1);
            logs.swept = Some(Instant::now());
        }
        let new = || {
            let of = (Arc::clone(&self.table), Arc::clone(&self.erased), self.segment_cache.clone());
            let (times, budget, meters) = (self.times.clone(), self.budget.clone(), Arc::clone(&self.meters));
            Arc::new(Log::new(id.clone(), of, times, budget, meters))
        };
        Arc::clone(logs.known.entry(id.clone()).or_insert_with(new))
    }
}

/// Notes the days of which events are to be appended that were known earlier, as their author states.
async fn note_stated(table: &dyn Table, dealt: &[Dealt]) -> Result<()> {
    if current().known_at().is_none() {
        return Ok(());
    }
    let days: BTreeSet<_> = dealt.iter().map(|dealt| (&dealt.log.workspace, dealt.log.day)).collect();
    for (workspace, day) in days {
        vintage::note_stated(table, workspace, day).await?;
    }
    Ok(())
}

/// Does work on `rows` events: at once when they are few, else away from the threads that serve.
async fn off_thread<T: Send + 'static>(rows: usize, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    if rows <= BLOCKING_ROWS {
        return Ok(work());
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::unavailable("work on a batch was broken off").because(error))
}

#[cfg(test)]
mod tests;
