//! How many events were counted: of a workspace and of its releases, day by day. The projector writes them.

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

/// The counts of some events together: by what they are counted for, and by kind.
pub type Counts = BTreeMap<Counted, BTreeMap<String, i64>>;

/// The counts that an item holds.
///
/// # Errors
/// `Corrupt`, when it is no counter, or of a version that is not known.
pub fn counts_of(item: &Item) -> Result<MonthCounts> {
    item.check_version(COUNTER_VERSION)?;
    let count = |value: &Value| match value {
        Value::N(number) => number.as_i64().and_then(|count| u64::try_from(count).ok()),
        _ => None,
    };
    let day = |(day, kinds): (&String, &Value)| {
        let Value::M(kinds) = kinds else { return Err(item.corrupt("`days` is not a map of maps")) };
        let kind = |(kind, value): (&String, &Value)| {
            Ok((kind.clone(), count(value).ok_or_else(|| item.corrupt("a count is no number"))?))
        };
        Ok((day.clone(), kinds.iter().map(kind).collect::<Result<_>>()?))
    };
    item.map("days")?.iter().map(day).collect()
}

/// The item that stores counts.
pub fn counts_item(key: table::Key, days: &MonthCounts) -> Item {
    let value = |kinds: &Kinds| {
        let kinds = kinds.iter().map(|(kind, count)| (kind.clone(), Value::from(*count as i64)));
        Value::M(kinds.collect())
    };
    let days = days.iter().map(|(day, kinds)| (day.clone(), value(kinds)));
    let days: BTreeMap<String, Value> = days.collect();
    Item::new(key).with("v", COUNTER_VERSION).with("days", days)
}

/// Takes over counts that are greater: the count of a day never falls, so they are the later ones.
pub fn take_greater(into: &mut MonthCounts, from: MonthCounts) {
    for (day, kinds) in from {
        let known = into.entry(day).or_default();
        for (kind, count) in kinds {
            let known = known.entry(kind).or_default();
            *known = (*known).max(count);
        }
    }
}

/// The counts in a range, month by month.
///
/// # Errors
/// Those of the table, and `Corrupt`.
pub async fn read_counts(
    table: &dyn Table,
    range: KeyRange,
) -> Result<BTreeMap<(Counted, String), MonthCounts>> {
    let items = query_all(table, Query::table(range)).await?;
    let of = |item: &Item| key::parse_counter(&item.key).map(|of| Ok((of, counts_of(item)?)));
    items.iter().filter_map(of).collect()
}

/// Sums of months.
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
    /// How many events were counted for a workspace or a release, by kind, from one month to another (such as
    /// `2013-06`), both included.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn counts(
        &self,
        workspace: &Id,
        counted: &Counted,
        (from, to): (&str, &str),
    ) -> Result<BTreeMap<String, i64>> {
        let range = key::counters_between(workspace, counted, from, to);
        Ok(totals(read_counts(&*self.table, range).await?).remove(counted).unwrap_or_default())
    }

    /// A workspace as [`Catalog::page`] reads it, with the counts of all months, which are read by one query more.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn page_with_counts(&self, workspace: &Id) -> Result<WorkspacePage> {
        let mut page = self.page(workspace).await?;
        page.counts = Some(totals(read_counts(&*self.table, key::counters(workspace)).await?));
        Ok(page)
    }
}
