//! Dataframes as text and files.

use std::{
    fmt::{Display, Write as _},
    io::Write,
};

use event::{Error, Result, Timestamp, time::DAY_MICROS};
use fold::Metric;
use polars::prelude::{AnyValue, Column, DataFrame, DataType, IntoColumn, StringChunkedBuilder, TimeUnit};

use crate::{
    change::SUFFIX,
    drift,
    encode::Encoder,
    estimates,
    evaluation_rows::fairness_columns,
    frame::failed,
    head_to_head,
    intervals::{self, CustomInterval},
    request::Dataset,
    rollups, slices,
    text_table::Excerpt,
};

/// A format for writing a dataframe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns for people; long ones are cut in the middle.
    Table,
    /// Comma-separated values with a header.
    Csv,
    /// CSV for spreadsheets: no text in it is taken for a formula.
    CsvSpreadsheet,
    /// One JSON object per line.
    Ndjson,
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow IPC file.
    Ipc,
    /// Apache Arrow IPC stream, which is read from its beginning to its end.
    IpcStream,
    /// Apache Arrow IPC stream with views of strings and LZ4-compressed buffers, for programs that support both.
    IpcStreamLz4,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 8] = [
        Format::Table,
        Format::Csv,
        Format::CsvSpreadsheet,
        Format::Ndjson,
        Format::Parquet,
        Format::Ipc,
        Format::IpcStream,
        Format::IpcStreamLz4,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Table => "table",
            Format::Csv => "csv",
            Format::CsvSpreadsheet => "csv-spreadsheet",
            Format::Ndjson => "ndjson",
            Format::Parquet => "parquet",
            Format::Ipc => "ipc",
            Format::IpcStream => "ipc-stream",
            Format::IpcStreamLz4 => "ipc-stream-lz4",
        }
    }

    /// Parses a name.
    ///
    /// # Errors
    /// `Invalid`, listing the formats.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("the format `{name}` is none of {names}"))
        })
    }

    /// Returns true if it is binary.
    pub fn is_binary(self) -> bool {
        matches!(self, Format::Parquet | Format::Ipc | Format::IpcStream | Format::IpcStreamLz4)
    }

    /// Writes a dataframe.
    ///
    /// # Errors
    /// An error if it cannot be written.
    pub fn write(self, frame: &mut DataFrame, to: impl Write + Send) -> Result<()> {
        self.write_named(frame, false, to)
    }

    /// Writes a dataframe. If its columns were requested by name, a table shows those without any value too.
    ///
    /// # Errors
    /// An error if it cannot be written.
    pub fn write_named(self, frame: &mut DataFrame, named: bool, to: impl Write + Send) -> Result<()> {
        let mut encoder = Encoder::begin(self, &frame.clear(), to)?.of_named(named);
        encoder.rows(frame.clone())?;
        encoder.end()
    }
}

/// Converts times to text: instants as RFC 3339 and days as `YYYY-MM-DD`.
pub(crate) fn with_text_times(frame: &DataFrame) -> Result<DataFrame> {
    let columns = frame.columns().iter().map(|column| match column.dtype() {
        DataType::Datetime(..) => {
            let instants = column.datetime().map_err(failed)?.physical();
            Ok(text_of(column, instants.iter().map(|micros| micros.and_then(Timestamp::from_micros))))
        }
        DataType::Date => {
            let days = column.date().map_err(failed)?.physical();
            let day = |number: i32| Some(Timestamp::from_micros(i64::from(number) * DAY_MICROS)?.day());
            Ok(text_of(column, days.iter().map(|number| number.and_then(day))))
        }
        DataType::Duration(unit) => {
            let unit_micros = |time: i64| match unit {
                TimeUnit::Nanoseconds => time.div_euclid(1_000),
                TimeUnit::Microseconds => time,
                TimeUnit::Milliseconds => time.saturating_mul(1_000),
            };
            let times = column.duration().map_err(failed)?.physical();
            Ok(text_of(column, times.iter().map(|time| time.map(unit_micros).map(Span))))
        }
        _ => Ok(column.clone()),
    });
    DataFrame::new(frame.height(), columns.collect::<Result<_>>()?).map_err(failed)
}

/// Microseconds between two instants. As text they are a duration of ISO 8601 in seconds, such as `PT3600S`.
#[derive(Clone, Copy, PartialEq)]
struct Span(i64);

impl Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sign, micros) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        let fraction = format!("{:06}", micros % 1_000_000);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        write!(f, "{sign}PT{}{point}{fraction}S", micros / 1_000_000)
    }
}

/// Converts values to text. A value equal to the one before it, as is common for days, is formatted once.
pub(crate) fn text_of<T: PartialEq + Display>(
    column: &Column,
    values: impl Iterator<Item = Option<T>>,
) -> Column {
    let mut texts = StringChunkedBuilder::new(column.name().clone(), column.len());
    let (mut last, mut text) = (None, String::new());
    for value in values {
        if value.is_some() && value != last {
            text.clear();
            // Writing to a `String` never fails.
            value.iter().for_each(|value| _ = write!(text, "{value}"));
        }
        texts.append_option(value.is_some().then_some(text.as_str()));
        last = value.or(last);
    }
    texts.finish().into_column()
}

pub(crate) fn time_text(value: &AnyValue<'_>) -> Option<String> {
    match value {
        AnyValue::Datetime(micros, TimeUnit::Microseconds, _) => {
            Some(Timestamp::from_micros(*micros)?.to_string())
        }
        AnyValue::Date(day) => Some(Timestamp::from_micros(i64::from(*day) * DAY_MICROS)?.day().to_string()),
        _ => None,
    }
}

