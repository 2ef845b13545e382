//! Statements over HTTP.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use web::{
    InPath, Operation, Problem, RequestContext, Whole, content, json_object,
    openapi::{RefOr, Schema, Type, schema::ObjectBuilder},
    schema,
};

use super::{
    accept,
    api::rows_of,
    body::HeldBody,
    content_type,
    explained::{self, EXPLAIN, or_explained},
    said,
};
use crate::{
    Query,
    output::Format,
    sql::{self, MAX_SECONDS, MAX_STATEMENT_BYTES, Sql, SqlParams, names_of_tables},
};

/// The most bytes of a body: a statement of escaped letters, and a long read version.
pub(super) const MAX_BODY_BYTES: usize = 128 * 1024;

/// What a request says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    sql: String,
    #[serde(default)]
    all_days: bool,
    #[serde(default, deserialize_with = "text")]
    as_of: Option<String>,
    #[serde(default, deserialize_with = "text")]
    read_version: Option<String>,
    #[serde(default, deserialize_with = "text")]
    format: Option<String>,
    #[serde(default)]
    explain: bool,
}

/// What is there is a string, and not null.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    String::deserialize(from).map(Some)
}

pub(super) fn operation() -> Operation {
    let text = |says: &str| schema::string().description(Some(says.to_owned()));
    let flag = |says: &str| explained::flag().description(Some(says.to_owned()));
    let says = "Only what had been appended by this instant, or by the beginning of this day.";
    let as_of =
        schema::any_of([schema::time().description(Some(says.to_owned())).into(), schema::day().into()]);
    let read_version = "Only what an earlier answer of this statement was read from: what its header `Almanac-Read-Version` said. It takes the place of `as_of`.";
    let formats = Format::ALL.map(Format::name).into_iter().chain([said::READ_VERSION_FORMAT]);
    let body: RefOr<Schema> = schema::closed()
        .property("sql", text("The statement.").min_length(Some(1)).max_length(Some(MAX_STATEMENT_BYTES)))
        .property("all_days", flag("Read all days of tables of which the statement does not say the days."))
        .property("as_of", as_of)
        .property("read_version", text(read_version).pattern(Some("^[A-Za-z0-9_-]+$")))
        .property("format", schema::one_of(formats).default(Some(json!(Format::Ndjson.name()))))
        .property(EXPLAIN, flag(explained::SAYS))
        .required("sql")
        .into();
    let example = json!({
        "sql": "select release, avg(score) from predictions where day between '2026-06-01' and '2026-06-30' group by release"
    });
    let row = ObjectBuilder::new().schema_type(Type::Object).into();
    let operation = Operation::post("/v1/workspaces/{category}/{name}/sql", "sql")
        .tag("query")
        .summary("Answer a SQL statement")
        .description(format!(
            "One SELECT, with common table expressions, joins and unions, on the tables {}. Their columns are those of the operations of the same names; `transitions` has `day`, `rule`, `what`, `value`, `measured`, `text`, `at` and `id`. For each table the statement must say which days it reads, with conditions on `day` alone, unless it asks for all days. Functions that read files, and statements that change something, are refused. It ends when it takes more memory than queries may hold, or {MAX_SECONDS} seconds.",
            names_of_tables().split(", ").map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        ))
        .body("The statement.", [("application/json", content(body, Some(example)))]);
    operation.answers(StatusCode::OK, or_explained(rows_of(&row, true)).build())
}

pub(super) async fn answer(
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    headers: HeaderMap,
    body: Whole,
) -> Response {
    let mut context = RequestContext::kind(sql::NAME);
    let answer = read_or_explain(&query, &workspace, &headers, body, &mut context).await;
    context.with(answer)
}

async fn read_or_explain(
    query: &Query,
    workspace: &str,
    headers: &HeaderMap,
    body: Whole,
    context: &mut RequestContext,
) -> Result<Response, Problem> {
    let words: Params = json_object(headers, body)?;
    let format = accept::format(words.format.as_deref(), headers)?;
    if !words.explain {
        return read(query, workspace, (&words, format), context).await;
    }
    let (query, explaining) = query.explaining();
    let response = read(&query, workspace, (&words, format), context).await?;
    explained::explained(&explaining, response, &Method::POST, accept::is_text(format, headers)).await
}

async fn read(
    query: &Query,
    workspace: &str,
    (words, format): (&Params, Option<Format>),
    context: &mut RequestContext,
) -> Result<Response, Problem> {
    let sql = Sql::parse(&SqlParams {
        statement: &words.sql,
        all_days: words.all_days,
        as_of: words.as_of.as_deref(),
        read_version: words.read_version.as_deref(),
    })?;
    let workspace = query.catalog().workspace(workspace).await?;
    context.workspace = Some(workspace.id().clone());
    let answer = query.sql(workspace.id(), &sql).await?;
    let Some(format) = format else {
        let Some(read_version) = answer.read_version else {
            return Err(Problem::new(
                StatusCode::BAD_REQUEST,
                "no read version: stored metrics are not read from the log",
            ));
        };
        return Ok(
            ([(header::CONTENT_TYPE, said::READ_VERSION_TYPE)], read_version.to_string()).into_response()
        );
    };
    context.rows = Some(answer.frame.height() as u64);
    let said = said::headers(&answer);
    let body = HeldBody(answer.write(format).await?);
    Ok(([(header::CONTENT_TYPE, content_type(format))], said, Body::new(body)).into_response())
}
