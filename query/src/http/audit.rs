//! The audit logs over HTTP.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use event::{Id, Result, Right};
use log::key::{AuditLog, EntityKind, parse_id};
use serde::Deserialize;
use serde_json::json;
use web::{
    About, Operation, Place, Problem, QueryParams, RequestContext, Requester, RequiredPermission, Routes,
    openapi::{RefOr, Schema, path::ParameterIn},
    parameter, schema,
};

use super::{api, body::HeldBody, content_type, parameters::says_first_day, said};
use crate::{
    Query,
    audit::{AuditParams, AuditRequest, MAX_ROWS, NAME, columns, request::DEFAULT_ROWS},
    output::Format,
    row_filter::{OLDEST, ORDERS},
};

/// Columns of the table for people.
const MAIN: [&str; 7] = ["at", "principal", "action", "object", "name", "day", "rows"];

/// What the document calls a row.
const ROW: &str = "Row.audit";

/// The route of the audit logs of workspaces and of that of the server.
pub(super) fn routes(routes: Routes<Arc<Query>>) -> Routes<Arc<Query>> {
    let workspace = About::Entity("workspace", Place::Query("workspace"));
    let demand = RequiredPermission::of(Right::Maintain, workspace)
        .and(Right::Admin, About::ServerUnless(&["workspace"]));
    routes.add(operation(), demand, answer).schema(ROW, api::row_of(columns()))
}

fn operation() -> Operation {
    let text = || schema::string().min_length(Some(1));
    let place = schema::string().pattern(Some("^-?[0-9]+-[A-Za-z0-9.-]+$"));
    let limit = schema::integer(1..=MAX_ROWS).default(Some(json!(DEFAULT_ROWS)));
    let formats = schema::one_of(Format::ALL.map(Format::name)).default(Some(json!(Format::Ndjson.name())));
    let says_from = says_first_day();
    let orders = schema::one_of(ORDERS).default(Some(json!(OLDEST)));
    let says_workspace =
        "Changes of this workspace, by id or path; without it, of what belongs to no workspace.";
    let parameters: [(&str, RefOr<Schema>, &str); 8] = [
        ("principal", text().into(), "Only what this principal did, such as `user:ann`."),
        ("action", text().into(), "Only this action, such as `token.create`, or all of `token`."),
        ("from", schema::day().into(), &says_from),
        ("to", schema::day().into(), "The last UTC day; today by default."),
        ("limit", limit.into(), "At most so many rows."),
        ("after", place.into(), "What the header `Almanac-Next` of the page before said."),
        ("order", orders.into(), "Whether the oldest come first, or the newest."),
        ("format", formats.into(), "The format of the answer."),
    ];
    let operation = Operation::get("/v1/audit", "audit")
        .tag("access")
        .summary("Show who changed what")
        .description(
            "Page by page, by time: the header `Almanac-Next` says where the next page begins, and is missing on the last one.",
        )
        .takes(
            parameter(ParameterIn::Query, "workspace", schema::workspace(), says_workspace)
                .example(Some(json!("credit/prod"))),
        );
    let operation = parameters.into_iter().fold(operation, |operation, (name, schema, says)| {
        operation.takes(parameter(ParameterIn::Query, name, schema, says))
    });
    let rows = api::with_header(api::rows_in(&schema::component(ROW)), said::OF_NEXT);
    let rows = api::with_header(rows, said::OF_WINDOW);
    operation.answers(StatusCode::OK, rows.build())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    workspace: Option<String>,
    principal: Option<String>,
    action: Option<String>,
    from: Option<String>,
    to: Option<String>,
    limit: Option<String>,
    after: Option<String>,
    order: Option<String>,
    format: Option<String>,
}

async fn answer(
    State(query): State<Arc<Query>>,
    requester: Requester,
    parameters: Result<QueryParams<Parameters>, Problem>,
) -> Response {
    let mut context = RequestContext::kind(NAME);
    let answer = async {
        let QueryParams(asked) = parameters?;
        let request = asked.request(&query)?;
        let request = if requester.is_of_some_kinds { request.without_events() } else { request };
        if let Some(workspace) = &asked.workspace {
            context.workspace = Some(of_workspace(&query, workspace).await?);
        }
        let audit_log = context.workspace.clone().map_or(AuditLog::Server, AuditLog::Workspace);
        page(&query, &audit_log, &asked, &request).await
    };
    let answer = answer.await;
    context.with(answer)
}

/// The id of a workspace. A deleted one keeps its audit log, by its id.
async fn of_workspace(query: &Query, workspace: &str) -> Result<Id> {
    match query.catalog().workspace(workspace).await {
        Ok(workspace) => Ok(workspace.id().clone()),
        Err(missing) => match parse_id(workspace) {
            Some((None | Some(EntityKind::Workspace), id)) if query.has_audit_log(&id).await? => Ok(id),
            _ => Err(missing),
        },
    }
}

impl Parameters {
    fn request(&self, query: &Query) -> Result<AuditRequest> {
        let words = AuditParams {
            principal: self.principal.as_deref(),
            action: self.action.as_deref(),
            from: self.from.as_deref(),
            to: self.to.as_deref(),
            limit: self.limit.as_deref(),
            after: self.after.as_deref(),
            order: self.order.as_deref(),
        };
        AuditRequest::parse(&words, query.now())
    }
}

async fn page(
    query: &Query,
    audit_log: &AuditLog,
    asked: &Parameters,
    request: &AuditRequest,
) -> Result<Response, Problem> {
    let format = Format::parse(asked.format.as_deref().unwrap_or(Format::Ndjson.name()))?;
    let (answer, next) = query.audit(audit_log, request).await?;
    let answer = if format == Format::Table { answer.only(&MAIN)? } else { answer };
    let body = HeldBody(answer.write(format).await?);
    let mut headers: HeaderMap = next.map(said::next).into_iter().collect();
    if asked.from.is_none() && asked.to.is_none() {
        headers.extend(said::window(request.window()).map(|(name, window)| (Some(name), window)));
    }
    Ok(([(header::CONTENT_TYPE, content_type(format))], headers, Body::new(body)).into_response())
}
