//! Headers that restrict the use of every answer, and ids in refusals that lead to their logs.

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderName, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use web::Problem;

/// Headers of every answer. Only the dashboard has pages, which browsers keep, with a policy of their own: no other answer may be
/// kept, load or run anything or stand in a frame.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
    ),
];

/// Adds these headers to an answer, unless it sets them itself, and the id of its request to a refusal.
pub(crate) fn hardened(mut response: Response, request_id: &str) -> Response {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        *response.body_mut() = Body::from(problem.of_request(request_id));
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(value);
    }
    response
}

/// Refuses a request that names two hosts: a proxy may use the one and this service the other.
pub(crate) async fn one_host(request: Request, next: Next) -> Response {
    if request.headers().get_all(header::HOST).iter().nth(1).is_some() {
        return web::two_hosts().into_response();
    }
    next.run(request).await
}

/// Time for which a browser uses only TLS for this host: a year.
const STRICT_TRANSPORT: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Adds the header of an encrypted connection, to this process or to a trusted proxy.
pub(crate) fn encrypted(mut response: Response) -> Response {
    response.headers_mut().entry(header::STRICT_TRANSPORT_SECURITY).or_insert(STRICT_TRANSPORT);
    response
}

/// Answer to a request that panicked. The message stays in the log.
pub(crate) fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    tracing::error!("a request panicked");
    web::mistake().into_response()
}
