//! Leases: the worker that reads each shard, and the position up to which all its changes are written.
//!
//! A lease is one item. Every write of it demands the epoch that was read, and a new owner increments the epoch; so a worker that
//! was away for long cannot write over its successor's. A worker without the lease can read the shard as well: writes about days
//! are correct from any worker, and a lease only keeps them from doing the same work twice.

use event::{Result, Timestamp};
use log::key;
use serde::{Deserialize, Serialize};
use table::{Condition, Item, Position, Query, Shard, Table, item::Value, query_all};

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Time for which a lease is kept that no worker writes: longer than the feed is.
const KEEP_SECONDS: i64 = 48 * 60 * 60;

/// Attribute that every write of a lease demands.
const EPOCH: &str = "epoch";

/// Name that stands for a shard in the lease of the periodic sweep. No shard's id begins so.
pub const SWEEP: &str = "@sweep";

/// Lease of a shard: its reader and its checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Stream of the shard.
    #[serde(skip_serializing)]
    pub stream: String,
    /// Id of the shard.
    #[serde(skip_serializing)]
    pub shard: String,
    /// Shard that it continues.
    pub parent: Option<String>,
    /// Worker that has it.
    pub owner: Option<String>,
    /// Counter that grows by one with each change of the owner.
    pub epoch: i64,
    /// Position up to which everything is written; `None` when there is none yet.
    pub checkpoint: Option<Position>,
    /// True if the shard is closed and read to its end.
    pub is_done: bool,
    /// Time of the last write, by the clock of its writer. Only people read it.
    pub at: Timestamp,
}

impl Lease {
    /// First lease of a shard.
    pub(crate) fn first(shard: &Shard, stream: &str, owner: &str, checkpoint: Option<Position>) -> Self {
        Self {
            stream: stream.to_owned(),
            shard: shard.id.clone(),
            parent: shard.parent.clone(),
            owner: Some(owner.to_owned()),
            epoch: 1,
            checkpoint,
            is_done: false,
            at: Timestamp::default(),
        }
    }

    /// Lease with another owner, or none.
    pub(crate) fn passed_to(&self, owner: Option<&str>) -> Self {
        Self { owner: owner.map(str::to_owned), epoch: self.epoch + 1, ..self.clone() }
    }

    fn to_item(&self, now: Timestamp) -> Item {
        let key = key::lease(&self.stream, &self.shard);
        Item::record(key, ITEM_VERSION, &Self { at: now, ..self.clone() })
            .with("expires_at", now.micros().div_euclid(1_000_000) + KEEP_SECONDS)
    }

    fn from_item(stream: &str, item: &Item) -> Result<Self> {
        let shard =
            key::parse_lease(&item.key).ok_or_else(|| item.corrupt("its key is not one of a lease"))?;
        item.to_record_with(ITEM_VERSION, [("stream", stream), ("shard", shard)])
    }

    /// Writes the lease in place of the one whose epoch was `before`; 0 when there was none.
    ///
    /// # Errors
    /// `Conflict`, when another worker wrote it; errors of the table.
    pub(crate) async fn write(&self, table: &dyn Table, before: i64, now: Timestamp) -> Result<()> {
        let condition =
            if before == 0 { Condition::Absent } else { Condition::Equals(EPOCH, Value::from(before)) };
        table.put(self.to_item(now), condition).await
    }
}

/// Reads all leases of a stream.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn leases(table: &dyn Table, stream: &str) -> Result<Vec<Lease>> {
    let items = query_all(table, Query::table(key::leases(stream))).await?;
    items.iter().map(|item| Lease::from_item(stream, item)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_read_as_it_was_written() {
        let now = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let shard = Shard { id: "s/1".into(), parent: Some("s/0".into()) };
        let first = Lease { at: now, ..Lease::first(&shard, "s", "w", None) };
        assert_eq!(Lease::from_item("s", &first.to_item(now)).unwrap(), first);
        for checkpoint in [Position::Oldest, Position::After("oldest".into()), Position::After(String::new())]
        {
            let lease =
                Lease { checkpoint: Some(checkpoint), is_done: true, parent: None, ..first.passed_to(None) };
            assert_eq!(lease.epoch, 2);
            assert_eq!(Lease::from_item("s", &lease.to_item(now)).unwrap(), lease);
        }
    }
}
