//! Retention: the number of days for which a workspace keeps its segments of predictions, outcomes and metrics. Release
//! events, rollups, counters and evaluations stay for good.
//!
//! The events of a day expire some days after its end. From then on no process reads them or appends to them, by the
//! present setting and its own clock; if a wrong clock is corrected, they are back. The projector deletes them later
//! ([`EXPIRY_GRACE_SECONDS`]), by the time that the table has counted ([`log::counted`]), after marking the day
//! ([`log::expired`]). Before the mark, a pin or a longer retention brings the day back.
//!
//! Segments have no TTL: set at the append, it would allow no later pin; it could delete a segment before it is folded;
//! and it deletes in any order, so that used numbers of a log would look free.

use std::collections::{BTreeMap, BTreeSet};

use event::{Day, Error, Id, Result, Timestamp, Window, id::check_name};
use log::{
    expired,
    key::{self, Counted},
    layout::{self, LAYOUT},
};
use serde::{Deserialize, Serialize};
use table::{Change, Condition, Item, Policy, Write, unless_overtaken, update};

use super::{Catalog, counts::read_counts};

/// Maximum days of retention: a century.
pub const MAX_RETENTION_DAYS: u32 = 36_525;

/// Maximum pinned days of a workspace.
pub const MAX_PINNED_DAYS: usize = 4_000;

/// Maximum pinned releases of a workspace.
pub const MAX_PINNED_RELEASES: usize = 100;

/// Time between the expiry of a day, or a change of the setting, and the earliest deletion, in seconds of the table's
/// counted time: enough to undo a mistake, and to finish appends.
pub const EXPIRY_GRACE_SECONDS: i64 = 60 * 60;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Version of the item. Version 1, of tables of layout 1, has no pins of snapshots.
const ITEM_VERSION: i64 = 2;

/// Retention of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Number of days after their own; `None` to keep all.
    pub days: Option<u32>,
    /// Days kept at any age.
    pub pinned_days: BTreeSet<Day>,
    /// Releases whose days are kept: all days with events that name them.
    pub pinned_releases: BTreeSet<String>,
    /// Days kept for snapshots, by snapshot id.
    #[serde(default)]
    pub pinned_snapshots: BTreeMap<Id, Window>,
    /// Time of the last change.
    pub changed_at: Timestamp,
    /// Grows by one with each change; 0 when it was never set.
    pub ver: i64,
}

/// Subject of a pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// The events of a day.
    Day(Day),
    /// The events of all days on which a release has some.
    Release(String),
}

/// Retention and expiry, as an append needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    /// The setting.
    pub retention: Retention,
    /// The latest day whose events are gone.
    pub latest_gone: Option<Day>,
}

impl Keeping {
    /// Returns whether a day is kept at `now` by its age alone; for others ask [`Catalog::kept`].
    pub fn is_young(&self, day: Day, now: Timestamp) -> bool {
        let is_young = self.retention.first_day(now).is_none_or(|first| day >= first);
        is_young && self.latest_gone.is_none_or(|gone| day > gone)
    }
}

/// Days of a window that still have their events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    first: Option<Day>,
    pinned: BTreeSet<Day>,
    windows: Vec<Window>,
    gone: BTreeSet<Day>,
}

impl Kept {
    /// Returns whether the events of a day may be read and appended to.
    pub fn keeps(&self, day: Day) -> bool {
        let is_young = self.first.is_none_or(|first| day >= first);
        let is_pinned = || self.pinned.contains(&day) || self.windows.iter().any(|days| days.contains(day));
        !self.gone.contains(&day) && (is_young || is_pinned())
    }
}

impl Retention {
    /// Returns the first day kept at `now` by its age; `None` if every day is.
    pub fn first_day(&self, now: Timestamp) -> Option<Day> {
        self.days.map(|days| now.plus_seconds(-i64::from(days) * DAY_SECONDS).day())
    }

    /// Returns the time at which the events of a day expire, unless they are pinned.
    pub fn expires_at(&self, day: Day) -> Option<Timestamp> {
        self.days.map(|days| day.start().plus_seconds((1 + i64::from(days)) * DAY_SECONDS))
    }

    /// Condition that the setting is as it was read.
    pub fn unchanged(&self) -> Condition {
        Condition::unchanged(self.ver)
    }

    /// Returns the setting, changed at `now`.
    pub(super) fn changed(self, now: Timestamp) -> Self {
        Self { ver: self.ver + 1, changed_at: now, ..self }
    }

