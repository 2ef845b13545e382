//! Probes of a table: for an answer, and for writes.

use event::{Result, Timestamp};

use crate::{Condition, Item, Key, Table};

/// Checks that the table answers, by reading the item at `key`, which is never there.
///
/// # Errors
/// Errors of [`Table::get`].
pub async fn probe(table: &dyn Table, key: &Key) -> Result<()> {
    table.get(key).await.map(drop)
}

/// Checks that the table takes durable writes: writes an item at `key`, which is never read.
///
/// # Errors
/// Errors of [`Table::put`].
pub async fn probe_write(table: &dyn Table, key: Key, now: Timestamp) -> Result<()> {
    let item = Item::new(key).with("v", 1).with("at", now.micros());
    table.put(item, Condition::None).await
}
