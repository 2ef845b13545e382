//! The one table of Almanac, behind a narrow trait: get an item, query a range of keys, put or delete an item under a
//! condition, a small transaction, and a change feed.
//!
//! ```
//! use almanac_table::{Condition, Item, Key, Table, sqlite::SqliteTable};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let table = SqliteTable::open(&folder.path().join("almanac.db"), event::Clock::system())?;
//! let item = Item::new(Key::new("greetings", "first")).with("text", "hello");
//! table.put(item.clone(), Condition::Absent).await?;
//! assert!(table.put(item.clone(), Condition::Absent).await.is_err());
//! assert_eq!(table.get(&item.key).await?, Some(item));
//! # Ok(())
//! # }
//! ```

use std::{collections::BTreeMap, fmt::Debug, path::PathBuf, time::Duration};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use event::{Error, ErrorKind, Result, Timestamp};

use crate::item::Value;

pub mod check;
pub mod engine;
mod feed;
pub mod item;
pub mod key;
mod layer;
mod record;
pub mod sqlite;
pub mod text;
pub mod units;
mod update;

pub use feed::{Changes, Position, Shard};
pub use item::Item;
pub use key::{Key, KeyRange};
pub use layer::{Answer, Call, Layer, put_one_by_one};
pub use update::{Change, Policy, Tries, unless_overtaken, update};

/// Maximum bytes of items in one page.
pub const MAX_PAGE_BYTES: usize = 1024 * 1024;

/// Maximum writes in one transaction.
pub const MAX_TRANSACTION_WRITES: usize = 100;

/// Maximum bytes in one transaction.
pub const MAX_TRANSACTION_BYTES: usize = 4 * 1024 * 1024;

/// Index that a query reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Index {
    /// The table itself: by `PK`, in the order of `SK`.
    #[default]
    Table,
    /// Index `GSI1`: by `GSI1PK`, in the order of `GSI1SK`.
    Gsi1,
    /// Items with `board`: by `board`, in the order of the number `score`.
    Board,
}

/// Order of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The least first.
    #[default]
    Forward,
    /// The greatest first.
    Backward,
}

/// A read of one partition of the table or of an index.
#[derive(Clone, Debug)]
pub struct Query {
    /// The table or an index.
    pub index: Index,
    /// The partition, and the least and greatest sort key. `Board` has numbers as sort keys, and reads the whole
    /// partition for any range.
    pub range: KeyRange,
    /// The order.
    pub direction: Direction,
    /// Maximum items of a page; a page may have fewer ([`MAX_PAGE_BYTES`]) without being the last.
    pub limit: Option<usize>,
    /// Position to continue after, from [`Page::next`].
    pub after: Option<Cursor>,
    /// Only these attributes; all when `None`.
    pub attributes: Option<Vec<String>>,
    /// True to read items as stored, where a layer shows them otherwise. Engines ignore it.
    pub as_stored: bool,
}

impl Query {
    /// Creates a query of all items of `range`, in order.
    pub fn table(range: KeyRange) -> Self {
        Self {
            index: Index::Table,
            range,
            direction: Direction::Forward,
            limit: None,
            after: None,
            attributes: None,
            as_stored: false,
        }
    }

    /// Creates a query of the whole partition `pk` of `index`.
    pub fn index(index: Index, pk: impl Into<String>) -> Self {
        let range = KeyRange { pk: pk.into(), from: String::new(), to: char::MAX.to_string() };
        Self { index, ..Self::table(range) }
    }

    /// Reverses the order: the greatest key first.
    pub fn backward(self) -> Self {
        Self { direction: Direction::Backward, ..self }
    }

    /// Sets the maximum items of a page.
    pub fn limit(self, limit: usize) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Reads only these attributes.
    pub fn only(self, attributes: &[&str]) -> Self {
        Self { attributes: Some(attributes.iter().map(|name| (*name).to_owned()).collect()), ..self }
    }

    /// Reads items as they are stored.
    pub fn as_stored(self) -> Self {
        Self { as_stored: true, ..self }
    }
}

/// End of a page. Only the engine or layer that made it can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(Vec<String>);

impl Cursor {
    /// Creates the cursor of an engine or a layer, from parts in its own form. None of them has a line break.
    pub fn of(parts: Vec<String>) -> Self {
        Self(parts)
    }

    /// Returns the parts of the position, in the engine's form.
    pub fn parts(&self) -> &[String] {
        &self.0
    }

