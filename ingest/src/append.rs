//! The append: from a batch to durable segments, exactly once.
//!
//! 1. A marker under the idempotency key is written first, if there is none. It remembers the
//!    digest of the batch and, for each log that the batch goes to, a segment that surely stands
//!    before any of its own (`after`).
//! 2. Each log gets its rows as segments at head + 1, under the condition that nothing is there.
//!    Whoever finds something there reads it before trying the next number, so an append has seen
//!    every segment before its own and cannot miss a part of its batch that is there already.
//! 3. The marker is closed. A repeat of a closed batch is answered from the marker; a repeat of an
//!    open one looks through each log from `after` on, and appends just the rows that are missing.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex as StdMutex},
};

use store::{
    Clock, Columns, Day, Error, Id, Item, Kind, Result, Table,
    item::{MAX_ITEM_BYTES, Value},
    key::{self, LogId},
    log::{BatchPart, MAX_SEGMENT_BYTES, MAX_SEGMENT_ROWS, SUMMARY, Segment},
    scan,
    table::{Condition, Query, query_all},
};
use tokio::sync::Mutex;

use crate::{batch::Batch, limits::IDEMPOTENCY_SECONDS};

/// One lane is enough while one process appends.
const LANE: u8 = 0;

/// Version of the item of a marker.
const MARKER_VERSION: i64 = 1;

/// How often an append may find its place taken before it gives up.
const MAX_ATTEMPTS: usize = 1_000;

/// How many heads are remembered.
const MAX_KNOWN_LOGS: usize = 10_000;

/// How many logs of one batch are appended to side by side.
const MAX_LOGS_AT_ONCE: usize = 32;

/// How long a batch is protected from being counted twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remember {
    /// As long as a client may retry: [`IDEMPOTENCY_SECONDS`].
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

/// The last number of a log, as far as known. The lock keeps appends of this process in line.
type Head = Arc<Mutex<Option<u64>>>;

/// Appends batches to the log.
#[derive(Debug)]
pub struct Appender {
    table: Arc<dyn Table>,
    clock: Clock,
    heads: StdMutex<HashMap<LogId, Head>>,
}

/// What the marker of a batch says.
struct Marker {
    digest: String,
    done: bool,
    is_forever: bool,
    after: BTreeMap<String, u64>,
}

