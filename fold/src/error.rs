//! Why events could not be folded, or a state not be read.

/// What is wrong with the columns or the state that were given. All of it means that something
/// stored cannot be understood; trying again does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FoldError {
    /// A column that every event of the kind must have is absent.
    #[error("column `{column}` is missing")]
    Missing {
        /// Its name.
        column: String,
    },
    /// A column holds values of another type than its field.
    #[error("column `{column}` is of the wrong type")]
    Type {
        /// Its name.
        column: String,
    },
    /// A column is not as long as the segment, or a code points beyond the dictionary.
    #[error("column `{column}` does not fit its segment")]
    Shape {
        /// Its name.
        column: String,
    },
    /// A required field is null.
    #[error("column `{column}` is null at row {row}")]
    Null {
        /// Its name.
        column: String,
        /// The row in its segment, from 0.
        row: usize,
    },
    /// A number is infinite or not a number.
    #[error("column `{column}` is not finite at row {row}")]
    NotFinite {
        /// Its name.
        column: String,
        /// The row in its segment, from 0.
        row: usize,
    },
    /// There are more rows in one day than row numbers.
    #[error("{rows} rows are more than one day can be joined with")]
    TooManyRows {
        /// How many there are.
        rows: usize,
    },
    /// The days of a window judge a release by other tasks.
    #[error("the release `{release}` changed its task; figures of a window are of one task")]
    OtherTask {
        /// Its name.
        release: String,
    },
    /// Releases that are pooled are judged by tasks of several kinds.
    #[error("the releases of `{pool}` have tasks of several kinds; figures are of one kind")]
    OtherTasks {
        /// What they are pooled in, by name.
        pool: String,
    },
    /// A condition on predictions cannot be computed.
    #[error("{why}")]
    Refused {
        /// What is wrong with it.
        why: String,
    },
    /// Predictions are told apart by too much.
    #[error("the figures of one period would have more than {} rows", crate::evaluation::MAX_BUCKETS)]
    TooManyBuckets,
    /// More predictions of some keys are withdrawn on a day than are held.
    #[error("more than {} predictions of the keys are withdrawn on one day", crate::latest::MAX_WITHDRAWN)]
    TooManyWithdrawn,
    /// A stored state cannot be read.
    #[error("the state of {what} cannot be read: {why}")]
    State {
        /// Of what: a rollup or an evaluation.
        what: &'static str,
        /// What is wrong with it.
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
