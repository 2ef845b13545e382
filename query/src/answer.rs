//! An answer: the rows, what they were read from, and what they lack.

use std::{
    io::{self, Write},
    sync::Arc,
};

use event::{Error, Result, Timestamp};
use log::cut::Cut;
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

/// How many bytes of an answer are made, counted and sent at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// The rows.
    pub frame: DataFrame,
    /// What they were read from; `None`, when that were not the logs.
    pub cut: Option<Cut>,
    /// As of when they are, when a time was asked for: that, or the last closed instant.
    pub as_of: Option<Timestamp>,
    /// What the answer lacks, in sentences.
    pub warnings: Vec<String>,
    /// What figures of evaluations were taken from; `None`, of anything else.
    pub source: Option<Source>,
    /// Whether its columns were asked for by name: then a table shows those without any value too.
    pub named: bool,
    pub(crate) held: Held,
}

/// What figures were taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From what is stored of each day.
    Stored,
    /// They were computed from the events.
    Events,
}

impl Source {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Events => "events",
        }
    }
}

/// What was found for an answer.
pub(crate) struct Found {
    pub(crate) frame: DataFrame,
    /// The reading of the logs that it is of; `None` of what is stored.
    pub(crate) reading: Option<Arc<Reading>>,
    /// What it lacks that the reading does not say.
    pub(crate) warnings: Vec<String>,
}

impl Found {
    /// What is stored, and whole.
    pub(crate) fn of(frame: DataFrame) -> Self {
        Self { frame, reading: None, warnings: Vec::new() }
    }
}

/// What an answer takes of the bounds, as long as it is there.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) hold: Hold,
    pub(crate) wanted: Wanted,
    pub(crate) turn: Option<Turn>,
}

impl Answer {
    /// The same with these columns alone.
    ///
    /// # Errors
    /// When it lacks one.
    pub fn only(mut self, columns: &[&str]) -> Result<Self> {
        self.frame = self.frame.select(columns.iter().copied()).map_err(failed)?;
        Ok(self)
    }

    /// Writes the rows. Nothing else of the answer is needed then; its memory is given back as the
    /// chunks are taken.
    ///
    /// # Errors
    /// `TooLarge` and `Unavailable`, when the text takes too much of the bounds.
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

/// Takes the text of an answer, and counts it.
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

/// An answer as bytes, counted until they are given away.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) chunks: std::vec::IntoIter<Vec<u8>>,
    /// Bytes in the chunks.
    pub(crate) left: u64,
    pub(crate) hold: Hold,
}
