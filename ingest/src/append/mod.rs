//! The append: from a batch to durable segments, exactly once.
//!
//! A log remembers which batches are in it: a segment names them ([`store::batch`]). Whoever appends
//! at head + 1, under the condition that nothing is there, has read every segment before his own
//! (`log`), so he knows whether the batch is there already, whoever wrote it.
//!
//! How far back he must look is what differs:
//! - A batch with an idempotency key, or a large one, is **claimed** first (`claim`): a marker under
//!   the key holds the digest of its events and for each log a segment that surely stands before any
//!   of its own. So a repeat, days later and from anywhere, looks at the right place, and other events
//!   under the same key are refused.
//! - A small batch without a key is known by its digest, among the latest batches of the log
//!   (`recent`). That costs no write besides the segment that it shares with others.

mod claim;
mod differ;
mod log;
mod meters;
mod pack;
mod recent;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use sha2::{Digest, Sha256};
use store::{
    Clock, Day, Error, Id, Kind, Result, Table, Timestamp,
    batch::BatchId,
    catalog::Lanes,
    key::{self, LogId},
};

use crate::batch::{Batch, Part};

use self::{
    claim::{Claim, Claims},
    log::Log,
    meters::Meters,
    pack::{Entry, GROUPED_ROWS},
    recent::Budget,
};

/// Batches of up to so many events are not claimed when they come without an idempotency key.
const UNCLAIMED_ROWS: usize = 100;

/// How many logs are known at once.
const MAX_KNOWN_LOGS: usize = 10_000;

/// How many logs of one batch are appended to side by side.
const MAX_LOGS_AT_ONCE: usize = 32;

/// From how many events on a batch is worked on aside of the threads that serve.
const BLOCKING_ROWS: usize = 500;

/// How long before and after a change of lanes an unclaimed batch is looked for in both, in seconds.
const LANES_OVERLAP_SECONDS: i64 = 60 * 60;

/// How long a batch is protected from being counted twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remember {
    /// As long as a client may retry: [`crate::limits::IDEMPOTENCY_SECONDS`].
    Week,
    /// For good: files that may be imported again at any time.
    Forever,
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
    /// Whether the batch had been stored before.
    pub replayed: bool,
}

/// Appends batches to the log.
#[derive(Debug)]
pub struct Appender {
    table: Arc<dyn Table>,
    clock: Clock,
    logs: Mutex<HashMap<LogId, Arc<Log>>>,
    budget: Budget,
    meters: Arc<Meters>,
}

/// A batch on its way into the logs.
struct Job<'a> {
    workspace: &'a Id,
    kind: Kind,
    /// Its idempotency key, given or made of the digest.
    name: String,
    id: BatchId,
    digest: String,
    is_named_by_digest: bool,
    parts: BTreeMap<Day, Part>,
    remember: Remember,
    now: Timestamp,
}

