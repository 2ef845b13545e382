//! Makes evaluations and rollups at ages again after an erasure: from the same events without the erased values, by the
//! same definitions.

use std::collections::BTreeSet;

use catalog::Definitions;
use event::{Day, Error, Id, Result};
use log::{
    active,
    erased::ErasureEpoch,
    evaluated, expired,
    rollup_vintage::{self, RollupVintage},
    vintage::{self, Vintage},
};
use table::Table;

use crate::{
    WorkspaceDay,
    dead_letters::{self, Refused, Skipped, within},
    evaluate::SKIPPED,
    vintages::{fold_of, folded},
};

/// Makes the evaluations at ages of some days again, unless their events are gone.
///
/// # Errors
/// `Corrupt`, when one cannot be made again because a segment is unreadable; errors of the table. It may be called
/// again.
pub(super) async fn evaluations_again(table: &dyn Table, workspace: &Id, days: &BTreeSet<Day>) -> Result<()> {
    // Before any event is read.
    let epoch = ErasureEpoch::load(table, workspace).await?;
    let definitions = Definitions::load(table, workspace).await?;
    let version = active::load(table, workspace).await?.version;
    for day in days {
        if expired::load(table, workspace, *day).await?.is_some() {
            continue;
        }
        let Some(vintages) = vintage::between(table, workspace, *day, *day).await?.remove(day) else {
            continue;
        };
        let day = WorkspaceDay { workspace: workspace.clone(), day: *day };
        let skipped = dead_letters::skipped(table, version, &day, SKIPPED).await?;
        for (hours, vintage) in vintages {
            let made = made(table, &day, (&vintage, &definitions), &skipped).await?;
            if made != vintage {
                // A refused write means that the day has expired meanwhile, or that another process has done this.
                vintage::write_again(table, epoch, (workspace, day.day, hours), &made).await?;
            }
        }
    }
    Ok(())
}

/// Makes the rollups at ages of some days again, unless their events are gone: tags and features were erased with the
/// keys.
///
/// # Errors
/// As [`evaluations_again`].
pub(super) async fn rollups_again(table: &dyn Table, workspace: &Id, days: &BTreeSet<Day>) -> Result<()> {
    // Before any event is read.
    let epoch = ErasureEpoch::load(table, workspace).await?;
    let version = active::load(table, workspace).await?.version;
    for day in days {
        if expired::load(table, workspace, *day).await?.is_some() {
            continue;
        }
        let Some(mut vintages) = rollup_vintage::between(table, workspace, *day, *day).await?.remove(day)
        else {
            continue;
        };
        let day = WorkspaceDay { workspace: workspace.clone(), day: *day };
        let skipped = dead_letters::skipped(table, version, &day, Refused::ALL).await?;
        // The rollup before the erasure, and the one made again.
        let mut before: Option<(RollupVintage, RollupVintage)> = None;
        for vintage in vintages.values_mut() {
            let made = match before.take() {
                Some((was, made)) if was.is_of_same(vintage) => made,
                _ => rolled_up(table, version, &day, (vintage, &skipped)).await?,
            };
            before = Some((std::mem::replace(vintage, made.clone()), made));
        }
        // A refused write means that the day has expired meanwhile, or that another process has done this.
        rollup_vintage::write_again(table, epoch, (workspace, day.day), &vintages).await?;
    }
    Ok(())
}

/// Folds a rollup of the present events. It lists unreadable segments that an operator has skipped since as left out.
async fn rolled_up(
    table: &dyn Table,
    version: u32,
    day: &WorkspaceDay,
    (vintage, skipped): (&RollupVintage, &Skipped),
) -> Result<RollupVintage> {
    let mut left_out = vintage.left_out.clone();
    loop {
        match folded(table, version, day, (&vintage.applied, &left_out)).await? {
            Ok(made) => return Ok(made),
            Err(stopped) if skipped.contains(&(stopped.log.name(), stopped.seq)) => {
                left_out.insert((stopped.log.name(), stopped.seq));
            }
            Err(stopped) => {
                return Err(Error::corrupt(format!(
                    "the rollup of {} at an age cannot be made again without erased keys: {}",
                    day.day, stopped.reason
                )));
            }
        }
    }
}

/// Makes a vintage of the present events. It lists unreadable segments that an operator has skipped since as left out.
async fn made(
    table: &dyn Table,
    day: &WorkspaceDay,
    (vintage, definitions): (&Vintage, &Definitions),
    skipped: &Skipped,
) -> Result<Vintage> {
    let by = definitions.covered(&vintage.applied).of(day.day);
    let since = within(skipped, &vintage.applied);
    let mut left_out = vintage.left_out.clone();
    loop {
        match fold_of(table, day, &vintage.applied, &by, &left_out).await? {
            Ok((evaluation, rows)) => {
                let states = evaluation.to_states(evaluated::state_bytes(table.item_bytes()));
                return Ok(Vintage { applied: vintage.applied.clone(), rows: Some(rows), left_out, states });
            }
            Err(_) if !since.is_subset(&left_out) => left_out.extend(since.iter().cloned()),
            Err(stopped) => {
                return Err(Error::corrupt(format!(
                    "the evaluation of {} at an age cannot be made again without erased values: {}",
                    day.day, stopped.reason
                )));
            }
        }
    }
}
