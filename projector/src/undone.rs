//! What is done for a workspace with each sweep and cannot be done: comparing its logs with what is folded, moving old
//! counters, deleting what has expired, ranking what is live. It is a dead letter of the workspace, beside those of
//! segments and days. Every sweep tries again, and so does `almanac dlq retry`; who succeeds deletes the letter.

use std::fmt;

use catalog::Catalog;
use event::{Error, Id, Result, Timestamp};
use log::{
    active,
    key::{self, OfWorkspace},
};
use table::{Condition, Item, Query, Table, query_all};

use crate::{
    board, caught,
    counters::move_old,
    dlq::{LetterState, Retried, shortened},
    expire::expire,
    sweep::sweep_version,
    worker::{Shared, add, lock, may_pass},
};

/// Version of the item. Those of segments have version 1, those of days 2.
const ITEM_VERSION: i64 = 3;

/// Something that cannot be done for a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The version of the projections that was read when it failed.
    pub version: u32,
    /// The workspace.
    pub workspace: Id,
    /// What cannot be done.
    pub what: OfWorkspace,
    /// Why.
    pub reason: String,
    /// When it was found, by the clock of the worker that found it.
    pub at: Timestamp,
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "workspace/{}", self.what.name())
    }
}

impl Undone {
    /// What cannot be done, because of `reason`.
    pub fn new(version: u32, workspace: &Id, what: OfWorkspace, reason: &str, at: Timestamp) -> Self {
        Self { version, workspace: workspace.clone(), what, reason: shortened(reason), at }
    }

    fn to_item(&self) -> Item {
        Item::new(key::undone(&self.workspace, self.version, self.what))
            .with("v", ITEM_VERSION)
            .with(log::skipped::REFUSED, self.what.name())
            .with("reason", self.reason.as_str())
            .with("at", self.at.micros())
            .with(log::skipped::STATE, LetterState::Stopped.name())
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let (workspace, version, what) =
            key::parse_undone(&item.key).ok_or_else(|| item.corrupt("its key is not one of a workspace"))?;
        Ok(Self {
            version,
            workspace,
            what,
            reason: item.text("reason")?.to_owned(),
            at: Timestamp::from_micros(item.int("at")?).ok_or_else(|| item.corrupt("`at` is no time"))?,
        })
    }
}

/// Records what cannot be done, unless it is recorded; whether it was new.
///
/// # Errors
/// Those of the table.
pub(crate) async fn record(table: &dyn Table, letter: &Undone) -> Result<bool> {
    match table.put(letter.to_item(), Condition::Absent).await {
        Err(error) if error.is_conflict() => Ok(false),
        other => other.map(|()| true),
    }
}

/// What cannot be done for a workspace, in the version that is read.
///
/// # Errors
/// Those of the table, and `Corrupt`.
pub async fn list(table: &dyn Table, workspace: &Id) -> Result<Vec<Undone>> {
    list_version(table, active::load(table, workspace).await?.version, workspace).await
}

/// All of a version.
pub(crate) async fn list_version(table: &dyn Table, version: u32, workspace: &Id) -> Result<Vec<Undone>> {
    let items = query_all(table, Query::table(key::all_undone(workspace, version))).await?;
    items.iter().map(Undone::from_item).collect()
}

/// The letter of what cannot be done, in the version that is read.
///
/// # Errors
/// `NotFound`, when there is none.
pub async fn find(table: &dyn Table, workspace: &Id, what: OfWorkspace) -> Result<Undone> {
    let version = active::load(table, workspace).await?.version;
    let item = table.get(&key::undone(workspace, version, what)).await?;
    let missing = || Error::not_found(format!("there is no dead letter workspace/{}", what.name()));
    Undone::from_item(&item.ok_or_else(missing)?)
}

/// Deletes the letter of what was done.
///
/// # Errors
/// Those of the table.
pub(crate) async fn clear(table: &dyn Table, version: u32, workspace: &Id, what: OfWorkspace) -> Result<()> {
    table.delete(&key::undone(workspace, version, what), Condition::None).await
}

/// Tries again what could not be done, and deletes its letter if it can be now.
///
/// # Errors
/// Those of the table that may pass.
pub async fn retry(table: &dyn Table, catalog: &Catalog, letter: &Undone, now: Timestamp) -> Result<Retried> {
    let workspace = &letter.workspace;
    let doing = async {
        match letter.what {
            OfWorkspace::Sweep => sweep_version(table, letter.version, workspace).await.map(|_| ()),
            OfWorkspace::Counters => move_old(table, workspace).await.map(|_| ()),
            OfWorkspace::Expiry => expire(table, catalog, workspace, now).await.map(|_| ()),
            OfWorkspace::Leaderboard => board::refresh(table, catalog, workspace).await,
        }
    };
    match caught::whole(doing).await {
        Ok(()) => clear(table, letter.version, workspace, letter.what).await.map(|()| Retried::Done),
        Err(error) if may_pass(&error) => Err(error),
        Err(error) => Ok(Retried::Refused(error.to_string())),
    }
}

impl Shared {
    /// What came of something that is done for a workspace; what cannot be done is a dead letter until it is.
    ///
    /// # Errors
    /// Those of the table that may pass.
    pub(crate) async fn noted<T>(
        &self,
        workspace: &Id,
        what: OfWorkspace,
        doing: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        let done = caught::whole(doing).await;
        let name = (workspace.clone(), what);
        let version = async || active::load(&*self.table, workspace).await.map(|active| active.version);
        match done {
            Err(error) if may_pass(&error) => Err(error),
            Err(error) => {
                let reason = error.to_string();
                tracing::error!(%workspace, what = what.name(), reason, "this cannot be done for the workspace; the others go on");
                lock(&self.undone).insert(name, reason.clone());
                let letter = Undone::new(version().await?, workspace, what, &reason, self.now());
                match record(&*self.table, &letter).await {
                    Ok(is_new) => add(&self.stats.dead_letters, u64::from(is_new)),
                    Err(error) if may_pass(&error) => return Err(error),
                    Err(error) => tracing::error!(%workspace, %error, "its dead letter cannot be written"),
                }
                Ok(None)
            }
            Ok(done) => {
                if lock(&self.undone).contains_key(&name) {
                    clear(&*self.table, version().await?, workspace, what).await?;
                    lock(&self.undone).remove(&name);
                }
                Ok(Some(done))
            }
        }
    }
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
        let golden = golden.with("v", 3).with("refused", "expiry").with("reason", "no setting").with("at", 0);
        assert_eq!(letter.to_item(), golden.with("state", "stopped"));
    }
}
