//! Temporary files of a large day: its rows by partitions of their keys, and its scores.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    mem,
    path::{Path, PathBuf},
};

use event::{Columns, Error, Kind, Result, lane::LogPosition};
use fold::{
    evaluation::{Evaluator, LEVELS, PARTITIONS, partitions},
    runs::Runs,
};

use crate::{corrupt, rows::Rows};

/// Maximum number of rows that are copied into partitions at a time.
const ROWS_COPIED: usize = 256 * 1024;

/// Rows of some keys, in the file.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    level: u32,
    chunks: Vec<Chunk>,
    weight: usize,
    /// Approximate number of bytes of its rows in memory.
    bytes: u64,
    /// True if a few keys have most of its rows: these stay together.
    is_whole: bool,
}

/// Rows of one kind that were written together.
#[derive(Debug)]
struct Chunk {
    kind: Kind,
    /// Position of the first segment that had such rows.
    position: LogPosition,
    at: u64,
    bytes: usize,
}

impl Partition {
    /// Returns the approximate number of bytes of its rows in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The file of the rows, with the partitions that were not taken yet.
#[derive(Debug)]
pub(crate) struct Spill {
    folder: PathBuf,
    file: File,
    end: u64,
    /// In order of the places of their keys.
    partitions: VecDeque<Partition>,
}

impl Spill {
    /// Creates a file in `folder` that disappears with the process.
    ///
    /// # Errors
    /// `Unavailable` if it cannot be created.
    pub(crate) fn create(folder: PathBuf) -> Result<Self> {
        let file = temporary(&folder)?;
        let partitions = (0..PARTITIONS).map(|_| Partition::default()).collect();
        Ok(Self { folder, file, end: 0, partitions })
    }

    /// Writes rows, which follow those before in the log.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be written; `Corrupt` if the events have no keys.
    pub(crate) fn add(&mut self, rows: Rows) -> Result<()> {
        let mut into = mem::take(&mut self.partitions);
        let added = self.distribute(rows, into.make_contiguous(), 0);
        self.partitions = into;
        added
    }

    /// Takes the next partition, in order of the places of keys, whose rows are not more than `at_once`, or are those of a few
    /// keys. `None` after the last.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be read or written.
    pub(crate) fn next(&mut self, at_once: usize) -> Result<Option<Partition>> {
        while let Some(partition) = self.partitions.pop_front() {
            let is_whole = partition.is_whole || partition.level + 1 >= LEVELS;
            if partition.weight > at_once && !is_whole {
                self.divide(partition, at_once)?;
            } else if !partition.chunks.is_empty() {
                return Ok(Some(partition));
            }
        }
        Ok(None)
    }

    /// Reads the rows of a partition.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be read.
    pub(crate) fn rows(&mut self, partition: &Partition) -> Result<Rows> {
        let mut rows = Rows::default();
        for chunk in &partition.chunks {
            rows.push(chunk.kind, chunk.position, self.read(chunk)?);
        }
        Ok(rows)
    }

    /// Divides a partition into those of the next level, while about `at_once` rows are held.
    fn divide(&mut self, partition: Partition, at_once: usize) -> Result<()> {
        let level = partition.level + 1;
        let mut into: Vec<_> = (0..PARTITIONS).map(|_| Partition { level, ..Partition::default() }).collect();
        let mut rows = Rows::default();
        for chunk in &partition.chunks {
            rows.push(chunk.kind, chunk.position, self.read(chunk)?);
            if rows.weight() > ROWS_COPIED.min(at_once) {
                self.distribute(mem::take(&mut rows), &mut into, level)?;
            }
        }
        self.distribute(rows, &mut into, level)?;
        let is_most = |part: &Partition| part.weight > partition.weight / 4 * 3;
        into.iter_mut().for_each(|part| part.is_whole = is_most(part));
        into.into_iter().rev().for_each(|part| self.partitions.push_front(part));
        Ok(())
    }

    fn distribute(&mut self, rows: Rows, into: &mut [Partition], level: u32) -> Result<()> {
        for (kind, segments) in rows.by_kind() {
            let mut segments = segments.into_iter().peekable();
            while let Some(&(position, _)) = segments.peek() {
                let mut copied = 0;
                let mut next = || {
                    let (_, columns) = segments.next_if(|_| copied < ROWS_COPIED)?;
                    copied += columns.rows;
                    Some(columns)
                };
                let parts: Vec<Columns> = std::iter::from_fn(&mut next).collect();
                let columns = Columns::concat(&parts.iter().collect::<Vec<_>>());
                drop(parts);
                let rows = partitions(&columns, level).map_err(corrupt)?;
                for (partition, rows) in into.iter_mut().zip(rows).filter(|(_, rows)| !rows.is_empty()) {
                    let columns = columns.take(&rows);
                    partition.weight += Rows::weight_of(&columns);
                    partition.bytes += columns.bytes() as u64;
                    partition.chunks.push(self.write(kind, position, &columns)?);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, kind: Kind, position: LogPosition, columns: &Columns) -> Result<Chunk> {
        let packed = segment::encode(columns)?;
        let at = self.end;
        let written = self.file.seek(SeekFrom::Start(at)).and_then(|_| self.file.write_all(&packed));
        written.map_err(|error| failed(&self.folder, error))?;
        self.end += packed.len() as u64;
        Ok(Chunk { kind, position, at, bytes: packed.len() })
    }

    fn read(&mut self, chunk: &Chunk) -> Result<Columns> {
        let mut packed = vec![0; chunk.bytes];
        let read = self.file.seek(SeekFrom::Start(chunk.at)).and_then(|_| self.file.read_exact(&mut packed));
        read.map_err(|error| failed(&self.folder, error))?;
        segment::decode(&packed)
    }
}

/// Number of bytes of scores and errors that are held in memory.
pub(crate) const SCORE_BYTES: usize = 64 * 1024 * 1024;

/// The file of the scores or errors, once there is one: metrics of their order need all of them.
#[derive(Debug, Default)]
pub(crate) struct ScoreFile(Option<(PathBuf, Runs)>);

impl ScoreFile {
    /// Moves the scores of an evaluator to the file in `folder`.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be written.
    pub(crate) fn add(&mut self, folder: PathBuf, evaluator: &mut Evaluator) -> Result<()> {
        if self.0.is_none() {
            let file = temporary(&folder)?;
            self.0 = Some((folder, Runs::new(Box::new(file))));
        }
        let Some((folder, runs)) = &mut self.0 else { return Ok(()) };
        evaluator.spill(runs).map_err(|error| failed(folder, error))
    }

    /// Computes the metrics of the scores in the file.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be read.
    pub(crate) fn settle(&mut self, evaluator: &mut Evaluator) -> Result<()> {
        let Some((folder, runs)) = &mut self.0 else { return Ok(()) };
        evaluator.settle(runs).map_err(|error| failed(folder, error))
    }
}

/// Creates a file in `folder` that disappears with the process.
fn temporary(folder: &Path) -> Result<File> {
    tempfile::tempfile_in(folder).map_err(|error| failed(folder, error))
}

fn failed(folder: &Path, error: io::Error) -> Error {
    let folder = folder.display();
    Error::unavailable(format!(
        "the events of a large day cannot be kept in a temporary file in {folder}: {error}"
    ))
    .because(error)
}
