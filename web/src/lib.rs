//! What the HTTP modules share: errors as problem details (RFC 9457), and which status an error
//! of the store becomes.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use store::{Error, ErrorKind};

/// How long a client should wait before it tries again, in seconds.
const RETRY_AFTER_SECONDS: &str = "1";

/// What is wrong with one row of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowProblem {
    /// The row, counted from 1.
    pub row: u64,
    /// The field, when one is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong and what is expected.
    pub message: String,
}

/// A problem document: what went wrong, for people and for programs.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    /// Always `about:blank`: the status says the type.
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    /// The first bad rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<RowProblem>,
    /// How many bad rows there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_count: Option<usize>,
}

impl Problem {
    /// A problem with a status and a sentence.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            errors: Vec::new(),
            error_count: None,
        }
    }

    /// A request that was refused for its rows: the first of them, and how many there are.
    pub fn rows(detail: impl Into<String>, errors: Vec<RowProblem>, error_count: usize) -> Self {
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail);
        Self { errors, error_count: Some(error_count), ..problem }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::Throttled => StatusCode::TOO_MANY_REQUESTS,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
        };
        if status.is_server_error() {
            tracing::error!(%error, "request failed");
        }
        Self::new(status, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
        }
        response
    }
}

/// The answer of a service that should not be sent requests for now.
pub fn not_ready(why: impl Into<String>) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, why)
}

/// The answer to a path that does not exist.
pub async fn no_such_path() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "there is nothing at this path; see the README for the ones there are",
    )
}

/// The answer to a method that a path does not have.
pub async fn no_such_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path does not answer this method; the header Allow names those it does",
    )
}
