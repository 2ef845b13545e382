//! Predictions of 7 of all days as a dataframe.

use anyhow::ensure;

use super::frames::{request, timed};
use crate::{
    context::Context,
    line::Line,
    peer,
    rounds::{Readings, Side, interleave, reading},
};

/// Days that are read: the third week.
pub(super) const WEEK: (usize, usize) = (14, 20);

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let opened = context.open(context.stored()?)?;
    let rows: usize = (WEEK.0..=WEEK.1).map(|day| context.data.rows_of(day)).sum();
    let almanac = |columns: Option<&'static str>| {
        let opened = &opened;
        Side::new("Almanac", move || {
            let (ms, frame) = timed(context, opened, &request(context, "predictions", WEEK, columns, None)?)?;
            ensure!(frame.height() == rows, "{} rows instead of {rows}", frame.height());
            Ok(reading("ms", ms))
        })
    };
    let (from, to) = (context.data.day(WEEK.0).to_string(), context.data.day(WEEK.1).to_string());
    let (from, to) = (from.as_str(), to.as_str());
    let of_peer = |script: &'static str, folder: String, columns: &'static str| {
        Side::new(script, move || {
            let found = peer::run(&context.place, script, &[&folder, from, to, columns])?;
            ensure!(found.get("rows") == Some(&(rows as f64)), "{script} read other rows: {found:?}");
            Ok(found)
        })
    };
    let parquet = context.parquet()?.0.to_string_lossy().into_owned();
    let duckdb = super::daily::duckdb(context);
    let mut lines = Vec::new();
    for (ids, columns, work) in [
        (["window-all/polars", "window-all/duckdb"], None, "to a frame, all columns"),
        (["window-three/polars", "window-three/duckdb"], Some("key,score,label"), "to a frame, 3 columns"),
    ] {
        let named = columns.unwrap_or("all");
        let database = duckdb.as_ref().map_or_else(|error| format!("{error:#}"), Clone::clone);
        let sides = vec![
            almanac(columns),
            of_peer("polars_window.py", parquet.clone(), named),
            of_peer("duckdb_window.py", database, named),
        ];
        let found = interleave(context.rounds, sides);
        let line = |at: usize, peer| Line::of(ids[at - 1], work, ("ms", "ms"), &found[0], (peer, &found[at]));
        lines.push(line(1, "polars on Parquet"));
        lines.push(line(2, "DuckDB to a polars frame"));
    }
    Ok(lines)
}

/// Checks that the results of two sides agree, so that they did the same work.
pub(super) fn check_equal(ours: &Readings, theirs: &Readings, names: &[&str]) -> anyhow::Result<()> {
    for name in names {
        let (a, b) = (ours.get(*name), theirs.get(*name));
        let is_close = a.zip(b).is_some_and(|(a, b)| (a - b).abs() <= 1e-9 * a.abs().max(1.0));
        ensure!(is_close, "they do not agree on {name}: {a:?} and {b:?}");
    }
    Ok(())
}
