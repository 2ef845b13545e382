//! The latest batches of a log, as far back as is worth remembering.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use store::{
    batch::{BatchId, BatchPart},
    log::Segment,
};

/// The most batches that are remembered of all logs together: about 60 MB.
const MAX_ALL: usize = 1_000_000;

/// So many batches of a log are remembered in any case.
const MIN_OWN: usize = 10_000;

/// How many batches are remembered of all logs together.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// Whether more are remembered than should be.
    pub(super) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) > MAX_ALL
    }
}

/// Where a batch was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The last segment that holds some of it.
    pub(super) seq: u64,
    /// How many of its rows, from the first on, are stored up to there.
    pub(super) rows: usize,
}

/// The batches of all segments from [`Recent::from`] up to the last one that was noted.
#[derive(Debug)]
pub(super) struct Recent {
    /// The first segment that is remembered.
    from: u64,
    ids: HashMap<BatchId, Seen>,
    /// The batches of each segment, in order.
    segments: VecDeque<Vec<BatchId>>,
    noted: usize,
    budget: Budget,
}

impl Drop for Recent {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.noted, Ordering::Relaxed);
    }
}

impl Recent {
    /// Nothing yet; `next` will be the first segment to note.
    pub(super) fn new(next: u64, budget: Budget) -> Self {
        Self { from: next, ids: HashMap::new(), segments: VecDeque::new(), noted: 0, budget }
    }

    /// The first segment that is remembered.
    pub(super) fn from(&self) -> u64 {
        self.from
    }

    /// Where a batch was seen last.
    pub(super) fn get(&self, batch: BatchId) -> Option<Seen> {
        self.ids.get(&batch).copied()
    }

    /// Notes the segment after the last one, and forgets the oldest ones when there are too many.
    pub(super) fn note(&mut self, segment: &Segment) {
        debug_assert_eq!(segment.seq, self.from + self.segments.len() as u64);
        for part in &segment.batches {
            self.ids
                .entry(part.batch)
                .and_modify(|seen| *seen = later(*seen, part, segment.seq))
                .or_insert(Seen { seq: segment.seq, rows: part.first + part.rows });
        }
        self.count(segment.batches.len());
        self.segments.push_back(segment.batches.iter().map(|part| part.batch).collect());
        while self.noted > MIN_OWN && self.budget.is_spent() {
            self.forget_first();
        }
    }

    /// Notes the segment before the first one.
    pub(super) fn note_before(&mut self, segment: &Segment) {
        debug_assert_eq!(segment.seq + 1, self.from);
        for part in &segment.batches {
            let rows = part.first + part.rows;
            self.ids
                .entry(part.batch)
                .and_modify(|seen| seen.rows = seen.rows.max(rows))
                .or_insert(Seen { seq: segment.seq, rows });
        }
        self.count(segment.batches.len());
        self.segments.push_front(segment.batches.iter().map(|part| part.batch).collect());
        self.from = segment.seq;
    }

    fn count(&mut self, more: usize) {
        self.noted += more;
        self.budget.0.fetch_add(more, Ordering::Relaxed);
    }

    fn forget_first(&mut self) {
        let Some(batches) = self.segments.pop_front() else { return };
        self.noted -= batches.len();
        self.budget.0.fetch_sub(batches.len(), Ordering::Relaxed);
        for batch in batches {
            if self.ids.get(&batch).is_some_and(|seen| seen.seq == self.from) {
                self.ids.remove(&batch);
            }
        }
        self.from += 1;
    }
}

fn later(seen: Seen, part: &BatchPart, seq: u64) -> Seen {
    Seen { seq, rows: seen.rows.max(part.first + part.rows) }
}

#[cfg(test)]
mod tests {
    use store::{Day, Id, Kind, Timestamp, key::LogId};

    use super::*;

    fn segment(seq: u64, batches: &[(u8, usize, usize)]) -> Segment {
        let part =
            |&(id, first, rows): &(u8, usize, usize)| BatchPart { batch: BatchId([id; 16]), first, rows };
        let day: Day = "2026-06-01".parse().unwrap();
        let workspace = Id::new(Timestamp::default());
        Segment {
            log: LogId { workspace, day, kind: Kind::Predictions, lane: 0 },
            seq,
            placed: Default::default(),
            lanes: None,
            rows: 1,
            appended_at: Timestamp::default(),
            times: (0, 0),
            batches: batches.iter().map(part).collect(),
            releases: Default::default(),
            data: Vec::new(),
        }
    }

    #[test]
    fn a_batch_in_parts_is_known_by_its_last_segment_and_all_its_rows() {
        let budget = Budget::default();
        let mut recent = Recent::new(8, budget.clone());
        recent.note(&segment(8, &[(1, 0, 10), (2, 0, 5)]));
        recent.note(&segment(9, &[(1, 10, 7)]));
        assert_eq!(recent.get(BatchId([1; 16])), Some(Seen { seq: 9, rows: 17 }));
        recent.note_before(&segment(7, &[(3, 0, 1), (2, 0, 2)]));
        assert_eq!(recent.from(), 7);
        assert_eq!(recent.get(BatchId([3; 16])), Some(Seen { seq: 7, rows: 1 }));
        assert_eq!(recent.get(BatchId([2; 16])), Some(Seen { seq: 8, rows: 5 }), "the later one counts");
        assert_eq!(budget.0.load(Ordering::Relaxed), 5);
        recent.forget_first();
        recent.forget_first();
        assert_eq!(recent.from(), 9);
        assert_eq!(recent.get(BatchId([2; 16])), None);
        assert_eq!(recent.get(BatchId([1; 16])), Some(Seen { seq: 9, rows: 17 }), "its last part is known");
        drop(recent);
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    }
}
