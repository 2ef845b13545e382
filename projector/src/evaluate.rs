//! Evaluates a day: joins its predictions with its outcomes and writes how good they were.

use std::collections::BTreeMap;

use fold::{Evaluation, LogSegment, evaluation};
use store::{
    Columns, Error, ErrorKind, Id, Kind, Result, Table,
    catalog::{Catalog, Task},
    key,
    rollup::{Applied, Projected},
    scan,
};

use crate::{MAX_ATTEMPTS, PROJECTION_VERSION, WorkspaceDay};

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
    Ok(catalog.page(workspace).await?.tasks())
}

/// Evaluates a day up to `applied` and stores it, unless what is stored covers it already.
///
/// # Errors
/// Those of the table, and `Corrupt` for a segment that cannot be read.
pub async fn evaluate(table: &dyn Table, day: &WorkspaceDay, applied: &Applied, tasks: &Tasks) -> Result<()> {
    let key = key::evaluation(&day.workspace, PROJECTION_VERSION, day.day);
    let wanted = judged(applied);
    for _ in 0..MAX_ATTEMPTS {
        let stored = match table.get(&key).await? {
            Some(item) => Projected::from_item(&item)?,
            None => Projected::empty(),
        };
        let covered = |(log, seq): (&String, &u64)| stored.applied.get(log).is_some_and(|known| known >= seq);
        if wanted.iter().all(covered) {
            return Ok(());
        }
        let evaluation = compute(table, day, &wanted, tasks).await?;
        let (item, condition) = stored.replace(key.clone(), &wanted, evaluation.to_state());
        match table.put(item, condition).await {
            Err(error) if error.is_conflict() => continue,
            other => return other,
        }
    }
    Err(Error::new(ErrorKind::Throttled, format!("too many projectors write the evaluation of {day}")))
}

/// Evaluates the prefix `applied` of a day's logs.
pub(crate) async fn compute(
    table: &dyn Table,
    day: &WorkspaceDay,
    applied: &Applied,
    tasks: &Tasks,
) -> Result<Evaluation> {
    let (mut predictions, mut outcomes) = (Vec::<(u8, u64, Columns)>::new(), Vec::new());
    for (name, last) in applied {
        let Some(log) = scan::log_named(&day.workspace, day.day, name) else { continue };
        let (into, wanted) = match log.kind {
            Kind::Predictions => (&mut predictions, evaluation::PREDICTION_COLUMNS),
            _ => (&mut outcomes, evaluation::OUTCOME_COLUMNS),
        };
        for segment in scan::segments(table, &log, 1, *last).await? {
            let columns = segment.unpack(|name| wanted.contains(&name))?;
            into.push((log.lane, segment.seq, columns));
        }
    }
    let tasks = tasks.clone();
    let judging = tokio::task::spawn_blocking(move || {
        fold::evaluate(&in_log(&predictions), &in_log(&outcomes), &tasks)
    });
    let judged =
        judging.await.map_err(|error| Error::unavailable("evaluating was interrupted").because(error))?;
    judged.map_err(|error| Error::corrupt(format!("the events of {day} cannot be evaluated: {error}")))
}

fn in_log(segments: &[(u8, u64, Columns)]) -> Vec<LogSegment<'_>> {
    segments.iter().map(|(lane, seq, columns)| LogSegment { lane: *lane, seq: *seq, columns }).collect()
}
