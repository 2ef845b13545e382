//! What is made in a workspace by its path: models and lanes.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::{NewDefinition, lane::MAX_LANES};
use serde::Deserialize;
use serde_json::json;
use web::{InPath, Problem, Whole, json_object};

use crate::{AnyEntity, Service, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewModel {
    name: String,
    task: String,
    positive_label: Option<String>,
    threshold: Option<f64>,
    costs: Option<String>,
    interval_level: Option<f64>,
    dimensions: Option<Vec<String>>,
    custom_metrics: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewLanes {
    /// A number, for 4.0 is a whole number in JSON, too.
    lanes: f64,
}

pub(super) async fn create_model(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let NewModel { name, task, positive_label, threshold, costs, interval_level, dimensions, custom_metrics } =
        json_object(&headers, body)?;
    let workspace = service.catalog().workspace(&workspace).await?;
    let new = NewDefinition {
        positive_label,
        threshold,
        costs,
        interval_level,
        dimensions,
        custom_metrics,
        ..Default::default()
    };
    let (definition, now) = (new.first(&task)?, service.clock().now());
    let model = service.catalog().ensure_defined_model(workspace.id(), &name, &definition, now).await?;
    Ok((StatusCode::CREATED, Json(json::any(&AnyEntity::Model(model)))).into_response())
}

pub(super) async fn lanes(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
) -> Result<Response, Problem> {
    let workspace = service.catalog().workspace(&workspace).await?;
    let lanes = service.catalog().lanes(workspace.id()).await?;
    Ok(Json(json!({ "lanes": lanes.count })).into_response())
}

pub(super) async fn set_lanes(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let new: NewLanes = json_object(&headers, body)?;
    let whole = (new.lanes.fract() == 0.0 && (1.0..=f64::from(MAX_LANES)).contains(&new.lanes))
        .then_some(new.lanes as u8);
    let count = whole.ok_or_else(|| {
        let detail = format!("{} lanes are not a whole number from 1 to {MAX_LANES}", new.lanes);
        Problem::new(StatusCode::BAD_REQUEST, detail)
    })?;
    let workspace = service.catalog().workspace(&workspace).await?;
    let lanes = service.catalog().set_lanes(workspace.id(), count).await?;
    Ok(Json(json!({ "lanes": lanes.count })).into_response())
}
