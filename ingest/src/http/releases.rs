//! Promoting, rolling back and retiring releases over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{State, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use store::catalog::{Action, ReleaseChange};
use web::{
    InPath, Named, Operation, Problem, answer, content,
    openapi::{RefOr, Schema},
    schema,
};

use super::api::{ALWAYS, JSON, OF_BODY};
use crate::{limits::MAX_NOTE_BYTES, service::Ingest};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Promotion {
    release: String,
    environment: String,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rollback {
    environment: String,
    model: Option<String>,
    to: Option<String>,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Retirement {
    release: String,
    environment: Option<String>,
    note: Option<String>,
}

pub(super) fn promote_operation(named: Named) -> Operation {
    let body = schema::object([("release", schema::name().into()), ("environment", schema::name().into())]);
    let example = json!({ "release": "v1", "environment": "production", "note": "Better on June." });
    named
        .operation(Operation::post, "/promotions", "promote")
        .summary("Make a release the live one of its model in an environment")
        .description("It takes the place of the release of this model that was live there. Where it is live already, nothing happens, and no change is answered.")
        .body("Which release, and where.", [(JSON, content(body.property("note", note()), Some(example)))])
        .answers(StatusCode::OK, changes())
        .tag("releases")
        .fails(&ALWAYS)
        .fails(&[StatusCode::NOT_FOUND, StatusCode::CONFLICT])
        .fails(&OF_BODY)
}

pub(super) fn roll_back_operation(named: Named) -> Operation {
    let body = schema::object([("environment", schema::name().into())])
        .property("model", schema::nullable(schema::name()))
        .property("to", schema::nullable(schema::name()).description(Some("The release to go back to.")))
        .property("note", note());
    let example = json!({ "environment": "production", "to": "v1" });
    named
        .operation(Operation::post, "/rollbacks", "roll_back")
        .summary("Put the release back that was live in an environment before")
        .description("Or the one that is named. The model need not be named where only one is live.")
        .body("Where.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::OK, changes())
        .tag("releases")
        .fails(&ALWAYS)
        .fails(&[StatusCode::NOT_FOUND, StatusCode::CONFLICT])
        .fails(&OF_BODY)
}

pub(super) fn retire_operation(named: Named) -> Operation {
    let body = schema::object([("release", schema::name().into())])
        .property("environment", schema::nullable(schema::name()))
        .property("note", note());
    let example = json!({ "release": "v1", "environment": "production" });
    named
        .operation(Operation::post, "/retirements", "retire")
        .summary("Take a release out of an environment, or out of all in which it is live")
        .description("Where it is not live, that is a conflict.")
        .body("Which release.", [(JSON, content(body, Some(example)))])
        .answers(StatusCode::OK, changes())
        .tag("releases")
        .fails(&ALWAYS)
        .fails(&[StatusCode::NOT_FOUND, StatusCode::CONFLICT])
        .fails(&OF_BODY)
}

fn note() -> RefOr<Schema> {
    schema::nullable(schema::string().max_length(Some(MAX_NOTE_BYTES))).into()
}

fn changes() -> web::openapi::response::ResponseBuilder {
    let change = schema::object([
        ("action", schema::one_of(Action::OF_LIVE.iter().map(|action| action.name())).into()),
        ("release", schema::name().into()),
        ("model", schema::name().into()),
        ("environment", schema::name().into()),
        ("released_at", schema::time().into()),
    ]);
    let body = schema::object([("changes", schema::array(change).into())]);
    answer("The release events that were appended.", JSON, body)
}

fn body(changes: impl IntoIterator<Item = ReleaseChange>) -> Response {
    let change = |change: ReleaseChange| -> Value {
        json!({
            "action": change.action.name(), "release": change.release, "model": change.model,
            "environment": change.environment, "released_at": change.at.to_string(),
        })
    };
    Json(json!({ "changes": changes.into_iter().map(change).collect::<Vec<_>>() })).into_response()
}

type Whole = Result<Bytes, BytesRejection>;

fn parse<T: DeserializeOwned>(headers: &HeaderMap, body: Whole) -> Result<T, Problem> {
    web::json_object(headers.get(header::CONTENT_TYPE), body)
}

pub(super) async fn promote(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: Promotion = parse(&headers, new)?;
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let change = ingest.promote(&workspace, &new.release, &new.environment, new.note.as_deref()).await?;
    Ok(body(change))
}

pub(super) async fn roll_back(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: Rollback = parse(&headers, new)?;
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let (model, to) = (new.model.as_deref(), new.to.as_deref());
    let change = ingest.roll_back(&workspace, &new.environment, model, to, new.note.as_deref()).await?;
    Ok(body(change))
}

pub(super) async fn retire(
    State(ingest): State<Arc<Ingest>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    new: Whole,
) -> Result<Response, Problem> {
    let new: Retirement = parse(&headers, new)?;
    let workspace = ingest.catalog().workspace(&workspace).await?;
    let changes =
        ingest.retire(&workspace, &new.release, new.environment.as_deref(), new.note.as_deref()).await?;
    Ok(body(changes))
}
