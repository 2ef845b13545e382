//! Whether a table answers, and takes writes.

use event::{Result, Timestamp};

use crate::{Condition, Item, Key, Table};

/// Asks the table for the item at `key`, which is never there: whether it answers at all.
///
/// # Errors
/// Errors of [`Table::get`].
pub async fn probe(table: &dyn Table, key: &Key) -> Result<()> {
    table.get(key).await.map(drop)
}

/// Checks that the table takes writes, all the way to where they are durable: writes an item at `key`, which
/// is never read.
///
/// # Errors
/// Errors of [`Table::put`].
pub async fn probe_write(table: &dyn Table, key: Key, now: Timestamp) -> Result<()> {
    let item = Item::new(key).with("v", 1).with("at", now.micros());
    table.put(item, Condition::None).await
}