/// Formats a table for people: numbers aligned right, columns without any value left out.
///
/// # Errors
/// An error if the rows cannot be shown.
pub fn text_table(frame: &DataFrame) -> Result<String> {
    let mut excerpt = Excerpt::default();
    excerpt.push(frame)?;
    Ok(excerpt.text())
}

/// Drops the columns that a table shows on request only: the ranks between which quantiles stand, and all but the main metrics of
/// evaluations.
pub fn shorten(frame: &mut DataFrame, what: Dataset) {
    let names: Vec<_> = frame.columns().iter().map(|column| column.name().clone()).collect();
    // A change is kept or dropped with its number.
    let is_short = |name: &str| is_main(name.strip_suffix(SUFFIX).unwrap_or(name), what);
    for name in names.iter().filter(|name| !is_short(name)) {
        // The column exists, and nothing depends on the result.
        _ = frame.drop_in_place(name);
    }
}

/// Returns true if a table shows a column that was not requested by name.
fn is_main(name: &str, what: Dataset) -> bool {
    match what {
        Dataset::Evaluations | Dataset::Maturity => match intervals::named(name) {
            Some(column) => column.is_main(),
            None if CustomInterval::named(name).is_some_and(|column| !column.is_main()) => false,
            None if fairness_columns().any(|column| column == name) => false,
            None => Metric::named(name).is_none_or(|metric| metric.is_main),
        },
        Dataset::Estimates => estimates::is_main(name),
        Dataset::Slices => slices::is_main(name),
        Dataset::Drift => drift::is_main(name),
        Dataset::HeadToHead | Dataset::Challengers => head_to_head::is_main(name),
        _ => !rollups::is_rank(name),
    }
}

/// Formats a number for people: four decimals, or four digits and a power of ten if decimals would show nothing of it, or too
/// many digits.
pub fn number_text(number: f64) -> String {
    match number.abs() {
        0.0 => "0.0000".to_owned(),
        size if (1e-3..1e9).contains(&size) => format!("{number:.4}"),
        _ => format!("{number:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use polars_io::{SerReader, ipc::IpcStreamReader};

    use super::*;
    use crate::frame::{days, floats, frame, ints, texts, times};

    fn sample(rows: usize) -> DataFrame {
        let each = || 0..rows;
        frame(
            rows,
            vec![
                days("day", each().map(|row| 15_857 + row as i32).collect()),
                texts("release", each().map(|row| (row != 1).then_some("v1"))),
                times("at", each().map(|row| Some(1_370_061_000_250_000 + row as i64))),
                floats("accuracy", each().map(|row| (row != 1).then_some(0.1 + row as f64))),
                ints("predictions", each().map(|row| Some(row as u64))),
                floats("never", each().map(|_| None)),
            ],
        )
        .unwrap()
    }

    fn written(format: Format, rows: usize) -> String {
        let mut text = Vec::new();
        format.write(&mut sample(rows), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn text_formats() {
        let all = [Format::Table, Format::Csv, Format::Ndjson]
            .map(|format| [0, 1, 3].map(|rows| written(format, rows)));
        insta::assert_snapshot!(all.map(|texts| texts.join("--\n")).join("====\n"));
    }

    #[test]
    fn compressed_stream_has_equal_rows_in_fewer_bytes() {
        let [plain, packed] = [Format::IpcStream, Format::IpcStreamLz4].map(|format| {
            let mut bytes = Vec::new();
            format.write(&mut sample(20_000), &mut bytes).unwrap();
            bytes
        });
        let read = |bytes: &[u8]| IpcStreamReader::new(std::io::Cursor::new(bytes)).finish().unwrap();
        assert!(read(&packed).equals_missing(&read(&plain)));
        assert_eq!(read(&packed).schema(), sample(0).schema());
        assert!(packed.len() * 3 < plain.len() * 2, "{} of {} bytes", packed.len(), plain.len());
    }

    #[test]
    fn table_formats_extreme_numbers_and_escapes_keys() {
        let numbers = [0.0, -0.0, 1e-5, -0.00099, 0.001, 0.25, 123_456_789.0, 1e9, -1e300, 5e-324];
        let texts_of = numbers.map(number_text);
        insta::assert_snapshot!(texts_of.join(" "), @"0.0000 0.0000 1.000e-5 -9.900e-4 0.0010 0.2500 123456789.0000 1.000e9 -1.000e300 4.941e-324");
        let keys = ["a\nb", "c\td", "\u{1b}[31mred", "e\u{2028}f", "\u{202e}g", "plain é"];
        let columns = vec![
            texts("key", keys.iter().map(|key| Some(*key))),
            floats("value", keys.iter().map(|_| Some(1.0))),
        ];
        let table = text_table(&frame(keys.len(), columns).unwrap()).unwrap();
        assert_eq!(table.lines().count(), 1 + keys.len(), "{table}");
        assert!(
            [r"a\nb", r"\u{1b}[31mred", r"\u{202e}g", "plain é"].iter().all(|key| table.contains(key)),
            "{table}"
        );
    }

    #[test]
    fn requested_empty_column_stays_in_table() {
        let columns = || vec![floats("accuracy", [Some(0.5)].into_iter()), floats("mae", [None].into_iter())];
        let table = |named: bool| {
            let mut text = Vec::new();
            Format::Table.write_named(&mut frame(1, columns()).unwrap(), named, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert!(!table(false).contains("mae"), "{}", table(false));
        let named = table(true);
        assert!(named.contains("mae") && named.lines().nth(1).unwrap().ends_with('-'), "{named}");
    }

    #[test]
    fn long_tables_are_read_version_in_the_middle() {
        let text = written(Format::Table, 1_000);
        assert_eq!(text.lines().count(), 1 + 60 + 1 + 1);
        assert!(text.ends_with("60 of 1000 rows shown; --format csv writes them all\n"), "{text}");
    }
}
