//! Retention over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::{Day, Error, Id, Timestamp, Window};
use log::key::EntityId;
use serde::Deserialize;
use serde_json::{Value, json};
use web::{
    InPath, Operation, Problem, Whole, answer, content, json_object,
    openapi::{RefOr, Schema, Type, schema::ObjectBuilder},
    schema,
};

use super::{api::JSON, settings::given};
use crate::{MAX_PINNED_DAYS, MAX_PINNED_RELEASES, MAX_RETENTION_DAYS, Pin, Retention, Service};

/// A change: of the days for which events are kept, or of one pin.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RetentionChange {
    /// A number, for 30.0 is a whole number in JSON, too; `Some(None)` for good.
    #[serde(deserialize_with = "given")]
    days: Option<Option<f64>>,
    day: Option<String>,
    release: Option<String>,
    pinned: Option<bool>,
}

const PATH: &str = "/v1/workspaces/{category}/{name}/retention";

pub(super) fn operation() -> Operation {
    Operation::get(PATH, "retention")
        .tag("catalog")
        .summary("Tell how long a workspace keeps its events")
        .answers(StatusCode::OK, setting())
}

pub(super) fn change_operation() -> Operation {
    let days = schema::integer(1..=MAX_RETENTION_DAYS as usize)
        .schema_type(schema::types(&[Type::Integer], true))
        .description(Some("For how many days after their own; null for good."));
    let pinned = || -> RefOr<Schema> { schema::boolean().into() };
    let change = schema::any_of([
        schema::object([("days", days.into())]).into(),
        schema::object([("day", schema::day().into()), ("pinned", pinned())]).into(),
        schema::object([("release", schema::name().into()), ("pinned", pinned())]).into(),
    ]);
    Operation::patch(PATH, "change_retention")
        .tag("catalog")
        .summary("Set how long a workspace keeps its events, or pin a day or a release, or unpin it")
        .description(format!("So many days after its own a day of predictions, outcomes and metrics expires: it is neither read nor appended to any more, and some time later deleted. The events of a pinned day, and of all days on which events name a pinned release, stay whatever their age. At most {MAX_PINNED_DAYS} days and {MAX_PINNED_RELEASES} releases are pinned. A day whose events were deleted cannot be pinned: that is a conflict."))
        .body("For how long, or what is pinned.", [(JSON, content(change, Some(json!({ "days": 3650 }))))])
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

pub(super) async fn change(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    change: Whole,
) -> Result<Response, Problem> {
    let RetentionChange { days, day, release, pinned } = json_object(&headers, change)?;
    let (catalog, now) = (service.catalog(), service.clock().now());
    let workspace = catalog.workspace(&workspace).await?.entity.id;
    let retention = match (days, day, release, pinned) {
        (Some(days), None, None, None) => {
            catalog.set_retention(&workspace, days.map(whole).transpose()?, now).await?
        }
        (None, Some(day), None, Some(pinned)) => {
            catalog.pin(&workspace, &Pin::Day(day.parse()?), pinned, now).await?
        }
        (None, None, Some(release), Some(pinned)) => {
            catalog.pin(&workspace, &Pin::Release(release), pinned, now).await?
        }
        _ => {
            let detail = "give either `days`, or `pinned` with a `day` or a `release`";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
        }
    };
    Ok(Json(body(&workspace, &retention, now)).into_response())
}

/// A number of days that is whole and within the bounds.
fn whole(days: f64) -> Result<u32, Error> {
    match days.fract() == 0.0 && (1.0..=f64::from(MAX_RETENTION_DAYS)).contains(&days) {
        true => Ok(days as u32),
        false => Err(Error::invalid(format!(
            "days: `{days}` is not a whole number from 1 to {MAX_RETENTION_DAYS}"
        ))),
    }
}
