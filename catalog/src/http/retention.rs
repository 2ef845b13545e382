//! How long a workspace keeps its events, over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::{Day, Id, Timestamp, Window};
use log::key::EntityId;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use web::{
    InPath, Operation, Problem, Whole, answer, content, json_object,
    openapi::{RefOr, Schema, Type, schema::ObjectBuilder},
    schema,
};

use super::api::JSON;
use crate::{MAX_PINNED_DAYS, MAX_PINNED_RELEASES, MAX_RETENTION_DAYS, Pin, Retention, Service};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRetention {
    /// A number, for 30.0 is a whole number in JSON, too. It must be there, if only as null.
    #[serde(deserialize_with = "number_or_null")]
    days: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPin {
    day: Option<String>,
    release: Option<String>,
    pinned: bool,
}

fn number_or_null<'de, D: Deserializer<'de>>(input: D) -> Result<Option<f64>, D::Error> {
    Option::deserialize(input)
}

pub(super) fn operation() -> Operation {
    Operation::get("/v1/workspaces/{category}/{name}/retention", "retention")
        .tag("catalog")
        .summary("Tell how long a workspace keeps its events")
        .answers(StatusCode::OK, setting())
}

pub(super) fn set_operation() -> Operation {
    let days = schema::integer(1..=MAX_RETENTION_DAYS as usize)
        .schema_type(schema::types(&[Type::Integer], true))
        .description(Some("For how many days after their own; null for good."));
    Operation::put("/v1/workspaces/{category}/{name}/retention", "set_retention")
        .tag("catalog")
        .summary("Set how long a workspace keeps its events")
        .description("So many days after its own a day of predictions, outcomes and metrics expires: it is neither read nor appended to any more, and some time later deleted. Pinned days and the days of pinned releases stay.")
        .body("For how long.", [(JSON, content(schema::object([("days", days.into())]), Some(json!({ "days": 3650 }))))])
        .answers(StatusCode::OK, setting())
}

pub(super) fn pin_operation() -> Operation {
    let pinned = || -> RefOr<Schema> { ObjectBuilder::new().schema_type(Type::Boolean).into() };
    let pin = schema::any_of([
        schema::object([("day", schema::day().into()), ("pinned", pinned())]).into(),
        schema::object([("release", schema::name().into()), ("pinned", pinned())]).into(),
    ]);
    Operation::put("/v1/workspaces/{category}/{name}/pins", "pin")
        .tag("catalog")
        .summary("Pin a day or a release, or unpin it")
        .description(format!("The events of a pinned day, and of all days on which events name a pinned release, stay whatever their age. At most {MAX_PINNED_DAYS} days and {MAX_PINNED_RELEASES} releases are pinned. A day whose events were deleted cannot be pinned: that is a conflict."))
        .body("What.", [(JSON, content(pin, Some(json!({ "day": "2026-06-01", "pinned": true }))))])
        .answers(StatusCode::OK, setting())
}

fn setting() -> web::openapi::response::ResponseBuilder {
    let nullable = |schema: ObjectBuilder, kind| schema.schema_type(schema::types(&[kind], true));
    answer(
        "The setting.",
        JSON,
        schema::object([
            ("days", nullable(schema::integer(1..=MAX_RETENTION_DAYS as usize), Type::Integer).into()),
            (
                "first_day",
                nullable(schema::day(), Type::String)
                    .description(Some("The first day that is kept now by its age; null when all are."))
                    .into(),
            ),
            ("pinned_days", schema::array(schema::day()).into()),
            ("pinned_releases", schema::array(schema::name()).into()),
            (
                "pinned_snapshots",
                schema::array(schema::object([
                    ("snapshot", schema::id().into()),
                    ("from", schema::day().into()),
                    ("to", schema::day().into()),
                ]))
                .into(),
            ),
            ("changed_at", nullable(schema::time(), Type::String).into()),
        ]),
    )
}

/// The snapshots that pin days, and which days.
pub fn pinned_snapshots(workspace: &Id, retention: &Retention) -> Value {
    let pin = |(id, days): (&Id, &Window)| {
        let snapshot = EntityId::Snapshot(workspace.clone(), id.clone());
        json!({ "snapshot": snapshot.to_string(), "from": days.from().to_string(), "to": days.to().to_string() })
    };
    retention.pinned_snapshots.iter().map(pin).collect()
}

fn body(workspace: &Id, retention: &Retention, now: Timestamp) -> Value {
    json!({
        "days": retention.days,
        "first_day": retention.first_day(now).map(|day| day.to_string()),
        "pinned_days": retention.pinned_days.iter().map(Day::to_string).collect::<Vec<_>>(),
        "pinned_releases": retention.pinned_releases,
        "pinned_snapshots": pinned_snapshots(workspace, retention),
        "changed_at": (retention.ver > 0).then(|| retention.changed_at.to_string()),
    })
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
) -> Result<Response, Problem> {
    let workspace = service.catalog().workspace(&workspace).await?;
    let retention = service.catalog().retention(workspace.id()).await?;
    Ok(Json(body(workspace.id(), &retention, service.clock().now())).into_response())
}

pub(super) async fn set(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: NewRetention = json_object(&headers, new)?;
    let is_whole = |days: &f64| days.fract() == 0.0 && (1.0..=f64::from(MAX_RETENTION_DAYS)).contains(days);
    if let Some(days) = new.days.filter(|days| !is_whole(days)) {
        let detail = format!("days: `{days}` is not a whole number from 1 to {MAX_RETENTION_DAYS}");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    let (days, now) = (new.days.map(|days| days as u32), service.clock().now());
    let workspace = service.catalog().workspace(&workspace).await?;
    let retention = service.catalog().set_retention(workspace.id(), days, now).await?;
    Ok(Json(body(workspace.id(), &retention, now)).into_response())
}

pub(super) async fn pin(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: NewPin = json_object(&headers, new)?;
    let pin = match (new.day, new.release) {
        (Some(day), None) => Pin::Day(day.parse()?),
        (None, Some(release)) => Pin::Release(release),
        _ => {
            let detail = "give either a `day` or a `release`";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
        }
    };
    let now = service.clock().now();
    let workspace = service.catalog().workspace(&workspace).await?;
    let retention = service.catalog().pin(workspace.id(), &pin, new.pinned, now).await?;
    Ok(Json(body(workspace.id(), &retention, now)).into_response())
}