    /// Returns the cursor as text that fits into a URL.
    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.join("\n"))
    }

    /// Parses a cursor. The engine finds out if it belongs to a query.
    ///
    /// # Errors
    /// `Invalid` if the text is no cursor.
    pub fn from_text(text: &str) -> Result<Self> {
        let wrong = || Error::invalid("the cursor is not one that was given out");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
        let text = String::from_utf8(bytes).map_err(|_| wrong())?;
        Ok(Self(text.split('\n').map(str::to_owned).collect()))
    }
}

/// A read of the whole table, or of the partitions with a prefix. The trait [`Table`] lacks it, so that no service can
/// rely on it; engines have it, for operators who inspect their table.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Prefix of the partitions.
    pub prefix: String,
    /// True to read keys only.
    pub keys_only: bool,
    /// Position to continue after, from [`Page::next`].
    pub after: Option<Cursor>,
}

/// Page of items, and the start of the next one.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The items, in order.
    pub items: Vec<Item>,
    /// Start of the next page; `None` after the last.
    pub next: Option<Cursor>,
    /// Read units of the page, if the engine reports them.
    pub read_units: Option<f64>,
}

/// Condition of a write. An item whose `expires_at` has passed counts as absent.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// No condition.
    None,
    /// No item has this key.
    Absent,
    /// An item has this key.
    Exists,
    /// An item has this key, and its attribute of this name equals this value.
    Equals(&'static str, Value),
    /// An item has this key, and no attribute of this name.
    Without(&'static str),
    /// All of these.
    All(Vec<Condition>),
}

/// A change of some attributes of an existing item; others stay as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Key of the item.
    pub key: Key,
    /// Attributes and their new values.
    pub set: BTreeMap<String, Value>,
    /// Removed attributes.
    pub remove: Vec<String>,
    /// Numbers added to the whole numbers of attributes, which count as 0 when absent.
    pub add: BTreeMap<String, i64>,
    /// Condition besides that the item exists.
    pub condition: Condition,
}

impl Update {
    /// Creates an empty change of an existing item, under a further condition.
    pub fn new(key: Key, condition: Condition) -> Self {
        Self { key, set: BTreeMap::new(), remove: Vec::new(), add: BTreeMap::new(), condition }
    }

    /// Sets `name`.
    pub fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.set.insert(name.to_owned(), value.into());
        self
    }

    /// Removes `name`.
    pub fn remove(mut self, name: &str) -> Self {
        self.remove.push(name.to_owned());
        self
    }

    /// Adds `amount` to `name`.
    pub fn add(mut self, name: &str, amount: i64) -> Self {
        self.add.insert(name.to_owned(), amount);
        self
    }

    /// Changes an item as engines do.
    ///
    /// # Errors
    /// `Invalid` if the attribute is no whole number, or the sum is too large.
    pub fn apply(&self, item: &mut Item) -> Result<()> {
        for (name, amount) in &self.add {
            let sum = check::sum(&item.key, name, item.attributes.get(name), *amount)?;
            item.attributes.insert(name.clone(), sum.into());
        }
        item.attributes.extend(self.set.clone());
        self.remove.iter().for_each(|name| _ = item.attributes.remove(name));
        Ok(())
    }
}

/// One write of a transaction.
#[derive(Clone, Debug)]
pub enum Write {
    /// Put an item.
    Put(Item, Condition),
    /// Delete an item.
    Delete(Key, Condition),
    /// Write nothing, but require the condition.
    Check(Key, Condition),
    /// Add to a whole number, which counts as 0 when absent. The item must exist.
    Add(Key, String, i64),
    /// Change some attributes. The item must exist.
    Update(Update),
}

impl Write {
    /// Returns the key of the written or checked item.
    pub fn key(&self) -> &Key {
        match self {
            Write::Put(item, _) => &item.key,
            Write::Delete(key, _) | Write::Check(key, _) | Write::Add(key, _, _) => key,
            Write::Update(update) => &update.key,
        }
    }

    /// Returns its key for a change.
    pub fn key_mut(&mut self) -> &mut Key {
        match self {
            Write::Put(item, _) => &mut item.key,
            Write::Delete(key, _) | Write::Check(key, _) | Write::Add(key, _, _) => key,
            Write::Update(update) => &mut update.key,
        }
    }
}

/// The table. Every write is durable when its call returns, and is done completely or not at all.
///
/// No method has a body here, so that each engine implements it; a wrapper is a [`Layer`].
#[async_trait]
pub trait Table: Debug + Send + Sync {
    /// Reads the item at `key`, as last written.
    async fn get(&self, key: &Key) -> Result<Option<Item>>;

    /// Reads a page of items. Reads of the table itself see every write that returned before.
    async fn query(&self, query: &Query) -> Result<Page>;

