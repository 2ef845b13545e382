//! Lineages over HTTP.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use event::{Kind, Right};
use web::{InPath, Operation, Problem, QueryParams, RequestContext, RequiredPermission, Routes, schema};

use super::{api, format_parameter, rows};
use crate::{
    Query,
    lineage::{LineageParams, LineageRequest, NAME, columns},
};

/// Columns of the table for people.
const MAIN: [&str; 11] =
    ["day", "kind", "system", "job", "run", "dataset", "release", "labels", "rows", "evaluated", "live"];

/// What the document calls a row.
const ROW: &str = "Row.lineage";

/// The routes of the lineages of workspaces.
pub(super) fn routes(routes: Routes<Arc<Query>>) -> Routes<Arc<Query>> {
    let demand = RequiredPermission::workspace(Right::Read).of_kinds(&Kind::ALL);
    routes.add(operation(), demand, answer).schema(ROW, api::row_of(columns()))
}

fn operation() -> Operation {
    Operation::get("/v1/workspaces/{category}/{name}/lineage", NAME)
        .tag("query")
        .summary("Show where events came from and what was made of them")
        .description(
            "A row for each day, kind of events, source and release, from what segments say of themselves. Where a segment mixes sources and releases, \
             `rows` is how many events there are at least, and `rows_at_most` at most. `evaluated` of them are in the stored \
             evaluation of the day; `labels` are the releases that outcomes without a release are about.",
        )
        .query::<LineageParams>()
        .takes(format_parameter())
        .answers(StatusCode::OK, api::rows_in(&schema::component(ROW)).build())
}

async fn answer(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    params: Result<QueryParams<LineageParams>, Problem>,
) -> Response {
    let mut context = RequestContext::kind(NAME);
    let answer = async {
        let QueryParams(params) = params?;
        let request = LineageRequest::parse(&params, query.now())?;
        let workspace = query.catalog().workspace(&workspace).await?;
        context.workspace = Some(workspace.id().clone());
        let answer = query.lineage(workspace.id(), &request).await?;
        rows(answer, (params.format.as_deref(), &headers), &MAIN).await
    };
    let answer = answer.await;
    context.with(answer)
}
