//! Files read by column: Parquet by slices of rows, Arrow by its own batches.

use std::{
    fs::File,
    io::{BufReader, Read, Seek},
};

use polars_arrow::record_batch::RecordBatch;
use polars_io::SerReader;

use super::footer::streamed;
use crate::{
    batch::Refused,
    builder::names::Names,
    format::{
        Collector, caught,
        coded::Batches,
        collect::{Places, places},
        fill_frame, frame,
        ipc::of_file,
        parquet::{self, NotedTypes},
    },
    limits::FILE_BATCH_ROWS,
};

pub(super) fn unreadable(error: impl std::fmt::Display) -> Refused {
    Refused::Whole(format!("it cannot be read: {error}"))
}

/// A Parquet file.
pub(super) struct ParquetFile {
    file: File,
    names: Names,
    types: NotedTypes,
    size: u64,
    rows: usize,
    next: usize,
}

impl ParquetFile {
    pub(super) fn open(file: File, names: Names) -> Result<Self, Refused> {
        let size = file.metadata().map_err(unreadable)?.len();
        let copy = file.try_clone().map_err(unreadable)?;
        let (rows, types) = caught("a Parquet file", || {
            let (mut reader, types) = parquet::open(copy, |name| !names.is_ignored(name))?;
            Ok((reader.num_rows().map_err(unreadable)?, types))
        })?;
        Ok(Self { file, names, types, size, rows, next: 0 })
    }

    /// Reads the next slice; returns whether there is another one.
    pub(super) fn step(&mut self, out: &mut Collector) -> Result<bool, Refused> {
        let slice = (self.next, FILE_BATCH_ROWS);
        let file = self.file.try_clone().map_err(unreadable)?;
        let read = || {
            let (reader, _) = parquet::open(file, |name| !self.names.is_ignored(name))?;
            reader.with_slice(Some(slice)).finish().map_err(unreadable)
        };
        let part = caught("a Parquet file", read)?;
        fill_frame(&self.names, &self.types, &part, self.next as u64 + 1, out)?;
        out.added(part.height())?;
        self.next += part.height();
        Ok(part.height() > 0 && self.next < self.rows)
    }

    /// Approximate number of bytes read.
    pub(super) fn bytes(&self) -> u64 {
        match self.next >= self.rows {
            true => self.size,
            false => (self.size as f64 * self.next as f64 / self.rows as f64) as u64,
        }
    }
}

/// Runs a decoder of an Arrow file.
fn of_arrow<T>(decode: impl FnOnce() -> Result<T, Refused>) -> Result<T, Refused> {
    caught("an Arrow file", decode).map_err(of_file)
}

/// Arrow file: a stream, or with a footer.
pub(super) struct ArrowFile {
    batches: Batches<Box<dyn Read + Send>>,
    places: Places,
    /// Present batch, and the number of its rows taken.
    batch: Option<(RecordBatch, usize)>,
    /// Number of rows taken in all.
    rows: u64,
    size: u64,
    position: File,
    is_done: bool,
}

impl ArrowFile {
    pub(super) fn open(file: File, names: &Names) -> Result<Self, Refused> {
        let position = file.try_clone().map_err(unreadable)?;
        let size = file.metadata().map_err(unreadable)?.len();
        let batches = of_arrow(|| Batches::begin(streamed(BufReader::new(file))?))?;
        let places = places(names, batches.names.iter().map(String::as_str))?;
        Ok(Self { batches, places, batch: None, rows: 0, size, position, is_done: false })
    }

    /// Takes rows until the chunk is full or the batch ends; returns whether there may be more.
    pub(super) fn step(&mut self, out: &mut Collector) -> Result<bool, Refused> {
        let (batch, taken) = match self.batch.take() {
            Some(part) => part,
            None => match of_arrow(|| self.batches.next().transpose())? {
                Some(batch) => (batch, 0),
                None => {
                    self.is_done = true;
                    return Ok(false);
                }
            },
        };
        let rows = out.room().min(batch.len() - taken);
        let from = out.builder.rows();
        out.builder.add_rows(self.rows + 1, rows);
        for (place, array) in self.places.iter().zip(batch.arrays()) {
            let piece = frame::readable(array.sliced(taken, rows));
            frame::fill(&mut out.builder, place, from, piece.as_ref())?;
            out.column(self.rows + 1, place, piece.as_ref());
        }
        self.rows += rows as u64;
        if taken + rows < batch.len() {
            self.batch = Some((batch, taken + rows));
        }
        out.added(rows)?;
        Ok(true)
    }

    /// Approximate number of bytes read.
    pub(super) fn bytes(&mut self) -> u64 {
        match self.is_done {
            true => self.size,
            false => self.position.stream_position().map_or(0, |at| at.min(self.size)),
        }
    }
}
