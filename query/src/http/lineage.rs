//! Lineages over HTTP.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use event::{Kind, Right};
use serde::Deserialize;
use serde_json::json;
use web::{
    InPath, Operation, Problem, QueryParams, RequestContext, RequiredPermission, Routes,
    openapi::{RefOr, Schema, path::ParameterIn},
    parameter, schema,
};

use super::{api, body::HeldBody, content_type, parameters::says_first_day};
use crate::{
    Query,
    lineage::{LineageParams, LineageRequest, NAME, columns},
    output::Format,
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
    let text = || schema::string().min_length(Some(1));
    let formats = schema::one_of(Format::ALL.map(Format::name)).default(Some(json!(Format::Ndjson.name())));
    let says_from = says_first_day();
    let parameters: [(&str, RefOr<Schema>, &str); 5] = [
        (
            "source",
            text().into(),
            "Only what came from this source: pairs such as `job=nightly;run=17` of `system`, `job`, `run` and `dataset`, all of which must fit.",
        ),
        ("release", schema::name().into(), "Only what this release made, and the outcomes that judge it."),
        ("from", schema::day().into(), &says_from),
        ("to", schema::day().into(), "The last UTC day; today by default."),
        ("format", formats.into(), "The format of the answer."),
    ];
    let operation = Operation::get("/v1/workspaces/{category}/{name}/lineage", NAME)
        .tag("query")
        .summary("Show where events came from and what was made of them")
        .description(
            "A row for each day, kind of events, source and release, from what segments say of themselves. Where a segment mixes sources and releases, \
             `rows` is how many events there are at least, and `rows_at_most` at most. `evaluated` of them are in the stored \
             evaluation of the day; `labels` are the releases that outcomes without a release are about.",
        );
    let operation = parameters.into_iter().fold(operation, |operation, (name, schema, says)| {
        operation.takes(parameter(ParameterIn::Query, name, schema, says))
    });
    let rows = api::rows_in(&schema::component(ROW));
    operation.answers(StatusCode::OK, rows.build())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    source: Option<String>,
    release: Option<String>,
    from: Option<String>,
    to: Option<String>,
    format: Option<String>,
}

async fn answer(
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
    let words = LineageParams {
        source: asked.source.as_deref(),
        release: asked.release.as_deref(),
        from: asked.from.as_deref(),
        to: asked.to.as_deref(),
    };
    let request = LineageRequest::parse(&words, query.now())?;
    let format = Format::parse(asked.format.as_deref().unwrap_or(Format::Ndjson.name()))?;
    let workspace = query.catalog().workspace(workspace).await?;
    context.workspace = Some(workspace.id().clone());
    let answer = query.lineage(workspace.id(), &request).await?;
    let answer = if format == Format::Table { answer.only(&MAIN)? } else { answer };
    let body = Body::new(HeldBody(answer.write(format).await?));
    Ok(([(header::CONTENT_TYPE, content_type(format))], body).into_response())
}
