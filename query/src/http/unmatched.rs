//! Unmatched outcomes over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use event::{Kind, Right, fields::AppliesTo};
use fold::latest::MAX_JUDGED;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use web::{
    InPath, Operation, Problem, QueryParams, RequestContext, RequiredPermission, Routes, answer,
    openapi::{RefOr, Schema, path::ParameterIn},
    parameter, schema,
};

use crate::{
    Query, UnmatchedOutcome, UnmatchedParams, UnmatchedRequest, UnmatchedState,
    unmatched::{DAYS, DEFAULT_ROWS, MAX_ROWS, NAME, PLACE_PATTERN},
};

const JSON: &str = "application/json";

/// The routes of the unmatched outcomes of workspaces.
pub(super) fn routes(routes: Routes<Arc<Query>>) -> Routes<Arc<Query>> {
    routes.add(operation(), RequiredPermission::workspace(Right::Read).of_kinds(&[Kind::Outcomes]), page)
}

fn states() -> RefOr<Schema> {
    schema::one_of(UnmatchedState::ALL.map(UnmatchedState::name)).into()
}

fn operation() -> Operation {
    let place = || schema::string().pattern(Some(PLACE_PATTERN));
    let limit = schema::integer(0..=MAX_ROWS).default(Some(json!(DEFAULT_ROWS)));
    let says_from = format!(
        "The first UTC day on which they came; the {DAYS} days up to the last one by default, before which none waits."
    );
    let parameters: [(&str, RefOr<Schema>, &str); 6] = [
        ("key", schema::string().min_length(Some(1)).into(), "Only outcomes of this key."),
        ("state", states(), "List only those in this state; those of all are counted."),
        ("from", schema::day().into(), &says_from),
        ("to", schema::day().into(), "The last UTC day on which they came; today by default."),
        ("limit", limit.into(), "List at most so many; with 0 they are counted alone."),
        ("after", place().into(), "What `next` of the page before said."),
    ];
    let operation = Operation::get("/v1/workspaces/{category}/{name}/unmatched", "unmatched_outcomes")
        .tag("query")
        .summary("List and count outcomes without a date, and say why each waits")
        .description(
            "Outcomes that do not say which prediction they judge, in the order of the days on which they came, page by page. \
             An outcome is `waiting` until its prediction is found, `decided` until it is appended, `appended` then, and \
             `expired` when none was found for too long.",
        );
    let operation = parameters.into_iter().fold(operation, |operation, (name, schema, says)| {
        operation.takes(parameter(ParameterIn::Query, name, schema, says))
    });
    operation.answers(StatusCode::OK, answer("A page.", JSON, page_schema()))
}

fn page_schema() -> RefOr<Schema> {
    let time = |says: &str| schema::time().description(Some(says)).into();
    let outcome = schema::object([
        ("place", schema::string().pattern(Some(PLACE_PATTERN)).into()),
        ("state", states()),
        ("key", schema::string().into()),
        ("observed_at", time("Its prediction is of no later instant.")),
        ("predicted_since", time("Its prediction is of no earlier instant.")),
        (
            "applies_to",
            schema::one_of(AppliesTo::NAMES)
                .description(Some("Which predictions of its key it judges."))
                .into(),
        ),
        ("arrived_at", time("When it was appended.")),
        ("why", schema::string().description(Some("Why it is in that state, in a sentence.")).into()),
    ])
    .property(
        "predicted_at",
        schema::time()
            .description(Some("The instant of the prediction that it judges, of several of the last one.")),
    )
    .property(
        "judged",
        schema::integer(1..=MAX_JUDGED).description(Some("How many instants of predictions it judges.")),
    )
    .property(
        "decided_as_of",
        schema::time()
            .description(Some("What had been appended by this instant was looked at when it was decided.")),
    )
    .property(
        "looked_at",
        schema::time().description(Some("When its prediction was first looked for among what there is.")),
    )
    .property("expires_at", schema::time().description(Some("When it labels nothing, if none is found.")));
    let counts = schema::object(UnmatchedState::ALL.map(|state| (state.name(), schema::count().into())));
    let says_counts =
        "How many outcomes this page went through in each state, listed or not. Those of all pages add up.";
    schema::object([
        ("counts", counts.description(Some(says_counts)).into()),
        ("outcomes", schema::array(outcome).max_items(Some(MAX_ROWS)).into()),
        (
            "next",
            schema::nullable(schema::string().pattern(Some(PLACE_PATTERN)))
                .description(Some("After which place the next page begins; null on the last one."))
                .into(),
        ),
        ("warnings", schema::array(schema::string().description(Some("What could not be read."))).into()),
    ])
    .into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    key: Option<String>,
    state: Option<String>,
    from: Option<String>,
    to: Option<String>,
    limit: Option<String>,
    after: Option<String>,
}

async fn page(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    parameters: Result<QueryParams<Parameters>, Problem>,
) -> Response {
    let mut context = RequestContext::kind(NAME);
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
    let words = UnmatchedParams {
        key: asked.key.as_deref(),
        state: asked.state.as_deref(),
        from: asked.from.as_deref(),
        to: asked.to.as_deref(),
        limit: asked.limit.as_deref(),
        after: asked.after.as_deref(),
    };
    let request = UnmatchedRequest::parse(&words, query.now())?;
    let workspace = query.catalog().workspace(workspace).await?;
    context.workspace = Some(workspace.id().clone());
    let page = query.unmatched(workspace.id(), &request).await?;
    let counts: Map<String, Value> = UnmatchedState::ALL
        .map(|state| (state.name().to_owned(), page.counts.get(&state).copied().unwrap_or_default().into()))
        .into_iter()
        .collect();
    let outcomes: Vec<Value> = page.outcomes.iter().map(UnmatchedOutcome::to_json).collect();
    let next = page.next.map(|next| next.to_string());
    Ok(Json(json!({ "counts": counts, "outcomes": outcomes, "next": next, "warnings": page.warnings }))
        .into_response())
}
