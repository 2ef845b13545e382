//! The append: from a batch to durable segments, exactly once.
//!
//! A log remembers which batches are in it: a segment names them ([`store::batch`]). Whoever appends
//! at head + 1, under the condition that nothing is there, has read every segment before his own
//! (`log`), so he knows whether the batch is there already, whoever wrote it.
//!
//! How far back he must look is what differs:
//! - A batch with an idempotency key is **claimed** first (`claim`): a marker under the key holds the digest
//!   of its events and for each log a segment that surely stands before any of its own. So a repeat, days
//!   later and from anywhere, looks at the right place, and other events under the same key are refused.
//! - A batch without a key is known by its digest, and is the same one only for as long as a client may be
//!   trying again: as what was appended to the log within the last [`crate::limits::REPEAT_SECONDS`], by
//!   the log's own times (`look`). That costs no write besides the segment that it shares with others.
//! - A chunk of a file is known by its bytes, and each of its rows by its index, for good (`chunk`).
//!
//! What names a batch inside of the logs is its `identity`.

mod chunk;
mod claim;
mod differ;
mod identity;
mod log;
mod look;
mod meters;
mod old;
mod pack;
mod recent;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use store::{
    Clock, Day, Error, Id, Kind, Result, Table, Timestamp, batch::BatchId, catalog::Lanes, key::LogId,
};

use tokio::time::Instant;

use crate::batch::{Batch, Part};

pub use self::chunk::ChunkRows;
use self::{
    claim::{Claim, Claims},
    log::Log,
    meters::Meters,
    pack::{Entry, GROUPED_ROWS, Look},
    recent::Budget,
};

/// How many logs are known at once.
const MAX_KNOWN_LOGS: usize = 10_000;

/// How long what is remembered of logs may be more than it should be, before they are forgotten.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// How many logs of one batch are appended to side by side.
const MAX_LOGS_AT_ONCE: usize = 32;

/// From how many events on a batch is worked on aside of the threads that serve.
const BLOCKING_ROWS: usize = 500;

/// How long before and after a change of lanes an unclaimed batch is looked for in both, in seconds.
const LANES_OVERLAP_SECONDS: i64 = 60 * 60;

/// How long a batch is protected from being counted twice.
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

/// What was stored of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The batch, by its idempotency key.
    pub batch: String,
    /// What its events are.
    pub kind: Kind,
    /// How many events it has.
    pub rows: usize,
    /// How many of them belong to each day.
    pub days: BTreeMap<Day, usize>,
    /// How many of them this call stored; what is missing had been stored before.
    pub appended: usize,
    /// Whether all of the batch had been stored before.
    pub replayed: bool,
}

/// Appends batches to the log.
#[derive(Debug)]
pub struct Appender {
    table: Arc<dyn Table>,
    clock: Clock,
    logs: Mutex<Logs>,
    most_logs: usize,
    budget: Budget,
    meters: Arc<Meters>,
}

/// The logs that are known.
#[derive(Debug, Default)]
struct Logs {
    known: HashMap<LogId, Arc<Log>>,
    /// When those that nobody appended to were forgotten for what is remembered of them.
    swept: Option<Instant>,
}

/// A batch on its way into the logs.
struct Job<'a> {
    workspace: &'a Id,
    kind: Kind,
    digest: String,
    parts: BTreeMap<Day, Part>,
    remember: Remember,
    now: Timestamp,
}

