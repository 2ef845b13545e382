//! What the writer clears away now and then: expired items and old changes.
//!
//! It happens inside of the transaction of a group, a bounded amount at a time. A file without
//! writes is not cleared; readers hide expired items in any case.

use event::Timestamp;
use rusqlite::{Connection, params};

use super::{fault::Attempt, feed, row};
use crate::Key;

/// How long after the last time it is due again.
const EVERY_MICROS: i64 = 60 * 1_000_000;

/// How long an item stays after it has expired, in seconds. It is hidden from readers. A clock that was ahead
/// by less than this, and was put right, has removed nothing for good.
const KEPT_SECONDS: i64 = 30 * 24 * 60 * 60;

/// The most expired items removed at a time.
const MAX_EXPIRED: i64 = 500;

/// The most changes forgotten at a time. More than a group can add, so that the feed of a busy
/// table does not grow without bound.
const MAX_TRIMMED: i64 = 4_000;

/// When to clear away next.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    last: Option<Timestamp>,
}

impl Upkeep {
    /// Whether it is time.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        // A clock that was set back must not put it off forever.
        self.last.is_none_or(|last| (now.micros() - last.micros()).abs() >= EVERY_MICROS)
    }

    /// Clears away at `now`; when there was too much for one time, it is due again at once.
    pub(super) fn run(&mut self, connection: &Connection, now: Timestamp) -> Attempt<()> {
        self.last = Some(now);
        let more_expired = expire(connection, now)?;
        let more_changes = feed::trim(connection, now, MAX_TRIMMED)?;
        if more_expired || more_changes {
            self.last = None;
        }
        Ok(())
    }
}

/// Removes expired items; whether it removed as many as it may. The feed tells of it, as it does
/// of items that DynamoDB removes.
fn expire(connection: &Connection, now: Timestamp) -> Attempt<bool> {
    let sql =
        "SELECT pk, sk FROM item INDEXED BY item_expiry WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let expired = statement.query_map(params![row::seconds(now) - KEPT_SECONDS, MAX_EXPIRED], |row| {
        Ok(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    let expired = expired.collect::<Result<Vec<_>, _>>()?;
    for key in &expired {
        row::remove(connection, key)?;
        feed::record(connection, key, now)?;
    }
    Ok(expired.len() as i64 == MAX_EXPIRED)
}
