//! Copy of the file while others write to it, by SQLite's own interface for backups.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use event::{Error, Result};
use rusqlite::{
    Connection,
    backup::{Backup, StepResult},
};

use super::{fault::Attempt, manage::beside, scan};
use crate::engine::Tell;

/// Number of pages copied between two calls of `tell`.
const STEP_PAGES: i32 = 1_024;

/// Time to wait while the copy is busy.
const PAUSE: Duration = Duration::from_millis(10);

/// Copies the file at `from` into a new one at `to`.
///
/// # Errors
/// `Invalid`, when `to` exists; those of reading and writing.
pub(super) fn backup(from: &Path, to: &Path, mut tell: Tell) -> Result<()> {
    if to.try_exists().map_err(|error| unwritable(to, error))? {
        return Err(there(to));
    }
    // All of it is copied from the state that this connection sees, so concurrent writers do not make it begin again.
    let source = scan::connection(from)?;
    let partial = create_partial(to).map_err(|error| unwritable(to, error))?;
    let copied = copy(&source, &partial, &mut tell).map_err(|fault| fault.at(&partial)).and_then(|()| {
        finish(from, &partial, to).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => there(to),
            _ => unwritable(to, error),
        })
    });
    if copied.is_err() {
        for ending in ["", "-journal", "-wal", "-shm"] {
            // The error of the copy matters more than the error of this deletion.
            _ = fs::remove_file(beside(&partial, ending));
        }
    }
    copied
}

/// Creates an empty file beside a new one, with a name that no other backup has: two of them may copy to the same place at once.
fn create_partial(to: &Path) -> io::Result<PathBuf> {
    let partial = beside(to, &format!(".{:016x}.partial", fastrand::u64(..)));
    File::create_new(&partial).map(|_| partial)
}

fn copy(source: &Connection, partial: &Path, tell: &mut Tell) -> Attempt<()> {
    let page_bytes = source.pragma_query_value(None, "page_size", |row| row.get::<_, u32>(0))?;
    let bytes = |pages: i32| u64::try_from(pages).unwrap_or(0) * u64::from(page_bytes);
    let mut target = Connection::open(partial)?;
    target.pragma_update(None, "synchronous", "FULL")?;
    {
        let backup = Backup::new(source, &mut target)?;
        loop {
            let step = backup.step(STEP_PAGES)?;
            let progress = backup.progress();
            tell(bytes(progress.pagecount - progress.remaining), bytes(progress.pagecount));
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                _ => thread::sleep(PAUSE),
            }
        }
    }
    target.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// Gives the finished copy its name, by a link, which replaces nothing.
fn finish(from: &Path, partial: &Path, to: &Path) -> io::Result<()> {
    fs::set_permissions(partial, fs::metadata(from)?.permissions())?;
    File::open(partial)?.sync_all()?;
    fs::hard_link(partial, to)?;
    fs::remove_file(partial)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn there(to: &Path) -> Error {
    Error::invalid(format!(
        "{} is there already; a backup replaces nothing, so name a new file",
        to.display()
    ))
}

fn unwritable(path: &Path, error: io::Error) -> Error {
    Error::unavailable(format!("{} cannot be written", path.display())).because(error)
}

#[cfg(test)]
mod tests {
    use event::Clock;

    use super::*;
    use crate::sqlite::SqliteTable;

    #[tokio::test]
    async fn concurrent_backups_to_one_path_yield_one() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("log.db"), folder.path().join("copy.db"));
        drop(SqliteTable::open(&from, Clock::system()).unwrap());
        let (source, target) = (from.clone(), to.clone());
        // While the first one copies, the second one does all of its work.
        let tell = move |_: u64, _: u64| {
            if !target.exists() {
                backup(&source, &target, Box::new(|_, _| ())).unwrap();
            }
        };
        let refused = backup(&from, &to, Box::new(tell)).unwrap_err().to_string();
        assert!(refused.contains("copy.db is there already"), "{refused}");
        drop(scan::connection(&to).unwrap());
        let names = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
        let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains("partial")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
