//! How many writes have failed: who believes for a while that a table takes writes can tell by it that this is over.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use event::{Error, ErrorKind, Result};

use super::{Answer, Call, Layer, Table};

/// The writes of a table that failed because the engine could not be reached, or could not write.
#[derive(Debug, Default)]
pub struct FailedWrites(AtomicU64);

impl FailedWrites {
    /// The same table, and the writes of it that fail from now on.
    pub fn over(table: Arc<dyn Table>) -> (Arc<dyn Table>, Arc<Self>) {
        let failed = Arc::<Self>::default();
        (Arc::new(Counted { table, failed: Arc::clone(&failed) }), failed)
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A table whose failed writes are counted.
#[derive(Debug)]
struct Counted {
    table: Arc<dyn Table>,
    failed: Arc<FailedWrites>,
}

impl Layer for Counted {
    /// Whether the call writes.
    type Kept = bool;
    const ONE_BY_ONE: bool = false;

    fn below(&self) -> &dyn Table {
        &*self.table
    }

    async fn before(&self, call: Call<'_>) -> Result<bool> {
        Ok(!call.written().is_empty())
    }

    fn after(&self, writes: bool, answer: Result<Answer<'_>, &Error>) {
        if writes && answer.is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
            self.failed.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use event::Clock;

    use super::*;
    use crate::{Condition, Item, Key, sqlite::SqliteTable};

    #[tokio::test]
    async fn what_is_refused_by_a_condition_has_not_failed() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap();
        let (table, failed) = FailedWrites::over(Arc::new(table));
        let put = async || table.put(Item::new(Key::new("p", "s")), Condition::Absent).await;
        put().await.unwrap();
        assert!(put().await.unwrap_err().is_conflict());
        assert_eq!(failed.count(), 0);
    }
}
