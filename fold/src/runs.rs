//! Sorted runs of numbers in a file, for more numbers than memory should hold.

use std::{
    collections::BinaryHeap,
    fmt,
    io::{Read, Result, Seek, SeekFrom, Write},
};

/// Number of numbers of a run that are read at a time.
const READ_AT_ONCE: usize = 8 * 1024;

/// File that the caller of a fold provides.
pub trait RunFile: Read + Write + Seek + fmt::Debug + Send {}

impl<T: Read + Write + Seek + fmt::Debug + Send> RunFile for T {}

/// Runs of several owners in one file.
#[derive(Debug)]
pub struct Runs {
    file: Box<dyn RunFile>,
    end: u64,
}

/// Part of the file: numbers in descending order.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    at: u64,
    count: usize,
}

/// Reader of a run.
struct Reader {
    rest: Run,
    read: std::vec::IntoIter<u64>,
}

impl Runs {
    /// Creates runs in an empty file.
    pub fn new(file: Box<dyn RunFile>) -> Self {
        Self { file, end: 0 }
    }

    /// Writes numbers as one run.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn write(&mut self, numbers: &mut [u64]) -> Result<Run> {
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        let run = Run { at: self.end, count: numbers.len() };
        self.file.seek(SeekFrom::Start(run.at))?;
        for numbers in numbers.chunks(READ_AT_ONCE) {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            self.file.write_all(&bytes)?;
            self.end += bytes.len() as u64;
        }
        Ok(run)
    }

    /// Calls `each` with all numbers of some runs, in descending order.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn merge(&mut self, runs: &[Run], mut each: impl FnMut(u64)) -> Result<()> {
        let reader = |run: &Run| Reader { rest: run.clone(), read: Vec::new().into_iter() };
        let mut readers: Vec<Reader> = runs.iter().map(reader).collect();
        let mut firsts = BinaryHeap::with_capacity(readers.len());
        for (number, reader) in readers.iter_mut().enumerate() {
            firsts.extend(self.next(reader)?.map(|first| (first, number)));
        }
        while let Some(mut first) = firsts.peek_mut() {
            each(first.0);
            match self.next(&mut readers[first.1])? {
                Some(next) => first.0 = next,
                None => _ = std::collections::binary_heap::PeekMut::pop(first),
            }
        }
        Ok(())
    }

    fn next(&mut self, reader: &mut Reader) -> Result<Option<u64>> {
        if let Some(number) = reader.read.next() {
            return Ok(Some(number));
        }
        let Reader { rest, read } = reader;
        let mut bytes = vec![0; rest.count.min(READ_AT_ONCE) * size_of::<u64>()];
        self.file.seek(SeekFrom::Start(rest.at))?;
        self.file.read_exact(&mut bytes)?;
        rest.at += bytes.len() as u64;
        let numbers = bytes.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number));
        *read = numbers.collect::<Vec<_>>().into_iter();
        rest.count -= read.len();
        Ok(read.next())
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
        let of_another = runs.write(&mut [7, 9]).unwrap();
        let parts: Vec<Run> = all.clone().chunks_mut(20_000).map(|part| runs.write(part).unwrap()).collect();
        let mut merged = Vec::new();
        runs.merge(&parts, |number| merged.push(number)).unwrap();
        all.sort_unstable_by(|one, other| other.cmp(one));
        assert_eq!(merged, all);
        let mut few = Vec::new();
        runs.merge(&[of_another], |number| few.push(number)).unwrap();
        assert_eq!(few, [9, 7]);
    }
}
