//! Folds new segments of a day into its rollup and counters.

use std::{cell::Cell, collections::BTreeSet};

use catalog::{Defined, Noted, ReleaseChange, record, record_definitions, record_metrics};
use event::{ErrorKind, Id, Kind, Result};
use fold::{Delta, LogSegment, Rollup, rollup::Folding};
use log::{
    key::{self, LogId, OfDay},
    projection::{Applied, Projected},
    scan,
    segment_cache::SegmentCache,
};
use table::{Policy, Table, unless_overtaken};

use crate::{
    WorkspaceDay, caught, counters,
    day::{DayFold, Taken},
    dead_letters::{LeftOut, Skipped, Stopped, is_skipped},
    events::{Events, Found},
    features,
    unwritten::{self, Unwritten},
};

/// Number of segments read at once: some megabytes.
const SEGMENTS_AT_ONCE: u64 = 64;

/// Number of metrics of runs that are collected before they are recorded: some megabytes.
const MAX_NOTED: usize = 10_000;

/// Result of bringing a rollup up to date.
#[derive(Clone, Debug)]
pub struct Projection {
    /// State of the rollup.
    pub rollup: Rollup,
    /// Prefix that it covers.
    pub applied: Applied,
    /// True if there was a new segment.
    pub grown: bool,
    /// Number of new segments.
    pub segments: u64,
    /// Amount that was in them.
    pub taken: Taken,
    /// True if the day has features, and so a breakdown by feature.
    pub has_features: bool,
    /// Number of repeated folds, because another worker wrote in between.
    pub retries: u64,
    /// Logs that cannot be folded any further.
    pub stopped: Vec<Stopped>,
    /// Segments of release events whose changes of live releases could not be recorded.
    pub unrecorded: Vec<Stopped>,
}

/// Reads the rollup of a day.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn read(table: &dyn Table, version: u32, day: &WorkspaceDay) -> Result<(Projected, Rollup)> {
    let key = key::rollup(&day.workspace, version, day.day);
    match table.get(&key).await? {
        None => Ok((Projected::empty(), Rollup::default())),
        Some(item) => {
            let stored = Projected::from_item(&item)?;
            let rollup = Rollup::from_state(&stored.state).map_err(|error| item.corrupt(error))?;
            Ok((stored, rollup))
        }
    }
}

/// Folds all new segments of a day: of the logs that its rollup covers, and of `dirty`. An unreadable segment stops its
/// own log only, and is reported.
///
/// # Errors
/// Errors of the table, and `Corrupt` for a rollup that cannot be read.
pub async fn project(
    table: &dyn Table,
    version: u32,
    day: &WorkspaceDay,
    dirty: &BTreeSet<LogId>,
) -> Result<Projection> {
    project_handed(table, &SegmentCache::default(), version, day, dirty).await
}

/// Folds as [`project`] does, but takes segments from the cache of this process where it has them.
///
/// # Errors
/// As [`project`].
pub async fn project_handed(
    table: &dyn Table,
    segment_cache: &SegmentCache,
    version: u32,
    day: &WorkspaceDay,
    dirty: &BTreeSet<LogId>,
) -> Result<Projection> {
    let left_out = LeftOut::default();
    let key = key::rollup(&day.workspace, version, day.day);
    let mut tries = Policy::of(&key).tries();
    loop {
        tries.next().await?;
        let (stored, rollup) = read(table, version, day).await?;
        let mut fold = DayFold::stored(table, version, day, (Folding::Rollup, rollup));
        let mut applied = stored.applied.clone();
        let known = applied.keys().filter_map(|name| scan::log_named(&day.workspace, day.day, name));
        let logs: BTreeSet<LogId> = known.chain(dirty.iter().cloned()).collect();
        let events = Events::handed(table, segment_cache, day, &logs).await?;
        let (mut segments, mut stopped) = (0, Vec::new());
        for log in logs {
            let known = applied.get(&log.name()).copied().unwrap_or(0);
            let (last, stop) = fold_from(&events, &log, known, u64::MAX, &left_out, &mut fold).await?;
            segments += last.saturating_sub(known);
            stopped.extend(stop);
            if last > 0 {
                applied.insert(log.name(), last);
            }
        }
        let grown = applied != stored.applied;
        let unrecorded = match grown {
            false => Vec::new(),
            true => match unless_overtaken(write(table, version, day, &fold, (&stored, &applied)).await)? {
                Some(unrecorded) => unrecorded,
                None => continue,
            },
        };
        settle(segment_cache, day, &applied);
        let has_features = fold.has_features || features::is_begun(table, version, day).await?;
        let (rollup, taken) = (fold.rollup, fold.taken);
        let retries = tries.retries();
        return Ok(Projection {
            rollup,
            applied,
            grown,
            segments,
            taken,
            has_features,
            retries,
            stopped,
            unrecorded,
        });
    }
}

