//! A table on which something happens between two calls of a process: what another process does meanwhile.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use store::{
    Item, Result, Table, Timestamp,
    key::Key,
    table::{Changes, Condition, Page, Position, Query, Shard, Write},
};

/// A call of the process.
#[derive(Clone, Debug)]
pub enum Call {
    /// An item is read.
    Get(Key),
    /// A page is read.
    Query(Query),
    /// Items are written, or deleted.
    Write(Vec<Key>),
}

impl Call {
    /// Whether it writes an item whose sort key ends so, in a partition that ends so.
    pub fn writes(&self, pk: &str, sk: &str) -> bool {
        let Self::Write(keys) = self else { return false };
        keys.iter().any(|key| key.pk.ends_with(pk) && key.sk.ends_with(sk))
    }
}

/// What happens meanwhile.
pub type Happens = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What happens before a call is made; `None` for nothing.
type Before = Box<dyn FnMut(&Call) -> Option<Happens> + Send>;

/// A table that lets others work before each of its calls.
pub struct Between {
    inner: Arc<dyn Table>,
    before: Mutex<Before>,
    /// The most items in a page.
    page: usize,
    /// The most bytes in an item.
    item_bytes: usize,
}

impl fmt::Debug for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Between").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Between {
    /// `inner`, and what happens before each call. That must not call this table again.
    pub fn new(inner: Arc<dyn Table>, before: impl FnMut(&Call) -> Option<Happens> + Send + 'static) -> Self {
        let item_bytes = inner.item_bytes();
        Self { inner, before: Mutex::new(Box::new(before)), page: usize::MAX, item_bytes }
    }

    /// The same with pages of at most so many items.
    pub fn pages_of(self, page: usize) -> Self {
        Self { page, ..self }
    }

    /// The same with items of at most so many bytes, so that little is much.
    pub fn items_of(self, item_bytes: usize) -> Self {
        Self { item_bytes, ..self }
    }

    async fn before(&self, call: Call) {
        let happens = self.before.lock().unwrap_or_else(PoisonError::into_inner)(&call);
        if let Some(happens) = happens {
            happens.await;
        }
    }
}

#[async_trait]
impl Table for Between {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.before(Call::Get(key.clone())).await;
        self.inner.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        self.before(Call::Query(query.clone())).await;
        let limit = query.limit.unwrap_or(usize::MAX).min(self.page);
        match limit {
            usize::MAX => self.inner.query(query).await,
            limit => self.inner.query(&query.clone().limit(limit)).await,
        }
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        self.before(Call::Write(vec![item.key.clone()])).await;
        self.inner.put(item, condition).await
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        self.before(Call::Write(vec![key.clone()])).await;
        self.inner.delete(key, condition).await
    }

    fn transactions(&self) -> bool {
        self.inner.transactions()
    }

    fn engine_time(&self) -> Option<Timestamp> {
        self.inner.engine_time()
    }

    fn item_bytes(&self) -> usize {
        self.item_bytes
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        self.before(Call::Write(writes.iter().map(|write| write.key().clone()).collect())).await;
        self.inner.transact(writes).await
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        self.inner.shards().await
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        self.inner.changes(shard, from, wait).await
    }
}
