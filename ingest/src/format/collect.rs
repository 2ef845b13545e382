//! Places of the columns of a table, and the destination of the rows of a row format: the builder of a request, or, for a
//! file, one chunk after the other.

use std::collections::{BTreeMap, VecDeque};

use event::{Kind, RowProblem, Timestamp};
use polars_arrow::array::Array;

use super::{
    raw::{Origin, Raw},
    source::SourceRows,
};
use crate::{
    batch::{Batch, Refused},
    builder::{
        BatchBuilder, Reading,
        check::Sorted,
        names::{ColumnTarget, IS_SET, Names, Target},
        row::{FieldError, Row},
    },
    limits::{FILE_BATCH_ROWS, FILE_CHUNK_BYTES, MAX_BATCH_ROWS},
};

/// A part of a file: always the same part of the same file.
#[derive(Debug)]
pub struct Chunk {
    /// Identity of the chunk.
    pub origin: Origin,
    /// Its good rows; `None` when there is none.
    pub batch: Option<Batch>,
    /// Time at which each of these was known, if the file says it.
    pub known_at: Vec<Timestamp>,
    /// The number of each bad row, from 1 (in NDJSON its line), and the first few of its errors.
    pub bad: Vec<(u64, Vec<RowProblem>)>,
    /// All its rows as they stood in the file.
    pub source: SourceRows,
    /// Number of bytes of the file that were read so far.
    pub bytes: u64,
}

/// The chunks of a file so far.
#[derive(Default)]
struct Chunks {
    source: SourceRows,
    raw: Raw,
    done: VecDeque<Chunk>,
}

/// Collects rows.
pub(crate) struct Collector {
    kind: Kind,
    now: Timestamp,
    reading: Reading,
    pub(crate) builder: BatchBuilder,
    /// Number of rows, good or bad, since the last chunk.
    rows: usize,
    chunks: Option<Chunks>,
    /// The columns that options name and no row had, each with what is to be said of it.
    pub(crate) lacking: BTreeMap<String, String>,
}

impl Collector {
    /// A collector of the rows of one request, or, when they are imported, of a file.
    pub(crate) fn new(kind: Kind, now: Timestamp, reading: Reading) -> Self {
        let chunks = reading.import.then(Chunks::default);
        let builder = BatchBuilder::new(kind, now, reading.clone());
        Self { kind, now, reading, builder, rows: 0, chunks, lacking: BTreeMap::new() }
    }

    /// Takes a row that was read; `raw` is how it stood there.
    #[inline]
    pub(crate) fn row(&mut self, number: u64, row: &mut Row<'_>, raw: &[u8]) -> Result<(), Refused> {
        self.begin()?;
        self.builder.make_room(self.builder.rows() + 1)?;
        self.builder.push(number, row);
        if let Some(message) = self.builder.too_many_cells(self.builder.rows()) {
            return Err(Refused::TooLarge(message));
        }
        self.builder.check_room()?;
        self.end(number, raw)
    }

    /// Takes a row that could not be read.
    pub(crate) fn unreadable(&mut self, number: u64, error: FieldError, raw: &[u8]) -> Result<(), Refused> {
        self.begin()?;
        self.builder.refuse_row(number, error);
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
        chunks.source.push(number, raw);
        chunks.raw.row(number, raw);
        if self.rows >= FILE_BATCH_ROWS || chunks.source.bytes() >= FILE_CHUNK_BYTES {
            self.cut()?;
        }
        Ok(())
    }

    /// Takes what every chunk of a file begins with: what is made of it.
    pub(crate) fn context(&mut self, bytes: &[u8]) {
        if let Some(chunks) = &mut self.chunks {
            chunks.raw.context(bytes);
        }
    }

    /// Takes the header of CSV.
    pub(crate) fn header(&mut self, columns: &Places, delimiter: u8) {
        if let Some(chunks) = &mut self.chunks {
            let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            chunks.raw.context(names.join("\u{1f}").as_bytes());
            chunks.source.has_header(columns, delimiter);
        }
    }

    /// Takes an object of arrays.
    pub(crate) fn whole(&mut self, text: String) {
        if let Some(chunks) = &mut self.chunks {
            chunks.raw.whole(text.as_bytes());
            chunks.source.whole(text);
        }
    }

    /// Takes a piece of a column, whose rows begin with this number.
    pub(crate) fn column(
        &mut self,
        first: u64,
        (name, targets): &(String, Vec<ColumnTarget>),
        array: &dyn Array,
    ) {
        if let Some(chunks) = self.chunks.as_mut().filter(|_| !targets.is_empty()) {
            chunks.raw.column(first, name, array);
            let reading = (self.kind, first, self.reading.times.has_zone());
            chunks.source.column(reading, (name, targets), array);
        }
    }

    /// Reads a file of rejects from here on: texts in it may hold numbers, as the cells of CSV.
    pub(crate) fn read_rejects(&mut self) {
        self.reading.loose_text = true;
        self.builder = BatchBuilder::new(self.kind, self.now, self.reading.clone());
    }

    /// True if the rows are of a file, and not of a request.
    pub(crate) fn is_import(&self) -> bool {
        self.chunks.is_some()
    }

    /// Number of rows that still fit into the chunk, for a format that comes by column.
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
        let next = chunks.source.next();
        let source = std::mem::replace(&mut chunks.source, next);
        let origin = chunks.raw.take();
        let full = std::mem::replace(
            &mut self.builder,
            BatchBuilder::new(self.kind, self.now, self.reading.clone()),
        );
        let Sorted { good: batch, bad, known_at } = full.sort()?;
        chunks.done.push_back(Chunk { origin, batch, known_at, bad, source, bytes: 0 });
        Ok(())
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

/// Refusal of a request with more rows than a batch may have.
pub(crate) fn too_many_rows() -> Refused {
    Refused::TooLarge(format!("there are more than the {MAX_BATCH_ROWS} rows of a batch; send several"))
}

/// Columns of a table, each with all its places; one that is left out has none.
pub(crate) type Places = Vec<(String, Vec<ColumnTarget>)>;

/// Finds the places of each column of a table, in their order.
///
/// # Errors
/// Fails when a column is not known or has the place of another one, or an option names a missing one.
pub(crate) fn places<'a>(names: &Names, columns: impl Iterator<Item = &'a str>) -> Result<Places, Refused> {
    let mut places = Places::new();
    for name in columns {
        let wrong = |message: &str| Refused::Whole(format!("the column `{name}` {message}"));
        let targets = match names.find(name) {
            Some(Target::Asked(at)) => names.asked[at].targets.clone(),
            Some(Target::Family(family)) => {
                let family = &names.kind.families()[family];
                let called = family.columns_are_called();
                return Err(wrong(&format!(
                    "should be one column for each {} here, called {called}",
                    family.noun
                )));
            }
            Some(Target::Set) => return Err(wrong(IS_SET)),
            Some(target) => names.column_target(name, target).into_iter().collect(),
            None => return Err(wrong(&names.unknown(name, names.nearest(name)))),
        };
        if places.iter().flat_map(|(_, known)| known).any(|known| targets.contains(known)) {
            return Err(wrong("is given twice"));
        }
        places.push((name.to_owned(), targets));
    }
    match names.lacking().into_values().next() {
        Some(lacking) => Err(Refused::Whole(lacking)),
        None => Ok(places),
    }
}
