//! Named baselines of releases over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use catalog::{http::baselines_schema, json::baselines_json};
use event::{Error, Window, id::check_name};
use log::key::{EntityId, EntityKind};
use serde::Deserialize;
use serde_json::json;
use web::{
    InPath, Operation, Problem, Whole, answer, content, json_object,
    openapi::{RefOr, Schema},
    schema,
};

use super::api::JSON;
use crate::service::Ingest;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewBaseline {
    release: String,
    name: String,
    days: Option<String>,
}

fn answered() -> RefOr<Schema> {
    schema::object([("release", schema::name().into()), ("baselines", baselines_schema())]).into()
}

pub(super) fn set_operation() -> Operation {
    let days = schema::nullable(schema::days()).description(Some(
        "The first and the last day, with two dots between, or one day; null to remove the baseline.",
    ));
    let body = schema::object([("release", schema::name().into()), ("name", schema::name().into())]);
    let body = body.property("days", days);
    let example = json!({ "release": "v1", "name": "spring", "days": "2026-04-01..2026-05-31" });
    Operation::put("/v1/workspaces/{category}/{name}/baselines", "set_baseline")
        .tag("releases")
        .summary("Name days as a baseline of a release, or remove one")
        .description("`reference=release:v1/spring` takes these days then, wherever it takes those that the release was trained on. What was there by this name is replaced. Without days it is removed.")
        .body("Which release, and which days.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::OK, answer("The baselines of the release.", JSON, answered()))
}

async fn at(ingest: &Ingest, workspace: &str, release: &str) -> Result<EntityId, Error> {
    check_name(release)?;
    let workspace = ingest.catalog().workspace(workspace).await?;
    ingest.catalog().resolve(EntityKind::Release, &format!("{}/{release}", workspace.path)).await
}

pub(super) async fn set(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: NewBaseline = json_object(&headers, new)?;
    let days = new.days.as_deref().map(str::parse::<Window>).transpose();
    let days = days.map_err(|error| Error::invalid(format!("days: {error}")))?;
    let at = at(&ingest, &workspace, &new.release).await?;
    let now = ingest.clock().now();
    let baselines = ingest.catalog().set_baseline(&at, &new.name, days, now).await?;
    Ok(Json(baselines_json(&new.release, &baselines)).into_response())
}
