//! Requests with a token that is valid for one append.

use std::sync::Arc;

use axum::{
    extract::Request,
    http::{HeaderName, HeaderValue, StatusCode},
    middleware::Next,
    response::{IntoResponse, Response},
};
use event::{Error, ErrorKind};
use tracing::Instrument;
use web::Problem;

use crate::{authenticator::Access, once::Use, token::Digest};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const ALMANAC_REPEAT: HeaderName = HeaderName::from_static("almanac-repeat");

/// Answer to a request with a used token: that of the append, if the idempotency key shows that it is repeated; else a refusal.
fn repeated(response: Response) -> Response {
    match response.status() {
        StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY => {
            let detail = "the token is good for one use, and was used for other events";
            Problem::new(StatusCode::FORBIDDEN, detail).into_response()
        }
        _ => response,
    }
}

/// Answers the request, if this is the one use of its token. The token identifies the batch, even if the request has another key.
pub(super) async fn used(access: &Arc<Access>, digest: Digest, mut request: Request, next: Next) -> Response {
    let begun = access.clock().now();
    let (id, is_spent) = match access.tokens().begin_use(&digest, begun).await {
        Ok(Use::Begun(id)) => (id, false),
        Ok(Use::Spent(id)) => (id, true),
        Ok(Use::Busy) => {
            let detail =
                "the token is good for one use, and is being used; nothing was stored by this request";
            return Problem::new(StatusCode::CONFLICT, detail).into_response();
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Problem::new(StatusCode::UNAUTHORIZED, error.to_string()).into_response();
        }
        Err(error) => return Problem::from(error).into_response(),
    };
    let Ok(key) = HeaderValue::try_from(id.as_str()) else {
        return Problem::from(Error::corrupt("the id is no text")).into_response();
    };
    request.headers_mut().insert(IDEMPOTENCY_KEY, key);
    request.headers_mut().remove(ALMANAC_REPEAT);
    if is_spent {
        return repeated(next.run(request).await);
    }
    let access = Arc::clone(access);
    // The use is ended even if the client hangs up.
    let answering = async move {
        let response = next.run(request).await;
        let is_done = response.status().is_success();
        // The append is durable, and the answer reports it. Until the use counts as broken off the token stays busy, and then its
        // idempotency key identifies the append.
        if let Err(error) = access.tokens().end_use(&digest, begun, is_done, access.clock().now()).await {
            tracing::warn!(%error, "the use of a token cannot be ended");
        }
        response
    };
    match tokio::spawn(answering.in_current_span()).await {
        Ok(response) => response,
        Err(_) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the append failed").into_response(),
    }
}
