//! Events as dataframes, and dataframes as Arrow bodies and Parquet files.

use std::{fs::File, path::Path};

use anyhow::Context;
use polars::prelude::{
    Column, CompatLevel, DataFrame, Float64Chunked, Int64Chunked, IntoColumn, NewChunkedArray, StringChunked,
    TimeUnit, TimeZone,
};
use polars_io::{SerWriter, ipc::IpcStreamWriter, parquet::write::ParquetWriter};

use super::{BRANCHES, Key, LABELS, Outcome, Prediction, RELEASES};

fn texts<'a>(name: &str, values: impl Iterator<Item = &'a str>) -> Column {
    StringChunked::from_iter_values(name.into(), values).into_column()
}

fn times(name: &str, micros: impl Iterator<Item = i64>) -> Column {
    let times = Int64Chunked::from_iter_values(name.into(), micros);
    times.into_datetime(TimeUnit::Microseconds, Some(TimeZone::UTC)).into_column()
}

fn key(key: &Key) -> &str {
    std::str::from_utf8(key).unwrap_or_default()
}

/// Converts predictions to a frame, with the columns of an upload.
///
/// # Errors
/// Fails if polars refuses, which is not expected.
pub fn predictions(rows: &[Prediction]) -> anyhow::Result<DataFrame> {
    let scores = Float64Chunked::from_iter_values("score".into(), rows.iter().map(|row| row.score));
    let columns = vec![
        texts("key", rows.iter().map(|row| key(&row.key))),
        times("predicted_at", rows.iter().map(|row| row.predicted_at)),
        texts("release", rows.iter().map(|row| RELEASES[row.release])),
        scores.into_column(),
        texts("label", rows.iter().map(|row| LABELS[row.label()])),
        texts("tag.branch", rows.iter().map(|row| BRANCHES[row.branch])),
    ];
    Ok(DataFrame::new(rows.len(), columns)?)
}

/// Converts outcomes to a frame.
///
/// # Errors
/// See [`predictions`].
pub fn outcomes(rows: &[Outcome]) -> anyhow::Result<DataFrame> {
    let columns = vec![
        texts("key", rows.iter().map(|row| key(&row.key))),
        times("predicted_at", rows.iter().map(|row| row.predicted_at)),
        times("observed_at", rows.iter().map(|row| row.truth.observed_at)),
        texts("label", rows.iter().map(|row| LABELS[usize::from(row.truth.is_positive)])),
    ];
    Ok(DataFrame::new(rows.len(), columns)?)
}

/// Writes a frame as an Arrow IPC stream of one record batch, strings as pyarrow sends them.
///
/// # Errors
/// Fails if it cannot be written.
pub fn arrow_stream(mut frame: DataFrame) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    IpcStreamWriter::new(&mut body).with_compat_level(CompatLevel::oldest()).finish(&mut frame)?;
    Ok(body)
}

/// Writes a frame to a Parquet file.
///
/// # Errors
/// Fails if it cannot be written.
pub fn parquet(mut frame: DataFrame, path: &Path) -> anyhow::Result<()> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    ParquetWriter::new(file).finish(&mut frame)?;
    Ok(())
}
