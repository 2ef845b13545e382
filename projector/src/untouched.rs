//! Copies the projections of days that an erasure has not touched to the next version. None of their segments has one
//! of the keys, so folding them again would give the same.
//!
//! Nothing is overwritten. The rollup is read first and put last, and only if each of its parts is there by then and
//! covers no less than it did: parts may be ahead of their rollup, since each takes only segments after its own prefix,
//! and never behind. So other workers may fold or copy the day meanwhile. A day with a dead letter is folded, not
//! copied.

use std::collections::BTreeSet;

use event::{Day, Id, Result};
use fold::rollup::Folding;
use futures::future::try_join_all;
use log::{
    key::{self, Projection},
    key_filter::{self, At, KINDS},
    projection::Projected,
};
use table::{Condition, Item, Key, Query, Table, query_all, unless_overtaken};

use crate::{
    WorkspaceDay,
    carry::{carry_evaluation, is_covered},
    day::parts_of,
    sweep::applied,
};

/// Number of parts put at once.
const AT_ONCE: usize = 16;

/// Copies the projections of days that are not in `touched` from the version before to `version`, where it has none.
/// Returns the number of copied days.
///
/// # Errors
/// Errors of the table, and `Corrupt`. It may be called again at any time.
pub(crate) async fn carry_untouched(
    table: &dyn Table,
    workspace: &Id,
    version: u32,
    touched: &BTreeSet<Day>,
) -> Result<u64> {
    let Some(old) = version.checked_sub(1) else { return Ok(0) };
    let (of_old, of_new) = (applied(table, old, workspace).await?, applied(table, version, workspace).await?);
    let letters = query_all(table, Query::table(key::dead_letters(workspace, old)).only(&["v"])).await?;
    let has_letter = |day: &Day| {
        let of_day = key::dead_letters_between(workspace, old, *day, *day);
        letters.iter().any(|item| of_day.from <= item.key.sk && item.key.sk <= of_day.to)
    };
    let mut carried = 0;
    for day in of_old.rollups.keys().filter(|day| !touched.contains(*day)) {
        if of_new.rollups.contains_key(day) || has_letter(day) {
            continue;
        }
        let day = WorkspaceDay { workspace: workspace.clone(), day: *day };
        let of_day = Carried { table, day: &day, old, version };
        let is_evaluated = is_covered(of_old.evaluations.get(&day.day), of_new.evaluations.get(&day.day));
        carried += u64::from(of_day.carry(is_evaluated).await?);
    }
    Ok(carried)
}

/// Day that is copied from one version to another.
struct Carried<'a> {
    table: &'a dyn Table,
    day: &'a WorkspaceDay,
    old: u32,
    version: u32,
}

impl Carried<'_> {
    /// Copies the day. Returns whether there was something to copy.
    async fn carry(&self, is_evaluated: bool) -> Result<bool> {
        let Self { table, day, old, version } = *self;
        let (workspace, date) = (&day.workspace, day.day);
        let Some(rollup) = table.get(&key::rollup(workspace, old, date)).await? else { return Ok(false) };
        let features = table.get(&key::features(workspace, old, date)).await?;
        for folding in [Folding::Features, Folding::Rollup] {
            if !self.carry_parts(folding).await? {
                return Ok(false);
            }
        }
        if let Some(features) = features {
            put(table, key::features(workspace, version, date), features).await?;
        }
        if !is_evaluated {
            carry_evaluation(table, day, old, version).await?;
        }
        put(table, key::rollup(workspace, version, date), rollup).await?;
        self.carry_filters().await?;
        Ok(true)
    }

    /// Copies the parts of a breakdown. Returns whether all are there then, none of them behind.
    async fn carry_parts(&self, folding: Folding) -> Result<bool> {
        let Self { table, day, old, version } = *self;
        let items = query_all(table, Query::table(parts_of(folding, old, day))).await?;
        let mut parts = Vec::with_capacity(items.len());
        for item in items {
            if let Projection::Breakdown(one) = key::parse_projection(&item.key)?.1 {
                parts.push((key::breakdown(&day.workspace, version, day.day, one), item));
            }
        }
        let mut parts = parts.into_iter();
        loop {
            let some: Vec<_> =
                parts.by_ref().take(AT_ONCE).map(|(key, part)| put(table, key, part)).collect();
            if some.is_empty() {
                return Ok(true);
            }
            if try_join_all(some).await?.contains(&false) {
                return Ok(false);
            }
        }
    }

    /// Copies the filters of its keys. A day without filters is read, until a sweep makes them.
    async fn carry_filters(&self) -> Result<()> {
        let Self { table, day, old, version } = *self;
        for kind in KINDS {
            let at = |version| At { workspace: &day.workspace, version, day: day.day, kind };
            let Some(head) = key_filter::head(table, at(old)).await? else { continue };
            if key_filter::head(table, at(version)).await?.is_some() {
                continue;
            }
            let mut parts = Vec::with_capacity(head.parts as usize);
            for number in 0..head.parts {
                parts.extend(key_filter::part(table, at(old), &head, number).await?);
            }
            if parts.len() == head.parts as usize {
                key_filter::write(table, at(version), 0, head, parts).await?;
            }
        }
        Ok(())
    }
}

/// Puts an item under another key, unless one is there. Returns whether the stored one covers the item.
async fn put(table: &dyn Table, key: Key, item: Item) -> Result<bool> {
    let covers = Projected::applied_of(&item)?;
    if unless_overtaken(table.put(Item { key: key.clone(), ..item }, Condition::Absent).await)?.is_some() {
        return Ok(true);
    }
    let there = table.get(&key).await?.as_ref().map(Projected::applied_of).transpose()?;
    Ok(is_covered(Some(&covers), there.as_ref()))
}
