//! Packing of parts of batches into segments: small ones share a segment, a large one fills its own.

use std::sync::{Arc, Mutex, PoisonError};

use event::{Columns, Result, Timestamp};
use log::{
    audit::{Author, current},
    authors::Authors,
    batch::{BatchId, BatchPart},
    key::LogId,
    segment_item::{MAX_SEGMENT_BYTES, MAX_SEGMENT_ROWS, Segment},
};
use table::item::MAX_ITEM_BYTES;

use super::{off_thread, place::Dealt};
use crate::batch::Part;

/// Parts of up to so many rows share a segment with others.
pub(super) const GROUPED_ROWS: usize = 2_000;

/// Most bytes of memory that a byte of a segment is taken to stand for: so many bytes of events are packed at first, and
/// fewer when they do not fit.
const MAX_PACKED: usize = 8;

/// Size of a batch above which the columns of its segments are not kept beside it.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// Part of a log that may have a batch already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Behind this segment: so says its record.
    Behind(u64),
    /// Anywhere, but only what was appended lately is the same batch: it has no key.
    Lately,
    /// Nowhere before its first try.
    Nowhere,
}

/// Rows that one batch appends to one log.
pub(super) struct Entry {
    /// The batch.
    pub(super) batch: BatchId,
    /// Its rows.
    pub(super) columns: Arc<Columns>,
    /// Part of the log that may have it already.
    pub(super) look: Look,
    /// Index of each row in its chunk of a file, ascending; `None` for other batches.
    pub(super) indexes: Option<Vec<u32>>,
    /// Author of the append.
    author: Arc<Author>,
    /// Time at which its events were known, if that is stated.
    known_at: Option<Timestamp>,
    /// True if it belongs into this log only if the log begins with it: see [`Dealt::is_assumed`].
    pub(super) is_assumed: bool,
    /// Its segments, made before it was its turn. They have no number yet.
    ready: Mutex<Vec<Packed>>,
}

impl Entry {
    /// The rows of a batch, as they were dealt to this log, and without the numbers that they had in it. Its author is
    /// that of this task.
    pub(super) fn new(batch: BatchId, dealt: Dealt, look: Look) -> (Self, Vec<u64>) {
        let Dealt { part: Part { columns, numbers }, is_assumed, .. } = dealt;
        let (author, ready, columns) = (current(), Mutex::default(), Arc::new(columns));
        let known_at = author.known_at();
        (Self { batch, columns, look, indexes: None, author, known_at, is_assumed, ready }, numbers)
    }

    /// Makes it one of a chunk of a file, with the index of each row in it.
    pub(super) fn of_chunk(self, indexes: Vec<u32>) -> Self {
        Self { indexes: Some(indexes), ..self }
    }

    /// Returns an entry with these rows alone.
    pub(super) fn only(&self, rows: &[usize]) -> Self {
        let indexes = self.indexes.as_ref();
        Self {
            batch: self.batch,
            columns: Arc::new(self.columns.take(rows)),
            look: self.look,
            indexes: indexes.map(|indexes| rows.iter().map(|row| indexes[*row]).collect()),
            author: Arc::clone(&self.author),
            known_at: self.known_at,
            is_assumed: self.is_assumed,
            ready: Mutex::default(),
        }
    }

    /// Describes some of its rows as a part of a segment.
    fn part(&self, first: usize, rows: usize) -> Listed {
        let indexes = self.indexes.as_ref().map_or(&[][..], |indexes| &indexes[first..first + rows]);
        let first = indexes.first().map_or(first, |index| *index as usize);
        let part = BatchPart { batch: self.batch, first, rows };
        Listed { part, indexes: indexes.to_vec(), author: Arc::clone(&self.author) }
    }

    /// Packs the segments of a large entry in advance, so that several are made side by side.
    pub(super) async fn packed(self, log: &LogId) -> Result<Self> {
        if self.columns.rows <= GROUPED_ROWS {
            return Ok(self);
        }
        let log = log.clone();
        off_thread(self.columns.rows, move || {
            let ready = pack_alone(&log, &self, 0)?;
            Ok(Self { ready: Mutex::new(ready), ..self })
        })
        .await?
    }

