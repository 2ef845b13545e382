//! Vintages: stores each day's evaluation ([`log::vintage`]) and rollup ([`log::rollup_vintage`]) as they stood at the
//! ages in [`fold::maturity::AGES`].
//!
//! A vintage is a fold of the logs as of the instant at which the day had the age. So it does not depend on when it is
//! made, nor by which worker, and is correct also after a pause of weeks. It is made when the instant is closed by the
//! clocks of both the worker and the engine, so that neither alone decides too early. A decision that both made too
//! early, as the single clock of a machine with a file may, is taken back (`early`). If nothing has come since the
//! instant, the vintage is the stored projection, and no event is read. A day whose first age was reached long ago gets
//! no vintages; its events answer instead.

mod evaluations;
mod rollups;

use std::collections::BTreeSet;

use event::{Day, ErrorKind, Id, Kind, Result, Timestamp};
use fold::maturity::{AGES, Age};
use log::{
    erased::ErasureEpoch,
    expired, key, rollup_vintage,
    scan::{self, LogHead},
    segment_item::CLOSED_AFTER_SECONDS,
    vintage::{self, VintageUntil},
    walk::{Admitted, Arrivals, Note, Until, Walk},
};
use table::Table;

use crate::{
    WorkspaceDay,
    dead_letters::Skipped,
    early::{latest, take_back},
    evaluate::segments_of,
};

pub(crate) use self::{evaluations::fold_of, rollups::folded};

/// Longest pause in days after which vintages are made, and number of the latest days that get vintages in a workspace
/// without any.
const MAX_DAYS: usize = 100;

/// Kinds of events in evaluations.
pub(crate) const JUDGED: &[Kind] = &[Kind::Predictions, Kind::Outcomes];

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Result of making vintages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Number of evaluations at ages written.
    pub vintages: u64,
    /// Number of rollups at ages written.
    pub rollups: u64,
    /// Number of days with due vintages that cannot be made: a segment is unreadable or missing.
    pub waiting: u64,
}

impl Made {
    /// Result for a day that waits.
    pub(crate) const WAITING: Self = Self { vintages: 0, rollups: 0, waiting: 1 };

    fn add(&mut self, of_day: Self) {
        self.vintages += of_day.vintages;
        self.rollups += of_day.rollups;
        self.waiting += of_day.waiting;
    }
}

/// Returns the last closed instant, by both the clock of `now` and that of the engine.
pub(crate) fn closed(table: &dyn Table, now: Timestamp) -> Timestamp {
    table.engine_time().map_or(now, |engine| engine.min(now)).plus_seconds(-CLOSED_AFTER_SECONDS)
}

/// Takes back the vintages of some days that were made too early, and makes the ones that are due at `now` again.
///
/// # Errors
/// As [`make`].
pub(crate) async fn make_again(
    table: &dyn Table,
    workspace: &Id,
    days: &BTreeSet<Day>,
    now: Timestamp,
) -> Result<()> {
    let taken = take_back(table, workspace, days.iter().copied(), now).await?;
    for day in taken.into_iter().flatten() {
        make_day(table, &WorkspaceDay { workspace: workspace.clone(), day }, now).await?;
    }
    Ok(())
}

/// Makes the vintages of a workspace that are due at `now`: of days that have reached an age since the last call, and
/// of the days `older`, to which events may have been appended long after.
///
/// # Errors
/// Errors of the table, and `Corrupt`. It may be called again at any time.
pub async fn make(table: &dyn Table, workspace: &Id, older: &BTreeSet<Day>, now: Timestamp) -> Result<Made> {
    let closed = closed(table, now);
    let mut until = VintageUntil::load(table, workspace).await?;
    let mut again = BTreeSet::new();
    if let Some(early) = until.filter(|until| until.at > latest(table, now)) {
        let days = reached_between(closed.plus_seconds(-DAY_SECONDS), early.at);
        match take_back(table, workspace, days, now).await? {
            Some(taken) => again = taken,
            None => return Ok(Made::WAITING),
        }
        VintageUntil::write(table, workspace, until, closed).await?;
        until = VintageUntil::load(table, workspace).await?;
    }
    let days: BTreeSet<Day> = match until {
        Some(until) => reached_between(until.at, closed).chain(older.iter().copied()).chain(again).collect(),
        None => last_days(table, workspace).await?,
    };
    let mut made = Made::default();
    if days.is_empty() {
        return Ok(made);
    }
    for day in days {
        made.add(make_day(table, &WorkspaceDay { workspace: workspace.clone(), day }, now).await?);
    }
    let is_moved = until.is_none_or(|until| until.at < closed);
    if made.waiting == 0 && is_moved {
        // After a conflict, another process has made the same vintages.
        VintageUntil::write(table, workspace, until, closed).await?;
    }
    Ok(made)
}

