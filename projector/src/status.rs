//! Status: lags, and warnings of the last days, read from the table, so that any process can report them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use catalog::{Catalog, Lags};
use event::{Id, Kind, Result, Timestamp};
use log::{
    active,
    compacted::Compacted,
    key::{self, LogId},
    scan,
};
use table::{Condition, Table, unless_overtaken};

use crate::{
    dead_letters::{self, DeadLetter, LetterState},
    heartbeat::{Heartbeat, heartbeats},
    lease::{Lease, SWEEP, leases},
    sweep::{Behind, sweep_days, sweep_version},
    undone, unwritten,
    warnings::{Warnings, warnings},
};

/// Maximum logs that are behind whose age is read; the first in order, if there are more.
const MAX_AGES: usize = 1_000;

/// Age in seconds up to which logs of days are checked for times that are ahead.
const AHEAD_SECONDS: i64 = 7 * 24 * 60 * 60;

/// Status of a workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkspaceStatus {
    /// Path of the workspace.
    pub path: String,
    /// Id of the workspace.
    pub id: Id,
    /// Active version of its projections.
    pub version: u32,
    /// Version that a rebuild is writing.
    pub building: Option<u32>,
    /// Number of segments that are not folded.
    pub lag_segments: u64,
    /// Seconds for which the oldest of them has been in the log.
    pub lag_seconds: f64,
    /// Number of days with such segments.
    pub dirty_days: usize,
    /// Number of days whose evaluation covers less than their rollup.
    pub unevaluated_days: usize,
    /// Number of segments that stop their log or their day's evaluation, or a rebuild.
    pub dead_letters: usize,
    /// Number of projections that cannot be written, and of failed tasks of the workspace.
    pub unwritten: usize,
    /// Number of segments that were left out.
    pub skipped: usize,
    /// Days up to which small segments were merged, and amounts of that.
    pub compacted: Compacted,
    /// Warnings of the evaluations of the last days; `None`, when no day is projected.
    pub warnings: Option<Warnings>,
}

/// Status of everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Workspaces, by age.
    pub workspaces: Vec<WorkspaceStatus>,
    /// Workers that were there in the last hour.
    pub workers: Vec<Heartbeat>,
    /// Leases of the stream.
    pub leases: Vec<Lease>,
    /// Worker that sweeps.
    pub sweeper: Option<String>,
}

/// Reads the status. It costs as much as a sweep, and for each workspace the evaluations of a week.
///
/// # Errors
/// Errors of the table.
pub async fn status(table: &dyn Table, catalog: &Catalog, now: Timestamp) -> Result<Status> {
    let mut status = Status { workers: heartbeats(table).await?, ..Status::default() };
    for workspace in catalog.workspaces().await? {
        status.workspaces.push(workspace_status(table, workspace.id(), &workspace.path, now).await?);
    }
    let streams: BTreeSet<String> =
        table.shards().await?.iter().map(|shard| shard.stream().to_owned()).collect();
    for stream in streams {
        status.leases.extend(leases(table, &stream).await?);
    }
    status.sweeper =
        status.leases.iter().find(|lease| lease.shard == SWEEP).and_then(|one| one.owner.clone());
    status.leases.retain(|lease| lease.shard != SWEEP);
    Ok(status)
}

