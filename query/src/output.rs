//! Dataframes as text and files.

use std::io::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table as TextTable, presets};
use event::{Error, Result, Timestamp, time::DAY_MICROS};
use fold::Figure;
use polars::prelude::{
    AnyValue, Column, DataFrame, DataType, IntoColumn, NewChunkedArray, Series, StringChunked, TimeUnit,
};
use polars_io::{
    SerWriter,
    csv::write::CsvWriter,
    ipc::IpcWriter,
    json::{JsonFormat, JsonWriter},
    parquet::write::ParquetWriter,
};

use crate::{evaluation_rows::fairness_columns, frame::failed, intervals, request::What, rollups};

/// How many rows a table for people shows: the first half and the last.
const TABLE_ROWS: usize = 60;

/// How many rows become text at a time.
const PIECE_ROWS: usize = 16_384;

/// How a dataframe is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns for people; long ones are cut in the middle.
    Table,
    /// Comma-separated values with a header.
    Csv,
    /// A JSON object a line.
    Ndjson,
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow IPC file.
    Ipc,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 5] = [Format::Table, Format::Csv, Format::Ndjson, Format::Parquet, Format::Ipc];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Table => "table",
            Format::Csv => "csv",
            Format::Ndjson => "ndjson",
            Format::Parquet => "parquet",
            Format::Ipc => "ipc",
        }
    }

    /// Reads a name.
    ///
    /// # Errors
    /// `Invalid`, naming what there is.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("the format `{name}` is none of {names}"))
        })
    }

    /// Whether it is no text.
    pub fn is_binary(self) -> bool {
        matches!(self, Format::Parquet | Format::Ipc)
    }

    /// Writes a dataframe.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(self, frame: &mut DataFrame, mut to: impl Write) -> Result<()> {
        let cannot = |error| Error::unavailable("the result cannot be written").because(error);
        match self {
            Format::Table => writeln!(to, "{}", text_table(frame)).map_err(cannot),
            Format::Csv => {
                for (at, piece) in pieces(frame).enumerate() {
                    let writer = CsvWriter::new(&mut to).include_header(at == 0);
                    { writer }.finish(&mut with_text_times(&piece)?).map_err(failed)?;
                }
                Ok(())
            }
            Format::Ndjson => {
                for piece in pieces(frame) {
                    let writer = JsonWriter::new(&mut to).with_json_format(JsonFormat::JsonLines);
                    { writer }.finish(&mut with_text_times(&piece)?).map_err(failed)?;
                }
                Ok(())
            }
            Format::Parquet => ParquetWriter::new(to).finish(frame).map(|_| ()).map_err(failed),
            Format::Ipc => IpcWriter::new(to).finish(frame).map_err(failed),
        }
    }
}

/// A frame in pieces of so many rows that their text is small; at least one.
fn pieces(frame: &DataFrame) -> impl Iterator<Item = DataFrame> {
    let starts = (0..frame.height().max(1)).step_by(PIECE_ROWS);
    starts.map(|start| frame.slice(start as i64, PIECE_ROWS))
}

/// In text, instants are RFC 3339 and days `YYYY-MM-DD`.
fn with_text_times(frame: &DataFrame) -> Result<DataFrame> {
    let columns = frame.columns().iter().map(|column| match column.dtype() {
        DataType::Datetime(..) | DataType::Date => {
            let series = column.as_materialized_series();
            let texts = (0..series.len()).map(|row| series.get(row).ok().and_then(|value| time_text(&value)));
            StringChunked::from_iter_options(column.name().clone(), texts).into_column()
        }
        _ => column.clone(),
    });
    DataFrame::new(frame.height(), columns.collect()).map_err(failed)
}

fn time_text(value: &AnyValue<'_>) -> Option<String> {
    match value {
        AnyValue::Datetime(micros, TimeUnit::Microseconds, _) => {
            Some(Timestamp::from_micros(*micros)?.to_string())
        }
        AnyValue::Date(day) => Some(Timestamp::from_micros(i64::from(*day) * DAY_MICROS)?.day().to_string()),
        _ => None,
    }
}

