//! Maintains the breakdown of a day by feature, with a head of its own that holds what it covers.
//!
//! It is folded after the rollup and less often, for with a hundred features it is larger than all else of a day. The rollup puts
//! an empty head, before it and its parts count the first segment with features: so a day has a head if and only if it has
//! features, and a sweep finds a head that lacks segments of the rollup.

use event::{Error, ErrorKind, Kind, Result};
use fold::{Rollup, rollup::Folding};
use log::{
    expired, key,
    projection::{Applied, Projected},
    scan,
};
use table::{Policy, Table, unless_overtaken};

use crate::{
    WorkspaceDay,
    day::DayFold,
    dead_letters::{self, LeftOut, Refused, Stopped},
    evaluate::{Effort, covers},
    events::Events,
    project::fold_from,
};

/// Part of the logs covered by a rollup that has features: predictions.
pub(crate) fn wanted(rollup: &Applied) -> Applied {
    let is_prediction = |log: &str| log.split('/').next() == Some(Kind::Predictions.letter());
    rollup.iter().filter(|(log, _)| is_prediction(log)).map(|(log, seq)| (log.clone(), *seq)).collect()
}

/// Returns whether a day has features.
pub(crate) async fn is_begun(table: &dyn Table, version: u32, day: &WorkspaceDay) -> Result<bool> {
    Ok(table.get(&key::features(&day.workspace, version, day.day)).await?.is_some())
}

/// Records that a day has features.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn begin(table: &dyn Table, version: u32, day: &WorkspaceDay) -> Result<()> {
    if is_begun(table, version, day).await? {
        return Ok(());
    }
    let key = key::features(&day.workspace, version, day.day);
    let (item, _) = Projected::empty().replace(key, &Applied::new(), Rollup::default().to_state());
    match table.put(item, table::Condition::Absent).await {
        Err(error) if error.is_conflict() => Ok(()),
        other => other,
    }
}

/// Reads the head of the features of a day, with the predictions that it counts; `None` when it has none.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub(crate) async fn head(
    table: &dyn Table,
    version: u32,
    day: &WorkspaceDay,
) -> Result<Option<(Projected, Rollup)>> {
    let Some(item) = table.get(&key::features(&day.workspace, version, day.day)).await? else {
        return Ok(None);
    };
    let stored = Projected::from_item(&item)?;
    let rollup = Rollup::from_state(&stored.state).map_err(|error| item.corrupt(error))?;
    Ok(Some((stored, rollup)))
}

/// Folds the breakdown by feature of a day up to the coverage of its rollup, without the segments that an operator skipped. A
/// segment whose features cannot be read stops its own log only, and is reported.
///
/// # Errors
/// Errors of the table, `Incomplete` when segments are lost, and `Corrupt` for a breakdown that cannot be read.
pub async fn sketch(table: &dyn Table, version: u32, day: &WorkspaceDay, rollup: &Applied) -> Result<Effort> {
    let wanted = wanted(rollup);
    let is_gone = async || Ok::<_, Error>(expired::load(table, &day.workspace, day.day).await?.is_some());
    let key = key::features(&day.workspace, version, day.day);
    let mut effort = Effort::default();
    let mut tries = Policy::of(&key).tries();
    loop {
        tries.next().await?;
        effort.retries = tries.retries();
        let Some((stored, counted)) = head(table, version, day).await? else { return Ok(effort) };
        // Expired events cannot be folded again: the stored features stay.
        if covers(&stored.applied, &wanted) || is_gone().await? {
            return Ok(effort);
        }
        let left_out = LeftOut::of(table, version, day, Folding::Features).await?;
        let mut fold = DayFold::stored(table, version, day, (Folding::Features, counted));
        let applied = match fold_up_to(table, day, (&stored.applied, &wanted), &left_out, &mut fold).await {
            Ok((applied, stopped)) => {
                effort.stopped = stopped;
                applied
            }
            Err(error) if error.kind() == ErrorKind::Incomplete && is_gone().await? => return Ok(effort),
            Err(error) => return Err(error),
        };
        if applied == stored.applied {
            return Ok(effort);
        }
        let written = async {
            fold.write_parts().await?;
            let (item, condition) = stored.replace(key.clone(), &applied, fold.rollup.to_state());
            table.put(item, condition).await
        };
        if unless_overtaken(written.await)?.is_some() {
            dead_letters::clear(table, version, day, Refused::Features, &applied).await?;
            return Ok(effort);
        }
    }
}

/// Folds the segments between two prefixes of a day; returns the prefix that it reached, and the segments that stopped it.
///
/// # Errors
/// Errors of the table, and `Incomplete` when a log ends before `to`.
pub(crate) async fn fold_up_to(
    table: &dyn Table,
    day: &WorkspaceDay,
    (from, to): (&Applied, &Applied),
    left_out: &LeftOut,
    fold: &mut DayFold<'_>,
) -> Result<(Applied, Vec<Stopped>)> {
    let (mut applied, mut all_stopped) = (from.clone(), Vec::new());
    for (name, last) in to {
        let Some(log) = scan::log_named(&day.workspace, day.day, name) else { continue };
        let before = from.get(name).copied().unwrap_or(0);
        if before >= *last {
            continue;
        }
        let (folded, stopped) =
            fold_from(&Events::stored(table), &log, before, *last, left_out, fold).await?;
        if stopped.is_none() && folded < *last {
            let message = format!("{log} ends at {folded}, and is to be folded up to {last}");
            return Err(Error::new(ErrorKind::Incomplete, message));
        }
        if folded > before {
            applied.insert(name.clone(), folded);
        }
        all_stopped.extend(stopped);
    }
    Ok((applied, all_stopped))
}
