//! Erasures over HTTP: keys of events that are taken out of a workspace. The projector carries them out.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::fields::{MAX_KEY_BYTES, MAX_REASON_BYTES};
use serde::Deserialize;
use serde_json::{Value, json};
use web::{
    InPath, Operation, Problem, Whole, answer, content, json_object,
    openapi::{RefOr, Schema, Type},
    schema,
};

use super::api::JSON;
use crate::{Erasure, ErasurePhase, MAX_ERASURE_KEYS, MAX_ERASURES, Service};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewErasure {
    keys: Vec<String>,
    reason: String,
    #[serde(default)]
    values: bool,
}

pub(super) fn begin_operation() -> Operation {
    let key = schema::string().min_length(Some(1)).max_length(Some(MAX_KEY_BYTES));
    let keys = schema::array(key).min_items(Some(1)).max_items(Some(MAX_ERASURE_KEYS));
    let reason = schema::string().min_length(Some(1)).max_length(Some(MAX_REASON_BYTES));
    let reason =
        reason.description(Some("Why. It stays, in the audit log too, so it must not have a key in it."));
    let values = schema::boolean().default(Some(json!(false)));
    let values = values.description(Some("Whether scores, labels, values and other numbers of their events go as well; metrics are made again without them."));
    let body = schema::object([("keys", keys.into()), ("reason", reason.into())]).property("values", values);
    let example = json!({ "keys": ["loan-0000017"], "reason": "asked for by letter 9 of 2026" });
    Operation::post("/v1/workspaces/{category}/{name}/erasures", "erase")
        .tag("catalog")
        .summary("Take keys out of all that is stored of a workspace, for good")
        .description("From now on events of these keys are refused. A projector puts a pseudonym by chance in the place of each key, takes the tags, features and texts of its events away, and folds again what was folded of them; scores, labels and values stay, unless `values` says that they go too.")
        .body("Which keys, and why.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::ACCEPTED, answer("The erasure.", JSON, schema::component("Erasure")))
}

pub(super) fn list_operation() -> Operation {
    let erasures = schema::array(schema::component("Erasure")).max_items(Some(MAX_ERASURES));
    Operation::get("/v1/workspaces/{category}/{name}/erasures", "list_erasures")
        .tag("catalog")
        .summary("List the latest erasures of a workspace, and how far each is")
        .answers(
            StatusCode::OK,
            answer(
                "The erasures, the last one first.",
                JSON,
                schema::object([("erasures", erasures.into())]),
            ),
        )
}

pub(super) fn erasure_schema() -> RefOr<Schema> {
    let texts = |says: &'static str| schema::array(schema::string()).description(Some(says));
    let count = |says: &'static str| schema::count().description(Some(says));
    let ended = schema::time().schema_type(schema::types(&[Type::String], true));
    schema::object([
        ("id", schema::string().into()),
        ("phase", schema::one_of(ErasurePhase::names()).into()),
        ("reason", schema::string().into()),
        ("begun_at", schema::time().into()),
    ])
    .property("ended_at", ended.description(Some("When it was done; null before.")))
    .property("keys", count("How many keys it is of."))
    .property("values", schema::boolean().description(Some("Whether scores, labels and values go as well.")))
    .property("days", count("Days of which events were written again."))
    .property("segments", count("Segments that were."))
    .property("rows", count("Events whose keys were erased."))
    .property("items", count("Items and answers of reviews that were written again."))
    .property("pseudonyms", texts("What stands in the place of the keys, once nothing has them any more."))
    .property(
        "unreadable",
        texts("Segments that cannot be read: what they hold is not known. The first hundred."),
    )
    .into()
}

/// An erasure as JSON, without its keys.
pub fn erasure_json(erasure: &Erasure) -> Value {
    json!({
        "id": erasure.id.as_str(),
        "phase": erasure.phase.name(),
        "reason": erasure.reason,
        "begun_at": erasure.begun_at.to_string(),
        "ended_at": erasure.ended_at.map(|at| at.to_string()),
        "keys": erasure.count,
        "values": erasure.with_values,
        "days": erasure.days,
        "segments": erasure.segments,
        "rows": erasure.rows,
        "items": erasure.items,
        "pseudonyms": erasure.pseudonyms,
        "unreadable": erasure.unreadable,
    })
}

pub(super) async fn begin(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Problem> {
    let NewErasure { keys, reason, values } = json_object(&headers, body)?;
    let (catalog, now) = (service.catalog(), service.clock().now());
    let workspace = catalog.workspace(&workspace).await?;
    let erasure = catalog.begin_erasure(workspace.id(), (&keys, values), &reason, now).await?;
    Ok((StatusCode::ACCEPTED, Json(erasure_json(&erasure))).into_response())
}

pub(super) async fn list(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
) -> Result<Json<Value>, Problem> {
    let workspace = service.catalog().workspace(&workspace).await?;
    let erasures = service.catalog().erasures(workspace.id()).await?;
    Ok(Json(json!({ "erasures": erasures.iter().map(erasure_json).collect::<Vec<_>>() })))
}
