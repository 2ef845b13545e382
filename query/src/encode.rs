//! Encoding of rows into the bytes of a format as they come. The bytes depend on the rows, and not on their division into frames:
//! text is written row by row, and formats of columns in groups of a fixed number of rows.

use std::io::Write;

use event::Result;
use polars::prelude::{
    Column, CompatLevel, DataFrame, DataType, IntoColumn, Schema, SchemaExt, StringChunked,
};
use polars_arrow::io::ipc::write::{StreamWriter, WriteOptions, default_ipc_fields};
use polars_io::{
    SerWriter,
    csv::write::CsvWriter,
    ipc::{self, IpcWriter},
    parquet::write::{self as parquet, ParquetWriter},
};

use crate::{
    frame::{failed, refused},
    lines::{self, Lines, cannot},
    output::{Format, with_text_times},
    packed,
    text_table::Excerpt,
};

/// Number of rows of a row group of Parquet and of a record batch of Arrow, for few columns. Each stream holds several of them:
/// some that fill, one as bytes, one on its way. Larger groups of Parquet compress better.
const GROUP_ROWS: usize = 65_536;
const BATCH_ROWS: usize = 16_384;

/// Maximum number of columns that count as few. A group of more columns has fewer rows, so that its bytes stay about equal.
const FEW_COLUMNS: usize = 32;
const MIN_GROUP_ROWS: usize = 4_096;

/// The level of Arrow for streams that programs without support for views of strings can read.
const FOR_ALL: CompatLevel = CompatLevel::oldest();

/// Writes rows of equal columns in a format.
pub(crate) enum Encoder<W: Write> {
    /// A table for people shows some of the rows, so it is written at the end.
    Table(Box<Excerpt>, W),
    /// A format of lines, one per row.
    Lines(Lines, W),
    /// A format of columns.
    Groups(Groups, Box<Grouped<W>>),
}

/// A format with rows in groups.
pub(crate) enum Grouped<W: Write> {
    Parquet(Box<parquet::BatchedWriter<W>>),
    Ipc(ipc::BatchedWriter<W>),
    IpcStream(StreamWriter<W>),
    Packed(W),
}

impl<W: Write + Send> Encoder<W> {
    /// Writes the beginning of an answer in `format`, whose rows have the columns of `empty`.
    ///
    /// # Errors
    /// An error if it cannot be written.
    pub(crate) fn begin(format: Format, empty: &DataFrame, mut to: W) -> Result<Self> {
        let schema: &Schema = empty.schema();
        let grouped = match format {
            Format::Table => return Ok(Self::Table(Box::default(), to)),
            Format::Csv | Format::CsvSpreadsheet => {
                let is_for_spreadsheets = format == Format::CsvSpreadsheet;
                let mut empty = with_text_times(empty)?;
                let names: Vec<String> =
                    empty.columns().iter().map(|column| column.name().to_string()).collect();
                let names = names.iter().map(|name| lines::cell(name, is_for_spreadsheets));
                empty.set_column_names(&names.collect::<Vec<_>>()).map_err(failed)?;
                CsvWriter::new(&mut to).include_header(true).finish(&mut empty).map_err(refused)?;
                return Ok(Self::Lines(Lines::Csv { is_for_spreadsheets }, to));
            }
            Format::Ndjson => return Ok(Self::Lines(Lines::Ndjson, to)),
            Format::Parquet => {
                Grouped::Parquet(Box::new(ParquetWriter::new(to).batched(schema).map_err(failed)?))
            }
            Format::Ipc => {
                // The fields must be given: polars does not derive them, and the file's schema would have no columns.
                let fields = default_ipc_fields(schema.to_arrow(CompatLevel::newest()).iter_values());
                Grouped::Ipc(IpcWriter::new(to).batched(schema, fields).map_err(failed)?)
            }
            Format::IpcStream => {
                let mut writer = StreamWriter::new(to, WriteOptions { compression: None });
                writer.start(&schema.to_arrow(FOR_ALL), None).map_err(failed)?;
                Grouped::IpcStream(writer)
            }
            Format::IpcStreamLz4 => {
                packed::begin(&schema.to_arrow(CompatLevel::newest()), &mut to)?;
                Grouped::Packed(to)
            }
        };
        let rows = if format == Format::Parquet { GROUP_ROWS } else { BATCH_ROWS };
        Ok(Self::Groups(Groups::of(rows, empty.width()), Box::new(grouped)))
    }

    /// Keeps columns without any value in a table, if columns were requested by name.
    #[must_use]
    pub(crate) fn of_named(mut self, named: bool) -> Self {
        if let Self::Table(excerpt, _) = &mut self {
            excerpt.keeps_empty = named;
        }
        self
    }

