//! Accuracy, AUC and Brier score of all days by release: read from stored projections, beside computing them from
//! Parquet files.

use super::{
    evaluate::{MEASURES, read},
    frames::{all_days, request, timed},
    window::check_equal,
};
use crate::{
    context::Context,
    line::Line,
    peer,
    rounds::{Side, interleave},
};

const COLUMNS: &str = "day,release,labelled,accuracy,auc,brier";

/// Creates a DuckDB file with all events, shared by its benchmarks.
pub(super) fn duckdb(context: &Context) -> anyhow::Result<String> {
    let inputs = context.inputs()?.to_string_lossy().into_owned();
    let folder = context.place.fresh("duckdb")?.to_string_lossy().into_owned();
    peer::run(&context.place, "duckdb_bytes.py", &[&inputs, &folder, &context.data.rows().to_string()])?;
    Ok(folder)
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let opened = context.open(context.stored()?)?;
    let parquet = context.parquet()?.0.to_string_lossy().into_owned();
    let of = |columns| request(context, "evaluations", all_days(context), columns, None);
    let (request, all) = (of(Some(COLUMNS))?, of(None)?);
    let ours = read(&timed(context, &opened, &request)?)?;
    let sides = vec![
        Side::new("Almanac", || read(&timed(context, &opened, &request)?)),
        Side::new("polars", || {
            let theirs = peer::run(&context.place, "polars_evaluate.py", &[&parquet])?;
            check_equal(&ours, &theirs, MEASURES).map(|()| theirs)
        }),
        Side::new("all figures", || read(&timed(context, &opened, &all)?)),
    ];
    let found = interleave(context.rounds, sides);
    let days = context.data.days();
    let work = format!("daily accuracy, AUC, Brier of {days} days, from stored evaluations");
    let peer = ("polars computing them from Parquet", &found[1]);
    let all_work = format!("all figures of {days} days and 2 releases, from stored evaluations");
    Ok(vec![
        Line::of("daily/polars", work, ("ms", "ms"), &found[0], peer),
        Line::alone("daily/all", all_work, "ms", found[2].samples("ms")),
    ])
}
