//! Periodic tasks of each workspace after it was swept: counters, evaluations at their ages, filters of keys,
//! unmatched outcomes, answers of reviewers, comparisons of live releases, expiry. Failures are recorded as undone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use event::{Day, Id, Result};
use futures::{StreamExt, stream::FuturesUnordered};
use log::key::OfWorkspace;

use super::{RETRY_AFTER, WORKSPACES_AT_ONCE, unless_final};
use crate::{
    caught, challenges,
    compact::Done,
    expire::expire,
    key_filters, lock,
    shared::{Shared, waits},
    unmatched::{self, Resolved},
    vintages::{self, Made},
};

/// Number of days before today that count as the latest.
const LATEST_DAYS: i64 = 3;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Workspaces whose tasks are due, the longest waiting first.
#[derive(Debug, Default)]
pub(crate) struct DueTasks {
    queue: VecDeque<Id>,
    days: BTreeMap<Id, Days>,
    /// Workspaces whose tasks are being done.
    running: BTreeSet<Id>,
}

/// Days that the tasks of a workspace are about.
#[derive(Debug, Default)]
struct Days {
    /// True for all of its days.
    are_all: bool,
    /// Days besides the latest.
    older: BTreeSet<Day>,
}

impl DueTasks {
    fn add(&mut self, workspace: &Id, are_all: bool, older: &BTreeSet<Day>) {
        if !self.days.contains_key(workspace) {
            self.queue.push_back(workspace.clone());
        }
        let days = self.days.entry(workspace.clone()).or_default();
        days.are_all |= are_all;
        days.older.extend(older);
    }

    /// Takes the next workspace, each only once at a time.
    fn next(&mut self) -> Option<(Id, Days)> {
        let at = self.queue.iter().position(|workspace| !self.running.contains(workspace))?;
        let workspace = self.queue.remove(at)?;
        let days = self.days.remove(&workspace)?;
        self.running.insert(workspace.clone());
        Some((workspace, days))
    }

    /// Ends the tasks of a workspace. Those of `again` are done once more, after all that wait.
    fn ended(&mut self, workspace: &Id, again: Option<Days>) {
        self.running.remove(workspace);
        if let Some(Days { are_all, older }) = again {
            self.add(workspace, are_all, &older);
        }
    }
}

/// Does the tasks of workspaces that are due, forever.
pub(crate) async fn run(shared: &Shared) -> Result<()> {
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < WORKSPACES_AT_ONCE
            && let Some((workspace, days)) = lock(&shared.due_tasks).next()
        {
            // In a box, since the collection moves it.
            running.push(Box::pin(async move {
                let done = shared.do_tasks(&workspace, &days).await;
                (workspace, days, done)
            }));
        }
        tokio::select! {
            biased;
            Some((workspace, days, done)) = running.next() => {
                lock(&shared.due_tasks).ended(&workspace, (!done).then_some(days));
            }
            () = shared.tasks.notified() => {}
        }
    }
}

impl Shared {
    /// Makes the tasks of a workspace due.
    pub(super) fn ask_for_tasks(&self, workspace: &Id, are_all: bool, older: &BTreeSet<Day>) {
        lock(&self.due_tasks).add(workspace, are_all, older);
        self.tasks.notify_one();
    }

    /// Does the tasks of a workspace. Returns false, after a while, if the table was not available.
    async fn do_tasks(&self, workspace: &Id, Days { are_all, older }: &Days) -> bool {
        let doing = async {
            self.keep_vintages(workspace, older).await?;
            self.filter_keys(workspace, *are_all, older).await?;
            self.finish_answers(workspace).await?;
            self.resolve_unmatched(workspace, (*are_all, true), older).await?;
            self.expire(workspace).await?;
            self.rank(workspace).await?;
            self.compact(workspace).await?;
            self.compare_challengers(workspace).await
        };
        let done = unless_final(workspace, caught::whole(doing).await);
        if let Err(error) = &done {
            waits(
                error,
                &workspace,
                "the table is not available; the tasks of this workspace are done later",
            );
            tokio::time::sleep(RETRY_AFTER).await;
        }
        done.is_ok()
    }

    /// Stores evaluations and rollups at the ages that days have reached.
    async fn keep_vintages(&self, workspace: &Id, older: &BTreeSet<Day>) -> Result<()> {
        let making = vintages::make(&*self.table, workspace, older, self.now());
        let made = self.noted(workspace, OfWorkspace::Vintages, making).await?.unwrap_or_default();
        let Made { vintages, rollups, waiting } = made;
        if made != Made::default() {
            tracing::debug!(%workspace, vintages, rollups, waiting, "kept evaluations and rollups of days at their ages");
        }
        Ok(())
    }

    /// Makes the filters of keys that are due.
    async fn filter_keys(&self, workspace: &Id, is_whole: bool, older: &BTreeSet<Day>) -> Result<()> {
        let first = (!is_whole).then(|| self.first_latest());
        let making = key_filters::make(&*self.table, workspace, (first, older), self.now());
        let filters = self.noted(workspace, OfWorkspace::KeyFilters, making).await?.unwrap_or(0);
        if filters > 0 {
            tracing::debug!(%workspace, filters, "made filters of keys");
        }
        Ok(())
    }

    /// Appends answers of reviewers that were decided by a process that died before it appended them.
    async fn finish_answers(&self, workspace: &Id) -> Result<()> {
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
    async fn compare_challengers(&self, workspace: &Id) -> Result<()> {
        let judging = challenges::judge(&*self.table, &self.catalog, workspace, self.now());
        self.noted(workspace, OfWorkspace::Challenges, judging).await.map(drop)
    }

    /// Merges small segments of days that are over.
    async fn compact(&self, workspace: &Id) -> Result<()> {
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
    async fn expire(&self, workspace: &Id) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use event::Timestamp;

    use super::*;

    #[test]
    fn failed_tasks_wait_behind_all_others() {
        let workspace = |second| Id::new(Timestamp::default().plus_seconds(second));
        let [broken, other] = [workspace(1), workspace(2)];
        let older = BTreeSet::from(["2026-06-01".parse().unwrap()]);
        let mut due = DueTasks::default();
        due.add(&broken, true, &older);
        let (first, days) = due.next().unwrap();
        assert_eq!(first, broken);
        due.add(&other, false, &BTreeSet::new());
        due.add(&broken, false, &BTreeSet::new());
        due.ended(&broken, Some(days));
        let (second, _) = due.next().unwrap();
        assert_eq!(second, other);
        let (third, days) = due.next().unwrap();
        assert_eq!((third, days.are_all, days.older), (broken.clone(), true, older));
        due.add(&broken, false, &BTreeSet::new());
        assert!(due.next().is_none(), "its tasks are being done");
        due.ended(&broken, None);
        assert_eq!(due.next().unwrap().0, broken);
    }
}
