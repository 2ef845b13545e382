//! Folds a workspace again into the next version of its projections, beside the active one.
//!
//! Each step is one conditional write, so a rebuild may be interrupted anywhere and called again:
//! 1. The next version is recorded as being built, with the coverage of the old one at that time: the point.
//! 2. Days are folded and evaluated in it, in a bounded number of passes. Each takes the segments appended during the one before
//!    it, so a log that grows for ever ends none of them, and the last leaves little.
//! 3. When it covers the point it becomes the active version. Readers and workers read the active version at each use, so from
//!    now on they use it.
//! 4. Segments that a worker folded into the old version meanwhile are folded into the new one, in one more pass. The workers
//!    fold the segments appended during that: they find them by a sweep, which the change of step 3 asks for.
//! 5. The old version is deleted.
//!
//! Days whose events are gone cannot be folded again; their projections are copied (`carry`).

use std::{collections::BTreeSet, future::Future, time::Duration};

use event::{Clock, Day, Error, Id, Result};
use log::{
    active::{self, Active},
    audit::Audited,
    key::{self, LogId},
};
use table::{Change, Condition, Pages, Policy, Query, Table, update};
use tokio::time::{Instant, sleep};

use crate::{
    WorkspaceDay,
    carry::carry_over,
    dead_letters::{self, DeadLetter, LetterState, Refused, Stopped},
    evaluate::evaluate,
    features::sketch,
    key_filters::make_day,
    project::project,
    sweep::{applied, sweep_version},
    untouched::carry_untouched,
    vintages::make_again,
};

mod no_less;

/// Maximum number of passes before the flip, if the log grows during each.
const PASSES: usize = 4;

/// Maximum number of passes after the flip.
const PASSES_AFTER: usize = 1;

/// Number of versions before the active one that are checked when the old ones are deleted.
const LOOK_BACK: u32 = 3;

/// Time to wait after a failure of the table, and maximum number of failures in a row.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const MAX_RETRIES: usize = 60;

/// Pace and clock of a rebuild.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Share of the time that it works, above 0 and at most 1; the rest is left to others.
    pub share: f64,
    /// Clock for dead letters.
    pub clock: Clock,
}

/// Progress of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of segments folded in the new version.
    pub segments: u64,
    /// Number of all segments; it grows with the log.
    pub of: u64,
}

/// Result of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Active version after it.
    pub version: u32,
    /// Number of folded days.
    pub days: u64,
    /// Number of folded segments.
    pub segments: u64,
    /// Number of deleted items of older versions.
    pub deleted: u64,
    /// Segments that cannot be folded, in the new version as in the old.
    pub stopped: Vec<DeadLetter>,
}

/// Rebuilds the projections of a workspace, or goes on with an interrupted rebuild.
///
/// # Errors
/// `Corrupt`, when the new version would cover less than the old one, because some segments can no longer be folded,
/// and `Incomplete`, when such segments are missing; then the old one stays. Errors of the table.
pub async fn rebuild(
    table: &dyn Table,
    workspace: &Id,
    pace: &Pace,
    progress: impl Fn(Progress) + Sync,
) -> Result<Report> {
    rebuild_touched(table, (workspace, None), pace, progress).await
}

/// Rebuilds after an erasure: if the version being built is the named one, only the touched days are folded again, and
/// all others copied.
///
/// # Errors
/// Errors of [`rebuild`].
pub(crate) async fn rebuild_touched(
    table: &dyn Table,
    (workspace, touched): (&Id, Option<(u32, &BTreeSet<Day>)>),
    pace: &Pace,
    progress: impl Fn(Progress) + Sync,
) -> Result<Report> {
    let mut rebuild = Rebuild {
        table,
        workspace,
        pace,
        progress: &progress,
        report: Report::default(),
        days: BTreeSet::new(),
        stopped: BTreeSet::new(),
        unevaluated: BTreeSet::new(),
        unsketched: BTreeSet::new(),
    };
    let found = active::load(table, workspace).await?;
    if found.building.is_none() && found.oldest < found.version {
        // The last rebuild was interrupted during the deletion.
        rebuild.report.version = found.version;
        carry_over(table, workspace, found.version).await?;
        rebuild.delete_old(found).await?;
        return Ok(rebuild.report);
    }
    let building = rebuild.begin().await?;
    let point = applied(table, building - 1, workspace).await?;
    if let Some((_, touched)) = touched.filter(|(version, _)| *version == building) {
        carry_untouched(table, workspace, building, touched).await?;
    }
    rebuild.catch_up(building, PASSES).await?;
    rebuild.check_no_less(building, &point).await?;
    rebuild.flip(building).await?;
    // A worker that read the active version just before may have folded into the old one only.
    rebuild.catch_up(building, PASSES_AFTER).await?;
    rebuild.delete_old(active::load(table, workspace).await?).await?;
    if touched.is_none() {
        make_again(table, workspace, &rebuild.days, pace.clock.now()).await?;
    }
    rebuild.report.version = building;
    rebuild.report.stopped = rebuild.stopping(building).await?;
    Ok(rebuild.report)
}

