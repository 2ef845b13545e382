//! The marker of a batch: which events have its idempotency key, and where to look for them.

use std::collections::BTreeMap;

use event::{Error, Id, Kind, Result, Timestamp};
use log::{
    batch::{BatchId, after_from_item, after_to_item},
    key::{self, LogId},
};
use table::{Condition, Item, Key, Table};

use super::{Remember, identity};
use crate::limits::IDEMPOTENCY_SECONDS;

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Content of the marker.
pub(super) struct IdempotencyRecord {
    /// Digest of the events.
    pub(super) digest: String,
    /// Number of events.
    pub(super) rows: usize,
    /// Time of the key's first use.
    pub(super) claimed_at: Timestamp,
    /// True once all events are known to be stored.
    pub(super) is_done: bool,
    /// True if the record is never forgotten.
    pub(super) is_forever: bool,
    /// Segment of each log of the batch that stands before any of its own.
    pub(super) after: BTreeMap<LogId, u64>,
}

/// The marker under one idempotency key.
pub(super) struct IdempotencyRecords<'a> {
    pub(super) table: &'a dyn Table,
    pub(super) workspace: &'a Id,
    pub(super) kind: Kind,
    /// The idempotency key.
    pub(super) name: &'a str,
}

impl IdempotencyRecord {
    /// The record of a batch that nothing is known of.
    pub(super) fn new(digest: &str, rows: usize, remember: Remember, now: Timestamp) -> Self {
        Self {
            digest: digest.to_owned(),
            rows,
            claimed_at: now,
            is_done: false,
            is_forever: remember == Remember::Forever,
            after: BTreeMap::new(),
        }
    }

    /// True if everything is stored, and the record is remembered for as long as `remember` asks.
    pub(super) fn is_settled(&self, remember: Remember) -> bool {
        self.is_done && (self.is_forever || remember != Remember::Forever)
    }

    /// A segment of `log` that stands before any of the batch. Of a log that was not known to take some of
    /// it, the beginning.
    pub(super) fn after(&self, log: &LogId) -> u64 {
        self.after.get(log).copied().unwrap_or(0)
    }

    /// The name of its batch inside of the logs.
    pub(super) fn batch(&self, name: &str) -> BatchId {
        identity::of_claim(name, self.claimed_at, &self.digest)
    }

    fn to_item(&self, key: Key) -> Item {
        let item = Item::new(key)
            .with("v", ITEM_VERSION)
            .with("digest", self.digest.as_str())
            .with("n", self.rows as i64)
            .with("claimed_at", self.claimed_at.micros())
            .with("state", if self.is_done { "done" } else { "open" })
            .with("after", after_to_item(&self.after));
        match self.is_forever {
            true => item,
            false => {
                let expires_at = self.claimed_at.plus_seconds(IDEMPOTENCY_SECONDS);
                item.with("expires_at", expires_at.micros() / 1_000_000)
            }
        }
    }

    fn from_item(item: &Item, workspace: &Id) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        Ok(Self {
            digest: item.text("digest")?.to_owned(),
            rows: item.int("n")? as usize,
            claimed_at: Timestamp::from_micros(item.int("claimed_at")?)
                .ok_or_else(|| item.corrupt("`claimed_at` is no time"))?,
            is_done: item.text("state")? == "done",
            is_forever: !item.attributes.contains_key("expires_at"),
            after: after_from_item(item, workspace)?,
        })
    }
}

impl IdempotencyRecords<'_> {
    fn key(&self) -> Key {
        key::batch(self.workspace, self.kind, self.name)
    }

    /// The record, when there is one.
    pub(super) async fn read(&self) -> Result<Option<IdempotencyRecord>> {
        let item = self.table.get(&self.key()).await?;
        item.map(|item| IdempotencyRecord::from_item(&item, self.workspace)).transpose()
    }

    /// Writes a new record; returns the one that is there, when somebody was quicker.
    pub(super) async fn open(&self, record: IdempotencyRecord) -> Result<IdempotencyRecord> {
        match self.table.put(record.to_item(self.key()), Condition::Absent).await {
            Ok(()) => Ok(record),
            Err(error) if error.is_conflict() => self.read().await?.ok_or_else(|| {
                Error::unavailable("the batch is being stored elsewhere at the same time; try again")
            }),
            Err(error) => Err(error),
        }
    }

    /// Writes a record over itself, unless it was forgotten meanwhile: then another one may be there, or
    /// will be, and nothing is written.
    ///
    /// # Errors
    /// Errors of the table.
    pub(super) async fn write(&self, record: &IdempotencyRecord) -> Result<()> {
        let same = Condition::All(vec![
            Condition::Equals("claimed_at", record.claimed_at.micros().into()),
            Condition::Equals("digest", record.digest.as_str().into()),
        ]);
        match self.table.put(record.to_item(self.key()), same).await {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }
}
