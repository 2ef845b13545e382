//! The subject of a request, for its line in the log.

use axum::{
    Extension,
    response::{IntoResponse, Response},
};
use event::Id;

/// The subject of a request, as far as it is known. It goes with the answer, for its line in the log. It holds nothing of the
/// events themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestContext {
    /// The workspace.
    pub workspace: Option<Id>,
    /// Kind of the data appended or requested.
    pub kind: Option<&'static str>,
    /// Number of events or rows.
    pub rows: Option<u64>,
    /// The batch, by its idempotency key or its digest.
    pub batch: Option<String>,
}

impl RequestContext {
    /// Builds the context of a request for this kind of thing.
    pub fn kind(kind: &'static str) -> Self {
        Self { kind: Some(kind), ..Self::default() }
    }

    /// Attaches it to an answer.
    pub fn with(self, answer: impl IntoResponse) -> Response {
        (Extension(self), answer).into_response()
    }
}
