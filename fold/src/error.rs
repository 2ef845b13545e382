//! Errors of folding events and of reading states.

/// Error in the given columns or state. Each variant means that stored data cannot be understood; trying again does
/// not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FoldError {
    /// A column required of every event of the kind is absent.
    #[error("column `{column}` is missing")]
    Missing {
        /// Name of the column.
        column: String,
    },
    /// A column holds values of another type than its field.
    #[error("column `{column}` is of the wrong type")]
    Type {
        /// Name of the column.
        column: String,
    },
    /// A column is not as long as the segment, or a code points beyond the dictionary.
    #[error("column `{column}` does not fit its segment")]
    Shape {
        /// Name of the column.
        column: String,
    },
    /// A required field is null.
    #[error("column `{column}` is null at row {row}")]
    Null {
        /// Name of the column.
        column: String,
        /// The row in its segment, from 0.
        row: usize,
    },
    /// A number is infinite or not a number.
    #[error("column `{column}` is not finite at row {row}")]
    NotFinite {
        /// Name of the column.
        column: String,
        /// The row in its segment, from 0.
        row: usize,
    },
    /// There are more rows in one day than row numbers.
    #[error("{rows} rows are more than one day can be joined with")]
    TooManyRows {
        /// Number of rows.
        rows: usize,
    },
    /// A release has tasks of different kinds on the days of a window.
    #[error("the release `{release}` changed its task; metrics of a window are of one task")]
    OtherTask {
        /// Name of the release.
        release: String,
    },
    /// Pooled releases have tasks of different kinds.
    #[error("the releases of `{pool}` have tasks of several kinds; metrics are of one kind")]
    OtherTasks {
        /// Name of the pool.
        pool: String,
    },
    /// A condition on predictions cannot be computed.
    #[error("{why}")]
    Refused {
        /// Reason.
        why: String,
    },
    /// Predictions are split into too many buckets.
    #[error("the metrics of one period would have more than {} rows", crate::evaluation::MAX_BUCKETS)]
    TooManyBuckets,
    /// More predictions of some keys are retracted on a day than are held.
    #[error("more than {} predictions of the keys are retracted on one day", crate::latest::MAX_RETRACTED)]
    TooManyRetracted,
    /// A stored state cannot be read.
    #[error("the state of {what} cannot be read: {why}")]
    State {
        /// Type of the state: a rollup or an evaluation.
        what: &'static str,
        /// Reason.
        why: String,
    },
}

/// The result of a fold.
pub type Result<T, E = FoldError> = std::result::Result<T, E>;

impl From<FoldError> for event::Error {
    fn from(error: FoldError) -> Self {
        Self::corrupt("the fold refused what it read").because(error)
    }
}
