//! Merges the days of a window at once at the request of an operator, or plans it.

use std::time::Duration;

use event::{Day, Error, Id, Result, Timestamp};
use log::{
    compacted::Compacted,
    erased::ErasureEpoch,
    expired,
    key::{self, LogId},
    merged::QUIET,
    scan,
};
use table::{KeyRange, Pages, Query, Table};

use super::{
    AGES, Compactor, DAY_SECONDS, Done, Held, MAX_DELETES, held_twice, merge, runs, stored_items,
    without_held,
};
use crate::lock;

/// Time to wait after another process was quicker.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Days to merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// First day; all days when `None`.
    pub from: Option<Day>,
    /// Last day; the latest day that is old enough when `None`.
    pub to: Option<Day>,
}

/// Result of merging, or its plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of days that have events.
    pub days: usize,
    /// Items of their logs before.
    pub before: Held,
    /// Items of their logs after, or as planned.
    pub after: Held,
    /// Number of merged items written.
    pub merged: u64,
    /// Number of deleted items, whose segments merged items contain.
    pub deleted: u64,
}

/// Progress of merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Number of checked days, and of all days.
    Days(usize, usize),
    /// Time that it waits until items may be deleted.
    Waiting(Duration),
}

/// Merges the days of a window as of `now`, and then deletes the duplicate items, however long that takes. It calls
/// `wait` with each time to wait in between. It may be interrupted: another call or a sweep continues.
///
/// # Errors
/// `Invalid`, when days of the window are too recent; `Unavailable`, while keys are being erased; errors of the table,
/// and `Corrupt`.
pub async fn merge_window(
    table: &dyn Table,
    workspace: &Id,
    window: Window,
    now: Timestamp,
    tell: impl Fn(Step),
    wait: impl AsyncFn(Duration),
) -> Result<Report> {
    let days = days(table, workspace, window, now).await?;
    let mut report =
        Report { days: days.len(), before: held(table, workspace, &days).await?, ..Report::default() };
    let compactor = Compactor::default();
    loop {
        let epoch = epoch(table, workspace).await?;
        let (mut is_done, mut is_full) = (true, false);
        for (at, day) in days.iter().enumerate() {
            let mut done = Done::default();
            is_done &= compactor.day(table, (workspace, epoch), *day, &mut done).await?;
            let Done { merged, deleted, .. } = done;
            if merged > 0 || deleted > 0 {
                Compacted { merged, deleted, ..Compacted::default() }.note(table, workspace).await?;
            }
            (report.merged, report.deleted) = (report.merged + merged, report.deleted + deleted);
            is_full |= deleted >= MAX_DELETES;
            tell(Step::Days(at + 1, days.len()));
        }
        if is_done {
            report.after = held(table, workspace, &days).await?;
            return Ok(report);
        }
        if !is_full {
            let left = compactor.until_quiet();
            tell(Step::Waiting(left));
            wait(left).await;
        }
    }
}

/// Returns the report that [`merge_window`] would give, without writing anything.
///
/// # Errors
/// As [`merge_window`].
pub async fn plan_window(
    table: &dyn Table,
    workspace: &Id,
    window: Window,
    now: Timestamp,
    tell: impl Fn(Step),
) -> Result<Report> {
    epoch(table, workspace).await?;
    let days = days(table, workspace, window, now).await?;
    let before = held(table, workspace, &days).await?;
    let mut report = Report { days: days.len(), before, after: before, ..Report::default() };
    for (at, day) in days.iter().enumerate() {
        let mut range = key::segments_of_day(workspace, *day);
        let end = range.to.clone();
        while let Some((log, _)) = scan::first_within(table, range).await? {
            plan(table, &log, &mut report).await?;
            range = KeyRange { to: end.clone(), ..key::segments_after(&log) };
        }
        tell(Step::Days(at + 1, days.len()));
    }
    Ok(report)
}

/// Adds the plan for one log.
async fn plan(table: &dyn Table, log: &LogId, report: &mut Report) -> Result<()> {
    let stored = stored_items(table, log).await?;
    let Some(head) = stored.last().map(|head| head.last) else { return Ok(()) };
    let mut gone = Held::default();
    for by in held_twice(&stored).filter(|by| by.last < head) {
        add(table, key::segments_between(log, by.from, by.last - 1), &mut gone).await?;
    }
    report.deleted += gone.items;
    for run in runs(&without_held(&stored, head), head) {
        let merged = merge(table, log, run, None).await?;
        report.merged += merged.after.items;
        report.deleted += merged.before.items - merged.after.items;
        gone.items += merged.before.items - merged.after.items;
        gone.bytes += merged.before.bytes - merged.after.bytes;
    }
    // Counts read before may be outdated.
    report.after.items = report.after.items.saturating_sub(gone.items);
    report.after.bytes = report.after.bytes.saturating_sub(gone.bytes);
    Ok(())
}

/// Reads the erasure epoch in which items may be merged now.
async fn epoch(table: &dyn Table, workspace: &Id) -> Result<ErasureEpoch> {
    let epoch = ErasureEpoch::load(table, workspace).await?;
    match epoch.is_open || epoch.is_rewriting {
        true => Err(Error::unavailable(
            "keys are being erased in this workspace; nothing is merged until that is done",
        )),
        false => Ok(epoch),
    }
}

/// Lists the days of a window that have events.
async fn days(table: &dyn Table, workspace: &Id, window: Window, now: Timestamp) -> Result<Vec<Day>> {
    let latest = now.plus_seconds(-i64::from(AGES[0]) * DAY_SECONDS).day();
    if let Some(day) = [window.from, window.to].into_iter().flatten().find(|day| *day > latest) {
        return Err(Error::invalid(format!(
            "{day} is too late: a day is merged when it is {} days old, so {latest} is the latest",
            AGES[0]
        )));
    }
    let last = window.to.unwrap_or(latest);
    let mut days = Vec::new();
    let mut range = match window.from {
        Some(first) => key::segments_since(workspace, first),
        None => key::segments(workspace),
    };
    while let Some((log, _)) = scan::first_within(table, range).await?.filter(|(log, _)| log.day <= last) {
        if expired::load(table, workspace, log.day).await?.is_none() {
            days.push(log.day);
        }
        let Some(next) = log.day.next() else { break };
        range = key::segments_since(workspace, next);
    }
    Ok(days)
}

/// Counts the stored items of the logs of days.
async fn held(table: &dyn Table, workspace: &Id, days: &[Day]) -> Result<Held> {
    let mut held = Held::default();
    for day in days {
        add(table, key::segments_of_day(workspace, *day), &mut held).await?;
    }
    Ok(held)
}

async fn add(table: &dyn Table, range: KeyRange, held: &mut Held) -> Result<()> {
    let query = Query::table(range).as_stored();
    let mut pages = Pages::of(table, query);
    while let Some(items) = pages.next().await? {
        held.add(&items);
    }
    Ok(())
}

impl Compactor {
    /// Returns the time until all duplicate items may be deleted, as far as known.
    fn until_quiet(&self) -> Duration {
        let seen = lock(&self.seen);
        let left = seen.values().map(|since| QUIET.saturating_sub(since.elapsed())).max();
        left.unwrap_or_default().max(AGAIN_AFTER)
    }
}
