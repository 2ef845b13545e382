//! Retries above an engine that fails in passing, as a caller must make them: call again, and settle what was left without
//! an answer.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use event::{Error, ErrorKind, Result, Timestamp};
use table::{
    Changes, Condition, Item, Key, MAX_TRANSACTION_WRITES, Page, Position, Query, Shard, Table, Write,
    put_one_by_one,
};

/// Maximum tries of a call.
const MAX_TRIES: usize = 1_000;

/// The partition of the witnesses.
const WITNESSES: &str = "@witness";

/// A table that repeats calls which are throttled or unavailable.
///
/// A write that was left without an answer may have been made, and then its repetition may be
/// refused because of itself. As in the DynamoDB engine, a put or a delete is settled by reading:
/// if what is stored is what was wanted, it counts as made. That cannot tell one's own write from
/// an equal one that was there before or that somebody else has made, nor find a write that
/// another one has overwritten since.
///
/// A transaction that adds cannot be settled so, and must not be made twice. DynamoDB takes a
/// token with it; here it brings a witness: an item of its own, which is there if and only if the
/// transaction was made.
#[derive(Debug)]
pub struct Settled {
    inner: Arc<dyn Table>,
    transactions: AtomicU64,
}

/// A call that did not succeed.
struct Failed {
    error: Error,
    /// True if an earlier attempt was left without an answer.
    is_unsettled: bool,
}

impl Failed {
    /// True if it may have failed only because it was made before.
    fn may_be_made(&self) -> bool {
        self.is_unsettled && self.error.is_conflict()
    }
}

/// Calls until there is an answer.
async fn insist<T, F: Future<Output = Result<T>>>(mut attempt: impl FnMut() -> F) -> Result<T, Failed> {
    let mut is_unsettled = false;
    for _ in 1..MAX_TRIES {
        match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(error) => match error.kind() {
                ErrorKind::Throttled => {}
                ErrorKind::Unavailable => is_unsettled = true,
                _ => return Err(Failed { error, is_unsettled }),
            },
        }
    }
    attempt().await.map_err(|error| Failed { error, is_unsettled })
}

/// Repeats a call that changes nothing.
async fn repeat<T, F: Future<Output = Result<T>>>(attempt: impl FnMut() -> F) -> Result<T> {
    insist(attempt).await.map_err(|failed| failed.error)
}

impl Settled {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Table>) -> Self {
        Self { inner, transactions: AtomicU64::new(0) }
    }

    /// True if an item is as it should be after a write.
    async fn is_stored(&self, key: &Key, wanted: Option<&Item>) -> Result<bool> {
        Ok(self.get(key).await?.as_ref() == wanted)
    }

    async fn settle(&self, failed: Failed, key: &Key, wanted: Option<&Item>) -> Result<()> {
        match failed.may_be_made() && self.is_stored(key, wanted).await? {
            true => Ok(()),
            false => Err(failed.error),
        }
    }

    /// True if every item is as it should be after these writes, none of which adds.
    async fn are_stored(&self, writes: &[Write]) -> Result<bool> {
        let mut says_anything = false;
        for write in writes {
            let is_stored = match write {
                Write::Put(item, _) => self.is_stored(&item.key, Some(item)).await?,
                Write::Delete(key, _) => self.is_stored(key, None).await?,
                Write::Check(..) | Write::Add(..) => continue,
                Write::Update(update) => {
                    let stored = self.get(&update.key).await?;
                    stored.is_some_and(|item| {
                        let is_set = |(name, value)| item.attributes.get(name) == Some(value);
                        update.set.iter().all(is_set)
                            && update.remove.iter().all(|name| !item.attributes.contains_key(name))
                    })
                }
            };
            if !is_stored {
                return Ok(false);
            }
            says_anything = true;
        }
        Ok(says_anything)
    }

    /// An item for a transaction that needs one; in a full transaction there is no room.
    fn witness(&self, writes: &[Write]) -> Option<Item> {
        let adds = writes.iter().any(|write| match write {
            Write::Add(..) => true,
            Write::Update(update) => !update.add.is_empty(),
            _ => false,
        });
        let number = self.transactions.fetch_add(1, Ordering::Relaxed);
        (adds && writes.len() < MAX_TRANSACTION_WRITES)
            .then(|| Item::new(Key::new(WITNESSES, number.to_string())))
    }
}

#[async_trait]
impl Table for Settled {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        repeat(|| self.inner.get(key)).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        repeat(|| self.inner.query(query)).await
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        match insist(|| self.inner.put(item.clone(), condition.clone())).await {
            Ok(()) => Ok(()),
            Err(failed) => self.settle(failed, &item.key, Some(&item)).await,
        }
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        match insist(|| self.inner.delete(key, condition.clone())).await {
            Ok(()) => Ok(()),
            Err(failed) => self.settle(failed, key, None).await,
        }
    }

    /// One by one, as each is settled by itself.
    async fn put_new(&self, items: Vec<Item>, within: Duration) -> (usize, Result<()>) {
        put_one_by_one(self, items, within).await
    }

    fn item_bytes(&self) -> usize {
        self.inner.item_bytes()
    }

    async fn transact(&self, mut writes: Vec<Write>) -> Result<()> {
        let witness = self.witness(&writes);
        // Last, so that a condition that does not hold is blamed on whose it is.
        writes.extend(witness.iter().map(|item| Write::Put(item.clone(), Condition::Absent)));
        let failed = match insist(|| self.inner.transact(writes.clone())).await {
            Ok(()) => return Ok(()),
            Err(failed) => failed,
        };
        let is_made = match &witness {
            _ if !failed.may_be_made() => false,
            Some(item) => self.is_stored(&item.key, Some(item)).await?,
            None => self.are_stored(&writes).await?,
        };
        if is_made { Ok(()) } else { Err(failed.error) }
    }

    async fn forget_deleted(&self) -> Result<()> {
        repeat(|| self.inner.forget_deleted()).await
    }

    fn engine_time(&self) -> Option<Timestamp> {
        self.inner.engine_time()
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        repeat(|| self.inner.shards()).await
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        repeat(|| self.inner.changes(shard, from, wait)).await
    }
}
