//! Files of an export: one item on a line, compressed by zstd, in parts of bounded size.

use std::{
    fs::File,
    io::{self, Write},
};

use event::Result;
use sha2::{Digest, Sha256};

use super::{
    manifest::{FileOf, hex},
    shelf::Shelf,
};

/// Bytes of lines after which the next file begins.
const FILE_BYTES: u64 = 64 << 20;

/// Ending of the files.
const ENDING: &str = ".ndjson.zst";

/// Content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Segments.
    Segments,
    /// All other items.
    Items,
    /// Keys of deleted items, each as an item without attributes.
    Gone,
}

/// Sorts in the order of their restore.
pub(super) const SORTS: [Sort; 3] = [Sort::Segments, Sort::Items, Sort::Gone];

impl Sort {
    const fn name(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Items => "items",
            Self::Gone => "gone",
        }
    }

    /// Returns whether a file name belongs to this sort.
    pub(super) fn names(self, file: &str) -> bool {
        let number =
            file.strip_prefix(self.name()).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(ENDING));
        number.is_some_and(|number| number.len() >= 5 && number.bytes().all(|digit| digit.is_ascii_digit()))
    }
}

/// Returns whether a file name belongs to an export.
pub(super) fn is_ours(name: &str) -> bool {
    SORTS.into_iter().any(|sort| sort.names(name))
}

/// Writer that hashes and counts the bytes of a file.
struct Hashed {
    file: File,
    bytes: u64,
    digest: Sha256,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writer of the files of a sort.
pub(super) struct Files<'a> {
    shelf: &'a Shelf,
    sort: Sort,
    open: Option<Open>,
    done: Vec<FileOf>,
}

struct Open {
    name: String,
    to: zstd::Encoder<'static, Hashed>,
    lines: u64,
    bytes: u64,
}

impl<'a> Files<'a> {
    /// Begins without files.
    pub(super) fn new(shelf: &'a Shelf, sort: Sort) -> Self {
        Self { shelf, sort, open: None, done: Vec::new() }
    }

    /// Adds a line.
    ///
    /// # Errors
    /// A line that cannot be written.
    pub(super) async fn add(&mut self, line: &str) -> Result<()> {
        if self.open.as_ref().is_some_and(|open| open.bytes >= FILE_BYTES) {
            self.close().await?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Open::new(
                self.shelf,
                format!("{}-{:05}{ENDING}", self.sort.name(), self.done.len() + 1),
            )?),
        };
        let mut write = || -> io::Result<()> {
            open.to.write_all(line.as_bytes())?;
            open.to.write_all(b"\n")
        };
        write().map_err(|error| self.shelf.unwritten(&open.name, error))?;
        open.lines += 1;
        open.bytes += line.len() as u64;
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        let Some(Open { name, to, lines, .. }) = self.open.take() else { return Ok(()) };
        let hashed = to.finish().map_err(|error| self.shelf.unwritten(&name, error))?;
        self.shelf.keep(&name, &hashed.file).await?;
        eprintln!("{name}: {lines} items");
        let sha256 = hex(&hashed.digest.finalize());
        self.done.push(FileOf { name, items: lines, bytes: hashed.bytes, sha256 });
        Ok(())
    }

    /// Completes and returns the files.
    ///
    /// # Errors
    /// A last file that cannot be written.
    pub(super) async fn finish(mut self) -> Result<Vec<FileOf>> {
        self.close().await?;
        Ok(self.done)
    }
}

impl Open {
    fn new(shelf: &Shelf, name: String) -> Result<Self> {
        let hashed = Hashed { file: shelf.create(&name)?, bytes: 0, digest: Sha256::new() };
        let to = zstd::Encoder::new(hashed, 1).map_err(|error| shelf.unwritten(&name, error))?;
        Ok(Self { name, to, lines: 0, bytes: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_folder() {
        assert!(is_ours("segments-00001.ndjson.zst") && is_ours("items-100000.ndjson.zst"));
        assert!(Sort::Gone.names("gone-00001.ndjson.zst") && !Sort::Items.names("gone-00001.ndjson.zst"));
        for name in [
            "../items-00001.ndjson.zst",
            "items-1.ndjson.zst",
            "items-0000a.ndjson.zst",
            "others-00001.ndjson.zst",
        ] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
