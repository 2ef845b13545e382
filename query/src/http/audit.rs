//! The audit logs over HTTP.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use event::{Id, Result, Right};
use log::key::{AuditLog, EntityKind, parse_id};
use web::{
    About, Operation, Place, Problem, QueryParams, RequestContext, Requester, RequiredPermission, Routes,
    schema,
};

use super::{api, format_parameter, rows, said};
use crate::{
    Query,
    audit::{AuditParams, AuditRequest, NAME, columns},
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
    let rows = api::with_header(api::rows_in(&schema::component(ROW)), said::OF_NEXT);
    let rows = api::with_header(rows, said::OF_WINDOW);
    Operation::get("/v1/audit", "audit")
        .tag("access")
        .summary("Show who changed what")
        .description(
            "Page by page, by time: the header `Almanac-Next` says where the next page begins, and is missing on the last one.",
        )
        .query::<AuditParams>()
        .takes(format_parameter())
        .answers(StatusCode::OK, rows.build())
}

async fn answer(
    State(query): State<Arc<Query>>,
    requester: Requester,
    headers: HeaderMap,
    params: Result<QueryParams<AuditParams>, Problem>,
) -> Response {
    let mut context = RequestContext::kind(NAME);
    let answer = async {
        let QueryParams(params) = params?;
        let request = AuditRequest::parse(&params, query.now())?;
        let request = if requester.is_of_some_kinds { request.without_events() } else { request };
        if let Some(workspace) = &params.workspace {
            context.workspace = Some(of_workspace(&query, workspace).await?);
        }
        let audit_log = context.workspace.clone().map_or(AuditLog::Server, AuditLog::Workspace);
        let (answer, next) = query.audit(&audit_log, &request).await?;
        let names_days = params.from.is_some() || params.to.is_some();
        let window = said::window(request.window()).filter(|_| !names_days);
        let said: HeaderMap = next.map(said::next).into_iter().chain(window).collect();
        let rows = rows(answer, (params.format.as_deref(), &headers), &MAIN).await?;
        Ok::<_, Problem>((said, rows).into_response())
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
