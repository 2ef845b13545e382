//! Keeps the evaluation of each day as it stood at the ages that [`fold::maturity::AGES`] declares ([`log::staged`]).
//!
//! A stage is a fold of the logs as of the instant at which the day had the age, so it does not matter when it is made, and by
//! whom: also after a pause of weeks it says what was known then. It is made when the instant is closed by the worker's clock
//! and by the engine's, so neither of them alone decides too early. Where nothing has come since, the evaluation that is
//! stored is it, and no event is read. Of days whose first instant is long over none is made; there events say it.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Definitions, adopt_definitions};
use event::{Day, Definition, ErrorKind, Id, Kind, Result, Timestamp};
use fold::{
    Evaluation,
    evaluation::Splits,
    maturity::{AGES, Age},
};
use log::{
    active,
    erased::Turn,
    evaluated::{self, At},
    expired, key,
    projection::Applied,
    scan::{self, LogHead},
    segment_item::CLOSED_AFTER_SECONDS,
    staged::{self, Stage, StagedUntil},
    walk::{Admitted, Arrivals, Heads, Note, Until, Walk},
};
use table::Table;

use crate::{
    WorkspaceDay,
    dlq::{self, Skipped, Stopped},
    evaluate::{SKIPPED, compute_in_partitions, segments_of},
};

/// Of how many days back a pause may be and stages are made, and of how many of the last days stages are made in a workspace that has none.
const MAX_DAYS: usize = 100;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Predictions and outcomes that are held unpacked at a time: a part of what evaluations hold, as it comes on top of them.
const ROWS_AT_ONCE: usize = 500_000;

/// What was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Stages that were written.
    pub stages: u64,
    /// Days of which stages are due and cannot be made: a segment cannot be read, or is missing.
    pub waiting: u64,
}

impl Made {
    fn add(&mut self, of_day: Self) {
        self.stages += of_day.stages;
        self.waiting += of_day.waiting;
    }
}

/// The last instant of which everything is in the log, by the clock that says `now` and by the engine's.
pub(crate) fn closed(table: &dyn Table, now: Timestamp) -> Timestamp {
    table.engine_time().map_or(now, |engine| engine.min(now)).plus_seconds(-CLOSED_AFTER_SECONDS)
}

/// Makes the stages of a workspace that are due at `now`: of days that have reached an age since this was last called, and of
/// the days `older`, which may have been appended to long after.
///
/// # Errors
/// Those of the table, and `Corrupt`. It may be called again at any time.
pub async fn make(table: &dyn Table, workspace: &Id, older: &BTreeSet<Day>, now: Timestamp) -> Result<Made> {
    let closed = closed(table, now);
    let until = StagedUntil::load(table, workspace).await?;
    let days: BTreeSet<Day> = match until {
        Some(until) => reached_between(until.at, closed).chain(older.iter().copied()).collect(),
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
        // When somebody else was quicker, the same is made.
        StagedUntil::write(table, workspace, until, closed).await?;
    }
    Ok(made)
}

/// The days that had one of the ages after an instant, and by another.
fn reached_between(after: Timestamp, until: Timestamp) -> impl Iterator<Item = Day> {
    let longest = AGES.iter().map(|age| age.hours).max().unwrap_or_default();
    let after = after.max(until.plus_seconds(-(MAX_DAYS as i64) * DAY_SECONDS));
    let first = after.plus_seconds(-i64::from(longest) * 3_600 - DAY_SECONDS).day();
    let days =
        std::iter::successors(Some(first), |day| day.next()).take_while(move |day| *day <= until.day());
    let is_reached = move |at: Timestamp| after < at && at <= until;
    days.filter(move |day| AGES.iter().any(|age| age.of(*day).is_some_and(is_reached)))
}

/// The last days of a workspace that have logs.
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

