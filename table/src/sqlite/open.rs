//! Opening the file: creating it, recognising it, refusing foreign ones.

use std::{fs, io, path::Path, thread, time::Duration};

use event::{Error, Result};
use rusqlite::{Connection, OpenFlags, TransactionBehavior, config::DbConfig, ffi::ErrorCode};

use super::{
    fault::{Attempt, Fault},
    manage::beside,
    schema,
};

/// Time that a write waits for another process that is writing.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Size of a page of the file in bytes. Items are some hundred bytes or some hundred kilobytes; larger pages than this waste
/// space, smaller ones make longer chains for the long items.
const PAGE_BYTES: u32 = 16 * 1024;

/// Pages of the write-ahead log at which it is written back into the file.
const CHECKPOINT_PAGES: u32 = 4 * 1024;

/// Time for which emptying the write-ahead log waits for others: a short read ends in it, and no write waits for a long one.
const EMPTYING_TIMEOUT: Duration = Duration::from_millis(50);

/// Number of prepared statements that a connection keeps.
const STATEMENTS: usize = 64;

/// Message about a file that SQLite cannot write to.
const READ_ONLY: &str = "may be read but not written";

/// Maximum number of tries to turn on the write-ahead log while another process is opening the file; SQLite itself does not wait
/// there.
const WAL_ATTEMPTS: u32 = 200;

/// Permission to create the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Create {
    /// Create it when it is missing.
    Missing,
    /// Never create it: the file must be there.
    Never,
}

/// Opens the file at `path` for writing, after which it exists and is ours.
///
/// # Errors
/// `NotFound`, when there is none and none may be created; `Invalid`, when it is foreign; `Unavailable`, when it cannot be read
/// and written.
pub(super) fn writer(path: &Path, create: Create, busy: Duration) -> Result<Connection> {
    let shown = path.display();
    if path.is_dir() {
        return Err(Error::invalid(format!("{shown} is a folder; give the path of a file in it")));
    }
    if create == Create::Never && !path.exists() {
        return Err(Error::not_found(format!("{shown} does not exist")));
    }
    if let Some(folder) = path.parent().filter(|_| create == Create::Missing) {
        fs::create_dir_all(folder).map_err(|error| {
            Error::unavailable(format!("the folder {} cannot be created", folder.display())).because(error)
        })?;
    }
    let mut connection = connect(path, create, busy).map_err(|fault| unreadable(path, fault))?;
    if connection.is_readonly("main").unwrap_or(false) {
        return Err(with_reason(path, READ_ONLY));
    }
    match look(&mut connection).map_err(|fault| unreadable(path, fault))? {
        Found::Ours => {}
        Found::Empty if create == Create::Missing => {
            initialise(&mut connection, path).map_err(|fault| unreadable(path, fault))?;
        }
        found => return Err(refusal(path, &found)),
    }
    turn_on_wal(&connection, path).map_err(|fault| unreadable(path, fault))?;
    Ok(connection)
}

/// Opens the file for reading, once [`writer`] has opened it.
pub(super) fn reader(path: &Path, busy: Duration) -> Attempt<Connection> {
    let connection = connect(path, Create::Never, busy)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn connect(path: &Path, create: Create, busy: Duration) -> Attempt<Connection> {
    // No mutex: a connection is only ever used by one thread at a time. No URI: a path is a path.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create == Create::Missing {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(busy)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // A statement is planned once: SQLite would otherwise plan again whenever the bounds of a range change.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Only has an effect on an empty file.
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    // A commit returns when it is on the disk.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Deleted or overwritten data are replaced by zeros, so none are left in unused pages.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", CHECKPOINT_PAGES * PAGE_BYTES)?;
    // Another program may have changed the schema of the file, so functions in it are not trusted to run.
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Kind of a file.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Ours,
    Empty,
    Foreign,
    Version(i32),
}

fn look(connection: &mut Connection) -> Attempt<Found> {
    // All read from one state of the file: another process may be creating its tables right now.
    let transaction = connection.transaction()?;
    recognise(&transaction)
}

fn recognise(connection: &Connection) -> Attempt<Found> {
    let header = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) = (header("application_id")?, header("user_version")?);
    if application == schema::APPLICATION_ID {
        return Ok(if version == schema::VERSION { Found::Ours } else { Found::Version(version) });
    }
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(if application == 0 && version == 0 && tables == 0 { Found::Empty } else { Found::Foreign })
}

fn initialise(connection: &mut Connection, path: &Path) -> Attempt<()> {
    turn_on_wal(connection, path)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it meanwhile.
    match recognise(&transaction)? {
        Found::Ours => return Ok(()),
        Found::Empty => {}
        found => return Err(refusal(path, &found).into()),
    }
    transaction.execute_batch(schema::CREATE)?;
    transaction.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", schema::VERSION)?;
    transaction.commit()?;
    Ok(())
}

