//! An engine that fails now and then, the same way for the same seed: it wraps any other.
//!
//! - [`Faults`] says what may go wrong, and how often.
//! - [`FaultyTable`] makes the calls go wrong, reads indexes from a copy that lags (`index`), and
//!   tells changes in another order, twice or not at all (`feed`).
//! - [`Settled`] stands above it and does what any caller must: it calls again, and finds out what
//!   became of a write that was left without an answer.

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use event::{Error, ErrorKind, Result, Timestamp};
use table::{
    Changes, Condition, Index, Item, Key, Page, Position, Query, Shard, Table, Write, put_one_by_one,
};
use tokio::time::sleep;

use self::{feed::Feed, index::LateIndex, plan::Dice};

pub use self::{
    plan::{Fault, Faults},
    settled::Settled,
};

mod feed;
mod index;
mod plan;
mod settled;

/// The longest that a slow call is held up.
const MAX_SLOW_MS: u64 = 8;

/// A table on which things go wrong. Faults are drawn in the order of the calls, so one caller
/// meets the same ones for the same seed; of several at once, chance decides who meets them.
#[derive(Debug)]
pub struct FaultyTable {
    inner: Arc<dyn Table>,
    dice: Dice,
    index: Option<LateIndex>,
    feed: Option<Feed>,
}

impl FaultyTable {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Table>, seed: u64, faults: Faults) -> Self {
        let feed = faults.touch_the_feed().then(Feed::default);
        Self { inner, dice: Dice::new(seed, faults), index: None, feed }
    }

    /// Reads indexes from `copy`, which is kept up to date with what is written here, but late. It
    /// begins empty and needs the same clock.
    pub fn indexes_on(self, copy: Arc<dyn Table>) -> Self {
        Self { index: Some(LateIndex::new(copy)), ..self }
    }

    /// Number of injected faults.
    pub fn faults(&self) -> usize {
        self.dice.injected().len()
    }

    /// The faults that there were, in order.
    pub fn injected(&self) -> Vec<Fault> {
        self.dice.injected()
    }

    /// Injects a fault before a call is made; returns true if its answer is to be lost.
    async fn before(&self) -> Result<bool> {
        if self.dice.hits(Fault::Slow) {
            sleep(Duration::from_millis(1 + self.dice.below(MAX_SLOW_MS))).await;
        }
        if self.dice.hits(Fault::Throttled) {
            return Err(Error::new(ErrorKind::Throttled, "an injected fault: throttled"));
        }
        if self.dice.hits(Fault::Refused) {
            return Err(Error::unavailable("an injected fault: refused"));
        }
        Ok(self.dice.hits(Fault::AnswerLost))
    }

    async fn read<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let is_lost = self.before().await?;
        let answer = call.await;
        if is_lost { Err(lost()) } else { answer }
    }

    async fn write(&self, keys: Vec<Key>, call: impl Future<Output = Result<()>>) -> Result<()> {
        let is_lost = self.before().await?;
        let answer = call.await;
        if let (Ok(()), Some(index)) = (&answer, &self.index) {
            index.written(keys, &self.dice);
        }
        // A refusal of the engine is an answer too.
        if is_lost { Err(lost()) } else { answer }
    }
}

fn lost() -> Error {
    Error::unavailable("an injected fault: the answer is lost")
}

#[async_trait]
impl Table for FaultyTable {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        self.read(self.inner.get(key)).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        match &self.index {
            Some(index) if query.index != Index::Table => self.read(index.query(&*self.inner, query)).await,
            _ => self.read(self.inner.query(query)).await,
        }
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        self.write(vec![item.key.clone()], self.inner.put(item, condition)).await
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        self.write(vec![key.clone()], self.inner.delete(key, condition)).await
    }

    /// One by one, so that each of them may go wrong.
    async fn put_new(&self, items: Vec<Item>, within: Duration) -> (usize, Result<()>) {
        put_one_by_one(self, items, within).await
    }

    fn item_bytes(&self) -> usize {
        self.inner.item_bytes()
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        let keys = writes.iter().map(|write| write.key().clone()).collect();
        self.write(keys, self.inner.transact(writes)).await
    }

    async fn forget_deleted(&self) -> Result<()> {
        self.inner.forget_deleted().await
    }

    fn engine_time(&self) -> Option<Timestamp> {
        self.inner.engine_time()
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        match &self.feed {
            Some(feed) => self.read(async { Ok(feed.shards().await) }).await,
            None => self.read(self.inner.shards()).await,
        }
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        match &self.feed {
            Some(feed) => self.read(feed.changes(&*self.inner, &self.dice, shard, from, wait)).await,
            None => self.read(self.inner.changes(shard, from, wait)).await,
        }
    }
}
