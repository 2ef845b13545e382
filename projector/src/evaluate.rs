//! Evaluates a day: joins its predictions with its outcomes and writes how good they were.

use std::collections::BTreeMap;

use fold::{Evaluation, LogSegment, evaluation};
use store::{
    Columns, Error, ErrorKind, Id, Kind, Result, Table,
    catalog::{Catalog, Task},
    expired, key,
    rollup::{Applied, Projected},
    scan,
};

use crate::{
    MAX_ATTEMPTS, WorkspaceDay, dlq,
    project::{Skipped, Stopped},
};

/// Days with fewer events are evaluated at once, without a thread of their own.
const SMALL_ROWS: usize = 10_000;

/// Segments that are held packed at a time: of a large day they would take as much memory as unpacked.
const SEGMENTS_AT_ONCE: u64 = 128;

/// The task of each release, by its name.
pub type Tasks = BTreeMap<String, Task>;

/// The part of what a rollup covers that an evaluation depends on: predictions and outcomes.
pub(crate) fn judged(applied: &Applied) -> Applied {
    let judged = |log: &str| {
        [Kind::Predictions, Kind::Outcomes].iter().any(|kind| log.split('/').next() == Some(kind.letter()))
    };
    applied.iter().filter(|(log, _)| judged(log)).map(|(log, seq)| (log.clone(), *seq)).collect()
}

/// The tasks of all releases of a workspace.
///
/// # Errors
/// Those of the table.
pub async fn tasks(catalog: &Catalog, workspace: &Id) -> Result<Tasks> {
    match catalog.page(workspace).await {
        // It was deleted; its events stay, but nothing says any more how to judge them.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Tasks::new()),
        page => Ok(page?.tasks()),
    }
}

/// What evaluating a day took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Rows that were joined.
    pub rows: u64,
    /// How often somebody else wrote in between.
    pub retries: u64,
    /// A segment that cannot be evaluated; then nothing was stored.
    pub stopped: Option<Stopped>,
}

/// Evaluates a day up to `applied` and stores it, unless what is stored covers it already.
///
/// # Errors
/// Those of the table, and `Corrupt`.
pub async fn evaluate(
    table: &dyn Table,
    version: u32,
    day: &WorkspaceDay,
    applied: &Applied,
    tasks: &Tasks,
) -> Result<Effort> {
    let key = key::evaluation(&day.workspace, version, day.day);
    let wanted = judged(applied);
    let mut effort = Effort::default();
    if wanted.is_empty() {
        return Ok(effort);
    }
    for retries in 0..MAX_ATTEMPTS as u64 {
        effort.retries = retries;
        let stored = match table.get(&key).await? {
            Some(item) => Projected::from_item(&item)?,
            None => Projected::empty(),
        };
        let covered = |(log, seq): (&String, &u64)| stored.applied.get(log).is_some_and(|known| known >= seq);
        if wanted.iter().all(covered) {
            return Ok(effort);
        }
        if expired::load(table, &day.workspace, day.day).await?.is_some() {
            // Its events are gone: the evaluation that was made of all of them stays.
            return Ok(effort);
        }
        let skipped = dlq::skipped(table, version, day, dlq::Refused::ALL).await?;
        let (evaluation, rows) = match compute(table, day, &wanted, tasks, &skipped).await? {
            Ok(computed) => computed,
            Err(stopped) => return Ok(Effort { stopped: Some(stopped), ..effort }),
        };
        effort.rows += rows;
        let (item, condition) = stored.replace(key.clone(), &wanted, evaluation.to_state());
        match table.put(item, condition).await {
            Ok(()) => return Ok(effort),
            Err(error) if error.is_conflict() => continue,
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(ErrorKind::Throttled, format!("too many projectors write the evaluation of {day}")))
}

/// Evaluates the prefix `applied` of a day's logs, without the segments that are `skipped`; or says
/// which segment it cannot read. Also says how many rows it joined.
pub(crate) async fn compute(
    table: &dyn Table,
    day: &WorkspaceDay,
    applied: &Applied,
    tasks: &Tasks,
    skipped: &Skipped,
) -> Result<Result<(Evaluation, u64), Stopped>> {
    let (mut predictions, mut outcomes) = (Vec::<(u8, u64, Columns)>::new(), Vec::new());
    for (name, last) in applied {
        let Some(log) = scan::log_named(&day.workspace, day.day, name) else { continue };
        let (into, wanted) = match log.kind {
            Kind::Predictions => (&mut predictions, evaluation::PREDICTION_COLUMNS),
            _ => (&mut outcomes, evaluation::OUTCOME_COLUMNS),
        };
        let is_left_out = |seq| skipped.contains(&(name.clone(), seq));
        let mut next = 1;
        while next <= *last {
            // Around what was skipped, which may be no segment at all.
            let some = (next + SEGMENTS_AT_ONCE - 1).min(*last);
            let left_out = (next..=some).find(|seq| is_left_out(*seq));
            let until = left_out.map_or(some, |seq| seq - 1);
            for segment in scan::segments(table, &log, next, until).await? {
                match segment.unpack(|name| wanted.contains(&name)) {
                    Ok(columns) => into.push((log.lane, segment.seq, columns)),
                    Err(error) => {
                        let stopped =
                            Stopped { log: log.clone(), seq: segment.seq, reason: error.to_string() };
                        return Ok(Err(stopped));
                    }
                }
            }
            next = until + if left_out.is_some() { 2 } else { 1 };
        }
    }
    let rows = |of: &[(u8, u64, Columns)]| of.iter().map(|(_, _, columns)| columns.rows).sum::<usize>();
    let rows = rows(&predictions) + rows(&outcomes);
    let judged = if rows < SMALL_ROWS {
        fold::evaluate(&in_log(&predictions), &in_log(&outcomes), tasks)
    } else {
        let tasks = tasks.clone();
        let judging = tokio::task::spawn_blocking(move || {
            fold::evaluate(&in_log(&predictions), &in_log(&outcomes), &tasks)
        });
        judging.await.map_err(|error| Error::unavailable("evaluating was interrupted").because(error))?
    };
    let judged = judged
        .map_err(|error| Error::corrupt(format!("the events of {day} cannot be evaluated: {error}")))?;
    Ok(Ok((judged, rows as u64)))
}

fn in_log(segments: &[(u8, u64, Columns)]) -> Vec<LogSegment<'_>> {
    segments.iter().map(|(lane, seq, columns)| LogSegment { lane: *lane, seq: *seq, columns }).collect()
}
