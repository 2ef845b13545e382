//! An engine that fails now and then, the same way for the same seed: it wraps any other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use store::{
    Error, Item, Result, Table,
    key::Key,
    table::{Changes, Condition, Page, Position, Query, Shard, Write},
};

/// What may go wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It does not happen.
    Refused,
    /// It happens, but the answer is lost.
    AnswerLost,
}

/// A table on which one call in `one_in` fails; of the writes that fail, half have happened.
#[derive(Debug)]
pub struct FaultyTable {
    inner: Arc<dyn Table>,
    state: AtomicU64,
    one_in: u64,
    faults: AtomicUsize,
}

impl FaultyTable {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Table>, seed: u64, one_in: u64) -> Self {
        Self { inner, state: AtomicU64::new(seed), one_in: one_in.max(1), faults: AtomicUsize::new(0) }
    }

    /// How many calls have failed.
    pub fn faults(&self) -> usize {
        self.faults.load(Ordering::Relaxed)
    }

    /// The next number of a splitmix64 sequence (Steele, Lea, Flood 2014).
    fn next(&self) -> u64 {
        const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.state.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn draw(&self) -> Option<Fault> {
        let number = self.next();
        if !number.is_multiple_of(self.one_in) {
            return None;
        }
        self.faults.fetch_add(1, Ordering::Relaxed);
        Some(if number >> 63 == 0 { Fault::Refused } else { Fault::AnswerLost })
    }

    fn fail<T>(&self, fault: Fault) -> Result<T> {
        Err(Error::unavailable(format!("an injected fault: {fault:?}")))
    }

    fn read(&self) -> Result<()> {
        self.draw().map_or(Ok(()), |fault| self.fail(fault))
    }
}

/// Makes a write, or not, or makes it and loses the answer.
macro_rules! write_through {
    ($self:ident, $write:expr) => {
        match $self.draw() {
            None => $write.await,
            Some(Fault::Refused) => $self.fail(Fault::Refused),
            Some(Fault::AnswerLost) => {
                $write.await?;
                $self.fail(Fault::AnswerLost)
            }
        }
    };
}

#[async_trait]
impl Table for FaultyTable {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.read()?;
        self.inner.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        self.read()?;
        self.inner.query(query).await
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        write_through!(self, self.inner.put(item, condition))
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        write_through!(self, self.inner.delete(key, condition))
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        write_through!(self, self.inner.transact(writes))
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        self.read()?;
        self.inner.shards().await
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        self.read()?;
        self.inner.changes(shard, from, wait).await
    }
}
