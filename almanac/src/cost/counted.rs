//! A table that counts what its calls would cost on DynamoDB, above any other engine.
//!
//! What a call costs stands in [`table::units`]; deleting costs what the item did.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use event::{Error, Result};
use table::{
    Answer, Call, Item, Key, Layer, Table, Write,
    units::{copies, read_units, write_units},
};

/// What DynamoDB adds to the size of each item that it bills as stored.
pub(super) const ITEM_OVERHEAD: usize = 100;

/// Units that were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Units {
    /// Write request units.
    pub(super) written: u64,
    /// Read request units.
    pub(super) read: u64,
}

/// Counts on the way to another table.
#[derive(Debug)]
pub(super) struct Counting {
    inner: Arc<dyn Table>,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    units: Units,
    /// The bytes and copies of each item that is there.
    stored: BTreeMap<Key, (usize, u64)>,
}

impl Counted {
    fn put(&mut self, item: &Item, times: u64) {
        let copies = copies(item);
        self.units.written += times * copies * write_units(item.size());
        self.stored.insert(item.key.clone(), (item.size(), copies));
    }

    fn delete(&mut self, key: &Key, times: u64) {
        let (bytes, copies) = self.stored.remove(key).unwrap_or((0, 1));
        self.units.written += times * copies * write_units(bytes);
    }
}

impl Counting {
    pub(super) fn new(inner: Arc<dyn Table>) -> Self {
        Self { inner, counted: Mutex::default() }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The units since this was last asked.
    pub(super) fn take(&self) -> Units {
        std::mem::take(&mut self.counted().units)
    }

    /// The bytes of each item that was put and is there, of those whose keys are wanted.
    pub(super) fn stored(&self, wanted: impl Fn(&Key) -> bool) -> Vec<usize> {
        let counted = self.counted();
        counted.stored.iter().filter(|(key, _)| wanted(key)).map(|(_, (bytes, _))| *bytes).collect()
    }
}

impl Layer for Counting {
    type Kept = bool;
    const ONE_BY_ONE: bool = false;

    fn below(&self) -> &dyn Table {
        &*self.inner
    }

    async fn before(&self, call: Call<'_>) -> Result<bool> {
        let mut counted = self.counted();
        match call {
            Call::Transact(writes) => {
                for write in writes {
                    match write {
                        Write::Put(item, _) => counted.put(item, 2),
                        Write::Delete(key, _) => counted.delete(key, 2),
                        Write::Check(..) | Write::Add(..) | Write::Update(_) => counted.units.written += 2,
                    }
                }
            }
            Call::Delete(key) => counted.delete(key, 1),
            _ => call.items().into_iter().for_each(|item| counted.put(item, 1)),
        }
        Ok(matches!(call, Call::Get(_)))
    }

    fn after(&self, is_get: bool, answer: Result<Answer<'_>, &Error>) {
        let bytes = match answer {
            Ok(Answer::Item(item)) => item.size(),
            Ok(Answer::Page(page)) => page.items.iter().map(Item::size).sum(),
            Ok(Answer::Done) if is_get => 0,
            _ => return,
        };
        self.counted().units.read += read_units(bytes);
    }
}

#[cfg(test)]
mod tests {
    use event::Clock;
    use table::{Condition, sqlite::SqliteTable};

    use super::*;

    #[tokio::test]
    async fn units_are_those_of_dynamodb() {
        assert_eq!([0, 1, 1_024, 1_025, 400 * 1_024].map(write_units), [1, 1, 1, 2, 400]);
        assert_eq!([0, 4_096, 4_097].map(read_units), [1, 1, 2]);
        let folder = tempfile::tempdir().unwrap();
        let inner = Arc::new(SqliteTable::open(&folder.path().join("a.db"), Clock::system()).unwrap());
        let table = Counting::new(inner);
        let key = Key::new("w#a", "b");
        let item = Item::new(key.clone()).with("data", "x".repeat(5_000));
        table.put(item.clone(), Condition::Absent).await.unwrap();
        assert_eq!(table.take(), Units { written: 5, read: 0 });
        assert!(table.get(&key).await.unwrap().is_some());
        assert!(table.get(&Key::new("w#a", "c")).await.unwrap().is_none());
        assert_eq!(table.take(), Units { written: 0, read: 3 });
        assert_eq!(table.stored(|key| key.sk == "b"), [item.size()]);
        table.transact(vec![Write::Delete(key.clone(), Condition::None)]).await.unwrap();
        assert_eq!(table.take(), Units { written: 10, read: 0 }, "twice, in a transaction");
        let indexed = Item::new(key).with("GSI1PK", "x").with("GSI1SK", "y");
        table.put(indexed, Condition::None).await.unwrap();
        assert_eq!(table.take(), Units { written: 2, read: 0 });
    }
}
