//! One error type for everything below the rim. Its kind names the caller's next move.

use std::fmt;

/// What the caller should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A condition did not hold: read again, decide again.
    Conflict,
    /// What the caller had read is not what there is now: show it again, let the caller decide.
    Stale,
    /// The engine asks to slow down: wait, then try again.
    Throttled,
    /// The engine cannot be reached or is closing: try again later, or tell the operator.
    Unavailable,
    /// The request itself is wrong: do not try it again.
    Invalid,
    /// What is stored cannot be understood: stop, and tell the operator.
    Corrupt,
    /// Less was read than what is known to be there: read again, and if it stays, tell the operator.
    Incomplete,
    /// What was asked for does not exist.
    NotFound,
    /// The answer would take more room than there is: ask for less.
    TooLarge,
}

/// What went wrong, and what to do next.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of anything that may fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// See [`ErrorKind::Conflict`].
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// See [`ErrorKind::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
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

    /// The same error with its cause.
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// What the caller should do next.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// See [`ErrorKind::TooLarge`].
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::TooLarge, message)
    }

    /// Whether a condition did not hold.
    pub fn is_conflict(&self) -> bool {
        self.kind == ErrorKind::Conflict
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
