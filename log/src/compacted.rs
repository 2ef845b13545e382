//! Up to which day the logs of a workspace were looked at for what can be merged ([`crate::merged`]), at some ages of their days.

use std::collections::BTreeMap;

use event::{Day, Id, Result};
use table::{Item, Table, item::Value};

use crate::key;

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// By age in days, the last day up to which all were looked at when they had it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The days.
    pub until: BTreeMap<u32, Day>,
}

impl Compacted {
    /// That of a workspace: one read.
    ///
    /// # Errors
    /// Those of the table, and `Corrupt`.
    pub async fn load(table: &dyn Table, workspace: &Id) -> Result<Self> {
        let Some(item) = table.get(&key::compacted(workspace)).await? else { return Ok(Self::default()) };
        item.check_version(ITEM_VERSION)?;
        let mut until = BTreeMap::new();
        for (age, day) in item.map("until")? {
            let age = age.parse().map_err(|_| item.corrupt("an age is no number"))?;
            let day = match day {
                Value::S(day) => day.parse().ok(),
                _ => None,
            };
            until.insert(age, day.ok_or_else(|| item.corrupt("`until` is not days"))?);
        }
        Ok(Self { until })
    }

    /// The item that stores it. It is written whole: of two the later one holds, and an earlier day costs reads.
    pub fn to_item(&self, workspace: &Id) -> Item {
        let until = self.until.iter().map(|(age, day)| (age.to_string(), Value::from(day.to_string())));
        Item::new(key::compacted(workspace))
            .with("v", ITEM_VERSION)
            .with("until", until.collect::<BTreeMap<_, _>>())
    }
}

#[cfg(test)]
mod tests {
    use table::{Condition, sqlite::SqliteTable};

    use super::*;

    /// What a program stored, a later one must read.
    #[tokio::test]
    async fn the_item_of_version_1_stays_readable() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let until =
            [("2".to_owned(), Value::from("2026-06-08")), ("33".to_owned(), Value::from("2026-05-08"))];
        let stored = Item::new(key::compacted(&workspace)).with("v", 1).with("until", BTreeMap::from(until));
        let days = [(2, "2026-06-08"), (33, "2026-05-08")];
        let compacted = Compacted { until: days.map(|(age, day)| (age, day.parse().unwrap())).into() };
        assert_eq!(compacted.to_item(&workspace), stored);
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("t.db"), event::Clock::system()).unwrap();
        assert_eq!(Compacted::load(&table, &workspace).await.unwrap(), Compacted::default());
        table.put(stored.clone(), Condition::None).await.unwrap();
        assert_eq!(Compacted::load(&table, &workspace).await.unwrap(), compacted);
        table.put(stored.with("v", 2), Condition::None).await.unwrap();
        assert!(Compacted::load(&table, &workspace).await.is_err());
    }
}
