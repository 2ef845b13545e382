//! Heartbeats: how a worker shows that it is alive, and how other workers notice.
//!
//! A heartbeat is a growing number. Each observer times the growth on its own monotonic clock, so clocks that differ
//! between machines do not matter.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use event::{Result, Timestamp};
use log::key;
use serde::{Deserialize, Serialize};
use table::{Condition, Index, Item, Query, Table, query_all};
use tokio::time::Instant;

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Number of periods without growth after which a worker is dead.
const PERIODS: u32 = 3;

/// Time for which the heartbeat of a worker that is gone stays visible to people.
const KEEP_SECONDS: i64 = 60 * 60;

/// Maximum lead of another worker's clock by which the heartbeat's expiry is extended.
const MAX_AHEAD_SECONDS: i64 = 24 * 60 * 60;

/// Heartbeat of a worker, with its state for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Id of the worker.
    #[serde(skip_serializing)]
    pub worker: String,
    /// Grows by one with each heartbeat.
    pub beat: i64,
    /// Time of writing, by the worker's clock. Only people read it.
    pub at: Timestamp,
    /// Number of shards that it reads.
    pub shards: u64,
    /// Number of days that it has yet to write.
    pub dirty: u64,
    /// Milliseconds for which the oldest of them has waited.
    pub oldest_ms: u64,
    /// Number of repeated folds, because another worker wrote in between.
    pub retries: u64,
    /// Highest layout that it knows ([`log::layout`]).
    pub layout: u32,
}

impl Heartbeat {
    /// Item of the heartbeat. `latest` is the latest time of the clocks of other living workers: a worker whose clock
    /// is ahead would not see an item that has expired by that clock.
    fn to_item(&self, latest: Timestamp) -> Item {
        let until = self.at.max(latest.min(self.at.plus_seconds(MAX_AHEAD_SECONDS)));
        Item::record(key::worker(&self.worker), ITEM_VERSION, self)
            .with("expires_at", until.micros().div_euclid(1_000_000) + KEEP_SECONDS)
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.to_record_with(ITEM_VERSION, [("worker", &item.key.sk)])
    }

    /// Writes the heartbeat, such that workers whose clocks are at `latest` or earlier see it. Without a condition,
    /// since only the worker itself writes it.
    ///
    /// # Errors
    /// Errors of the table.
    pub(crate) async fn write(&self, table: &dyn Table, latest: Timestamp) -> Result<()> {
        table.put(self.to_item(latest), Condition::None).await
    }
}

/// Deletes the heartbeat of a worker that stops.
pub(crate) async fn farewell(table: &dyn Table, worker: &str) -> Result<()> {
    table.delete(&key::worker(worker), Condition::None).await
}

/// Reads the heartbeats of all workers of the last hour.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn heartbeats(table: &dyn Table) -> Result<Vec<Heartbeat>> {
    let items = query_all(table, Query::index(Index::Table, key::WORKERS)).await?;
    items.iter().map(Heartbeat::from_item).collect()
}

/// State of life of a worker, as observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Its heartbeat has moved while it was observed.
    Alive,
    /// It has not been observed for long enough.
    Unknown,
    /// Its heartbeat has not moved for three periods.
    Dead,
}

/// Observer of heartbeats.
#[derive(Debug)]
pub(crate) struct Watch {
    period: Duration,
    last_look: Option<Instant>,
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    /// Last heartbeat; `None` when the worker has none.
    beat: Option<i64>,
    since: Instant,
    has_moved: bool,
}

impl Watch {
    pub(crate) fn new(period: Duration) -> Self {
        Self { period, last_look: None, seen: BTreeMap::new() }
    }

    /// Records the heartbeats of all workers at `now`, and the workers that own leases.
    pub(crate) fn look(&mut self, beats: &BTreeMap<String, i64>, owners: &BTreeSet<String>, now: Instant) {
        // After a pause of the observer, growth may have been missed.
        let was_away = self.last_look.is_some_and(|last| now - last > self.period * 2);
        self.last_look = Some(now);
        self.seen.retain(|worker, _| beats.contains_key(worker) || owners.contains(worker));
        for worker in beats.keys().chain(owners) {
            let beat = beats.get(worker).copied();
            let seen = self.seen.entry(worker.clone()).or_insert(Seen { beat, since: now, has_moved: false });
            if seen.beat != beat {
                *seen = Seen { beat, since: now, has_moved: beat.is_some() };
            } else if was_away {
                seen.since = now;
            }
        }
    }

    pub(crate) fn life(&self, worker: &str, now: Instant) -> Life {
        match self.seen.get(worker) {
            Some(seen) if now - seen.since >= self.period * PERIODS => Life::Dead,
            Some(seen) if seen.has_moved => Life::Alive,
            _ => Life::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(1);

    #[test]
    fn an_item_is_read_as_it_was_written() {
        let beat = Heartbeat {
            worker: "w".into(),
            beat: 7,
            shards: 1,
            dirty: 2,
            oldest_ms: 3,
            ..Default::default()
        };
        assert_eq!(Heartbeat::from_item(&beat.to_item(Timestamp::default())).unwrap(), beat);
    }

    #[test]
    fn heartbeat_expires_an_hour_after_the_fastest_clock() {
        let at = Timestamp::default().plus_seconds(1_000_000);
        let beat = Heartbeat { worker: "w".into(), at, ..Default::default() };
        let kept = |ahead: i64| {
            let item = beat.to_item(at.plus_seconds(ahead));
            item.int("expires_at").unwrap() - 1_000_000
        };
        assert_eq!([-7_200, 0, 7_200, 500_000].map(kept), [3_600, 3_600, 10_800, 90_000]);
    }

    #[test]
    fn worker_is_dead_after_three_periods_without_movement() {
        let start = Instant::now();
        let mut watch = Watch::new(PERIOD);
        let owners = BTreeSet::from(["gone".to_owned()]);
        for second in 0..=4 {
            let now = start + PERIOD * second;
            watch.look(
                &BTreeMap::from([("a".to_owned(), i64::from(second)), ("b".to_owned(), 5)]),
                &owners,
                now,
            );
            assert_eq!(watch.life("a", now), if second == 0 { Life::Unknown } else { Life::Alive });
            for silent in ["b", "gone"] {
                assert_eq!(watch.life(silent, now), if second < 3 { Life::Unknown } else { Life::Dead });
            }
        }
    }

    #[test]
    fn an_observer_knows_nothing_after_a_pause() {
        let start = Instant::now();
        let mut watch = Watch::new(PERIOD);
        let beats = BTreeMap::from([("a".to_owned(), 1)]);
        watch.look(&beats, &BTreeSet::new(), start);
        let later = start + PERIOD * 60;
        watch.look(&beats, &BTreeSet::new(), later);
        assert_eq!(watch.life("a", later), Life::Unknown);
    }
}
