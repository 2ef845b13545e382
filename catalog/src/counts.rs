//! Numbers of events of a workspace and of its releases, day by day. The projector writes them.

use std::collections::BTreeMap;

use event::{Id, Result};
use log::{
    key::{self, Counted},
    projection::COUNTER_VERSION,
};
use table::{Item, KeyRange, Query, Table, item::Value, query_all};

use super::{Catalog, WorkspacePage};

/// Counts by kind.
pub type Kinds = BTreeMap<String, u64>;

/// The counts of a month: by day, and by kind.
pub type MonthCounts = BTreeMap<String, Kinds>;

/// Sums of counts: by the subject of the count, and by kind.
pub type Counts = BTreeMap<Counted, BTreeMap<String, i64>>;

/// Decodes the counts of an item.
///
/// # Errors
/// `Corrupt`, when it is no counter, or has an unknown version.
pub fn counts_of(item: &Item) -> Result<MonthCounts> {
    item.check_version(COUNTER_VERSION)?;
    item.field("days")
}

/// Item that stores counts.
pub fn counts_item(key: table::Key, days: &MonthCounts) -> Item {
    Item::new(key).with("v", COUNTER_VERSION).with("days", Value::record(days))
}

/// Merges greater counts into counts: the count of a day never falls, so the greater one is the later one.
pub fn take_greater(into: &mut MonthCounts, from: MonthCounts) {
    for (day, kinds) in from {
        let known = into.entry(day).or_default();
        for (kind, count) in kinds {
            let known = known.entry(kind).or_default();
            *known = (*known).max(count);
        }
    }
}

/// Reads the counts in a range, month by month.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn read_counts(
    table: &dyn Table,
    range: KeyRange,
) -> Result<BTreeMap<(Counted, String), MonthCounts>> {
    let items = query_all(table, Query::table(range)).await?;
    let of = |item: &Item| key::parse_counter(&item.key).map(|of| Ok((of, counts_of(item)?)));
    items.iter().filter_map(of).collect()
}

/// Sums the counts of all months.
fn totals(months: BTreeMap<(Counted, String), MonthCounts>) -> Counts {
    let mut totals = Counts::new();
    for ((counted, _), days) in months {
        let total = totals.entry(counted).or_default();
        for (kind, count) in days.into_values().flatten() {
            *total.entry(kind).or_default() += count as i64;
        }
    }
    totals
}

impl Catalog {
    /// Counts the events of a workspace or a release, by kind, from one month to another (such as `2013-06`), both included.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn counts(
        &self,
        workspace: &Id,
        counted: &Counted,
        (from, to): (&str, &str),
    ) -> Result<BTreeMap<String, i64>> {
        let range = key::counters_between(workspace, counted, from, to);
        Ok(totals(read_counts(&*self.table, range).await?).remove(counted).unwrap_or_default())
    }

    /// Reads a workspace as [`Catalog::page`] does, with the counts of all months, by one query more.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn page_with_counts(&self, workspace: &Id) -> Result<WorkspacePage> {
        let mut page = self.page(workspace).await?;
        page.counts = Some(totals(read_counts(&*self.table, key::counters(workspace)).await?));
        Ok(page)
    }
}
