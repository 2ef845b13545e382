//! Sweeper: sweeps at the start, on demand, when a workspace's active version changes, and periodically in the one worker that
//! has the lease of it.
//!
//! After a gap, and when a shard is read from its newest position, all days are compared: the changes before were not read. The
//! table keeps the demand for that ([`crate::full_sweep`]). At the start and periodically, a sweep compares the latest days,
//! those with work since, and all days of the workspaces whose turn it is: some with each sweep, so that each has its turn once
//! a day, in which a sweep finds an append to an older day that the feed lost. Its findings are scheduled at once. After a
//! failure of the table only the affected workspaces are tried again. The periodic tasks of a workspace follow apart from
//! sweeps, which do not wait for a large day.

pub(crate) mod tasks;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
    sync::atomic::Ordering,
    time::Duration,
};

use event::{Day, Id, Result};
use futures::{StreamExt, stream};
use log::{
    active, counted,
    key::{self, LogId, OfWorkspace},
};
use table::{Condition, Item, Table};
use tokio::time::Instant;

use crate::{
    WorkspaceDay, caught,
    full_sweep::{self, FullSweep},
    lock,
    shared::{Extent, Request, Shared, add, waits},
    status,
    sweep::{Behind, sweep_days, sweep_version},
};

/// Time to wait after a failure of the table.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Number of workspaces swept at once, and number of those whose tasks are done at once: with short reads, between which the
/// reads of folds have their turn.
const WORKSPACES_AT_ONCE: usize = 4;

/// Hours from which on a clock that is ahead of the table's time is reported.
const TOLERATED_HOURS: i64 = 24;

impl Shared {
    /// Warns when this clock is far ahead of the time by which expired days are deleted.
    async fn compare_clocks(&self) -> Result<()> {
        let Some(time) = counted::load(&*self.table).await? else { return Ok(()) };
        let hours = (self.now().micros() - time.at.micros()) / 3_600_000_000;
        if hours >= TOLERATED_HOURS {
            tracing::warn!(
                hours,
                counted = %time.at,
                "this clock is ahead of the time that the table has counted; until that has caught up, days that expire are left out of answers and not deleted"
            );
        }
        Ok(())
    }

    async fn all_workspaces(&self) -> Result<BTreeSet<Id>> {
        let workspaces = self.catalog.workspaces().await?;
        Ok(workspaces.iter().map(|workspace| workspace.id().clone()).collect())
    }

    /// Sweeps all workspaces; those in `whole` on all of their days.
    async fn sweep_all(&self, mut whole: BTreeSet<Id>, mark: u64) -> Result<()> {
        let all = self.all_workspaces().await?;
        let turn = next_turn(&*self.table, &all, self.options.sweep_every).await?;
        whole.extend(turn.iter().cloned());
        let behind = self.sweep_some(all.into_iter().collect(), &whole, mark).await;
        note_turn(&*self.table, &turn).await?;
        self.record_again().await?;
        self.compare_clocks().await?;
        *lock(&self.swept_at) = Some(Instant::now());
        add(&self.stats.sweeps, 1);
        self.stats.swept_behind.store(behind, Ordering::Relaxed);
        Ok(())
    }

