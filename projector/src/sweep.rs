//! The sweep: compares the logs with what was folded, and finds what no change told of.

use std::collections::{BTreeMap, BTreeSet};

use store::{
    Day, Id, Kind, Result, Table,
    key::{self, LogId, Projection},
    rollup::{Applied, COVERAGE, Projected},
    scan,
    table::{Query, query_all},
};

use crate::{PROJECTION_VERSION, WorkspaceDay, evaluate::judged};

/// What is behind in a workspace.
#[derive(Debug, Default)]
pub struct Behind {
    /// How many days are projected at all.
    pub days: usize,
    /// Logs that are longer than what is folded of them.
    pub logs: BTreeSet<LogId>,
    /// Days whose evaluation covers less than their rollup.
    pub evaluations: BTreeSet<WorkspaceDay>,
}

/// Finds what is behind in a workspace.
///
/// # Errors
/// Those of the table.
pub async fn sweep(table: &dyn Table, workspace: &Id) -> Result<Behind> {
    let (rollups, evaluations) = applied(table, workspace).await?;
    let mut behind = Behind { days: rollups.len(), ..Behind::default() };
    for head in scan::heads(table, workspace).await? {
        let folded = rollups.get(&head.log.day).and_then(|applied| applied.get(&head.log.name()));
        if folded.copied().unwrap_or(0) < head.seq {
            behind.logs.insert(head.log);
        }
    }
    for (day, applied) in &rollups {
        let wanted = judged(applied);
        let has_predictions = wanted.keys().any(|log| log.starts_with(Kind::Predictions.letter()));
        if has_predictions && evaluations.get(day) != Some(&wanted) {
            behind.evaluations.insert(WorkspaceDay { workspace: workspace.clone(), day: *day });
        }
    }
    Ok(behind)
}

/// What the rollups and the evaluations of a workspace cover, by day.
pub(crate) async fn applied(
    table: &dyn Table,
    workspace: &Id,
) -> Result<(BTreeMap<Day, Applied>, BTreeMap<Day, Applied>)> {
    let (mut rollups, mut evaluations) = (BTreeMap::new(), BTreeMap::new());
    let query = Query::table(key::all_projections(workspace, PROJECTION_VERSION)).only(COVERAGE);
    for item in query_all(table, query).await? {
        // One that cannot be read is as one that is not there: folding its day says what is wrong.
        let Ok(applied) = Projected::applied_of(&item) else { continue };
        match key::parse_projection(&item.key)? {
            (day, Projection::Rollup) => rollups.insert(day, applied),
            (day, Projection::Evaluation) => evaluations.insert(day, applied),
            // Written before its rollup: what the rollup covers, it does as well.
            (_, Projection::Breakdown(_)) => None,
        };
    }
    Ok((rollups, evaluations))
}
