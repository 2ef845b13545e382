//! Latest batches of a log, as far back as is worth remembering.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use event::Timestamp;
use log::{
    batch::{BatchId, BatchPart},
    segment_item::Segment,
};

/// Number of batches of all logs together beyond which batches are forgotten that are too old to be compared with a batch without
/// a key: about 70 MB.
const MAX_ALL: usize = 1_000_000;

/// Number of batches of a log that are always remembered.
const MIN_OWN: usize = 10_000;

/// Maximum number of batches remembered: about 300 MB. Beyond it, logs are read again if needed.
const MAX_HELD: usize = 4_000_000;

/// Number of batches remembered of all logs together.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    held: Arc<AtomicUsize>,
    most: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(MAX_HELD)
    }
}

impl Budget {
    /// Creates a budget of at most `most` batches.
    pub(super) fn of(most: usize) -> Self {
        Self { held: Arc::default(), most }
    }

    /// Returns whether more are remembered than should be.
    pub(super) fn is_spent(&self) -> bool {
        self.held.load(Ordering::Relaxed) > MAX_ALL.min(self.most)
    }

    /// Returns whether no further one may be remembered.
    pub(super) fn is_full(&self) -> bool {
        self.held.load(Ordering::Relaxed) >= self.most
    }
}

/// Places of a batch. One that was stored several times, each time whole, has the places of the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// First segment with some of its rows, as far as segments are remembered.
    pub(super) since: u64,
    /// Last segment with some of its rows.
    pub(super) seq: u64,
    /// Time at which the last one was appended.
    pub(super) at: Timestamp,
    /// Number of its rows, from the first on, stored up to there; for a chunk of a file the segments hold the rows.
    pub(super) rows: usize,
    /// True if its first row is in `since`, and nothing of it stands before; not known for a chunk of a file.
    is_begun: bool,
}

/// Remembered segment.
#[derive(Debug)]
struct Noted {
    at: Timestamp,
    batches: Vec<BatchId>,
}

/// Batches of all segments from [`Recent::from`] up to the last one that was added.
#[derive(Debug)]
pub(super) struct Recent {
    /// First remembered segment.
    from: u64,
    /// Time at which the segment before it was appended, if known.
    before: Option<Timestamp>,
    ids: HashMap<BatchId, Seen>,
    /// Segments, in order.
    segments: VecDeque<Noted>,
    noted: usize,
    budget: Budget,
}

impl Drop for Recent {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.noted, Ordering::Relaxed);
    }
}

impl Recent {
    /// Creates an empty one; `next` will be the first segment to add.
    pub(super) fn new(next: u64, budget: Budget) -> Self {
        Self { from: next, before: None, ids: HashMap::new(), segments: VecDeque::new(), noted: 0, budget }
    }

    /// First remembered segment.
    pub(super) fn from(&self) -> u64 {
        self.from
    }

    /// Returns the last places of a batch.
    pub(super) fn get(&self, batch: BatchId) -> Option<Seen> {
        self.ids.get(&batch).copied()
    }

    /// Returns whether all segments appended after `limit` are remembered.
    pub(super) fn reaches(&self, limit: Timestamp) -> bool {
        self.from <= 1 || self.before.is_some_and(|before| before <= limit)
    }

    /// Adds the segment after the last one, and forgets the oldest ones when there are too many: those that were not appended
    /// after `limit`, and others if the budget is full.
    pub(super) fn note(&mut self, segment: &Segment, limit: Timestamp) {
        debug_assert_eq!(segment.seq, self.from + self.segments.len() as u64);
        for (part, indexes) in segment.parts() {
            let seen = self.ids.get(&part.batch).copied();
            let is_first = part.first == 0 && indexes.is_empty();
            self.ids.insert(part.batch, after(seen, (part, is_first), segment));
        }
        self.push(segment, VecDeque::push_back);
        while self.noted > MIN_OWN.min(self.budget.most)
            && (self.budget.is_full() || self.budget.is_spent() && self.first_is_before(limit))
        {
            self.forget_first();
        }
    }

    /// Adds the segment before the first one.
    pub(super) fn note_before(&mut self, segment: &Segment) {
        debug_assert_eq!(segment.seq + 1, self.from);
        for (part, indexes) in segment.parts() {
            let seen = self.ids.get(&part.batch).copied();
            let is_first = part.first == 0 && indexes.is_empty();
            self.ids.insert(part.batch, before(seen, (part, is_first), segment));
        }
        self.push(segment, VecDeque::push_front);
        self.from = segment.seq;
        self.before = None;
    }

    /// Records the time at which the segment before the first one was appended.
    pub(super) fn note_time_before(&mut self, segment: &Segment) {
        debug_assert_eq!(segment.seq + 1, self.from);
        self.before = Some(segment.appended_at);
    }

    fn push(&mut self, segment: &Segment, put: impl FnOnce(&mut VecDeque<Noted>, Noted)) {
        let batches: Vec<_> = segment.batches.iter().map(|part| part.batch).collect();
        self.noted += batches.len();
        self.budget.held.fetch_add(batches.len(), Ordering::Relaxed);
        put(&mut self.segments, Noted { at: segment.appended_at, batches });
    }

    fn first_is_before(&self, limit: Timestamp) -> bool {
        self.segments.front().is_some_and(|first| first.at <= limit)
    }

