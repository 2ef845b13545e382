//! Reading of files into batches, in bounded memory: NDJSON, JSON, CSV, Parquet and Arrow, by the ending of their names.

mod columns;
mod footer;
mod mapping;

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Seek},
    path::Path,
};

use event::Timestamp;
use polars::prelude::DataFrame;
use polars_io::{SerReader, mmap::MmapBytesReader};

use self::columns::{ArrowFile, ParquetFile};
use crate::{
    batch::{Batch, Refused},
    format::{
        Collector, Decoder, Encoding, Format, Parser, TAB_SEPARATED, fill_frame,
        ndjson::Lines,
        parquet::{self, NotedTypes},
    },
    limits::MAX_LISTED_ERRORS,
};

pub use self::mapping::{FileSpec, Layout, Mapping};
pub use crate::builder::times::Ambiguous;
pub use crate::{
    format::{Chunk, Origin, Rejected, SourceRow, SourceRows},
    limits::FILE_BATCH_ROWS,
};

/// Number of bytes of a file read at once.
const BLOCK_BYTES: usize = 256 * 1024;

/// Reader of a file, chunk by chunk. The same file gives the same chunks.
///
/// NDJSON, CSV and JSON arrays, also packed as `.gz` or `.zst`, are read piece by piece; Parquet by
/// slices; Arrow by its own batches. An object of arrays in `.json` is held whole, at most
/// [`crate::limits::MAX_BODY_BYTES`].
pub struct FileReader {
    name: String,
    source: Source,
    out: Collector,
    bytes: u64,
    is_done: bool,
    is_empty: bool,
}

enum Source {
    /// The parser is `None` after the end.
    Stream(fs::File, Option<Box<(Decoder, Parser)>>),
    Parquet(Box<ParquetFile>),
    Arrow(Box<ArrowFile>),
}

impl FileReader {
    /// Opens a file.
    ///
    /// # Errors
    /// Fails when it cannot be opened, its ending stands for no format, or `spec` names a missing field.
    pub fn open(path: &Path, spec: &FileSpec, now: Timestamp) -> Result<Self, Refused> {
        let file = fs::File::open(path);
        let file =
            file.map_err(|error| Refused::Whole(format!("cannot read {}: {error}", path.display())))?;
        Self::of(file, path, spec, now)
    }

    /// Reads a file that is open, from its beginning; `path` is its name.
    ///
    /// # Errors
    /// As [`FileReader::open`].
    pub fn of(mut file: fs::File, path: &Path, spec: &FileSpec, now: Timestamp) -> Result<Self, Refused> {
        let name = path.display().to_string();
        let FileFormat { format, encoding, delimiter } = format_of(path, spec.mapping.format.as_deref())?;
        let delimiter = spec.mapping.delimiter.unwrap_or(delimiter);
        let names = spec.names()?;
        let is_captured = spec.mapping.layout == Layout::SageMaker;
        if is_captured && !matches!(format, Format::Ndjson | Format::Json) {
            return Err(Refused::Whole(format!("{name}: files of SageMaker Model Monitor are JSON lines")));
        }
        let reading = spec.reading(format.is_loose() || is_captured)?;
        file.rewind().map_err(|error| Refused::Whole(format!("cannot read {name}: {error}")))?;
        let source = match format {
            Format::Parquet => ParquetFile::open(file, names).map(Box::new).map(Source::Parquet),
            Format::Arrow => ArrowFile::open(file, &names).map(Box::new).map(Source::Arrow),
            _ => {
                let parser = match is_captured {
                    true => Parser::Lines(Lines::captured(names)),
                    false => Parser::new(format, names, delimiter),
                };
                let parts = (Decoder::new(encoding, true), parser);
                Ok(Source::Stream(file, Some(Box::new(parts))))
            }
        };
        let source = source.map_err(|refused| named(&name, refused))?;
        let mut out = Collector::new(spec.kind, now, reading);
        out.context(spec.meaning().as_bytes());
        Ok(Self { name, source, out, bytes: 0, is_done: false, is_empty: true })
    }

    /// Reads the next part; returns whether there may be more.
    fn step(&mut self) -> Result<bool, Refused> {
        match &mut self.source {
            Source::Stream(file, parts) => {
                let mut block = vec![0; BLOCK_BYTES];
                let read = file.read(&mut block).map_err(|error| Refused::Whole(error.to_string()))?;
                self.bytes += read as u64;
                let out = &mut self.out;
                if let Some(parts) = parts.as_mut().filter(|_| read > 0) {
                    let (decoder, parser) = &mut **parts;
                    decoder.push(&block[..read], &mut |plain| parser.push(plain, out))?;
                    return Ok(true);
                }
                if let Some(parts) = parts.take() {
                    let (decoder, mut parser) = *parts;
                    decoder.finish(&mut |plain| parser.push(plain, out))?;
                    parser.finish(out)?;
                }
                Ok(false)
            }
            Source::Parquet(file) => {
                let more = file.step(&mut self.out)?;
                self.bytes = file.bytes();
                Ok(more)
            }
            Source::Arrow(file) => {
                let more = file.step(&mut self.out)?;
                self.bytes = file.bytes();
                Ok(more)
            }
        }
    }

