//! Lanes that have partitions of their own, and a table that shows them as parts of one: so who reads and writes logs
//! knows of one partition a workspace.
//!
//! DynamoDB takes 1,000 write units a second of a partition, and a day that begins is a new range at the end of its partition, whatever that was split into before.
//! Lane 0 stands in the partition of all logs of its workspace, `w#<id>/day`; lanes from 1 on stand there as well up to the
//! day that an item says, and from then on in `w#<id>/day/<lane>` ([`key::lane_partition`]), under the same sort keys. So a workspace
//! without lanes is read and written as if this were not.
//!
//! **No key is ever looked for in two places**: the day on which lanes begin to have their own partitions is [`AFTER_DAYS`] after the
//! day on which that is decided, events are at most a day ahead of their time, and what was read of the items is trusted for 12 hours:
//! so every process knows it before anything of that day is written. An older Almanac knows nothing of it, so nothing is decided before
//! the table is upgraded as a whole ([`FIRST_LAYOUT`]).

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use event::{Clock, Day, Error, Id, Result, Timestamp};
use table::{
    Call, Change, Index, Item, Key, KeyRange, Layer, Page, Policy, Query, Scan, Table, engine::Whole,
    item::Value, query_all, update,
};

use crate::{
    key::{self, LogId},
    scan,
};

mod merge;
#[cfg(test)]
mod tests;

/// How many days after it is decided lanes begin to have partitions of their own.
pub const AFTER_DAYS: i64 = 3;
const DAY_SECONDS: i64 = 86_400;

/// The layout up to which a table must be complete before any lane gets a partition of its own: an older Almanac looks for all in one.
pub const FIRST_LAYOUT: u32 = 4;

/// For how long what was read of the items is good, and for how long at most, while they cannot be read.
const REFRESH: Duration = Duration::from_secs(3_600);
const TRUST: Duration = Duration::from_secs(12 * 3_600);

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// From which days on lanes below a number have partitions of their own, all but lane 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OwnPartitions(BTreeMap<Day, u8>);

impl OwnPartitions {
    /// Over how many partitions the logs of a day are spread, or of all days.
    fn lanes_by(&self, day: Option<Day>) -> u8 {
        let begun = self.0.iter().filter(|(from, _)| day.is_none_or(|day| **from <= day));
        begun.map(|(_, lanes)| *lanes).max().unwrap_or(1)
    }

    fn has(&self, log: &LogId) -> bool {
        log.lane > 0 && log.lane < self.lanes_by(Some(log.day))
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let since = |(from, lanes): (&String, &Value)| {
            let Value::N(lanes) = lanes else { return None };
            Some((from.parse().ok()?, lanes.as_i64()?.try_into().ok()?))
        };
        let all = item.map("since")?.iter().map(since).collect::<Option<_>>();
        all.map(Self).ok_or_else(|| item.corrupt("`since` does not say days and lanes"))
    }

    fn to_item(&self, workspace: &Id) -> Item {
        let since = self.0.iter().map(|(from, lanes)| (from.to_string(), i64::from(*lanes).into()));
        let since: BTreeMap<String, Value> = since.collect();
        Item::new(key::own_partitions(workspace)).with("v", ITEM_VERSION).with("since", since)
    }
}

/// Gives each of so many lanes of a workspace, but lane 0, a partition of its own, if they have none. Returns the day from which on
/// they have it; `None` for one lane. Who calls it knows that no older Almanac is at work ([`FIRST_LAYOUT`]).
///
/// What stands in a log of that day already would not be found any more. So the day is [`AFTER_DAYS`] after that of the later of two clocks,
/// the caller's and the engine's, and later than every day that has events.
///
/// # Errors
/// `Corrupt`; `Invalid`, when there are events up to the last day that there is; those of the table.
pub async fn ensure(table: &dyn Table, workspace: &Id, lanes: u8, now: Timestamp) -> Result<Option<Day>> {
    if lanes <= 1 {
        return Ok(None);
    }
    let now = table.engine_time().map_or(now, |time| time.max(now));
    let soon = now.plus_seconds(AFTER_DAYS * DAY_SECONDS).day();
    let from = match scan::last_within(table, key::segments(workspace)).await? {
        Some((log, _)) => {
            log.day.next().ok_or_else(|| Error::invalid("there are events of the last day"))?.max(soon)
        }
        None => soon,
    };
    since(table, workspace, lanes, from).await.map(Some)
}

/// Gives so many lanes partitions of their own from a day on, unless they have them. Returns since when they have them. Who calls it knows that nobody
/// has written, or is about to write, an event of that day or a later one; [`ensure`] sees to it.
///
/// # Errors
/// `Corrupt`; those of the table.
pub async fn since(table: &dyn Table, workspace: &Id, lanes: u8, from: Day) -> Result<Day> {
    let (key, policy) = (key::own_partitions(workspace), Policy::of(&"the partitions of lanes"));
    let deciding = update(table, &key, policy, async |item| {
        let mut own = item.as_ref().map(OwnPartitions::from_item).transpose()?.unwrap_or_default();
        if let Some((known, _)) = own.0.iter().find(|(_, known)| **known >= lanes) {
            return Ok(Change::Leave(*known));
        }
        own.0.insert(from, lanes);
        Ok(Change::Put(own.to_item(workspace), from))
    });
    deciding.await
}

/// What was read of the items.
#[derive(Clone, Debug)]
struct Known {
    at: Timestamp,
    own: Arc<BTreeMap<Id, OwnPartitions>>,
}

/// A table that shows the partitions of lanes as parts of one.
#[derive(Debug)]
pub struct LanePartitions {
    below: Arc<dyn Table>,
    clock: Clock,
    known: Mutex<Option<Known>>,
    /// One reads the items at a time.
    reading: tokio::sync::Mutex<()>,
}