/// Removes the folded segments of a day from the cache.
fn settle(segment_cache: &SegmentCache, day: &WorkspaceDay, applied: &Applied) {
    for (name, last) in applied {
        if let Some(log) = scan::log_named(&day.workspace, day.day, name) {
            segment_cache.settle(&log, *last);
        }
    }
}

/// Writes the fold of a day up to `applied`. The rollup goes last: a crash in between leaves it behind, which a sweep
/// finds. Returns the changes of live releases that could not be recorded.
///
/// # Errors
/// `Conflict`, when another projector wrote in between; errors of the table.
async fn write(
    table: &dyn Table,
    version: u32,
    day: &WorkspaceDay,
    fold: &DayFold<'_>,
    (stored, applied): (&Projected, &Applied),
) -> Result<Vec<Stopped>> {
    if fold.has_features {
        features::begin(table, version, day).await?;
    }
    fold.write_parts().await?;
    counters::write(table, day, fold).await?;
    record_runs(table, &day.workspace, fold.runs.clone()).await?;
    let unrecorded = record_releases(table, day, &stored.applied, applied, &Skipped::new()).await?;
    if let Some(stopped) = unrecorded.first() {
        // Before the rollup moves past it, so a crash in between loses nothing.
        let letter = Unwritten::new(version, day, OfDay::Live, &stopped.reason, day.day.start());
        unwritten::record(table, &letter).await?;
    }
    let key = key::rollup(&day.workspace, version, day.day);
    let (item, condition) = stored.replace(key, applied, fold.rollup.to_state());
    table.put(item, condition).await?;
    Ok(unrecorded)
}

/// Records the changes of live releases by the release events between two prefixes, since the process that appended
/// them may have died before it did; without the segments that an operator skipped. Returns those that cannot be
/// recorded. They do not stop the rollup, which does not contain the live releases.
pub(crate) async fn record_releases(
    table: &dyn Table,
    day: &WorkspaceDay,
    from: &Applied,
    to: &Applied,
    skipped: &Skipped,
) -> Result<Vec<Stopped>> {
    let mut unrecorded = Vec::new();
    for (name, last) in to {
        let log = scan::log_named(&day.workspace, day.day, name);
        let Some(log) = log.filter(|log| log.kind == Kind::Releases) else { continue };
        let first = from.get(name).copied().unwrap_or(0) + 1;
        for seq in (first..=*last).filter(|seq| !is_skipped(skipped, &log, *seq)) {
            if let Some(reason) = record_segment(table, &log, seq).await? {
                unrecorded.push(Stopped { log: log.clone(), seq, reason });
            }
        }
    }
    Ok(unrecorded)
}

/// Records the changes of live releases by a segment; or returns the reason of the failure.
///
/// # Errors
/// Errors of the table that may pass.
async fn record_segment(table: &dyn Table, log: &LogId, seq: u64) -> Result<Option<String>> {
    let recording = async {
        for segment in scan::segments(table, log, seq, seq).await? {
            let changes = ReleaseChange::of(&segment.unpack(|_| true)?)?;
            let defined = Defined::in_segment(&segment)?;
            record(table, &log.workspace, &changes).await?;
            record_definitions(table, &log.workspace, &defined).await?;
        }
        Ok(())
    };
    match caught::whole(recording).await {
        Err(error) if !error.may_pass() => Ok(Some(error.to_string())),
        other => other.map(|()| None),
    }
}