/// A table for people: numbers to the right, columns without any value left out.
pub fn text_table(frame: &DataFrame) -> String {
    let columns = frame.columns().iter().map(Column::as_materialized_series);
    let columns: Vec<&Series> =
        columns.filter(|column| column.null_count() < column.len() || column.is_empty()).collect();
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|column| column.name().to_string()));
    let rows = frame.height();
    let shown: Vec<usize> = if rows <= TABLE_ROWS {
        (0..rows).collect()
    } else {
        (0..TABLE_ROWS / 2).chain(rows - TABLE_ROWS / 2..rows).collect()
    };
    for &row in &shown {
        if rows > TABLE_ROWS && row == rows - TABLE_ROWS / 2 {
            table.add_row(columns.iter().map(|_| "...".to_owned()));
        }
        table.add_row(columns.iter().map(|column| cell(&column.get(row).unwrap_or(AnyValue::Null))));
    }
    for (column, styled) in columns.iter().zip(table.column_iter_mut()) {
        let is_number = column.dtype().is_numeric();
        styled.set_cell_alignment(if is_number { CellAlignment::Right } else { CellAlignment::Left });
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    match rows > TABLE_ROWS {
        false => lines.join("\n"),
        true => format!(
            "{}\n{} of {rows} rows shown; --format csv writes them all",
            lines.join("\n"),
            shown.len()
        ),
    }
}

/// Leaves out what a table shows only when it is asked for: between which ranks quantiles stand, and of evaluations all but
/// the main figures.
pub fn shorten(frame: &mut DataFrame, what: What) {
    let is_short = |name: &str| match what {
        What::Evaluations => match intervals::named(name) {
            Some(column) => column.is_main(),
            None if fairness_columns().any(|column| column == name) => false,
            None => Figure::named(name).is_none_or(|figure| figure.is_main),
        },
        _ => !rollups::is_rank(name),
    };
    let names: Vec<_> = frame.columns().iter().map(|column| column.name().clone()).collect();
    for name in names.iter().filter(|name| !is_short(name)) {
        // It is there, and nothing depends on it.
        _ = frame.drop_in_place(name);
    }
}

/// A number for people: four places, or four digits and a power of ten where places would show nothing
/// of it, or too many digits.
pub fn number_text(number: f64) -> String {
    match number.abs() {
        0.0 => "0.0000".to_owned(),
        size if (1e-3..1e9).contains(&size) => format!("{number:.4}"),
        _ => format!("{number:.3e}"),
    }
}

/// A text that stays in its cell: what would break the line or steer a terminal is escaped.
fn on_one_line(text: &str) -> String {
    let one = |letter: char| match letter {
        letter if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') => {
            letter.escape_default().to_string()
        }
        letter => letter.to_string(),
    };
    match text.chars().any(|letter| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}')) {
        true => text.chars().map(one).collect(),
        false => text.to_owned(),
    }
}

fn cell(value: &AnyValue<'_>) -> String {
    match value {
        AnyValue::Null => "-".to_owned(),
        AnyValue::Float64(number) => number_text(*number),
        AnyValue::String(text) => on_one_line(text),
        AnyValue::Datetime(..) | AnyValue::Date(_) => time_text(value).unwrap_or_default(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
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
    fn a_table_shows_tiny_and_huge_numbers_and_keeps_a_key_on_its_line() {
        let numbers = [0.0, -0.0, 1e-5, -0.00099, 0.001, 0.25, 123_456_789.0, 1e9, -1e300, 5e-324];
        let texts_of = numbers.map(number_text);
        insta::assert_snapshot!(texts_of.join(" "), @"0.0000 0.0000 1.000e-5 -9.900e-4 0.0010 0.2500 123456789.0000 1.000e9 -1.000e300 4.941e-324");
        let keys = ["a\nb", "c\td", "\u{1b}[31mred", "e\u{2028}f", "plain é"];
        let columns = vec![
            texts("key", keys.iter().map(|key| Some(*key))),
            floats("value", keys.iter().map(|_| Some(1.0))),
        ];
        let table = text_table(&frame(keys.len(), columns).unwrap());
        assert_eq!(table.lines().count(), 1 + keys.len(), "{table}");
        assert!(
            table.contains(r"a\nb") && table.contains(r"\u{1b}[31mred") && table.contains("plain é"),
            "{table}"
        );
    }

    #[test]
    fn long_tables_are_cut_in_the_middle() {
        let text = written(Format::Table, 1_000);
        assert_eq!(text.lines().count(), 1 + 60 + 1 + 1);
        assert!(text.ends_with("60 of 1000 rows shown; --format csv writes them all\n"), "{text}");
    }
}
