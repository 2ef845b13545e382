//! Check that the opened file is still the one at its path.
//!
//! If the file of a running service is deleted or replaced, the service is left with a file without a name: everything written
//! into it is lost when the service ends. So each commit checks first.

use std::path::{Path, PathBuf};

use event::{Error, Result};

/// Device and number by which the system identifies a file.
type Identity = (u64, u64);

/// Content of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    /// This file.
    File(Identity),
    /// Nothing.
    Nothing,
    /// Not known.
    Unknown,
}

/// File that was opened.
#[derive(Debug)]
pub(super) struct OpenedFile {
    path: PathBuf,
    opened: There,
    /// True if its absence was reported.
    is_told: bool,
}

impl OpenedFile {
    /// Begins with the file at `path`, which was opened just now.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), opened: look(path), is_told: false }
    }

    /// Refuses to write into a file that is not at its path any more, and reports it once.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn check(&mut self) -> Result<()> {
        let now = look(&self.path);
        if now == self.opened || [self.opened, now].contains(&There::Unknown) {
            self.is_told = false;
            return Ok(());
        }
        let what = match now {
            There::Nothing => "was deleted or moved away",
            _ => "was replaced by another file",
        };
        let error = Error::unavailable(format!(
            "{} {what} while it was in use, so nothing is written; stop every service and command that uses it, put the file in place and \
             start them again",
            self.path.display()
        ));
        if !self.is_told {
            tracing::error!(%error, "the store takes no writes any more");
            self.is_told = true;
        }
        Err(error)
    }
}

#[cfg(unix)]
fn look(path: &Path) -> There {
    use std::{fs, io::ErrorKind, os::unix::fs::MetadataExt};

    match fs::metadata(path) {
        Ok(found) => There::File((found.dev(), found.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => There::Nothing,
        Err(_) => There::Unknown,
    }
}

#[cfg(not(unix))]
fn look(_: &Path) -> There {
    There::Unknown
}

#[cfg(test)]
mod tests {
    use std::fs;

    use event::{Clock, ErrorKind};

    use crate::{Condition, Item, Key, Table, sqlite::SqliteTable};

    #[cfg(unix)]
    #[tokio::test]
    async fn deleted_or_replaced_file_refuses_writes_until_restored() {
        let folder = tempfile::tempdir().unwrap();
        let (path, away) = (folder.path().join("log.db"), folder.path().join("away.db"));
        let table = SqliteTable::open(&path, Clock::system()).unwrap();
        let put = async |sk: &str| table.put(Item::new(Key::new("p", sk)), Condition::Absent).await;
        put("a").await.unwrap();
        fs::rename(&path, &away).unwrap();
        for what in ["was deleted", "was replaced"] {
            let error = put("b").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains(what), "{error}");
            fs::write(&path, "another file").unwrap();
        }
        fs::rename(&away, &path).unwrap();
        put("b").await.unwrap();
    }
}