/// Records the metrics of runs. Doing so again changes nothing.
async fn record_runs(table: &dyn Table, workspace: &Id, noted: Noted) -> Result<()> {
    if noted.is_empty() {
        return Ok(());
    }
    match record_metrics(table, workspace, noted).await? {
        0 => {}
        metrics => tracing::warn!(%workspace, metrics, "runs have more metrics than are kept beside them"),
    }
    Ok(())
}

/// Folds a segment, or returns the reason that it cannot be folded; and whether it has features. Metrics of runs are
/// added to `noted`, if given.
fn folded(
    folding: Folding,
    log: &LogId,
    segment: &Found,
    noted: Option<&mut Noted>,
) -> (std::result::Result<Delta, String>, bool) {
    let (kind, place, has_features) = (log.kind, segment.place(), Cell::new(false));
    let is_of_run = |name: &str| noted.is_some() && kind == Kind::Metrics && ["run", "step"].contains(&name);
    let wants = |name: &str| {
        has_features.set(has_features.get() || kind.sketched(name).is_some());
        folding.wants(kind, name) || is_of_run(name)
    };
    let columns = caught::text(|| segment.columns(wants));
    let folded = columns.and_then(|columns| {
        let mut delta =
            caught::text(|| Delta::folded(folding, kind, LogSegment { place, columns: &columns }))?;
        // Unmatched outcomes are counted on the days that they label.
        if folding == Folding::Rollup && kind != Kind::Unmatched {
            delta.rollup.erased = segment.erased();
        }
        if let Some(noted) = noted.filter(|_| kind == Kind::Metrics) {
            noted.add(&columns, Some((log, (place.seq, place.seq))));
        }
        Ok(delta)
    });
    (folded, has_features.get())
}

/// Folds the segments of a log after `applied` up to `last`, except those `left_out`. Returns the last folded segment,
/// and the one that failed.
pub(crate) async fn fold_from(
    events: &Events<'_>,
    log: &LogId,
    applied: u64,
    last: u64,
    left_out: &LeftOut,
    into: &mut DayFold<'_>,
) -> Result<(u64, Option<Stopped>)> {
    let mut applied = applied;
    let mut at_once = SEGMENTS_AT_ONCE;
    loop {
        let until = last.min(applied.saturating_add(at_once)).min(key::MAX_SEQ);
        let stop = |seq, reason: String| Ok((seq - 1, Some(Stopped { log: log.clone(), seq, reason })));
        let run = match caught::whole(events.grown(log, applied + 1, until)).await {
            // One of several items is unreadable: the readable ones are read one by one.
            Err(error) if error.kind() == ErrorKind::Corrupt && at_once > 1 => {
                at_once = 1;
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                match left_out.is_unreadable(log, applied + 1) {
                    true => applied += 1,
                    false => return stop(applied + 1, error.to_string()),
                }
                continue;
            }
            run => run?,
        };
        for segment in &run.segments {
            let seq = segment.place().seq;
            if !is_skipped(&left_out.always, log, seq) {
                let is_noted = into.is_written() && into.folding == Folding::Rollup;
                let noted = is_noted.then_some(&mut into.runs);
                let (folded, has_features) = folded(into.folding, log, segment, noted);
                if into.runs.len() > MAX_NOTED {
                    record_runs(events.table(), &log.workspace, std::mem::take(&mut into.runs)).await?;
                }
                into.has_features |= has_features;
                match folded {
                    Ok(delta) => {
                        into.add(log, seq, &delta).await?;
                        into.taken.note(segment);
                    }
                    Err(_) if left_out.is_unreadable(log, seq) => {}
                    Err(reason) => return stop(seq, reason),
                }
            }
            applied = seq;
        }
        if applied == last || !run.has_more {
            return Ok((applied, None));
        }
    }
}
