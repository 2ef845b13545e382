//! Temporary file of the rows of a large day, by partitions of their keys.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    mem,
    path::{Path, PathBuf},
};

use event::{Columns, Error, Kind, Result, lane::LogPosition};
use fold::evaluation::{LEVELS, PARTITIONS, partitions};

use crate::{corrupt, rows::Rows};

/// Maximum number of rows that are copied into partitions at a time.
const ROWS_COPIED: usize = 256 * 1024;

/// Rows of some keys, in the file.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    level: u32,
    chunks: Vec<Chunk>,
    weight: usize,
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

/// The file, with the partitions that were not taken yet.
#[derive(Debug)]
pub(crate) struct Spill {
    folder: PathBuf,
    file: File,
    end: u64,
    partitions: Vec<Partition>,
}

impl Spill {
    /// Creates a file in `folder` that disappears with the process.
    ///
    /// # Errors
    /// `Unavailable` if it cannot be created.
    pub(crate) fn create(folder: PathBuf) -> Result<Self> {
        let file = tempfile::tempfile_in(&folder).map_err(|error| failed(&folder, error))?;
        let partitions = (0..PARTITIONS).map(|_| Partition::default()).collect();
        Ok(Self { folder, file, end: 0, partitions })
    }

    /// Writes rows, which follow those before in the log.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be written; `Corrupt` if the events have no keys.
    pub(crate) fn add(&mut self, rows: Rows) -> Result<()> {
        let mut into = mem::take(&mut self.partitions);
        let added = self.distribute(rows, &mut into, 0);
        self.partitions = into;
        added
    }

    /// Reads the next partition whose rows may be held at a time, if they are not more than `at_once`, or if a few keys
    /// have them. `None` after the last.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be read or written.
    pub(crate) fn next(&mut self, at_once: usize) -> Result<Option<Rows>> {
        while let Some(partition) = self.partitions.pop() {
            let is_whole = partition.is_whole || partition.level + 1 >= LEVELS;
            if partition.weight > at_once && !is_whole {
                self.divide(partition)?;
            } else if !partition.chunks.is_empty() {
                let mut rows = Rows::default();
                for chunk in &partition.chunks {
                    rows.push(chunk.kind, chunk.position, self.read(chunk)?);
                }
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    /// Divides a partition into those of the next level.
    fn divide(&mut self, partition: Partition) -> Result<()> {
        let level = partition.level + 1;
        let mut into: Vec<_> = (0..PARTITIONS).map(|_| Partition { level, ..Partition::default() }).collect();
        let mut rows = Rows::default();
        for chunk in &partition.chunks {
            rows.push(chunk.kind, chunk.position, self.read(chunk)?);
            if rows.weight() > ROWS_COPIED {
                self.distribute(mem::take(&mut rows), &mut into, level)?;
            }
        }
        self.distribute(rows, &mut into, level)?;
        let is_most = |part: &Partition| part.weight > partition.weight / 4 * 3;
        into.iter_mut().for_each(|part| part.is_whole = is_most(part));
        self.partitions.extend(into);
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

pub(crate) fn failed(folder: &Path, error: io::Error) -> Error {
    let folder = folder.display();
    Error::unavailable(format!(
        "the events of a large day cannot be kept in a temporary file in {folder}: {error}"
    ))
    .because(error)
}
