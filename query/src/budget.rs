//! Limits of queries: of their memory together, and of their number at one time.
//!
//! A query counts its memory as it grows. If all memory is taken, the oldest query waits until others end, and a later one is
//! refused: so two growing queries never wait for each other. The memory of an answer is given back as its client takes it, or
//! when the connection is dropped. No caller and no workspace gets all of it (`turns`).
//!
//! A stream is an answer that is sent as it is made. It lives as long as its client takes to read it. So it has no turn, but one
//! of a number of places with a share of the memory each, and all streams together leave some for other queries.

mod hold;
mod turns;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use event::{Error, Id, Result};
use meter::{
    Counter, Gauge,
    catalogue::{QUERY_HELD_BYTES, QUERY_REFUSED},
};
use tokio::sync::{Notify, Semaphore};

use self::turns::Turns;
pub(crate) use self::turns::{Share, Turn};
use crate::explain::{Step, Tally, Timed};

/// Memory reserved for a stream, if the limit allows; it may hold more while memory is free.
const STREAM_BYTES: u64 = 32 * 1024 * 1024;

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
    /// Maximum number of rows that one query evaluates again for its intervals; each score of a class counts as one more.
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

/// Approximate bytes of a row on its way into an answer.
const LEAST_ROW_BYTES: u64 = 256;

/// The limits and their current use.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Shared>, Option<Arc<Tally>>);

#[derive(Debug)]
struct Shared {
    bounds: Bounds,
    taken: Mutex<Taken>,
    freed: Notify,
    turns: Arc<Turns>,
    streams: Arc<Turns>,
    held_bytes: Gauge,
    busy: Counter,
    too_large: Counter,
}

#[derive(Debug, Default)]
struct Taken {
    /// Bytes held, or kept free for streams.
    bytes: u64,
    /// Holders by number.
    by: BTreeMap<u64, Own>,
    /// Numbers of the queries being worked on, in the order of their start.
    growing: BTreeSet<u64>,
    next: u64,
}

/// Memory of one query: bytes held, bytes kept free for it at least, and its share.
#[derive(Clone, Debug)]
struct Own {
    held: u64,
    kept: u64,
    share: Share,
}

impl Own {
    fn counts(&self) -> u64 {
        self.held.max(self.kept)
    }
}

impl Taken {
    fn held(&self, number: u64) -> u64 {
        self.by.get(&number).map_or(0, |own| own.held)
    }

    fn set(&mut self, number: u64, change: impl FnOnce(&mut Own)) {
        if let Some(own) = self.by.get_mut(&number) {
            self.bytes -= own.counts();
            change(own);
            self.bytes += own.counts();
        }
    }

    fn end(&mut self, number: u64) {
        self.bytes -= self.by.remove(&number).map_or(0, |own| own.counts());
        self.growing.remove(&number);
    }
}

/// Reason why a query cannot hold more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// It alone would exceed the limit.
    TooLarge {
        /// Bytes that it would hold.
        bytes: u64,
    },
    /// It would exceed the limit of an answer that is made as a whole.
    NotWhole,
    /// Other queries hold too much.
    Busy,
}

/// The place of a stream. It ends when the answer is sent or given up.
pub(crate) type StreamPlace = Turn;

/// The memory of one query. It is given back when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Hold(Arc<Holder>);

#[derive(Debug)]
struct Holder {
    budget: Budget,
    number: u64,
    /// Maximum bytes held by the queries of its caller.
    memory: u64,
    is_cancelled: AtomicBool,
    /// Number of rows evaluated again.
    drawn: AtomicU64,
    /// Maximum bytes that it may hold.
    most: AtomicU64,
    /// Number of rows that it may still read.
    rows_left: AtomicU64,
    is_stream: bool,
}

/// Cancels the work for a query when it is dropped, as no client waits for the answer any more.
#[derive(Debug)]
pub(crate) struct Wanted(Hold);