    /// Encodes it as an item of a table of a layout.
    ///
    /// # Errors
    /// `Invalid` if snapshots pin days and an older Almanac would not know it.
    pub(super) fn to_item(&self, workspace: &Id, layout: u32) -> Result<Item> {
        let version = i64::from(layout).min(ITEM_VERSION);
        if version < ITEM_VERSION && !self.pinned_snapshots.is_empty() {
            return Err(Error::invalid(
                "the table is of a layout in which no snapshot pins days: call `almanac admin upgrade` first",
            ));
        }
        let mut item = Item::record(key::retention(workspace), version, self);
        if version < ITEM_VERSION {
            item.attributes.remove("pinned_snapshots");
        }
        Ok(item)
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.to_record(if item.int("v")? == 1 { 1 } else { ITEM_VERSION })
    }

    /// Adds a pin or removes it.
    fn with(mut self, pin: &Pin, is_pinned: bool) -> Result<Self> {
        match (pin, is_pinned) {
            (Pin::Day(day), true) => _ = self.pinned_days.insert(*day),
            (Pin::Day(day), false) => _ = self.pinned_days.remove(day),
            (Pin::Release(name), true) => _ = self.pinned_releases.insert(name.clone()),
            (Pin::Release(name), false) => _ = self.pinned_releases.remove(name),
        }
        if self.pinned_days.len() > MAX_PINNED_DAYS || self.pinned_releases.len() > MAX_PINNED_RELEASES {
            return Err(Error::invalid(format!(
                "a workspace pins at most {MAX_PINNED_DAYS} days and {MAX_PINNED_RELEASES} releases; unpin some"
            )));
        }
        Ok(self)
    }
}