    /// Writes more rows.
    ///
    /// # Errors
    /// An error if they cannot be written.
    pub(crate) fn rows(&mut self, rows: DataFrame) -> Result<()> {
        match self {
            Self::Table(excerpt, _) => excerpt.push(&rows),
            Self::Lines(lines, to) => lines.write(&rows, to),
            Self::Groups(groups, grouped) => {
                groups.push(rows).into_iter().try_for_each(|group| grouped.write(group))
            }
        }
    }

    /// Returns true if the groups of the format are independent messages ([`packed::message`]) that can be made side by side.
    pub(crate) fn makes_messages(&self) -> bool {
        matches!(self, Self::Groups(_, grouped) if matches!(**grouped, Grouped::Packed(_)))
    }

    /// Takes more rows of a format of messages, and returns the full groups.
    pub(crate) fn messages(&mut self, rows: DataFrame) -> Vec<Vec<DataFrame>> {
        if let Self::Groups(groups, _) = self { groups.push(rows) } else { Vec::new() }
    }

    /// Returns true if it keeps rows until they fill a group.
    pub(crate) fn keeps_rows(&self) -> bool {
        matches!(self, Self::Groups(..))
    }

    /// Writes the end of the answer.
    ///
    /// # Errors
    /// An error if it cannot be written.
    pub(crate) fn end(self) -> Result<()> {
        match self {
            Self::Table(excerpt, mut to) => writeln!(to, "{}", excerpt.text()).map_err(cannot),
            Self::Lines(_, mut to) => to.flush().map_err(cannot),
            Self::Groups(groups, mut grouped) => {
                groups.end().map_or(Ok(()), |group| grouped.write(group))?;
                grouped.end()
            }
        }
    }
}

impl<W: Write> Grouped<W> {
    fn write(&mut self, group: Vec<DataFrame>) -> Result<()> {
        match self {
            Self::Packed(to) => return to.write_all(&packed::message(&group)?).map_err(cannot),
            Self::Parquet(writer) => writer.write_batch(&in_one_piece(group)?),
            Self::Ipc(writer) => writer.write_batch(&in_one_piece(group)?),
            Self::IpcStream(writer) => {
                let group = in_one_piece(group)?;
                group.iter_chunks(FOR_ALL, false).try_for_each(|batch| writer.write(&batch, None))
            }
        }
        .map_err(failed)
    }

    fn end(mut self) -> Result<()> {
        match &mut self {
            Self::Parquet(writer) => writer.finish().map(|_| ()),
            Self::Ipc(writer) => writer.finish(),
            Self::IpcStream(writer) => writer.finish(),
            Self::Packed(to) => return packed::end(to),
        }
        .map_err(failed)
    }
}

/// Collects rows into groups of a fixed number of rows.
pub(crate) struct Groups {
    rows: usize,
    waiting: Vec<DataFrame>,
    held: usize,
}

impl Groups {
    fn of(rows: usize, columns: usize) -> Self {
        let rows = (rows * FEW_COLUMNS / columns.max(FEW_COLUMNS)).max(MIN_GROUP_ROWS);
        Self { rows, waiting: Vec::new(), held: 0 }
    }

    /// Takes more rows, and returns the full groups.
    fn push(&mut self, mut rows: DataFrame) -> Vec<Vec<DataFrame>> {
        let mut full = Vec::new();
        while self.held + rows.height() >= self.rows {
            let lacks = self.rows - self.held;
            self.waiting.push(rows.slice(0, lacks));
            rows = rows.slice(lacks as i64, usize::MAX);
            self.held = 0;
            full.push(std::mem::take(&mut self.waiting));
        }
        if rows.height() > 0 {
            self.held += rows.height();
            self.waiting.push(rows);
        }
        full
    }

    /// Returns the last group, if any rows are left for one.
    fn end(self) -> Option<Vec<DataFrame>> {
        (!self.waiting.is_empty()).then_some(self.waiting)
    }
}

/// Concatenates frames, each column in one piece that holds nothing but its own rows.
fn in_one_piece(frames: Vec<DataFrame>) -> Result<DataFrame> {
    let mut frames = frames.into_iter();
    let mut all = frames.next().unwrap_or_default();
    for frame in frames {
        all.vstack_mut_owned(frame).map_err(failed)?;
    }
    let rows = all.height();
    let columns = all.into_columns().into_iter().map(|column| match column.dtype() {
        DataType::String => with_its_own_text(&column.rechunk()),
        _ => Ok(column.rechunk()),
    });
    DataFrame::new(rows, columns.collect::<Result<_>>()?).map_err(failed)
}

/// Copies strings, which are views of texts that other rows may share, so that the texts are those of these rows in their order.
fn with_its_own_text(column: &Column) -> Result<Column> {
    let strings = column.str().map_err(failed)?;
    let pieces = strings.downcast_iter().map(|piece| piece.clone().gc());
    Ok(StringChunked::from_chunk_iter(column.name().clone(), pieces).into_column())
}
