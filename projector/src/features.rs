//! Keeps where the features of a day lie: the breakdown by feature, with a head of its own that says what it covers.
//!
//! It is folded after the rollup and less often, for with a hundred features it is larger than all else of a day. The
//! rollup puts an empty head, before it moves past the first segment with features: so a day has a head if and
//! only if it has features, and whatever the head lacks of what the rollup covers is found by a sweep.

use event::{Error, Kind, Result};
use fold::{Rollup, rollup::Folding};
use log::{
    expired,
    key::{self},
    projection::{Applied, Projected},
    scan,
};
use table::{Policy, Table, unless_overtaken};

use crate::{
    WorkspaceDay,
    day::DayFold,
    dlq::{self, Refused},
    evaluate::covers,
    project::fold_from,
};

/// The part of what a rollup covers that features come from: predictions.
pub(crate) fn wanted(rollup: &Applied) -> Applied {
    let is_prediction = |log: &str| log.split('/').next() == Some(Kind::Predictions.letter());
    rollup.iter().filter(|(log, _)| is_prediction(log)).map(|(log, seq)| (log.clone(), *seq)).collect()
}

/// Whether a day has features.
pub(crate) async fn is_begun(table: &dyn Table, version: u32, day: &WorkspaceDay) -> Result<bool> {
    Ok(table.get(&key::features(&day.workspace, version, day.day)).await?.is_some())
}

/// Notes that a day has features.
///
/// # Errors
/// Those of the table.
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

/// The head of what is known of the features of a day, with the predictions that it counts; `None` when it has none.
///
/// # Errors
/// Those of the table, and `Corrupt`.
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

/// Brings the breakdown by feature of a day up to what its rollup covers; returns how often somebody else wrote in
/// between. It leaves out what an operator had the rollup leave out.
///
/// # Errors
/// Those of the table, `Incomplete` when segments are lost, and `Corrupt` for those that cannot be read.
pub async fn sketch(table: &dyn Table, version: u32, day: &WorkspaceDay, rollup: &Applied) -> Result<u64> {
    let wanted = wanted(rollup);
    let is_gone = async || Ok::<_, Error>(expired::load(table, &day.workspace, day.day).await?.is_some());
    let key = key::features(&day.workspace, version, day.day);
    let mut tries = Policy::of(&key).tries();
    loop {
        tries.next().await?;
        let Some((stored, counted)) = head(table, version, day).await? else { break };
        // What is gone cannot be folded again: what is stored of it stays.
        if covers(&stored.applied, &wanted) || is_gone().await? {
            break;
        }
        let skipped = dlq::skipped(table, version, day, &[Refused::Rollup]).await?;
        let mut fold = DayFold::stored(table, version, day, (Folding::Features, counted));
        let mut applied = stored.applied.clone();
        for (name, last) in &wanted {
            let Some(log) = scan::log_named(&day.workspace, day.day, name) else { continue };
            let before = stored.applied.get(name).copied().unwrap_or(0);
            if before >= *last {
                continue;
            }
            match fold_from(table, &log, before, *last, &skipped, &mut fold).await? {
                (_, Some(stopped)) => {
                    let (seq, reason) = (stopped.seq, stopped.reason);
                    return Err(Error::corrupt(format!("{log}: segment {seq} cannot be read: {reason}")));
                }
                (folded, None) if folded < *last => {
                    if is_gone().await? {
                        return Ok(tries.retries());
                    }
                    let message = format!("{log} ends at {folded}, the rollup covers it up to {last}");
                    return Err(Error::new(event::ErrorKind::Incomplete, message));
                }
                (folded, None) => applied.insert(name.clone(), folded),
            };
        }
        let written = async {
            fold.write_parts().await?;
            let (item, condition) = stored.replace(key.clone(), &applied, fold.rollup.to_state());
            table.put(item, condition).await
        };
        if unless_overtaken(written.await)?.is_some() {
            break;
        }
    }
    Ok(tries.retries())
}