impl Appender {
    /// An appender to `table`. What it appends bears the time of `clock`.
    pub fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        Self { table, clock, heads: StdMutex::default() }
    }

    /// Appends a batch under an idempotency key; without one the digest of its events is the key,
    /// so that the same upload counts once. Returns after everything is durable.
    ///
    /// # Errors
    /// `Conflict`, when another batch had this key; those of the table otherwise. After an error
    /// the same call may be made again: it goes on where the first one ended.
    pub async fn append(
        &self,
        workspace: &Id,
        batch: &Batch,
        idempotency_key: Option<&str>,
        remember: Remember,
    ) -> Result<Receipt> {
        let digest = batch.digest();
        let id = idempotency_key.map_or_else(|| format!("sha256-{digest}"), str::to_owned);
        let parts: Vec<(LogId, Columns)> = batch
            .by_day()
            .into_iter()
            .map(|(day, columns)| {
                (LogId { workspace: workspace.clone(), day, kind: batch.kind, lane: LANE }, columns)
            })
            .collect();
        let days = parts.iter().map(|(log, columns)| (log.day, columns.rows)).collect();
        let receipt = Receipt { batch: id, kind: batch.kind, rows: batch.rows(), days, replayed: false };
        let marker = self.open_marker(&receipt, digest, workspace, &parts, remember).await?;
        // A batch that is remembered for good stays so, whoever closes it.
        let remember = if marker.is_forever { Remember::Forever } else { remember };
        if marker.done {
            if remember == Remember::Forever && !marker.is_forever {
                let item = self.marker_item(workspace, &receipt, &marker, remember);
                self.table.put(item, Condition::None).await?;
            }
            return Ok(Receipt { replayed: true, ..receipt });
        }
        for parts in parts.chunks(MAX_LOGS_AT_ONCE) {
            let appends = parts.iter().map(|(log, columns)| {
                let after = marker.after.get(&log.to_string()).copied().unwrap_or(0);
                self.append_to_log(log, &receipt.batch, columns, after)
            });
            futures::future::try_join_all(appends).await?;
        }
        let closed = Marker { done: true, ..marker };
        self.table.put(self.marker_item(workspace, &receipt, &closed, remember), Condition::None).await?;
        Ok(receipt)
    }

    /// The marker of a batch: the one that is there, or a new one.
    async fn open_marker(
        &self,
        receipt: &Receipt,
        digest: String,
        workspace: &Id,
        parts: &[(LogId, Columns)],
        remember: Remember,
    ) -> Result<Marker> {
        let id = &receipt.batch;
        let key = key::batch(workspace, receipt.kind, id);
        if let Some(item) = self.table.get(&key).await? {
            return check_digest(read_marker(&item)?, &digest, id);
        }
        let mut after = BTreeMap::new();
        for (log, _) in parts {
            let head = self.head(log);
            let mut head = head.lock().await;
            after.insert(log.to_string(), self.known_head(log, &mut head).await?);
        }
        let marker = Marker { digest, done: false, is_forever: remember == Remember::Forever, after };
        match self.table.put(self.marker_item(workspace, receipt, &marker, remember), Condition::Absent).await
        {
            Ok(()) => Ok(marker),
            Err(error) if error.is_conflict() => {
                let gone =
                    || Error::unavailable(format!("the batch `{id}` is being stored elsewhere; try again"));
                let item = self.table.get(&key).await?.ok_or_else(gone)?;
                check_digest(read_marker(&item)?, &marker.digest, id)
            }
            Err(error) => Err(error),
        }
    }

    fn marker_item(&self, workspace: &Id, receipt: &Receipt, marker: &Marker, remember: Remember) -> Item {
        let after = marker.after.iter().map(|(log, seq)| (log.clone(), Value::from(*seq as i64)));
        let item = Item::new(key::batch(workspace, receipt.kind, &receipt.batch))
            .with("v", MARKER_VERSION)
            .with("digest", marker.digest.as_str())
            .with("state", if marker.done { "done" } else { "open" })
            .with("after", after.collect::<BTreeMap<_, _>>());
        match remember {
            Remember::Forever => item,
            Remember::Week => item
                .with("expires_at", self.clock.now().plus_seconds(IDEMPOTENCY_SECONDS).micros() / 1_000_000),
        }
    }

    /// Appends the rows of a batch to one log, unless they are there already, behind segment `after`.
    async fn append_to_log(&self, log: &LogId, batch: &str, columns: &Columns, after: u64) -> Result<()> {
        let head = self.head(log);
        let mut head = head.lock().await;
        let mut last = self.known_head(log, &mut head).await?;
        let mut stored = 0;
        if last > after {
            (last, stored) = self.catch_up(log, after, batch, 0).await?;
        }
        for _ in 0..MAX_ATTEMPTS {
            if stored >= columns.rows {
                return Ok(());
            }
            let segment = self.pack(log, last + 1, batch, columns, stored)?;
            match self.table.put(segment.to_item(), Condition::Absent).await {
                Ok(()) => {
                    stored += segment.rows;
                    last += 1;
                }
                // Somebody else took the place, or an earlier try of this batch did.
                Err(error) if error.is_conflict() => {
                    (last, stored) = self.catch_up(log, last, batch, stored).await?
                }
                Err(error) => {
                    *head = None;
                    return Err(error);
                }
            }
            *head = Some(last);
        }
        Err(Error::new(store::ErrorKind::Throttled, format!("too many writers append to {log}; try again")))
    }

    /// Reads what stands in a log after segment `last`: the new last one, and how many rows of the
    /// batch are stored, when `stored` were up to `last`.
    async fn catch_up(&self, log: &LogId, last: u64, batch: &str, stored: usize) -> Result<(u64, usize)> {
        let query = Query::table(key::segments_from(log, last + 1)).only(SUMMARY);
        let (mut last, mut stored) = (last, stored);
        for item in query_all(&*self.table, query).await? {
            let segment = Segment::from_item(&item)?;
            last = segment.seq;
            for part in segment.batches.iter().filter(|part| part.batch == batch) {
                stored = stored.max(part.first + part.rows);
            }
        }
        Ok((last, stored))
    }

    /// The next segment: rows from `first` on, as many as fit.
    fn pack(&self, log: &LogId, seq: u64, batch: &str, columns: &Columns, first: usize) -> Result<Segment> {
        let mut rows = (columns.rows - first).min(MAX_SEGMENT_ROWS);
        loop {
            let part = match (first, rows) {
                (0, all) if all == columns.rows => Cow::Borrowed(columns),
                _ => Cow::Owned(columns.take(&(first..first + rows).collect::<Vec<_>>())),
            };
            let batches = vec![BatchPart { batch: batch.to_owned(), first, rows }];
            let segment = Segment::pack(log.clone(), seq, self.clock.now(), batches, &part)?;
            let fits = segment.data.len() <= MAX_SEGMENT_BYTES && segment.to_item().size() <= MAX_ITEM_BYTES;
            if fits || rows == 1 {
                return Ok(segment);
            }
            rows /= 2;
        }
    }

    fn head(&self, log: &LogId) -> Head {
        let mut heads = self.heads.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if heads.len() >= MAX_KNOWN_LOGS {
            heads.retain(|_, head| Arc::strong_count(head) > 1);
        }
        Arc::clone(heads.entry(log.clone()).or_default())
    }

    async fn known_head(&self, log: &LogId, head: &mut Option<u64>) -> Result<u64> {
        if let Some(last) = head {
            return Ok(*last);
        }
        let last = scan::head(&*self.table, log).await?;
        *head = Some(last);
        Ok(last)
    }
}

fn read_marker(item: &Item) -> Result<Marker> {
    item.check_version(MARKER_VERSION)?;
    let mut after = BTreeMap::new();
    for (log, seq) in item.map("after")? {
        let Value::N(seq) = seq else { return Err(item.corrupt("`after` is not segment numbers")) };
        after.insert(log.clone(), seq.as_i64().unwrap_or(0) as u64);
    }
    Ok(Marker {
        digest: item.text("digest")?.to_owned(),
        done: item.text("state")? == "done",
        is_forever: !item.attributes.contains_key("expires_at"),
        after,
    })
}

fn check_digest(marker: Marker, digest: &str, id: &str) -> Result<Marker> {
    if marker.digest != digest {
        return Err(Error::conflict(format!(
            "the idempotency key `{id}` was used for other events before; a new batch needs a new key"
        )));
    }
    Ok(marker)
}
