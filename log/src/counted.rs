//! Time counted by the table. Events are deleted for good by it, not by any single clock.
//!
//! Workers count minutes by their monotonic clocks ([`CountedTime::after`]): a worker that saw the item unchanged for a
//! minute adds that minute. The date moves towards the time of the clocks, by at most two minutes for each counted one,
//! and never beyond the slowest clock. So a clock that is ahead by weeks moves it by one day in twelve hours, and not
//! at all while a worker with a right clock runs; and with any clocks, the counted time has really passed.

use event::{Result, Timestamp};
use serde::{Deserialize, Serialize};
use table::{Condition, Item, Table};

use crate::key;

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Maximum minutes that the date moves for each counted one, so that it catches up after a pause.
pub const MOST_PER_MINUTE: i64 = 2;

/// Time that the table has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedTime {
    /// Number that grows by one with each write.
    pub ver: i64,
    /// Minutes that were counted, by monotonic clocks alone.
    pub minutes: i64,
    /// Date that it has reached. It never moves back.
    pub at: Timestamp,
}

impl CountedTime {
    /// First time of a table, at a date that several witnesses reported.
    pub fn first(at: Timestamp) -> Self {
        Self { ver: 1, minutes: 0, at }
    }

    /// Time after `minutes` more, if the least of the clocks is at `clocks`.
    pub fn after(&self, minutes: i64, clocks: Timestamp) -> Self {
        let most = self.at.plus_seconds(minutes * 60 * MOST_PER_MINUTE);
        Self { ver: self.ver + 1, minutes: self.minutes + minutes, at: clocks.min(most).max(self.at) }
    }

    /// Writes it in place of the one that it came after.
    ///
    /// # Errors
    /// `Conflict`, when another worker was quicker; those of the table.
    pub async fn write(&self, table: &dyn Table) -> Result<()> {
        let item = Item::record(key::counted_time(), ITEM_VERSION, self);
        table.put(item, Condition::unchanged(self.ver - 1)).await
    }
}

/// Reads the time that the table has counted; `None` before the first worker.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn load(table: &dyn Table) -> Result<Option<CountedTime>> {
    table.get(&key::counted_time()).await?.map(|item| item.to_record(ITEM_VERSION)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_time_advances_boundedly_and_never_backwards() {
        let start = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let days = |days: i64| start.plus_seconds(days * 24 * 60 * 60);
        let first = CountedTime::first(start);
        let moved = (0..12 * 60).fold(first, |time, _| time.after(1, days(25)));
        assert_eq!((moved.at, moved.minutes), (days(1), 12 * 60), "a day in twelve hours");
        assert_eq!(first.after(10, start.plus_seconds(60)).at, start.plus_seconds(60));
        let behind = moved.after(10, days(-25));
        assert_eq!((behind.at, behind.minutes), (days(1), 12 * 60 + 10));
    }
}
