//! What is wrong with one row of events, as answers and files of rejects say it.

use serde::Serialize;

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