fn turn_on_wal(connection: &Connection, path: &Path) -> Attempt<()> {
    let mut attempts = 0;
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => {
                let message = format!("{}: its file system allows no write-ahead log", path.display());
                return Err(Error::unavailable(message).into());
            }
            Err(error) if busy(&error) && attempts < WAL_ATTEMPTS => {
                attempts += 1;
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes the whole write-ahead log back into the file and empties it. All pending writes wait meanwhile, so this hardly waits
/// for others.
///
/// # Errors
/// `Unavailable`, when readers of older states, or another writing process, block it.
pub(super) fn empty_wal(connection: &Connection) -> Attempt<()> {
    let usual = connection.pragma_query_value(None, "busy_timeout", |row| row.get::<_, u32>(0))?;
    connection.busy_timeout(EMPTYING_TIMEOUT)?;
    let is_blocked = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    connection.busy_timeout(Duration::from_millis(usual.into()))?;
    match is_blocked? {
        false => Ok(()),
        true => Err(Error::unavailable("others still read what was deleted; try again").into()),
    }
}

fn busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn refusal(path: &Path, found: &Found) -> Error {
    let path = path.display();
    match found {
        Found::Empty => Error::not_found(format!("{path} is empty: nothing has been written to it yet")),
        Found::Version(version) if *version > schema::VERSION => Error::invalid(format!(
            "{path} was written by a newer Almanac (file version {version}); update this one"
        )),
        Found::Version(version) => Error::invalid(format!("{path} has the unknown file version {version}")),
        _ => Error::invalid(format!("{path} is an SQLite file, but not one of Almanac")),
    }
}

/// Error of a file that SQLite could not open.
fn unreadable(path: &Path, fault: Fault) -> Error {
    match &fault {
        Fault::Failed(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Error::invalid(format!("{} is not a file of Almanac", path.display()))
        }
        Fault::Failed(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => {
            with_reason(path, "cannot be opened for reading and writing")
        }
        // A folder without write access is noticed only when the write-ahead log is opened beside the file.
        Fault::Failed(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
            with_reason(path, READ_ONLY)
        }
        _ => fault.at(path),
    }
}

/// Error of a file that SQLite could not open properly, with the reason, which SQLite does not report: the system's error at
/// another try.
fn with_reason(path: &Path, what: &str) -> Error {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true);
    let (tried, more) = match path.exists() || path.is_symlink() {
        true => (options.open(path), "; files are made beside it, so its folder must be writable too"),
        false => {
            // A separate name: it is never taken for a table, and may be removed again.
            let other = beside(path, "-try");
            let tried = options.create_new(true).open(&other);
            if tried.is_ok() {
                _ = fs::remove_file(&other);
            }
            (tried, "")
        }
    };
    match tried {
        Err(reason) => because_of(path, what, &reason),
        Ok(_) => Error::unavailable(format!("{} {what}{more}", path.display())),
    }
}

/// Error of a file with the system's `reason`, and a remedy if access rights are missing.
fn because_of(path: &Path, what: &str, reason: &io::Error) -> Error {
    let more = match reason.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; let this user write to the file and its folder, which reading takes as well"
        }
        _ => "",
    };
    Error::unavailable(format!("{} {what}: {reason}{more}", path.display()))
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[cfg(unix)]
    #[test]
    fn unopenable_file_error_gives_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let (path, missing) = (folder.path().join("log.db"), folder.path().join("missing/log.db"));
        std::os::unix::fs::symlink(&missing, &path).unwrap();
        let error = writer(&path, Create::Missing, BUSY_TIMEOUT).unwrap_err().to_string();
        let (what, reason) = error.split_once(" cannot be opened for reading and writing: ").unwrap();
        assert_eq!(what, path.display().to_string());
        assert!(reason.starts_with("No such file or directory"), "{error}");
        // If the file is not the obstacle, its folder is.
        let file = folder.path().join("file");
        assert!(with_reason(&file, "is odd").to_string().ends_with("file is odd"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left of the try");
        fs::write(&file, "").unwrap();
        let error = with_reason(&file, "is odd").to_string();
        assert!(error.ends_with("file is odd; files are made beside it, so its folder must be writable too"));
    }

    #[test]
    fn read_only_file_error_names_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log.db");
        fs::write(&file, "").unwrap();
        for code in [ffi::SQLITE_READONLY, ffi::SQLITE_READONLY_DIRECTORY] {
            let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let error = unreadable(&file, failure.into()).to_string();
            assert!(
                error.contains("log.db may be read but not written; files are made beside it"),
                "{error}"
            );
        }
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem] {
            let error = because_of(&file, READ_ONLY, &io::Error::from(kind)).to_string();
            let (what, remedy) = error.split_once("; ").unwrap();
            assert!(what.contains("log.db may be read but not written: "), "{error}");
            assert!(remedy.starts_with("let this user write to the file and its folder"), "{error}");
        }
        let error = because_of(&file, READ_ONLY, &io::Error::from(io::ErrorKind::NotFound)).to_string();
        assert!(!error.contains("; "), "{error}");
    }
}
