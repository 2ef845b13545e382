//! Error in one row of events, as reported in answers and files of rejects.

use serde::Serialize;

/// Error in one row of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowProblem {
    /// Number of the row, counted from 1.
    pub row: u64,
    /// Name of the wrong field, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Error and expected value.
    pub message: String,
}
