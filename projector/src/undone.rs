//! Work of a sweep for a workspace that fails: comparing its logs with projections, deleting expired events, ranking live
//! releases. It is a dead letter of the workspace, beside those of segments and days. Every sweep retries it, and so does
//! `almanac admin dead-letters retry`; success deletes the letter.

use std::fmt;

use event::{Error, Id, Result, Timestamp};
use log::{
    active,
    key::{self, OfWorkspace},
};
use table::{Condition, Item, Query, Table, query_all};

use crate::letter::{self, LetterState, Why, shortened};

/// Something that cannot be done for a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// Active version of the projections at the failure.
    pub version: u32,
    /// The workspace.
    pub workspace: Id,
    /// Failed task.
    pub what: OfWorkspace,
    /// Reason of the failure.
    pub reason: String,
    /// Time of the failure, by the clock of the worker that found it.
    pub at: Timestamp,
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "workspace/{}", self.what.name())
    }
}

impl Undone {
    /// Creates a letter about a task.
    pub fn new(version: u32, workspace: &Id, what: OfWorkspace, reason: &str, at: Timestamp) -> Self {
        Self { version, workspace: workspace.clone(), what, reason: shortened(reason), at }
    }

    fn to_item(&self) -> Item {
        let key = key::undone(&self.workspace, self.version, self.what);
        let why = Why { reason: &self.reason, at: self.at };
        why.to_item(key, self.what.name(), LetterState::Stopped)
    }

    fn from_item(item: &Item) -> Result<Self> {
        let Why { reason, at } = Why::of(item)?;
        let (workspace, version, what) =
            key::parse_undone(&item.key).ok_or_else(|| item.corrupt("its key is not one of a workspace"))?;
        Ok(Self { version, workspace, what, reason: reason.to_owned(), at })
    }
}

/// Records a failed task, unless it is recorded. Returns whether it was new.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn record(table: &dyn Table, letter: &Undone) -> Result<bool> {
    letter::record(table, letter.to_item()).await
}

/// Lists the failed tasks of a workspace, in the active version.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn list(table: &dyn Table, workspace: &Id) -> Result<Vec<Undone>> {
    list_version(table, active::load(table, workspace).await?.version, workspace).await
}

/// Lists those of a version.
pub(crate) async fn list_version(table: &dyn Table, version: u32, workspace: &Id) -> Result<Vec<Undone>> {
    let items = query_all(table, Query::table(key::all_undone(workspace, version))).await?;
    items.iter().map(Undone::from_item).collect()
}

/// Finds the letter of a task, in the active version.
///
/// # Errors
/// `NotFound`, when there is none.
pub async fn find(table: &dyn Table, workspace: &Id, what: OfWorkspace) -> Result<Undone> {
    let version = active::load(table, workspace).await?.version;
    let item = table.get(&key::undone(workspace, version, what)).await?;
    let missing = || Error::not_found(format!("there is no dead letter workspace/{}", what.name()));
    Undone::from_item(&item.ok_or_else(missing)?)
}

/// Deletes the letter of a task that succeeded.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn clear(table: &dyn Table, version: u32, workspace: &Id, what: OfWorkspace) -> Result<()> {
    table.delete(&key::undone(workspace, version, what), Condition::None).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_read_as_it_was_written() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        for what in OfWorkspace::ALL {
            let letter = Undone::new(2, &workspace, what, &"ä".repeat(900), Timestamp::default());
            assert!(letter.reason.len() <= 1_000);
            assert_eq!(Undone::from_item(&letter.to_item()).unwrap(), letter);
            assert!(Undone::from_item(&letter.to_item().with("v", 2)).is_err());
        }
        let letter = Undone::new(2, &workspace, OfWorkspace::Expiry, "no setting", Timestamp::default());
        assert_eq!(letter.to_string(), "workspace/expiry");
        let golden = Item::new(table::Key::new("w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/dlq/v2", "workspace/expiry"));
        let golden = golden
            .with("v", 1)
            .with("refused", "expiry")
            .with("reason", "no setting")
            .with("at", "1970-01-01T00:00:00Z");
        assert_eq!(letter.to_item(), golden.with("state", "stopped"));
    }
}
