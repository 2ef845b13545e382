//! Tokening in and out of the dashboard: the cookie of a session, and its conditions.
//!
//! A browser adds a cookie to the requests of any page. So a session counts only together with a header that a page of another
//! origin cannot set without permission, which none has, and never beside a header `Authorization`.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use event::{Error, Right};
use serde::Deserialize;
use serde_json::{Value, json};
use web::{
    About, Operation, Place, Problem, QueryParams, Requester, RequiredPermission, Routes, answer,
    openapi::{Header, RefOr, Response as Answered, ResponseBuilder, Schema, path::ParameterIn},
    parameter, schema,
};

use super::tokens::{Tokening, principal, segments};
use crate::{
    authenticator::Refusal,
    caller::Caller,
    session::{Session, SessionRecord},
};

/// Header of the dashboard, with any value.
const DASHBOARD: HeaderName = HeaderName::from_static("almanac-dashboard");

/// Header by which a browser names the origin of a request.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Name of the cookie. Over TLS it is one that no other host can set.
const fn name(is_encrypted: bool) -> &'static str {
    if is_encrypted { "__Host-almanac-session" } else { "almanac-session" }
}

/// Session of a request, if its headers contain one and it may count.
pub(super) fn of(headers: &HeaderMap, is_encrypted: bool) -> Result<Option<Session>, Refusal> {
    let name = name(is_encrypted);
    let all =
        headers.get_all(header::COOKIE).iter().flat_map(|all| all.as_bytes().split(|byte| *byte == b';'));
    let own = all.filter_map(|pair| pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    let mut own = own.filter(|value| !value.is_empty());
    let Some(value) = own.next() else { return Ok(None) };
    if !headers.contains_key(DASHBOARD) {
        return Err(Refusal::Unasked);
    }
    if !is_own_page(headers) {
        return Err(Refusal::Foreign);
    }
    // The second of two was set by another host.
    if own.next().is_some() {
        return Err(Refusal::Ended);
    }
    let session = std::str::from_utf8(value).ok().and_then(Session::parse);
    session.map(Some).ok_or(Refusal::Ended)
}

/// Returns whether no header shows a page of another origin.
fn is_own_page(headers: &HeaderMap) -> bool {
    if headers.contains_key(FETCH_SITE) {
        return headers.get_all(FETCH_SITE).iter().all(|site| site == "same-origin");
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    headers.get_all(header::ORIGIN).iter().all(|origin| {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        origin.zip(host).is_some_and(|((_, origin), host)| origin.eq_ignore_ascii_case(host))
    })
}

/// Returns whether a request comes from a page of another origin. An address entered by a person (`none`) is no page.
pub(super) fn is_foreign(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(FETCH_SITE).iter().peekable();
    let is_entered = sites.peek().is_some() && sites.all(|site| site == "none");
    !is_entered && !is_own_page(headers)
}

/// Header that sets the cookie of a session, or deletes it.
fn cookie(session: Option<&Session>, is_encrypted: bool) -> Option<HeaderValue> {
    let (name, secure) = (name(is_encrypted), if is_encrypted { "; Secure" } else { "" });
    let text = session.map(Session::text).unwrap_or_default();
    let ends = if session.is_some() { "" } else { "; Max-Age=0" };
    let mut value =
        HeaderValue::try_from(format!("{name}={text}; Path=/; HttpOnly; SameSite=Strict{ends}{secure}"))
            .ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Adds the deletion of the cookie to an answer.
pub(super) fn without_cookie(mut response: Response, is_encrypted: bool) -> Response {
    if let Some(none) = cookie(None, is_encrypted) {
        response.headers_mut().insert(header::SET_COOKIE, none);
    }
    response
}

/// Session that was closed, in the extensions of the answer about it.
#[derive(Clone, Debug)]
pub(super) struct Closed(pub(super) Session);

/// Routes by which a browser signs in and out.
pub(super) fn add(routes: Routes<Arc<Tokening>>) -> Routes<Arc<Tokening>> {
    routes
        .add(open_operation(), RequiredPermission::known(), open)
        .add(close_operation(), RequiredPermission::known(), close)
        .add(list_operation(), own(), list)
        .add(end_operation(), own(), end)
        .schema("Session", record_schema())
}

/// RequiredPermission for the caller's own sessions.
fn own() -> RequiredPermission {
    RequiredPermission::of(Right::Admin, About::Own(None, Place::Path("principal")))
}

fn list_operation() -> Operation {
    let sessions = schema::object([("sessions", schema::array(schema::component("Session")).into())]);
    principal("/v1/sessions/{principal}", Operation::get, "list_sessions")
        .summary("List the sessions that a user or system has open")
        .answers(StatusCode::OK, answer("The oldest first.", "application/json", sessions))
}

fn end_operation() -> Operation {
    let says = "Only the session of this id; all of them without it.";
    principal("/v1/sessions/{principal}", Operation::delete, "end_sessions")
        .takes(parameter(ParameterIn::Query, "session", schema::id(), says))
        .summary("End the sessions of a user or system")
        .description("Within 5 seconds no service takes them any more.")
        .answers(StatusCode::NO_CONTENT, Answered::new("They are ended."))
}

fn record_schema() -> RefOr<Schema> {
    schema::object([
        ("id", schema::id().into()),
        ("opened_at", schema::time().into()),
        ("used_at", schema::time().description(Some("When it was last used, to five minutes.")).into()),
        ("until", schema::time().into()),
    ])
    .into()
}

/// JSON of a session.
pub fn session_record(session: &SessionRecord) -> Value {
    json!({
        "id": session.id.as_str(), "opened_at": session.opened_at.to_string(),
        "used_at": session.used_at.to_string(), "until": session.until.to_string(),
    })
}

async fn list(
    State(signing): State<Arc<Tokening>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let principal = signing.service.principal(&segments(path)?).await?;
    let sessions = signing.tokens.sessions(&principal, signing.service.clock().now()).await?;
    let sessions: Vec<Value> = sessions.iter().map(session_record).collect();
    Ok((NOT_KEPT, Json(json!({ "sessions": sessions }))).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndParams {
    session: Option<String>,
}

async fn end(
    State(signing): State<Arc<Tokening>>,
    path: Result<Path<String>, PathRejection>,
    QueryParams(EndParams { session }): QueryParams<EndParams>,
) -> Result<Response, Problem> {
    let principal = signing.service.principal(&segments(path)?).await?;
    signing.tokens.end_sessions(&principal, session.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn done(says: &str) -> ResponseBuilder {
    let mut set = Header::new(schema::string());
    set.description = Some("The cookie: `HttpOnly`, `SameSite=Strict` and, over TLS, `Secure`.".into());
    ResponseBuilder::new().description(says).header("Set-Cookie", set)
}

fn open_operation() -> Operation {
    Operation::post("/v1/session", "open_session")
        .tag("people")
        .summary("Sign in: open a session for a browser")
        .description(
            "It is opened for the caller of `Authorization: Bearer`, and good for what that is good for, at most 12 hours, or until it was not used for an hour. The cookie \
             counts only together with a header `Almanac-Dashboard`, and without `Authorization`. Where callers are not asked who they are, \
             there is nothing to open.",
        )
        .answers(StatusCode::NO_CONTENT, done("It is open, and the answer sets its cookie."))
}

fn close_operation() -> Operation {
    Operation::delete("/v1/session", "close_session")
        .tag("people")
        .summary("Sign out: close the session that the request came in")
        .answers(StatusCode::NO_CONTENT, done("It is closed, and the answer takes its cookie away."))
}

const NOT_KEPT: [(HeaderName, HeaderValue); 1] =
    [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];

async fn open(
    State(signing): State<Arc<Tokening>>,
    requester: Requester,
    caller: Option<Extension<Arc<Caller>>>,
) -> Result<Response, Problem> {
    let mut response = (StatusCode::NO_CONTENT, NOT_KEPT).into_response();
    if let Some(Extension(caller)) = caller {
        let session = signing.tokens.open_session(&caller, signing.service.clock().now()).await?;
        let set = cookie(Some(&session), requester.is_encrypted);
        let set = set.ok_or_else(|| Error::corrupt("the cookie of a session is no header"))?;
        response.headers_mut().insert(header::SET_COOKIE, set);
    }
    Ok(response)
}

async fn close(
    State(signing): State<Arc<Tokening>>,
    requester: Requester,
    caller: Option<Extension<Arc<Caller>>>,
) -> Result<Response, Problem> {
    let mut response =
        without_cookie((StatusCode::NO_CONTENT, NOT_KEPT).into_response(), requester.is_encrypted);
    if let Some(session) = caller.as_ref().and_then(|Extension(caller)| caller.session()) {
        signing.tokens.close_session(session).await?;
        response.extensions_mut().insert(Closed(session.clone()));
    }
    Ok(response)
}
