//! An answer: the rows, their read version, and warnings of missing data.

use std::{
    io::{self, Write},
    sync::Arc,
};

use event::{Error, Result, Timestamp};
use log::read_version::ReadVersion;
use polars::prelude::DataFrame;
use tokio::runtime::Handle;

use crate::{
    budget::{Full, Hold, Turn, Wanted},
    explain::Step,
    frame::failed,
    output::Format,
    read::Reading,
    work,
};

/// Size in bytes of the pieces in which an answer is made, counted and sent.
const CHUNK_BYTES: usize = 256 * 1024;

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// The rows.
    pub frame: DataFrame,
    /// The read version that the rows were read from; `None` if they were not read from logs.
    pub read_version: Option<ReadVersion>,
    /// The instant that the rows are as of, if a time was requested: that time or the last closed instant, whichever is earlier.
    pub as_of: Option<Timestamp>,
    /// Warnings of data missing from the answer, one sentence each.
    pub warnings: Vec<String>,
    /// The source of metrics of evaluations; `None` for anything else.
    pub source: Option<Source>,
    /// True if columns were requested by name: a table then shows those without any value too.
    pub named: bool,
    pub(crate) held: Held,
}

/// The source of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Read from the stored evaluation of each day.
    Stored,
    /// Computed from the events.
    Events,
}

impl Source {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Events => "events",
        }
    }
}

/// The rows found for an answer.
pub(crate) struct Found {
    pub(crate) frame: DataFrame,
    /// The reading of the logs that the rows come from; `None` for stored data.
    pub(crate) reading: Option<Arc<Reading>>,
    /// Warnings that the reading does not have.
    pub(crate) warnings: Vec<String>,
}

impl Found {
    /// Builds complete stored data, without warnings.
    pub(crate) fn of(frame: DataFrame) -> Self {
        Self { frame, reading: None, warnings: Vec::new() }
    }
}

/// The share of the bounds that an answer holds while it exists.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) hold: Hold,
    pub(crate) wanted: Wanted,
    pub(crate) turn: Option<Turn>,
}

impl Answer {
    /// Keeps only these columns.
    ///
    /// # Errors
    /// An error if the answer lacks one of them.
    pub fn only(mut self, columns: &[&str]) -> Result<Self> {
        self.frame = self.frame.select(columns.iter().copied()).map_err(failed)?;
        Ok(self)
    }

    /// Writes the rows and consumes the answer. Its memory is given back as the chunks are taken.
    ///
    /// # Errors
    /// `TooLarge` and `Unavailable`, if the text takes too much of the bounds.
    pub(crate) async fn write(self, format: Format) -> Result<Written> {
        let Answer { mut frame, named, held, .. } = self;
        let Held { hold, wanted, turn } = held;
        let of_frame = frame.estimated_size() as u64;
        let mut sink =
            Sink { hold, chunks: Vec::new(), last: Vec::new(), full: None, runtime: Handle::current() };
        let writing = work::run(move || {
            let _timed = sink.hold.step(Step::Write);
            let written = format.write_named(&mut frame, named, &mut sink).and_then(|()| {
                sink.cut_chunk().map_err(|error| Error::unavailable("the answer is not made").because(error))
            });
            (written, sink)
        });
        let (written, sink) = writing
            .await
            .map_err(|error| Error::unavailable("writing the answer was interrupted").because(error))?;
        if let Some(full) = sink.full {
            return Err(sink.hold.refusal(full));
        }
        written?;
        sink.hold.shrink(of_frame);
        sink.hold.made();
        drop((wanted, turn));
        let left = sink.chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Ok(Written { chunks: sink.chunks.into_iter(), left, hold: sink.hold })
    }
}

/// Collects the text of an answer in chunks and counts its bytes.
struct Sink {
    hold: Hold,
    chunks: Vec<Vec<u8>>,
    last: Vec<u8>,
    full: Option<Full>,
    runtime: Handle,
}

impl Sink {
    fn cut_chunk(&mut self) -> io::Result<()> {
        if self.hold.is_cancelled() {
            return Err(io::Error::other("the query was broken off"));
        }
        let chunk = std::mem::take(&mut self.last);
        if let Err(full) = self.runtime.block_on(self.hold.grow(chunk.len() as u64)) {
            self.full = Some(full);
            return Err(io::Error::other("the answer takes too much"));
        }
        if !chunk.is_empty() {
            self.chunks.push(chunk);
        }
        Ok(())
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.last.len() >= CHUNK_BYTES {
            self.cut_chunk()?;
        }
        let taken = bytes.len().min(CHUNK_BYTES - self.last.len());
        if self.last.is_empty() {
            self.last.reserve_exact(CHUNK_BYTES.min(taken.max(1024)));
        }
        self.last.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An answer as bytes, counted until the chunks are taken.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) chunks: std::vec::IntoIter<Vec<u8>>,
    /// Bytes in the chunks.
    pub(crate) left: u64,
    pub(crate) hold: Hold,
}
