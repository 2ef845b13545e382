//! Indexes that lag behind the table: they are read from a copy of it, which gets writes late.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use event::Result;
use table::{Condition, Key, Page, Query, Table};

use super::plan::{Dice, Fault};

/// Copy of a table, for its indexes.
#[derive(Debug)]
pub(super) struct LateIndex {
    copy: Arc<dyn Table>,
    /// Number of further reads of an index from which each key is hidden.
    late: std::sync::Mutex<BTreeMap<Key, u64>>,
    /// Lock, since concurrent copies of one item could leave the older one.
    copying: tokio::sync::Mutex<()>,
}

impl LateIndex {
    pub(super) fn new(copy: Arc<dyn Table>) -> Self {
        Self { copy, late: std::sync::Mutex::default(), copying: tokio::sync::Mutex::default() }
    }

    /// Notes a write. An item whose last write is still hidden stays hidden: entries of an index change in the order of the
    /// writes.
    pub(super) fn written(&self, keys: Vec<Key>, dice: &Dice) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            let reads = if dice.hits(Fault::LateIndex) { dice.faults().late_reads } else { 0 };
            let hidden = late.entry(key).or_default();
            *hidden = reads.max(*hidden);
        }
    }

    /// Copies items that are no longer hidden, and reads the copy.
    pub(super) async fn query(&self, table: &dyn Table, query: &Query) -> Result<Page> {
        let _copying = self.copying.lock().await;
        for key in self.due() {
            // The item may have changed since; then the copy is newer than necessary, but not wrong.
            match table.get(&key).await? {
                Some(item) => self.copy.put(item, Condition::None).await?,
                None => self.copy.delete(&key, Condition::None).await?,
            }
        }
        self.copy.query(query).await
    }

    fn due(&self) -> Vec<Key> {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let due = late.iter().filter(|(_, reads)| **reads == 0).map(|(key, _)| key.clone()).collect();
        late.retain(|_, reads| {
            let is_hidden = *reads > 0;
            *reads = reads.saturating_sub(1);
            is_hidden
        });
        due
    }
}
