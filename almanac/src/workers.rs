//! `GET /v1/workers`: which workers project, as each says with its heartbeat.

use std::sync::Arc;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use event::{Clock, Right, Timestamp};
use projector::heartbeat::{Heartbeat, heartbeats};
use serde_json::{Value, json};
use table::Table;
use web::{
    Demand, Operation, Problem, Routes, answer,
    openapi::{ObjectBuilder, Type},
    schema,
};

/// Where they are.
pub(crate) const PATH: &str = "/v1/workers";

const JSON: &str = "application/json";

/// The route of the workers of a table.
pub(crate) fn routes(table: Arc<dyn Table>, clock: Clock) -> Routes {
    let show = move || {
        let (table, clock) = (Arc::clone(&table), clock.clone());
        async move { workers(&*table, clock.now()).await }
    };
    Routes::new().add(operation(), Demand::server(Right::Read), show)
}

async fn workers(table: &dyn Table, now: Timestamp) -> Result<Response, Problem> {
    let found = heartbeats(table).await?;
    let workers: Vec<Value> = found.iter().map(|one| document(one, now)).collect();
    Ok(Json(json!({ "workers": workers })).into_response())
}

fn operation() -> Operation {
    let says = |says: &'static str| {
        ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).description(Some(says))
    };
    let counts = |says: &'static str| schema::count().description(Some(says));
    let worker = [
        ("worker", schema::string().description(Some("What the worker is called.")).into()),
        ("heartbeat_seconds_ago", says("When it last showed that it is alive, by its own clock.").into()),
        ("shards", counts("How many shards of the change feed it reads.").into()),
        ("dirty_days", counts("How many days it has to write.").into()),
        ("oldest_dirty_seconds", says("For how long the oldest of them has waited.").into()),
        ("cas_retries", counts("How often it folded again, since somebody else wrote in between.").into()),
        ("layout", counts("The layout that it writes.").into()),
    ];
    let list = schema::object([("workers", schema::array(schema::object(worker)).into())]);
    Operation::get(PATH, "workers")
        .tag("service")
        .summary("List the workers of the projector that were there in the last hour")
        .answers(StatusCode::OK, answer("By name.", JSON, list))
        .fails(&[StatusCode::SERVICE_UNAVAILABLE])
}

/// A worker, as programs read it.
pub(crate) fn document(one: &Heartbeat, now: Timestamp) -> Value {
    json!({
        "worker": one.worker,
        "heartbeat_seconds_ago": seconds(now, one.at),
        "shards": one.shards,
        "dirty_days": one.dirty,
        "oldest_dirty_seconds": one.oldest_ms as f64 / 1e3,
        "cas_retries": one.retries,
        "layout": one.layout,
    })
}

/// How long ago something was, in seconds.
pub(crate) fn seconds(now: Timestamp, at: Timestamp) -> f64 {
    ((now.micros() - at.micros()) as f64 / 1e6).max(0.0)
}
