//! Evaluations at ages of their days, made again without values that were erased: of the same events, by the same definitions.

use std::collections::BTreeSet;

use catalog::{Definitions, adopt_definitions};
use event::{Day, Error, Id, Kind, Result};
use log::{
    active,
    erased::Turn,
    evaluated, expired, key, scan,
    segment_item::ERASED,
    staged::{self, Stage},
};
use table::{Query, Table, query_all};

use crate::{
    WorkspaceDay,
    dlq::{self, Skipped},
    evaluate::SKIPPED,
    stages::fold_of,
};

/// What evaluations are made of.
const JUDGED: [Kind; 2] = [Kind::Predictions, Kind::Outcomes];

/// Makes those of all days again that have events of erased keys, unless their events are gone.
///
/// # Errors
/// `Corrupt`, when one cannot be made again, since a segment cannot be read; those of the table. It may be called again.
pub(super) async fn again(table: &dyn Table, workspace: &Id) -> Result<()> {
    // Before any event is read.
    let turn = Turn::load(table, workspace).await?;
    let definitions = adopt_definitions(table, workspace).await?;
    let version = active::load(table, workspace).await?.version;
    let heads = scan::heads(table, workspace).await?.into_iter().map(|head| head.log);
    let days: BTreeSet<Day> = heads.filter(|log| JUDGED.contains(&log.kind)).map(|log| log.day).collect();
    for day in days {
        let Some(stages) = staged::between(table, workspace, day, day).await?.remove(&day) else { continue };
        if !has_erased(table, workspace, day).await? || expired::load(table, workspace, day).await?.is_some()
        {
            continue;
        }
        let day = WorkspaceDay { workspace: workspace.clone(), day };
        let skipped = dlq::skipped(table, version, &day, SKIPPED).await?;
        for (hours, stage) in stages {
            let made = made(table, &day, (&stage, &definitions), &skipped).await?;
            if made != stage {
                // When it is refused, its day has expired meanwhile, or somebody else has done all this.
                staged::write_again(table, turn, (workspace, day.day, hours), &made).await?;
            }
        }
    }
    Ok(())
}

/// Whether events of a day have keys that were erased.
async fn has_erased(table: &dyn Table, workspace: &Id, day: Day) -> Result<bool> {
    for kind in JUDGED {
        let segments = Query::table(key::segments_of_kind(workspace, day, kind)).only(&["v", ERASED]);
        let segments = query_all(table, segments).await?;
        if segments.iter().any(|item| item.attributes.contains_key(ERASED)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A stage of the events as they are now. What an operator has skipped since, because it cannot be read, it says that it leaves out.
async fn made(
    table: &dyn Table,
    day: &WorkspaceDay,
    (stage, definitions): (&Stage, &Definitions),
    skipped: &Skipped,
) -> Result<Stage> {
    let by = definitions.covered(&stage.applied).of(day.day);
    let is_of = |(log, seq): &&(String, u64)| stage.applied.get(log).is_some_and(|last| seq <= last);
    let since: Skipped = skipped.iter().filter(is_of).cloned().collect();
    let mut left_out = stage.left_out.clone();
    loop {
        match fold_of(table, day, &stage.applied, &by, &left_out).await? {
            Ok((evaluation, rows)) => {
                let states = evaluation.to_states(evaluated::state_bytes(table.item_bytes()));
                return Ok(Stage { applied: stage.applied.clone(), rows: Some(rows), left_out, states });
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
