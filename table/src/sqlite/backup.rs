//! A copy of the file while others write to it, by SQLite's own interface for backups.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::Path,
    thread,
    time::Duration,
};

use event::{Error, Result};
use rusqlite::{
    Connection,
    backup::{Backup, StepResult},
};

use super::{fault::Attempt, manage::beside, still};
use crate::engine::Tell;

/// How many pages are copied before `tell` hears of it.
const STEP_PAGES: i32 = 1_024;

/// How long is waited where the copy is busy.
const PAUSE: Duration = Duration::from_millis(10);

/// Copies the file at `from` into a new one at `to`.
///
/// # Errors
/// `Invalid`, when `to` is there; those of reading and writing.
pub(super) fn backup(from: &Path, to: &Path, mut tell: Tell) -> Result<()> {
    if to.try_exists().map_err(|error| unwritable(to, error))? {
        return Err(there(to));
    }
    // All of it is copied from the state that this connection sees, so writers that go on do not make it begin again.
    let source = still::connection(from)?;
    let partial = beside(to, ".partial");
    for ending in ["", "-journal", "-wal", "-shm"] {
        match fs::remove_file(beside(&partial, ending)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritable(&partial, error)),
            _ => {}
        }
    }
    copy(&source, &partial, &mut tell).map_err(|fault| fault.at(&partial))?;
    finish(from, &partial, to).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => there(to),
        _ => unwritable(to, error),
    })
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

/// Gives the whole copy its name, by a link, which replaces nothing.
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
