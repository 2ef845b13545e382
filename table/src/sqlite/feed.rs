//! Change feed: a row with the key for every write, in the same commit.
//!
//! Numbers are given inside of the write transaction, and there is only one of those at a time; so changes become visible in the
//! order of their numbers, and no reader can miss one.

use event::{Error, Result, Timestamp, time::DAY_MICROS};
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Attempt;
use crate::{Changes, Key, Position};

/// Id of the only shard.
pub(super) const SHARD: &str = "sqlite";

/// Maximum changes in one answer.
pub(super) const MAX_CHANGES: usize = 1_000;

/// Time for which changes are kept.
const KEEP_MICROS: i64 = DAY_MICROS;

/// Key in `meta` of the number up to which changes have been trimmed.
const TRIMMED: &str = "trimmed";

/// Records a change.
pub(super) fn record(connection: &Connection, key: &Key, now: Timestamp) -> Attempt<()> {
    let sql = "INSERT INTO change (at, pk, sk) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![now.micros(), key.pk, key.sk])?;
    Ok(())
}

/// Reads changes after `from`.
///
/// A position before the oldest kept change, or after the newest that ever was (the file is another one than the reader knew), is
/// a gap; reading goes on with the oldest. A reader that asks for the oldest change has no position to lose, so it never gets a
/// gap.
pub(super) fn read(connection: &mut Connection, from: &Position) -> Attempt<Changes> {
    // The numbers and the rows must come from one state of the file.
    let transaction = connection.transaction()?;
    let trimmed = trimmed(&transaction)?;
    let (after, gap) = match from {
        Position::Oldest => (trimmed, false),
        Position::Latest => (newest(&transaction)?, false),
        Position::After(seq) => {
            let after = parse(seq)?;
            let lost = after < trimmed || after > newest(&transaction)?;
            (if lost { trimmed } else { after }, lost)
        }
    };
    let sql = "SELECT seq, pk, sk FROM change WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    let mut statement = transaction.prepare_cached(sql)?;
    let mut rows = statement.query(params![after, MAX_CHANGES as i64])?;
    let mut last = after;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        last = row.get(0)?;
        keys.push(Key::new(row.get::<_, String>(1)?, row.get::<_, String>(2)?));
    }
    Ok(Changes { keys, next: Some(Position::After(last.to_string())), gap })
}

/// Deletes at most `most` changes that are too old. Returns whether there were that many.
pub(super) fn trim(connection: &Connection, now: Timestamp, most: i64) -> Attempt<bool> {
    let horizon = now.micros() - KEEP_MICROS;
    let mut oldest = connection.prepare_cached("SELECT seq, at FROM change ORDER BY seq LIMIT ?1")?;
    let mut rows = oldest.query([most])?;
    let mut last = None;
    let mut count = 0;
    // In order, and up to the first kept change: if the clock has jumped, some changes are kept longer, but none is left behind a
    // trimmed one.
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(1)? >= horizon {
            break;
        }
        last = Some(row.get::<_, i64>(0)?);
        count += 1;
    }
    drop(rows);
    let Some(last) = last else { return Ok(false) };
    connection.prepare_cached("DELETE FROM change WHERE seq <= ?1")?.execute([last])?;
    let sql = "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2";
    connection.prepare_cached(sql)?.execute(params![TRIMMED, last])?;
    Ok(count == most)
}

fn trimmed(connection: &Connection) -> Attempt<i64> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
    Ok(statement.query_row([TRIMMED], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Number of the newest change that ever was.
fn newest(connection: &Connection) -> Attempt<i64> {
    let mut statement = connection.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'change'")?;
    Ok(statement.query_row([], |row| row.get(0)).optional()?.unwrap_or(0))
}

fn parse(seq: &str) -> Result<i64> {
    seq.parse()
        .map_err(|_| Error::invalid(format!("`{seq}` is not a position in the changes of an SQLite file")))
}
