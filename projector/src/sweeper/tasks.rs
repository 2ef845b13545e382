//! Tasks of a sweep for each workspace beside the days that it finds: counters, evaluations at their ages, filters of keys,
//! unmatched outcomes, answers of reviewers, comparisons of live releases, expiry. Failures are recorded as undone.

use std::collections::BTreeSet;

use event::{Day, Id, Result};
use log::key::OfWorkspace;

use crate::{
    challenges,
    compact::Done,
    expire::expire,
    key_filters, lock,
    shared::Shared,
    unmatched::{self, Resolved},
    vintages::{self, Made},
};

/// Number of days before today that count as the latest.
const LATEST_DAYS: i64 = 3;

const DAY_SECONDS: i64 = 24 * 60 * 60;

impl Shared {
    /// Stores evaluations and rollups at the ages that days have reached.
    pub(super) async fn keep_vintages(&self, workspace: &Id, older: &BTreeSet<Day>) -> Result<()> {
        let making = vintages::make(&*self.table, workspace, older, self.now());
        let made = self.noted(workspace, OfWorkspace::Vintages, making).await?.unwrap_or_default();
        let Made { vintages, rollups, waiting } = made;
        if made != Made::default() {
            tracing::debug!(%workspace, vintages, rollups, waiting, "kept evaluations and rollups of days at their ages");
        }
        Ok(())
    }

    /// Makes the filters of keys that are due.
    pub(super) async fn filter_keys(
        &self,
        workspace: &Id,
        is_whole: bool,
        older: &BTreeSet<Day>,
    ) -> Result<()> {
        let first = (!is_whole).then(|| self.first_latest());
        let making = key_filters::make(&*self.table, workspace, (first, older), self.now());
        let filters = self.noted(workspace, OfWorkspace::KeyFilters, making).await?.unwrap_or(0);
        if filters > 0 {
            tracing::debug!(%workspace, filters, "made filters of keys");
        }
        Ok(())
    }

    /// Appends answers of reviewers that were decided by a process that died before it appended them.
    pub(super) async fn finish_answers(&self, workspace: &Id) -> Result<()> {
        let Some(append) = &self.options.append else { return Ok(()) };
        let finishing = append.finish_answers(workspace);
        let answers = self.noted(workspace, OfWorkspace::Answers, finishing).await?.unwrap_or(0);
        if answers > 0 {
            tracing::info!(%workspace, answers, "appended answers of reviewers");
        }
        Ok(())
    }

    /// Finds the predictions labelled by outcomes that name none.
    pub(crate) async fn resolve_unmatched(
        &self,
        workspace: &Id,
        (is_whole, expires): (bool, bool),
        older: &BTreeSet<Day>,
    ) -> Result<()> {
        let Some(append) = &self.options.append else { return Ok(()) };
        let first = (!is_whole).then(|| self.first_latest());
        let (table, days) = (&*self.table, (first, older));
        let now = (self.now(), expires);
        let resolving = unmatched::resolve_within(table, &self.catalog, &**append, workspace, days, now);
        if let Some(resolved) = self.noted(workspace, OfWorkspace::Unmatched, resolving).await? {
            let Resolved { found, expired, refused, waiting } = resolved;
            lock(&self.stats.unmatched).insert(workspace.clone(), waiting);
            if found + expired + refused > 0 {
                tracing::info!(%workspace, found, expired, refused, waiting, "looked for the predictions of unmatched outcomes");
            }
        }
        Ok(())
    }

    /// Compares live releases with those that predict beside them.
    pub(super) async fn compare_challengers(&self, workspace: &Id) -> Result<()> {
        let judging = challenges::judge(&*self.table, &self.catalog, workspace, self.now());
        self.noted(workspace, OfWorkspace::Challenges, judging).await.map(drop)
    }

    /// Merges small segments of days that are over.
    pub(super) async fn compact(&self, workspace: &Id) -> Result<()> {
        if !self.options.compacts {
            return Ok(());
        }
        let compacting = self.compactor.compact(&*self.table, workspace, self.now());
        let done = self.noted(workspace, OfWorkspace::Compaction, compacting).await?.unwrap_or_default();
        let Done { merged, deleted, .. } = done;
        self.stats.meters.merged.increment(merged);
        self.stats.meters.merged_away.increment(deleted);
        if merged > 0 || deleted > 0 {
            tracing::debug!(%workspace, merged, deleted, "merged small segments");
        }
        Ok(())
    }

    /// First of the latest days.
    pub(super) fn first_latest(&self) -> Day {
        self.now().plus_seconds(-LATEST_DAYS * DAY_SECONDS).day()
    }

    /// Deletes expired events. Those not projected yet wait for a later sweep.
    pub(super) async fn expire(&self, workspace: &Id) -> Result<()> {
        let expiring = expire(&*self.table, &self.catalog, workspace, self.now());
        let deleted = self.noted(workspace, OfWorkspace::Expiry, expiring).await?.unwrap_or_default();
        if deleted.days > 0 {
            let (days, segments) = (deleted.days, deleted.segments);
            tracing::info!(%workspace, days, segments, "deleted events that have expired");
        }
        if deleted.waiting > 0 {
            tracing::warn!(%workspace, days = deleted.waiting, "expired, but not projected yet");
        }
        Ok(())
    }
}
