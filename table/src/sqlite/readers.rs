//! Readers: a few connections that share the reads of any number of tasks.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use event::{Error, Result};
use meter::Histogram;
use rusqlite::Connection;
use tokio::{sync::Semaphore, time::Instant};

use super::{fault::Attempt, open};

/// Number of reads that run at once. SQLite readers hinder neither each other nor the writer, so this bounds only memory and
/// threads.
const CONNECTIONS: usize = 4;

/// Connections for reading.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    busy: Duration,
    idle: Mutex<Vec<Connection>>,
    turns: Arc<Semaphore>,
    waits: Histogram,
}

impl Readers {
    /// Creates the pool without connections; they are opened when they are first needed.
    pub(super) fn new(path: PathBuf, busy: Duration) -> Arc<Self> {
        let turns = Arc::new(Semaphore::new(CONNECTIONS));
        let waits = meter::catalogue::SQLITE_READER_WAIT.histogram([]);
        Arc::new(Self { path, busy, idle: Mutex::default(), turns, waits })
    }

    /// Path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `read` on a thread that may block, when its turn comes. Turns are given in the order of the requests, so no read
    /// waits forever.
    pub(super) async fn run<T, F>(self: &Arc<Self>, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Attempt<T> + Send + 'static,
    {
        let asked = Instant::now();
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(stopped)?;
        self.waits.record(asked.elapsed());
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let outcome = readers.take().and_then(|mut connection| {
                let outcome = read(&mut connection);
                readers.give_back(connection);
                outcome
            });
            drop(turn);
            outcome.map_err(|fault| fault.at(&readers.path))
        });
        task.await.map_err(stopped)?
    }

    fn take(&self) -> Attempt<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match idle {
            Some(connection) => Ok(connection),
            None => open::reader(&self.path, self.busy),
        }
    }

    fn give_back(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}

fn stopped(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::unavailable("the read was broken off").because(error)
}
