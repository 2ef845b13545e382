//! Progress of the compaction of a workspace ([`crate::merged`]): the days checked for mergeable segments, at some ages, and the
//! amounts merged.

use std::collections::BTreeMap;

use event::{Day, Id, Result};
use table::{Condition, Item, Table, item::Value};

use crate::key;

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Maximum number of tries to record progress while other processes record something at the same time.
const TRIES: usize = 5;

/// Attributes that count.
const MERGED: &str = "merged";
const DELETED: &str = "deleted";

/// Progress of the compaction of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Last day, by age in days, up to which all days were checked at that age.
    pub until: BTreeMap<u32, Day>,
    /// Number of merged items written. The count of a process that died before it recorded it is missing.
    pub merged: u64,
    /// Number of items of segments deleted, since merged items hold them; counted likewise.
    pub deleted: u64,
}

impl Compacted {
    /// Last day up to which all were checked at any age.
    pub fn last_day(&self) -> Option<Day> {
        self.until.values().max().copied()
    }

    /// Reads the progress of a workspace: one read.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn load(table: &dyn Table, workspace: &Id) -> Result<Self> {
        let Some(item) = table.get(&key::compacted(workspace)).await? else { return Ok(Self::default()) };
        item.check_version(ITEM_VERSION)?;
        let days: BTreeMap<String, Day> = item.field("until")?;
        let parsed = |(age, day): (String, Day)| Ok((age.parse()?, day));
        let until: Result<_, std::num::ParseIntError> = days.into_iter().map(parsed).collect();
        let until = until.map_err(|_| item.corrupt("an age is no number"))?;
        let count = |name| Ok::<_, event::Error>(item.field::<Option<u64>>(name)?.unwrap_or_default());
        Ok(Self { until, merged: count(MERGED)?, deleted: count(DELETED)? })
    }

    /// Encodes it as an item.
    pub fn to_item(&self, workspace: &Id) -> Item {
        let item = Item::new(key::compacted(workspace))
            .with("v", ITEM_VERSION)
            .with("until", Value::record(&self.until));
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        [(MERGED, self.merged), (DELETED, self.deleted)]
            .into_iter()
            .filter(|(_, number)| *number > 0)
            .fold(item, |item, (name, number)| item.with(name, count(number)))
    }

    /// Adds this progress to the recorded one: the days, and the amounts merged. Nothing is written if it is known already. If
    /// two processes record days at once one may win, which costs reads; counts of both are added.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn note(&self, table: &dyn Table, workspace: &Id) -> Result<()> {
        for _ in 0..TRIES {
            let known = Self::load(table, workspace).await?;
            let mut all = known.clone();
            all.until.extend(&self.until);
            all.merged += self.merged;
            all.deleted += self.deleted;
            if all == known {
                return Ok(());
            }
            match table.put(all.to_item(workspace), known.as_counted()).await {
                Err(error) if error.is_conflict() => {}
                put => return put,
            }
        }
        Ok(())
    }

    /// Condition that no process has counted more since.
    fn as_counted(&self) -> Condition {
        if *self == Self::default() {
            return Condition::Absent;
        }
        let is = |name, count: u64| match count {
            0 => Condition::Without(name),
            count => Condition::Equals(name, i64::try_from(count).unwrap_or(i64::MAX).into()),
        };
        Condition::All(vec![is(MERGED, self.merged), is(DELETED, self.deleted)])
    }
}

#[cfg(test)]
mod tests {
    use table::sqlite::SqliteTable;

    use super::*;

    /// A later program must read the items of an earlier one.
    #[tokio::test]
    async fn the_item_of_version_1_stays_readable() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let until =
            [("2".to_owned(), Value::from("2026-06-08")), ("33".to_owned(), Value::from("2026-05-08"))];
        let stored = Item::new(key::compacted(&workspace)).with("v", 1).with("until", BTreeMap::from(until));
        let days = [(2, "2026-06-08"), (33, "2026-05-08")];
        let until = days.map(|(age, day)| (age, day.parse().unwrap())).into();
        let compacted = Compacted { until, ..Compacted::default() };
        assert_eq!(compacted.to_item(&workspace), stored);
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("t.db"), event::Clock::system()).unwrap();
        assert_eq!(Compacted::load(&table, &workspace).await.unwrap(), Compacted::default());
        table.put(stored.clone(), Condition::None).await.unwrap();
        assert_eq!(Compacted::load(&table, &workspace).await.unwrap(), compacted);
        table.put(stored.with("v", 2), Condition::None).await.unwrap();
        assert!(Compacted::load(&table, &workspace).await.is_err());
    }

    #[tokio::test]
    async fn counts_of_two_are_added_and_days_replaced() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("t.db"), event::Clock::system()).unwrap();
        let of = |day: &str, merged, deleted| Compacted {
            until: [(2, day.parse().unwrap())].into(),
            merged,
            deleted,
        };
        let (one, other) = (of("2026-06-08", 2, 0), of("2026-06-08", 3, 40));
        let (first, second) = tokio::join!(one.note(&table, &workspace), other.note(&table, &workspace));
        first.unwrap();
        second.unwrap();
        assert_eq!(Compacted::load(&table, &workspace).await.unwrap(), of("2026-06-08", 5, 40));
        // A clock was ahead before.
        of("2026-06-01", 0, 0).note(&table, &workspace).await.unwrap();
        assert_eq!(Compacted::load(&table, &workspace).await.unwrap(), of("2026-06-01", 5, 40));
    }
}
