//! Common parts of the HTTP modules: errors as problem details (RFC 9457), the mapping of errors of the store to statuses, and
//! [`Routes`] that describe themselves for the OpenAPI document.
//!
//! ```
//! use almanac_web::{RequiredPermission, Operation, Problem, Routes};
//! use axum::http::StatusCode;
//!
//! let greeting = Operation::get("/greeting", "greet").summary("Greet");
//! let routes = Routes::<()>::new().add(greeting, RequiredPermission::nothing(), async || "hello");
//! assert!(routes.paths().paths.contains_key("/greeting"));
//!
//! let problem = Problem::new(StatusCode::NOT_FOUND, "there is no such release");
//! assert_eq!(problem.status(), StatusCode::NOT_FOUND);
//! ```

mod operation;
mod request;
mod required_permission;
mod routes;
pub mod schema;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use event::{Error, ErrorKind, RowProblem};
use serde::Serialize;
use utoipa::openapi::{RefOr, Schema};

pub use operation::{Operation, PROBLEM, answer, content, in_path, parameter, problem_response};
pub use request::{
    InPath, QueryParams, Refused, RequestContext, Requester, Whole, is_json, json_object, named_in,
};
pub use required_permission::{About, Need, Place, RequiredPermission};
pub use routes::{Demands, Routes};
pub use utoipa::openapi;

/// Time that a client should wait before it tries again, in seconds.
const RETRY_AFTER_SECONDS: &str = "1";

/// Maximum characters in the detail of a problem, and in the message about a row. Both repeat parts of the request, which may be
/// of any length.
pub const MAX_DETAIL_CHARS: usize = 1_000;

/// Maximum characters in the name of a field that a problem blames.
const MAX_FIELD_CHARS: usize = 200;

/// A problem document: an error, for people and for programs.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    /// Always `about:blank`: the status is the type.
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    /// The first bad rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<RowProblem>,
    /// Number of bad rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_count: Option<usize>,
    /// Seconds after which the client should try again, if known.
    #[serde(skip)]
    retry_after: Option<u64>,
    /// True if the service only has too much to do.
    #[serde(skip)]
    is_busy: bool,
}

/// Extension of the answer of a service that only has too much to do.
#[derive(Clone, Copy, Debug)]
pub struct Busy;

impl Problem {
    /// Builds a problem with a status and a sentence.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: cut(detail.into(), MAX_DETAIL_CHARS),
            errors: Vec::new(),
            error_count: None,
            retry_after: None,
            is_busy: false,
        }
    }

    /// Builds the answer of a service that has too much to do.
    pub fn busy(detail: impl Into<String>) -> Self {
        Self { is_busy: true, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// Sets the seconds after which the client should try again.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// Returns its body, with the id of the request that it answers.
    pub fn of_request(&self, id: &str) -> Vec<u8> {
        #[derive(Serialize)]
        struct OfRequest<'a> {
            #[serde(flatten)]
            problem: &'a Problem,
            request_id: &'a str,
        }
        // Serialising texts and numbers never fails.
        serde_json::to_vec(&OfRequest { problem: self, request_id: id }).unwrap_or_default()
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns whether the service only has too much to do, so that the request failed for no fault. The answer carries [`Busy`]
    /// then.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Returns the number of bad rows, if it is about rows.
    pub fn error_count(&self) -> Option<usize> {
        self.error_count
    }

    /// Builds the problem of a request refused for its rows: the first of them, and their number.
    pub fn rows(detail: impl Into<String>, errors: Vec<RowProblem>, error_count: usize) -> Self {
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail);
        let cut_row = |row: RowProblem| RowProblem {
            row: row.row,
            field: row.field.map(|field| cut(field, MAX_FIELD_CHARS)),
            message: cut(row.message, MAX_DETAIL_CHARS),
        };
        let errors = errors.into_iter().map(cut_row).collect();
        Self { errors, error_count: Some(error_count), ..problem }
    }
}