    /// Columns that options name and that no row had so far, each with its message; `None` before the first row. A file with a
    /// header that lacks one is refused.
    pub fn lacking(&self) -> Option<&BTreeMap<String, String>> {
        (!self.is_empty).then_some(&self.out.lacking)
    }
}

/// Adds the name of the file to a refusal.
fn named(file: &str, refused: Refused) -> Refused {
    match refused {
        Refused::Whole(message) => Refused::Whole(format!("{file}: {message}")),
        Refused::TooLarge(message) => Refused::TooLarge(format!("{file}: {message}")),
        other @ (Refused::Rows { .. } | Refused::NoRoom) => other,
    }
}

impl Iterator for FileReader {
    type Item = Result<Chunk, Refused>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(mut chunk) = self.out.next_chunk() {
                chunk.bytes = self.bytes;
                self.is_empty = false;
                return Some(Ok(chunk));
            }
            if self.is_done {
                return None;
            }
            let more =
                self.step().and_then(|more| if more { Ok(true) } else { self.out.cut().map(|()| false) });
            match more {
                Ok(true) => {}
                Ok(false) => self.is_done = true,
                Err(refused) => {
                    self.is_done = true;
                    return Some(Err(named(&self.name, refused)));
                }
            }
        }
    }
}

/// Returns whether the name of a file stands for a format that [`FileReader`] reads.
pub fn is_readable(path: &Path) -> bool {
    format_of(path, None).is_ok()
}

/// Format of a file.
struct FileFormat {
    format: Format,
    encoding: Encoding,
    /// Delimiter of cells of CSV.
    delimiter: u8,
}

/// Format of a file, by its name; `ending` stands for the ending of a name that has none of a format.
fn format_of(path: &Path, ending: Option<&str>) -> Result<FileFormat, Refused> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let found = format_of_name(name).or_else(|| format_of_name(ending?));
    match found {
        Some(FileFormat { format: Format::Parquet | Format::Arrow, encoding, .. })
            if encoding != Encoding::Identity =>
        {
            let message = format!("{}: unpack it first; the format is packed in itself", path.display());
            Err(Refused::Whole(message))
        }
        Some(format) => Ok(format),
        None => Err(Refused::Whole(format!(
            "cannot tell the format of {}; --input-format names it, or its ending: .ndjson, .jsonl, .json, .csv, .tsv \
             (these also in .gz or .zst), .parquet, .pq or .arrow",
            path.display()
        ))),
    }
}

fn format_of_name(name: &str) -> Option<FileFormat> {
    let mut endings = name.rsplit('.');
    let last = endings.next().unwrap_or_default();
    let (ending, encoding) = match Encoding::from_ending(last) {
        Some(encoding) => (endings.next().unwrap_or_default(), encoding),
        None => (last, Encoding::Identity),
    };
    let delimiter = if ending.eq_ignore_ascii_case(TAB_SEPARATED) { b'\t' } else { b',' };
    Format::from_ending(ending).map(|format| FileFormat { format, encoding, delimiter })
}

/// Reads a whole file into batches.
///
/// # Errors
/// Faults of the file or of its rows, counted from 1 (in NDJSON: lines).
pub fn read_file(path: &Path, spec: &FileSpec, now: Timestamp) -> Result<Vec<Batch>, Refused> {
    whole(FileReader::open(path, spec, now)?)
}

/// Reads a whole Parquet file.
///
/// # Errors
/// Fails when it is none.
pub fn read_parquet(file: impl MmapBytesReader) -> Result<DataFrame, Refused> {
    let (reader, _) = parquet::open(file, |_| true)?;
    reader.finish().map_err(|error| Refused::Whole(error.to_string()))
}

/// Cuts the rows of a dataframe into batches: its columns are fields, `tag.NAME`, or tags by `spec`.
///
/// # Errors
/// Faults of its columns or rows, counted from 1.
pub fn batches_of(frame: &DataFrame, spec: &FileSpec, now: Timestamp) -> Result<Vec<Batch>, Refused> {
    let names = spec.names()?;
    let mut out = Collector::new(spec.kind, now, spec.reading(true)?);
    let mut row = 0;
    while row < frame.height() {
        let part = frame.slice(row as i64, FILE_BATCH_ROWS);
        fill_frame(&names, &NotedTypes::default(), &part, row as u64 + 1, &mut out)?;
        out.added(part.height())?;
        row += part.height();
    }
    out.cut()?;
    whole(std::iter::from_fn(|| out.next_chunk().map(Ok)))
}

/// Returns all batches, when no row is bad.
fn whole(chunks: impl Iterator<Item = Result<Chunk, Refused>>) -> Result<Vec<Batch>, Refused> {
    let (mut batches, mut errors, mut error_count) = (Vec::new(), Vec::new(), 0);
    for chunk in chunks {
        let chunk = chunk?;
        error_count += chunk.bad.len();
        let room = MAX_LISTED_ERRORS - errors.len();
        errors.extend(chunk.bad.into_iter().flat_map(|(_, problems)| problems).take(room));
        // After a bad row only further bad rows matter.
        batches.extend(chunk.batch.filter(|_| error_count == 0).into_iter().flat_map(Batch::by_days));
    }
    match error_count {
        0 => Ok(batches),
        _ => Err(Refused::Rows { errors, error_count }),
    }
}

#[cfg(test)]
mod tests;
