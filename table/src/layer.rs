//! Wrappers of a table. A wrapper implements [`Layer`]: which table is below it, and what happens before and after
//! a call. That it is a [`Table`] follows, so no wrapper can forget to pass a call on.

use std::{borrow::Cow, fmt::Debug, future::Future, path::PathBuf, time::Duration};

use async_trait::async_trait;
use event::{Error, Result, Timestamp};
use tokio::time::Instant;

use super::{Changes, Condition, Page, Position, Query, Shard, Table, Write, too_late};
use crate::{Item, Key};

/// A call of a table, as its layers see it.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// [`Table::get`].
    Get(&'a Key),
    /// [`Table::query`].
    Query(&'a Query),
    /// [`Table::put`].
    Put(&'a Item),
    /// [`Table::put_new`].
    PutNew(&'a [Item]),
    /// [`Table::delete`].
    Delete(&'a Key),
    /// [`Table::transact`].
    Transact(&'a [Write]),
    /// [`Table::shards`].
    Shards,
    /// [`Table::changes`].
    Changes,
}

impl<'a> Call<'a> {
    /// The names of all methods.
    pub const NAMES: [&'static str; 8] =
        ["get", "query", "put", "put_new", "delete", "transact", "shards", "changes"];

    /// The name of the method, as metrics and log lines have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get(_) => "get",
            Self::Query(_) => "query",
            Self::Put(_) => "put",
            Self::PutNew(_) => "put_new",
            Self::Delete(_) => "delete",
            Self::Transact(_) => "transact",
            Self::Shards => "shards",
            Self::Changes => "changes",
        }
    }

    /// The keys of the items that it writes or checks.
    pub fn written(self) -> Vec<&'a Key> {
        match self {
            Self::Put(item) => vec![&item.key],
            Self::PutNew(items) => items.iter().map(|item| &item.key).collect(),
            Self::Delete(key) => vec![key],
            Self::Transact(writes) => writes.iter().map(Write::key).collect(),
            Self::Get(_) | Self::Query(_) | Self::Shards | Self::Changes => Vec::new(),
        }
    }

    /// The items that it puts.
    pub fn items(self) -> Vec<&'a Item> {
        let put = |write: &'a Write| if let Write::Put(item, _) = write { Some(item) } else { None };
        match self {
            Self::Put(item) => vec![item],
            Self::PutNew(items) => items.iter().collect(),
            Self::Transact(writes) => writes.iter().filter_map(put).collect(),
            _ => Vec::new(),
        }
    }
}

/// Result of a call that reads.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// Item of [`Table::get`], when there is one.
    Item(&'a Item),
    /// Page of [`Table::query`].
    Page(&'a Page),
    /// Changes of [`Table::changes`].
    Changes(&'a Changes),
    /// Nothing that a layer looks at.
    Done,
}

/// A table above another one, which sees every call.
pub trait Layer: Debug + Send + Sync {
    /// Type of what the layer keeps from before a call until after it.
    type Kept: Send;

    /// True if the items of [`Table::put_new`] are passed on one by one, each as a [`Call::Put`]: so a layer may let one
    /// pass and refuse the next. Else they are one [`Call::PutNew`].
    const ONE_BY_ONE: bool;

    /// The table below.
    fn below(&self) -> &dyn Table;

    /// Runs before a call is passed on. After an error it is not, and the error is its answer.
    fn before(&self, call: Call<'_>) -> impl Future<Output = Result<Self::Kept>> + Send;

    /// Runs after a call that was passed on.
    fn after(&self, kept: Self::Kept, answer: Result<Answer<'_>, &Error>) {
        _ = (kept, answer);
    }

    /// The query that is passed on in the place of `query`.
    fn instead<'a>(&self, query: &'a Query) -> Cow<'a, Query> {
        Cow::Borrowed(query)
    }

    /// Maximum bytes of an item that it takes.
    fn item_bytes(&self) -> usize {
        self.below().item_bytes()
    }
}

#[async_trait]
impl<L: Layer> Table for L {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        let kept = self.before(Call::Get(key)).await?;
        let found = self.below().get(key).await;
        self.after(kept, found.as_ref().map(|item| item.as_ref().map_or(Answer::Done, Answer::Item)));
        found
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        let kept = self.before(Call::Query(query)).await?;
        let page = self.below().query(&self.instead(query)).await;
        self.after(kept, page.as_ref().map(Answer::Page));
        page
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        let kept = self.before(Call::Put(&item)).await?;
        done(self, kept, self.below().put(item, condition).await)
    }

    async fn put_new(&self, items: Vec<Item>, within: Duration) -> (usize, Result<()>) {
        if L::ONE_BY_ONE {
            return put_one_by_one(self, items, within).await;
        }
        // Time that a layer takes for itself is lost to the table below.
        let until = Instant::now() + within;
        let kept = match self.before(Call::PutNew(&items)).await {
            Ok(kept) => kept,
            Err(error) => return (0, Err(error)),
        };
        let left = until.saturating_duration_since(Instant::now());
        let (written, result) = self.below().put_new(items, left).await;
        (written, done(self, kept, result))
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        let kept = self.before(Call::Delete(key)).await?;
        done(self, kept, self.below().delete(key, condition).await)
    }

    fn item_bytes(&self) -> usize {
        Layer::item_bytes(self)
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        let kept = self.before(Call::Transact(&writes)).await?;
        done(self, kept, self.below().transact(writes).await)
    }

    async fn forget_deleted(&self) -> Result<()> {
        self.below().forget_deleted().await
    }

    fn engine_time(&self) -> Option<Timestamp> {
        self.below().engine_time()
    }

    fn scratch(&self) -> PathBuf {
        self.below().scratch()
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        let kept = self.before(Call::Shards).await?;
        done(self, kept, self.below().shards().await)
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        let kept = self.before(Call::Changes).await?;
        let changes = self.below().changes(shard, from, wait).await;
        self.after(kept, changes.as_ref().map(Answer::Changes));
        changes
    }
}

fn done<L: Layer, T>(layer: &L, kept: L::Kept, result: Result<T>) -> Result<T> {
    layer.after(kept, result.as_ref().map(|_| Answer::Done));
    result
}

/// [`Table::put_new`] by a [`Table::put`] an item, for tables that have no better way.
///
/// # Errors
/// Errors of [`Table::put_new`].
pub async fn put_one_by_one(table: &impl Table, items: Vec<Item>, within: Duration) -> (usize, Result<()>) {
    let until = Instant::now() + within;
    let mut written = 0;
    for item in items {
        if Instant::now() >= until {
            return (written, Err(too_late(&item.key)));
        }
        match table.put(item, Condition::Absent).await {
            Ok(()) => written += 1,
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}
