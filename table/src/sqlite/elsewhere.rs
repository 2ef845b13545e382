//! Detection of writes by other processes to the file, without reading it.
//!
//! Every commit is appended to the write-ahead log, which changes its length or the time of its last change. Two commits within
//! one tick of the file system's clock look alike when the log did not grow (it begins again after a checkpoint), so a read is
//! also due once a second.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

use super::manage::beside;

/// Maximum time between two reads without a visible change.
const AT_LEAST: Duration = Duration::from_secs(1);

/// State of the write-ahead log before the last read.
#[derive(Debug)]
pub(super) struct Elsewhere {
    log: PathBuf,
    seen: Option<(u64, SystemTime)>,
    read: Instant,
}

impl Elsewhere {
    /// Begins for the file at `path`, which has its log beside it; to be created before the first read.
    pub(super) fn new(path: &Path) -> Self {
        let log = beside(&path.canonicalize().unwrap_or_else(|_| path.to_owned()), "-wal");
        let seen = look(&log);
        Self { log, seen, read: Instant::now() }
    }

    /// Returns whether a read is due, because the log changed or none was for a second. After `true` the read counts as done.
    pub(super) fn is_due(&mut self) -> bool {
        let now = look(&self.log);
        // An unreadable log gives no information.
        let due = now.is_none() || now != self.seen || self.read.elapsed() >= AT_LEAST;
        if due {
            (self.seen, self.read) = (now, Instant::now());
        }
        due
    }
}

/// Reads the length and the time of the last change.
fn look(log: &Path) -> Option<(u64, SystemTime)> {
    let metadata = fs::metadata(log).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn read_is_due_on_change_and_every_second() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let log = folder.path().join("file-wal");
        fs::write(&path, "").unwrap();
        fs::write(&log, "one").unwrap();
        let mut elsewhere = Elsewhere::new(&path);
        assert!(!elsewhere.is_due());
        fs::write(&log, "three").unwrap();
        assert!(elsewhere.is_due());
        assert!(!elsewhere.is_due());
        let file = fs::File::options().write(true).open(&log).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(elsewhere.is_due(), "as long as before, and changed since");
        tokio::time::advance(AT_LEAST).await;
        assert!(elsewhere.is_due());
        assert!(!elsewhere.is_due());
        fs::remove_file(&log).unwrap();
        assert!(elsewhere.is_due() && elsewhere.is_due(), "nothing can be told");
    }
}
