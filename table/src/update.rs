//! Loop for concurrent changes of an item: read, decide, write on the condition that nobody has written since, and
//! start again if somebody has.

use std::{fmt::Display, future::Future, time::Duration};

use event::{Error, ErrorKind, Result};

use super::{Condition, Table, Write};
use crate::{Item, Key};

/// Attribute that each write of an item counts up, from 1 on.
const VERSION: &str = "ver";

/// Default number of attempts.
const ATTEMPTS: usize = 100;

/// Retry policy: the number of attempts of a change that other writers overtake, and the error after the last.
#[derive(Clone, Copy)]
pub struct Policy<'a> {
    /// Name of the changed thing, for the error.
    pub what: &'a (dyn Display + Sync),
    /// Maximum number of attempts.
    pub attempts: usize,
    /// True for a short pause between two attempts, so that writers who met do not meet again.
    pub pauses: bool,
    /// Kind of the error when every attempt was overtaken.
    pub kind: ErrorKind,
    /// True if a repeat of the change would change more, as when counting. Then [`update`] writes in a transaction: an engine
    /// recognizes its own one whose answer was lost, also when another writer has written since.
    pub once: bool,
}

/// Decision about an item.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<T> {
    /// Unchanged.
    Leave(T),
    /// Written whole. The loop increments its `ver`.
    Put(Item, T),
}

impl<'a> Policy<'a> {
    /// Policy of 100 attempts without pauses, and then `Throttled`.
    pub const fn of(what: &'a (dyn Display + Sync)) -> Self {
        Self { what, attempts: ATTEMPTS, pauses: false, kind: ErrorKind::Throttled, once: false }
    }

    /// Begins the attempts.
    pub fn tries(self) -> Tries<'a> {
        Tries { policy: self, begun: 0 }
    }
}

/// Attempts at one change.
#[derive(Clone)]
pub struct Tries<'a> {
    policy: Policy<'a>,
    begun: usize,
}

impl Tries<'_> {
    /// Number of attempts overtaken so far.
    pub fn retries(&self) -> u64 {
        self.begun.saturating_sub(1) as u64
    }

    /// Begins the next attempt, after a pause if the policy has them.
    ///
    /// # Errors
    /// [`Policy::kind`], when all attempts were overtaken.
    pub async fn next(&mut self) -> Result<()> {
        let Policy { what, attempts, pauses, kind, .. } = self.policy;
        if self.begun == attempts {
            return Err(Error::new(kind, format!("too many change {what} at one time; try again")));
        }
        if pauses && self.begun > 0 {
            let most = Duration::from_millis(1 << self.begun.min(8));
            tokio::time::sleep(most.mul_f64(fastrand::f64())).await;
        }
        self.begun += 1;
        Ok(())
    }
}

/// Returns the result of a conditional write; `None` if another writer was quicker.
///
/// # Errors
/// Errors of the write except `Conflict`.
pub fn unless_overtaken<T>(written: Result<T>) -> Result<Option<T>> {
    match written {
        Ok(made) => Ok(Some(made)),
        Err(error) if error.is_conflict() => Ok(None),
        Err(error) => Err(error),
    }
}

impl Condition {
    /// Condition that the item was not written since it was read with this `ver`, which is 0 when it was missing.
    pub fn unchanged(ver: i64) -> Self {
        match ver {
            0 => Self::Absent,
            ver => Self::Equals(VERSION, ver.into()),
        }
    }
}

/// Changes the item at `key` by the decision of `change`, which is called again with the new item if another writer was
/// quicker. Returns the value of the last call.
///
/// # Errors
/// Errors of `change` and of the table; [`Policy::kind`] if all attempts were overtaken; `Corrupt` if the item has no
/// `ver`.
pub async fn update<T, F: Future<Output = Result<Change<T>>>>(
    table: &dyn Table,
    key: &Key,
    policy: Policy<'_>,
    mut change: impl FnMut(Option<Item>) -> F,
) -> Result<T> {
    let mut tries = policy.tries();
    loop {
        tries.next().await?;
        let stored = table.get(key).await?;
        let ver = stored.as_ref().map_or(Ok(0), |item| item.int(VERSION))?;
        match change(stored).await? {
            Change::Leave(out) => return Ok(out),
            Change::Put(item, out) => {
                let (item, condition) = (item.with(VERSION, ver + 1), Condition::unchanged(ver));
                let written = match policy.once {
                    true => table.transact(vec![Write::Put(item, condition)]).await,
                    false => table.put(item, condition).await,
                };
                if unless_overtaken(written)?.is_some() {
                    return Ok(out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::Clock;

    use super::*;
    use crate::sqlite::SqliteTable;

    fn table() -> (Arc<dyn Table>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap();
        (Arc::new(table), folder)
    }

    fn key() -> Key {
        Key::new("p", "s")
    }

    async fn count(table: &dyn Table) -> Result<i64> {
        let policy = Policy { pauses: true, ..Policy::of(&"a counter") };
        let change = async |stored: Option<Item>| {
            let n = stored.as_ref().map_or(Ok(0), |item| item.int("n"))? + 1;
            Ok(Change::Put(Item::new(key()).with("n", n), n))
        };
        update(table, &key(), policy, change).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn changes_at_one_time_are_all_made() {
        let (table, _folder) = table();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..40 {
            let table = Arc::clone(&table);
            tasks.spawn(async move { count(&*table).await.unwrap() });
        }
        let mut all = tasks.join_all().await;
        all.sort_unstable();
        assert_eq!(all, (1..=40).collect::<Vec<_>>());
        let item = table.get(&key()).await.unwrap().unwrap();
        assert_eq!((item.int("n").unwrap(), item.int("ver").unwrap()), (40, 40));
    }

    #[tokio::test]
    async fn repeatedly_overtaken_update_ends_with_advice() {
        let (table, _folder) = table();
        let policy = Policy { attempts: 3, kind: ErrorKind::Conflict, ..Policy::of(&"the settings") };
        let overtaken = async |_| {
            count(&*table).await?;
            Ok(Change::Put(Item::new(key()), ()))
        };
        let error = update(&*table, &key(), policy, overtaken).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(error.to_string(), "too many change the settings at one time; try again");
        assert_eq!(table.get(&key()).await.unwrap().unwrap().int("n").unwrap(), 3, "three attempts");
    }

    #[tokio::test]
    async fn declined_or_refused_update_is_not_retried() {
        let (table, _folder) = table();
        let leave = async |stored| Ok(Change::Leave(stored));
        assert_eq!(update(&*table, &key(), Policy::of(&"it"), leave).await.unwrap(), None);
        let mut asked = 0;
        let refuse = |_| {
            asked += 1;
            async { Err::<Change<()>, _>(Error::conflict("the name is taken")) }
        };
        let refused = update(&*table, &key(), Policy::of(&"it"), refuse).await;
        assert_eq!(refused.unwrap_err().to_string(), "the name is taken");
        assert_eq!(asked, 1, "a conflict of the change itself is its answer");
        assert_eq!(table.get(&key()).await.unwrap(), None);
    }
}