    fn forget_first(&mut self) {
        let Some(first) = self.segments.pop_front() else { return };
        self.noted -= first.batches.len();
        self.budget.held.fetch_sub(first.batches.len(), Ordering::Relaxed);
        for batch in first.batches {
            match self.ids.get_mut(&batch) {
                Some(seen) if seen.seq == self.from => _ = self.ids.remove(&batch),
                Some(seen) if seen.since == self.from => {
                    (seen.since, seen.is_begun) = (self.from + 1, false);
                }
                _ => {}
            }
        }
        self.from += 1;
        self.before = Some(first.at);
    }
}

/// Places of a batch with a part of it in a segment behind the known ones.
fn after(seen: Option<Seen>, (part, is_first): (&BatchPart, bool), segment: &Segment) -> Seen {
    match seen.filter(|_| !is_first) {
        Some(seen) => Seen {
            seq: segment.seq,
            at: segment.appended_at,
            rows: seen.rows.max(part.first + part.rows),
            ..seen
        },
        None => of_part(part, is_first, segment),
    }
}

/// Places of a batch with a part of it in a segment before the known ones.
fn before(seen: Option<Seen>, (part, is_first): (&BatchPart, bool), segment: &Segment) -> Seen {
    match seen {
        // The known places are of a later storing of the whole batch.
        Some(seen) if seen.is_begun => seen,
        Some(seen) => Seen {
            since: segment.seq,
            rows: seen.rows.max(part.first + part.rows),
            is_begun: is_first,
            ..seen
        },
        None => of_part(part, is_first, segment),
    }
}

fn of_part(part: &BatchPart, is_begun: bool, segment: &Segment) -> Seen {
    let (seq, at) = (segment.seq, segment.appended_at);
    Seen { since: seq, seq, at, rows: part.first + part.rows, is_begun }
}

#[cfg(test)]
mod tests {
    use event::{Columns, Day, Id, Kind};
    use log::key::LogId;

    use super::*;

    fn segment(seq: u64, batches: &[(u8, usize, usize)]) -> Segment {
        let part =
            |&(id, first, rows): &(u8, usize, usize)| BatchPart { batch: BatchId([id; 16]), first, rows };
        let day: Day = "2026-06-01".parse().unwrap();
        let log = LogId { workspace: Id::new(Timestamp::default()), day, kind: Kind::Predictions, lane: 0 };
        let parts = batches.iter().map(part).collect();
        Segment { seq, ..Segment::pack(log, seq, at(seq), parts, &Columns::default()).unwrap() }
    }

    /// Time at which a segment was appended.
    fn at(seq: u64) -> Timestamp {
        Timestamp::default().plus_seconds(seq as i64)
    }

    fn get(recent: &Recent, id: u8) -> Option<(u64, u64, usize)> {
        recent.get(BatchId([id; 16])).map(|seen| (seen.since, seen.seq, seen.rows))
    }

    #[test]
    fn split_batch_is_known_by_its_last_segment() {
        let budget = Budget::default();
        let mut recent = Recent::new(8, budget.clone());
        recent.note(&segment(8, &[(1, 0, 10), (2, 5, 5)]), at(0));
        recent.note(&segment(9, &[(1, 10, 7)]), at(0));
        assert_eq!(get(&recent, 1), Some((8, 9, 17)));
        recent.note_before(&segment(7, &[(3, 0, 1), (2, 0, 5)]));
        assert_eq!(recent.from(), 7);
        assert_eq!(get(&recent, 3), Some((7, 7, 1)));
        assert_eq!(get(&recent, 2), Some((7, 8, 10)), "the later one counts");
        assert_eq!(budget.held.load(Ordering::Relaxed), 5);
        recent.forget_first();
        assert_eq!(get(&recent, 2), Some((8, 8, 10)), "its first row is not known any more");
        recent.forget_first();
        assert_eq!(recent.from(), 9);
        assert_eq!(get(&recent, 2), None);
        assert_eq!(get(&recent, 1), Some((9, 9, 17)), "its last part is known");
        drop(recent);
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn batch_stored_twice_is_found_at_its_last() {
        let mut recent = Recent::new(5, Budget::default());
        recent.note(&segment(5, &[(1, 0, 10)]), at(0));
        recent.note(&segment(6, &[(1, 10, 5)]), at(0));
        recent.note(&segment(7, &[(1, 0, 8)]), at(0));
        assert_eq!(get(&recent, 1), Some((7, 7, 8)), "half of it the second time");
        let mut back = Recent::new(8, Budget::default());
        for (seq, part) in [(7, (1, 0, 8)), (6, (1, 10, 5)), (5, (1, 0, 10))] {
            back.note_before(&segment(seq, &[part]));
        }
        assert_eq!(get(&back, 1), Some((7, 7, 8)), "and read backwards");
    }

    #[test]
    fn recent_batches_know_how_far_back_they_reach() {
        let mut recent = Recent::new(8, Budget::of(0));
        assert!(!recent.reaches(at(7)));
        recent.note_time_before(&segment(7, &[]));
        assert!(recent.reaches(at(7)) && !recent.reaches(at(6)));
        recent.note_before(&segment(7, &[]));
        assert!(!recent.reaches(at(7)), "nothing is known of the one before");
        for seq in (1..7).rev() {
            recent.note_before(&segment(seq, &[]));
        }
        assert!(recent.reaches(at(0)));
        recent.note(&segment(8, &[(1, 0, 1)]), at(0));
        assert_eq!((recent.from(), recent.reaches(at(7))), (9, false), "nothing may be held");
        assert!(recent.reaches(at(8)));
    }
}
