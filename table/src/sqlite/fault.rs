//! Faults inside the engine, and their meaning to the caller.

use std::path::Path;

use event::{Error, ErrorKind};
use rusqlite::{ErrorCode, ffi};

/// Reason of a failure.
#[derive(Debug)]
pub(super) enum Fault {
    /// Refusal of one request: others of the same group go on.
    Refused(Error),
    /// Failure of SQLite: any open transaction must be given up.
    Failed(rusqlite::Error),
}

/// Result of anything that talks to SQLite.
pub(super) type Attempt<T> = Result<T, Fault>;

impl Fault {
    /// Error for callers, naming the file if SQLite failed.
    pub(super) fn at(self, path: &Path) -> Error {
        match self {
            Fault::Refused(error) => error,
            Fault::Failed(error) => Error::new(kind(&error), format!("{}: {}", path.display(), told(&error))),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Refused(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Failed(error)
    }
}

/// Message of SQLite; with an explanation and a remedy where it is ambiguous.
fn told(error: &rusqlite::Error) -> String {
    let Some(failure) = error.sqlite_error() else { return error.to_string() };
    match (failure.code, failure.extended_code) {
        (ErrorCode::DatabaseBusy, _) => format!(
            "another process holds the file ({error}); wait until it is done, or end it (`fuser` says which ones use the file)"
        ),
        (ErrorCode::DiskFull, _) => {
            format!("there is no room for what is written ({error}); make room on the disk")
        }
        // A full disk gives the error above, unless the index of the write-ahead log is the file that grows.
        (_, ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE) => format!(
            "the system refuses what is written ({error}); see whether a limit on the size of files (`ulimit -f`) or a quota is \
             reached, and whether the disk is full or failing"
        ),
        _ => error.to_string(),
    }
}

/// Kind of `error`, which tells the caller what to do next.
fn kind(error: &rusqlite::Error) -> ErrorKind {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => ErrorKind::Corrupt,
            ErrorCode::TooBig => ErrorKind::Invalid,
            // A full disk, a failing one, a file that was removed or that another process holds for longer than the busy timeout:
            // for the operator to see to.
            _ => ErrorKind::Unavailable,
        },
        // A column that has not the type it was written with.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::InvalidColumnType(..) => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_name_the_next_move() {
        let cases = [
            (ffi::SQLITE_BUSY, ErrorKind::Unavailable),
            (ffi::SQLITE_FULL, ErrorKind::Unavailable),
            (ffi::SQLITE_IOERR_FSYNC, ErrorKind::Unavailable),
            (ffi::SQLITE_CORRUPT, ErrorKind::Corrupt),
            (ffi::SQLITE_NOTADB, ErrorKind::Corrupt),
        ];
        for (code, expected) in cases {
            let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let error = Fault::from(failure).at(Path::new("log.db"));
            assert_eq!(error.kind(), expected, "{error}");
            assert!(error.to_string().starts_with("log.db: "), "{error}");
        }
    }

    #[test]
    fn mendable_faults_name_their_remedy() {
        let cases = [
            (ffi::SQLITE_BUSY, "log.db: another process holds the file ("),
            (ffi::SQLITE_FULL, "make room on the disk"),
            (ffi::SQLITE_IOERR_WRITE, "`ulimit -f`"),
            (ffi::SQLITE_IOERR_SHMSIZE, "`ulimit -f`"),
        ];
        for (code, expected) in cases {
            let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let said = Fault::from(failure).at(Path::new("log.db")).to_string();
            assert!(said.contains(expected) && said.contains("; "), "{said}");
        }
    }
}
