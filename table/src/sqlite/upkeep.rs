//! What the writer clears away now and then: expired items and old changes.
//!
//! It happens inside of the transaction of a group, a bounded amount at a time. A file without
//! writes is not cleared; readers hide expired items in any case.
//!
//! What is removed is gone for good, so no reading of the clock alone removes it: items go by the least that the clock has
//! said for an hour of monotonic time. A clock that jumps ahead and is put right within that hour removes nothing, and neither does a
//! process in its first hour, since nothing tells it that its clock is right. Most commands are shorter, so a file is cleared by services.

use std::time::Duration;

use event::Timestamp;
use rusqlite::{Connection, params};
use tokio::time::Instant;

use super::{fault::Attempt, feed, row};
use crate::Key;

/// How long after the last time it is due again.
const EVERY_MICROS: i64 = 60 * 1_000_000;

/// How long an item stays after it has expired, in seconds. It is hidden from readers. A clock that was ahead
/// by less than this, and was put right, has removed nothing for good.
const KEPT_SECONDS: i64 = 30 * 24 * 60 * 60;

/// For how long the clock must have said a date before items are removed by it.
const SAID_FOR: Duration = Duration::from_secs(60 * 60);

/// The most expired items removed at a time.
const MAX_EXPIRED: i64 = 500;

/// The most changes forgotten at a time. More than a group can add, so that the feed of a busy
/// table does not grow without bound.
const MAX_TRIMMED: i64 = 4_000;

/// When to clear away next.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    last: Option<Timestamp>,
    said: Option<Said>,
}

/// What the clock has said lately.
#[derive(Clone, Copy, Debug)]
struct Said {
    /// The least since this instant.
    least: Timestamp,
    since: Instant,
    /// The least of the time before.
    before: Option<Timestamp>,
}

impl Said {
    /// With one more reading, `now`, made at `at`.
    fn and(self, now: Timestamp, at: Instant) -> Self {
        match at.duration_since(self.since) >= SAID_FOR {
            true => Self { least: now, since: at, before: Some(self.least) },
            false => Self { least: self.least.min(now), ..self },
        }
    }

    /// The date that it has said for long enough, if there is one yet.
    fn date(self) -> Option<Timestamp> {
        self.before.map(|before| before.min(self.least))
    }
}

impl Upkeep {
    /// Whether it is time.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        // A clock that was set back must not put it off forever.
        self.last.is_none_or(|last| (now.micros() - last.micros()).abs() >= EVERY_MICROS)
    }

    /// Clears away at `now`, which the clock says at `at`; when there was too much for one time, it is due again at once.
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

/// Removes items that had expired at `date`; whether it removed as many as it may. The feed tells of it, as it does
/// of items that DynamoDB removes.
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
    fn a_date_counts_once_the_clock_has_said_it_for_an_hour() {
        let start = Instant::now();
        let minutes = |minutes: u64| start + Duration::from_secs(minutes * 60);
        let day = |day: i64| Timestamp::default().plus_seconds(day * 24 * 60 * 60);
        let began = |day| Said { least: day, since: start, before: None };
        let said = began(day(1)).and(day(1), minutes(59));
        assert_eq!(said.date(), None, "a process that has just begun knows of no date");
        // A jump, at the moment at which the hour is over, and the clock is put right.
        let said = said.and(day(400), minutes(60)).and(day(400), minutes(61));
        assert_eq!(said.date(), Some(day(1)));
        let said = said.and(day(1), minutes(62)).and(day(1), minutes(130));
        assert_eq!(said.date(), Some(day(1)));
        // A clock that goes on with another date.
        let said = [131, 160, 191, 252].into_iter().fold(said, |said, at| said.and(day(30), minutes(at)));
        assert_eq!(said.date(), Some(day(30)));
        // A clock that was ahead when the process began, and is put right within the hour.
        let said = began(day(400)).and(day(1), minutes(30)).and(day(1), minutes(60));
        assert_eq!(said.date(), Some(day(1)));
    }
}
