//! Limits of queries.

use std::time::Duration;

use tokio::sync::Semaphore;

/// Limits of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum bytes held by all queries together: rows read, intermediate results, and answers not yet taken by their clients.
    pub memory: u64,
    /// Maximum number of queries worked on at one time.
    pub running: usize,
    /// Maximum number of queries that wait for their turn.
    pub waiting: usize,
    /// Maximum time that a query waits for its turn or for memory.
    pub wait: Duration,
    /// Maximum number of rows that one query judges again for its intervals; each score of a class counts as one more.
    pub drawn: u64,
    /// Maximum bytes of an answer of events that is made as a whole before it is sent; a larger one is sent as it is made.
    pub whole: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            memory: 512 * 1024 * 1024,
            running: 16,
            waiting: 64,
            wait: Duration::from_secs(5),
            drawn: 1_000_000_000,
            whole: 16 * 1024 * 1024,
        }
    }
}

impl Bounds {
    /// No limits: for a process that answers one query and ends.
    pub const NONE: Bounds = Bounds {
        memory: u64::MAX,
        running: Semaphore::MAX_PERMITS,
        waiting: usize::MAX,
        wait: Duration::from_secs(3600),
        drawn: u64::MAX,
        whole: 16 * 1024 * 1024,
    };
}

/// Memory reserved for a stream, if the limit allows; it may hold more while memory is free.
const STREAM_BYTES: u64 = 32 * 1024 * 1024;

impl Bounds {
    /// Returns the memory reserved for a stream.
    pub(crate) fn of_stream(&self) -> u64 {
        STREAM_BYTES.min(self.memory / 4)
    }

    /// Returns the maximum number of streams at one time: as many as have their share in three quarters of the memory.
    pub(crate) fn streams(&self) -> usize {
        let streams = self.memory / 4 * 3 / self.of_stream().max(1);
        usize::try_from(streams).map_or(Semaphore::MAX_PERMITS, |streams| streams.min(Semaphore::MAX_PERMITS))
    }
}
