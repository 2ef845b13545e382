//! Single events: each a request of its own, on many connections.

use super::ndjson::{mlflow, send};
use crate::{
    context::Context,
    line::Line,
    rounds::{Side, interleave},
    uploads,
};

/// Number of connections that post single events.
const CONNECTIONS: usize = 64;
/// Number of events of a round.
const EVENTS: usize = 50_000;
/// Number of events that MLflow gets in a round.
pub(super) const MLFLOW_EVENTS: usize = 500;

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let events = (context.data.rows() / 10).clamp(1, EVENTS);
    let requests = uploads::singles(&context.data, events)?;
    let found = interleave(
        context.rounds,
        vec![
            Side::new("Almanac", || send(context, &requests, CONNECTIONS)),
            Side::new("MLflow log_metric", || mlflow(context, "single", MLFLOW_EVENTS)),
        ],
    );
    let [almanac, mlflow] = &found[..] else { return Ok(Vec::new()) };
    let work = format!("single events, {CONNECTIONS} connections");
    Ok(vec![
        Line::of("single/mlflow", work, ("rows/s", "rows_per_s"), almanac, ("MLflow log_metric", mlflow)),
        Line::alone("single/p50", "the same: p50", "ms", almanac.samples("p50_ms")),
        Line::alone("single/p99", "the same: p99", "ms", almanac.samples("p99_ms")),
        Line::alone(
            "single/cpu",
            "the same: processor time of Almanac",
            "us/row",
            almanac.samples("server_cpu_us"),
        ),
        Line::alone(
            "single/load",
            "the same: of the load generator",
            "us/row",
            almanac.samples("load_cpu_us"),
        ),
    ])
}