    fn take_ready(&self) -> Vec<Packed> {
        std::mem::take(&mut *self.ready.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A segment with the columns that it packs.
pub(super) struct Packed {
    /// The segment.
    pub(super) segment: Segment,
    /// Its columns, to be handed over; `None` of a part of a very large batch, whose columns would be held twice.
    pub(super) columns: Option<Arc<Columns>>,
}

/// Part of a segment, as the segment lists it.
struct Listed {
    part: BatchPart,
    /// The indexes of its rows in a chunk of a file, if it is one.
    indexes: Vec<u32>,
    author: Arc<Author>,
}

/// The segments of several entries, each from a row of its own on. Their numbers and times are still
/// to be set.
pub(super) async fn pack(log: &LogId, entries: Vec<(Arc<Entry>, usize)>) -> Result<Vec<Packed>> {
    let rows = entries.iter().map(|(entry, first)| entry.columns.rows - first).sum();
    let log = log.clone();
    off_thread(rows, move || pack_entries(&log, &entries)).await?
}

fn pack_entries(log: &LogId, entries: &[(Arc<Entry>, usize)]) -> Result<Vec<Packed>> {
    let mut segments = Vec::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (entry, first) in entries {
        let rows = entry.columns.rows;
        if rows > GROUPED_ROWS || *first > 0 {
            let ready = if *first == 0 { entry.take_ready() } else { Vec::new() };
            segments.extend(if ready.is_empty() { pack_alone(log, entry, *first)? } else { ready });
            continue;
        }
        // A column that only some of the entries have would hold as many nulls as all other entries have rows.
        let fits = |group: &&mut Group<'_>| {
            let first = group.entries[0];
            group.rows + rows <= MAX_SEGMENT_ROWS
                && first.known_at == entry.known_at
                && have_equal_columns(first, entry)
        };
        match groups.iter_mut().rev().find(fits) {
            Some(group) => {
                group.entries.push(entry);
                group.rows += rows;
            }
            None => groups.push(Group { entries: vec![entry], rows }),
        }
    }
    for group in groups {
        pack_group(log, &group.entries, &mut segments)?;
    }
    Ok(segments)
}

/// Small entries of equal columns, which share a segment.
struct Group<'a> {
    entries: Vec<&'a Entry>,
    rows: usize,
}

fn have_equal_columns(one: &Entry, other: &Entry) -> bool {
    let names = one.columns.columns.iter().map(|column| &column.name);
    names.eq(other.columns.columns.iter().map(|column| &column.name))
}

/// The segments of small entries: one, unless it would be too large.
fn pack_group(log: &LogId, entries: &[&Entry], segments: &mut Vec<Packed>) -> Result<()> {
    match entries {
        [] => {}
        [alone] => segments.extend(pack_alone(log, alone, 0)?),
        several => {
            let columns: Vec<&Columns> = several.iter().map(|entry| &*entry.columns).collect();
            let parts = several.iter().map(|entry| entry.part(0, entry.columns.rows));
            let columns = Arc::new(Columns::concat(&columns));
            let packed = packed(log, parts.collect(), columns, entries[0].known_at)?;
            if fits(&packed.segment) {
                segments.push(packed);
            } else {
                let (left, right) = several.split_at(several.len() / 2);
                pack_group(log, left, segments)?;
                pack_group(log, right, segments)?;
            }
        }
    }
    Ok(())
}

/// The segments of the rows of one entry from `first` on.
fn pack_alone(log: &LogId, entry: &Entry, mut first: usize) -> Result<Vec<Packed>> {
    let mut segments = Vec::new();
    let mut most = MAX_SEGMENT_ROWS.min(likely_rows(&entry.columns));
    let is_kept = entry.columns.bytes() <= MAX_KEPT_BYTES;
    while first < entry.columns.rows {
        let rows = (entry.columns.rows - first).min(most);
        let parts = vec![entry.part(first, rows)];
        let columns = if rows == entry.columns.rows {
            Arc::clone(&entry.columns)
        } else {
            let rows: Vec<usize> = (first..first + rows).collect();
            Arc::new(entry.columns.take(&rows))
        };
        let mut packed = packed(log, parts, columns, entry.known_at)?;
        packed.columns.take_if(|_| !is_kept);
        if fits(&packed.segment) || rows == 1 {
            segments.push(packed);
            first += rows;
        } else {
            let bytes = packed.segment.data.len().max(1);
            let share = rows as f64 * MAX_SEGMENT_BYTES as f64 / bytes as f64;
            most = (share as usize).clamp(1, rows / 2);
        }
    }
    Ok(segments)
}

/// About how many rows a segment may have at most. Rows of many numbers are not packed again and again, to be cut in
/// half each time.
fn likely_rows(columns: &Columns) -> usize {
    let bytes = columns.bytes().max(1) as f64 / columns.rows.max(1) as f64;
    (((MAX_PACKED * MAX_SEGMENT_BYTES) as f64 / bytes) as usize).max(1)
}

fn packed(
    log: &LogId,
    directory: Vec<Listed>,
    columns: Arc<Columns>,
    known_at: Option<Timestamp>,
) -> Result<Packed> {
    let authors: Vec<_> = directory.iter().map(|entry| Arc::clone(&entry.author)).collect();
    let (parts, mut indexes): (Vec<_>, Vec<_>) =
        directory.into_iter().map(|entry| (entry.part, entry.indexes)).unzip();
    if indexes.iter().all(Vec::is_empty) {
        indexes.clear();
    }
    let segment = Segment::pack(log.clone(), 0, Timestamp::default(), parts, &columns)?;
    // A projector folds the same from a segment handed over as from one read.
    debug_assert_eq!(segment.unpack(|_| true).ok().as_ref(), Some(&*columns), "{log}");
    let segment = Segment { known_at, indexes, authors: Authors::of(&authors), ..segment };
    Ok(Packed { segment, columns: Some(columns) })
}

fn fits(segment: &Segment) -> bool {
    segment.data.len() <= MAX_SEGMENT_BYTES && segment.item_bytes() <= MAX_ITEM_BYTES
}
