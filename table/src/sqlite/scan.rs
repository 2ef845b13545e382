//! Reading the whole file: as it is now, on a person's request, or as of one instant, in a read transaction that stays open.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use event::{Error, Result, Timestamp};
use rusqlite::{Connection, params};

use super::{
    SqliteTable,
    fault::Attempt,
    open::{self, BUSY_TIMEOUT, Create},
    row,
};
use crate::{Cursor, Item, Key, MAX_PAGE_BYTES, Page, Scan, engine::Whole};

/// Maximum items in a page.
const MAX_ITEMS: usize = 1_000;

/// First part of cursors.
const NAME: &str = "scan";

impl SqliteTable {
    /// Reads a page of all items, in the order of their keys.
    ///
    /// # Errors
    /// `Invalid`, when the cursor is of something else; those of reading.
    pub async fn scan(&self, scan: &Scan) -> Result<Page> {
        let (scan, now) = (scan.clone(), self.clock.now());
        // Keys and items must come from one state of the file.
        self.readers.run(move |connection| page(&*connection.transaction()?, &scan, now)).await
    }
}

/// Reads a page of the state that the transaction of the connection sees.
fn page(connection: &Connection, scan: &Scan, now: Timestamp) -> Attempt<Page> {
    let after = match &scan.after {
        None => Key::new(&scan.prefix, ""),
        Some(cursor) => match cursor.parts() {
            [name, pk, sk] if name == NAME => Key::new(pk, sk),
            _ => return Err(Error::invalid("the cursor belongs to another query").into()),
        },
    };
    let end = format!("{}{}", scan.prefix, char::MAX);
    let sql = "SELECT pk, sk FROM item WHERE (pk, sk) > (?1, ?2) AND pk <= ?3
        AND (expires_at IS NULL OR expires_at > ?4) ORDER BY pk, sk LIMIT ?5";
    let most = MAX_ITEMS as i64 + 1;
    let mut statement = connection.prepare_cached(sql)?;
    let keys = statement
        .query_map(params![after.pk, after.sk, end, row::seconds(now), most], |row| {
            Ok(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?
        .collect::<std::result::Result<Vec<Key>, _>>()?;
    let mut page = Page::default();
    let mut bytes = 0;
    for key in keys {
        let item = match scan.keys_only {
            true => Some(Item::new(key)),
            false => row::load(connection, &key, now, None)?,
        };
        let Some(item) = item else { continue };
        bytes += item.size();
        let is_full = page.items.len() == MAX_ITEMS || bytes > MAX_PAGE_BYTES;
        if let (true, Some(last)) = (is_full, page.items.last()) {
            let (pk, sk) = (last.key.pk.clone(), last.key.sk.clone());
            page.next = Some(Cursor::of(vec![NAME.to_owned(), pk, sk]));
            break;
        }
        page.items.push(item);
    }
    Ok(page)
}

/// One state of the file. Others go on writing; while it is open, the write-ahead log keeps their writes.
#[derive(Debug)]
pub(super) struct Still {
    path: PathBuf,
    now: Timestamp,
    connection: Arc<Mutex<Connection>>,
}

impl Still {
    /// Opens the state of the file at `path` now, without items that have expired by `now`.
    ///
    /// # Errors
    /// Errors of opening the file.
    pub(super) fn open(path: &Path, now: Timestamp) -> Result<Self> {
        let connection = connection(path)?;
        Ok(Self { path: path.to_owned(), now, connection: Arc::new(Mutex::new(connection)) })
    }
}

/// Opens a connection whose transaction sees the present state of the file.
///
/// # Errors
/// Errors of opening the file.
pub(super) fn connection(path: &Path) -> Result<Connection> {
    // Checks that the file is one of Almanac.
    drop(open::writer(path, Create::Never, BUSY_TIMEOUT)?);
    begin(path).map_err(|fault| fault.at(path))
}

fn begin(path: &Path) -> Attempt<Connection> {
    let connection = open::reader(path, BUSY_TIMEOUT)?;
    connection.execute_batch("BEGIN")?;
    // A transaction sees the state at its first read.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
    Ok(connection)
}

#[async_trait]
impl Whole for Still {
    async fn page(&self, scan: &Scan) -> Result<Page> {
        let (connection, scan, now) = (Arc::clone(&self.connection), scan.clone(), self.now);
        let read = tokio::task::spawn_blocking(move || {
            page(&connection.lock().unwrap_or_else(PoisonError::into_inner), &scan, now)
        });
        let read =
            read.await.map_err(|error| Error::unavailable("the read was broken off").because(error))?;
        read.map_err(|fault| fault.at(&self.path))
    }
}
