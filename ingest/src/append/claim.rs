//! The marker of a batch: which events have its idempotency key, and where to look for them.

use std::collections::BTreeMap;

use store::{
    Error, Id, Item, Result, Table, Timestamp,
    item::Value,
    key::{self, Key, LogId},
    table::Condition,
};

use crate::limits::IDEMPOTENCY_SECONDS;

use super::Remember;

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// What the marker says.
pub(super) struct Claim {
    /// Of the events.
    pub(super) digest: String,
    /// How many events there are.
    pub(super) rows: usize,
    /// When the key was used first.
    pub(super) claimed_at: Timestamp,
    /// Whether all of them are known to be stored.
    pub(super) is_done: bool,
    /// Whether it is never forgotten.
    pub(super) is_forever: bool,
    /// For each log of the batch, a segment that stands before any of its own.
    pub(super) after: BTreeMap<LogId, u64>,
}

/// The marker under one idempotency key.
pub(super) struct Claims<'a> {
    pub(super) table: &'a dyn Table,
    pub(super) key: Key,
}

impl Claim {
    /// The claim of a batch that nothing is known of.
    pub(super) fn new(
        digest: &str,
        after: BTreeMap<LogId, u64>,
        rows: usize,
        remember: Remember,
        now: Timestamp,
    ) -> Self {
        let is_forever = remember == Remember::Forever;
        Self { digest: digest.to_owned(), rows, claimed_at: now, is_done: false, is_forever, after }
    }

    fn to_item(&self, key: Key) -> Item {
        let after = self.after.iter().map(|(log, seq)| (log.to_string(), Value::from(*seq as i64)));
        let item = Item::new(key)
            .with("v", ITEM_VERSION)
            .with("digest", self.digest.as_str())
            .with("n", self.rows as i64)
            .with("claimed_at", self.claimed_at.micros())
            .with("state", if self.is_done { "done" } else { "open" })
            .with("after", after.collect::<BTreeMap<_, _>>());
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
        let mut after = BTreeMap::new();
        for (log, seq) in item.map("after")? {
            let seq = match seq {
                Value::N(seq) => seq.as_i64().and_then(|seq| u64::try_from(seq).ok()),
                _ => None,
            };
            let (Some(log), Some(seq)) = (key::parse_log(workspace, log), seq) else {
                return Err(item.corrupt("`after` is not segment numbers of logs"));
            };
            after.insert(log, seq);
        }
        Ok(Self {
            digest: item.text("digest")?.to_owned(),
            rows: item.int("n")? as usize,
            claimed_at: Timestamp::from_micros(item.int("claimed_at")?)
                .ok_or_else(|| item.corrupt("`claimed_at` is no time"))?,
            is_done: item.text("state")? == "done",
            is_forever: !item.attributes.contains_key("expires_at"),
            after,
        })
    }
}

impl Claims<'_> {
    /// The claim, when there is one.
    pub(super) async fn read(&self, workspace: &Id) -> Result<Option<Claim>> {
        let item = self.table.get(&self.key).await?;
        item.map(|item| Claim::from_item(&item, workspace)).transpose()
    }

    /// Writes a new claim; returns the one that is there, when somebody was quicker.
    pub(super) async fn open(&self, workspace: &Id, claim: Claim) -> Result<Claim> {
        match self.table.put(claim.to_item(self.key.clone()), Condition::Absent).await {
            Ok(()) => Ok(claim),
            Err(error) if error.is_conflict() => self.read(workspace).await?.ok_or_else(|| {
                Error::unavailable("the batch is being stored elsewhere at the same time; try again")
            }),
            Err(error) => Err(error),
        }
    }

    /// Writes a claim over the one that is there.
    pub(super) async fn write(&self, claim: &Claim) -> Result<()> {
        self.table.put(claim.to_item(self.key.clone()), Condition::None).await
    }
}
