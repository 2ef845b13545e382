//! The segment cache: the columns of segments that ingest has put, for the projector of the same process, which then neither reads nor
//! unpacks them.
//!
//! The log stays the truth. A segment is handed over after its put has succeeded, with its packed columns, so a fold of them
//! equals a reader's fold to the byte. Other segments are read: they were put by another process, or there was no room, or they
//! have been here for too long. So nothing waits for the segment cache, and losing all of it costs reads alone.
//!
//! **Erased keys.** Only an erasure changes a segment. A handed-over segment holds the number of erased keys in its workspace at
//! the time when ingest looked its keys up ([`ErasedKeys`](crate::erased)), and it is taken only while that number is unchanged:
//! so none of its keys was erased since, and its segment was not rewritten. An erasure waits longer before it reads segments than
//! anything stays here.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use event::{Columns, lane::LogPosition};
use meter::{
    Counter, Gauge,
    catalogue::{SEGMENT_CACHE_BYTES, SEGMENT_CACHE_SEGMENTS},
};
use tokio::time::Instant;

use crate::{key::LogId, segment_item::Segment};

/// Default maximum of bytes held.
pub const DEFAULT_BYTES: u64 = 64 << 20;

/// Time for which a segment is held: a projector that has not folded it by then is far behind, or another process folds it.
pub const MAX_AGE: Duration = Duration::from_secs(10);

/// Approximate bytes of a segment beside its columns, and of each column beside its values.
const SEGMENT_BYTES: u64 = 512;
const COLUMN_BYTES: u64 = 128;

/// Minimum time between two searches for old segments while there is no room.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Columns of segments on their way from ingest to the projector of one process. The default holds nothing.
#[derive(Clone, Debug, Default)]
pub struct SegmentCache {
    shared: Option<Arc<Shared>>,
}

/// Segment that was handed over.
#[derive(Debug)]
pub struct CachedSegment {
    /// Place among the segments of its day and kind.
    pub place: LogPosition,
    /// All its columns, as they were packed.
    pub columns: Arc<Columns>,
    /// Number of erased keys in its workspace when its keys were looked up.
    erased: u64,
    since: Instant,
    _room: Room,
}

#[derive(Debug)]
struct Shared {
    most: u64,
    bytes: Arc<Bytes>,
    held: Mutex<Held>,
    /// Number of segments taken, as in the metric.
    counted: AtomicU64,
    taken: Counter,
    missed: Counter,
    no_room: Counter,
    too_old: Counter,
}

#[derive(Debug, Default)]
struct Held {
    logs: HashMap<LogId, BTreeMap<u64, Arc<CachedSegment>>>,
    looked: Option<Instant>,
}

/// Bytes of everything held, by the segment cache or by a taker.
#[derive(Debug)]
struct Bytes {
    held: AtomicU64,
    gauge: Gauge,
}

impl Bytes {
    fn set(&self, change: impl Fn(u64) -> Option<u64>) -> bool {
        let changed = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        if changed.is_ok() {
            self.gauge.set(self.held.load(Ordering::Relaxed) as f64);
        }
        changed.is_ok()
    }
}

/// Room of one segment, until its last holder drops it.
#[derive(Debug)]
struct Room {
    bytes: u64,
    of: Arc<Bytes>,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.of.set(|held| Some(held.saturating_sub(self.bytes)));
    }
}

impl SegmentCache {
    /// Creates a segment cache of at most `most` bytes; with 0 it is switched off.
    pub fn of(most: u64) -> Self {
        let shared = || Shared {
            most,
            bytes: Arc::new(Bytes { held: AtomicU64::new(0), gauge: SEGMENT_CACHE_BYTES.gauge([]) }),
            held: Mutex::default(),
            counted: AtomicU64::new(0),
            taken: SEGMENT_CACHE_SEGMENTS.counter(["taken"]),
            missed: SEGMENT_CACHE_SEGMENTS.counter(["missed"]),
            no_room: SEGMENT_CACHE_SEGMENTS.counter(["no_room"]),
            too_old: SEGMENT_CACHE_SEGMENTS.counter(["too_old"]),
        };
        Self { shared: (most > 0).then(|| Arc::new(shared())) }
    }

    /// Returns whether it is switched on.
    pub fn is_on(&self) -> bool {
        self.shared.is_some()
    }

