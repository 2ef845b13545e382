//! Takes back decisions made by a clock that was ahead about instants that had not come; they are made again in time.
//!
//! Each final decision names its instant: a vintage is of an age of its day, an outcome has waited for a time, a digest is of a day
//! that was over. None is made before that instant is closed by the clock of the deciding process. So if the instant lies ahead
//! of the worker's clock and of the engine's, the deciding clock was ahead, by 30 s or more. That is detected by positions: at
//! the instant up to which vintages are made ([`crate::vintages`]), which each sweep moves, and at the last day that alert rules
//! evaluated or comparisons took, each of which begins again there. A worker that sees its clock set back sweeps at once; a rebuild
//! checks all days.
//!
//! Deletions cannot be taken back. So nothing is deleted by a clock alone: that goes by the time that the table has counted
//! ([`log::counted`]).

use std::collections::BTreeSet;

use catalog::{Delivery, Posting};
use event::{Day, Id, Kind, Result, Timestamp};
use fold::maturity::AGES;
use log::{
    active, erased::ErasureEpoch, expired, key, projection::Applied, rollup_vintage, scan, unmatched, vintage,
};
use table::{Condition, Query, Table, query_all, unless_overtaken};

use crate::{
    WorkspaceDay,
    dead_letters::{self, Refused, Skipped},
    evaluate::{SKIPPED, judged},
    verify::is_of_then,
    vintages::{JUDGED, arrivals},
};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Days for which deliveries are tried, and more.
const DELIVERY_DAYS: i64 = 2;

/// Returns the later one of `now` and the engine's time. A decision about a later instant was made by a clock that was ahead.
pub(crate) fn latest(table: &dyn Table, now: Timestamp) -> Timestamp {
    table.engine_time().map_or(now, |engine| engine.max(now))
}

/// Takes back the decisions of a workspace that were made too early, or returns `None` while keys are being erased: vintages of
/// some days, and all other decisions. Returns the days whose vintages are to be made again: those that
/// have reached an age by now whose vintage differs from the logs of that time.
///
/// # Errors
/// Errors of the table, and `Corrupt`. It may be called again at any time.
pub(crate) async fn take_back(
    table: &dyn Table,
    workspace: &Id,
    days: impl IntoIterator<Item = Day>,
    now: Timestamp,
) -> Result<Option<BTreeSet<Day>>> {
    let epoch = ErasureEpoch::load(table, workspace).await?;
    if epoch.is_open {
        return Ok(None);
    }
    let version = active::load(table, workspace).await?.version;
    let early = Early { table, workspace, latest: latest(table, now), now };
    let mut taken = BTreeSet::new();
    for day in days {
        if early.vintages(version, WorkspaceDay { workspace: workspace.clone(), day }).await? {
            taken.insert(day);
        }
    }
    let waiting = early.outcomes(epoch).await?;
    let posted = early.posted().await?;
    if !taken.is_empty() || waiting + posted > 0 {
        let days = taken.len();
        tracing::warn!(
            %workspace, days, waiting, posted,
            "took back what a clock that was ahead had decided: evaluations and rollups of days at their ages, outcomes that had expired, and what was to be posted"
        );
    }
    Ok(Some(taken))
}

struct Early<'a> {
    table: &'a dyn Table,
    workspace: &'a Id,
    latest: Timestamp,
    now: Timestamp,
}

