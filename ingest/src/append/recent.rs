//! The latest batches of a log, as far back as is worth remembering.

use std::collections::{HashMap, VecDeque};

use store::{
    batch::{BatchId, BatchPart},
    log::Segment,
};

/// The most batches that are remembered of a log: about 20 MB.
const MAX_IDS: usize = 250_000;

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
}

impl Recent {
    /// Nothing yet; `next` will be the first segment to note.
    pub(super) fn new(next: u64) -> Self {
        Self { from: next, ids: HashMap::new(), segments: VecDeque::new(), noted: 0 }
    }

    /// The first segment that is remembered.
    pub(super) fn from(&self) -> u64 {
        self.from
    }

    /// Where a batch was seen last.
    pub(super) fn get(&self, batch: BatchId) -> Option<Seen> {
        self.ids.get(&batch).copied()
    }

    /// How many batches are remembered.
    pub(super) fn len(&self) -> usize {
        self.noted
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
        self.noted += segment.batches.len();
        self.segments.push_back(segment.batches.iter().map(|part| part.batch).collect());
        while self.noted > MAX_IDS && self.segments.len() > 1 {
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
        self.noted += segment.batches.len();
        self.segments.push_front(segment.batches.iter().map(|part| part.batch).collect());
        self.from = segment.seq;
    }

    fn forget_first(&mut self) {
        let Some(batches) = self.segments.pop_front() else { return };
        self.noted -= batches.len();
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
