//! What every answer has so that nothing else is made of it, and every refusal so that it is found in logs.

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderName, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use web::Problem;

/// The headers of every answer. Only the dashboard has pages, which browsers keep, with a policy of their own: nothing else may be kept, load or run
/// anything or stand in a frame.
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

/// The answer with these headers, where it does not say otherwise itself, and with the id of its request in a refusal.
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

/// Refuses a request that names two hosts: a proxy may go by the one and this service by the other.
pub(crate) async fn one_host(request: Request, next: Next) -> Response {
    if request.headers().get_all(header::HOST).iter().nth(1).is_some() {
        return web::two_hosts().into_response();
    }
    next.run(request).await
}

/// For how long a browser asks this host over TLS alone, once it was answered so: a year.
const STRICT_TRANSPORT: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// The answer to a request that came over TLS, to this process or to a proxy that is trusted.
pub(crate) fn encrypted(mut response: Response) -> Response {
    response.headers_mut().entry(header::STRICT_TRANSPORT_SECURITY).or_insert(STRICT_TRANSPORT);
    response
}

/// The answer to a request that panicked. What it says stays in the log.
pub(crate) fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    tracing::error!("a request panicked");
    web::mistake().into_response()
}
