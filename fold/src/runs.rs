//! Sorted runs of records in a file, for more records than memory should hold.

use std::{
    collections::{BinaryHeap, binary_heap::PeekMut},
    fmt,
    io::{Read, Result, Seek, SeekFrom, Write},
    mem,
};

/// Number of records of a block, which is read at a time.
const BLOCK: usize = 8 * 1024;

/// Record of a run.
pub(crate) trait Record: Ord {
    /// Appends its bytes.
    fn write(&self, bytes: &mut Vec<u8>);

    /// Reads the first record, and leaves the bytes behind it; `None` if there is none.
    fn read(bytes: &mut &[u8]) -> Option<Self>
    where
        Self: Sized;
}

impl Record for u64 {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(Self::from_le_bytes(*number))
    }
}

/// File that the caller of a fold provides.
pub trait RunFile: Read + Write + Seek + fmt::Debug + Send {}

impl<T: Read + Write + Seek + fmt::Debug + Send> RunFile for T {}

/// Runs of several owners in one file.
#[derive(Debug)]
pub struct Runs {
    file: Box<dyn RunFile>,
    end: u64,
}

/// Part of the file: blocks of records in descending order, each after the number of its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    at: u64,
    end: u64,
}

/// Reader of a run.
struct Reader<T> {
    rest: Run,
    block: std::vec::IntoIter<T>,
}

impl Runs {
    /// Creates runs in an empty file.
    pub fn new(file: Box<dyn RunFile>) -> Self {
        Self { file, end: 0 }
    }

    /// Writes records as one run.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn write<T: Record>(&mut self, records: &mut [T]) -> Result<Run> {
        records.sort_unstable_by(|one, other| other.cmp(one));
        let at = self.end;
        self.file.seek(SeekFrom::Start(at))?;
        let mut bytes = Vec::new();
        for records in records.chunks(BLOCK) {
            bytes.clear();
            records.iter().for_each(|record| record.write(&mut bytes));
            self.file.write_all(&(bytes.len() as u64).to_le_bytes())?;
            self.file.write_all(&bytes)?;
            self.end += (size_of::<u64>() + bytes.len()) as u64;
        }
        Ok(Run { at, end: self.end })
    }

    /// Calls `each` with all records of some runs, in descending order.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn merge<T: Record>(&mut self, runs: &[Run], mut each: impl FnMut(T)) -> Result<()> {
        let reader = |run: &Run| Reader { rest: run.clone(), block: Vec::new().into_iter() };
        let mut readers: Vec<Reader<T>> = runs.iter().map(reader).collect();
        let mut firsts = BinaryHeap::with_capacity(readers.len());
        for (number, reader) in readers.iter_mut().enumerate() {
            firsts.extend(self.next(reader)?.map(|first| (first, number)));
        }
        while let Some(mut first) = firsts.peek_mut() {
            let record = match self.next(&mut readers[first.1])? {
                Some(next) => mem::replace(&mut first.0, next),
                None => PeekMut::pop(first).0,
            };
            each(record);
        }
        Ok(())
    }

    fn next<T: Record>(&mut self, reader: &mut Reader<T>) -> Result<Option<T>> {
        let Reader { rest, block } = reader;
        if block.len() == 0 && rest.at < rest.end {
            let mut length = [0; size_of::<u64>()];
            self.file.seek(SeekFrom::Start(rest.at))?;
            self.file.read_exact(&mut length)?;
            let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
            self.file.read_exact(&mut bytes)?;
            rest.at += (length.len() + bytes.len()) as u64;
            let mut bytes = bytes.as_slice();
            *block = std::iter::from_fn(|| T::read(&mut bytes)).collect::<Vec<_>>().into_iter();
        }
        Ok(block.next())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn merged_runs_come_in_descending_order() {
        let number = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let mut all: Vec<u64> = (0..50_000).map(number).collect();
        let mut runs = Runs::new(Box::new(Cursor::new(Vec::new())));
        let of_another = runs.write(&mut [7u64, 9]).unwrap();
        let parts: Vec<Run> = all.clone().chunks_mut(20_000).map(|part| runs.write(part).unwrap()).collect();
        let mut merged = Vec::<u64>::new();
        runs.merge(&parts, |number| merged.push(number)).unwrap();
        all.sort_unstable_by(|one, other| other.cmp(one));
        assert_eq!(merged, all);
        let mut few = Vec::<u64>::new();
        runs.merge(&[of_another], |number| few.push(number)).unwrap();
        assert_eq!(few, [9, 7]);
    }
}
