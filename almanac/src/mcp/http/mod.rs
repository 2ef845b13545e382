//! The protocol over HTTP: the streamable transport, without sessions.

use axum::{
    Json, Router,
    extract::DefaultBodyLimit,
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use catalog::http::MAX_BODY_BYTES;
use serde_json::json;
use web::{
    Operation, Problem, RequiredPermission, Routes, Whole, answer, content, is_json,
    openapi::{ObjectBuilder, ResponseBuilder, Type},
    schema,
};

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
    let routes = Routes::new().add(operation(), RequiredPermission::known(), handler);
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

/// The operation of [`PATH`].
fn operation() -> Operation {
    let any = || ObjectBuilder::new().schema_type(Type::Object);
    let message = any().property("jsonrpc", schema::one_of(["2.0"])).property("method", schema::string());
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let message = content(message.required("jsonrpc").required("method"), Some(ping));
    Operation::post(PATH, "mcp")
        .tag("service")
        .summary("Answer a message of the Model Context Protocol")
        .description(
            "The streamable HTTP transport, without sessions. Operations that only read are tools, with the rights of the caller. A message that is \
             refused is answered by an error of JSON-RPC.",
        )
        .body("The message.", [("application/json", message)])
        .answers(StatusCode::OK, answer("The answer to a request.", "application/json", any()))
        .answers(StatusCode::ACCEPTED, ResponseBuilder::new().description("A notification was taken."))
}
