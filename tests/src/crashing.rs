//! A table as a process sees it that dies between two of its writes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use store::{
    Error, Item, Result, Table, Timestamp,
    key::Key,
    table::{Changes, Condition, Page, Position, Query, Shard, Write},
};

/// A table that makes so many writes and answers nothing any more.
#[derive(Debug)]
pub struct Crashing {
    inner: Arc<dyn Table>,
    left: AtomicI64,
}

impl Crashing {
    /// `inner`, for `writes` writes.
    pub fn new(inner: Arc<dyn Table>, writes: u32) -> Self {
        Self { inner, left: AtomicI64::new(writes.into()) }
    }

    /// Whether there was one write too many.
    pub fn is_dead(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }

    fn alive(&self) -> Result<()> {
        if self.is_dead() { Err(Error::unavailable("the process is dead")) } else { Ok(()) }
    }

    fn write(&self) -> Result<()> {
        self.left.fetch_sub(1, Ordering::SeqCst);
        self.alive()
    }
}

#[async_trait]
impl Table for Crashing {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.alive()?;
        self.inner.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        self.alive()?;
        self.inner.query(query).await
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        self.write()?;
        self.inner.put(item, condition).await
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        self.write()?;
        self.inner.delete(key, condition).await
    }

    fn transactions(&self) -> bool {
        self.inner.transactions()
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        self.write()?;
        self.inner.transact(writes).await
    }

    fn engine_time(&self) -> Option<Timestamp> {
        self.inner.engine_time()
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        self.alive()?;
        self.inner.shards().await
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        self.alive()?;
        self.inner.changes(shard, from, wait).await
    }
}
