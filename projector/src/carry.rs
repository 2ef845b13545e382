//! Carries the projections of days whose events are gone over to the next version, as they are.

use store::{
    Id, Item, Result, Table, expired,
    key::{self, Key, Projection},
    rollup::Applied,
    table::{Condition, Query, query_all},
};

use crate::sweep::applied;

/// Copies to `version` what the version before it has of days whose events are gone, unless it covers
/// them already.
///
/// # Errors
/// Those of the table, and `Corrupt`.
pub(crate) async fn carry_over(table: &dyn Table, workspace: &Id, version: u32) -> Result<()> {
    let marks = expired::all(table, workspace).await?;
    let Some(old) = version.checked_sub(1).filter(|_| !marks.is_empty()) else { return Ok(()) };
    let (of_old, _) = applied(table, old, workspace).await?;
    let (of_new, _) = applied(table, version, workspace).await?;
    for mark in marks {
        let covers = |applied: Option<&Applied>| {
            let of = |log: &String| applied.and_then(|applied| applied.get(log)).copied().unwrap_or(0);
            mark.heads.iter().all(|(log, seq)| of(log) >= *seq)
        };
        if covers(of_new.get(&mark.day)) || !covers(of_old.get(&mark.day)) {
            continue;
        }
        let range = key::projections(workspace, old, mark.day, mark.day);
        // The rollup, which comes first, goes last: it says that the others are there.
        for item in query_all(table, Query::table(range)).await?.into_iter().rev() {
            let key = key_in(workspace, version, &item)?;
            table.put(Item { key, ..item }, Condition::None).await?;
        }
    }
    Ok(())
}

fn key_in(workspace: &Id, version: u32, item: &Item) -> Result<Key> {
    let (day, projection) = key::parse_projection(&item.key)?;
    Ok(match projection {
        Projection::Rollup => key::rollup(workspace, version, day),
        Projection::Evaluation => key::evaluation(workspace, version, day),
        Projection::Breakdown(breakdown) => key::breakdown(workspace, version, day, breakdown),
    })
}
