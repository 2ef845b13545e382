//! The workspace that a path names.

use axum::{
    extract::{FromRequestParts, Path},
    http::{StatusCode, request::Parts},
};

use crate::Problem;

/// The id or the path of a workspace, from the one or two parameters of a path for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPath(pub String);

impl<S: Send + Sync> FromRequestParts<S> for InPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let segments = Path::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Path(segments) =
            segments.map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))?;
        let segments: Vec<String> = segments.into_iter().map(|(_, segment)| segment).collect();
        Ok(Self(segments.join("/")))
    }
}
