//! A table whose pages are short, of one to three items: what reads it must go on until there
//! is no next page.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use event::{Result, Timestamp};
use table::{Changes, Condition, Item, Key, Page, Position, Query, Shard, Table, Write};

/// A table with short pages.
#[derive(Debug)]
pub struct ShortPages {
    inner: Arc<dyn Table>,
    queries: AtomicUsize,
}

impl ShortPages {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Table>) -> Arc<Self> {
        Arc::new(Self { inner, queries: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl Table for ShortPages {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.inner.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        let short = 1 + self.queries.fetch_add(1, Ordering::Relaxed) % 3;
        let limit = Some(query.limit.map_or(short, |limit| limit.min(short)));
        self.inner.query(&Query { limit, ..query.clone() }).await
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        self.inner.put(item, condition).await
    }

    async fn put_new(&self, items: Vec<Item>, within: Duration) -> (usize, Result<()>) {
        self.inner.put_new(items, within).await
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        self.inner.delete(key, condition).await
    }

    fn item_bytes(&self) -> usize {
        self.inner.item_bytes()
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        self.inner.transact(writes).await
    }

    async fn forget_deleted(&self) -> Result<()> {
        self.inner.forget_deleted().await
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
