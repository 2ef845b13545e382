//! The sweep: compares the logs with what was folded, and finds what no change told of.

use std::collections::{BTreeMap, BTreeSet};

use store::{
    Day, Id, Result, Table, active,
    catalog::Definitions,
    expired,
    key::{self, LogId, Projection},
    rollup::{Applied, COVERAGE, Projected},
    scan,
    table::{Query, query_all},
};

use crate::{
    WorkspaceDay,
    evaluate::{covers, wanted},
};

/// What is behind in a workspace.
#[derive(Debug, Default)]
pub struct Behind {
    /// How many days are projected at all.
    pub days: usize,
    /// Logs that are longer than what is folded of them, and the first segment that is not folded.
    pub logs: BTreeMap<LogId, u64>,
    /// How many segments are not folded.
    pub segments: u64,
    /// Days whose evaluation covers less than their rollup, or not the definitions that concern it.
    pub evaluations: BTreeSet<WorkspaceDay>,
}

/// Finds what is behind in a workspace, in the version of its projections that is read.
///
/// It reads two keys for each log, a page at a time what the rollups and evaluations cover, and
/// which version is active; and the definitions. It skips from log to log, so it finds lanes that nobody told of.
///
/// # Errors
/// Those of the table.
pub async fn sweep(table: &dyn Table, workspace: &Id) -> Result<Behind> {
    sweep_version(table, active::load(table, workspace).await?.version, workspace).await
}

/// Finds what is behind in one version of a workspace's projections.
///
/// # Errors
/// Those of the table.
pub async fn sweep_version(table: &dyn Table, version: u32, workspace: &Id) -> Result<Behind> {
    let (rollups, evaluations) = applied(table, version, workspace).await?;
    let mut behind = Behind { days: rollups.len(), ..Behind::default() };
    for head in scan::heads(table, workspace).await? {
        let folded = rollups.get(&head.log.day).and_then(|applied| applied.get(&head.log.name()));
        let folded = folded.copied().unwrap_or(0);
        if folded < head.seq {
            behind.segments += head.seq - folded;
            behind.logs.insert(head.log, folded + 1);
        }
    }
    let definitions = Definitions::load(table, workspace).await?;
    for (day, applied) in &rollups {
        let day = WorkspaceDay { workspace: workspace.clone(), day: *day };
        let wanted = wanted(&day, applied, &definitions);
        let is_covered = evaluations.get(&day.day).is_some_and(|evaluation| covers(evaluation, &wanted));
        if !wanted.is_empty() && !is_covered {
            behind.evaluations.insert(day);
        }
    }
    if let (Some(first), Some(last)) = (behind.evaluations.first(), behind.evaluations.last()) {
        // What has expired cannot be evaluated any more.
        let gone = expired::days(table, workspace, first.day, last.day).await?;
        behind.evaluations.retain(|day| !gone.contains(&day.day));
    }
    Ok(behind)
}

/// What the rollups and the evaluations of a workspace cover, by day.
pub(crate) async fn applied(
    table: &dyn Table,
    version: u32,
    workspace: &Id,
) -> Result<(BTreeMap<Day, Applied>, BTreeMap<Day, Applied>)> {
    let (mut rollups, mut evaluations) = (BTreeMap::new(), BTreeMap::new());
    let query = Query::table(key::all_projections(workspace, version)).only(COVERAGE);
    for item in query_all(table, query).await? {
        let (day, projection) = key::parse_projection(&item.key)?;
        let of = match projection {
            Projection::Rollup => &mut rollups,
            Projection::Evaluation => &mut evaluations,
            // Written before its rollup or its head: what those cover, it does as well.
            Projection::Breakdown(_) | Projection::EvaluationPart(..) => continue,
        };
        // One that cannot be read is as one that is not there: folding its day says what is wrong.
        if let Ok(applied) = Projected::applied_of(&item) {
            of.insert(day, applied);
        }
    }
    Ok((rollups, evaluations))
}
