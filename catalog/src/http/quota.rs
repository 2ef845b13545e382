//! How much may be appended to a workspace, over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use serde_json::json;
use web::{
    InPath, Operation, Problem, Whole, answer, content, json_object,
    openapi::{RefOr, Schema, Type},
    schema,
};

use super::api::JSON;
use crate::{
    Service,
    quota::{LIMITS, LimitValues, MAX_QUOTA, Quota},
};

const PATH: &str = "/v1/workspaces/{category}/{name}/quota";

pub(super) fn operation() -> Operation {
    described(Operation::get(PATH, "quota"), "Tell how much may be appended to a workspace")
}

pub(super) fn change_operation() -> Operation {
    let example = json!({ "rows_per_second": 100_000, "bytes_per_day": 10_000_000_000u64 });
    described(Operation::patch(PATH, "change_quota"), "Change how much may be appended to a workspace")
        .description("A limit that is given is set, one that is null is removed, and the rest stays. All ingest services together keep to a limit, and notice a change within 5 seconds.")
        .body("The limits to change.", [(JSON, content(quota_schema(), Some(example)))])
}

fn described(operation: Operation, summary: &str) -> Operation {
    let limits = answer("The limits; null where there is none.", JSON, schema::object(fields()));
    operation.tag("catalog").summary(summary).answers(StatusCode::OK, limits)
}

fn fields() -> impl Iterator<Item = (&'static str, RefOr<Schema>)> {
    LIMITS.iter().map(|limit| {
        let most = schema::integer(1..=MAX_QUOTA as usize)
            .schema_type(schema::types(&[Type::Integer], true))
            .description(Some(limit.says));
        (limit.name, most.into())
    })
}

/// The limits of a quota that a client sets.
pub fn quota_schema() -> RefOr<Schema> {
    fields().fold(schema::closed(), |new, (name, schema)| new.property(name, schema)).into()
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
) -> Result<Json<Quota>, Problem> {
    let workspace = service.catalog().workspace(&workspace).await?;
    Ok(Json(service.catalog().quota(workspace.id()).await?))
}

pub(super) async fn change(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Json<Quota>, Problem> {
    let wanted = json_object::<LimitValues>(&headers, new)?;
    let workspace = service.catalog().workspace(&workspace).await?;
    Ok(Json(service.catalog().change_quota(workspace.id(), |quota| quota.change(&wanted)).await?))
}
