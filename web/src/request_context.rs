//! What a request was about, for the line that the log may have of it.

use axum::{
    Extension,
    response::{IntoResponse, Response},
};
use event::Id;

/// What a request was about, as far as that is known. It goes with the answer, for its line in the log. It
/// holds nothing of the events themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestContext {
    /// The workspace.
    pub workspace: Option<Id>,
    /// What was appended or asked for.
    pub kind: Option<&'static str>,
    /// How many events or rows.
    pub rows: Option<u64>,
    /// The batch, by its idempotency key or its digest.
    pub batch: Option<String>,
}

impl RequestContext {
    /// A request for this kind of thing.
    pub fn kind(kind: &'static str) -> Self {
        Self { kind: Some(kind), ..Self::default() }
    }

    /// The answer, with this.
    pub fn with(self, answer: impl IntoResponse) -> Response {
        (Extension(self), answer).into_response()
    }
}
