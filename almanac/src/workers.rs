//! `GET /v1/workers`: the workers that project, by their heartbeats.

use std::sync::Arc;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use event::{Clock, Right, Timestamp};
use projector::heartbeat::{Heartbeat, heartbeats};
use serde_json::{Value, json};
use table::Table;
use web::{Problem, RequiredPermission, Routes};

use crate::openapi;

/// Route of the workers of a table.
pub(crate) fn routes(table: Arc<dyn Table>, clock: Clock) -> Routes {
    let show = move || {
        let (table, clock) = (Arc::clone(&table), clock.clone());
        async move { workers(&*table, clock.now()).await }
    };
    Routes::new().add(openapi::workers(), RequiredPermission::server(Right::Read), show)
}

async fn workers(table: &dyn Table, now: Timestamp) -> Result<Response, Problem> {
    let found = heartbeats(table).await?;
    let workers: Vec<Value> = found.iter().map(|one| document(one, now)).collect();
    Ok(Json(json!({ "workers": workers })).into_response())
}

/// JSON document of a worker.
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

/// Age in seconds.
pub(crate) fn seconds(now: Timestamp, at: Timestamp) -> f64 {
    ((now.micros() - at.micros()) as f64 / 1e6).max(0.0)
}
