//! Figures computed from the events: predictions joined with outcomes by key and instant, then judged, by
//! day and release. This is the work of `almanac query evaluations --as-of`.

use std::time::Duration;

use log::segment_item::CLOSED_AFTER_SECONDS;
use polars::prelude::{ChunkAgg, DataFrame};

use super::{
    daily::duckdb,
    frames::{all_days, mean, request, timed},
    window::check_equal,
};
use crate::{
    context::Context,
    line::Line,
    peer,
    rounds::{Readings, Side, interleave, reading},
};

/// Figures that must agree between the sides.
pub(super) const MEASURES: &[&str] = &["labelled", "accuracy", "auc", "brier"];

/// An instant after all others, so that everything counts and nothing stored is used.
const AS_OF: &str = "9999-12-31";

/// Returns the time of evaluations, and their figures.
pub(super) fn read((ms, frame): &(f64, DataFrame)) -> anyhow::Result<Readings> {
    let mut readings = reading("ms", *ms);
    let labelled: i64 = frame.column("labelled")?.i64()?.sum().unwrap_or(0);
    readings.insert("labelled".to_owned(), labelled as f64);
    for name in ["accuracy", "auc", "brier"] {
        readings.insert(name.to_owned(), mean(frame, name)?);
    }
    Ok(readings)
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let opened = context.open(context.stored()?)?;
    let parquet = context.parquet()?.0.to_string_lossy().into_owned();
    let database = duckdb(context).unwrap_or_else(|error| format!("{error:#}"));
    let request = request(context, "evaluations", all_days(context), None, Some(AS_OF))?;
    // Events of the last moments are not part of the past yet.
    std::thread::sleep(Duration::from_secs(CLOSED_AFTER_SECONDS.unsigned_abs() + 1));
    let ours = read(&timed(context, &opened, &request)?)?;
    let of_peer = |name: &str, script: &'static str, folder: &'static str, measures: &'static [&str]| {
        let (ours, folder) = (&ours, if folder == "duckdb" { &database } else { &parquet });
        Side::new(name, move || {
            let theirs = peer::run(&context.place, script, &[folder])?;
            check_equal(ours, &theirs, measures).map(|()| theirs)
        })
    };
    let sides = vec![
        Side::new("Almanac", || read(&timed(context, &opened, &request)?)),
        of_peer("polars", "polars_evaluate.py", "parquet", MEASURES),
        of_peer("DuckDB", "duckdb_evaluate.py", "duckdb", MEASURES),
        // NannyML judges both releases together and has no Brier score, so only the join can be compared.
        of_peer("NannyML", "nannyml_evaluate.py", "parquet", &["labelled"]),
    ];
    let found = interleave(context.rounds, sides);
    let work = format!("evaluations of {} days from events, join included", context.data.days());
    let line = |id, peer, at: usize| Line::of(id, &work, ("ms", "ms"), &found[0], (peer, &found[at]));
    Ok(vec![
        line("evaluate/polars", "polars on Parquet", 1),
        line("evaluate/duckdb", "DuckDB", 2),
        line("evaluate/nannyml", "NannyML, pandas for the join", 3),
    ])
}
