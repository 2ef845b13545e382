//! Data of a day held at a time: the rows of one partition of its keys.

use std::{mem, sync::Arc};

use event::{Columns, Error, Kind, Result, lane::LogPosition};
use fold::{
    FoldError, LogSegment,
    evaluation::{self, Evaluator, Partition},
};
use log::{
    segment_item::{DATA, Segment},
    walk::{Admitted, Heads, Note},
};

use crate::{Failure, Reading, Unreadable, caught, unpacking};

/// Kinds of events that are joined.
const KINDS: [Kind; 2] = [Kind::Outcomes, Kind::Predictions];

/// Maximum number of bytes of a row; larger ones, such as those with the scores of many classes, count as several.
const BYTES_OF_ROW: usize = 128;

/// A partition of a day's predictions and outcomes, with the places of their segments.
pub(crate) struct Held {
    partition: Partition,
    /// Columns needed of predictions beside those of every evaluation.
    columns: Arc<[String]>,
    /// Maximum number of rows; it is halved above.
    at_once: usize,
    rows: usize,
    bytes: usize,
    predictions: Vec<(LogPosition, Columns)>,
    outcomes: Vec<(LogPosition, Columns)>,
}

impl Held {
    /// Reads `partition`. Of [`Partition::ALL`] it reads a partition with at most as many rows as may be held at a
    /// time; only if many rows have the same key there can be more. The positions read up to are returned in `heads`;
    /// if these are given, it reads up to them.
    pub(crate) async fn read(
        reading: &dyn Reading,
        partition: Partition,
        columns: &Arc<[String]>,
        heads: &mut Option<Heads>,
    ) -> Result<Self, Failure> {
        let at_once = if partition == Partition::ALL { reading.rows_at_once() } else { usize::MAX };
        let columns = Arc::clone(columns);
        let (predictions, outcomes) = (Vec::new(), Vec::new());
        let mut held = Self { partition, columns, at_once, rows: 0, bytes: 0, predictions, outcomes };
        let mut read = Heads::new();
        for kind in KINDS {
            let mut walk = reading.walk(kind, heads.as_ref())?;
            loop {
                let page = walk.next(reading.table(), None).await;
                let notes = walk.notes();
                read.extend(notes.iter().filter_map(|note| match note {
                    Note::Read(log, seq) => Some((log.clone(), *seq)),
                    _ => None,
                }));
                reading.note(notes);
                let Some(page) = page.map_err(|error| reading.failed(error))? else { break };
                let before = held.bytes();
                held = held.take_page(reading, page).await?;
                match held.bytes() {
                    after if after > before => reading.grow(after - before).await?,
                    after => reading.shrink(before - after),
                }
                reading.check()?;
            }
        }
        heads.get_or_insert(read);
        Ok(held)
    }

    /// Takes the rows of a page that belong to the partition.
    async fn take_page(mut self, reading: &dyn Reading, page: Vec<Admitted>) -> Result<Self, Failure> {
        let bytes: usize =
            page.iter().filter_map(|segment| segment.item.bytes(DATA).ok()).map(<[u8]>::len).sum();
        reading.unpacks(bytes);
        let taken = unpacking(bytes, move || {
            let unreadable = self.take_all(page);
            (self, unreadable)
        });
        let (held, unreadable) = taken.await?;
        for segment in unreadable {
            if !reading.leaves_out(&segment) {
                return Err(Failure::Stopped(segment));
            }
        }
        Ok(held)
    }

    /// Takes the readable segments, and returns the rest.
    fn take_all(&mut self, page: Vec<Admitted>) -> Vec<Unreadable> {
        let mut unreadable = Vec::new();
        for Admitted { log, seq, item } in page {
            let unpacked = caught(|| {
                let segment = Segment::from_item(item)?;
                let kind = segment.log.kind;
                let is_wanted = |name: &str| {
                    let by = kind == Kind::Predictions && self.columns.iter().any(|one| one == name);
                    by || evaluation::needs(kind, name)
                };
                let columns = segment.unpack(is_wanted)?;
                let columns = self.partition.take(columns).map_err(corrupt)?;
                Ok::<_, Error>((segment.place(), columns))
            });
            let taken = unpacked.and_then(|(place, columns)| {
                self.rows += columns.rows;
                let bytes = columns.bytes();
                match log.kind {
                    Kind::Predictions => self.predictions.push((place, columns)),
                    _ => self.outcomes.push((place, columns)),
                }
                self.bytes += bytes;
                let is_too_much = self.rows.max(self.bytes / BYTES_OF_ROW) > self.at_once;
                if is_too_much { caught(|| self.halve()) } else { Ok(()) }
            });
            if let Err((reason, has_panicked)) = taken {
                unreadable.push(Unreadable { log, seq, reason, has_panicked });
            }
        }
        unreadable
    }

    fn halve(&mut self) -> fold::Result<()> {
        let before = self.rows;
        self.partition = self.partition.half();
        (self.rows, self.bytes) = (0, 0);
        for (_, columns) in self.predictions.iter_mut().chain(&mut self.outcomes) {
            *columns = self.partition.take(mem::take(columns))?;
            self.rows += columns.rows;
            self.bytes += columns.bytes();
        }
        if self.rows > before / 4 * 3 {
            // A few keys have most of the rows, and those stay together.
            self.at_once = usize::MAX;
        }
        Ok(())
    }

    pub(crate) fn partition(&self) -> Partition {
        self.partition
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the approximate number of bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Adds its rows to `evaluator`.
    pub(crate) fn judge(self, mut evaluator: Evaluator) -> fold::Result<Evaluator> {
        evaluator.add(&in_log(&self.predictions), &in_log(&self.outcomes))?;
        Ok(evaluator)
    }
}

pub(crate) fn corrupt(error: FoldError) -> Error {
    Error::corrupt(error.to_string())
}

fn in_log(segments: &[(LogPosition, Columns)]) -> Vec<LogSegment<'_>> {
    segments.iter().map(|(place, columns)| LogSegment { place: *place, columns }).collect()
}
