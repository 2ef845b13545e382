//! Sweep: compares the logs with the projections, and finds unannounced segments.

use std::collections::{BTreeMap, BTreeSet};

use catalog::Definitions;
use event::{Day, Id, Result};
use log::{
    active, expired,
    key::{self, LogId, Projection},
    projection::{Applied, COVERAGE, Projected},
    scan,
};
use table::{KeyRange, Query, Table, query_all};

use crate::{
    WorkspaceDay,
    evaluate::{covers, wanted},
    features,
};

/// Segments and days behind in a workspace.
#[derive(Debug, Default)]
pub struct Behind {
    /// Number of days that are projected at all.
    pub days: usize,
    /// Logs that are longer than their folded part, each with its first unfolded segment.
    pub logs: BTreeMap<LogId, u64>,
    /// Number of unfolded segments.
    pub segments: u64,
    /// Days whose evaluation covers less than their rollup, or not the definitions that concern it.
    pub evaluations: BTreeSet<WorkspaceDay>,
    /// Days whose breakdown by feature covers less than their rollup. It may be a minute behind.
    pub features: BTreeSet<WorkspaceDay>,
}

/// Finds everything that is behind in a workspace, in the active version of its projections: on all days.
///
/// It reads one key for each log, the coverage of the rollups and evaluations a page at a time, the active version, and the
/// definitions. It skips from log to log, so it finds unannounced lanes.
///
/// # Errors
/// Errors of the table.
pub async fn sweep(table: &dyn Table, workspace: &Id) -> Result<Behind> {
    sweep_version(table, active::load(table, workspace).await?.version, workspace).await
}

/// Finds everything that is behind in one version of a workspace's projections.
///
/// # Errors
/// Errors of the table.
pub async fn sweep_version(table: &dyn Table, version: u32, workspace: &Id) -> Result<Behind> {
    let mut comparison = Comparison::new(table, workspace);
    comparison.compare(key::segments(workspace), key::all_projections(workspace, version)).await?;
    Ok(comparison.behind)
}

/// Finds everything that is behind on the days from `first` on, and on some days before it. If nothing was appended on these,
/// that is one read.
///
/// # Errors
/// Errors of the table.
pub async fn sweep_days(
    table: &dyn Table,
    version: u32,
    workspace: &Id,
    first: Day,
    older: &BTreeSet<Day>,
) -> Result<Behind> {
    let mut comparison = Comparison::new(table, workspace);
    let segments = key::segments_since(workspace, first);
    if scan::first_within(table, segments.clone()).await?.is_some() {
        comparison.compare(segments, key::projections_since(workspace, version, first)).await?;
    }
    for day in older.range(..first) {
        let projections = key::projections(workspace, version, *day, *day);
        comparison.compare(key::segments_of_day(workspace, *day), projections).await?;
    }
    Ok(comparison.behind)
}

/// Comparison of a workspace.
struct Comparison<'a> {
    table: &'a dyn Table,
    workspace: &'a Id,
    /// Definitions, read when they are first needed.
    definitions: Option<Definitions>,
    behind: Behind,
}

impl<'a> Comparison<'a> {
    fn new(table: &'a dyn Table, workspace: &'a Id) -> Self {
        Self { table, workspace, definitions: None, behind: Behind::default() }
    }

    /// Compares a range of the logs with a range of the projections.
    async fn compare(&mut self, segments: KeyRange, projections: KeyRange) -> Result<()> {
        let covered = applied_within(self.table, projections).await?;
        let rollups = &covered.rollups;
        self.behind.days += rollups.len();
        let end = segments.to.clone();
        let mut rest = segments;
        // For each log it reads right behind the folded part: the segment there begins the next log, or is not folded.
        while let Some((log, seq)) = scan::first_within(self.table, rest).await? {
            let applied = rollups.get(&log.day);
            let folded = applied.and_then(|applied| applied.get(&log.name())).copied().unwrap_or(0);
            if seq <= folded {
                rest = KeyRange { to: end.clone(), ..key::segments_from(&log, folded + 1) };
                continue;
            }
            rest = KeyRange { to: end.clone(), ..key::segments_after(&log) };
            self.behind.segments += scan::head(self.table, &log).await?.saturating_sub(folded);
            self.behind.logs.insert(log, folded + 1);
        }
        self.compare_steps(&covered).await
    }

    async fn compare_steps(&mut self, covered: &Covered) -> Result<()> {
        let Covered { rollups, evaluations, features } = covered;
        if rollups.is_empty() {
            return Ok(());
        }
        if self.definitions.is_none() {
            self.definitions = Some(Definitions::load(self.table, self.workspace).await?);
        }
        let (mut unevaluated, mut unsketched) = (BTreeSet::new(), BTreeSet::new());
        for (day, applied) in rollups {
            let day = WorkspaceDay { workspace: self.workspace.clone(), day: *day };
            let wanted = self.definitions.as_ref().map(|definitions| wanted(&day, applied, definitions));
            let wanted = wanted.unwrap_or_default();
            let is_covered = evaluations.get(&day.day).is_some_and(|evaluation| covers(evaluation, &wanted));
            if features.get(&day.day).is_some_and(|head| !covers(head, &features::wanted(applied))) {
                unsketched.insert(day.clone());
            }
            if !wanted.is_empty() && !is_covered {
                unevaluated.insert(day);
            }
        }
        let all: BTreeSet<Day> = unevaluated.iter().chain(&unsketched).map(|day| day.day).collect();
        if let (Some(first), Some(last)) = (all.first(), all.last()) {
            // Expired days cannot be read any more.
            let gone = expired::days(self.table, self.workspace, *first, *last).await?;
            for days in [&mut unevaluated, &mut unsketched] {
                days.retain(|day| !gone.contains(&day.day));
            }
        }
        self.behind.evaluations.extend(unevaluated);
        self.behind.features.extend(unsketched);
        Ok(())
    }
}

/// Coverage of the projections of a workspace, by day.
#[derive(Clone, Debug, Default)]
pub(crate) struct Covered {
    pub(crate) rollups: BTreeMap<Day, Applied>,
    pub(crate) evaluations: BTreeMap<Day, Applied>,
    /// Coverage of the breakdowns by feature, for the days that have features.
    pub(crate) features: BTreeMap<Day, Applied>,
}

/// Reads the coverage of the projections of a workspace.
pub(crate) async fn applied(table: &dyn Table, version: u32, workspace: &Id) -> Result<Covered> {
    applied_within(table, key::all_projections(workspace, version)).await
}

/// Reads the coverage of the projections in a range.
async fn applied_within(table: &dyn Table, range: KeyRange) -> Result<Covered> {
    let mut covered = Covered::default();
    let query = Query::table(range).only(COVERAGE);
    for item in query_all(table, query).await? {
        let (day, projection) = key::parse_projection(&item.key)?;
        let of = match projection {
            Projection::Rollup => &mut covered.rollups,
            Projection::Evaluation => &mut covered.evaluations,
            Projection::Features => &mut covered.features,
            // Written before its rollup or its head, and so covers at least as much.
            Projection::Breakdown(_) | Projection::EvaluationPart(..) => continue,
        };
        // An unreadable projection counts as a missing one: folding its day reports the fault.
        if let Ok(applied) = Projected::applied_of(&item) {
            of.insert(day, applied);
        }
    }
    Ok(covered)
}
