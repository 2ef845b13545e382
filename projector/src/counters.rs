//! Counters: the number of events of each kind in a workspace and its releases, day by day.
//!
//! A counter holds absolute counts, so writing one twice is harmless. The count of a day never
//! falls while its log grows, so of two writers the greater count is the later one.

use std::collections::BTreeMap;

use catalog::counts::{Kinds, MonthCounts, counts_item, counts_of, take_greater};
use event::{Kind, Result};
use fold::rollup::release_counts;
use futures::future::try_join_all;
use log::key::{self, Counted};
use table::{Change, Policy, Table, update};

use crate::{WorkspaceDay, day::DayFold};

/// Number of counters written at once.
const WRITES_AT_ONCE: usize = 16;

/// Counts of a day: for the workspace, and for each release in the touched parts, by kind.
pub(crate) fn of(day: &DayFold<'_>) -> BTreeMap<Counted, BTreeMap<Kind, u64>> {
    let mut counts = BTreeMap::<Counted, BTreeMap<Kind, u64>>::new();
    for kind in Kind::ALL {
        let events = day.rollup.events(kind);
        if events > 0 {
            counts.entry(Counted::Workspace).or_default().insert(kind, events);
        }
    }
    for (release, of_release) in release_counts(day.parts.values().map(|part| &part.part)) {
        let kinds = counts.entry(Counted::Release(release.to_owned())).or_default();
        let present = Kind::ALL.into_iter().map(|kind| (kind, of_release.of(kind))).filter(|(_, n)| *n > 0);
        kinds.extend(present);
    }
    counts
}

/// Writes the counts of a day, each only if it is greater than the stored one.
pub(crate) async fn write(table: &dyn Table, day: &WorkspaceDay, fold: &DayFold<'_>) -> Result<()> {
    let counts = of(fold);
    let counts: Vec<_> = counts.iter().collect();
    for some in counts.chunks(WRITES_AT_ONCE) {
        try_join_all(some.iter().map(|(counted, counts)| write_one(table, day, counted, counts))).await?;
    }
    Ok(())
}

async fn write_one(
    table: &dyn Table,
    day: &WorkspaceDay,
    counted: &Counted,
    counts: &BTreeMap<Kind, u64>,
) -> Result<()> {
    let month = day.day.month();
    let kinds = counts.iter().map(|(kind, count)| (kind.name().to_owned(), *count)).collect();
    let counts = MonthCounts::from([(day.day.to_string(), kinds)]);
    let key = key::counter(&day.workspace, counted, &month);
    update(table, &key, Policy::of(&key), async |stored| {
        let known = stored.as_ref().map_or(Ok(MonthCounts::new()), counts_of)?;
        let mut days = known.clone();
        take_greater(&mut days, counts.clone());
        Ok(match days == known {
            true => Change::Leave(()),
            false => Change::Put(counts_item(key.clone(), &days), ()),
        })
    })
    .await
}

/// Reads the stored counts of a day, by the name of the kind.
pub(crate) async fn of_day(table: &dyn Table, day: &WorkspaceDay, counted: &Counted) -> Result<Kinds> {
    let item = table.get(&key::counter(&day.workspace, counted, &day.day.month())).await?;
    let days = item.as_ref().map(counts_of).transpose()?;
    Ok(days.and_then(|mut days| days.remove(&day.day.to_string())).unwrap_or_default())
}
