//! The protocol over HTTP: the streamable transport, without sessions.

use axum::{
    Json, Router,
    extract::DefaultBodyLimit,
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use catalog::http::MAX_BODY_BYTES;
use web::{Problem, RequiredPermission, Routes, Whole, is_json};

use super::{
    answered,
    protocol::{Failure, INVALID_PARAMS, METHOD_NOT_FOUND, Message, Reply},
};
use crate::client::Client;

/// Path of the protocol.
const PATH: &str = "/mcp";

/// The route. Each tool calls `router` as its caller would: `router` checks who that is, and from which page it calls.
pub(crate) fn routes(router: Router) -> Routes {
    let handler = async move |head: Parts, body: Whole| posted(router, head, body).await;
    let routes = Routes::new().serve("POST", PATH, RequiredPermission::known(), handler);
    routes.map_router(|router| router.layer(DefaultBodyLimit::max(MAX_BODY_BYTES)))
}

async fn posted(router: Router, head: Parts, body: Whole) -> Result<Response, Problem> {
    if !is_json(&head.headers) {
        let detail = "the content type should be application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let body = body.map_err(|rejection| Problem::new(rejection.status(), rejection.body_text()))?;
    let reply = match Message::read(&body) {
        Ok(Message::Request(request)) => {
            answered(&Client::of_caller(router, &head), &request, Some(&head.headers)).await
        }
        Ok(Message::Notification { .. }) => return Ok(StatusCode::ACCEPTED.into_response()),
        Err(refused) => refused,
    };
    Ok((status(&reply), Json(reply.json())).into_response())
}

/// Status of a reply. With a handshake, a failure within a request is answered as a result is.
fn status(reply: &Reply) -> StatusCode {
    match (&reply.result, reply.is_per_request) {
        (Ok(_), _) | (Err(Failure { code: METHOD_NOT_FOUND | INVALID_PARAMS, .. }), false) => StatusCode::OK,
        (Err(Failure { code: METHOD_NOT_FOUND, .. }), true) => StatusCode::NOT_FOUND,
        (Err(_), _) => StatusCode::BAD_REQUEST,
    }
}
