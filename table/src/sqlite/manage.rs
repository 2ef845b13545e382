//! Description and removal of the file itself, on a person's request.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use event::{Error, Result};
use rusqlite::{Connection, ErrorCode};

use super::{
    fault::{Attempt, Fault},
    open::{self, Create},
    schema,
};

/// Time to wait for others to close the file before it is removed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Description of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDescription {
    /// Version of its tables.
    pub version: i32,
    /// Columns of its key, such as `pk, sk`.
    pub key: String,
    /// Other indexes.
    pub indexes: Vec<FileIndex>,
    /// Number of changes kept in the feed.
    pub changes: u64,
    /// Attribute by which expired items are removed.
    pub time_to_live: String,
    /// Number of items, including expired ones that are not removed yet.
    pub items: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Size of its write-ahead log in bytes.
    pub log_bytes: u64,
}

/// Description of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileIndex {
    /// Name of the index.
    pub name: String,
    /// Columns of the index, in order.
    pub key: String,
}

/// Sizes in bytes of the file at `path` and of its write-ahead log; 0 for a missing one.
pub fn file_bytes(path: &Path) -> (u64, u64) {
    (bytes(path), bytes(&beside(path, "-wal")))
}

/// Describes the file at `path`, which others may be using.
///
/// # Errors
/// `NotFound`, when there is none; `Invalid`, when it is not a file of Almanac.
pub fn describe(path: &Path) -> Result<FileDescription> {
    let mut connection = open::writer(path, Create::Never, open::BUSY_TIMEOUT)?;
    look(&mut connection, path).map_err(|fault| fault.at(path))
}

fn look(connection: &mut Connection, path: &Path) -> Attempt<FileDescription> {
    // All read from one state of the file.
    let transaction = connection.transaction()?;
    let count = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, i64>(0));
    let items = count("SELECT count(*) FROM item")?;
    let changes = count("SELECT count(*) FROM change")?;
    let sql = "
        SELECT list.origin, list.name, group_concat(info.name, ', ' ORDER BY info.seqno)
        FROM pragma_index_list('item') AS list, pragma_index_info(list.name) AS info
        GROUP BY list.name ORDER BY list.name";
    let mut statement = transaction.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, FileIndex { name: row.get(1)?, key: row.get(2)? }))
    })?;
    let (keys, indexes): (Vec<_>, Vec<_>) =
        rows.collect::<Result<Vec<_>, _>>()?.into_iter().partition(|(origin, _)| origin == "pk");
    Ok(FileDescription {
        version: schema::VERSION,
        key: keys.into_iter().map(|(_, index)| index.key).collect(),
        indexes: indexes.into_iter().map(|(_, index)| index).collect(),
        changes: u64::try_from(changes).unwrap_or(0),
        time_to_live: "expires_at".to_owned(),
        items: u64::try_from(items).unwrap_or(0),
        bytes: file_bytes(path).0,
        log_bytes: file_bytes(path).1,
    })
}

/// Removes the file at `path` and SQLite's files beside it. Succeeds if it does not exist.
///
/// # Errors
/// `Invalid`, when it is not a file of Almanac; `Unavailable`, when another process is using it, or it cannot be removed.
pub fn delete(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    // SQLite keeps its other files beside the real one.
    let real = path.canonicalize().map_err(|error| unremovable(path, error))?;
    let connection = open::writer(path, Create::Never, CLOSE_TIMEOUT)?;
    // Leaving the write-ahead log needs the file for itself, and merges the rest of the log. So no process writes to a removed
    // file, and after a crash right here the remaining file is complete.
    let left =
        connection.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0));
    match left {
        Ok(mode) if mode == "delete" => {}
        Ok(_) => return Err(in_use(path)),
        Err(error)
            if matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            ) =>
        {
            return Err(in_use(path));
        }
        Err(error) => return Err(Fault::from(error).at(path)),
    }
    drop(connection);
    for path in [beside(&real, "-wal"), beside(&real, "-shm"), real] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unremovable(&path, error)),
            _ => {}
        }
    }
    Ok(())
}

fn in_use(path: &Path) -> Error {
    Error::unavailable(format!("{} is in use, perhaps by `almanac up`; stop that first", path.display()))
}

fn unremovable(path: &Path, error: io::Error) -> Error {
    Error::unavailable(format!("{} cannot be removed", path.display())).because(error)
}

/// Path of the file beside `path` whose name is longer by `ending`.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn bytes(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}
