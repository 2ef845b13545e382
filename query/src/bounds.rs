//! How much queries may take.

use std::time::Duration;

use tokio::sync::Semaphore;

/// How much queries may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many bytes they may hold together: what was read, what is made of it, and answers that
    /// their clients have not taken yet.
    pub memory: u64,
    /// How many are worked on at one time.
    pub running: usize,
    /// How many may wait for their turn.
    pub waiting: usize,
    /// How long one waits at most, for its turn or for memory.
    pub wait: Duration,
    /// How many rows one may judge again for its intervals; each score of a class counts as one more.
    pub drawn: u64,
    /// How many bytes an answer of events may take that is made as a whole before it is sent; a larger one is sent as it
    /// is made.
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
    /// None: for a process that answers one query and ends.
    pub const NONE: Bounds = Bounds {
        memory: u64::MAX,
        running: Semaphore::MAX_PERMITS,
        waiting: usize::MAX,
        wait: Duration::from_secs(3600),
        drawn: u64::MAX,
        whole: 16 * 1024 * 1024,
    };
}

/// How much memory a stream has for itself, where there is enough: it may hold more when that is free.
const STREAM_BYTES: u64 = 32 * 1024 * 1024;

impl Bounds {
    /// How much of the memory a stream has for itself.
    pub(crate) fn of_stream(&self) -> u64 {
        STREAM_BYTES.min(self.memory / 4)
    }

    /// How many streams there may be at one time: as many as have their share in three quarters of the memory.
    pub(crate) fn streams(&self) -> usize {
        let streams = self.memory / 4 * 3 / self.of_stream().max(1);
        usize::try_from(streams).map_or(Semaphore::MAX_PERMITS, |streams| streams.min(Semaphore::MAX_PERMITS))
    }
}
