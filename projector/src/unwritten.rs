//! Projections of a day that cannot be written: they are too large for an item, stored in an unreadable form, or
//! segments are missing. Each gets a dead letter, as segments do, so that no answer passes as complete. Every sweep
//! tries again, and so does `almanac admin dead-letters retry`; success deletes the letter.

use std::fmt;

use event::{Error, Id, Result, Timestamp};
use log::{
    active,
    key::{self, OfDay},
};
use table::{Condition, Item, Query, Table, query_all};

use crate::{
    WorkspaceDay,
    letter::{self, LetterState, Why, shortened},
};

/// A projection that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// Version of the projections.
    pub version: u32,
    /// Day of the projection.
    pub day: WorkspaceDay,
    /// Projection of the day.
    pub what: OfDay,
    /// Reason of the failure.
    pub reason: String,
    /// Time of the failure, by the clock of the process that found it.
    pub at: Timestamp,
}

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.day.day, self.what.name())
    }
}

impl Unwritten {
    /// Creates a letter about a projection.
    pub fn new(version: u32, day: &WorkspaceDay, what: OfDay, reason: &str, at: Timestamp) -> Self {
        Self { version, day: day.clone(), what, reason: shortened(reason), at }
    }

    fn to_item(&self) -> Item {
        let key = key::unwritten(&self.day.workspace, self.version, self.day.day, self.what);
        let why = Why { reason: &self.reason, at: self.at };
        why.to_item(key, self.what.name(), LetterState::Stopped)
    }

    fn from_item(item: &Item) -> Result<Self> {
        let Why { reason, at } = Why::of(item)?;
        let (workspace, version, day, what) = key::parse_unwritten(&item.key)
            .ok_or_else(|| item.corrupt("its key is not one of a projection"))?;
        Ok(Self { version, day: WorkspaceDay { workspace, day }, what, reason: reason.to_owned(), at })
    }
}

/// Records a projection that cannot be written, unless it is recorded. Returns whether it was new.
///
/// # Errors
/// Errors of the table.
pub async fn record(table: &dyn Table, letter: &Unwritten) -> Result<bool> {
    letter::record(table, letter.to_item()).await
}

/// Lists the projections of a workspace that cannot be written, in the active version.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn list(table: &dyn Table, workspace: &Id) -> Result<Vec<Unwritten>> {
    list_version(table, active::load(table, workspace).await?.version, workspace).await
}

/// Lists those of a version.
pub(crate) async fn list_version(table: &dyn Table, version: u32, workspace: &Id) -> Result<Vec<Unwritten>> {
    let items = query_all(table, Query::table(key::dead_letters(workspace, version))).await?;
    let unwritten = items.iter().filter(|item| key::parse_unwritten(&item.key).is_some());
    unwritten.map(Unwritten::from_item).collect()
}

/// Finds the letter of a projection, in the active version.
///
/// # Errors
/// `NotFound`, when it has none.
pub async fn find(table: &dyn Table, day: &WorkspaceDay, what: OfDay) -> Result<Unwritten> {
    let version = active::load(table, &day.workspace).await?.version;
    let item = table.get(&key::unwritten(&day.workspace, version, day.day, what)).await?;
    let name = what.name();
    let item = item.ok_or_else(|| Error::not_found(format!("there is no dead letter {}/{name}", day.day)))?;
    Unwritten::from_item(&item)
}

/// Deletes the letter of a projection that was written.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn clear(table: &dyn Table, version: u32, day: &WorkspaceDay, what: OfDay) -> Result<()> {
    table.delete(&key::unwritten(&day.workspace, version, day.day, what), Condition::None).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_read_as_it_was_written() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let day = WorkspaceDay { workspace, day: "2013-06-01".parse().unwrap() };
        for what in OfDay::ALL {
            let letter = Unwritten::new(2, &day, what, &"ä".repeat(900), Timestamp::default());
            assert!(letter.reason.len() <= 1_000);
            assert_eq!(Unwritten::from_item(&letter.to_item()).unwrap(), letter);
            assert!(Unwritten::from_item(&letter.to_item().with("v", 2)).is_err());
        }
        let letter = Unwritten::new(2, &day, OfDay::Evaluation, "too large", Timestamp::default());
        assert_eq!(letter.to_string(), "2013-06-01/evaluation");
        let golden =
            Item::new(table::Key::new("w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/dlq/v2", "day#2013-06-01/evaluation"));
        let golden = golden
            .with("v", 1)
            .with("refused", "evaluation")
            .with("reason", "too large")
            .with("at", "1970-01-01T00:00:00Z");
        assert_eq!(letter.to_item(), golden.with("state", "stopped"));
    }
}
