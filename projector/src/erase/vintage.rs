//! Evaluations and rollups at ages of their days, made again without what was erased: of the same events, by the same definitions.

use std::collections::BTreeSet;

use catalog::Definitions;
use event::{Day, Error, Id, Kind, Result};
use log::{
    active,
    erased::Turn,
    evaluated, expired, key,
    rollup_vintage::{self, RollupVintage},
    scan,
    segment_item::ERASED,
    vintage::{self, Vintage},
};
use table::{Query, Table, query_all};

use crate::{
    WorkspaceDay,
    dlq::{self, Refused, Skipped, within},
    evaluate::SKIPPED,
    vintages::{JUDGED, fold_of, folded},
};

/// Makes the evaluations of all days again that have events of erased keys, unless their events are gone.
///
/// # Errors
/// `Corrupt`, when one cannot be made again, since a segment cannot be read; those of the table. It may be called again.
pub(super) async fn evaluations_again(table: &dyn Table, workspace: &Id) -> Result<()> {
    // Before any event is read.
    let turn = Turn::load(table, workspace).await?;
    let definitions = Definitions::load(table, workspace).await?;
    let version = active::load(table, workspace).await?.version;
    for day in erased_days(table, workspace, JUDGED).await? {
        let Some(vintages) = vintage::between(table, workspace, day, day).await?.remove(&day) else {
            continue;
        };
        let day = WorkspaceDay { workspace: workspace.clone(), day };
        let skipped = dlq::skipped(table, version, &day, SKIPPED).await?;
        for (hours, vintage) in vintages {
            let made = made(table, &day, (&vintage, &definitions), &skipped).await?;
            if made != vintage {
                // When it is refused, its day has expired meanwhile, or somebody else has done all this.
                vintage::write_again(table, turn, (workspace, day.day, hours), &made).await?;
            }
        }
    }
    Ok(())
}

/// Makes the rollups of all days again that have events of erased keys, unless their events are gone: tags and features went with the keys.
///
/// # Errors
/// As [`evaluations_again`].
pub(super) async fn rollups_again(table: &dyn Table, workspace: &Id) -> Result<()> {
    // Before any event is read.
    let turn = Turn::load(table, workspace).await?;
    let version = active::load(table, workspace).await?.version;
    for day in erased_days(table, workspace, &Kind::STORED).await? {
        let Some(mut vintages) = rollup_vintage::between(table, workspace, day, day).await?.remove(&day)
        else {
            continue;
        };
        let day = WorkspaceDay { workspace: workspace.clone(), day };
        let skipped = dlq::skipped(table, version, &day, Refused::ALL).await?;
        // As it was, and as it is made again.
        let mut before: Option<(RollupVintage, RollupVintage)> = None;
        for vintage in vintages.values_mut() {
            let made = match before.take() {
                Some((was, made)) if was.is_of_same(vintage) => made,
                _ => rolled_up(table, version, &day, (vintage, &skipped)).await?,
            };
            before = Some((std::mem::replace(vintage, made.clone()), made));
        }
        // When it is refused, its day has expired meanwhile, or somebody else has done all this.
        rollup_vintage::write_again(table, turn, (workspace, day.day), &vintages).await?;
    }
    Ok(())
}

/// A rollup of the events as they are now. What an operator has skipped since, because it cannot be read, it says that it leaves out.
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

/// The days that have events of erased keys, and that have their events.
async fn erased_days(table: &dyn Table, workspace: &Id, kinds: &[Kind]) -> Result<BTreeSet<Day>> {
    let heads = scan::heads(table, workspace).await?.into_iter().map(|head| head.log);
    let mut days: BTreeSet<Day> = heads.filter(|log| kinds.contains(&log.kind)).map(|log| log.day).collect();
    for day in days.clone() {
        if !has_erased(table, workspace, day, kinds).await?
            || expired::load(table, workspace, day).await?.is_some()
        {
            days.remove(&day);
        }
    }
    Ok(days)
}

/// Whether events of a day have keys that were erased.
async fn has_erased(table: &dyn Table, workspace: &Id, day: Day, kinds: &[Kind]) -> Result<bool> {
    for kind in kinds {
        let segments = Query::table(key::segments_of_kind(workspace, day, *kind)).only(&["v", ERASED]);
        let segments = query_all(table, segments).await?;
        if segments.iter().any(|item| item.attributes.contains_key(ERASED)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A vintage of the events as they are now. What an operator has skipped since, because it cannot be read, it says that it leaves out.
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
