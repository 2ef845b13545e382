//! How much may be appended to a workspace, over HTTP.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use event::Error;
use serde_json::{Number, Value, json};
use web::{
    InPath, Operation, Problem, Whole, answer, content, json_object,
    openapi::{RefOr, Schema, Type},
    schema,
};

use super::api::JSON;
use crate::{
    Service,
    quota::{LIMITS, MAX_QUOTA, Quota},
};

pub(super) fn operation() -> Operation {
    Operation::get("/v1/workspaces/{category}/{name}/quota", "quota")
        .tag("catalog")
        .summary("Tell how much may be appended to a workspace")
        .answers(StatusCode::OK, answer("The limits; null where there is none.", JSON, whole()))
}

pub(super) fn set_operation() -> Operation {
    let example = json!({ "rows_per_second": 100_000, "bytes_per_day": 10_000_000_000u64 });
    Operation::put("/v1/workspaces/{category}/{name}/quota", "set_quota")
        .tag("catalog")
        .summary("Set how much may be appended to a workspace")
        .description("All is set: a limit that is not given is removed. All ingest services together keep to a limit, and notice a change within 5 seconds.")
        .body("The limits.", [(JSON, content(quota_schema(), Some(example)))])
        .answers(StatusCode::OK, answer("The limits.", JSON, whole()))
}

pub(super) fn change_operation() -> Operation {
    let example = json!({ "rows_per_day": 1_000_000 });
    Operation::patch("/v1/workspaces/{category}/{name}/quota", "change_quota")
        .tag("catalog")
        .summary("Change how much may be appended to a workspace")
        .description("A limit that is given is set, one that is null is removed, and the rest stays. All ingest services notice a change within 5 seconds.")
        .body("The limits to change.", [(JSON, content(quota_schema(), Some(example)))])
        .answers(StatusCode::OK, answer("The limits.", JSON, whole()))
}

fn fields() -> impl Iterator<Item = (&'static str, RefOr<Schema>)> {
    LIMITS.iter().map(|limit| {
        let most = schema::integer(1..=MAX_QUOTA as usize)
            .schema_type(schema::types(&[Type::Integer], true))
            .description(Some(limit.says));
        (limit.name, most.into())
    })
}

fn whole() -> RefOr<Schema> {
    schema::object(fields()).into()
}

/// The limits of a quota that a client sets.
pub fn quota_schema() -> RefOr<Schema> {
    fields().fold(schema::closed(), |new, (name, schema)| new.property(name, schema)).into()
}

/// The limits of a quota as JSON.
pub fn quota_json(quota: &Quota) -> Value {
    quota.limits().map(|(limit, most)| (limit.name.to_owned(), json!(most))).collect()
}

/// The quota that a client set.
///
/// # Errors
/// `Invalid`, when a limit is not known or its number cannot be set.
pub fn quota_of(fields: &BTreeMap<String, Option<Number>>) -> Result<Quota, Error> {
    let mut quota = Quota::default();
    set_limits(&mut quota, fields)?;
    Ok(quota)
}

fn set_limits(quota: &mut Quota, fields: &BTreeMap<String, Option<Number>>) -> Result<(), Error> {
    fields.iter().try_for_each(|(name, number)| {
        let most = number.as_ref().map(|number| whole_number(name, number)).transpose()?;
        quota.set(name, most)
    })
}

/// The number of a limit. 4.0 is a whole number in JSON, too.
fn whole_number(name: &str, number: &Number) -> Result<u64, Error> {
    let float = number.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=MAX_QUOTA as f64).contains(n));
    let wrong = || Error::invalid(format!("{name} is not a whole number from 1 to {MAX_QUOTA}"));
    number.as_u64().or(float.map(|n| n as u64)).ok_or_else(wrong)
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
) -> Result<Json<Value>, Problem> {
    let workspace = service.catalog().workspace(&workspace).await?;
    Ok(Json(quota_json(&service.catalog().quota(workspace.id()).await?)))
}

pub(super) async fn set(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Json<Value>, Problem> {
    let wanted = quota_of(&json_object(&headers, new)?)?;
    let workspace = service.catalog().workspace(&workspace).await?;
    let change = |quota: &mut Quota| {
        *quota = wanted;
        Ok(())
    };
    Ok(Json(quota_json(&service.catalog().change_quota(workspace.id(), change).await?)))
}

pub(super) async fn change(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Json<Value>, Problem> {
    let wanted = json_object(&headers, new)?;
    let workspace = service.catalog().workspace(&workspace).await?;
    let change = |quota: &mut Quota| set_limits(quota, &wanted);
    Ok(Json(quota_json(&service.catalog().change_quota(workspace.id(), change).await?)))
}
