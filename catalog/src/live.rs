//! Live releases: the release of each model that is live in each environment, and the time since.
//!
//! The release log is the truth; the items here are a fold of it that answers by one query. In each environment at most one
//! release of a model is live: `promote` and `rollback` put the release that they name in the place of the one before, `retire`
//! takes it away. Changes count in the order of `released_at`, and at one instant in the order of action and release. Each is
//! stored with the live state after it, so the one at or before an instant gives the live state then; a late one is put in its
//! place, and those behind it are corrected.
//!
//! The process that appends release events records them here, and the projector does it again in case that process died in
//! between. Recording one twice changes nothing.

use std::collections::BTreeMap;

use event::{
    Columns, Error, Id, Result, Timestamp,
    id::{self, MAX_NAME_BYTES},
};
use futures::future::try_join_all;
use log::key;
use serde::{Deserialize, Serialize};
use table::{Item, MAX_TRANSACTION_BYTES, Pages, Query, Table, item::MAX_ITEM_BYTES, query_all};

use super::{Action, Catalog, Effect};

/// Maximum models that may be live in one environment; a further one is recorded, but not as live.
pub const MAX_LIVE: usize = 1_000;

/// Maximum bytes of one of them in an item: two names, an instant, and DynamoDB's overhead for a map and its entries.
const LIVE_BYTES: usize = 2 * MAX_NAME_BYTES + 48;

/// Maximum bytes of the rest of an item of a change: its keys, names, and a note of 4 KiB.
const CHANGE_BYTES: usize = 8 * 1024;

// So a live state always fits in an item, and a few such items in a transaction.
const _: () = assert!(MAX_LIVE * LIVE_BYTES + CHANGE_BYTES <= MAX_ITEM_BYTES);
const _: () = assert!(3 * MAX_ITEM_BYTES <= MAX_TRANSACTION_BYTES);

/// Version of the items.
pub(super) const ITEM_VERSION: i64 = 1;

/// A release event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReleaseChange {
    /// Time at which it happened: `released_at`.
    pub at: Timestamp,
    /// Action of the event.
    #[serde(rename = "what")]
    pub action: Action,
    /// Name of the release.
    #[serde(rename = "about")]
    pub release: String,
    /// Name of its model.
    pub model: String,
    /// Environment of the event. Without it nothing becomes live.
    pub environment: Option<String>,
    /// Remark.
    pub note: Option<String>,
}

/// Release that is live, or was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Name of the release.
    pub release: String,
    /// Time since which it is live.
    pub since: Timestamp,
}

/// Live state of an environment: for each model, by name, its release.
pub type LiveState = BTreeMap<String, Live>;

/// Change of a live state, and the state after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveChange {
    /// The event.
    #[serde(flatten)]
    pub change: ReleaseChange,
    /// Live state after it.
    #[serde(rename = "live")]
    pub state: LiveState,
}

impl ReleaseChange {
    /// Decodes the events from columns of a log.
    ///
    /// # Errors
    /// `Corrupt`, when a field is missing that every release event has.
    pub fn of(columns: &Columns) -> Result<Vec<Self>> {
        let text = |name, row| columns.column(name).and_then(|column| column.text(row)).map(str::to_owned);
        let of_row = |row| {
            let at = columns.column("released_at").and_then(|column| column.time(row));
            let action = text("action", row).as_deref().and_then(Action::from_name);
            Some(Self {
                at: Timestamp::from_micros(at?)?,
                action: action?,
                release: text("release", row)?,
                model: text("model", row)?,
                environment: text("environment", row),
                note: text("note", row),
            })
        };
        let missing = |row| Error::corrupt(format!("row {row} of the release events lacks a field"));
        (0..columns.rows).map(|row| of_row(row).ok_or_else(|| missing(row))).collect()
    }

    /// Applies the event to a live state.
    pub fn apply(&self, state: &mut LiveState) {
        let is_live = state.get(&self.model).is_some_and(|live| live.release == self.release);
        match self.action.effect() {
            Effect::EndsLive if is_live => _ = state.remove(&self.model),
            Effect::GoesLive if !is_live => {
                if state.len() < MAX_LIVE || state.contains_key(&self.model) {
                    let live = Live { release: self.release.clone(), since: self.at };
                    state.insert(self.model.clone(), live);
                }
            }
            Effect::Registers | Effect::Defines | Effect::EndsLive | Effect::GoesLive => {}
        }
    }
}

/// Decodes the live state of an item.
pub(super) fn state_of(item: &Item) -> Result<LiveState> {
    item.field("live")
}

impl LiveChange {
    pub(super) fn to_item(&self, workspace: &Id, environment: &str) -> Item {
        let change = &self.change;
        let key = key::live_change(workspace, environment, change.at, change.action.name(), &change.release);
        Item::record(key, ITEM_VERSION, self)
    }
}

pub(super) async fn first(table: &dyn Table, mut query: Query) -> Result<Option<Item>> {
    loop {
        let page = table.query(&query).await?;
        match (page.items.into_iter().next(), page.next) {
            (Some(item), _) => return Ok(Some(item)),
            // A page may be empty and yet not be the last.
            (None, Some(next)) => query.after = Some(next),
            (None, None) => return Ok(None),
        }
    }
}

