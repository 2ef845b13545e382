//! Folds what is new of a day into its rollup and counters.

use std::collections::BTreeSet;

use fold::{Delta, Rollup, rollup::wants};
use store::{
    Error, ErrorKind, Result, Table,
    key::{self, LogId},
    rollup::{Applied, Projected},
    scan,
};

use crate::{MAX_ATTEMPTS, PROJECTION_VERSION, WorkspaceDay, counters, day::DayFold};

/// How many segments are read at once: some megabytes.
const SEGMENTS_AT_ONCE: u64 = 64;

/// A day's rollup after it was brought up to date.
#[derive(Clone, Debug)]
pub struct Projection {
    /// The state.
    pub rollup: Rollup,
    /// The prefix that it covers.
    pub applied: Applied,
    /// Whether anything was new.
    pub grown: bool,
}

/// Reads the rollup of a day.
///
/// # Errors
/// Those of the table, and `Corrupt`.
pub async fn read(table: &dyn Table, day: &WorkspaceDay) -> Result<(Projected, Rollup)> {
    let key = key::rollup(&day.workspace, PROJECTION_VERSION, day.day);
    match table.get(&key).await? {
        None => Ok((Projected::empty(), Rollup::default())),
        Some(item) => {
            let stored = Projected::from_item(&item)?;
            let rollup = Rollup::from_state(&stored.state).map_err(|error| item.corrupt(error))?;
            Ok((stored, rollup))
        }
    }
}

/// Folds everything new of a day: of the logs that its rollup knows, and of `dirty`.
///
/// # Errors
/// Those of the table, and `Corrupt` for a segment that cannot be read.
pub async fn project(table: &dyn Table, day: &WorkspaceDay, dirty: &BTreeSet<LogId>) -> Result<Projection> {
    for _ in 0..MAX_ATTEMPTS {
        let (stored, rollup) = read(table, day).await?;
        let mut fold = DayFold::stored(table, day, rollup);
        let mut applied = stored.applied.clone();
        let known = applied.keys().filter_map(|name| scan::log_named(&day.workspace, day.day, name));
        let logs: BTreeSet<LogId> = known.chain(dirty.iter().cloned()).collect();
        for log in logs {
            let from = applied.get(&log.name()).copied().unwrap_or(0);
            let last = fold_from(table, &log, from, u64::MAX, &mut fold).await?;
            if last > 0 {
                applied.insert(log.name(), last);
            }
        }
        if applied == stored.applied {
            return Ok(Projection { rollup: fold.rollup, applied, grown: false });
        }
        // The rollup goes last: a crash in between leaves it behind, which is noticed.
        match fold.write_parts(table, day).await {
            Ok(()) => {}
            Err(error) if error.is_conflict() => continue,
            Err(error) => return Err(error),
        }
        counters::write(table, day, &fold).await?;
        let key = key::rollup(&day.workspace, PROJECTION_VERSION, day.day);
        let (item, condition) = stored.replace(key, &applied, fold.rollup.to_state());
        match table.put(item, condition).await {
            Ok(()) => return Ok(Projection { rollup: fold.rollup, applied, grown: true }),
            Err(error) if error.is_conflict() => continue,
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(ErrorKind::Throttled, format!("too many projectors write the rollup of {day}")))
}

/// Folds the segments of a log after `applied` up to `last`; returns the last one that was folded.
pub(crate) async fn fold_from(
    table: &dyn Table,
    log: &LogId,
    applied: u64,
    last: u64,
    into: &mut DayFold<'_>,
) -> Result<u64> {
    let mut applied = applied;
    loop {
        let until = last.min(applied.saturating_add(SEGMENTS_AT_ONCE)).min(key::MAX_SEQ);
        let segments = scan::segments(table, log, applied + 1, until).await?;
        for segment in &segments {
            let columns = segment.unpack(|name| wants(log.kind, name))?;
            let delta = Delta::of(log.kind, &columns).map_err(|error| {
                Error::corrupt(format!("segment {}: {error}", key::segment(log, segment.seq)))
            })?;
            into.add(log, segment.seq, &delta).await?;
            applied = segment.seq;
        }
        if segments.is_empty() || applied == last || (segments.len() as u64) < SEGMENTS_AT_ONCE {
            return Ok(applied);
        }
    }
}
