//! The body of a small request: a JSON object of known fields.

use axum::{
    body::Bytes,
    extract::rejection::BytesRejection,
    http::{HeaderMap, StatusCode, header},
};
use serde::de::DeserializeOwned;

use crate::Problem;

/// A body, unless it was too large.
pub type Whole = Result<Bytes, BytesRejection>;

/// Returns true if the content type is JSON. A page of another origin cannot set this without permission.
pub fn is_json(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// Reads a body that is a JSON object.
///
/// # Errors
/// A problem about its type, its size or its fields.
pub fn json_object<T: DeserializeOwned>(headers: &HeaderMap, body: Whole) -> Result<T, Problem> {
    if !is_json(headers) {
        let detail = "the content type should be application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let body = body.map_err(|rejection| Problem::new(rejection.status(), rejection.body_text()))?;
    // Without this check, serde reads an array as well.
    if body.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        let detail = "the body should be a JSON object";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
    }
    serde_json::from_slice(&body)
        .map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))
}