    /// Puts an item.
    ///
    /// # Errors
    /// `Conflict`, when the condition does not hold; `Invalid`, when the item is too large
    /// ([`Table::item_bytes`]).
    async fn put(&self, item: Item, condition: Condition) -> Result<()>;

    /// Puts new items in their order, each under [`Condition::Absent`], up to the first that cannot be written. Returns
    /// the number surely written, and the error that ended it. After an error other than `Conflict` the next item may
    /// have been written as well.
    ///
    /// The items may be valid only for a while: no write is begun later than `within` from now, and an engine on
    /// another machine waits no longer than that for an answer.
    ///
    /// # Errors
    /// As [`Table::put`]; `Throttled` if the time was up before the next item was begun.
    async fn put_new(&self, items: Vec<Item>, within: Duration) -> (usize, Result<()>);

    /// Deletes an item; succeeds if there is none.
    ///
    /// # Errors
    /// `Conflict`, when the condition does not hold.
    async fn delete(&self, key: &Key, condition: Condition) -> Result<()>;

    /// Returns the maximum bytes of an item; at most [`MAX_ITEM_BYTES`](crate::item::MAX_ITEM_BYTES).
    fn item_bytes(&self) -> usize;

    /// Makes all writes or none. No two of them may have the same key.
    ///
    /// # Errors
    /// `Conflict`, naming the item whose condition does not hold; `Invalid`, with more than
    /// [`MAX_TRANSACTION_WRITES`].
    async fn transact(&self, writes: Vec<Write>) -> Result<()>;

    /// Removes from this machine's copies of the table, such as the write-ahead log of a file, all data deleted or
    /// overwritten before the call. Copies on other machines, such as backups, stay.
    ///
    /// # Errors
    /// `Unavailable` while others still read earlier data; it may be repeated.
    async fn forget_deleted(&self) -> Result<()>;

    /// Returns a time that the engine's own clock has surely reached, without a request; `None` before the first
    /// answer. For DynamoDB it is the `Date` of an answer plus the time since, so at most some seconds behind; for a
    /// file, the clock that it was opened with. A caller compares its own clock with it.
    fn engine_time(&self) -> Option<Timestamp>;

    /// Returns the folder for temporary files: that of the table's file, if it is one, else that of the system.
    fn scratch(&self) -> PathBuf {
        std::env::temp_dir()
    }

    /// Reads the shards of the change feed, parents before children.
    async fn shards(&self) -> Result<Vec<Shard>>;

    /// Reads the changes of a shard after `from`: at once if there are any, else when one comes, else none after about
    /// `wait`. Changes are kept for 24 hours.
    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes>;
}

/// Makes the error of a write that was not begun in time.
pub fn too_late(key: &Key) -> Error {
    Error::new(ErrorKind::Throttled, format!("item {key} could not be written in time; try again"))
}

/// Pages of a query, read on demand, so that at most one page is in memory.
#[derive(Debug)]
pub struct Pages<'a> {
    table: &'a dyn Table,
    /// Query of the next page; `None` after the last page.
    rest: Option<Query>,
}

impl<'a> Pages<'a> {
    /// Begins a query, without reading.
    pub fn of(table: &'a dyn Table, query: Query) -> Self {
        Self { table, rest: Some(query) }
    }

    /// Reads the items of the next page, which may be none; `None` after the last.
    ///
    /// # Errors
    /// Errors of [`Table::query`]. Then there are no more pages.
    pub async fn next(&mut self) -> Result<Option<Vec<Item>>> {
        let Some(query) = self.rest.take() else { return Ok(None) };
        let page = self.table.query(&query).await?;
        self.rest = page.next.map(|next| Query { after: Some(next), ..query });
        Ok(Some(page.items))
    }
}

/// Reads all items of a query, page after page.
///
/// # Errors
/// Errors of [`Table::query`].
pub async fn query_all(table: &dyn Table, query: Query) -> Result<Vec<Item>> {
    let (mut pages, mut items) = (Pages::of(table, query), Vec::new());
    while let Some(page) = pages.next().await? {
        items.extend(page);
    }
    Ok(items)
}

/// Checks that the table answers, by reading the item at `key`, which never exists.
///
/// # Errors
/// Errors of [`Table::get`].
pub async fn probe(table: &dyn Table, key: &Key) -> Result<()> {
    table.get(key).await.map(drop)
}

/// Checks that the table takes durable writes: writes an item at `key`, which is never read.
///
/// # Errors
/// Errors of [`Table::put`].
pub async fn probe_write(table: &dyn Table, key: Key, now: Timestamp) -> Result<()> {
    let item = Item::new(key).with("v", 1).with("at", now.micros());
    table.put(item, Condition::None).await
}
