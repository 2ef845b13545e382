//! Live releases and their history, activity and alerts, over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use event::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use table::Cursor;
use web::{
    InPath, Operation, Problem, QueryParams, Requester, answer,
    openapi::{RefOr, Required, Schema, path::ParameterIn, schema::ObjectBuilder},
    parameter, schema,
};

use super::api::JSON;
use crate::{ALERT, Action, DECIDED, Happening, HistoryOf, LiveState, MAX_ENTRIES, Service};

/// Default number of entries in an answer.
pub(super) const ENTRIES: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LiveParams {
    environment: Option<String>,
    at: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryParams {
    environment: Option<String>,
    model: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

pub(super) fn live_operation() -> Operation {
    Operation::get("/v1/workspaces/{category}/{name}/live", "live")
        .tag("releases")
        .summary("Tell which releases are live, or were at an instant")
        .description("In each environment one release of a model is live at most.")
        .takes(
            parameter(ParameterIn::Query, "environment", schema::name(), "Only in this environment.")
                .example(Some(json!("production"))),
        )
        .takes(
            parameter(
                ParameterIn::Query,
                "at",
                schema::time(),
                "At this instant; now, when it is not given.",
            )
            .example(Some(json!("2026-06-14T10:00:00Z"))),
        )
        .answers(
            StatusCode::OK,
            answer(
                "They are.",
                JSON,
                schema::object([("live", schema::array(schema::component("Live")).into())]),
            ),
        )
}

pub(super) fn history_operation() -> Operation {
    Operation::get("/v1/workspaces/{category}/{name}/history", "history")
        .tag("releases")
        .summary("Tell what happened, the latest first")
        .description(format!(
            "Of the workspace, of a model, or of an environment: releases that were {}, and alerts; of an environment what became live in it and what was taken away.",
            Action::ALL.map(Action::past).join(", ")
        ))
        .takes(parameter(ParameterIn::Query, "environment", schema::name(), "Only in this environment."))
        .takes(parameter(ParameterIn::Query, "model", schema::name(), "Only of this model; not with an environment."))
        .takes(limit())
        .takes(parameter(ParameterIn::Query, "cursor", schema::string(), "Where to go on: `next` of the page before."))
        .answers(StatusCode::OK, answer("They are.", JSON, page()))
}

pub(super) fn limit() -> web::openapi::path::ParameterBuilder {
    let schema = schema::integer(1..=MAX_ENTRIES).default(Some(json!(ENTRIES)));
    parameter(ParameterIn::Query, "limit", schema, "At most so many.").required(Required::False)
}

fn page() -> RefOr<Schema> {
    schema::object([("entries", schema::array(schema::component("Happening")).into())])
        .property("next", schema::string().description(Some("The cursor of the next page, if there is one.")))
        .into()
}

/// The schema of a release that is live.
pub(super) fn live_schema() -> RefOr<Schema> {
    schema::object([
        ("environment", schema::name().into()),
        ("model", schema::name().into()),
        ("release", schema::name().into()),
        ("since", schema::time().into()),
    ])
    .into()
}

/// The schema of the name of something that happened.
pub(super) fn entry() -> ObjectBuilder {
    schema::string().pattern(Some("^[0-9A-Za-z]{27}:[!-\"$-}]{0,512}$"))
}

/// An activity, as far as `requester` may read it.
pub(super) fn body(happening: &Happening, requester: &Requester) -> Value {
    let mut told = json!(happening);
    if requester.is_of_some_kinds && [ALERT, DECIDED].contains(&happening.what.as_str()) {
        told["note"] = Value::Null;
    }
    told
}

pub(super) async fn live(
    State(service): State<Arc<Service>>,
    InPath(workspace): InPath,
    QueryParams(words): QueryParams<LiveParams>,
) -> Result<Response, Problem> {
    let at = words.at.as_deref().map(Timestamp::parse).transpose()?;
    let workspace = service.catalog().workspace(&workspace).await?;
    let states: Vec<(String, LiveState)> = match (words.environment, at) {
        (None, Some(at)) => service.catalog().all_live_at(workspace.id(), at).await?.into_iter().collect(),
        (None, None) => service.catalog().live_now(workspace.id()).await?.into_iter().collect(),
        (Some(environment), at) => {
            let at = at.unwrap_or_else(|| service.clock().now());
            let state = service.catalog().live_at(workspace.id(), &environment, at).await?;
            vec![(environment, state)]
        }
    };
    let rows: Vec<Value> =
        states.iter().flat_map(|(environment, state)| crate::json::live(environment, state)).collect();
    Ok(Json(json!({ "live": rows })).into_response())
}

pub(super) async fn history(
    State(service): State<Arc<Service>>,
    requester: Requester,
    InPath(workspace): InPath,
    QueryParams(words): QueryParams<HistoryParams>,
) -> Result<Response, Problem> {
    let workspace = service.catalog().workspace(&workspace).await?;
    let model = match &words.model {
        Some(model) => Some(service.catalog().model_named(workspace.id(), model).await?),
        None => None,
    };
    let of = match (&words.environment, &model) {
        (None, None) => HistoryOf::Workspace,
        (Some(environment), None) => HistoryOf::Environment(environment),
        (None, Some(model)) => HistoryOf::Model(model),
        (Some(_), Some(_)) => {
            let detail = "give either an `environment` or a `model`";
            return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
        }
    };
    let cursor = words.cursor.as_deref().map(Cursor::from_text).transpose()?;
    let limit = words.limit.unwrap_or(ENTRIES);
    let history = service.catalog().history(workspace.id(), of, limit, cursor).await?;
    let entries: Vec<Value> = history.happenings.iter().map(|one| body(one, &requester)).collect();
    let mut page = json!({ "entries": entries });
    if let Some(next) = history.next {
        page["next"] = next.to_text().into();
    }
    Ok(Json(page).into_response())
}
