//! Over how many lanes the days of a workspace are spread that begin from now on. Of a day that has
//! begun it is fixed (see [`event::lane`]), so a change needs no care: nothing is moved, and nothing
//! is looked for in two places.

use event::{Error, Id, Result, lane::MAX_LANES};
use log::key;
use serde::{Deserialize, Serialize};
use table::{Condition, Item};

use super::Catalog;

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// How many lanes the days of a workspace get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lanes {
    /// How many.
    pub count: u8,
    ver: i64,
}

impl Default for Lanes {
    /// One.
    fn default() -> Self {
        Self { count: 1, ver: 0 }
    }
}

impl Lanes {
    fn from_item(item: &Item) -> Result<Self> {
        let lanes: Self = item.to_record(ITEM_VERSION)?;
        match lanes.count {
            1..=MAX_LANES => Ok(lanes),
            _ => Err(item.corrupt(format_args!("`count` is not 1 to {MAX_LANES}"))),
        }
    }
}

impl Catalog {
    /// The lanes of a workspace.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn lanes(&self, workspace: &Id) -> Result<Lanes> {
        match self.table.get(&key::lanes(workspace)).await? {
            Some(item) => Lanes::from_item(&item),
            None => Ok(Lanes::default()),
        }
    }

    /// Sets how many lanes the days of a workspace get that begin from now on; an ingest service
    /// may take some seconds to notice.
    ///
    /// # Errors
    /// `Invalid`, when `count` is not 1 to [`MAX_LANES`]; `Conflict`, when it was changed at the same
    /// time.
    pub async fn set_lanes(&self, workspace: &Id, count: u8) -> Result<Lanes> {
        if !(1..=MAX_LANES).contains(&count) {
            return Err(Error::invalid(format!("{count} lanes are not 1 to {MAX_LANES}")));
        }
        let known = self.lanes(workspace).await?;
        if known.count == count {
            return Ok(known);
        }
        let lanes = Lanes { count, ver: known.ver + 1 };
        let condition = match known.ver {
            0 => Condition::Absent,
            ver => Condition::Equals("ver", ver.into()),
        };
        self.table.put(Item::record(key::lanes(workspace), ITEM_VERSION, &lanes), condition).await?;
        Ok(lanes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::{Clock, Timestamp};
    use table::sqlite::SqliteTable;

    use super::*;

    #[tokio::test]
    async fn a_number_of_lanes_is_set() {
        let dir = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&dir.path().join("t.db"), Clock::system()).unwrap();
        let catalog = Catalog::new(Arc::new(table));
        let workspace = Id::new(Timestamp::default());
        assert_eq!(catalog.lanes(&workspace).await.unwrap(), Lanes::default());
        assert!(catalog.set_lanes(&workspace, 0).await.is_err());
        assert!(catalog.set_lanes(&workspace, 17).await.is_err());
        let lanes = catalog.set_lanes(&workspace, 4).await.unwrap();
        assert_eq!(catalog.lanes(&workspace).await.unwrap(), lanes);
        assert_eq!(catalog.set_lanes(&workspace, 4).await.unwrap(), lanes, "the same again");
        assert_eq!(catalog.set_lanes(&workspace, 2).await.unwrap(), Lanes { count: 2, ver: 2 });
    }
}