impl Budget {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let refused = |why| QUERY_REFUSED.counter([why]);
        let shared = Arc::new(Shared {
            turns: Turns::new(bounds.running, bounds.waiting),
            streams: Turns::new(bounds.streams(), bounds.waiting),
            bounds,
            taken: Mutex::default(),
            freed: Notify::new(),
            held_bytes: QUERY_HELD_BYTES.gauge([]),
            busy: refused("busy"),
            too_large: refused("too_large"),
        });
        Self(shared, None)
    }

    /// Counts reads in a tally for an explanation.
    pub(crate) fn counting(&self, tally: &Arc<Tally>) -> Self {
        Self(Arc::clone(&self.0), Some(Arc::clone(tally)))
    }

    /// Begins a step of an explanation, which lasts until the result is dropped.
    pub(crate) fn step(&self, step: Step) -> Option<Timed> {
        Timed::begin(self.1.as_ref(), step)
    }

    /// Waits for a turn to work on a query of a workspace, and returns it with an empty hold.
    ///
    /// # Errors
    /// `Unavailable`, if too many queries are running and waiting.
    pub(crate) async fn enter(&self, workspace: Option<&Id>) -> Result<(Turn, Hold)> {
        let shared = &self.0;
        let _timed = self.step(Step::Wait);
        let share = Share::of(workspace);
        let turn = shared.turns.enter(share.clone(), shared.bounds.wait).await;
        let turn = turn.ok_or_else(|| self.busy())?;
        Ok((turn, self.hold(share, false)))
    }

    /// Waits for a place for a stream, and returns it with its share of the memory.
    ///
    /// # Errors
    /// `Unavailable`, if other streams take all places or the memory for too long.
    pub(crate) async fn enter_stream(&self, workspace: &Id) -> Result<(StreamPlace, Hold)> {
        let bounds = &self.0.bounds;
        let _timed = self.step(Step::Wait);
        let share = Share::of(Some(workspace));
        let place = self.0.streams.enter(share.clone(), bounds.wait).await;
        let place = place.ok_or_else(|| self.busy())?;
        let hold = self.hold(share, true);
        hold.take(bounds.of_stream()).await?;
        let mut taken = self.0.taken();
        taken.set(hold.0.number, |own| (own.held, own.kept) = (0, bounds.of_stream()));
        drop(taken);
        Ok((place, hold))
    }

    fn hold(&self, share: Share, is_stream: bool) -> Hold {
        let memory = share.most_of(self.0.bounds.memory);
        let mut taken = self.0.taken();
        let number = taken.next;
        taken.next += 1;
        taken.by.insert(number, Own { held: 0, kept: 0, share });
        if !is_stream {
            taken.growing.insert(number);
        }
        drop(taken);
        Hold(Arc::new(Holder {
            budget: self.clone(),
            number,
            memory,
            is_cancelled: AtomicBool::new(false),
            drawn: AtomicU64::new(0),
            most: AtomicU64::new(u64::MAX),
            rows_left: AtomicU64::new(u64::MAX),
            is_stream,
        }))
    }

    /// Returns the error of a query that is refused for now.
    pub(crate) fn busy(&self) -> Error {
        self.0.busy.increment(1);
        Error::busy("too many queries are being answered; try again in a moment")
    }
}

/// Returns the error of an answer that is too large to be made as a whole before it is sent.
pub(crate) fn not_whole() -> Error {
    Error::too_large("the answer is not made as a whole")
}

#[cfg(test)]
impl Budget {
    /// Returns the bytes held by all queries.
    pub(crate) fn held(&self) -> u64 {
        self.0.taken().bytes
    }
}

impl Shared {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, taken: &Taken) {
        self.held_bytes.set(taken.bytes as f64);
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let shared = &self.budget.0;
        let mut taken = shared.taken();
        taken.end(self.number);
        shared.note(&taken);
        drop(taken);
        shared.freed.notify_waiters();
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.0.is_cancelled.store(true, Ordering::Relaxed);
    }
}

