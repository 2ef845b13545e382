//! Where the rows of a row format go: into the builder of a request, or, for a file, into one chunk
//! after the other.

use std::collections::VecDeque;

use event::{Kind, RowProblem, Timestamp};

use super::raw::{Origin, Raw};
use crate::{
    batch::{Batch, Refused},
    builder::{BatchBuilder, Reading, row::Row},
    limits::{FILE_BATCH_ROWS, FILE_CHUNK_BYTES, MAX_BATCH_ROWS},
};

/// A bad row of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Its number, from 1; in NDJSON its line.
    pub number: u64,
    /// What is wrong with it: the first few of its errors.
    pub problems: Vec<RowProblem>,
    /// How it stood in the file, without the end of the line, where the format has lines.
    pub raw: Option<Vec<u8>>,
}

/// A part of a file: always the same part of the same file.
#[derive(Debug)]
pub struct Chunk {
    /// What it is known by.
    pub origin: Origin,
    /// Its good rows; `None` when there is none.
    pub batch: Option<Batch>,
    /// Its bad rows.
    pub bad: Vec<BadRow>,
    /// How many bytes of the file were read so far.
    pub bytes: u64,
}

/// The rows of a chunk as they stood in the file.
#[derive(Default)]
struct Rows {
    bytes: Vec<u8>,
    /// The number of each row and where it ends in `bytes`.
    ends: Vec<(u64, usize)>,
}

impl Rows {
    fn push(&mut self, number: u64, raw: &[u8]) {
        self.bytes.extend_from_slice(raw);
        self.ends.push((number, self.bytes.len()));
    }

    fn get(&self, number: u64) -> Option<Vec<u8>> {
        let at = self.ends.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        Some(self.bytes[start..self.ends[at].1].to_vec())
    }
}

/// The chunks of a file so far.
#[derive(Default)]
struct Chunks {
    rows: Rows,
    raw: Raw,
    done: VecDeque<Chunk>,
}

/// Collects rows.
pub(crate) struct Collector {
    kind: Kind,
    now: Timestamp,
    reading: Reading,
    pub(crate) builder: BatchBuilder,
    /// How many rows there were, good or bad, since the last chunk.
    rows: usize,
    chunks: Option<Chunks>,
}

impl Collector {
    /// A collector of the rows of one request, or, when they are imported, of a file.
    pub(crate) fn new(kind: Kind, now: Timestamp, reading: Reading) -> Self {
        let chunks = reading.import.then(Chunks::default);
        let builder = BatchBuilder::new(kind, now, reading.clone());
        Self { kind, now, reading, builder, rows: 0, chunks }
    }

    /// Takes a row that was read; `raw` is how it stood there.
    #[inline]
    pub(crate) fn row(&mut self, number: u64, row: &mut Row<'_>, raw: &[u8]) -> Result<(), Refused> {
        self.begin()?;
        self.builder.push(number, row);
        if let Some(message) = self.builder.too_many_cells(0) {
            return Err(Refused::TooLarge(message));
        }
        self.end(number, raw)
    }

    /// Takes a row that could not be read.
    pub(crate) fn unreadable(&mut self, number: u64, message: String, raw: &[u8]) -> Result<(), Refused> {
        self.begin()?;
        self.builder.refuse_row(number, message);
        self.end(number, raw)
    }

    #[inline]
    fn begin(&mut self) -> Result<(), Refused> {
        self.rows += 1;
        match self.chunks.is_none() && self.rows > MAX_BATCH_ROWS {
            true => Err(too_many_rows()),
            false => Ok(()),
        }
    }

    #[inline]
    fn end(&mut self, number: u64, raw: &[u8]) -> Result<(), Refused> {
        let Some(chunks) = &mut self.chunks else { return Ok(()) };
        chunks.rows.push(number, raw);
        chunks.raw.row(number, raw);
        if self.rows >= FILE_BATCH_ROWS || chunks.rows.bytes.len() >= FILE_CHUNK_BYTES {
            self.cut()?;
        }
        Ok(())
    }

    /// What a chunk of a file is known by so far; nothing is known of a request.
    #[inline]
    pub(crate) fn raw(&mut self) -> Option<&mut Raw> {
        self.chunks.as_mut().map(|chunks| &mut chunks.raw)
    }

    /// How many more rows go into the chunk, for a format that comes by column.
    pub(crate) fn room(&self) -> usize {
        FILE_BATCH_ROWS.saturating_sub(self.rows)
    }

    /// Counts rows that were put into the builder by columns; ends the chunk when it is full.
    pub(crate) fn added(&mut self, rows: usize) -> Result<(), Refused> {
        self.rows += rows;
        if self.chunks.is_some() && self.rows >= FILE_BATCH_ROWS {
            self.cut()?;
        }
        Ok(())
    }

    /// Ends the chunk of a file.
    pub(crate) fn cut(&mut self) -> Result<(), Refused> {
        let Some(chunks) = &mut self.chunks else { return Ok(()) };
        if self.rows == 0 && self.builder.rows() == 0 {
            return Ok(());
        }
        self.rows = 0;
        let rows = std::mem::take(&mut chunks.rows);
        let origin = chunks.raw.take();
        let full = std::mem::replace(
            &mut self.builder,
            BatchBuilder::new(self.kind, self.now, self.reading.clone()),
        );
        let sorted = full.sort()?;
        let bad = sorted.bad.into_iter();
        let bad = bad.map(|(number, problems)| BadRow { number, problems, raw: rows.get(number) }).collect();
        let origin = Origin { before: sorted.before.into_iter().collect(), ..origin };
        chunks.done.push_back(Chunk { origin, batch: sorted.good, bad, bytes: 0 });
        Ok(())
    }

    /// Whether a chunk is complete.
    pub(crate) fn has_chunk(&self) -> bool {
        self.chunks.as_ref().is_some_and(|chunks| !chunks.done.is_empty())
    }

    /// The next chunk that is complete.
    pub(crate) fn next_chunk(&mut self) -> Option<Chunk> {
        self.chunks.as_mut()?.done.pop_front()
    }

    /// The batch of a request.
    pub(crate) fn finish(self) -> Result<Batch, Refused> {
        self.builder.finish()
    }
}

/// That a request has more rows than a batch may have.
pub(crate) fn too_many_rows() -> Refused {
    Refused::TooLarge(format!("there are more than the {MAX_BATCH_ROWS} rows of a batch; send several"))
}