/// Returns the days that reached one of the ages after one instant, and by another.
fn reached_between(after: Timestamp, until: Timestamp) -> impl Iterator<Item = Day> {
    let longest = AGES.iter().map(|age| age.hours).max().unwrap_or_default();
    let after = after.max(until.plus_seconds(-(MAX_DAYS as i64) * DAY_SECONDS));
    let first = after.plus_seconds(-i64::from(longest) * 3_600 - DAY_SECONDS).day();
    let days =
        std::iter::successors(Some(first), |day| day.next()).take_while(move |day| *day <= until.day());
    let is_reached = move |at: Timestamp| after < at && at <= until;
    days.filter(move |day| AGES.iter().any(|age| age.of(*day).is_some_and(is_reached)))
}

/// Returns the last days of a workspace that have logs.
async fn last_days(table: &dyn Table, workspace: &Id) -> Result<BTreeSet<Day>> {
    let (mut days, mut range) = (BTreeSet::new(), key::segments(workspace));
    while days.len() < MAX_DAYS
        && let Some((log, _)) = scan::last_within(table, range).await?
    {
        days.insert(log.day);
        range = key::segments_before(workspace, log.day);
    }
    Ok(days)
}

/// Makes the vintages of a day that are due at `now`: its evaluations, then its rollups. A day with events of stated
/// times of knowledge has none due: more such events may come that were known at past ages.
///
/// # Errors
/// As [`make`].
pub async fn make_day(table: &dyn Table, day: &WorkspaceDay, now: Timestamp) -> Result<Made> {
    let WorkspaceDay { workspace, day: of } = day;
    if vintage::is_stated(table, workspace, *of).await? {
        return Ok(Made::default());
    }
    let mut last = Last::load(table, day).await?;
    // A worker with a clock that was ahead may have died after a vintage, before it recorded the instant of the last
    // ones.
    if !last.has_come(*of, latest(table, now)) {
        if take_back(table, workspace, [*of], now).await?.is_none() {
            return Ok(Made::WAITING);
        }
        last = Last::load(table, day).await?;
    }
    make_all(table, day, last, (closed(table, now), Span::Recent)).await
}

/// Makes the vintages of a day whose events are about to be deleted. For a day with events that have known-at times
/// it makes all of them again.
///
/// # Errors
/// As [`make`].
pub(crate) async fn make_last(table: &dyn Table, day: &WorkspaceDay, now: Timestamp) -> Result<Made> {
    if !vintage::is_stated(table, &day.workspace, day.day).await? {
        return make_day(table, day, now).await;
    }
    vintage::delete(table, &day.workspace, day.day).await?;
    let made = make_all(table, day, Last::default(), (closed(table, now), Span::All)).await?;
    if made.waiting == 0 {
        vintage::settle_stated(table, &day.workspace, day.day).await?;
    }
    Ok(made)
}

/// Last age of a day's stored evaluation, and of its rollup, in hours.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    evaluation: Option<u32>,
    rollup: Option<u32>,
}

impl Last {
    async fn load(table: &dyn Table, day: &WorkspaceDay) -> Result<Self> {
        Ok(Self {
            evaluation: vintage::ages(table, &day.workspace, day.day).await?.pop_last(),
            rollup: rollup_vintage::last_age(table, &day.workspace, day.day).await?,
        })
    }

    /// Returns whether the day has reached both ages by an instant.
    fn has_come(self, day: Day, by: Timestamp) -> bool {
        let Some(hours) = self.evaluation.max(self.rollup) else { return true };
        let age = AGES.into_iter().find(|age| age.hours == hours);
        age.is_none_or(|age| age.of(day).is_some_and(|at| at <= by))
    }
}

async fn make_all(table: &dyn Table, day: &WorkspaceDay, last: Last, due: (Timestamp, Span)) -> Result<Made> {
    let mut made = evaluations::make(table, day, last.evaluation, due).await?;
    made.add(rollups::make(table, day, last.rollup, due).await?);
    made.waiting = made.waiting.min(1);
    Ok(made)
}

/// Days without vintages that get some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// Days whose first age was reached in the last [`MAX_DAYS`] days.
    Recent,
    /// All days.
    All,
}

/// Returns the result of making vintages in an epoch, or that they wait, if the epoch is over or the events were
/// deleted meanwhile.
///
/// # Errors
/// Errors of `made`, and of the table.
pub(crate) async fn settled(
    table: &dyn Table,
    day: &WorkspaceDay,
    epoch: ErasureEpoch,
    made: Result<Made>,
) -> Result<Made> {
    match made {
        // A write refused for this reason is repeated later.
        Ok(made) if ErasureEpoch::load(table, &day.workspace).await? != epoch => {
            Ok(Made { waiting: 1, ..made })
        }
        // The events were deleted while they were read.
        Err(error)
            if error.kind() == ErrorKind::Incomplete
                && expired::load(table, &day.workspace, day.day).await?.is_some() =>
        {
            Ok(Made::default())
        }
        made => made,
    }
}

