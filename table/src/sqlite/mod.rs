//! Table in one SQLite file: it runs on one machine, without anything else to install.
//!
//! - **Writes** go to one thread, which commits all waiting ones together (`writer.rs`). A write returns when it is on the disk
//!   (write-ahead log, `synchronous=FULL`).
//! - **Reads** run on a few connections of their own, on threads that may block (`readers.rs`).
//! - **Changes** are rows of the same file, written in the same commit (`feed.rs`).
//! - **Several processes** on one machine may share the file. Conditions are checked inside of
//!   the write transaction, of which SQLite admits one at a time among all processes.
//!
//! SQL occurs only in this module.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use event::{Clock, Error, Result, Timestamp};
use tokio::time::Instant;

use self::{
    listen::Listener,
    open::Create,
    readers::Readers,
    write::Prepared,
    writer::{Request, Writer},
};
use super::{Changes, Condition, Page, Position, Query, Shard, Table, Write, check};
use crate::{Item, Key, item::MAX_ITEM_BYTES};

pub use self::{
    engine::Sqlite,
    manage::{FileDescription, FileIndex, delete, describe, file_bytes},
};

mod backup;
mod cursor;
mod engine;
mod fault;
mod feed;
mod listen;
mod manage;
mod open;
mod query;
mod readers;
mod replaced;
mod row;
mod scan;
mod schema;
mod upkeep;
mod write;
mod writer;

/// Table in one SQLite file.
#[derive(Debug)]
pub struct SqliteTable {
    clock: Clock,
    // Declared before the writer, since fields are dropped in this order: the last connection to close merges the
    // write-ahead log, and that should be the writer's.
    readers: Arc<Readers>,
    // Dropping it waits for the pending writes.
    writer: Writer,
    listener: Listener,
}

impl SqliteTable {
    /// Opens the file at `path`; creates it, and its folder, when it is missing.
    ///
    /// # Errors
    /// `Invalid` if the file is not Almanac's, or is of a newer version; `Unavailable` if it cannot be read and
    /// written.
    pub fn open(path: &Path, clock: Clock) -> Result<Self> {
        Self::open_with(path, clock, Create::Missing, open::BUSY_TIMEOUT)
    }

    /// Opens an existing file at `path`.
    ///
    /// # Errors
    /// `NotFound` if it does not exist; errors of [`SqliteTable::open`].
    pub fn open_existing(path: &Path, clock: Clock) -> Result<Self> {
        Self::open_with(path, clock, Create::Never, open::BUSY_TIMEOUT)
    }

    fn open_with(path: &Path, clock: Clock, create: Create, busy: Duration) -> Result<Self> {
        let connection = open::writer(path, create, busy)?;
        let readers = Readers::new(path.to_owned(), busy);
        let writer = Writer::start(connection, path, clock.clone())?;
        Ok(Self { clock, readers, writer, listener: Listener::default() })
    }

    async fn write(&self, write: Write) -> Result<()> {
        let bytes = check::write_bytes(&write);
        self.writer.write(vec![Prepared::new(write)?].into(), bytes).await
    }

    /// Makes all writes or none, and none when they cannot begin by `until`.
    async fn write_all(&self, writes: Vec<Write>, until: Option<Instant>) -> Result<()> {
        check::check_writes(&writes)?;
        let bytes = writes.iter().map(check::write_bytes).sum();
        let writes = writes.into_iter().map(Prepared::new).collect::<Result<_>>()?;
        self.writer.write(Request { writes, until, forgets: false }, bytes).await
    }
}

#[async_trait]
impl Table for SqliteTable {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        check::check_key(key)?;
        let (key, now) = (key.clone(), self.clock.now());
        self.readers.run(move |connection| row::load(connection, &key, now, None)).await
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        let (query, now) = (query.clone(), self.clock.now());
        self.readers.run(move |connection| query::page(connection, &query, now)).await
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        self.write(Write::Put(item, condition)).await
    }

    /// Puts them in one commit, or in several when they are more than a transaction may hold.
    async fn put_new(&self, items: Vec<Item>, within: Duration) -> (usize, Result<()>) {
        let until = Instant::now() + within;
        let mut written = 0;
        for writes in check::transactions(items) {
            let count = writes.len();
            match self.write_all(writes, Some(until)).await {
                Ok(()) => written += count,
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        self.write(Write::Delete(key.clone(), condition)).await
    }

    fn item_bytes(&self) -> usize {
        MAX_ITEM_BYTES
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        self.write_all(writes, None).await
    }

    async fn forget_deleted(&self) -> Result<()> {
        self.writer.write(Request { forgets: true, ..Request::default() }, 0).await
    }

    fn engine_time(&self) -> Option<Timestamp> {
        Some(self.clock.now())
    }

    fn scratch(&self) -> PathBuf {
        let folder = self.readers.path().parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or(Path::new(".")).to_owned()
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        Ok(vec![Shard { id: feed::SHARD.to_owned(), parent: None }])
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        if shard != feed::SHARD {
            return Err(Error::not_found(format!("there is no shard `{shard}` in an SQLite file")));
        }
        let read = |from| self.readers.run(move |connection| feed::read(connection, &from));
        let file = (self.readers.path(), self.writer.subscribe());
        self.listener.changes(file, from, wait, read).await
    }
}

#[cfg(test)]
mod tests;
