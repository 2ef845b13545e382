//! What was believed of a key and when, over HTTP.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use event::{Kind, Right};
use serde::Deserialize;
use serde_json::json;
use web::{
    InPath, Operation, Problem, QueryParams, RequestContext, RequiredPermission, Routes, answer,
    openapi::{RefOr, Required, Schema, Type, path::ParameterIn, schema::ObjectBuilder},
    parameter, schema,
};

use super::body::HeldBody;
use crate::{
    HistoryParams, PastStanding, Query,
    unmatched::{HISTORY_DAYS, MAX_HISTORY},
};

const JSON: &str = "application/json";

/// The routes of the histories of keys.
pub(super) fn routes(routes: Routes<Arc<Query>>) -> Routes<Arc<Query>> {
    routes.add(operation(), RequiredPermission::workspace(Right::Read).of_kinds(&[Kind::Outcomes]), history)
}

fn operation() -> Operation {
    let says_from =
        format!("The first UTC day of predictions; the {HISTORY_DAYS} days up to the last one by default.");
    let says = format!(
        "Its outcomes in the order in which they were appended, also those that were taken back or corrected, and how each stands today. \
         A key that has more than {MAX_HISTORY} about the days is \
         refused: ask for fewer days."
    );
    let operation = Operation::get("/v1/workspaces/{category}/{name}/outcomes/history", "outcome_history")
        .tag("query")
        .summary("Tell what was believed of a key, and when")
        .description(&says)
        .takes(
            parameter(ParameterIn::Query, "key", schema::string().min_length(Some(1)), "The key.")
                .required(Required::True)
                .example(Some(json!("loan-0000017"))),
        )
        .takes(parameter(ParameterIn::Query, "from", schema::day(), &says_from))
        .takes(parameter(
            ParameterIn::Query,
            "to",
            schema::day(),
            "The last UTC day of predictions; today by default.",
        ));
    operation.answers(StatusCode::OK, answer("Its outcomes.", JSON, history_schema()))
}

fn history_schema() -> RefOr<Schema> {
    let text = || schema::nullable(schema::string());
    let number = ObjectBuilder::new().schema_type(schema::types(&[Type::Number], true));
    let says_predicted = "The instant of the prediction that it labels; null, when it labels all of the day.";
    let standing = schema::one_of(PastStanding::ALL.map(PastStanding::name));
    let standing = standing.description(Some(
        "How it stands today. One that `retracts_nothing` takes nothing back: no outcome of the same key and instants stands before it.",
    ));
    let outcome = schema::object([
        ("appended_at", schema::time().into()),
        ("day", schema::day().into()),
        ("predicted_at", schema::nullable(schema::time()).description(Some(says_predicted)).into()),
        ("observed_at", schema::time().into()),
        ("label", text().into()),
        ("value", number.into()),
        ("reason", text().description(Some("Why others are taken back.")).into()),
        ("standing", standing.into()),
    ]);
    schema::object([
        ("outcomes", schema::array(outcome).max_items(Some(MAX_HISTORY)).into()),
        ("warnings", schema::array(schema::string().description(Some("What could not be read."))).into()),
    ])
    .into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    key: String,
    from: Option<String>,
    to: Option<String>,
}

async fn history(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    parameters: Result<QueryParams<Parameters>, Problem>,
) -> Response {
    let mut context = RequestContext::kind(crate::unmatched::NAME);
    let answer = read(&query, &workspace, parameters, &mut context).await;
    context.with(answer)
}

async fn read(
    query: &Query,
    workspace: &str,
    parameters: Result<QueryParams<Parameters>, Problem>,
    context: &mut RequestContext,
) -> Result<Response, Problem> {
    let QueryParams(asked) = parameters?;
    let words = HistoryParams { key: &asked.key, from: asked.from.as_deref(), to: asked.to.as_deref() };
    let workspace = query.catalog().workspace(workspace).await?;
    context.workspace = Some(workspace.id().clone());
    let written = query.written_history(workspace.id(), &words).await?;
    Ok(([(CONTENT_TYPE, JSON)], Body::new(HeldBody(written))).into_response())
}