/// Deletes the rest of the versions before the active one that an interrupted rebuild has left.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn delete_before_active(table: &dyn Table, workspace: &Id, pace: &Pace) -> Result<()> {
    let found = active::load(table, workspace).await?;
    match found.building.is_none() && found.oldest < found.version {
        true => rebuild(table, workspace, pace, |_| ()).await.map(drop),
        false => Ok(()),
    }
}

/// Deletes all items of the versions before the active one, back to the oldest and some before it; returns their number.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn delete_before(table: &dyn Table, workspace: &Id, found: Active) -> Result<u64> {
    let mut deleted = 0;
    let first = found.version.saturating_sub(LOOK_BACK).min(found.oldest).max(1);
    for version in first..found.version {
        // The heads are deleted before the slices, so that no reader finds a head without its rows.
        for range in [
            key::all_projections(workspace, version),
            key::all_slices(workspace, version),
            key::all_features(workspace, version),
            key::all_key_filters(workspace, version),
            key::dead_letters(workspace, version),
        ] {
            let mut pages = Pages::of(table, Query::table(range).only(&["v"]));
            while let Some(items) = pages.next().await? {
                let deletes = items.iter().map(|item| table.delete(&item.key, Condition::None));
                futures::future::try_join_all(deletes).await?;
                deleted += items.len() as u64;
            }
        }
    }
    Ok(deleted)
}

struct Rebuild<'a> {
    table: &'a dyn Table,
    workspace: &'a Id,
    pace: &'a Pace,
    progress: &'a (dyn Fn(Progress) + Sync),
    report: Report,
    /// Days that were folded in any pass.
    days: BTreeSet<Day>,
    /// Logs that cannot be folded any further.
    stopped: BTreeSet<LogId>,
    /// Days that cannot be evaluated.
    unevaluated: BTreeSet<WorkspaceDay>,
    /// Days whose breakdown by feature cannot be made.
    unsketched: BTreeSet<WorkspaceDay>,
}