/// Formats a number of bytes for people.
pub(crate) fn in_words(bytes: u64) -> String {
    const MIB: f64 = 1024.0 * 1024.0;
    match bytes as f64 / MIB {
        small if small < 10.0 => format!("{small:.1} MiB"),
        mib => format!("{mib:.0} MiB"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use log::audit::{Author, by};

    use super::*;

    fn budget(running: usize, waiting: usize) -> Budget {
        let wait = Duration::from_millis(200);
        Budget::new(Bounds { memory: 100, running, waiting, wait, drawn: 10, ..Bounds::NONE })
    }

    #[tokio::test(start_paused = true)]
    async fn earliest_query_waits_for_memory_and_later_fails() {
        let budget = budget(4, 0);
        let (_, first) = budget.enter(None).await.unwrap();
        let (_, second) = budget.enter(None).await.unwrap();
        first.grow(60).await.unwrap();
        second.grow(30).await.unwrap();
        assert_eq!(second.grow(20).await, Err(Full::Busy));
        assert_eq!(second.grow(71).await, Err(Full::TooLarge { bytes: 101 }));
        let (grown, ()) = tokio::join!(first.grow(40), async { drop(second) });
        assert_eq!(grown, Ok(()), "it got what the other one gave back");
        let (_, third) = budget.enter(None).await.unwrap();
        assert_eq!(third.grow(1).await, Err(Full::Busy));
        first.shrink(1);
        assert_eq!(third.grow(1).await, Ok(()));
        assert_eq!(first.grow(1).await, Err(Full::Busy), "nobody gave anything back in time");
        first.made();
        assert_eq!(third.grow(1).await, Err(Full::Busy), "it is the first that grows now, and waits in vain");
        drop((first, third));
        assert_eq!(budget.0.taken().bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn excess_queries_are_refused_and_waiting_is_bounded() {
        let budget = budget(1, 1);
        let (turn, _hold) = budget.enter(None).await.unwrap();
        let began = tokio::time::Instant::now();
        let (waits, refused) = tokio::join!(budget.enter(None), budget.enter(None));
        assert_eq!(began.elapsed(), Duration::from_millis(200));
        for error in [waits.unwrap_err(), refused.unwrap_err()] {
            assert_eq!(error.kind(), event::ErrorKind::Busy);
        }
        drop(turn);
        assert!(budget.enter(None).await.is_ok(), "a turn is free although an answer is still held");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_leaves_memory_to_others() {
        let budget = budget(16, 0);
        let as_ = |who: &str| {
            let author = Author { request: Some("r".into()), ..Author::named(who) };
            by(Arc::new(author), budget.enter(None))
        };
        let (_, first) = as_("user:ann").await.unwrap();
        assert_eq!(first.memory(), 75);
        assert_eq!(first.grow(76).await, Err(Full::TooLarge { bytes: 76 }));
        first.grow(75).await.unwrap();
        let (_, second) = as_("user:ann").await.unwrap();
        assert_eq!(second.grow(1).await, Err(Full::Busy));
        let (_, other) = as_("user:bob").await.unwrap();
        // Both belong to one workspace, which leaves an eighth to others.
        other.grow(12).await.unwrap();
        assert_eq!(other.grow(1).await, Err(Full::Busy));
        drop(first);
        other.grow(50).await.unwrap();
    }

    #[tokio::test]
    async fn work_is_cancelled_when_nobody_wants_it() {
        let (_, hold) = budget(1, 0).enter(None).await.unwrap();
        let wanted = hold.wanted();
        assert!(hold.check().is_ok());
        drop(wanted);
        assert!(hold.check().is_err());
    }

    #[tokio::test]
    async fn so_many_rows_are_drawn_and_no_more() {
        let (_, hold) = budget(1, 0).enter(None).await.unwrap();
        assert!(hold.draw(4).is_ok() && hold.draw(6).is_ok());
        let error = hold.draw(1).unwrap_err();
        assert_eq!(error.kind(), event::ErrorKind::TooLarge, "{error}");
        let (_, hold) = budget(1, 0).enter(None).await.unwrap();
        drop(hold.wanted());
        assert_eq!(hold.draw(1).unwrap_err().kind(), event::ErrorKind::Unavailable, "nobody waits for it");
    }
}
