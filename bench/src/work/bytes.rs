//! Bytes an event at rest: everything in the folder of each side.

use crate::{
    context::Context,
    line::{Figures, Line},
    peer, place,
    rounds::{Readings, reading},
    samples::Samples,
};

/// Maximum number of predictions for the databases, which are slow; their figures are by the row.
const MAX_ROWS: usize = 1_000_000;

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let stored = context.stored()?;
    let mut files = 0;
    for name in ["almanac.db", "almanac.db-wal"] {
        files += std::fs::metadata(stored.folder.join(name)).map_or(0, |file| file.len());
    }
    let almanac = Samples::new(vec![files as f64 / stored.events as f64]);
    let parquet = context.parquet().and_then(|(folder, _)| {
        Ok(reading("bytes_per_row", place::bytes_of(folder)? as f64 / stored.events as f64))
    });
    let rows = context.data.rows().min(MAX_ROWS).to_string();
    let database = |name: &str, script: &str| -> anyhow::Result<Readings> {
        let inputs = context.inputs()?.to_string_lossy().into_owned();
        let folder = context.place.fresh(name)?;
        peer::run(&context.place, script, &[&inputs, &folder.to_string_lossy(), &rows])
    };
    let line = |id, peer: &str, found: anyhow::Result<Readings>| {
        let figures = found.map_err(|error| format!("{error:#}")).map(|found| Figures {
            almanac: almanac.clone(),
            peer: Some(Samples::new(found.get("bytes_per_row").copied().into_iter().collect())),
        });
        let work = "bytes an event at rest, predictions and outcomes".to_owned();
        Line { id, work, unit: "B/row", peer: Some(peer.to_owned()), figures }
    };
    Ok(vec![
        line("bytes/parquet", "Parquet zstd, a file a day (polars)", parquet),
        line("bytes/sqlite", "SQLite rows with an index on day", database("sqlite", "sqlite_bytes.py")),
        line("bytes/duckdb", "DuckDB file", database("duckdb-bytes", "duckdb_bytes.py")),
    ])
}