impl Early<'_> {
    /// Takes back the vintages of a day that has its events. Returns whether there were any.
    async fn vintages(&self, version: u32, day: WorkspaceDay) -> Result<bool> {
        let (table, workspace) = (self.table, self.workspace);
        let evaluations = vintage::between(table, workspace, day.day, day.day).await?.remove(&day.day);
        let rollups = rollup_vintage::between(table, workspace, day.day, day.day).await?.remove(&day.day);
        if evaluations.is_none() && rollups.is_none()
            || expired::load(table, workspace, day.day).await?.is_some()
            // None of these counts, and all are made again before the events expire.
            || vintage::is_stated(table, workspace, day.day).await?
        {
            return Ok(false);
        }
        let evaluations = evaluations.into_iter().flatten();
        let evaluations =
            evaluations.map(|(hours, vintage)| (hours, judged(&vintage.applied), vintage.left_out));
        let skipped = dead_letters::skipped(table, version, &day, SKIPPED).await?;
        let of_evaluations = self.first(&day, (JUDGED, &skipped), evaluations).await?;
        let rollups = rollups.into_iter().flatten();
        let rollups = rollups.map(|(hours, vintage)| (hours, vintage.applied, vintage.left_out));
        let skipped = dead_letters::skipped(table, version, &day, Refused::ALL).await?;
        let of_rollups = self.first(&day, (&Kind::STORED, &skipped), rollups).await?;
        if let Some(from) = of_evaluations {
            vintage::take_back(table, workspace, day.day, from).await?;
        }
        if let Some(from) = of_rollups {
            rollup_vintage::take_back(table, workspace, day.day, from).await?;
        }
        Ok(of_evaluations.is_some() || of_rollups.is_some())
    }

    /// Finds the first age, in hours, that a day has not reached, or at which other segments had been appended than those of its
    /// vintage.
    async fn first(
        &self,
        day: &WorkspaceDay,
        (kinds, skipped): (&[Kind], &Skipped),
        vintages: impl Iterator<Item = (u32, Applied, Skipped)>,
    ) -> Result<Option<u32>> {
        for (hours, applied, left_out) in vintages {
            let Some(age) = AGES.into_iter().find(|age| age.hours == hours) else { continue };
            if age.of(day.day).is_none_or(|at| at > self.latest) {
                return Ok(Some(hours));
            }
            let left_out = &left_out | skipped;
            let arrived = arrivals(self.table, day, kinds, &left_out).await?;
            // A missing segment leaves it undecided.
            if arrived.is_some() && !is_of_then(day.day, age, arrived, (&applied, &left_out)) {
                return Ok(Some(hours));
            }
        }
        Ok(None)
    }

    /// Makes outcomes wait again that have not waited for as long as they may. Returns the number of decisions.
    async fn outcomes(&self, epoch: ErasureEpoch) -> Result<u64> {
        let Self { table, workspace, latest, now } = *self;
        let waits = unmatched::WAITS_DAYS * DAY_SECONDS;
        let mut again = 0;
        for (id, decision) in
            unmatched::decisions_since(table, workspace, latest.plus_seconds(-waits).day()).await?
        {
            let log = &id.segment.log;
            let is_ahead = decision.as_of > latest;
            if !is_ahead && decision.expired.is_empty()
                || expired::load(table, workspace, log.day).await?.is_some()
            {
                continue;
            }
            let segments = scan::segments(table, log, id.segment.seq, id.segment.seq).await?;
            let arrived_at = segments.first().map(|segment| segment.appended_at);
            let arrived_at =
                arrived_at.filter(|at| !decision.expired.is_empty() && at.plus_seconds(waits) > latest);
            if is_ahead || arrived_at.is_some() {
                let taken = unmatched::take_back(table, epoch, (&id, &decision), (now, arrived_at)).await?;
                again += u64::from(taken && arrived_at.is_some());
            }
        }
        Ok(again)
    }

    /// Deletes digests of days that are not over, and makes postponed or given up deliveries due at once. Returns their number.
    async fn posted(&self) -> Result<u64> {
        let (table, today) = (self.table, self.latest.day());
        let mut early = 0;
        let first = self.now.plus_seconds(-DELIVERY_DAYS * DAY_SECONDS).day();
        for item in query_all(table, Query::table(key::deliveries_since(self.workspace, first))).await? {
            let delivery = Delivery::from_item(&item)?;
            let unchanged = Condition::unchanged(delivery.ver);
            let written = match delivery.hastened(self.now, self.latest) {
                _ if delivery.of == Posting::Digest && delivery.day >= today => {
                    table.delete(&item.key, unchanged).await
                }
                Some(hastened) => table.put(hastened.to_item(self.workspace), unchanged).await,
                None => continue,
            };
            early += u64::from(unless_overtaken(written)?.is_some());
        }
        Ok(early)
    }
}
