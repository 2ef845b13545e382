//! Workspaces, and creating models in them.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use store::{
    catalog::{MAX_LANES, Task, Workspace, WorkspacePage},
    key::Counted,
};
use web::{InPath, Problem};

use super::body::{Whole, parse};
use crate::Service;

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

pub(super) async fn create_workspace(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let new: NewWorkspace = parse(&headers, body)?;
    let workspace = service.catalog().ensure_workspace(&new.path, service.clock().now()).await?;
    let body = json!({ "id": workspace.id().as_str(), "path": workspace.path });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

pub(super) async fn create_model(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let new: NewModel = parse(&headers, body)?;
    let workspace = service.catalog().workspace(&workspace).await?;
    let task = Task::parse(&new.task, new.positive_label.as_deref())?;
    let now = service.clock().now();
    let model = service.catalog().ensure_model(workspace.id(), &new.name, &task, now).await?;
    let body = json!({
        "id": model.entity.id.as_str(),
        "name": model.entity.name,
        "task": model.task.name(),
        "positive_label": model.task.positive_label(),
    });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

pub(super) async fn set_lanes(
    State(service): State<Arc<Service>>,
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
    let workspace = service.catalog().workspace(&workspace).await?;
    let lanes = service.catalog().set_lanes(workspace.id(), count, service.clock().now()).await?;
    Ok(Json(json!({ "lanes": lanes.count, "since": lanes.since.to_string() })).into_response())
}

pub(super) async fn list(State(service): State<Arc<Service>>) -> Result<Response, Problem> {
    let workspaces = service.catalog().workspaces().await?;
    Ok(Json(json!({ "workspaces": workspaces.iter().map(workspace_json).collect::<Vec<_>>() }))
        .into_response())
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
) -> Result<Response, Problem> {
    let workspace = service.catalog().workspace(&workspace).await?;
    Ok(Json(page_json(&service.catalog().page(workspace.id()).await?)).into_response())
}

fn workspace_json(workspace: &Workspace) -> Value {
    json!({
        "id": workspace.id().as_str(),
        "path": workspace.path,
        "created_at": workspace.entity.created_at.to_string(),
    })
}

fn page_json(page: &WorkspacePage) -> Value {
    let counts = |counted: &Counted| page.counts.get(counted).map_or(json!({}), |counts| json!(counts));
    let models = page.models.iter().map(|model| {
        json!({
            "name": model.entity.name,
            "task": model.task.name(),
            "positive_label": model.task.positive_label(),
            "counts": page.model_counts(&model.entity.name),
        })
    });
    let releases = page.releases.iter().map(|release| {
        json!({
            "name": release.entity.name,
            "model": release.model,
            "configuration": release.configuration,
            "environment": release.environment,
            "counts": counts(&Counted::Release(release.entity.name.clone())),
        })
    });
    let mut value = workspace_json(&page.workspace);
    value["models"] = models.collect();
    value["configurations"] = page
        .configurations
        .iter()
        .map(|configuration| json!({ "name": configuration.entity.name }))
        .collect();
    value["releases"] = releases.collect();
    value["counts"] = counts(&Counted::Workspace);
    value
}
