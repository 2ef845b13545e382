//! NDJSON over HTTP until it is durable, in batches of 10,000 rows.

use crate::{
    context::{CONNECTIONS, Context},
    data::BATCH_ROWS,
    line::Line,
    load::{self, Plan},
    peer::{self, MlflowServer},
    rounds::{Readings, Side, interleave},
    service::Service,
    uploads::{self, Form},
};

/// Maximum number of rows of a round: enough for some seconds.
pub(super) const MAX_ROWS: usize = 1_000_000;
/// Number of rows that MLflow gets in a round, for about the same duration.
pub(super) const MLFLOW_ROWS: usize = 20_000;

/// Sends requests to an Almanac on a new table, and returns the readings.
pub(super) fn send(
    context: &Context,
    requests: &[load::Request],
    connections: usize,
) -> anyhow::Result<Readings> {
    let service = context.runtime.block_on(Service::start(&context.place, "ingest"))?;
    send_to(context, service, requests, connections)
}

/// Sends requests to an empty service.
pub(super) fn send_to(
    context: &Context,
    service: Service,
    requests: &[load::Request],
    connections: usize,
) -> anyhow::Result<Readings> {
    context.runtime.block_on(async {
        let idle = service.cpu_seconds();
        let plan = Plan { address: service.address, connections, every: None };
        let outcome = load::run(plan, load::ready(requests.to_vec())).await?;
        let rows = outcome.rows() as f64;
        Ok(Readings::from([
            ("rows_per_s".to_owned(), outcome.rate()),
            ("p50_ms".to_owned(), outcome.latency_ms(0.5)),
            ("p99_ms".to_owned(), outcome.latency_ms(0.99)),
            ("load_cpu_us".to_owned(), outcome.own_cpu / rows * 1e6),
            ("server_cpu_us".to_owned(), (service.cpu_seconds() - idle) / rows * 1e6),
            ("peak_mb".to_owned(), service.peak_megabytes()),
        ]))
    })
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let rows = context.data.rows().min(MAX_ROWS);
    let requests = uploads::predictions(&context.data, Form::Lines, rows)?;
    let sent: usize = requests.iter().map(|request| request.rows).sum();
    let found = interleave(
        context.rounds,
        vec![
            Side::new("Almanac", || send(context, &requests, CONNECTIONS)),
            Side::new("SQLite", || sqlite(context, sent)),
            Side::new("chDB", || chdb(context, sent, "ndjson")),
            Side::new("MLflow log_batch", || mlflow(context, "batch", rows.min(MLFLOW_ROWS))),
        ],
    );
    let [almanac, sqlite, chdb, mlflow] = &found[..] else { return Ok(Vec::new()) };
    // A day of few rows fills no batch.
    let batch = context.data.rows_of(0).min(BATCH_ROWS);
    let work = format!("NDJSON, batches of {batch}, {CONNECTIONS} connections");
    let rate = ("rows/s", "rows_per_s");
    Ok(vec![
        Line::of("ndjson/sqlite", &work, rate, almanac, (SQLITE, sqlite)),
        Line::of("ndjson/chdb", &work, rate, almanac, ("chDB, MergeTree, NDJSON, fsync", chdb)),
        Line::of("ndjson/mlflow", &work, rate, almanac, ("MLflow log_batch of 1,000", mlflow)),
        Line::alone("ndjson/p99", "the same: p99 of a batch", "ms", almanac.samples("p99_ms")),
        Line::alone(
            "ndjson/cpu",
            "the same: processor time of Almanac",
            "us/row",
            almanac.samples("server_cpu_us"),
        ),
        Line::alone(
            "ndjson/load",
            "the same: of the load generator",
            "us/row",
            almanac.samples("load_cpu_us"),
        ),
    ])
}

/// Name of the side with rows of SQLite.
pub(super) const SQLITE: &str = "SQLite rows";

/// Inserts rows into a new SQLite file.
pub(super) fn sqlite(context: &Context, rows: usize) -> anyhow::Result<Readings> {
    let inputs = context.inputs()?.to_string_lossy().into_owned();
    let folder = context.place.fresh("sqlite")?;
    let args = [&inputs, &*folder.to_string_lossy(), &rows.to_string()];
    peer::run(&context.place, "sqlite_insert.py", &args)
}

/// Inserts rows of a form into a new database of embedded ClickHouse.
pub(super) fn chdb(context: &Context, rows: usize, form: &str) -> anyhow::Result<Readings> {
    let inputs = context.inputs()?.to_string_lossy().into_owned();
    let folder = context.place.fresh("chdb")?;
    let args = [&inputs, &*folder.to_string_lossy(), &rows.to_string(), form];
    peer::run(&context.place, "chdb_insert.py", &args)
}

/// Measures MLflow: a new server and database, and a client of its own in `mode` logging `rows` metrics.
pub(super) fn mlflow(context: &Context, mode: &str, rows: usize) -> anyhow::Result<Readings> {
    let folder = context.place.fresh("mlflow")?;
    let server = context.runtime.block_on(MlflowServer::start(&context.place, &folder))?;
    mlflow_client(context, mode, &server.url(), rows, || server.cpu_seconds())
}

/// Runs MLflow's client in `mode`, logging `rows` metrics to the server at `url`. `used` returns the processor time
/// of that server so far.
pub(super) fn mlflow_client(
    context: &Context,
    mode: &str,
    url: &str,
    rows: usize,
    used: impl Fn() -> f64,
) -> anyhow::Result<Readings> {
    let inputs = context.inputs()?.to_string_lossy().into_owned();
    let idle = used();
    let mut readings = peer::run(&context.place, "mlflow_log.py", &[mode, url, &inputs, &rows.to_string()])?;
    let logged = readings.get("logged").copied().unwrap_or(f64::NAN);
    readings.insert("server_cpu_us".to_owned(), (used() - idle) / logged * 1e6);
    Ok(readings)
}
