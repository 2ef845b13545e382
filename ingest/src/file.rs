//! Reads files into batches: NDJSON, CSV and Parquet, told apart by the name's ending.

use std::{borrow::Cow, fs, path::Path};

use polars::prelude::{AnyValue, Column, DataFrame, DataType, Series, TimeUnit};
use polars_io::{SerReader, csv::read::CsvReadOptions, mmap::MmapBytesReader, parquet::read::ParquetReader};
use store::{Kind, Timestamp, event::FieldType};

use crate::{
    batch::{Batch, Refused},
    builder::Builder,
    json,
    limits::MAX_BATCH_DAYS,
    row::{Row, Scalar},
};

/// How many rows of a file make a batch.
pub const FILE_BATCH_ROWS: usize = 50_000;

/// What the rows of a file are.
#[derive(Clone, Debug)]
pub struct FileSpec {
    /// What its events are.
    pub kind: Kind,
    /// Columns that are tags, besides those named `tag.NAME`.
    pub tags: Vec<String>,
}

/// Reads a whole file into batches.
///
/// # Errors
/// What is wrong with the file or with its rows, counted from 1 (in NDJSON: lines).
pub fn read_file(path: &Path, spec: &FileSpec, now: Timestamp) -> Result<Vec<Batch>, Refused> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    match ending.as_str() {
        "ndjson" | "jsonl" => read_lines(path, spec.kind, now),
        "parquet" | "pq" => {
            let frame = read_parquet(open(path)?).map_err(|error| unreadable(path, "Parquet", &error))?;
            batches_of(&frame, spec, now)
        }
        "csv" => {
            let options = CsvReadOptions::default().with_has_header(true).with_infer_schema_length(Some(0));
            let reader = options.into_reader_with_file_handle(open(path)?);
            batches_of(&reader.finish().map_err(|error| unreadable(path, "CSV", &error))?, spec, now)
        }
        _ => Err(Refused::Whole(format!(
            "cannot tell the format of {} (it should end in .ndjson, .jsonl, .csv or .parquet)",
            path.display()
        ))),
    }
}

/// Reads a Parquet file whole.
///
/// # Errors
/// When it is none.
pub fn read_parquet(file: impl MmapBytesReader) -> Result<DataFrame, Refused> {
    ParquetReader::new(file).finish().map_err(|error| Refused::Whole(error.to_string()))
}

fn open(path: &Path) -> Result<fs::File, Refused> {
    fs::File::open(path).map_err(|error| Refused::Whole(format!("cannot read {}: {error}", path.display())))
}

fn unreadable(path: &Path, format: &str, error: &dyn std::fmt::Display) -> Refused {
    Refused::Whole(format!("{} is not a {format} file that can be read: {error}", path.display()))
}

fn read_lines(path: &Path, kind: Kind, now: Timestamp) -> Result<Vec<Batch>, Refused> {
    let body =
        fs::read(path).map_err(|error| Refused::Whole(format!("cannot read {}: {error}", path.display())))?;
    let mut batches = Batches::new(kind, now);
    for (number, line) in json::lines(&body) {
        json::push_row(&mut batches.builder, kind, number, line);
        batches.cut()?;
    }
    let batches = batches.finish()?;
    if batches.is_empty() {
        return Err(Refused::Whole(format!("there is no row in {}", path.display())));
    }
    Ok(batches)
}

/// Cuts the rows of a dataframe into batches: its columns are fields, `tag.NAME`, or tags by `spec`.
///
/// # Errors
/// What is wrong with its columns or rows, counted from 1.
pub fn batches_of(frame: &DataFrame, spec: &FileSpec, now: Timestamp) -> Result<Vec<Batch>, Refused> {
    let columns =
        frame.columns().iter().map(|column| Source::new(column, spec)).collect::<Result<Vec<_>, _>>()?;
    let mut batches = Batches::new(spec.kind, now);
    for at in 0..frame.height() {
        let mut row = Row::new(spec.kind);
        for source in &columns {
            match &source.tag {
                Some(tag) => row.tags.push((Cow::Borrowed(tag), source.scalar(at))),
                None => row.set(spec.kind, &source.name, source.scalar(at)),
            }
        }
        batches.builder.push(at as u64 + 1, row);
        batches.cut()?;
    }
    let batches = batches.finish()?;
    if batches.is_empty() {
        return Err(Refused::Whole("there is no row in it".into()));
    }
    Ok(batches)
}

/// Batches of a file, cut by rows and by days.
struct Batches {
    kind: Kind,
    now: Timestamp,
    builder: Builder,
    done: Vec<Batch>,
}

impl Batches {
    fn new(kind: Kind, now: Timestamp) -> Self {
        Self { kind, now, builder: Builder::new(kind, now), done: Vec::new() }
    }

    /// Ends the batch if it is full.
    fn cut(&mut self) -> Result<(), Refused> {
        if self.builder.is_full(FILE_BATCH_ROWS, MAX_BATCH_DAYS) {
            let full = std::mem::replace(&mut self.builder, Builder::new(self.kind, self.now));
            self.done.push(full.finish()?);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Batch>, Refused> {
        if !self.builder.is_empty() {
            self.done.push(self.builder.finish()?);
        }
        Ok(self.done)
    }
}

/// A column of a dataframe, and where its values go.
struct Source {
    name: String,
    tag: Option<String>,
    values: Series,
    /// Its text holds numbers, as in CSV.
    numbers: bool,
}

impl Source {
    fn new(column: &Column, spec: &FileSpec) -> Result<Self, Refused> {
        let name = column.name().to_string();
        let tag = spec.tags.contains(&name).then(|| name.clone());
        let bad = |message: String| Refused::Whole(format!("column `{name}`: {message}"));
        let column = column.as_materialized_series();
        let values = match column.dtype() {
            DataType::Datetime(_, None) => {
                return Err(bad("its times have no time zone; store them with UTC".into()));
            }
            DataType::Datetime(_, zone) => column
                .cast(&DataType::Datetime(TimeUnit::Microseconds, zone.clone()))
                .map_err(|e| bad(e.to_string()))?,
            _ => column.clone(),
        };
        let is_float = spec.kind.field(&name).is_some_and(|field| field.kind == FieldType::Float);
        let numbers = is_float && *values.dtype() == DataType::String;
        Ok(Self { name, tag, values, numbers })
    }

    fn scalar(&self, row: usize) -> Scalar<'_> {
        let value = self.values.get(row).unwrap_or(AnyValue::Null);
        match value {
            AnyValue::Null => Scalar::Null,
            AnyValue::Boolean(truth) => Scalar::Bool(truth),
            AnyValue::String("") => Scalar::Null,
            AnyValue::String(text) if self.numbers => match text.trim().parse() {
                Ok(number) => Scalar::Float(number),
                Err(_) => Scalar::Text(Cow::Borrowed(text)),
            },
            AnyValue::String(text) => Scalar::Text(Cow::Borrowed(text)),
            AnyValue::Float64(number) => Scalar::Float(number),
            AnyValue::Float32(number) => Scalar::Float(f64::from(number)),
            AnyValue::Datetime(micros, TimeUnit::Microseconds, _) => Scalar::Time(micros),
            AnyValue::Date(day) => Scalar::Time(i64::from(day) * store::time::DAY_MICROS),
            other => other.extract::<i64>().map_or(Scalar::Other("of another type"), Scalar::Int),
        }
    }
}
