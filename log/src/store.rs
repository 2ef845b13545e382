//! The one layer between the services and an engine: a table that places lanes in partitions (`lanes`), shows merged items as
//! their segments (`merged_view`), measures the calls of the engine (`calls`), and notifies the [`AppendNotifier`] and the [`Notifications`] of writes.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use event::{Id, Result, Timestamp};
use table::{Answer, Call, Changes, Condition, Item, Key, Page, Position, Query, Shard, Table, Write};

use self::calls::{Calls, Running};
pub use self::{
    calls::Denials,
    lanes::{Shown, shown},
};
use crate::{
    append_notifier::AppendNotifier,
    notifications::{Notifications, Topic},
    walk::Heads,
};

mod calls;
mod lanes;
mod merged_view;

/// A table of an engine, as services know it.
#[derive(Debug)]
pub struct Store {
    engine: Arc<dyn Table>,
    calls: Calls,
    lanes: lanes::Known,
    notifier: AppendNotifier,
    news: Notifications,
}

/// News of a write, sent when it has ended.
struct Told {
    heads: Heads,
    news: BTreeSet<(Id, Topic)>,
}

impl Store {
    /// Wraps the table of an engine.
    pub fn over(engine: Arc<dyn Table>) -> Arc<Self> {
        Arc::new(Self::with(engine, Calls::default()))
    }

    /// Wraps the table of an engine, and measures its calls under the name of the engine.
    pub fn measured(engine: Arc<dyn Table>, name: &'static str) -> Arc<Self> {
        Arc::new(Self::with(engine, Calls::measured(name)))
    }

    fn with(engine: Arc<dyn Table>, calls: Calls) -> Self {
        Self {
            engine,
            calls,
            lanes: lanes::Known::default(),
            notifier: AppendNotifier::default(),
            news: Notifications::default(),
        }
    }

    /// Returns the notifier of appends of this process.
    pub fn notifier(&self) -> &AppendNotifier {
        &self.notifier
    }

    /// Returns the notifier of changes that this process writes, or reads in the change feed.
    pub fn news(&self) -> &Notifications {
        &self.news
    }

    /// Returns the calls that the engine denied.
    pub fn denials(&self) -> &Arc<Denials> {
        &self.calls.denials
    }

    /// Returns the number of writes that failed because the engine was unreachable or could not write. A probe that trusts a recent
    /// success sees by it that the trust has ended.
    pub fn failed_writes(&self) -> u64 {
        self.calls.failed_writes()
    }

    /// Reads the item of a key, merged or not.
    async fn stored(&self, key: &Key) -> Result<Option<Item>> {
        let placed = lanes::placed(key.clone());
        let running = self.calls.begin(Call::Get(&placed));
        let found = self.engine.get(&placed).await;
        running.end(found.as_ref().map(|item| item.as_ref().map_or(Answer::Done, Answer::Item)));
        Ok(found?.map(|item| Item { key: key.clone(), ..item }))
    }

    /// Reads a page of one partition of the engine.
    async fn page(&self, query: &Query) -> Result<Page> {
        let running = self.calls.begin(Call::Query(query));
        let page = self.engine.query(query).await;
        running.end(page.as_ref().map(Answer::Page));
        page
    }

    /// Returns the notifications of a write, by the keys that services know.
    fn told(&self, call: Call<'_>) -> Told {
        Told { heads: self.notifier.heads(call), news: self.news.of(call.written()) }
    }

    /// Ends a write, and notifies also after an error: a part of it may be written, or its answer is lost.
    fn end<T>(&self, running: Running<'_>, told: Told, result: Result<T>) -> Result<T> {
        running.end(result.as_ref().map(|_| Answer::Done));
        self.news.tell(told.news);
        self.notifier.notify(told.heads);
        result
    }
}

#[async_trait]
impl Table for Store {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        merged_view::get(self, key).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        merged_view::read(self, query).await
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

    fn scratch(&self) -> PathBuf {
        self.engine.scratch()
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
