//! State of the whole file at one instant: a read transaction that stays open.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use event::{Error, Result, Timestamp};
use rusqlite::Connection;

use super::{
    fault::Attempt,
    open::{self, BUSY_TIMEOUT, Create},
    scan,
};
use crate::{Page, Scan, engine::Whole};

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
            scan::page(&connection.lock().unwrap_or_else(PoisonError::into_inner), &scan, now)
        });
        let read =
            read.await.map_err(|error| Error::unavailable("the read was broken off").because(error))?;
        read.map_err(|fault| fault.at(&self.path))
    }
}
