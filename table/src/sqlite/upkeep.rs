//! Periodic cleaning by the writer: of expired items and old changes.
//!
//! It happens inside of the transaction of a group, a bounded amount at a time. A file without writes is not cleaned; readers
//! hide expired items in any case.
//!
//! Removed items are gone for good, so no single reading of the clock removes them: items are removed by the least date that the
//! clock has had for an hour of monotonic time. A clock that jumps ahead and is corrected within that hour removes nothing, and
//! neither does a process in its first hour, since it cannot know if its clock is right. Most commands are shorter, so a file is
//! cleaned by services.

use std::time::Duration;

use event::Timestamp;
use rusqlite::{Connection, params};
use tokio::time::Instant;

use super::{fault::Attempt, feed, row};
use crate::Key;

/// Time after the last cleaning at which it is due again.
const EVERY_MICROS: i64 = 60 * 1_000_000;

/// Seconds that an item stays after it has expired, hidden from readers. A clock that was ahead by less than this, and was
/// corrected, has removed nothing for good.
const KEPT_SECONDS: i64 = 30 * 24 * 60 * 60;

/// Time for which the clock must have had a date before items are removed by it.
const SAID_FOR: Duration = Duration::from_secs(60 * 60);

/// Maximum expired items removed at a time.
const MAX_EXPIRED: i64 = 500;

/// Maximum changes deleted at a time. More than a group can add, so that the feed of a busy table does not grow without bound.
const MAX_TRIMMED: i64 = 4_000;

/// State of the periodic cleaning.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    last: Option<Timestamp>,
    said: Option<Said>,
}

/// Recent readings of the clock.
#[derive(Clone, Copy, Debug)]
struct Said {
    /// Least reading since this instant.
    least: Timestamp,
    since: Instant,
    /// Least reading of the period before.
    before: Option<Timestamp>,
}

impl Said {
    /// Adds one more reading, `now`, made at `at`.
    fn and(self, now: Timestamp, at: Instant) -> Self {
        match at.duration_since(self.since) >= SAID_FOR {
            true => Self { least: now, since: at, before: Some(self.least) },
            false => Self { least: self.least.min(now), ..self },
        }
    }

    /// Date that the clock has had for long enough, if there is one yet.
    fn date(self) -> Option<Timestamp> {
        self.before.map(|before| before.min(self.least))
    }
}

impl Upkeep {
    /// Returns whether the cleaning is due.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        // A clock that was set back must not put it off forever.
        self.last.is_none_or(|last| (now.micros() - last.micros()).abs() >= EVERY_MICROS)
    }

    /// Cleans at clock time `now`, read at `at`; when there was too much for one time, it is due again at once.
    pub(super) fn run(&mut self, connection: &Connection, now: Timestamp, at: Instant) -> Attempt<()> {
        self.last = Some(now);
        let said = self.said.unwrap_or(Said { least: now, since: at, before: None }).and(now, at);
        self.said = Some(said);
        let more_expired = match said.date() {
            Some(date) => expire(connection, date, now)?,
            None => false,
        };
        let more_changes = feed::trim(connection, now, MAX_TRIMMED)?;
        if more_expired || more_changes {
            self.last = None;
        }
        Ok(())
    }
}

/// Removes items that had expired at `date`. Returns whether it removed as many as it may. The feed reports them, as it does
/// items that DynamoDB removes.
fn expire(connection: &Connection, date: Timestamp, now: Timestamp) -> Attempt<bool> {
    let sql =
        "SELECT pk, sk FROM item INDEXED BY item_expiry WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let expired = statement.query_map(params![row::seconds(date) - KEPT_SECONDS, MAX_EXPIRED], |row| {
        Ok(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    let expired = expired.collect::<Result<Vec<_>, _>>()?;
    for key in &expired {
        row::remove(connection, key)?;
        feed::record(connection, key, now)?;
    }
    Ok(expired.len() as i64 == MAX_EXPIRED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_date_counts_after_one_stable_hour() {
        let start = Instant::now();
        let minutes = |minutes: u64| start + Duration::from_secs(minutes * 60);
        let day = |day: i64| Timestamp::default().plus_seconds(day * 24 * 60 * 60);
        let began = |day| Said { least: day, since: start, before: None };
        let said = began(day(1)).and(day(1), minutes(59));
        assert_eq!(said.date(), None, "a process that has just begun knows of no date");
        // A jump, at the moment at which the hour is over, and the clock is corrected.
        let said = said.and(day(400), minutes(60)).and(day(400), minutes(61));
        assert_eq!(said.date(), Some(day(1)));
        let said = said.and(day(1), minutes(62)).and(day(1), minutes(130));
        assert_eq!(said.date(), Some(day(1)));
        // A clock that goes on with another date.
        let said = [131, 160, 191, 252].into_iter().fold(said, |said, at| said.and(day(30), minutes(at)));
        assert_eq!(said.date(), Some(day(30)));
        // A clock that was ahead when the process began, and is corrected within the hour.
        let said = began(day(400)).and(day(1), minutes(30)).and(day(1), minutes(60));
        assert_eq!(said.date(), Some(day(1)));
    }
}