impl Rebuild<'_> {
    async fn begin(&self) -> Result<u32> {
        let change = |found: Active| match found.building {
            Some(_) => None,
            None => Some(Active { building: Some(found.version + 1), ..found }),
        };
        let now = self.change(change).await?;
        now.building.ok_or_else(|| Error::conflict("somebody else ended the rebuild; start it again"))
    }

    /// Changes the record of the active version, unless it is changed already. Returns the record after that.
    async fn change(&self, change: impl Fn(Active) -> Option<Active>) -> Result<Active> {
        let key = key::active(self.workspace);
        update(&Audited::over(self.table), &key, Policy::of(&"the active version"), async |item| {
            let found = Active::of(item.as_ref())?;
            Ok(match change(found) {
                Some(wanted) => Change::Put(wanted.replace(self.workspace).0, wanted),
                None => Change::Leave(found),
            })
        })
        .await
    }

    /// Folds and evaluates everything that is behind in `version`, except unfoldable segments, and repeats this for newly
    /// appended segments, in at most `passes` passes.
    async fn catch_up(&mut self, version: u32, passes: usize) -> Result<()> {
        for _ in 0..passes {
            carry_over(self.table, self.workspace, version).await?;
            let behind = sweep_version(self.table, version, self.workspace).await?;
            let of = |log: &LogId| WorkspaceDay { workspace: log.workspace.clone(), day: log.day };
            let logs = behind.logs.keys().filter(|log| !self.stopped.contains(*log));
            let mut days = behind.evaluations;
            days.retain(|day| !self.unevaluated.contains(day));
            days.extend(behind.features.into_iter().filter(|day| !self.unsketched.contains(day)));
            days.extend(logs.map(of));
            if days.is_empty() {
                return Ok(());
            }
            let total = self.report.segments + behind.segments;
            for day in days {
                let logs = behind.logs.keys().filter(|log| log.day == day.day).cloned().collect();
                let started = Instant::now();
                self.report.segments += again(async || self.day(version, &day, &logs).await).await?;
                self.days.insert(day.day);
                self.report.days = self.days.len() as u64;
                // More segments of a growing log may be folded than there were when the pass began.
                let of = total.max(self.report.segments);
                (self.progress)(Progress { segments: self.report.segments, of });
                let share = self.pace.share.clamp(0.01, 1.0);
                sleep(started.elapsed().mul_f64(1.0 / share - 1.0)).await;
                self.note_stopped(version, &day).await?;
            }
        }
        // Copies days that were marked meanwhile.
        carry_over(self.table, self.workspace, version).await
    }

    /// Folds and evaluates a day; returns the number of new segments.
    async fn day(&self, version: u32, day: &WorkspaceDay, logs: &BTreeSet<LogId>) -> Result<u64> {
        let mut segments = 0;
        loop {
            let projection = project(self.table, version, day, logs).await?;
            segments += projection.segments;
            if self.refused(version, projection.stopped, Refused::Rollup).await? {
                continue;
            }
            let effort = evaluate(self.table, version, day, &projection.applied).await?;
            if self.refused(version, effort.stopped, Refused::Evaluation).await? {
                continue;
            }
            let effort = sketch(self.table, version, day, &projection.applied).await?;
            if !self.refused(version, effort.stopped, Refused::Features).await? {
                make_day(self.table, version, day, self.pace.clock.now()).await?;
                return Ok(segments);
            }
        }
    }

    /// Records refused segments. Returns whether any of them is left out as in the active version, so that going on is useful. No
    /// segment is left out of more than it was there.
    async fn refused(&self, version: u32, stopped: Vec<Stopped>, refused: Refused) -> Result<bool> {
        let mut goes_on = false;
        for stopped in stopped {
            let active = active::load(self.table, self.workspace).await?.version;
            let before = dead_letters::find_version(self.table, active, &stopped.log, stopped.seq).await?;
            let letter = DeadLetter::new(version, stopped, refused, self.pace.clock.now());
            dead_letters::record(self.table, &letter).await?;
            let is_skipped = |before: DeadLetter| {
                before.version != version
                    && before.state == LetterState::Skipped
                    && before.refused.reaches(refused)
            };
            if before.is_some_and(is_skipped) {
                dead_letters::skip(self.table, &letter).await?;
                goes_on = true;
            }
        }
        Ok(goes_on)
    }

    /// Letters of a version that stop something.
    async fn stopping(&self, version: u32) -> Result<Vec<DeadLetter>> {
        let mut letters = dead_letters::list_version(self.table, version, self.workspace).await?;
        letters.retain(|letter| letter.state == LetterState::Stopped);
        Ok(letters)
    }

    async fn note_stopped(&mut self, version: u32, day: &WorkspaceDay) -> Result<()> {
        let mut letters = self.stopping(version).await?;
        letters.retain(|letter| letter.log.day == day.day);
        for letter in dead_letters::unsettled(self.table, letters).await? {
            match letter.refused {
                Refused::Rollup => _ = self.stopped.insert(letter.log),
                Refused::Evaluation => _ = self.unevaluated.insert(day.clone()),
                Refused::Features => _ = self.unsketched.insert(day.clone()),
            }
        }
        Ok(())
    }

    async fn flip(&self, building: u32) -> Result<()> {
        let change = |found: Active| match found.version < building {
            true => Some(Active { version: building, building: None, ..found }),
            false => None,
        };
        self.change(change).await.map(|_| ())
    }

    /// Deletes the versions before the active one, and checks some that were deleted before: a worker that was away for long may
    /// have written to them since.
    async fn delete_old(&mut self, found: Active) -> Result<()> {
        self.report.deleted += delete_before(self.table, self.workspace, found).await?;
        let oldest = found.version;
        let change = |now: Active| (now.oldest < oldest).then_some(Active { oldest, ..now });
        self.change(change).await.map(|_| ())
    }
}

/// Repeats a call after failures that may pass.
async fn again<T, F: Future<Output = Result<T>>>(call: impl Fn() -> F) -> Result<T> {
    for _ in 0..MAX_RETRIES {
        match call().await {
            Err(error) if error.may_pass() => {
                tracing::warn!(%error, "the table is not available; trying again");
                sleep(RETRY_AFTER).await;
            }
            other => return other,
        }
    }
    call().await
}
