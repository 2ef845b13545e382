//! Outcomes without a date over HTTP: which wait, and the history of a key.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use event::{Kind, Right};
use web::{
    InPath, Operation, Problem, QueryParams, RequestContext, RequiredPermission, Routes, answer, schema,
};

use super::body::HeldBody;
use crate::{
    HistoryParams, OutcomeHistory, PastOutcome, Query, UnmatchedOutcome, UnmatchedPage, UnmatchedParams,
    UnmatchedRequest,
    unmatched::{MAX_HISTORY, NAME},
};

const JSON: &str = "application/json";

/// The routes of unmatched outcomes and of the histories of keys.
pub(super) fn routes(routes: Routes<Arc<Query>>) -> Routes<Arc<Query>> {
    let demand = || RequiredPermission::workspace(Right::Read).of_kinds(&[Kind::Outcomes]);
    routes
        .add(page_operation(), demand(), page)
        .add(history_operation(), demand(), history)
        .schema("UnmatchedOutcome", schema::of::<UnmatchedOutcome>())
        .schema("PastOutcome", schema::of::<PastOutcome>())
}

fn page_operation() -> Operation {
    Operation::get("/v1/workspaces/{category}/{name}/unmatched", "unmatched_outcomes")
        .tag("query")
        .summary("List and count outcomes without a date, and say why each waits")
        .description(
            "Outcomes that do not say which prediction they label, in the order of the days on which they came, page by page. \
             An outcome is `waiting` until its prediction is found, `decided` until it is appended, `appended` then, and \
             `expired` when none was found for too long.",
        )
        .query::<UnmatchedParams>()
        .answers(StatusCode::OK, answer("A page.", JSON, schema::of::<UnmatchedPage>()))
}

fn history_operation() -> Operation {
    Operation::get("/v1/workspaces/{category}/{name}/outcomes/history", "outcome_history")
        .tag("query")
        .summary("Tell what was believed of a key, and when")
        .description(format!(
            "Its outcomes in the order in which they were appended, also those that were taken back or corrected, and how each stands today. \
             A key that has more than {MAX_HISTORY} about the days is refused: ask for fewer days."
        ))
        .query::<HistoryParams>()
        .answers(StatusCode::OK, answer("Its outcomes.", JSON, schema::of::<OutcomeHistory>()))
}

async fn page(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    params: Result<QueryParams<UnmatchedParams>, Problem>,
) -> Response {
    let mut context = RequestContext::kind(NAME);
    let answer = async {
        let request = UnmatchedRequest::parse(&params?.0, query.now())?;
        let workspace = query.catalog().workspace(&workspace).await?;
        context.workspace = Some(workspace.id().clone());
        Ok::<_, Problem>(Json(query.unmatched(workspace.id(), &request).await?))
    };
    let answer = answer.await;
    context.with(answer)
}

async fn history(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    params: Result<QueryParams<HistoryParams>, Problem>,
) -> Response {
    let mut context = RequestContext::kind(NAME);
    let answer = async {
        let QueryParams(params) = params?;
        let workspace = query.catalog().workspace(&workspace).await?;
        context.workspace = Some(workspace.id().clone());
        let written = query.written_history(workspace.id(), &params).await?;
        Ok::<_, Problem>(([(CONTENT_TYPE, JSON)], Body::new(HeldBody(written))).into_response())
    };
    let answer = answer.await;
    context.with(answer)
}
