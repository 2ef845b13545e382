//! The one error type of all code below the rim, whose kind names the caller's next action, and the error in one row of events.

use std::{error::Error as StdError, fmt, sync::Arc};

use serde::Serialize;

/// Next action of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A condition did not hold: read again, decide again.
    Conflict,
    /// The data that the caller had read has changed since: show it again, let the caller decide.
    Stale,
    /// The engine asks to slow down: wait, then try again.
    Throttled,
    /// The engine cannot be reached or is closing: try again later, or tell the operator.
    Unavailable,
    /// This process has too much to do: try again in a moment.
    Busy,
    /// The engine refuses these credentials: tell the operator. A retry may succeed, because permissions are granted
    /// externally.
    Denied,
    /// The request itself is wrong: do not retry.
    Invalid,
    /// Stored data cannot be understood: stop, and tell the operator.
    Corrupt,
    /// Less was read than must exist: read again, and if it stays, tell the operator.
    Incomplete,
    /// The requested item does not exist.
    NotFound,
    /// The requested item existed and was deleted permanently: request another one.
    Gone,
    /// The answer would exceed a limit: ask for less.
    TooLarge,
}

/// A failure, with the next action of the caller.
///
/// Its text is the message and every cause below it, each once. So a log, a problem document or a dead letter that
/// prints `{error}` shows all causes; and as `source` returns none of them, printing the chain repeats none. A clone
/// has the same causes: one failure may be the answer to many requests that waited together.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

/// Result of an operation that may fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error of a kind with a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), cause: None }
    }

    /// See [`ErrorKind::Conflict`].
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// See [`ErrorKind::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// See [`ErrorKind::Busy`].
    pub fn busy(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Busy, message)
    }

    /// See [`ErrorKind::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// See [`ErrorKind::Corrupt`].
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// See [`ErrorKind::Incomplete`].
    pub fn incomplete(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Incomplete, message)
    }

    /// See [`ErrorKind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// See [`ErrorKind::Gone`].
    pub fn gone(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Gone, message)
    }

    /// Adds the cause.
    pub fn because(mut self, cause: impl StdError + Send + Sync + 'static) -> Self {
        self.cause = Some(Arc::new(cause));
        self
    }

    /// Returns the cause, if known.
    pub fn cause(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.cause.as_deref()
    }

    /// Returns the next action of the caller.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// See [`ErrorKind::TooLarge`].
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::TooLarge, message)
    }

    /// Returns whether it may be temporary, so that a retry is worthwhile.
    pub fn may_pass(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Throttled | ErrorKind::Unavailable | ErrorKind::Busy | ErrorKind::Denied
        )
    }

    /// Returns whether the kind is [`ErrorKind::Denied`].
    pub fn is_denied(&self) -> bool {
        self.kind == ErrorKind::Denied
    }

    /// Returns whether a condition did not hold.
    pub fn is_conflict(&self) -> bool {
        self.kind == ErrorKind::Conflict
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause = self.cause.as_deref().map(|cause| cause as &dyn StdError);
        let mut told = String::new();
        while let Some(one) = cause {
            let text = one.to_string();
            // Some errors include their own cause in their text.
            if !told.contains(&text) {
                write!(f, ": {text}")?;
                told = text;
            }
            cause = one.source();
        }
        Ok(())
    }
}

impl StdError for Error {}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// An error with a cause, whose text may include the cause.
    #[derive(Debug)]
    struct Layered(&'static str, Option<Box<Layered>>);

    impl fmt::Display for Layered {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Layered {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    fn layered(outer: &'static str, inner: &'static str) -> Layered {
        Layered(outer, Some(Box::new(Layered(inner, None))))
    }

    #[test]
    fn every_cause_is_named_once() {
        let plain = Error::unavailable("the file cannot be read");
        assert_eq!(plain.to_string(), "the file cannot be read");
        let error = plain.clone().because(layered("the disk failed", "no power"));
        assert_eq!(error.to_string(), "the file cannot be read: the disk failed: no power");
        assert!(error.source().is_none(), "who prints the chain prints no cause a second time");
        let twice = plain.clone().because(layered("the disk failed: no power", "no power"));
        assert_eq!(twice.to_string(), error.to_string());
        let around = Error::corrupt("the day cannot be folded").because(error);
        assert_eq!(
            around.to_string(),
            "the day cannot be folded: the file cannot be read: the disk failed: no power"
        );
    }

    #[test]
    fn a_clone_keeps_kind_and_cause() {
        let error = Error::new(ErrorKind::Throttled, "not now").because(layered("too many", "of all"));
        let clone = error.clone();
        assert_eq!((clone.kind(), clone.to_string()), (ErrorKind::Throttled, error.to_string()));
        assert!(clone.cause().is_some_and(|cause| cause.source().is_some()));
    }
}