impl LanePartitions {
    /// The table, with one partition of logs a workspace. `clock` says when the items are to be read again.
    pub fn over(below: Arc<dyn Table>, clock: Clock) -> Arc<dyn Table> {
        Arc::new(Self { below, clock, known: Mutex::default(), reading: tokio::sync::Mutex::default() })
    }

    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known, if it is not older than that.
    fn known_for(&self, age: Duration) -> Option<Arc<BTreeMap<Id, OwnPartitions>>> {
        let micros = self.clock.now().micros();
        let known = self.known().clone()?;
        let passed = micros.abs_diff(known.at.micros());
        (u128::from(passed) <= age.as_micros()).then_some(known.own)
    }

    /// Which lanes of which workspaces have partitions of their own.
    async fn own(&self) -> Result<Arc<BTreeMap<Id, OwnPartitions>>> {
        if let Some(own) = self.known_for(REFRESH) {
            return Ok(own);
        }
        let _reading = self.reading.lock().await;
        if let Some(own) = self.known_for(REFRESH) {
            return Ok(own);
        }
        let at = self.clock.now();
        let items = match query_all(&*self.below, Query::table(key::all_own_partitions())).await {
            Ok(items) => items,
            Err(error) => return self.known_for(TRUST).ok_or(error),
        };
        let mut own = BTreeMap::new();
        for item in items {
            if let Some(workspace) = key::parse_own_partitions(&item.key) {
                own.insert(workspace, OwnPartitions::from_item(&item)?);
            }
        }
        let own = Arc::new(own);
        *self.known() = Some(Known { at, own: Arc::clone(&own) });
        Ok(own)
    }

    /// The partition of a log.
    async fn partition(&self, log: &LogId) -> Result<Option<String>> {
        if log.lane == 0 {
            return Ok(None);
        }
        let own = self.own().await?;
        let has = own.get(&log.workspace).is_some_and(|own| own.has(log));
        Ok(has.then(|| key::lane_partition(&log.workspace, log.lane)))
    }

    /// The partitions that a range is in.
    async fn partitions(&self, range: &KeyRange) -> Result<Vec<String>> {
        let all = || vec![range.pk.clone()];
        let Some(workspace) = key::parse_day_partition(&range.pk) else { return Ok(all()) };
        if let Some(log) = key::log_of_range(range) {
            return Ok(self.partition(&log).await?.map_or_else(all, |pk| vec![pk]));
        }
        let own = self.own().await?;
        let Some(own) = own.get(&workspace) else { return Ok(all()) };
        let last = range.to.strip_prefix("day#").and_then(|to| to.get(..10)?.parse().ok());
        let of_lanes = (1..own.lanes_by(last)).map(|lane| key::lane_partition(&workspace, lane));
        Ok(all().into_iter().chain(of_lanes).collect())
    }
}

/// The key that is shown of one that is stored.
fn show(key: &mut Key) {
    if let Some(logs) = key::parse_lane_partition(&key.pk) {
        key.pk = logs.to_owned();
    }
}

/// An item that is stored, under the key that is shown.
pub fn shown(mut item: Item) -> Item {
    show(&mut item.key);
    item
}

/// A page of a partition of lanes, under the keys of the partition that was asked for.
fn shown_in(pk: &str, mut page: Page) -> Page {
    page.items.iter_mut().for_each(|item| pk.clone_into(&mut item.key.pk));
    page
}

impl Layer for LanePartitions {
    type Kept = ();

    const ONE_BY_ONE: bool = false;

    fn below(&self) -> &dyn Table {
        &*self.below
    }

    async fn before(&self, _: Call<'_>) -> Result<()> {
        Ok(())
    }

    async fn placed(&self, key: &Key) -> Result<Option<Key>> {
        let Some((log, _)) = key::parse_segment(key) else { return Ok(None) };
        Ok(self.partition(&log).await?.map(|pk| Key::new(pk, key.sk.clone())))
    }

    fn show(&self, key: &mut Key) {
        show(key);
    }

    async fn find(&self, key: &Key) -> Result<Option<Item>> {
        let placed = self.placed(key).await?;
        let found = self.below.get(placed.as_ref().unwrap_or(key)).await?;
        Ok(found.map(|item| Item { key: key.clone(), ..item }))
    }

    async fn read(&self, query: &Query) -> Result<Page> {
        if query.index != Index::Table {
            return self.below.query(query).await;
        }
        let asked = &query.range.pk;
        let partitions = self.partitions(&query.range).await?;
        match &partitions[..] {
            [pk] if pk == asked => self.below.query(query).await,
            [pk] => {
                let range = KeyRange { pk: pk.clone(), ..query.range.clone() };
                Ok(shown_in(asked, self.below.query(&Query { range, ..query.clone() }).await?))
            }
            all => Ok(shown_in(asked, merge::read(&*self.below, query, all).await?)),
        }
    }

    fn item_bytes(&self) -> usize {
        // The keys of lanes are longer by `/03`.
        self.below.item_bytes() - 3
    }
}

/// All items of a table, under the keys that [`LanePartitions`] shows.
pub struct Shown(Box<dyn Whole>);

impl Shown {
    /// The items of a table, under the keys that are shown.
    pub fn over(below: Box<dyn Whole>) -> Box<dyn Whole> {
        Box::new(Self(below))
    }
}

#[async_trait]
impl Whole for Shown {
    async fn page(&self, scan: &Scan) -> Result<Page> {
        let mut page = self.0.page(scan).await?;
        page.items = page.items.into_iter().map(shown).collect();
        Ok(page)
    }
}
