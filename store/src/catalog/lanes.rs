//! How many lanes the logs of a workspace have. It may change at any time: a log is found by
//! looking, so what is in the lanes of before stays where it is.

use crate::{
    Error, Id, Item, Result, Timestamp,
    key::{self},
    table::Condition,
};

use super::Catalog;

/// The most lanes.
pub const MAX_LANES: u8 = 16;

/// How long after it is set a number of lanes counts, in seconds: every ingest service looks anew
/// before that, so that all of them change at one time.
pub const LANES_DELAY_SECONDS: i64 = 15;

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Over how many lanes the batches of a workspace are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// How many, from `since` on.
    pub count: u8,
    /// How many there were before.
    pub before: u8,
    /// When `count` counts.
    pub since: Timestamp,
    ver: i64,
}

impl Default for Lanes {
    /// One.
    fn default() -> Self {
        Self { count: 1, before: 1, since: Timestamp::default(), ver: 0 }
    }
}

impl Lanes {
    /// How many lanes there are at `now`.
    pub fn at(&self, now: Timestamp) -> u8 {
        if now >= self.since { self.count } else { self.before }
    }

    /// How many lanes there were, or will be, within `seconds` of `now`, besides [`Lanes::at`].
    pub fn near(&self, now: Timestamp, seconds: i64) -> Option<u8> {
        let is_near = (now.micros() - self.since.micros()).abs() <= seconds.saturating_mul(1_000_000);
        let other = if now >= self.since { self.before } else { self.count };
        (is_near && self.count != self.before).then_some(other)
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let count = |name| match u8::try_from(item.int(name)?) {
            Ok(count @ 1..=MAX_LANES) => Ok(count),
            _ => Err(item.corrupt(format_args!("`{name}` is not 1 to {MAX_LANES}"))),
        };
        let since =
            Timestamp::from_micros(item.int("since")?).ok_or_else(|| item.corrupt("`since` is no time"))?;
        Ok(Self { count: count("count")?, before: count("before")?, since, ver: item.int("ver")? })
    }

    fn to_item(self, workspace: &Id) -> Item {
        Item::new(key::lanes(workspace))
            .with("v", ITEM_VERSION)
            .with("ver", self.ver)
            .with("count", i64::from(self.count))
            .with("before", i64::from(self.before))
            .with("since", self.since.micros())
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

    /// Sets how many lanes a workspace has, [`LANES_DELAY_SECONDS`] after `now`.
    ///
    /// # Errors
    /// `Invalid`, when `count` is not 1 to [`MAX_LANES`]; `Conflict`, when it was changed at the same
    /// time, or a change is under way.
    pub async fn set_lanes(&self, workspace: &Id, count: u8, now: Timestamp) -> Result<Lanes> {
        if !(1..=MAX_LANES).contains(&count) {
            return Err(Error::invalid(format!("{count} lanes are not 1 to {MAX_LANES}")));
        }
        let known = self.lanes(workspace).await?;
        if known.count == count {
            return Ok(known);
        }
        if now < known.since {
            return Err(Error::conflict(format!(
                "the lanes are being changed to {} until {}; try again then",
                known.count, known.since
            )));
        }
        let since = now.plus_seconds(LANES_DELAY_SECONDS);
        let lanes = Lanes { count, before: known.count, since, ver: known.ver + 1 };
        let condition = match known.ver {
            0 => Condition::Absent,
            ver => Condition::Equals("ver", ver.into()),
        };
        self.table.put(lanes.to_item(workspace), condition).await?;
        Ok(lanes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Clock, table::sqlite::SqliteTable};

    #[tokio::test]
    async fn a_change_counts_after_a_delay() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let table = SqliteTable::open(&dir.path().join("t.db"), Clock::from_fn(move || now)).unwrap();
        let catalog = Catalog::new(Arc::new(table));
        let workspace = Id::new(now);
        assert_eq!(catalog.lanes(&workspace).await.unwrap(), Lanes::default());
        assert!(catalog.set_lanes(&workspace, 0, now).await.is_err());
        assert!(catalog.set_lanes(&workspace, 17, now).await.is_err());
        let lanes = catalog.set_lanes(&workspace, 4, now).await.unwrap();
        assert_eq!(catalog.lanes(&workspace).await.unwrap(), lanes);
        let later = now.plus_seconds(LANES_DELAY_SECONDS);
        assert_eq!((lanes.at(now), lanes.at(later)), (1, 4));
        assert_eq!((lanes.near(now, 60), lanes.near(later, 60)), (Some(4), Some(1)));
        assert_eq!(lanes.near(later.plus_seconds(61), 60), None);
        assert!(catalog.set_lanes(&workspace, 8, now).await.unwrap_err().is_conflict());
        assert_eq!(catalog.set_lanes(&workspace, 4, now).await.unwrap(), lanes, "the same again");
        let lanes = catalog.set_lanes(&workspace, 2, later).await.unwrap();
        assert_eq!((lanes.before, lanes.count), (4, 2));
    }
}
