//! Settings of workspaces, and raising of alerts, over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::{Right, Timestamp};
use fold::metric::Direction;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use utoipa::ToSchema;
use web::{
    InPath, Operation, Problem, Requester, Whole, answer, content, json_object,
    openapi::{RefOr, Schema, Type, schema::ObjectBuilder},
    schema,
};

use super::{api::JSON, schemas::ranking_metrics};
use crate::{
    Alert, LIMITS, LimitValues, MAX_ALERT_BYTES, MAX_QUOTA, PrimaryMetric, Quota, Service, Settings,
};

/// The settings of a workspace, as a request gives them; null is given, too.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
struct SettingsBody {
    #[serde(deserialize_with = "given")]
    #[schema(schema_with = metrics)]
    primary_metric: Option<Option<String>>,
    #[schema(schema_with = directions)]
    direction: Option<String>,
    #[serde(deserialize_with = "given")]
    #[schema(value_type = bool)]
    accept_unknown_releases: Option<bool>,
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    model_of_unknown: Option<Option<String>>,
    /// Over how many days releases are ranked; 7 when it is not set.
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 31)]
    leaderboard_days: Option<Option<u32>>,
    /// Minimum number of labelled predictions of a release to be ranked; 30 when it is not set. Of a logged metric, that of observations; 1
    /// when it is not set.
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    leaderboard_min_n: Option<Option<u32>>,
    /// For how many days a day must be over to be among those that releases are ranked over, for outcomes that come late; also days that
    /// go on are when it is not set.
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<u32>, maximum = 90)]
    leaderboard_delay: Option<Option<u32>>,
    /// Over how many lanes the days are spread that begin some seconds later; 1 when it is not set. More lanes let more ingest services
    /// append to one day at one time.
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<u8>, minimum = 1, maximum = 16)]
    lanes: Option<Option<u8>>,
    #[schema(schema_with = quota_schema)]
    quota: Option<LimitValues>,
}

fn metrics() -> RefOr<Schema> {
    schema::any_of([ObjectBuilder::new().schema_type(Type::Null).into(), ranking_metrics()])
}

fn directions() -> ObjectBuilder {
    let names = Direction::ALL.map(|direction| Value::from(direction.name()));
    schema::nullable(ObjectBuilder::new()).enum_values(Some(names.into_iter().chain([Value::Null])))
}