/// Cuts a text to a number of characters, with an ellipsis for the rest.
pub fn cut(mut text: String, max_chars: usize) -> String {
    if text.char_indices().nth(max_chars).is_some() {
        let end = text.char_indices().nth(max_chars - 1).map_or(0, |(at, _)| at);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Returns true if repeating the request later may well succeed.
fn is_for_later(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

/// Returns the schemas of this crate, by name.
pub fn problem_schemas() -> [(&'static str, RefOr<Schema>); 2] {
    let row = schema::object([
        ("row", schema::count().minimum(Some(1)).description(Some("The row, counted from 1.")).into()),
        ("message", schema::string().max_length(Some(MAX_DETAIL_CHARS)).into()),
    ])
    .property("field", schema::string().max_length(Some(MAX_FIELD_CHARS)));
    let problem = schema::object([
        ("type", schema::one_of(["about:blank"]).into()),
        ("title", schema::string().into()),
        ("status", schema::integer(400..=599).into()),
        ("detail", schema::string().max_length(Some(MAX_DETAIL_CHARS)).into()),
    ])
    .property("errors", schema::array(schema::component("RowProblem")).min_items(Some(1)))
    .property("error_count", schema::count().description(Some("How many bad rows there are.")))
    .property("request_id", schema::string().description(Some("As in the header X-Request-Id.")));
    [
        ("Problem", problem.description(Some("What went wrong (RFC 9457).")).into()),
        ("RowProblem", row.description(Some("What is wrong with one row of a request.")).into()),
    ]
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::Stale => StatusCode::PRECONDITION_FAILED,
            ErrorKind::Throttled => StatusCode::TOO_MANY_REQUESTS,
            ErrorKind::Busy => return Self::busy(told(&error)),
            ErrorKind::Unavailable | ErrorKind::Denied => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::Corrupt | ErrorKind::Incomplete => StatusCode::INTERNAL_SERVER_ERROR,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Gone => StatusCode::GONE,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        };
        if status.is_server_error() {
            tracing::error!(%error, "request failed");
        }
        Self::new(status, told(&error))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = (status, Json(&self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if is_for_later(status) {
            let default = || HeaderValue::from_static(RETRY_AFTER_SECONDS);
            headers.insert(header::RETRY_AFTER, self.retry_after.map_or_else(default, HeaderValue::from));
        }
        if self.is_busy {
            response.extensions_mut().insert(Busy);
        }
        // The outermost layer knows the id of the request, and writes the body again with it.
        response.extensions_mut().insert(self);
        response
    }
}

/// Returns the text of an error for callers. A denial by the store names accounts and roles, which belong into the log alone.
pub fn told(error: &Error) -> String {
    if error.is_denied() {
        return "the store denies the service what this takes; the log of the service says what".to_owned();
    }
    error.to_string()
}

/// Builds the answer of a service that should not be sent requests for now.
pub fn not_ready(why: impl Into<String>) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, why)
}

/// Builds the answer of a service that is addressed by a wrong name.
pub fn misdirected(why: impl Into<String>) -> Problem {
    Problem::new(StatusCode::MISDIRECTED_REQUEST, why)
}

/// Builds the answer to a request that names more than one host.
pub fn two_hosts() -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "the request has more than one header Host; send one")
}

/// Builds the answer to a request for which the service itself failed.
pub fn mistake() -> Problem {
    let detail = "the service made a mistake; its log says more, by the id of this request";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
}

/// Beginning of the answer to a path that does not exist.
pub const NO_PATH: &str = "there is nothing at this path";

/// Builds the answer to a path that does not exist.
pub async fn no_such_path() -> Problem {
    let detail = format!("{NO_PATH}; /openapi.json lists the ones there are");
    Problem::new(StatusCode::NOT_FOUND, detail)
}

/// Builds the answer to a method that a path does not have.
pub async fn no_such_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path does not answer this method; the header Allow names those it does",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_tells_the_cause_once() {
        let cause = std::io::Error::other("the disk is full");
        let problem = Problem::from(Error::unavailable("nothing can be written").because(cause));
        assert_eq!(problem.detail, "nothing can be written: the disk is full");
    }

    #[test]
    fn denied_store_access_is_reported_without_details() {
        let error =
            Error::new(ErrorKind::Denied, "item a / b: User: arn:aws:sts::1:assumed-role/query may not");
        let problem = Problem::from(error);
        assert_eq!(problem.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(problem.detail.contains("the log of the service") && !problem.detail.contains("arn:"));
    }

    #[test]
    fn what_repeats_the_request_is_cut() {
        assert_eq!(cut("é".repeat(5), 5), "é".repeat(5));
        assert_eq!(cut("é".repeat(6), 5), format!("{}…", "é".repeat(4)));
        let long = "x".repeat(10_000);
        let row = RowProblem { row: 1, field: Some(long.clone()), message: long.clone() };
        let problem = Problem::rows(long, vec![row], 1);
        let row = &problem.errors[0];
        let lengths =
            [&problem.detail, row.field.as_ref().unwrap(), &row.message].map(|text| text.chars().count());
        assert_eq!(lengths, [MAX_DETAIL_CHARS, MAX_FIELD_CHARS, MAX_DETAIL_CHARS]);
    }
}