/// Makes the stages of a day that are due at `now`.
///
/// # Errors
/// As [`make`].
pub async fn make_day(table: &dyn Table, day: &WorkspaceDay, now: Timestamp) -> Result<Made> {
    let closed = closed(table, now);
    let due = AGES.iter().filter_map(|age| Some(Due { age: *age, at: age.of(day.day)? }));
    let mut due: Vec<Due> = due.filter(|due| due.at <= closed).collect();
    let Some(youngest) = due.first().map(|due| due.at) else { return Ok(Made::default()) };
    let mut logs = Vec::new();
    for kind in [Kind::Predictions, Kind::Outcomes] {
        logs.extend(scan::heads_of_kind(table, &day.workspace, day.day, kind).await?);
    }
    if logs.is_empty() {
        return Ok(Made::default());
    }
    let last = staged::ages(table, &day.workspace, day.day).await?.pop_last();
    // What is appended by a clock of its own, as months are that are replayed, is not closed when the instant is over. And stages
    // that do not begin with the youngest age say that nothing was known before, so of such a day there are none.
    if last.is_none() && youngest <= closed.plus_seconds(-(MAX_DAYS as i64) * DAY_SECONDS) {
        return Ok(Made::default());
    }
    due.retain(|due| last.is_none_or(|last| due.age.hours > last));
    let Some(latest) = due.last() else { return Ok(Made::default()) };
    if expired::load(table, &day.workspace, day.day).await?.is_some() {
        return Ok(Made::default());
    }
    if all_came_after(table, &logs, latest.at).await? {
        // Nothing was known at any of them.
        due.drain(..due.len() - 1);
    }
    let turn = Turn::load(table, &day.workspace).await?;
    if turn.is_rewriting {
        return Ok(Made { waiting: 1, ..Made::default() });
    }
    let version = active::load(table, &day.workspace).await?.version;
    let making = Making {
        table,
        turn,
        version,
        day,
        skipped: dlq::skipped(table, version, day, SKIPPED).await?,
        definitions: adopt_definitions(table, &day.workspace).await?,
    };
    match making.all(&logs, &due).await {
        // What was refused for that is made later.
        Ok(made) if Turn::load(table, &day.workspace).await? != turn => Ok(Made { waiting: 1, ..made }),
        // Its events were deleted while they were read.
        Err(error)
            if error.kind() == ErrorKind::Incomplete
                && expired::load(table, &day.workspace, day.day).await?.is_some() =>
        {
            Ok(Made::default())
        }
        made => made,
    }
}

