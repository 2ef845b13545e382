//! Creating workspaces and models.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{State, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::json;
use store::catalog::{MAX_LANES, Task};
use web::{InPath, Problem};

use crate::service::Ingest;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewWorkspace {
    path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewModel {
    name: String,
    task: String,
    positive_label: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewLanes {
    /// A number, for 4.0 is a whole number in JSON, too.
    lanes: f64,
}

/// A body, when it was not too large.
type Whole = Result<Bytes, BytesRejection>;

fn parse<T: for<'de> Deserialize<'de>>(headers: &HeaderMap, body: Whole) -> Result<T, Problem> {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") {
        let detail = "the content type should be application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let body = body.map_err(|rejection| Problem::new(rejection.status(), rejection.body_text()))?;
    // Left to itself, serde reads an array as well.
    if body.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        let detail = "the body should be a JSON object";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
    }
    serde_json::from_slice(&body)
        .map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))
}

pub(super) async fn create_workspace(
    State(ingest): State<Arc<Ingest>>,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let new: NewWorkspace = parse(&headers, body)?;
    let workspace = ingest.catalog().ensure_workspace(&new.path, ingest.clock().now()).await?;
    let body = json!({ "id": workspace.id().as_str(), "path": workspace.path });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

pub(super) async fn create_model(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let new: NewModel = parse(&headers, body)?;
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let task = Task::parse(&new.task, new.positive_label.as_deref())?;
    let now = ingest.clock().now();
    let model = ingest.catalog().ensure_model(workspace.id(), &new.name, &task, now).await?;
    let body = json!({
        "id": model.entity.id.as_str(),
        "name": model.entity.name,
        "task": model.task.name(),
        "positive_label": model.task.positive_label(),
    });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

pub(super) async fn set_lanes(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let new: NewLanes = parse(&headers, body)?;
    let whole = (new.lanes.fract() == 0.0 && (1.0..=f64::from(MAX_LANES)).contains(&new.lanes))
        .then_some(new.lanes as u8);
    let count = whole.ok_or_else(|| {
        let detail = format!("{} lanes are not a whole number from 1 to {MAX_LANES}", new.lanes);
        Problem::new(StatusCode::BAD_REQUEST, detail)
    })?;
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let lanes = ingest.catalog().set_lanes(workspace.id(), count, ingest.clock().now()).await?;
    Ok(Json(json!({ "lanes": lanes.count, "since": lanes.since.to_string() })).into_response())
}