/// Returns the logs of some kinds of a day, and the due ages, the youngest first: those reached by the instant `closed`
/// and after `last`, the last age made, in hours. `None`, when nothing is due.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn due(
    table: &dyn Table,
    day: &WorkspaceDay,
    (kinds, last): (&[Kind], Option<u32>),
    (closed, span): (Timestamp, Span),
) -> Result<Option<(Vec<LogHead>, Vec<Due>)>> {
    let due = AGES.iter().filter_map(|age| Some(Due { age: *age, at: age.of(day.day)? }));
    let mut due: Vec<Due> = due.filter(|due| due.at <= closed).collect();
    let Some(youngest) = due.first().map(|due| due.at) else { return Ok(None) };
    let mut logs = Vec::new();
    for kind in kinds {
        logs.extend(scan::heads_of_kind(table, &day.workspace, day.day, *kind).await?);
    }
    if logs.is_empty() {
        return Ok(None);
    }
    // Events replayed with a clock of their own are not closed when the instant is over. And vintages that do not begin
    // with the youngest age imply that nothing was known before; so such a day has none.
    let is_long_over = youngest <= closed.plus_seconds(-(MAX_DAYS as i64) * DAY_SECONDS);
    if span == Span::Recent && last.is_none() && is_long_over {
        return Ok(None);
    }
    due.retain(|due| last.is_none_or(|last| due.age.hours > last));
    let Some(latest) = due.last() else { return Ok(None) };
    if expired::load(table, &day.workspace, day.day).await?.is_some() {
        return Ok(None);
    }
    if all_came_after(table, &logs, latest.at).await? {
        // No event was known at any of these ages but the last.
        due.drain(..due.len() - 1);
    }
    Ok(Some((logs, due)))
}

/// Returns whether the first segment of each log was appended after an instant.
async fn all_came_after(table: &dyn Table, logs: &[LogHead], at: Timestamp) -> Result<bool> {
    for head in logs {
        match scan::first_of(table, &head.log).await {
            Ok(Some(segment)) if segment.known() > at => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Returns whether the last segment of each log was appended by an instant.
pub(crate) async fn all_came_by(table: &dyn Table, logs: &[LogHead], at: Timestamp) -> Result<bool> {
    for LogHead { log, .. } in logs {
        let last = match scan::last_of(table, log).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(false),
            last => last?,
        };
        if last.as_ref().is_none_or(|last| last.known() > at) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Age that a day has reached, and the instant of that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) age: Age,
    pub(crate) at: Timestamp,
}

/// Reads the times at which the segments of some kinds of a day were appended; `None`, when one is missing.
pub(crate) async fn arrivals(
    table: &dyn Table,
    day: &WorkspaceDay,
    kinds: &[Kind],
    skipped: &Skipped,
) -> Result<Option<Arrivals>> {
    let (mut arrivals, left_out) = (Arrivals::default(), segments_of(day, skipped));
    for kind in kinds {
        let mut walk = Walk::new(&day.workspace, day.day, *kind, Until::Now, left_out.clone());
        loop {
            let page: Option<Vec<Admitted>> = walk.next(table, Some(Arrivals::ATTRIBUTES)).await?;
            if walk.notes().iter().any(|note| matches!(note, Note::Missing(..))) {
                return Ok(None);
            }
            let Some(page) = page else { break };
            page.into_iter().for_each(|segment| arrivals.add(segment));
        }
    }
    Ok(Some(arrivals))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn reached(after: &str, until: &str) -> Vec<String> {
        reached_between(at(after), at(until)).map(|day| day.to_string()).collect()
    }

    #[test]
    fn interval_covers_days_that_reached_an_age() {
        let [midnight, one] = ["2026-06-10T00:00:00Z", "2026-06-10T01:00:00Z"];
        assert_eq!(reached(midnight, one), ["2026-06-09"], "an hour old");
        assert_eq!(reached(one, "2026-06-10T05:59:59Z"), [""; 0]);
        let at_midnight = ["2026-05-10", "2026-05-26", "2026-06-02", "2026-06-06", "2026-06-08"];
        assert_eq!(reached("2026-06-09T23:59:59Z", midnight), at_midnight);
        assert_eq!(reached(midnight, midnight), [""; 0]);
        // After a long pause only the last days are made.
        let first = reached("2020-01-01T00:00:00Z", one).remove(0);
        assert_eq!(first, "2026-01-31");
    }
}