    /// Sweeps some workspaces until all are done; returns the number of segments behind.
    async fn sweep_some(&self, mut todo: Vec<Id>, whole: &BTreeSet<Id>, mark: u64) -> u64 {
        let mut older = BTreeMap::<Id, BTreeSet<Day>>::new();
        let of_these: BTreeSet<&Id> = todo.iter().collect();
        for touched in lock(&self.touched).extract_if(.., |touched| of_these.contains(&touched.workspace)) {
            older.entry(touched.workspace).or_default().insert(touched.day);
        }
        let none = BTreeSet::new();
        let mut segments = 0;
        while !todo.is_empty() {
            let tend = async |workspace: Id| {
                let older = older.get(&workspace).unwrap_or(&none);
                // In a box, since the stream moves it: unoptimised, each move would take its size of the stack.
                let tended = Box::pin(self.tend(&workspace, whole.contains(&workspace), older, mark)).await;
                (workspace, tended)
            };
            let mut tended = stream::iter(take(&mut todo)).map(tend).buffer_unordered(WORKSPACES_AT_ONCE);
            while let Some((workspace, tended)) = tended.next().await {
                match tended {
                    Ok(behind) => segments += behind,
                    Err(error) => {
                        waits(
                            &error,
                            &workspace,
                            "the table is not available; this workspace is swept again",
                        );
                        todo.push(workspace);
                    }
                }
            }
            if !todo.is_empty() {
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
        segments
    }

    /// Sweeps a workspace, after which its periodic tasks are due; returns the number of segments behind.
    ///
    /// # Errors
    /// Errors of the table that may pass. Other errors are reported, and hold up no other workspace.
    async fn tend(&self, workspace: &Id, is_whole: bool, older: &BTreeSet<Day>, mark: u64) -> Result<u64> {
        let tending = async {
            // Counted also after a restart, so that failures are known.
            self.count_letters(workspace).await?;
            let sweeping = self.sweep_one(workspace, is_whole, older, mark);
            let behind = self.noted(workspace, OfWorkspace::Sweep, sweeping).await?.unwrap_or(0);
            self.ask_for_tasks(workspace, is_whole, older);
            Ok(behind)
        };
        unless_final(workspace, caught::whole(tending).await)
    }

    async fn sweep_one(
        &self,
        workspace: &Id,
        is_whole: bool,
        older: &BTreeSet<Day>,
        mark: u64,
    ) -> Result<u64> {
        let table = &*self.table;
        let version = active::load(table, workspace).await?.version;
        let behind = if is_whole {
            sweep_version(table, version, workspace).await?
        } else {
            sweep_days(table, version, workspace, self.first_latest(), older).await?
        };
        let segments = behind.segments;
        tracing::debug!(%workspace, is_whole, segments, "swept");
        let ages = status::ages(table, &behind, self.now()).await?;
        self.schedule_found(behind, &ages, mark);
        self.schedule_unwritten(workspace, mark);
        Ok(segments)
    }

    /// Schedules the findings of a sweep to be folded and evaluated, before its mark is settled. A segment behind in a log has
    /// waited for its full age, with or without a worker to see it.
    fn schedule_found(&self, behind: Behind, ages: &BTreeMap<LogId, Duration>, mark: u64) {
        let now = Instant::now();
        let mut schedule = self.schedule();
        for log in behind.logs.into_keys() {
            let day = WorkspaceDay { workspace: log.workspace.clone(), day: log.day };
            let since = ages.get(&log).and_then(|age| now.checked_sub(*age)).unwrap_or(now);
            schedule.mark(day, Some(log), Some(mark), since);
        }
        let days: BTreeSet<_> = behind.evaluations.into_iter().chain(behind.features).collect();
        days.into_iter().for_each(|day| schedule.mark(day, None, Some(mark), now));
        drop(schedule);
        self.work.notify_one();
    }

    /// Schedules projections that could not be written, of any day.
    fn schedule_unwritten(&self, workspace: &Id, mark: u64) {
        let unwritten: Vec<WorkspaceDay> = {
            let known = lock(&self.unwritten);
            known.keys().filter(|(day, _)| day.workspace == *workspace).map(|(day, _)| day.clone()).collect()
        };
        let now = Instant::now();
        let mut schedule = self.schedule();
        unwritten.into_iter().for_each(|day| schedule.mark(day, None, Some(mark), now));
    }

    async fn answer(&self, requests: &[Request]) -> Result<()> {
        // Under the oldest mark: nothing that depends on any of these sweeps is settled before.
        let Some(mark) = requests.iter().map(|request| request.mark).min() else { return Ok(()) };
        let has = |wanted: Extent| requests.iter().any(|request| request.extent == wanted);
        let whole = requests.iter().filter_map(|request| match &request.extent {
            Extent::Workspace(workspace) => Some(workspace.clone()),
            Extent::Latest => None,
        });
        let whole: BTreeSet<Id> = whole.collect();
        if has(Extent::Latest) {
            self.sweep_all(whole, mark).await?;
        } else {
            self.sweep_some(whole.iter().cloned().collect(), &whole, mark).await;
        }
        let mut schedule = self.schedule();
        requests.iter().for_each(|request| schedule.release(request.mark));
        drop(schedule);
        self.work.notify_one();
        Ok(())
    }

    /// Goes on with the demanded sweep, by some workspaces. Returns whether there are more.
    ///
    /// # Errors
    /// Errors of the table. Called again, it goes on.
    async fn sweep_further(&self, sweep: &mut Option<FullSweep>) -> Result<bool> {
        if self.is_demanded.swap(false, Ordering::Relaxed)
            && let Err(error) = self.look_up(sweep).await
        {
            self.is_demanded.store(true, Ordering::Relaxed);
            return Err(error);
        }
        let Some(going) = sweep else { return Ok(false) };
        let some = going.next();
        if !some.is_empty() {
            let mark = self.schedule().hold();
            let behind = self.sweep_some(some.clone(), &some.iter().cloned().collect(), mark).await;
            going.swept(&some, mark, behind);
            self.schedule().release(mark);
            self.work.notify_one();
        }
        match going.note(&*self.table, |mark| self.schedule().is_settled(mark)).await? {
            Some(true) => return Ok(going.is_going_on()),
            Some(false) => {
                tracing::info!(segments = going.behind, "all days of all workspaces are compared");
                add(&self.stats.sweeps, 1);
                self.stats.swept_behind.store(going.behind, Ordering::Relaxed);
            }
            // Another worker is done with it, or it is demanded again.
            None => self.look_for_demand(),
        }
        *sweep = None;
        Ok(false)
    }

    /// Begins the demanded sweep, unless it is already going on.
    async fn look_up(&self, sweep: &mut Option<FullSweep>) -> Result<()> {
        let demand = full_sweep::load(&*self.table, self.now()).await?;
        let Some(demand) = demand else { return Ok(()) };
        if sweep.as_ref().is_none_or(|going| !going.is_of(&demand)) {
            *sweep = Some(FullSweep::new(demand, &self.all_workspaces().await?));
        }
        Ok(())
    }
}

/// Reports an error that does not pass, in place of which the default counts.
fn unless_final<T: Default>(workspace: &Id, done: Result<T>) -> Result<T> {
    match done {
        Err(error) if !error.may_pass() => {
            tracing::error!(%workspace, %error, "this workspace cannot be swept; the sweep of other workspaces goes on");
            Ok(T::default())
        }
        done => done,
    }
}

/// Sweeps forever.
pub(crate) async fn run(shared: &Shared) -> Result<()> {
    shared.ask_for_sweep(Extent::Latest);
    shared.look_for_demand();
    let mut periodic = Instant::now() + shared.options.sweep_every;
    let mut full = None;
    loop {
        let requests = take(&mut *lock(&shared.requests));
        if !requests.is_empty()
            && let Err(error) = shared.answer(&requests).await
        {
            if !error.may_pass() {
                return Err(error);
            }
            waits(&error, &"all workspaces", "the table is not available; the sweep begins later");
            lock(&shared.requests).extend(requests);
            tokio::time::sleep(RETRY_AFTER).await;
            continue;
        }
        let changed = take(&mut *lock(&shared.recount));
        for workspace in changed {
            // The next sweep counts as well.
            if let Err(error) = shared.count_letters(&workspace).await {
                tracing::debug!(%workspace, %error, "its dead letters are counted later");
            }
        }
        match shared.sweep_further(&mut full).await {
            // Other requests come in between.
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) if error.may_pass() => {
                waits(&error, &"all workspaces", "the table is not available; the sweep goes on later");
                tokio::time::sleep(RETRY_AFTER).await;
                continue;
            }
            Err(error) => return Err(error),
        }
        tokio::select! {
            biased;
            () = shared.sweep.notified() => {}
            // Its findings are not written yet.
            () = tokio::time::sleep(RETRY_AFTER), if full.is_some() => {}
            () = tokio::time::sleep_until(periodic) => {
                periodic = Instant::now() + shared.options.sweep_every;
                if shared.has_sweep_lease() {
                    shared.look_for_demand();
                    shared.ask_for_sweep(Extent::Latest);
                }
            }
        }
    }
}

/// Version of the item that stores the workspace of the last turn.
const CURSOR_VERSION: i64 = 1;

/// Time within which each workspace has its turn.
const ROUND: Duration = Duration::from_secs(24 * 60 * 60);

/// Minimum number of workspaces with each sweep; all, if there are fewer.
const LEAST: usize = 10;

/// Number of workspaces with each of the sweeps at this interval.
fn at_once(all: usize, every: Duration) -> usize {
    let sweeps = (ROUND.as_secs_f64() / every.as_secs_f64()).max(1.0);
    ((all as f64 / sweeps).ceil() as usize).max(LEAST).min(all)
}

/// Takes `count` workspaces: those after `cursor`, and then those from the beginning on.
fn turn(all: &BTreeSet<Id>, cursor: Option<&Id>, count: usize) -> Vec<Id> {
    let after = all.iter().filter(|id| cursor.is_none_or(|cursor| *id > cursor));
    let before = all.iter().filter(|id| cursor.is_some_and(|cursor| *id <= cursor));
    after.chain(before).take(count).cloned().collect()
}

/// Reads the workspaces whose turn it is.
///
/// # Errors
/// Errors of the table.
async fn next_turn(table: &dyn Table, all: &BTreeSet<Id>, every: Duration) -> Result<Vec<Id>> {
    let item = table.get(&key::sweep_cursor()).await?;
    // An unreadable cursor counts as none: the round begins again.
    let cursor = item.and_then(|item| Id::parse(item.optional_text("after")?).ok());
    Ok(turn(all, cursor.as_ref(), at_once(all.len(), every)))
}

/// Records that these have had their turn.
///
/// # Errors
/// Errors of the table.
async fn note_turn(table: &dyn Table, turn: &[Id]) -> Result<()> {
    let Some(last) = turn.last() else { return Ok(()) };
    let item = Item::new(key::sweep_cursor()).with("v", CURSOR_VERSION).with("after", last.as_str());
    table.put(item, Condition::None).await
}

#[cfg(test)]
mod tests {
    use event::Timestamp;

    use super::*;

    #[test]
    fn each_workspace_has_its_turn_once_a_day() {
        let every = Duration::from_secs(15 * 60);
        assert_eq!([0, 7, 960, 10_000].map(|all| at_once(all, every)), [0, 7, 10, 105]);
        let all: BTreeSet<Id> = (0..1_000)
            .map(|second| Id::new(Timestamp::default().plus_seconds(1_700_000_000 + second)))
            .collect();
        let (mut cursor, mut swept) = (None, BTreeSet::new());
        for _ in 0..96 {
            let turn = turn(&all, cursor.as_ref(), at_once(all.len(), every));
            cursor = turn.last().cloned();
            swept.extend(turn);
        }
        assert_eq!(swept, all);
        // A deleted workspace leaves the rest in its order.
        let rest: BTreeSet<Id> = all.iter().skip(500).cloned().collect();
        assert_eq!(turn(&rest, all.first(), 1), [all.iter().nth(500).unwrap().clone()]);
        assert_eq!(turn(&rest, all.last(), 1), [all.iter().nth(500).unwrap().clone()]);
    }
}