/// Reads a value that is given, also null.
pub(super) fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(input: D) -> Result<Option<T>, D::Error> {
    T::deserialize(input).map(Some)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewAlert {
    name: String,
    text: String,
    model: Option<String>,
    at: Option<String>,
}

const PATH: &str = "/v1/workspaces/{category}/{name}/settings";

pub(super) fn operation() -> Operation {
    Operation::get(PATH, "settings")
        .tag("catalog")
        .summary("Tell what is set for a workspace")
        .answers(StatusCode::OK, answer("The settings.", JSON, schema::of::<SettingsBody>()))
}

pub(super) fn change_operation() -> Operation {
    let example =
        json!({ "primary_metric": "auc", "leaderboard_days": 14, "quota": { "rows_per_second": 100_000 } });
    Operation::patch(PATH, "change_settings")
        .summary("Change settings of a workspace")
        .description("What is given is set, what is null is taken away, and the rest stays. The direction follows from the metric unless it is given. Unknown releases are of the given model, or of the only one of the workspace. A quota needs `admin` on the workspace: a limit that is given is set, one that is null is removed, and the rest stays. All ingest services together keep to it, and notice a change of it or of the lanes within 5 seconds.")
        .body("The settings to change.", [(JSON, content(schema::of::<SettingsBody>(), Some(example)))])
        .tag("catalog")
        .answers(StatusCode::OK, answer("The settings.", JSON, schema::of::<SettingsBody>()))
}

pub(super) fn alert_operation() -> Operation {
    let new = schema::object([
        ("name", schema::name().into()),
        ("text", schema::string().min_length(Some(1)).max_length(Some(MAX_ALERT_BYTES)).into()),
    ])
    .property("model", schema::nullable(schema::name()))
    .property("at", schema::nullable(schema::time()));
    let example = json!({ "name": "drift", "text": "The scores moved.", "at": "2026-06-02T00:00:00Z" });
    Operation::post("/v1/workspaces/{category}/{name}/alerts", "raise_alert")
        .tag("releases")
        .summary("Raise an alert for those who follow the workspace or the model")
        .description(
            "The same name at the same instant is the same alert. Without an instant it is raised now.",
        )
        .body("What it says.", [(JSON, content(new, Some(example)))])
        .answers(
            StatusCode::CREATED,
            answer("It is raised.", JSON, schema::object([("at", schema::time().into())])),
        )
}

/// The limits of a quota that a client sets.
pub fn quota_schema() -> RefOr<Schema> {
    let limits = LIMITS.iter().fold(schema::closed(), |limits, limit| {
        let most = schema::integer(1..=MAX_QUOTA as usize);
        let most = most.schema_type(schema::types(&[Type::Integer], true));
        limits.property(limit.name, most.description(Some(limit.says)))
    });
    limits.description(Some("How much may be appended over HTTP; null where there is no limit.")).into()
}

fn body(settings: &Settings) -> Value {
    json!({
        "primary_metric": settings.primary_metric.as_ref().map(|primary| primary.metric.name()),
        "direction": settings.primary_metric.as_ref().map(|primary| primary.direction.name()),
        "accept_unknown_releases": settings.accept_unknown_releases,
        "model_of_unknown": settings.model_of_unknown,
        "leaderboard_days": settings.leaderboard_days,
        "leaderboard_min_n": settings.leaderboard_min_n,
        "leaderboard_delay": settings.leaderboard_delay,
        "lanes": settings.lanes,
        "quota": settings.quota,
    })
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
) -> Result<Response, Problem> {
    let workspace = service.catalog().workspace(&workspace).await?;
    let settings = service.catalog().settings(workspace.id()).await?;
    Ok(Json(body(&settings)).into_response())
}

pub(super) async fn change(
    State(service): State<Arc<Service>>,
    requester: Requester,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: SettingsBody = json_object(&headers, new)?;
    if new.quota.is_some() && !requester.may_administer() {
        let detail = format!("a quota needs the right `{}` on the workspace", Right::Admin);
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let quota = new.quota.as_ref().map(Quota::changes).transpose()?.unwrap_or_default();
    let metric = new.primary_metric.as_ref().and_then(Option::as_deref);
    let primary = PrimaryMetric::parse(metric, new.direction.as_deref())?;
    let workspace = service.catalog().workspace(&workspace).await?;
    let change = |settings: &mut Settings| {
        if new.primary_metric.is_some() {
            settings.primary_metric.clone_from(&primary);
        }
        settings.accept_unknown_releases =
            new.accept_unknown_releases.unwrap_or(settings.accept_unknown_releases);
        if let Some(model) = &new.model_of_unknown {
            settings.model_of_unknown.clone_from(model);
        }
        settings.leaderboard_days = new.leaderboard_days.unwrap_or(settings.leaderboard_days);
        settings.leaderboard_min_n = new.leaderboard_min_n.unwrap_or(settings.leaderboard_min_n);
        settings.leaderboard_delay = new.leaderboard_delay.unwrap_or(settings.leaderboard_delay);
        settings.lanes = new.lanes.unwrap_or(settings.lanes);
        settings.quota = settings.quota.with(&quota);
    };
    let settings = service.catalog().change_settings(workspace.id(), change).await?;
    service.catalog().rank_by_settings(workspace.id(), service.clock().now()).await;
    Ok(Json(body(&settings)).into_response())
}

pub(super) async fn raise(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: NewAlert = json_object(&headers, new)?;
    let at = new.at.as_deref().map(Timestamp::parse).transpose()?;
    let workspace = service.catalog().workspace(&workspace).await?;
    let at = at.unwrap_or_else(|| service.clock().now());
    let alert = Alert { at, name: new.name, model: new.model, text: new.text };
    service.catalog().raise(workspace.id(), &alert).await?;
    Ok((StatusCode::CREATED, Json(json!({ "at": at.to_string() }))).into_response())
}
