//! Sweep of all days of all workspaces, which is demanded after lost changes: after a gap in the feed, and when a shard is read
//! from its newest position.
//!
//! The demand is an item, written before a checkpoint moves past the gap; so no crash loses it, and no checkpoint waits for the
//! sweep. The sweep takes the workspaces in the order of their ids. The item holds the last workspace up to which all findings
//! are written: a worker that goes on begins behind it. A new demand has another name and begins at the first workspace, and the
//! progress that a worker records for an older one is refused.

use std::collections::{BTreeSet, VecDeque};

use event::{Id, Result, Timestamp};
use log::key;
use serde::{Deserialize, Serialize};
use table::{Condition, Item, Table, item::Value, unless_overtaken};

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Attribute that distinguishes demands.
const DEMAND: &str = "demand";

/// Number of workspaces swept before the item records the progress.
pub(crate) const WORKSPACES_IN_A_ROW: usize = 16;

/// Stored demand for a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Demand {
    #[serde(rename = "demand")]
    id: Id,
    /// Time of the demand.
    at: Timestamp,
    /// Workspace up to which all findings are written.
    after: Option<Id>,
}

impl Demand {
    fn new(now: Timestamp) -> Self {
        Self { id: Id::new(now), at: now, after: None }
    }

    fn to_item(&self) -> Item {
        Item::record(key::full_sweep(), ITEM_VERSION, self)
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.to_record(ITEM_VERSION)
    }

    fn is_this(&self) -> Condition {
        Condition::Equals(DEMAND, Value::from(self.id.as_str()))
    }
}

/// Demands a sweep from the first workspace on.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn demand(table: &dyn Table, now: Timestamp) -> Result<()> {
    table.put(Demand::new(now).to_item(), Condition::None).await
}

/// Reads the present demand. An unreadable one is replaced by a new one: the sweep begins again.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn load(table: &dyn Table, now: Timestamp) -> Result<Option<Demand>> {
    let Some(item) = table.get(&key::full_sweep()).await? else { return Ok(None) };
    match Demand::from_item(&item) {
        Ok(demand) => Ok(Some(demand)),
        Err(error) => {
            tracing::error!(%error, "the demand for a sweep cannot be read; the sweep begins again");
            let demand = Demand::new(now);
            table.put(demand.to_item(), Condition::None).await?;
            Ok(Some(demand))
        }
    }
}

/// Progress of a worker with the demanded sweep.
#[derive(Debug)]
pub(crate) struct FullSweep {
    demand: Demand,
    left: VecDeque<Id>,
    /// Swept workspaces, each the last of some in a row, with the mark of the findings in these.
    waiting: VecDeque<(u64, Id)>,
    /// Number of segments behind.
    pub(crate) behind: u64,
}

impl FullSweep {
    /// Begins with the workspaces that the demand leaves.
    pub(crate) fn new(demand: Demand, all: &BTreeSet<Id>) -> Self {
        let is_left = |id: &&Id| demand.after.as_ref().is_none_or(|after| *id > after);
        let left = all.iter().filter(is_left).cloned().collect();
        Self { demand, left, waiting: VecDeque::new(), behind: 0 }
    }

    /// Returns whether it is of this demand.
    pub(crate) fn is_of(&self, demand: &Demand) -> bool {
        self.demand.id == demand.id
    }

    /// Takes the workspaces to sweep next.
    pub(crate) fn next(&mut self) -> Vec<Id> {
        let count = self.left.len().min(WORKSPACES_IN_A_ROW);
        self.left.drain(..count).collect()
    }

    /// Records swept workspaces; the findings in them have this mark.
    pub(crate) fn swept(&mut self, some: &[Id], mark: u64, behind: u64) {
        self.waiting.extend(some.last().map(|last| (mark, last.clone())));
        self.behind += behind;
    }

    /// Returns whether there are workspaces left to sweep.
    pub(crate) fn is_going_on(&self) -> bool {
        !self.left.is_empty()
    }

