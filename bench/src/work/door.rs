//! MLflow's own client through Almanac's door, beside MLflow's own server: the same program, to one address and then
//! to the other. Since the client takes most of the time, the load generator sends requests like the client's as
//! well.

use std::net::SocketAddr;

use anyhow::ensure;
use serde_json::{Value, json};

use super::{
    ndjson::{self, MLFLOW_ROWS},
    single::MLFLOW_EVENTS,
};
use crate::{
    context::{CONNECTIONS, Context},
    line::Line,
    load::{
        self, Plan, Request,
        http::{self, Connection},
    },
    peer::MlflowServer,
    rounds::{Found, Readings, Side, interleave},
    service::{Service, WORKSPACE},
};

/// Number of metrics in a request of `log_batch`: MLflow's maximum.
const BATCH: usize = 1_000;

/// One of MLflow's two ways to log metrics.
struct Way {
    /// Name in `mlflow_log.py`.
    mode: &'static str,
    /// Name in MLflow's client.
    call: &'static str,
    /// Endpoint.
    endpoint: &'static str,
    /// Number of metrics that MLflow's client sends to MLflow's server, and to the door, in a round.
    rows: usize,
    /// Number of metrics that the load generator sends to the door.
    sent: usize,
    /// Lines: of the client, of the processor time of the servers and of the client, and of the load generator.
    lines: [&'static str; 4],
}

const WAYS: [Way; 2] = [
    Way {
        mode: "batch",
        call: "log_batch of 1,000",
        endpoint: "log-batch",
        rows: MLFLOW_ROWS,
        sent: 200_000,
        lines: ["door/log_batch", "door/log_batch-cpu", "door/log_batch-client", "door/log_batch-load"],
    },
    Way {
        mode: "single",
        call: "log_metric",
        endpoint: "log-metric",
        rows: MLFLOW_EVENTS,
        sent: 5_000,
        lines: ["door/log_metric", "door/log_metric-cpu", "door/log_metric-client", "door/log_metric-load"],
    },
];

/// Starts a new Almanac with the door open.
fn door(context: &Context) -> anyhow::Result<Service> {
    context.runtime.block_on(Service::start_with(&context.place, "door", &["--mlflow"]))
}

/// Returns the path of the door, in the workspace of the benchmarks.
fn door_path() -> String {
    format!("/mlflow/{WORKSPACE}")
}

fn server(context: &Context) -> anyhow::Result<MlflowServer> {
    let folder = context.place.fresh("mlflow")?;
    context.runtime.block_on(MlflowServer::start(&context.place, &folder))
}

/// Sends a request of MLflow's API.
async fn ask(connection: &mut Connection, path: &str, body: Value) -> anyhow::Result<Value> {
    let answer = connection.ask(&http::post(path, "application/json", body.to_string().as_bytes())).await?;
    ensure!(answer.is_good(), "{path}: {}", answer.told());
    Ok(serde_json::from_slice(&answer.body)?)
}

/// Creates a run for each connection, and requests like those of MLflow's client for them.
async fn requests(
    context: &Context,
    way: &Way,
    address: SocketAddr,
    prefix: &str,
    rows: usize,
) -> anyhow::Result<Vec<Request>> {
    let mut connection = Connection::open(address).await?;
    let path = |what: &str| format!("{prefix}/api/2.0/mlflow/{what}");
    let made = ask(&mut connection, &path("experiments/create"), json!({ "name": "load" })).await?;
    let mut runs = Vec::new();
    for _ in 0..CONNECTIONS {
        let body = json!({ "experiment_id": made["experiment_id"], "start_time": 1_735_689_600_000_u64 });
        runs.push(ask(&mut connection, &path("runs/create"), body).await?["run"]["info"]["run_id"].clone());
    }
    let data = &context.data;
    let all = data.batches().flat_map(|(day, batch)| data.predictions(day, batch)).take(rows);
    let metric = |(step, row): (usize, crate::data::Prediction)| json!({ "key": "score", "value": row.score, "timestamp": row.predicted_at / 1_000, "step": step });
    let metrics: Vec<Value> = all.enumerate().map(metric).collect();
    let path = path(&format!("runs/{}", way.endpoint));
    let size = if way.mode == "batch" { BATCH } else { 1 };
    let request = |(at, some): (usize, &[Value])| {
        let mut body = match way.mode {
            "batch" => json!({ "metrics": some, "params": [], "tags": [] }),
            _ => some[0].clone(),
        };
        body["run_id"] = runs[at % runs.len()].clone();
        let bytes = http::post(&path, "application/json", body.to_string().as_bytes());
        Request { bytes: bytes.into(), rows: some.len() }
    };
    Ok(metrics.chunks(size).enumerate().map(request).collect())
}

/// Sends such requests over some connections.
fn load(
    context: &Context,
    way: &Way,
    (address, prefix): (SocketAddr, &str),
    rows: usize,
) -> anyhow::Result<Readings> {
    context.runtime.block_on(async {
        let requests = requests(context, way, address, prefix, rows).await?;
        let plan = Plan { address, connections: CONNECTIONS, every: None };
        let sent = load::run(plan, load::ready(requests)).await?;
        Ok(Readings::from([("rows_per_s".to_owned(), sent.rate())]))
    })
}

fn lines(way: &Way, found: &[Found]) -> Vec<Line> {
    let [by_client, theirs, by_load, theirs_by_load] = found else { return Vec::new() };
    let call = way.call;
    let [client, cpu, own, load] = way.lines;
    let (rate, used) = (("rows/s", "rows_per_s"), ("us/row", "server_cpu_us"));
    let server = "MLflow's own server";
    vec![
        Line::of(
            client,
            format!("MLflow's client, {call}, through the door"),
            rate,
            by_client,
            (server, theirs),
        ),
        Line::of(cpu, "the same: processor time of the server", used, by_client, (server, theirs)),
        Line::alone(
            own,
            "the same: processor time of MLflow's client",
            "us/row",
            by_client.samples("client_cpu_us"),
        ),
        Line::of(
            load,
            format!("the same requests from the load generator, {CONNECTIONS} connections"),
            rate,
            by_load,
            (server, theirs_by_load),
        ),
    ]
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Line>> {
    let mut all = Vec::new();
    for way in &WAYS {
        let rows = context.data.rows().min(way.rows);
        let sent = context.data.rows().min(way.sent);
        let found = interleave(
            context.rounds,
            vec![
                Side::new(&format!("Almanac's door, {}", way.call), || {
                    let service = door(context)?;
                    let url = service.url() + &door_path();
                    ndjson::mlflow_client(context, way.mode, &url, rows, || service.cpu_seconds())
                }),
                Side::new(&format!("MLflow's server, {}", way.call), || {
                    ndjson::mlflow(context, way.mode, rows)
                }),
                Side::new("Almanac's door, load generator", || {
                    let service = door(context)?;
                    load(context, way, (service.address, &door_path()), sent)
                }),
                Side::new("MLflow's server, load generator", || {
                    let server = server(context)?;
                    load(context, way, (server.address, ""), rows)
                }),
            ],
        );
        all.extend(lines(way, &found));
    }
    Ok(all)
}
