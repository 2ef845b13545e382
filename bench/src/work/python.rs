//! The Python client: a frame of all predictions beside the load generator; metrics by frame and by call beside
//! MLflow's client; and the time of a call of its logger in a loop.

use super::{
    ndjson::{self, MAX_ROWS, MLFLOW_ROWS, send},
    single::MLFLOW_EVENTS,
};
use crate::{
    context::{CONNECTIONS, Context},
    line::Line,
    peer,
    rounds::{Readings, Side, interleave},
    service::Service,
    uploads::{self, Form},
};

/// Number of metrics of a round by frame.
const METRICS: usize = 500_000;
/// Number of metrics of a round by call of the logger.
const LOGGED: usize = 50_000;
/// Number of individually timed calls of a round.
const CALLS: usize = 20_000;

/// Runs the client in `mode`, with `rows` rows and `connections` connections, against a new Almanac.
fn client(context: &Context, mode: &str, rows: usize, connections: usize) -> anyhow::Result<Readings> {
    let inputs = context.inputs()?.to_string_lossy().into_owned();
    let service = context.runtime.block_on(Service::start(&context.place, "python"))?;
    let (rows, connections) = (rows.to_string(), connections.to_string());
    peer::run(&context.place, "almanac_client.py", &[mode, &service.url(), &inputs, &rows, &connections])
}

/// Measures a frame, over one connection and over as many as the load generator has.
fn frames(context: &Context) -> anyhow::Result<Vec<Line>> {
    let rows = context.data.rows().min(MAX_ROWS);
    let requests = uploads::predictions(&context.data, Form::Arrow, rows)?;
    let found = interleave(
        context.rounds,
        vec![
            Side::new("Python client", || client(context, "frame", rows, CONNECTIONS)),
            Side::new("load generator", || send(context, &requests, CONNECTIONS)),
            Side::new("Python client, 1 connection", || client(context, "frame", rows, 1)),
            Side::new("load generator, 1 connection", || send(context, &requests, 1)),
        ],
    );
    let [wide, load, narrow, one] = &found[..] else { return Ok(Vec::new()) };
    let rate = ("rows/s", "rows_per_s");
    let work = format!("a pandas frame of {rows} predictions by the Python client");
    Ok(vec![
        Line::of(
            "python/frame",
            format!("{work}, {CONNECTIONS} connections"),
            rate,
            wide,
            ("load generator, Arrow", load),
        ),
        Line::of(
            "python/frame-1",
            format!("{work}, 1 connection"),
            rate,
            narrow,
            ("load generator, Arrow", one),
        ),
        Line::alone(
            "python/frame-cpu",
            "the same: processor time of the client",
            "us/row",
            narrow.samples("client_cpu_us"),
        ),
    ])
}

/// Measures metrics, beside MLflow's client and server.
fn metrics(context: &Context) -> Vec<Line> {
    let rows = context.data.rows();
    let found = interleave(
        context.rounds,
        vec![
            Side::new("Python client, log_metrics", || client(context, "metrics", rows.min(METRICS), 1)),
            Side::new("MLflow log_batch", || ndjson::mlflow(context, "batch", rows.min(MLFLOW_ROWS))),
            Side::new("Python client, logger", || client(context, "logger", rows.min(LOGGED), 1)),
            Side::new("MLflow log_metric", || ndjson::mlflow(context, "single", rows.min(MLFLOW_EVENTS))),
        ],
    );
    let [frame, batch, logger, single] = &found[..] else { return Vec::new() };
    let rate = ("rows/s", "rows_per_s");
    let batched = ("MLflow log_batch of 1,000", batch);
    vec![
        Line::of("python/metrics", "metrics by the Python client, a frame", rate, frame, batched),
        Line::of(
            "python/logger",
            "metrics by the Python client's logger, until durable",
            rate,
            logger,
            ("MLflow log_metric", single),
        ),
    ]
}

/// Measures a call of the logger in a loop that does other work: it must not block, whatever the service does.
fn calls(context: &Context) -> Vec<Line> {
    let calls = context.data.rows().min(CALLS);
    let found = interleave(
        context.rounds,
        vec![Side::new("calls of the logger", || client(context, "calls", calls, 1))],
    );
    let [found] = &found[..] else { return Vec::new() };
    let lines = [
        ("python/call", "a call of the Python client's logger: p99", "answers_p99_us"),
        ("python/call-gone", "the same, the service is gone", "gone_p99_us"),
        ("python/call-hangs", "the same, the service hangs", "hangs_p99_us"),
    ];
    lines.map(|(id, work, name)| Line::alone(id, work, "us", found.samples(name))).into()
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let mut lines = frames(context)?;
    lines.extend(metrics(context));
    lines.extend(calls(context));
    Ok(lines)
}
