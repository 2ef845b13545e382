//! Copies the projections of days whose events are gone to the next version, as they cannot be folded again.
//!
//! The next version may have folded some of such a day before its events went. A projection that covers less than the
//! old version's is replaced. Each write is conditional on the item version that it replaces and increments it, so a
//! worker with an older fold is refused.

use event::{Id, Kind, Result};
use fold::rollup::Folding;
use log::{
    evaluated::{self, At, Content, OfGone},
    expired,
    key::{self, Projection},
    projection::{Applied, Projected},
};
use table::{Change, Item, Key, Policy, Query, Table, query_all, unless_overtaken, update};

use crate::{WorkspaceDay, day::parts_of, sweep::applied};

/// Copies to `version` the projections of the version before it of days whose events are gone, where those cover more.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub(crate) async fn carry_over(table: &dyn Table, workspace: &Id, version: u32) -> Result<()> {
    let marks = expired::all(table, workspace).await?;
    let Some(old) = version.checked_sub(1).filter(|_| !marks.is_empty()) else { return Ok(()) };
    let (of_old, of_new) = (applied(table, old, workspace).await?, applied(table, version, workspace).await?);
    for mark in marks {
        let day = WorkspaceDay { workspace: workspace.clone(), day: mark.day };
        // Before the rollup, which implies that everything is there.
        if !is_covered(of_old.evaluations.get(&day.day), of_new.evaluations.get(&day.day)) {
            carry_evaluation(table, &day, old, version).await?;
        }
        if !is_covered(of_old.features.get(&day.day), of_new.features.get(&day.day)) {
            carry_all(table, &day, (old, version), Folding::Features).await?;
        }
        // Release events never expire: they are folded again.
        let is_gone = |log: &&String| !log.starts_with(Kind::Releases.letter());
        let rollup = of_old.rollups.get(&day.day).into_iter().flatten().filter(|(log, _)| is_gone(log));
        let rollup: Applied = rollup.map(|(log, seq)| (log.clone(), *seq)).collect();
        if !is_covered(Some(&rollup), of_new.rollups.get(&day.day)) {
            carry_all(table, &day, (old, version), Folding::Rollup).await?;
        }
    }
    Ok(())
}

/// Copies a fold of a day: the parts first, then the item that implies them.
async fn carry_all(
    table: &dyn Table,
    day: &WorkspaceDay,
    (old, new): (u32, u32),
    folding: Folding,
) -> Result<()> {
    let (workspace, date) = (&day.workspace, day.day);
    for item in query_all(table, Query::table(parts_of(folding, old, day))).await? {
        if let Projection::Breakdown(one) = key::parse_projection(&item.key)?.1 {
            carry(table, key::breakdown(workspace, new, date, one), &item).await?;
        }
    }
    let head = match folding {
        Folding::Rollup => key::rollup,
        Folding::Features => key::features,
    };
    match table.get(&head(workspace, old, date)).await? {
        Some(item) => carry(table, head(workspace, new, date), &item).await,
        None => Ok(()),
    }
}

/// Returns whether the coverage `found` includes `wanted`.
pub(crate) fn is_covered(wanted: Option<&Applied>, found: Option<&Applied>) -> bool {
    let of = |log: &String| found.and_then(|found| found.get(log)).copied().unwrap_or(0);
    wanted.is_none_or(|wanted| wanted.iter().all(|(log, seq)| of(log) >= *seq))
}

/// Puts an item under another key, replacing any item there.
async fn carry(table: &dyn Table, key: Key, item: &Item) -> Result<()> {
    let old = Projected::from_item(item)?;
    update(table, &key, Policy::of(&key), async |there| {
        let there = there.as_ref().map_or(Ok(Projected::empty()), Projected::from_item)?;
        let (item, _) = there.replace(key.clone(), &old.applied, old.state.clone());
        Ok(Change::Put(item, ()))
    })
    .await
}

/// Copies the evaluation of a day, unless the new one covers it.
pub(crate) async fn carry_evaluation(
    table: &dyn Table,
    day: &WorkspaceDay,
    old: u32,
    new: u32,
) -> Result<()> {
    let at = |version| At { workspace: &day.workspace, version, day: day.day };
    let Some((head, states)) = evaluated::load(table, at(old)).await? else { return Ok(()) };
    let (states, slices) = head.apart(states);
    let content = Content { applied: head.applied, rows: head.rows, states, slices };
    let key = at(new).key();
    let mut tries = Policy::of(&key).tries();
    loop {
        tries.next().await?;
        let there = evaluated::head(table, at(new)).await?;
        if is_covered(Some(&content.applied), Some(&there.applied)) {
            return Ok(());
        }
        let written = evaluated::write(table, at(new), &there, content.clone(), OfGone::Allowed).await;
        if unless_overtaken(written)?.is_some() {
            return Ok(());
        }
    }
}
