//! A table that fails, hangs or panics where a test says so.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store::{
    Error, ErrorKind, Item, Result, Table, Timestamp,
    key::Key,
    table::{Changes, Condition, Page, Position, Query, Shard, Write},
};

/// What is asked of the table.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    /// An item is read by its key.
    Get(&'a Key),
    /// A page is read.
    Query(&'a Query),
    /// An item is written or checked.
    Write(&'a Key),
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The table answers.
    Pass,
    /// The call fails, and nothing is written.
    Fail(ErrorKind),
    /// The call never ends.
    Hang,
    /// The call panics.
    Panic,
}

type Hook = Box<dyn Fn(Asked<'_>) -> Turn + Send + Sync>;

/// A table with a hook that each call passes.
pub struct Hooked {
    inner: Arc<dyn Table>,
    hook: Hook,
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooked").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Hooked {
    /// Wraps `inner`; `hook` says what becomes of each call.
    pub fn new(inner: Arc<dyn Table>, hook: impl Fn(Asked<'_>) -> Turn + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { inner, hook: Box::new(hook) })
    }

    async fn pass(&self, asked: Asked<'_>) -> Result<()> {
        match (self.hook)(asked) {
            Turn::Pass => Ok(()),
            Turn::Fail(kind) => Err(Error::new(kind, "the hook of a test fails this call")),
            Turn::Hang => std::future::pending().await,
            Turn::Panic => panic!("the hook of a test panics"),
        }
    }
}

#[async_trait]
impl Table for Hooked {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.pass(Asked::Get(key)).await?;
        self.inner.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        self.pass(Asked::Query(query)).await?;
        self.inner.query(query).await
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        self.pass(Asked::Write(&item.key)).await?;
        self.inner.put(item, condition).await
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        self.pass(Asked::Write(key)).await?;
        self.inner.delete(key, condition).await
    }

    fn transactions(&self) -> bool {
        self.inner.transactions()
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        for write in &writes {
            self.pass(Asked::Write(write.key())).await?;
        }
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
