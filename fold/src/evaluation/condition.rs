//! A condition on predictions: those for which it does not hold are left out.

use std::fmt;

use crate::{LogSegment, Result};

/// Says which predictions are kept. Like a bucket, it is asked of the prediction alone, and after the join: of one that was sent several
/// times it is asked what was sent last.
pub trait Condition: fmt::Debug + Send + Sync {
    /// The columns that it needs of predictions.
    fn columns(&self) -> &[String];

    /// Whether it holds, of each row of all segments, one segment after the other.
    ///
    /// # Errors
    /// [`FoldError::Refused`](crate::FoldError::Refused), when it cannot be computed.
    fn holds(&self, predictions: &[LogSegment<'_>]) -> Result<Vec<bool>>;
}
