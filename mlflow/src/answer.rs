//! Errors in the form that MLflow's clients understand.

use axum::{
    Extension, Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use event::Error;
use ingest::SubmitError;
use serde_json::{Value, json};
use web::{Busy, MAX_DETAIL_CHARS, Problem, cut};

/// A failed request: status, MLflow's error code, and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// True if the service only has too much to do.
    pub(crate) is_busy: bool,
}

pub(crate) type Answer<T = Value> = Result<T, Failure>;

impl Failure {
    /// Builds the failure of a status. A message may repeat parts of the request, of any length, so it is cut.
    pub(crate) fn of(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, code: code_of(status), message: cut(message.into(), MAX_DETAIL_CHARS), is_busy: false }
    }

    /// Builds the failure of a wrong request.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::of(StatusCode::BAD_REQUEST, message)
    }

    /// Builds the failure of something missing.
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self::of(StatusCode::NOT_FOUND, message)
    }

    /// Builds the failure of something that exists already.
    pub(crate) fn exists(message: impl Into<String>) -> Self {
        Self { code: "RESOURCE_ALREADY_EXISTS", ..Self::invalid(message) }
    }

    /// Builds the failure of a change that other requests keep overtaking.
    pub(crate) fn overtaken(what: &str) -> Self {
        Self::of(StatusCode::CONFLICT, format!("the {what} is being changed by others; try again"))
    }

    /// Builds the failure of an endpoint that is not served.
    pub(crate) fn unknown_endpoint(message: impl Into<String>) -> Self {
        Self { code: "ENDPOINT_NOT_FOUND", ..Self::missing(message) }
    }
}

/// Returns MLflow's code for a status.
fn code_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
        StatusCode::FORBIDDEN => "PERMISSION_DENIED",
        StatusCode::NOT_FOUND => "RESOURCE_DOES_NOT_EXIST",
        StatusCode::CONFLICT => "RESOURCE_CONFLICT",
        StatusCode::TOO_MANY_REQUESTS => "REQUEST_LIMIT_EXCEEDED",
        StatusCode::SERVICE_UNAVAILABLE => "TEMPORARILY_UNAVAILABLE",
        status if status.is_client_error() => "INVALID_PARAMETER_VALUE",
        _ => "INTERNAL_ERROR",
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let told = serde_json::to_value(&problem).unwrap_or_default();
        let mut message = told["detail"].as_str().unwrap_or_default().to_owned();
        if let Some(first) = told["errors"].get(0) {
            message += &format!(": {}", first["message"].as_str().unwrap_or_default());
        }
        // MLflow answers 400 to unprocessable content.
        let status = match problem.status() {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            status => status,
        };
        Self { is_busy: problem.is_busy(), ..Self::of(status, message) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Problem::from(error).into()
    }
}

impl From<SubmitError> for Failure {
    fn from(error: SubmitError) -> Self {
        Problem::from(error).into()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = Json(json!({ "error_code": self.code, "message": self.message }));
        match self.is_busy {
            true => (self.status, Extension(Busy), body).into_response(),
            false => (self.status, body).into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use event::ErrorKind;

    use super::*;

    #[test]
    fn busy_answers_are_marked_as_busy() {
        let is_busy = |kind| {
            let response = Failure::from(Error::new(kind, "later")).into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            response.extensions().get::<Busy>().is_some()
        };
        assert!(is_busy(ErrorKind::Busy) && !is_busy(ErrorKind::Unavailable));
    }
}