    /// Records in the table the workspace up to which all is written, and deletes the demand when that is the last one. Returns
    /// whether there is more to do, or `None` when there is another demand by now.
    ///
    /// # Errors
    /// Errors of the table.
    pub(crate) async fn note(
        &mut self,
        table: &dyn Table,
        is_settled: impl Fn(u64) -> bool,
    ) -> Result<Option<bool>> {
        let settled = self.waiting.iter().take_while(|(mark, _)| is_settled(*mark)).count();
        if settled == self.waiting.len() && self.left.is_empty() {
            let deleted = table.delete(&key::full_sweep(), self.demand.is_this()).await;
            return Ok(unless_overtaken(deleted)?.map(|()| false));
        }
        if let Some((_, last)) = settled.checked_sub(1).and_then(|at| self.waiting.get(at)) {
            let reached = Demand { after: Some(last.clone()), ..self.demand.clone() };
            if unless_overtaken(table.put(reached.to_item(), self.demand.is_this()).await)?.is_none() {
                return Ok(None);
            }
            self.demand = reached;
            self.waiting.drain(..settled);
        }
        Ok(Some(true))
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use event::Clock;
    use table::{Key, sqlite::SqliteTable};

    use super::*;

    fn ids(count: i64) -> BTreeSet<Id> {
        (0..count).map(|second| Id::new(Timestamp::default().plus_seconds(1_700_000_000 + second))).collect()
    }

    fn open(folder: &Path) -> Arc<dyn Table> {
        Arc::new(SqliteTable::open(&folder.join("table"), Clock::system()).unwrap())
    }

    #[test]
    fn an_item_is_read_as_it_was_written() {
        let id = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let begun = Demand { id, at: Timestamp::default(), after: None };
        let after = Some(Id::parse("2NBs0tD5Ihm2PVFzM3kZvMYdQX9").unwrap());
        let demand = Demand { after, ..begun.clone() };
        let golden = Item::new(Key::new("sys/sweep", "full")).with("v", 1).with("at", "1970-01-01T00:00:00Z");
        let golden = golden.with("demand", "2NBs0sLBnJxEcoDLgVnQdJkhEgV");
        assert_eq!(begun.to_item(), golden);
        assert_eq!(demand.to_item(), golden.with("after", "2NBs0tD5Ihm2PVFzM3kZvMYdQX9"));
        for demand in [begun, demand] {
            assert_eq!(Demand::from_item(&demand.to_item()).unwrap(), demand);
            assert!(Demand::from_item(&demand.to_item().with("v", 2)).is_err());
        }
    }

    #[tokio::test]
    async fn a_sweep_goes_on_behind_what_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (now, all) = (Timestamp::default(), ids(40));
        let nth = |n: usize| all.iter().nth(n).cloned();
        let table = open(folder.path());
        demand(&*table, now).await.unwrap();
        let load = async || load(&*table, now).await.unwrap();
        let mut first = FullSweep::new(load().await.unwrap(), &all);
        for mark in [1, 2] {
            let some = first.next();
            assert_eq!(some.len(), WORKSPACES_IN_A_ROW);
            first.swept(&some, mark, 1);
        }
        // The findings of the second ones are not all written yet, and this process dies.
        assert_eq!(first.note(&*table, |mark| mark < 2).await.unwrap(), Some(true));
        assert_eq!(load().await.unwrap().after, nth(WORKSPACES_IN_A_ROW - 1));

        let mut second = FullSweep::new(load().await.unwrap(), &all);
        assert_eq!(second.left, all.iter().skip(WORKSPACES_IN_A_ROW).cloned().collect::<Vec<_>>());
        while second.is_going_on() {
            let some = second.next();
            second.swept(&some, 1, 0);
        }
        assert_eq!(second.note(&*table, |_| false).await.unwrap(), Some(true), "not all is written");
        assert_eq!(second.note(&*table, |_| true).await.unwrap(), Some(false));
        assert_eq!(load().await, None);
        assert_eq!(first.note(&*table, |_| true).await.unwrap(), None, "it is done by another worker");
    }

    #[tokio::test]
    async fn a_new_gap_begins_the_sweep_again() {
        let folder = tempfile::tempdir().unwrap();
        let (now, all) = (Timestamp::default(), ids(20));
        let table = open(folder.path());
        demand(&*table, now).await.unwrap();
        let old = load(&*table, now).await.unwrap().unwrap();
        let mut sweep = FullSweep::new(old.clone(), &all);
        let some = sweep.next();
        sweep.swept(&some, 1, 0);
        demand(&*table, now).await.unwrap();
        assert_eq!(
            sweep.note(&*table, |_| true).await.unwrap(),
            None,
            "what came before the gap does not count"
        );
        let new = load(&*table, now).await.unwrap().unwrap();
        assert_eq!((new.after.clone(), sweep.is_of(&new), sweep.is_of(&old)), (None, false, true));
        // An unreadable demand is made again from its beginning.
        let item = table.get(&key::full_sweep()).await.unwrap().unwrap();
        table.put(item.with("after", "nowhere"), Condition::None).await.unwrap();
        let again = load(&*table, now).await.unwrap().unwrap();
        assert!(again.after.is_none() && again.id != new.id);
    }
}
