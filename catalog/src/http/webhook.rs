//! Webhooks of alert rules over HTTP, and what was posted to them.

use std::sync::Arc;

use axum::{
    Json, extract,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use web::{
    InPath, Operation, Problem, answer,
    openapi::{RefOr, Schema, schema::ObjectBuilder},
    schema,
};

use super::{
    alert::{AskedSpan, id, span_of, spanned},
    api::JSON,
};
use crate::{
    Delivered, Delivery, DeliveryState, MAX_DELIVERIES, MAX_SECRET_NAME, MAX_URL_BYTES, Service,
    WebhookFormat,
};

pub(super) fn deliveries_operation() -> Operation {
    let list = schema::object([("deliveries", schema::array(schema::component("Delivery")).into())]);
    let operation = Operation::get("/v1/workspaces/{category}/{name}/deliveries", "list_deliveries")
        .tag("catalog")
        .summary("List what was or is to be posted to webhooks: that alert rules crossed, and digests");
    spanned(operation, MAX_DELIVERIES).answers(StatusCode::OK, answer("The latest days first.", JSON, list))
}

/// A webhook as it is applied.
pub(super) fn new_webhook() -> ObjectBuilder {
    let url = schema::nullable(schema::string())
        .max_length(Some(MAX_URL_BYTES))
        .pattern(Some("^https?://"))
        .description(Some("Where it is."));
    let secret = |says: &str| {
        let name = schema::nullable(schema::string());
        name.pattern(Some(format!("^[a-z0-9_]{{1,{MAX_SECRET_NAME}}}$"))).description(Some(says))
    };
    let format = schema::one_of(WebhookFormat::ALL.map(WebhookFormat::name))
        .description(Some("How the body is written; json unless it is given."));
    let digest = schema::nullable(schema::string())
        .pattern(Some("^([01][0-9]|2[0-3]):[0-5][0-9]$"))
        .description(Some(
            "At which time of each day a digest of the workspace is posted; none is unless it is given.",
        ));
    let zone = schema::nullable(schema::string())
        .description(Some("The time zone of that time, such as `Europe/Berlin`; UTC unless it is given."));
    schema::object([("name", schema::name().into())])
        .property("url", url)
        .property("url_from", secret("Or the name of the projector's secret that says where it is."))
        .property("format", format)
        .property("secret", secret("The name of the projector's secret by which deliveries are signed."))
        .property("digest", digest)
        .property("time_zone", zone)
}

/// A webhook as it is answered.
pub(super) fn webhook_schema() -> RefOr<Schema> {
    new_webhook().required("format").into()
}

/// A delivery as it is answered.
pub(super) fn delivery_schema() -> RefOr<Schema> {
    let id = schema::string().description(Some("The id of the crossing or digest."));
    let rule = schema::nullable(schema::name()).description(Some("The rule that crossed."));
    let day = schema::day().description(Some("The day that was judged, or the last one of the digest."));
    let tries = schema::count().description(Some("How often it was tried."));
    let time = |says| {
        schema::time().schema_type(schema::types(&[web::openapi::Type::String], true)).description(Some(says))
    };
    let why = schema::nullable(schema::string()).description(Some("Why the last try failed."));
    schema::object([
        ("of", schema::one_of(Delivered::NAMES).into()),
        ("id", id.into()),
        ("rule", rule.into()),
        ("day", day.into()),
        ("webhook", schema::name().into()),
        ("state", schema::one_of(DeliveryState::ALL.map(DeliveryState::name)).into()),
        ("tries", tries.into()),
        (
            "made_at",
            schema::time().description(Some("When the rule crossed, or the digest was made.")).into(),
        ),
        ("next_at", time("When it is tried again, of one that is pending.").into()),
        ("settled_at", time("When it was delivered or given up.").into()),
        ("why", why.into()),
    ])
    .into()
}

/// A delivery as JSON.
pub fn delivery_json(delivery: &Delivery) -> Value {
    let is_pending = delivery.state == DeliveryState::Pending;
    let due_at = delivery.due_at.to_string();
    json!({
        "of": delivery.of.name(),
        "id": delivery.id(),
        "rule": delivery.of.rule(),
        "day": delivery.day.to_string(),
        "webhook": delivery.webhook,
        "state": delivery.state.name(),
        "tries": delivery.tries,
        "made_at": delivery.made_at.to_string(),
        "next_at": is_pending.then_some(&due_at),
        "settled_at": (!is_pending).then_some(&due_at),
        "why": delivery.why,
    })
}

pub(super) async fn deliveries(
    extract::State(service): extract::State<Arc<Service>>,
    InPath(workspace): InPath,
    asked: AskedSpan,
) -> Result<Response, Problem> {
    let (from, to, limit) = span_of(asked, service.clock().now().day())?;
    let workspace = id(&service, &workspace).await?;
    let deliveries = service.catalog().deliveries(&workspace, from, to, limit).await?;
    let deliveries: Vec<Value> = deliveries.iter().map(delivery_json).collect();
    Ok(Json(json!({ "deliveries": deliveries })).into_response())
}
