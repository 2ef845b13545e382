//! A condition that selects predictions.

use std::fmt;

use crate::{LogSegment, Result};

/// Condition that selects predictions. Like a bucket, it depends on the prediction alone, and is evaluated after the
/// join: for a prediction sent several times, on the last one.
pub trait Condition: fmt::Debug + Send + Sync {
    /// Returns the columns of predictions that it needs.
    fn columns(&self) -> &[String];

    /// Evaluates the condition for each row of all segments, one segment after the other.
    ///
    /// # Errors
    /// [`FoldError::Refused`](crate::FoldError::Refused) if it cannot be computed.
    fn holds(&self, predictions: &[LogSegment<'_>]) -> Result<Vec<bool>>;
}