impl Catalog {
    /// Reads the live state of an environment at an instant, by one query of one item.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn live_at(&self, workspace: &Id, environment: &str, at: Timestamp) -> Result<LiveState> {
        id::check_name(environment)?;
        let until = key::live_changes_until(workspace, environment, at);
        let last = first(&*self.table, Query::table(until).backward().limit(1)).await?;
        last.as_ref().map(state_of).transpose().map(Option::unwrap_or_default)
    }

    /// Reads the present live states, by environment.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn live_now(&self, workspace: &Id) -> Result<BTreeMap<String, LiveState>> {
        let items = query_all(&*self.table, Query::table(key::lives(workspace))).await?;
        let of = |item: &Item| {
            let environment =
                key::parse_live(&item.key.sk).ok_or_else(|| item.corrupt("its key is another"))?;
            Ok((environment.to_owned(), state_of(item)?))
        };
        items.iter().map(of).collect()
    }

    /// Reads the live states at an instant, by environment: one read, and one of each environment.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn all_live_at(&self, workspace: &Id, at: Timestamp) -> Result<BTreeMap<String, LiveState>> {
        let environments = self.live_now(workspace).await?.into_keys();
        let state =
            async |name: String| Ok::<_, Error>((name.clone(), self.live_at(workspace, &name, at).await?));
        Ok(try_join_all(environments.map(state)).await?.into_iter().collect())
    }

    /// Finds the release that was live for a model in an environment before the present one.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn live_before(
        &self,
        workspace: &Id,
        environment: &str,
        model: &str,
    ) -> Result<Option<String>> {
        let query = Query::table(key::live_changes(workspace, environment)).backward().limit(100);
        let mut pages = Pages::of(&*self.table, query);
        let mut current = None;
        while let Some(items) = pages.next().await? {
            for item in &items {
                let live = state_of(item)?.remove(model).map(|live| live.release);
                match (&current, live) {
                    (None, live) => current = Some(live),
                    (Some(now), Some(before)) if now.as_ref() != Some(&before) => return Ok(Some(before)),
                    _ => {}
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::{Clock, Task};
    use proptest::prelude::*;
    use table::sqlite::SqliteTable;

    use super::*;

    fn change((second, action, release, model): (i64, usize, u8, u8)) -> ReleaseChange {
        ReleaseChange {
            at: Timestamp::default().plus_seconds(second),
            action: Action::ALL[action],
            release: format!("v{release}"),
            model: format!("m{model}"),
            environment: Some("production".into()),
            note: None,
        }
    }

    fn refold(changes: &[ReleaseChange], at: Timestamp) -> LiveState {
        let name = |change: &ReleaseChange| (change.at, change.action.name(), change.release.clone());
        // The first of two events in one place is known.
        let mut placed = BTreeMap::new();
        changes.iter().for_each(|change| _ = placed.entry(name(change)).or_insert(change));
        let mut state = LiveState::new();
        placed.values().filter(|change| change.at <= at).for_each(|change| change.apply(&mut state));
        state
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// In any order and number of arrivals, the live state is the fold of the events in the order of their times, now and at
        /// any time.
        #[test]
        fn live_releases_equal_a_fold_of_the_log(
            changes in prop::collection::vec((0i64..20, 0usize..4, 0u8..4, 0u8..2), 1..30),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let changes: Vec<_> = changes.into_iter().map(change).collect();
            let dir = tempfile::tempdir().unwrap();
            let (live, expected) = runtime.block_on(async {
                let table = SqliteTable::open(&dir.path().join("t.db"), Clock::system()).unwrap();
                let catalog = Catalog::new(Arc::new(table));
                let workspace = Id::new(Timestamp::default());
                for change in &changes {
                    catalog.record(&workspace, std::slice::from_ref(change)).await.unwrap();
                }
                catalog.record(&workspace, &changes).await.unwrap();
                let (mut live, mut expected) = (Vec::new(), Vec::new());
                for second in 0..21 {
                    let at = Timestamp::default().plus_seconds(second);
                    live.push(catalog.live_at(&workspace, "production", at).await.unwrap());
                    expected.push(refold(&changes, at));
                }
                live.extend(catalog.live_now(&workspace).await.unwrap().into_values());
                if changes.iter().any(|change| change.action != Action::Register) {
                    expected.push(refold(&changes, Timestamp::default().plus_seconds(99)));
                }
                (live, expected)
            });
            prop_assert_eq!(live, expected);
        }
    }

    #[tokio::test]
    async fn late_live_change_and_concurrent_writers_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&dir.path().join("t.db"), Clock::system()).unwrap();
        let catalog = Catalog::new(Arc::new(table));
        let workspace = catalog.ensure_workspace("a/b", Timestamp::default()).await.unwrap().entity.id;
        catalog.ensure_model(&workspace, "m0", &Task::Regression, Timestamp::default()).await.unwrap();
        // 200 changes of another model, after the late ones.
        let others: Vec<_> = (0..200).map(|at| change((100 + at, 1, (at % 2) as u8, 1))).collect();
        catalog.record(&workspace, &others).await.unwrap();
        let (late, later) = (change((50, 1, 7, 0)), change((60, 1, 8, 0)));
        let (one, two) = tokio::join!(
            catalog.record(&workspace, std::slice::from_ref(&late)),
            catalog.record(&workspace, std::slice::from_ref(&later)),
        );
        one.and(two).unwrap();
        let all: Vec<_> = others.into_iter().chain([late, later]).collect();
        for second in [55, 60, 150, 299] {
            let at = Timestamp::default().plus_seconds(second);
            assert_eq!(catalog.live_at(&workspace, "production", at).await.unwrap(), refold(&all, at));
        }
        assert_eq!(catalog.live_before(&workspace, "production", "m0").await.unwrap(), Some("v7".into()));
        assert_eq!(catalog.live_before(&workspace, "production", "m1").await.unwrap(), Some("v0".into()));
        assert_eq!(catalog.live_before(&workspace, "staging", "m1").await.unwrap(), None);
    }
}