impl Appender {
    /// An appender to `table`. What it appends bears the time of `clock`.
    pub fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        Self { table, clock, logs: Mutex::default(), budget: Budget::default(), meters: Arc::default() }
    }

    /// Appends a batch under an idempotency key; without one the digest of its events is the key,
    /// so that the same upload counts once. Returns after everything is durable.
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
        let name = idempotency_key.map_or_else(|| format!("sha256-{digest}"), str::to_owned);
        let days = parts.iter().map(|(day, part)| (*day, part.columns.rows)).collect();
        let job = Job {
            workspace,
            kind,
            id: batch_id(&name),
            digest,
            is_named_by_digest: idempotency_key.is_none(),
            parts,
            remember,
            now: self.clock.now(),
            name: name.clone(),
        };
        let is_claimed = idempotency_key.is_some() || remember == Remember::Forever || rows > UNCLAIMED_ROWS;
        let appended =
            if is_claimed { self.claimed(job, lanes).await? } else { self.unclaimed(job, lanes).await? };
        Ok(Receipt { batch: name, kind, rows, days, replayed: !appended })
    }

    /// Appends a batch that has a claim; whether any of it was missing.
    async fn claimed(&self, job: Job<'_>, lanes: &Lanes) -> Result<bool> {
        let claims = Claims { table: &*self.table, key: key::batch(job.workspace, job.kind, &job.name) };
        let mut claim = match claims.read(job.workspace).await? {
            Some(claim) => claim,
            None => {
                let mut after = BTreeMap::new();
                for (log, bound) in self.bounds(&job, lanes).await? {
                    after.insert(log, bound);
                }
                let claim = Claim::new(&job.digest, after, job.rows(), job.remember, job.now);
                claims.open(job.workspace, claim).await?
            }
        };
        if claim.digest != job.digest {
            let differs = differ::difference(&*self.table, &claim, job.id, &job.parts).await?;
            return Err(Error::conflict(format!(
                "the idempotency key `{}` was used for other events: {differs}; new events need a new key",
                job.name
            )));
        }
        let is_kept = claim.is_forever || job.remember == Remember::Week;
        if claim.is_done && is_kept {
            return Ok(false);
        }
        claim.is_forever |= job.remember == Remember::Forever;
        let must_close = claim.is_forever || job.parts.len() > 1 || job.rows() > GROUPED_ROWS;
        let mut appended = false;
        if !claim.is_done {
            let mut entries = Vec::with_capacity(job.parts.len());
            for (day, part) in job.parts {
                // The claim says in which lane the batch is, or will be.
                let place = claim.after.iter().find(|(log, _)| log.day == day);
                let (log, after) = place.ok_or_else(|| {
                    Error::corrupt(format!("the marker of the batch `{}` lacks {day}", job.name))
                })?;
                let entry = Entry::new(job.id, part.columns, Some(*after), job.is_named_by_digest);
                entries.push((self.log(log), entry.packed(log).await?));
            }
            appended = append_all(entries).await?;
        }
        if must_close {
            claim.is_done = true;
            claims.write(&claim).await?;
        }
        Ok(appended)
    }

    /// Appends a small batch that is known by its digest alone; whether any of it was missing.
    async fn unclaimed(&self, job: Job<'_>, lanes: &Lanes) -> Result<bool> {
        let mut entries = Vec::with_capacity(job.parts.len());
        let other_lane = lanes.near(job.now, LANES_OVERLAP_SECONDS).map(|count| lane(job.id, count));
        let now_lane = lane(job.id, lanes.at(job.now));
        let log_of = |day, lane| LogId { workspace: job.workspace.clone(), day, kind: job.kind, lane };
        for (day, part) in job.parts {
            let mut log = self.log(&log_of(day, now_lane));
            let entry = Entry::new(job.id, part.columns, None, true);
            if let Some(lane) = other_lane.filter(|lane| *lane != now_lane) {
                let other = self.log(&log_of(day, lane));
                if other.holds(&entry).await? {
                    log = other;
                }
            }
            entries.push((log, entry));
        }
        append_all(entries).await
    }

    /// For each log that a new batch goes to, a segment that stands before any of the batch.
    async fn bounds(&self, job: &Job<'_>, lanes: &Lanes) -> Result<Vec<(LogId, u64)>> {
        let lane = lane(job.id, lanes.at(job.now));
        let days: Vec<Day> = job.parts.keys().copied().collect();
        let mut bounds = Vec::with_capacity(days.len());
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
        if logs.len() >= MAX_KNOWN_LOGS || self.budget.is_spent() {
            logs.retain(|_, log| Arc::strong_count(log) > 1);
        }
        let new = || {
            let (table, clock) = (Arc::clone(&self.table), self.clock.clone());
            let (budget, meters) = (self.budget.clone(), Arc::clone(&self.meters));
            Arc::new(Log::new(id.clone(), table, clock, budget, meters))
        };
        Arc::clone(logs.entry(id.clone()).or_insert_with(new))
    }
}

impl Job<'_> {
    fn rows(&self) -> usize {
        self.parts.values().map(|part| part.columns.rows).sum()
    }
}

/// Appends the parts of a batch, each to its log; whether any of them was missing.
async fn append_all(entries: Vec<(Arc<Log>, Entry)>) -> Result<bool> {
    let mut appended = false;
    let mut entries = entries.into_iter();
    loop {
        let some: Vec<_> = entries.by_ref().take(MAX_LOGS_AT_ONCE).collect();
        if some.is_empty() {
            return Ok(appended);
        }
        let appends = some.into_iter().map(|(log, entry)| async move { log.append(entry).await });
        appended |= futures::future::try_join_all(appends).await?.contains(&true);
    }
}

/// The name of a batch inside of the logs.
fn batch_id(idempotency_key: &str) -> BatchId {
    let digest = Sha256::digest(idempotency_key);
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    BatchId(id)
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