/// Whether the first segment of each log came after an instant.
async fn all_came_after(table: &dyn Table, logs: &[LogHead], at: Timestamp) -> Result<bool> {
    for head in logs {
        match scan::first_of(table, &head.log).await {
            Ok(Some(segment)) if segment.appended_at > at => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// An age that a day has reached, and when.
#[derive(Clone, Copy, Debug)]
struct Due {
    age: Age,
    at: Timestamp,
}

/// The stages of a day while they are made.
struct Making<'a> {
    table: &'a dyn Table,
    turn: Turn,
    version: u32,
    day: &'a WorkspaceDay,
    skipped: Skipped,
    definitions: Definitions,
}

impl Making<'_> {
    /// Makes and writes the stages that are due, the youngest first.
    async fn all(&self, logs: &[LogHead], due: &[Due]) -> Result<Made> {
        let mut made = Made::default();
        let mut before: Option<(Applied, Stage)> = None;
        let mut arrivals = None;
        let mut stored = self.stored(logs, due).await?;
        for (number, one) in due.iter().enumerate() {
            let known = self.definitions.known(|defined| defined.appended_at <= one.at);
            if let Some((by, stage)) = stored.take_if(|(by, _)| *by == known.of(self.day.day)) {
                made.stages += self.write(one, &stage).await?;
                stored = Some((by, stage));
                continue;
            }
            if arrivals.is_none() {
                arrivals = self.arrivals().await?;
            }
            let Some(arrivals) = &arrivals else { return Ok(Made { waiting: 1, ..made }) };
            let heads = arrivals.heads_at(one.at);
            let is_last = number + 1 == due.len();
            if heads.is_empty() && !is_last {
                continue;
            }
            let applied = self.covered(&heads, &known);
            let stage = match before.take().filter(|(last, _)| *last == applied) {
                Some((_, stage)) => stage,
                None => match self.computed(&applied, &known.of(self.day.day)).await? {
                    Ok(stage) => stage,
                    Err(_) => return Ok(Made { waiting: 1, ..made }),
                },
            };
            made.stages += self.write(one, &stage).await?;
            before = Some((applied, stage));
        }
        Ok(made)
    }

    async fn write(&self, due: &Due, stage: &Stage) -> Result<u64> {
        let WorkspaceDay { workspace, day } = self.day;
        staged::write(self.table, self.turn, (workspace, *day, due.age.hours), stage).await.map(u64::from)
    }

    fn covered(&self, heads: &Heads, known: &Definitions) -> Applied {
        let heads = heads.iter().map(|(log, seq)| (log.name(), *seq)).collect::<Applied>();
        if heads.is_empty() { heads } else { known.cover(self.day.day, heads) }
    }

    /// The stored evaluation as a stage, with the definitions by which it judges, if it is of all that there is and nothing has
    /// come since the first instant.
    async fn stored(
        &self,
        logs: &[LogHead],
        due: &[Due],
    ) -> Result<Option<(BTreeMap<String, Definition>, Stage)>> {
        let Some(first) = due.first() else { return Ok(None) };
        let at = At { workspace: &self.day.workspace, version: self.version, day: self.day.day };
        let head = evaluated::head(self.table, at).await?;
        for LogHead { log, seq } in logs {
            if head.applied.get(&log.name()) != Some(seq) {
                return Ok(None);
            }
            let last = match scan::last_of(self.table, log).await {
                Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(None),
                last => last?,
            };
            // Where segments were placed by batches, their times may fall within a log.
            let is_before = |last: &log::segment_item::Segment| {
                last.placed == event::lane::Placed::ByKey && last.appended_at <= first.at
            };
            if !last.as_ref().is_some_and(is_before) {
                return Ok(None);
            }
        }
        let found = evaluated::load_plain(self.table, at).await?;
        let Some((_, states)) = found.filter(|(found, _)| *found == head) else { return Ok(None) };
        let by = self.definitions.covered(&head.applied).of(self.day.day);
        let left_out = self.left_out(&head.applied);
        Ok(Some((by, Stage { applied: head.applied, rows: head.rows, left_out, states })))
    }

    fn left_out(&self, applied: &Applied) -> Skipped {
        let is_of = |(log, seq): &&(String, u64)| applied.get(log).is_some_and(|last| seq <= last);
        self.skipped.iter().filter(is_of).cloned().collect()
    }

    /// When the segments of the day were appended; `None`, when one is missing.
    async fn arrivals(&self) -> Result<Option<Arrivals>> {
        arrivals(self.table, self.day, &self.skipped).await
    }

    async fn computed(
        &self,
        applied: &Applied,
        by: &BTreeMap<String, Definition>,
    ) -> Result<Result<Stage, Stopped>> {
        let left_out = self.left_out(applied);
        let folded = fold_of(self.table, self.day, applied, by, &left_out).await?;
        let most = evaluated::state_bytes(self.table.item_bytes());
        Ok(folded.map(|(evaluation, rows)| Stage {
            applied: applied.clone(),
            rows: Some(rows),
            left_out,
            states: evaluation.to_states(most),
        }))
    }
}

/// When the segments of a day's predictions and outcomes were appended; `None`, when one is missing.
pub(crate) async fn arrivals(
    table: &dyn Table,
    day: &WorkspaceDay,
    skipped: &Skipped,
) -> Result<Option<Arrivals>> {
    let (mut arrivals, left_out) = (Arrivals::default(), segments_of(day, skipped));
    for kind in [Kind::Predictions, Kind::Outcomes] {
        let mut walk = Walk::new(&day.workspace, day.day, kind, Until::Now, left_out.clone());
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

/// The evaluation of a prefix of a day without its splits, and how many rows were joined; or which segment cannot be read.
pub(crate) async fn fold_of(
    table: &dyn Table,
    day: &WorkspaceDay,
    applied: &Applied,
    by: &BTreeMap<String, Definition>,
    skipped: &Skipped,
) -> Result<Result<(Evaluation, u64), Stopped>> {
    let mut by = by.clone();
    by.values_mut().for_each(|definition| definition.splits.clear());
    let folded = compute_in_partitions(table, day, applied, &by, skipped, ROWS_AT_ONCE).await?;
    Ok(folded.map(|(evaluation, rows)| (Evaluation { splits: Splits::new(), ..evaluation }, rows)))
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
    fn the_days_of_an_interval_are_those_that_had_an_age_in_it() {
        let [midnight, one] = ["2026-06-10T00:00:00Z", "2026-06-10T01:00:00Z"];
        assert_eq!(reached(midnight, one), ["2026-06-09"], "an hour old");
        assert_eq!(reached(one, "2026-06-10T05:59:59Z"), [""; 0]);
        let at_midnight = ["2026-05-10", "2026-05-26", "2026-06-02", "2026-06-06", "2026-06-08"];
        assert_eq!(reached("2026-06-09T23:59:59Z", midnight), at_midnight);
        assert_eq!(reached(midnight, midnight), [""; 0]);
        // After a long pause it is looked back for so many days alone.
        let first = reached("2020-01-01T00:00:00Z", one).remove(0);
        assert_eq!(first, "2026-01-31");
    }
}
