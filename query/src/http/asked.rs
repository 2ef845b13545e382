//! The words of a query string, as handlers take them.

use axum::{
    extract::{Query, rejection::QueryRejection},
    http::StatusCode,
};
use web::Problem;

/// The words of a request, or why they cannot be read.
pub(super) type Asked<T> = Result<Query<T>, QueryRejection>;

/// The words.
///
/// # Errors
/// `400`, with what is wrong with them.
pub(super) fn asked<T>(asked: Asked<T>) -> Result<T, Problem> {
    let asked = asked.map(|Query(asked)| asked);
    asked.map_err(|rejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text()))
}