impl Appender {
    /// An appender to `table`. What it appends bears the time of `clock`.
    pub fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        Self {
            table,
            clock,
            logs: Mutex::default(),
            most_logs: MAX_KNOWN_LOGS,
            budget: Budget::default(),
            meters: Arc::default(),
        }
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
        lanes: &Lanes,
        batch: Batch,
        idempotency_key: Option<&str>,
        remember: Remember,
    ) -> Result<Receipt> {
        let (kind, rows) = (batch.kind, batch.rows());
        let (digest, parts) = aside(rows, move || (batch.digest(), batch.into_parts())).await?;
        let name = idempotency_key.map_or_else(|| identity::content_key(&digest), str::to_owned);
        let days = parts.iter().map(|(day, part)| (*day, part.columns.rows)).collect();
        let job = Job { workspace, kind, digest, parts, remember, now: self.clock.now() };
        let appended = match idempotency_key {
            Some(key) => self.claimed(job, key, lanes).await?,
            None => self.unclaimed(job, lanes).await?,
        };
        Ok(Receipt { batch: name, kind, rows, days, appended, replayed: appended == 0 })
    }

    /// Appends a batch that has a claim; how many of its rows were missing.
    async fn claimed(&self, job: Job<'_>, name: &str, lanes: &Lanes) -> Result<usize> {
        let claims = Claims { table: &*self.table, workspace: job.workspace, kind: job.kind, name };
        let claim = match claims.read().await? {
            Some(claim) => claim,
            None => {
                let mut claim = Claim::new(&job.digest, job.rows(), job.remember, job.now);
                let lane = lane(claim.batch(name), lanes.at(job.now));
                claim.after = self.bounds(&job, lane).await?;
                claims.open(claim).await?
            }
        };
        self.fulfil(&claims, claim, job).await
    }

    /// Appends what is missing of a batch by its claim; how many rows that was.
    async fn fulfil(&self, claims: &Claims<'_>, mut claim: Claim, job: Job<'_>) -> Result<usize> {
        let name = claims.name;
        let batch = claim.batch(name);
        if claim.digest != job.digest {
            let differs = differ::difference(&*self.table, &claim, batch, &job.parts).await?;
            return Err(Error::conflict(format!(
                "the idempotency key `{name}` was used for other events: {differs}; new events need a new key"
            )));
        }
        let is_kept = claim.is_forever || job.remember != Remember::Forever;
        if claim.is_done && is_kept {
            return Ok(0);
        }
        let is_prolonged = job.remember == Remember::Forever && !claim.is_forever;
        claim.is_forever |= is_prolonged;
        let must_close = claim.is_forever || job.parts.len() > 1 || job.rows() > GROUPED_ROWS;
        let mut appended = 0;
        if !claim.is_done {
            let mut entries = Vec::with_capacity(job.parts.len());
            for (day, part) in job.parts {
                // The claim says in which lane the batch is, or will be.
                let place = claim.after.iter().find(|(log, _)| log.day == day);
                let (log, after) = place
                    .ok_or_else(|| Error::corrupt(format!("the marker of the batch `{name}` lacks {day}")))?;
                let entry = Entry::new(batch, part.columns, Look::Behind(*after));
                entries.push((self.log(log), entry.packed(log).await?));
            }
            appended = append_all(entries).await?;
        }
        if must_close {
            claim.is_done = true;
            match claims.write(&claim).await {
                Err(error) if is_prolonged => return Err(error),
                // Everything is stored: a claim that stays open only makes a repeat look into the logs.
                Err(error) => tracing::warn!(%error, "the marker of a batch stays open"),
                Ok(()) => {}
            }
        }
        Ok(appended)
    }

    /// Appends a batch that is known by its digest alone; how many of its rows were missing.
    async fn unclaimed(&self, job: Job<'_>, lanes: &Lanes) -> Result<usize> {
        let (batch, look) = match job.remember {
            Remember::Never => (identity::of_nothing(job.now), Look::Nowhere),
            Remember::Week | Remember::Forever => (identity::of_content(&job.digest), Look::Lately),
        };
        let mut entries = Vec::with_capacity(job.parts.len());
        let now_lane = lane(batch, lanes.at(job.now));
        let other_lane = lanes.near(job.now, LANES_OVERLAP_SECONDS).map(|count| lane(batch, count));
        let other_lane = other_lane.filter(|lane| look == Look::Lately && *lane != now_lane);
        let log_of = |day, lane| LogId { workspace: job.workspace.clone(), day, kind: job.kind, lane };
        for (day, part) in job.parts {
            let mut log = log_of(day, now_lane);
            let entry = Entry::new(batch, part.columns, look);
            if let Some(lane) = other_lane {
                let other = log_of(day, lane);
                if self.log(&other).holds(&entry).await? {
                    log = other;
                }
            }
            entries.push((self.log(&log), entry.packed(&log).await?));
        }
        append_all(entries).await
    }

    /// For each log that a new batch goes to, a segment that stands before any of the batch.
    async fn bounds(&self, job: &Job<'_>, lane: u8) -> Result<BTreeMap<LogId, u64>> {
        let days: Vec<Day> = job.parts.keys().copied().collect();
        let mut bounds = BTreeMap::new();
        for days in days.chunks(MAX_LOGS_AT_ONCE) {
            let reads = days.iter().map(|day| async move {
                let id = LogId { workspace: job.workspace.clone(), day: *day, kind: job.kind, lane };
                let bound = self.log(&id).bound().await?;
                Ok::<_, Error>((id, bound))
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
            let (table, clock) = (Arc::clone(&self.table), self.clock.clone());
            let (budget, meters) = (self.budget.clone(), Arc::clone(&self.meters));
            Arc::new(Log::new(id.clone(), table, clock, budget, meters))
        };
        Arc::clone(logs.known.entry(id.clone()).or_insert_with(new))
    }
}

impl Job<'_> {
    fn rows(&self) -> usize {
        self.parts.values().map(|part| part.columns.rows).sum()
    }
}

/// Appends the parts of a batch, each to its log; how many of its rows were missing.
async fn append_all(entries: Vec<(Arc<Log>, Entry)>) -> Result<usize> {
    let mut appended = 0;
    let mut entries = entries.into_iter();
    loop {
        let some: Vec<_> = entries.by_ref().take(MAX_LOGS_AT_ONCE).collect();
        if some.is_empty() {
            return Ok(appended);
        }
        let appends = some.into_iter().map(|(log, entry)| async move { log.append(entry).await });
        appended += futures::future::try_join_all(appends).await?.into_iter().sum::<usize>();
    }
}

/// The lane of a batch among `count` lanes.
fn lane(id: BatchId, count: u8) -> u8 {
    let number = u64::from_le_bytes([id.0[0], id.0[1], id.0[2], id.0[3], id.0[4], id.0[5], id.0[6], id.0[7]]);
    (number % u64::from(count.max(1))) as u8
}

/// Does work on `rows` events: at once when they are few, else aside of the threads that serve.
async fn aside<T: Send + 'static>(rows: usize, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    if rows <= BLOCKING_ROWS {
        return Ok(work());
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::unavailable("work on a batch was broken off").because(error))
}

#[cfg(test)]
mod tests;