    /// Hands over a segment that was put, with its packed columns; `erased` keys were erased in its workspace when its keys were
    /// looked up. Without room it is left to be read.
    pub fn give(&self, segment: &Segment, columns: &Arc<Columns>, erased: u64) {
        let Some(shared) = &self.shared else { return };
        debug_assert_eq!(segment.ver, 0, "a segment that was written again is not handed over");
        let bytes = columns.bytes() as u64 + columns.columns.len() as u64 * COLUMN_BYTES + SEGMENT_BYTES;
        let room = shared.room(bytes).or_else(|| {
            shared.forget_old(LOOK_EVERY);
            shared.room(bytes)
        });
        let Some(room) = room else { return shared.no_room.increment(1) };
        let (place, columns) = (segment.place(), Arc::clone(columns));
        let handed = CachedSegment { place, columns, erased, since: Instant::now(), _room: room };
        let mut held = shared.lock();
        let of_log = held.logs.entry(segment.log.clone()).or_default();
        of_log.insert(segment.seq, Arc::new(handed));
    }

    /// Returns whether a log has segments here. Without any, taking them needs no further knowledge.
    pub fn has(&self, log: &LogId) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.lock().logs.contains_key(log))
    }

    /// Returns the segments of a log from `first` on, up to `last` and without holes, that are here; none if keys were erased
    /// since, of which there are `erased` by now. They stay until [`SegmentCache::settle`].
    pub fn take(&self, log: &LogId, (first, last): (u64, u64), erased: u64) -> Vec<Arc<CachedSegment>> {
        let Some(shared) = &self.shared else { return Vec::new() };
        let held = shared.lock();
        let found = held.logs.get(log).into_iter().flat_map(|of_log| of_log.range(first..=last.max(first)));
        let is_good = |handed: &CachedSegment| handed.erased == erased && handed.since.elapsed() < MAX_AGE;
        let found = found.zip(first..).take_while(|((seq, handed), next)| *seq == next && is_good(handed));
        let taken: Vec<_> = found.map(|((_, handed), _)| Arc::clone(handed)).collect();
        shared.taken.increment(taken.len() as u64);
        shared.counted.fetch_add(taken.len() as u64, Ordering::Relaxed);
        taken
    }

    /// Counts segments that were read because they were not here.
    pub fn missed(&self, segments: usize) {
        if let Some(shared) = &self.shared {
            shared.missed.increment(segments as u64);
        }
    }

    /// Removes the segments of a log up to `last`, which are folded.
    pub fn settle(&self, log: &LogId, last: u64) {
        let Some(shared) = &self.shared else { return };
        let mut held = shared.lock();
        let Some(of_log) = held.logs.get_mut(log) else { return };
        let left = of_log.split_off(&last.saturating_add(1));
        let folded = std::mem::replace(of_log, left);
        if of_log.is_empty() {
            held.logs.remove(log);
        }
        // Dropped after the lock.
        drop(held);
        drop(folded);
    }

    /// Removes segments that have been here for too long; to be called every few seconds.
    pub fn forget_old(&self) {
        if let Some(shared) = &self.shared {
            shared.forget_old(Duration::ZERO);
        }
    }

    /// Number of segments taken.
    pub fn taken(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.counted.load(Ordering::Relaxed))
    }

    /// Number of bytes held, by it and by takers.
    pub fn bytes(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.bytes.held.load(Ordering::Relaxed))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(&self, bytes: u64) -> Option<Room> {
        let fits = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.most);
        self.bytes.set(fits).then(|| Room { bytes, of: Arc::clone(&self.bytes) })
    }

    /// Removes old segments, unless that was done a moment ago.
    fn forget_old(&self, every: Duration) {
        let mut held = self.lock();
        if held.looked.is_some_and(|looked| looked.elapsed() < every) {
            return;
        }
        held.looked = Some(Instant::now());
        let mut old = Vec::new();
        held.logs.retain(|_, of_log| {
            while let Some(first) =
                of_log.first_entry().filter(|first| first.get().since.elapsed() >= MAX_AGE)
            {
                old.push(first.remove());
            }
            !of_log.is_empty()
        });
        // Dropped after the lock.
        drop(held);
        self.too_old.increment(old.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use event::{Column, Id, Kind, Timestamp, Values};
    use tokio::time::advance;

    use super::*;

    fn log(lane: u8) -> LogId {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        LogId { workspace, day: "2013-06-01".parse().unwrap(), kind: Kind::Predictions, lane }
    }

    /// Creates a segment of a row, and its columns.
    fn segment(lane: u8, seq: u64) -> (Segment, Arc<Columns>) {
        let columns = vec![Column::new("predicted_at", Values::Time(vec![seq as i64]))];
        let columns = Columns { rows: 1, columns };
        let segment = Segment::pack(log(lane), seq, Timestamp::default(), Vec::new(), &columns).unwrap();
        (segment, Arc::new(columns))
    }

    fn give(segment_cache: &SegmentCache, lane: u8, seqs: impl IntoIterator<Item = u64>, erased: u64) {
        for seq in seqs {
            let (segment, columns) = segment(lane, seq);
            segment_cache.give(&segment, &columns, erased);
        }
    }

    fn taken(segment_cache: &SegmentCache, within: (u64, u64), erased: u64) -> Vec<u64> {
        segment_cache.take(&log(0), within, erased).iter().map(|handed| handed.place.seq).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn cache_returns_segments_up_to_first_missing() {
        let segment_cache = SegmentCache::of(1 << 20);
        give(&segment_cache, 0, [3, 4, 6], 0);
        give(&segment_cache, 1, [1], 0);
        assert_eq!(taken(&segment_cache, (3, 64), 0), [3, 4]);
        assert_eq!(taken(&segment_cache, (3, 3), 0), [3]);
        assert_eq!(taken(&segment_cache, (1, 64), 0), [0; 0], "the first two are to be read");
        assert_eq!(taken(&segment_cache, (7, u64::MAX), 0), [0; 0]);
        segment_cache.settle(&log(0), 4);
        assert_eq!((taken(&segment_cache, (3, 64), 0), taken(&segment_cache, (6, 64), 0)), (vec![], vec![6]));
        segment_cache.settle(&log(0), u64::MAX);
        assert!(!segment_cache.has(&log(0)) && segment_cache.has(&log(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn cache_returns_nothing_after_erasure_or_expiry() {
        let segment_cache = SegmentCache::of(1 << 20);
        give(&segment_cache, 0, [1, 2], 7);
        assert_eq!(taken(&segment_cache, (1, 64), 7), [1, 2]);
        assert_eq!(taken(&segment_cache, (1, 64), 8), [0; 0]);
        advance(MAX_AGE - Duration::from_millis(1)).await;
        give(&segment_cache, 0, [3], 7);
        assert_eq!(taken(&segment_cache, (1, 64), 7), [1, 2, 3]);
        advance(Duration::from_millis(1)).await;
        assert_eq!((taken(&segment_cache, (1, 64), 7), taken(&segment_cache, (3, 64), 7)), (vec![], vec![3]));
        let before = segment_cache.bytes();
        segment_cache.forget_old();
        assert_eq!(segment_cache.bytes(), before / 3);
    }

    #[tokio::test(start_paused = true)]
    async fn cache_bounds_bytes_including_those_still_held() {
        let one = segment(0, 1);
        let each = one.1.bytes() as u64 + COLUMN_BYTES + SEGMENT_BYTES;
        let segment_cache = SegmentCache::of(3 * each);
        give(&segment_cache, 0, 1..=5, 0);
        assert_eq!((taken(&segment_cache, (1, 64), 0), segment_cache.bytes()), (vec![1, 2, 3], 3 * each));
        let held = segment_cache.take(&log(0), (1, 1), 0);
        segment_cache.settle(&log(0), 2);
        assert_eq!(segment_cache.bytes(), 2 * each, "the first is held by who took it");
        give(&segment_cache, 0, 4..=5, 0);
        assert_eq!(taken(&segment_cache, (3, 64), 0), [3, 4]);
        drop(held);
        give(&segment_cache, 0, 5..=5, 0);
        assert_eq!(taken(&segment_cache, (3, 64), 0), [3, 4, 5]);
        // Segments that are never taken make room in the end.
        advance(MAX_AGE).await;
        give(&segment_cache, 1, 1..=3, 0);
        assert!(segment_cache.has(&log(1)) && !segment_cache.has(&log(0)));
        assert_eq!(segment_cache.bytes(), 3 * each);
    }

    #[test]
    fn switched_off_it_holds_nothing() {
        let segment_cache = SegmentCache::of(0);
        give(&segment_cache, 0, [1], 0);
        assert!(!segment_cache.is_on() && !segment_cache.has(&log(0)) && segment_cache.bytes() == 0);
        assert_eq!(taken(&segment_cache, (1, 1), 0), [0; 0]);
    }
}