impl Catalog {
    /// Reads the retention of a workspace.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn retention(&self, workspace: &Id) -> Result<Retention> {
        match self.table.get(&key::retention(workspace)).await? {
            Some(item) => Retention::from_item(&item),
            None => Ok(Retention::default()),
        }
    }

    /// Sets the number of days for which a workspace keeps events; `None` to keep all. It takes effect at once for
    /// reads and appends, also of earlier events.
    ///
    /// # Errors
    /// `Invalid`, when `days` is not 1 to [`MAX_RETENTION_DAYS`]; those of the table.
    pub async fn set_retention(
        &self,
        workspace: &Id,
        days: Option<u32>,
        now: Timestamp,
    ) -> Result<Retention> {
        if days.is_some_and(|days| !(1..=MAX_RETENTION_DAYS).contains(&days)) {
            let message = format!("a retention is 1 to {MAX_RETENTION_DAYS} days, or forever");
            return Err(Error::invalid(message));
        }
        self.change_retention(workspace, now, None, |known| Ok(Retention { days, ..known })).await
    }

    /// Pins or unpins a day or a release.
    ///
    /// # Errors
    /// `Conflict`, when the events of the day are gone; `NotFound`, when there is no such release;
    /// `Invalid`, with too many pins.
    pub async fn pin(&self, workspace: &Id, pin: &Pin, is_pinned: bool, now: Timestamp) -> Result<Retention> {
        let day = match pin {
            Pin::Day(day) if is_pinned => Some(*day),
            Pin::Day(_) => None,
            Pin::Release(name) => {
                check_name(name)?;
                let page = self.page(workspace).await?;
                if is_pinned && !page.releases.iter().any(|release| release.entity.name == *name) {
                    return Err(Error::not_found(format!("there is no release `{name}` in this workspace")));
                }
                None
            }
        };
        self.change_retention(workspace, now, day, |known| known.with(pin, is_pinned)).await
    }

    /// Changes the setting, if the events of `day` are still there.
    async fn change_retention(
        &self,
        workspace: &Id,
        now: Timestamp,
        day: Option<Day>,
        change: impl Fn(Retention) -> Result<Retention>,
    ) -> Result<Retention> {
        let mut tries = Policy::of(&"the retention").tries();
        loop {
            tries.next().await?;
            let known = self.retention(workspace).await?;
            if let Some(day) = day
                && let Some(gone) = expired::load(&*self.table, workspace, day).await?
            {
                let message = format!("the events of {day} expired and were deleted at {}", gone.at);
                return Err(Error::conflict(message));
            }
            let unchanged = known.unchanged();
            let wanted = change(known.clone())?;
            if known.ver > 0 && wanted == known {
                return Ok(known);
            }
            let (layout, is_still) = layout::held(&*self.table).await?;
            let wanted = wanted.changed(now);
            let mut writes = vec![Write::Put(wanted.to_item(workspace, layout.number)?, unchanged), is_still];
            writes.extend(day.map(|day| Write::Check(key::expired(workspace, day), Condition::Absent)));
            if unless_overtaken(self.table.transact(writes).await)?.is_some() {
                return Ok(wanted);
            }
        }
    }

    /// Migrates from layout 1 to 2: returns whether the retention is stored in the form of layout 1, and with `renews`
    /// rewrites it.
    ///
    /// # Errors
    /// `Corrupt`; those of the table.
    pub async fn renew_retention(&self, workspace: &Id, renews: bool) -> Result<bool> {
        let key = key::retention(workspace);
        update(&*self.table, &key, Policy::of(&"the retention"), async |item| {
            let older = item.filter(|item| item.int("v").is_ok_and(|version| version < ITEM_VERSION));
            Ok(match older {
                Some(item) if renews => {
                    Change::Put(Retention::from_item(&item)?.to_item(workspace, LAYOUT)?, true)
                }
                older => Change::Leave(older.is_some()),
            })
        })
        .await
    }

    /// Reads retention and expiry for an append: two small reads, or one if no retention was ever set.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn keeping(&self, workspace: &Id) -> Result<Keeping> {
        let retention = self.retention(workspace).await?;
        let latest_gone = match retention.ver {
            0 => None,
            _ => expired::latest(&*self.table, workspace).await?,
        };
        Ok(Keeping { retention, latest_gone })
    }

    /// Returns the days of a window that have their events at `now`. It reads the setting; if one was ever set, the
    /// deleted days of the window; and if days have expired, the counters of the pinned releases.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn kept(&self, workspace: &Id, window: Window, now: Timestamp) -> Result<Kept> {
        self.kept_by(workspace, &self.retention(workspace).await?, window, now).await
    }

    /// Returns [`Self::kept`] by a setting that was read before.
    pub(super) async fn kept_by(
        &self,
        workspace: &Id,
        retention: &Retention,
        window: Window,
        now: Timestamp,
    ) -> Result<Kept> {
        if retention.ver == 0 {
            return Ok(Kept::default());
        }
        let (from, to) = (window.from(), window.to());
        let gone = expired::days(&*self.table, workspace, from, to).await?;
        let first = retention.first_day(now);
        let mut pinned = retention.pinned_days.clone();
        if let Some(first) = first.filter(|first| from < *first) {
            let (from, to) = (from.month(), to.min(first).month());
            for release in &retention.pinned_releases {
                let counted = Counted::Release(release.clone());
                let range = key::counters_between(workspace, &counted, &from, &to);
                for days in read_counts(&*self.table, range).await?.into_values() {
                    let wrong = |day| {
                        Error::corrupt(format!("a counter of `{release}` counts `{day}`, which is no day"))
                    };
                    let days = days.into_keys().map(|day| day.parse().map_err(|_| wrong(day)));
                    pinned.extend(days.collect::<Result<Vec<Day>>>()?);
                }
            }
        }
        let windows = retention.pinned_snapshots.values().copied().collect();
        Ok(Kept { first, pinned, windows, gone })
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use event::{Clock, ErrorKind, Task};
    use table::{Table, item::Value, sqlite::SqliteTable};

    use super::*;
    use crate::ReleaseSpec;

    fn time(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    #[test]
    fn the_last_days_are_kept_whole() {
        let retention = Retention { days: Some(7), ..Retention::default() };
        let expires_at = retention.expires_at(day("2026-06-01")).unwrap();
        assert_eq!(expires_at, time("2026-06-09T00:00:00Z"));
        assert_eq!(retention.first_day(expires_at), Some(day("2026-06-02")));
        assert_eq!(retention.first_day(expires_at.plus_seconds(-1)), Some(day("2026-06-01")));
        assert_eq!(Retention::default().first_day(expires_at), None);
    }

    #[test]
    fn the_item_of_each_layout_is_stored_so() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let text = |text: &str| Value::S(text.to_owned());
        // As the first version wrote it, which knew no snapshots.
        let first = Item::new(key::retention(&workspace))
            .with("v", 1)
            .with("ver", 3)
            .with("changed_at", "2026-06-10T00:00:00Z")
            .with("pinned_days", Value::L(vec![text("2026-06-01")]))
            .with("pinned_releases", Value::L(vec![text("v1")]))
            .with("days", 90);
        let read = Retention::from_item(&first).unwrap();
        let known = Retention {
            days: Some(90),
            pinned_days: [day("2026-06-01")].into(),
            pinned_releases: ["v1".to_owned()].into(),
            pinned_snapshots: BTreeMap::new(),
            changed_at: time("2026-06-10T00:00:00Z"),
            ver: 3,
        };
        assert_eq!(read, known);
        let window = Window::new(day("2026-05-01"), day("2026-05-31")).unwrap();
        let with_snapshot =
            Retention { pinned_snapshots: [(workspace.clone(), window)].into(), ..known.clone() };
        assert_eq!(known.to_item(&workspace, 1).unwrap(), first);
        assert!(with_snapshot.to_item(&workspace, 1).is_err());
        let second = with_snapshot.to_item(&workspace, LAYOUT).unwrap();
        let days = [(workspace.as_str().to_owned(), text("2026-05-01..2026-05-31"))];
        assert_eq!(second, first.with("v", 2).with("pinned_snapshots", BTreeMap::from(days)));
        assert_eq!(Retention::from_item(&second).unwrap(), with_snapshot);
        assert!(Retention::from_item(&second.with("v", 3)).is_err());
    }

    #[tokio::test]
    async fn pins_keep_old_days_until_expired() {
        let dir = tempfile::tempdir().unwrap();
        let now = time("2026-06-20T12:00:00Z");
        let table: Arc<dyn Table> =
            Arc::new(SqliteTable::open(&dir.path().join("t.db"), Clock::from_fn(move || now)).unwrap());
        let catalog = Catalog::new(Arc::clone(&table));
        let workspace = catalog.ensure_workspace("a/b", now).await.unwrap().entity.id;
        catalog.ensure_model(&workspace, "m", &Task::Regression, now).await.unwrap();
        let spec =
            ReleaseSpec { name: "v1".into(), model: "m".into(), configuration: None, environment: None };
        catalog.ensure_release(&workspace, &spec, now).await.unwrap();
        let june = Window::new(day("2026-06-01"), day("2026-06-30")).unwrap();
        let kept = async || {
            let kept = catalog.kept(&workspace, june, now).await.unwrap();
            ["2026-06-01", "2026-06-02", "2026-06-12", "2026-06-13"].map(|text| kept.keeps(day(text)))
        };
        assert_eq!(kept().await, [true; 4]);
        assert!(catalog.set_retention(&workspace, Some(0), now).await.is_err());
        let set = catalog.set_retention(&workspace, Some(7), now).await.unwrap();
        assert_eq!(catalog.set_retention(&workspace, Some(7), now).await.unwrap(), set, "the same again");
        assert_eq!(kept().await, [false, false, false, true]);

        catalog.pin(&workspace, &Pin::Day(day("2026-06-01")), true, now).await.unwrap();
        let unknown = catalog.pin(&workspace, &Pin::Release("v9".into()), true, now).await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
        let set = catalog.pin(&workspace, &Pin::Release("v1".into()), true, now).await.unwrap();
        assert_eq!(catalog.retention(&workspace).await.unwrap(), set);
        let count = BTreeMap::from([("2026-06-12".to_owned(), Value::M(BTreeMap::new()))]);
        let counter = key::counter(&workspace, &key::Counted::Release("v1".into()), "2026-06");
        table.put(Item::new(counter).with("v", 1).with("days", count), Condition::None).await.unwrap();
        assert_eq!(kept().await, [true, false, true, true]);

        let gone = expired::Expired { day: day("2026-06-02"), heads: Default::default(), at: now };
        table.put(gone.to_item(&workspace), Condition::Absent).await.unwrap();
        let late = catalog.pin(&workspace, &Pin::Day(gone.day), true, now).await.unwrap_err();
        assert!(late.is_conflict(), "{late}");
        catalog.set_retention(&workspace, None, now).await.unwrap();
        assert_eq!(kept().await, [true, false, true, true], "gone is gone");
        let keeping = catalog.keeping(&workspace).await.unwrap();
        assert_eq!(keeping.latest_gone, Some(gone.day));
        assert!(!keeping.is_young(day("2026-06-01"), now) && keeping.is_young(day("2026-06-03"), now));
        assert_eq!(expired::load(&*table, &workspace, gone.day).await.unwrap(), Some(gone));
    }
}
