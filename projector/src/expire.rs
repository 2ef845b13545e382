//! Deletes the events of expired days ([`catalog::Retention`]), by the earlier one of the time that the table has
//! counted ([`log::counted`]) and the worker's clock.
//!
//! Days that had expired by the counted time when retention was set are deleted after the grace time; later days as the
//! counted time grows. It only grows, so an outdated reading deletes later, never too early.
//!
//! A day is deleted only when its projections cover all of it. One transaction marks it ([`log::expired`]), on the
//! condition that the setting and the active version of the projections are unchanged. Only then its segments are
//! deleted, in any number of tries.
//!
//! A concurrent evaluation, in any version, is refused: its write demands that the mark is absent, and its read fails
//! for missing segments. A concurrent fold writes the rollup up to a hole, under the version that it read; `carry`
//! replaces it and increments that version.

use std::collections::BTreeMap;

use catalog::{Catalog, Definitions, EXPIRY_GRACE_SECONDS};
use event::{Day, Id, Kind, Result, Timestamp, Window};
use log::{
    active,
    counted::{self, CountedTime},
    expired::{self, Expired},
    key, key_filter,
    projection::{Applied, Projected},
    scan::{self, LogHead},
    unmatched,
};
use table::{Condition, Pages, Query, Table, Write};

use crate::{
    WorkspaceDay,
    evaluate::{self, wanted},
    features, vintages,
};

/// Maximum days of a workspace deleted in one call; the next sweep continues.
const MAX_DAYS: usize = 400;

/// Number of segments deleted at once.
const DELETES_AT_ONCE: usize = 16;

/// Result of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Number of days whose deletion began or ended.
    pub days: u64,
    /// Number of deleted segments.
    pub segments: u64,
    /// Number of expired days that are not projected yet and wait.
    pub waiting: u64,
}

/// Deletes the expired events of a workspace, by the clock of `now` and by the time that the table has counted, after
/// the grace time.
///
/// # Errors
/// Errors of the table. It may be called again at any time.
pub async fn expire(table: &dyn Table, catalog: &Catalog, workspace: &Id, now: Timestamp) -> Result<Deleted> {
    let mut deleted = Deleted::default();
    let keeping = catalog.keeping(workspace).await?;
    let retention = keeping.retention;
    if retention.ver == 0 {
        return Ok(deleted);
    }
    let Some(CountedTime { at, minutes, .. }) = counted::load(table).await? else { return Ok(deleted) };
    let then = now.min(at).plus_seconds(-EXPIRY_GRACE_SECONDS);
    // Days that were marked before the setting changed are still deleted.
    let noticed = expired::noticed(table, workspace, retention.ver, minutes).await?;
    let may_mark = (minutes - noticed) * 60 >= EXPIRY_GRACE_SECONDS;
    let first = retention.first_day(then).filter(|_| may_mark);
    let after_gone = keeping.latest_gone.and_then(Day::next);
    let Some(before) = first.max(after_gone) else { return Ok(deleted) };
    let mut days = BTreeMap::<Day, Vec<LogHead>>::new();
    for head in scan::heads_before(table, workspace, before).await? {
        if head.log.kind != Kind::Releases {
            days.entry(head.log.day).or_default().push(head);
        }
    }
    let (Some(from), Some(to)) = (days.keys().next(), days.keys().last()) else { return Ok(deleted) };
    let kept = catalog.kept(workspace, Window::new(*from, *to)?, then).await?;
    for (day, heads) in days.into_iter().filter(|(day, _)| !kept.keeps(*day)).take(MAX_DAYS) {
        let day = WorkspaceDay { workspace: workspace.clone(), day };
        let known = expired::load(table, workspace, day.day).await?;
        let active = active::load(table, workspace).await?;
        if !is_covered(table, active.version, &day, &heads, known.is_none()).await? {
            deleted.waiting += 1;
            continue;
        }
        if known.is_none() {
            if !may_mark {
                continue;
            }
            // Afterwards the vintages of the ages reached cannot be made any more.
            if vintages::make_last(table, &day, now).await?.waiting > 0 {
                deleted.waiting += 1;
                continue;
            }
            let heads = heads.iter().map(|head| (head.log.name(), head.seq)).collect();
            let mark = Expired { day: day.day, heads, at: now };
            let writes = vec![
                Write::Check(key::retention(workspace), retention.unchanged()),
                Write::Check(key::active(workspace), Condition::unchanged(active.ver)),
                Write::Put(mark.to_item(workspace), Condition::Absent),
            ];
            match table.transact(writes).await {
                // Another process has changed the setting, or marks the day as well: the next sweep continues.
                Err(error) if error.is_conflict() => return Ok(deleted),
                other => other?,
            }
        }
        if !unmatched::delete(table, workspace, day.day).await? {
            // Decided outcomes are appended first.
            deleted.waiting += 1;
            continue;
        }
        deleted.days += 1;
        key_filter::delete(table, workspace, active.version, day.day).await?;
        // Lane 0 goes last, since it has the number of lanes.
        for head in heads.into_iter().rev() {
            deleted.segments += delete(table, &head).await?;
        }
    }
    Ok(deleted)
}

/// Returns whether the projections of a day cover its logs up to these heads; if it is `evaluated`, also its evaluation
/// and breakdown by feature.
async fn is_covered(
    table: &dyn Table,
    version: u32,
    day: &WorkspaceDay,
    heads: &[LogHead],
    evaluated: bool,
) -> Result<bool> {
    let rollup = applied(table, &key::rollup(&day.workspace, version, day.day)).await?;
    let covers = |head: &LogHead| rollup.get(&head.log.name()).is_some_and(|seq| *seq >= head.seq);
    if !heads.iter().all(covers) {
        return Ok(false);
    }
    if !evaluated {
        return Ok(true);
    }
    let wanted = wanted(day, &rollup, &Definitions::load(table, &day.workspace).await?);
    let evaluation = applied(table, &key::evaluation(&day.workspace, version, day.day)).await?;
    let features = features::head(table, version, day).await?;
    let is_sketched =
        features.is_none_or(|(head, _)| evaluate::covers(&head.applied, &features::wanted(&rollup)));
    Ok(is_sketched && evaluate::covers(&evaluation, &wanted))
}

async fn applied(table: &dyn Table, key: &table::Key) -> Result<Applied> {
    table.get(key).await?.as_ref().map_or(Ok(Applied::new()), Projected::applied_of)
}

/// Deletes the segments of a log up to its head; returns their number.
async fn delete(table: &dyn Table, head: &LogHead) -> Result<u64> {
    let query = Query::table(key::segments_between(&head.log, 1, head.seq)).only(&["v"]).as_stored();
    let mut pages = Pages::of(table, query);
    let mut deleted = 0;
    while let Some(items) = pages.next().await? {
        for some in items.chunks(DELETES_AT_ONCE) {
            let deletes = some.iter().map(|item| table.delete(&item.key, Condition::None));
            futures::future::try_join_all(deletes).await?;
            deleted += some.len() as u64;
        }
    }
    Ok(deleted)
}