async fn workspace_status(
    table: &dyn Table,
    workspace: &Id,
    path: &str,
    now: Timestamp,
) -> Result<WorkspaceStatus> {
    let found = active::load(table, workspace).await?;
    let behind = sweep_version(table, found.version, workspace).await?;
    let letters = dead_letters::list_of(table, found, workspace).await?;
    let unwritten = unwritten::list_version(table, found.version, workspace).await?.len()
        + undone::list_version(table, found.version, workspace).await?.len();
    let stopped = letters.iter().filter(|letter| letter.state == LetterState::Stopped).count();
    // Counted in the active version: segments that the next version leaves out are in the present metrics.
    let is_left_out =
        |letter: &&DeadLetter| letter.state == LetterState::Skipped && letter.version == found.version;
    let skipped = letters.iter().filter(is_left_out).count();
    let oldest = ages(table, &behind, now).await?.into_values().max();
    let days: BTreeSet<_> = behind.logs.keys().map(|log| log.day).collect();
    Ok(WorkspaceStatus {
        path: path.to_owned(),
        id: workspace.clone(),
        version: found.version,
        building: found.building,
        lag_segments: behind.segments,
        lag_seconds: oldest.unwrap_or_default().as_secs_f64(),
        dirty_days: days.len(),
        unevaluated_days: behind.evaluations.len(),
        dead_letters: stopped,
        unwritten,
        skipped,
        compacted: Compacted::load(table, workspace).await?,
        warnings: warnings(table, found.version, workspace).await?,
    })
}

/// Reads the time for which the first unfolded segment has been in each log that is behind; for the first thousand logs.
pub(crate) async fn ages(
    table: &dyn Table,
    behind: &Behind,
    now: Timestamp,
) -> Result<BTreeMap<LogId, Duration>> {
    let mut ages = BTreeMap::new();
    for (log, first) in behind.logs.iter().take(MAX_AGES) {
        if let Some(at) = appended_at(table, log, *first).await? {
            let micros = u64::try_from(now.micros() - at).unwrap_or_default();
            ages.insert(log.clone(), Duration::from_micros(micros));
        }
    }
    Ok(ages)
}

/// Finds the log whose last segment has a time of append furthest ahead of `now`, and by how much, among the logs of a workspace
/// of the last week; `None`, when none is. No segment of a log has an earlier time than the one before it.
///
/// # Errors
/// Errors of the table.
pub async fn ahead(table: &dyn Table, workspace: &Id, now: Timestamp) -> Result<Option<(LogId, Duration)>> {
    let mut furthest: Option<(Duration, LogId)> = None;
    for head in scan::heads_since(table, workspace, now.plus_seconds(-AHEAD_SECONDS).day()).await? {
        let at = appended_at(table, &head.log, head.seq).await?.unwrap_or_default();
        let ahead = Duration::from_micros(u64::try_from(at - now.micros()).unwrap_or_default());
        furthest = furthest.max(Some((ahead, head.log)));
    }
    Ok(furthest.filter(|(ahead, _)| !ahead.is_zero()).map(|(ahead, log)| (log, ahead)))
}

/// Reads the time at which a segment was appended, in microseconds since 1970, if it is stored.
async fn appended_at(table: &dyn Table, log: &LogId, seq: u64) -> Result<Option<i64>> {
    let query = table::Query::table(key::segments_between(log, seq, seq)).only(&["appended_at"]);
    let page = table.query(&query).await?;
    Ok(page.items.first().and_then(|item| item.int("appended_at").ok()))
}

/// Number of days before today whose logs are checked for the lag of alert rules.
const LAG_DAYS: i64 = 3;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Records the longest time, for each kind, for which segments appended by a closed instant have been in the logs of the latest
/// days without being folded. It is written if it is the greatest of the day.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub(crate) async fn note_lag(table: &dyn Table, workspace: &Id, closed: Timestamp) -> Result<()> {
    let version = active::load(table, workspace).await?.version;
    let first = closed.plus_seconds(-LAG_DAYS * DAY_SECONDS).day();
    let behind = sweep_days(table, version, workspace, first, &BTreeSet::new()).await?;
    let mut seen = BTreeMap::<Kind, u64>::new();
    for (log, age) in ages(table, &behind, closed).await? {
        let greatest = seen.entry(log.kind).or_default();
        *greatest = (*greatest).max(age.as_secs());
    }
    let noted = Lags::load(table, workspace).await?;
    if let Some(after) = noted.with(closed.day(), &seen) {
        // Another worker has checked at this moment as well.
        unless_overtaken(table.put(after.to_item(workspace), Condition::unchanged(noted.ver)).await)?;
    }
    Ok(())
}
