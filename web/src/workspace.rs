//! The workspace that a path names.

use axum::{
    extract::{FromRequestParts, Path},
    http::{StatusCode, request::Parts},
};

use crate::Problem;

/// An entity by its id or path, out of the one parameter that a path has for it, or of the two that it has for a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPath(pub String);

impl<S: Send + Sync> FromRequestParts<S> for InPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let segments = Path::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Path(segments) =
            segments.map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))?;
        let segments: Vec<&str> = segments.iter().map(|(_, segment)| segment.as_str()).collect();
        Ok(Self(named_in(&segments)))
    }
}

/// The id or path that segments of a path are. With `-`, which no category is called, in the place of the category a workspace is named
/// by its id.
pub fn named_in(segments: &[&str]) -> String {
    match segments {
        ["-", id] if !id.contains('/') => (*id).to_owned(),
        _ => segments.join("/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dash_stands_before_an_id() {
        assert_eq!(named_in(&["credit", "prod"]), "credit/prod");
        assert_eq!(named_in(&["-", "w_2NBs0sLBnJxEcoDLgVnQdJkhEgV"]), "w_2NBs0sLBnJxEcoDLgVnQdJkhEgV");
        assert_eq!(named_in(&["-", "credit/prod"]), "-/credit/prod", "a path has its own place");
        assert_eq!(named_in(&["ann"]), "ann");
    }
}
