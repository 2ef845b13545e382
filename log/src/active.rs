//! Active version of a workspace's projections, the one that is read. A rebuild writes the next one beside it, and then one
//! conditional write makes that the active one.

use event::{Id, Result};
use serde::{Deserialize, Serialize};
use table::{Condition, Item, Table};

use crate::{key, projection::PROJECTION_VERSION};

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Versions of a workspace's projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Active {
    /// Number that grows by one with each write; 0 when nothing was written yet.
    pub ver: i64,
    /// Version that readers use and workers keep up to date.
    pub version: u32,
    /// Version that a rebuild is writing.
    pub building: Option<u32>,
    /// Least version of which anything may still be stored.
    pub oldest: u32,
}

impl Active {
    /// Versions until the first rebuild.
    const FIRST: Self =
        Self { ver: 0, version: PROJECTION_VERSION, building: None, oldest: PROJECTION_VERSION };

    /// Returns the item that replaces the one `self` was read from, and the condition under which it may.
    pub fn replace(&self, workspace: &Id) -> (Item, Condition) {
        let next = Self { ver: self.ver + 1, ..*self };
        let item = Item::record(key::active(workspace), ITEM_VERSION, &next);
        (item, Condition::unchanged(self.ver))
    }

    /// Decodes an item; without one, returns the versions until the first rebuild.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn of(item: Option<&Item>) -> Result<Self> {
        item.map_or(Ok(Self::FIRST), Self::from_item)
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.to_record(ITEM_VERSION)
    }
}

/// Reads the versions of a workspace.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn load(table: &dyn Table, workspace: &Id) -> Result<Active> {
    Active::of(table.get(&key::active(workspace)).await?.as_ref())
}

/// Returns the active version of the projections, and the result of `read` for it.
///
/// # Errors
/// Errors of `read` and of the table, and `Corrupt`.
pub async fn of_active<T, F: Future<Output = Result<T>>>(
    table: &dyn Table,
    workspace: &Id,
    read: impl Fn(u32) -> F,
) -> Result<(u32, T)> {
    let mut version = load(table, workspace).await?.version;
    loop {
        let found = read(version).await?;
        // A rebuild may have made another version the active one, and deleted the one that was being read.
        let now = load(table, workspace).await?.version;
        if now == version {
            return Ok((version, found));
        }
        version = now;
    }
}

#[cfg(test)]
mod tests {
    use table::item::Value;

    use super::*;

    #[test]
    fn an_item_is_read_as_it_was_written() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let (item, condition) = Active { building: Some(2), ..Active::FIRST }.replace(&workspace);
        assert_eq!(condition, Condition::Absent);
        let read = Active::from_item(&item).unwrap();
        assert_eq!(read, Active { ver: 1, building: Some(2), ..Active::FIRST });
        let (item, condition) = Active { version: 2, building: None, ..read }.replace(&workspace);
        assert_eq!(condition, Condition::Equals("ver", Value::from(1)));
        assert_eq!(
            Active::from_item(&item).unwrap(),
            Active { ver: 2, version: 2, building: None, oldest: 1 }
        );
        assert!(Active::from_item(&item.with("version", -1)).is_err());
    }
}
