//! Expired days of a workspace. A day is marked before its first segment is deleted, and stays marked for good: its
//! remaining segments are hidden, nothing is appended to it, and its missing segments are no gap.

use std::collections::BTreeSet;

use event::{Day, Id, Result, Timestamp};
use serde::{Deserialize, Serialize};
use table::{Condition, Item, Query, Table, query_all};

use crate::{key, projection::Applied};

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Maximum minutes by which the note of another worker may be ahead of the time that this worker has read.
const AHEAD_MINUTES: i64 = 60;

/// Expired day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expired {
    /// The day.
    #[serde(skip_serializing)]
    pub day: Day,
    /// Last segment of each of its logs, all of which were folded when it was marked.
    pub heads: Applied,
    /// Time of the mark.
    pub at: Timestamp,
}

impl Expired {
    /// Encodes it as an item.
    pub fn to_item(&self, workspace: &Id) -> Item {
        Item::record(key::expired(workspace, self.day), ITEM_VERSION, self)
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.to_record_with(ITEM_VERSION, [("day", &day_of(item)?.to_string())])
    }
}

fn day_of(item: &Item) -> Result<Day> {
    key::parse_expired(&item.key).ok_or_else(|| item.corrupt("its key is not one of an expired day"))
}

/// Reads the mark of a day, if it is expired.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn load(table: &dyn Table, workspace: &Id, day: Day) -> Result<Option<Expired>> {
    table.get(&key::expired(workspace, day)).await?.as_ref().map(Expired::from_item).transpose()
}

/// Reads all marks of a workspace, by day.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn all(table: &dyn Table, workspace: &Id) -> Result<Vec<Expired>> {
    let items = query_all(table, Query::table(key::all_expired(workspace))).await?;
    items.iter().map(Expired::from_item).collect()
}

/// Reads the marks of the days from `from` to `to`, by day.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn between(table: &dyn Table, workspace: &Id, from: Day, to: Day) -> Result<Vec<Expired>> {
    let items = query_all(table, Query::table(key::expired_between(workspace, from, to))).await?;
    items.iter().map(Expired::from_item).collect()
}

/// Reads the expired days from `from` to `to`.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn days(table: &dyn Table, workspace: &Id, from: Day, to: Day) -> Result<BTreeSet<Day>> {
    let query = Query::table(key::expired_between(workspace, from, to)).only(&["v"]);
    query_all(table, query).await?.iter().map(day_of).collect()
}

/// Reads the latest expired day.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn latest(table: &dyn Table, workspace: &Id) -> Result<Option<Day>> {
    let mut query = Query::table(key::all_expired(workspace)).backward().limit(1).only(&["v"]);
    loop {
        let page = table.query(&query).await?;
        match (page.items.first(), page.next) {
            (Some(item), _) => return day_of(item).map(Some),
            // A page may be empty and yet not be the last.
            (None, Some(next)) => query.after = Some(next),
            (None, None) => return Ok(None),
        }
    }
}

/// Returns the minute of the table's counted time in which version `ver` of the retention was noticed; records `minute`
/// if none is recorded, or one far in the future, which comes from another table (a moved workspace). The later of two
/// notes holds, so nothing is deleted too early.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn noticed(table: &dyn Table, workspace: &Id, ver: i64, minute: i64) -> Result<i64> {
    let key = key::noticed(workspace);
    if let Some(item) = table.get(&key).await? {
        item.check_version(ITEM_VERSION)?;
        let noticed = item.int("minute")?;
        if item.int("ver")? == ver && noticed <= minute + AHEAD_MINUTES {
            return Ok(noticed);
        }
    }
    let item = Item::new(key).with("v", ITEM_VERSION).with("ver", ver).with("minute", minute);
    table.put(item, Condition::None).await?;
    Ok(minute)
}

/// Deletes the note of a retention: in a moved workspace it is in another table's time.
///
/// # Errors
/// Errors of the table.
pub async fn forget_notice(table: &dyn Table, workspace: &Id) -> Result<()> {
    table.delete(&key::noticed(workspace), Condition::None).await
}
