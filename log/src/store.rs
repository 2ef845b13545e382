//! The one layer between the services and an engine: a table that places lanes in partitions (`lanes`), shows merged items as
//! the segments that they hold (`apart`), watches how the engine's calls go (`calls`), and tells the [`Bell`] and the [`News`] what is written.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use event::{Id, Result, Timestamp};
use table::{Answer, Call, Changes, Condition, Item, Key, Page, Position, Query, Shard, Table, Write};

use self::calls::{Calls, Running};
pub use self::{
    calls::Denials,
    lanes::{Shown, shown},
};
use crate::{
    bell::Bell,
    news::{News, Topic},
    walk::Heads,
};

mod apart;
mod calls;
mod lanes;

/// A table of an engine, as services know it.
#[derive(Debug)]
pub struct Store {
    engine: Arc<dyn Table>,
    calls: Calls,
    lanes: lanes::Known,
    bell: Bell,
    news: News,
}

/// The news of a call, which are told when it has ended.
struct Told {
    heads: Heads,
    news: BTreeSet<(Id, Topic)>,
}

impl Store {
    /// The table of an engine.
    pub fn over(engine: Arc<dyn Table>) -> Arc<Self> {
        Arc::new(Self::with(engine, Calls::default()))
    }

    /// The same, whose calls are measured under the name of the engine.
    pub fn measured(engine: Arc<dyn Table>, name: &'static str) -> Arc<Self> {
        Arc::new(Self::with(engine, Calls::measured(name)))
    }

    fn with(engine: Arc<dyn Table>, calls: Calls) -> Self {
        Self { engine, calls, lanes: lanes::Known::default(), bell: Bell::default(), news: News::default() }
    }

    /// What rings when this process has appended.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// What tells of what this process writes and reads in the change feed.
    pub fn news(&self) -> &News {
        &self.news
    }

    /// What the engine has denied.
    pub fn denials(&self) -> &Arc<Denials> {
        &self.calls.denials
    }

    /// How many writes failed because the engine could not be reached, or could not write: who believes for a while that it takes writes can
    /// tell by it that this is over.
    pub fn failed_writes(&self) -> u64 {
        self.calls.failed_writes()
    }

    /// The item of a key, merged or not.
    async fn stored(&self, key: &Key) -> Result<Option<Item>> {
        let placed = lanes::placed(key.clone());
        let running = self.calls.begin(Call::Get(&placed));
        let found = self.engine.get(&placed).await;
        running.end(found.as_ref().map(|item| item.as_ref().map_or(Answer::Done, Answer::Item)));
        Ok(found?.map(|item| Item { key: key.clone(), ..item }))
    }

    /// A page of one partition of the engine.
    async fn page(&self, query: &Query) -> Result<Page> {
        let running = self.calls.begin(Call::Query(query));
        let page = self.engine.query(query).await;
        running.end(page.as_ref().map(Answer::Page));
        page
    }

    /// What is to be told of a write, by the keys that are known above.
    fn told(&self, call: Call<'_>) -> Told {
        Told { heads: self.bell.heads(call), news: self.news.of(call.written()) }
    }

    /// Ends a write. It is told also after an error: some of several may have been written, or one whose answer was lost.
    fn end<T>(&self, running: Running<'_>, told: Told, result: Result<T>) -> Result<T> {
        running.end(result.as_ref().map(|_| Answer::Done));
        self.news.tell(told.news);
        self.bell.ring(told.heads);
        result
    }
}

#[async_trait]
impl Table for Store {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        apart::get(self, key).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        apart::read(self, query).await
    }

    async fn put(&self, mut item: Item, condition: Condition) -> Result<()> {
        let told = self.told(Call::Put(&item));
        lanes::place(&mut item.key);
        let running = self.calls.begin(Call::Put(&item));
        self.end(running, told, self.engine.put(item, condition).await)
    }

    async fn put_new(&self, mut items: Vec<Item>, within: Duration) -> (usize, Result<()>) {
        let told = self.told(Call::PutNew(&items));
        items.iter_mut().for_each(|item| lanes::place(&mut item.key));
        let running = self.calls.begin(Call::PutNew(&items));
        let (written, result) = self.engine.put_new(items, within).await;
        (written, self.end(running, told, result))
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        let told = self.told(Call::Delete(key));
        let placed = lanes::placed(key.clone());
        let running = self.calls.begin(Call::Delete(&placed));
        self.end(running, told, self.engine.delete(&placed, condition).await)
    }

    fn item_bytes(&self) -> usize {
        self.engine.item_bytes() - lanes::LONGER
    }

    async fn transact(&self, mut writes: Vec<Write>) -> Result<()> {
        let told = self.told(Call::Transact(&writes));
        writes.iter_mut().for_each(|write| lanes::place(write.key_mut()));
        let running = self.calls.begin(Call::Transact(&writes));
        self.end(running, told, self.engine.transact(writes).await)
    }

    async fn forget_deleted(&self) -> Result<()> {
        self.engine.forget_deleted().await
    }

    fn engine_time(&self) -> Option<Timestamp> {
        self.engine.engine_time()
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        let running = self.calls.begin(Call::Shards);
        let shards = self.engine.shards().await;
        running.end(shards.as_ref().map(|_| Answer::Done));
        shards
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        self.news.reads_feed_now();
        let running = self.calls.begin(Call::Changes);
        let mut changes = self.engine.changes(shard, from, wait).await;
        running.end(changes.as_ref().map(Answer::Changes));
        if let Ok(changes) = &mut changes {
            changes.keys.iter_mut().for_each(lanes::show);
            self.news.tell(self.news.of(&changes.keys));
        }
        changes
    }
}
