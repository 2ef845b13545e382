//! Columns become a dataframe: many pieces, one frame, the columns that were asked for.

use polars::prelude::{
    Column as Series, DataFrame, Float64Chunked, Int32Chunked, Int64Chunked, IntoColumn, NewChunkedArray,
    PolarsError, StringChunked, TimeUnit, TimeZone,
};
use store::{Column, Columns, Error, Result, event::FieldType};

/// Why polars failed, in our terms: what it was given came from the store.
pub(crate) fn failed(error: PolarsError) -> Error {
    Error::corrupt("the dataframe cannot be built").because(error)
}

/// A frame of columns of equal height.
pub(crate) fn frame(height: usize, columns: Vec<Series>) -> Result<DataFrame> {
    DataFrame::new(height, columns).map_err(failed)
}

/// Counts, null where there is none.
pub(crate) fn ints(name: &str, values: impl Iterator<Item = Option<u64>>) -> Series {
    Int64Chunked::from_iter_options(name.into(), values.map(|count| count.map(|count| count as i64)))
        .into_column()
}

/// Numbers, null where there is none.
pub(crate) fn floats(name: &str, values: impl Iterator<Item = Option<f64>>) -> Series {
    Float64Chunked::from_iter_options(name.into(), values).into_column()
}

/// Strings, null where there is none.
pub(crate) fn texts<'a>(name: &str, values: impl Iterator<Item = Option<&'a str>>) -> Series {
    StringChunked::from_iter_options(name.into(), values).into_column()
}

/// Days.
pub(crate) fn days(name: &str, values: Vec<i32>) -> Series {
    Int32Chunked::from_vec(name.into(), values).into_date().into_column()
}

/// Instants in microseconds.
pub(crate) fn times(name: &str, values: impl Iterator<Item = Option<i64>>) -> Series {
    let values = Int64Chunked::from_iter_options(name.into(), values);
    values.into_datetime(TimeUnit::Microseconds, Some(TimeZone::UTC)).into_column()
}

/// The column `name` of several pieces, one under the other; null where a piece has none.
pub(crate) fn stacked(name: &str, kind: FieldType, pieces: &[Columns]) -> Series {
    match kind {
        FieldType::Float => floats(name, cells(name, pieces, Column::float)),
        FieldType::Time => times(name, cells(name, pieces, Column::time)),
        FieldType::Text => texts(name, cells(name, pieces, Column::text)),
    }
}

fn cells<'a, T>(
    name: &str,
    pieces: &'a [Columns],
    get: impl Fn(&'a Column, usize) -> Option<T> + Copy,
) -> impl Iterator<Item = Option<T>> {
    pieces.iter().flat_map(move |piece| {
        let column = piece.column(name);
        (0..piece.rows).map(move |row| column.and_then(|column| get(column, row)))
    })
}
