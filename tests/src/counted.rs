//! A table that counts what is asked of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use store::{
    Error, Item, Result, Table, Timestamp,
    key::Key,
    table::{Changes, Condition, Page, Position, Query, Shard, Write},
};

/// What was asked of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Items read by their keys.
    pub gets: u64,
    /// Pages of queries. The trait has no scan, so there can be none.
    pub queries: u64,
    /// Items that the queries returned.
    pub items: u64,
}

/// A table that counts reads and writes, and passes them on.
#[derive(Debug)]
pub struct Counted {
    inner: Arc<dyn Table>,
    gets: AtomicU64,
    queries: AtomicU64,
    items: AtomicU64,
    writes: AtomicU64,
}

impl Counted {
    /// Counts what is asked of `inner`.
    pub fn new(inner: Arc<dyn Table>) -> Self {
        let zero = AtomicU64::default;
        Self { inner, gets: zero(), queries: zero(), items: zero(), writes: zero() }
    }

    /// What was read since this was last asked.
    pub fn take_reads(&self) -> Reads {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        Reads { gets: take(&self.gets), queries: take(&self.queries), items: take(&self.items) }
    }

    /// How many items were put, deleted, or written by transactions since this was last asked.
    pub fn take_writes(&self) -> u64 {
        self.writes.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl Table for Counted {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.inner.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        let page = self.inner.query(query).await?;
        self.items.fetch_add(page.items.len() as u64, Ordering::Relaxed);
        Ok(page)
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.put(item, condition).await
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.delete(key, condition).await
    }

    fn transactions(&self) -> bool {
        self.inner.transactions()
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        self.writes.fetch_add(writes.len() as u64, Ordering::Relaxed);
        self.inner.transact(writes).await
    }

    fn engine_time(&self) -> Option<Timestamp> {
        self.inner.engine_time()
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        self.inner.shards().await
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        self.inner.changes(shard, from, wait).await
    }
}

/// A table without transactions: it takes one write at a time, as some engines that speak DynamoDB's
/// protocol do.
#[derive(Debug)]
pub struct WithoutTransactions(pub Arc<dyn Table>);

#[async_trait]
impl Table for WithoutTransactions {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.0.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        self.0.query(query).await
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        self.0.put(item, condition).await
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        self.0.delete(key, condition).await
    }

    fn transactions(&self) -> bool {
        false
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        match writes.len() {
            0 | 1 => self.0.transact(writes).await,
            more => Err(Error::invalid(format!("this engine makes one write at a time, not {more}"))),
        }
    }

    fn engine_time(&self) -> Option<Timestamp> {
        self.0.engine_time()
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        self.0.shards().await
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        self.0.changes(shard, from, wait).await
    }
}
