//! Executor: folds changed days, evaluates them and sketches their features, several side by side.

use std::sync::Arc;

use event::{Error, Kind, Result};
use log::{active, key::OfDay};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

use crate::{
    WorkspaceDay, caught,
    day::Taken,
    dead_letters::{self, Refused},
    evaluate::{self, Effort},
    features, lock,
    project::{self, Projection},
    schedule::{Dirty, Folded, Job, Pending, Room, Step},
    shared::{Extent, Shared, add},
};

/// Number of days folded at once. Nothing else takes these places, so appended events never wait for an evaluation.
const FOLDS_AT_ONCE: usize = 4;

/// Number of days for which a step is made at once, beside those that are folded: fewer than SQLite has connections for reading,
/// so that one is left for folds.
const STEPS_AT_ONCE: usize = 3;

/// Approximate number of rows held in memory for evaluations at once, in thousands: those of two large days.
const KILOROWS_AT_ONCE: usize = 2 * KILOROWS_OF_DAY;

/// Maximum number of rows of a day held in memory, in thousands.
const KILOROWS_OF_DAY: usize = evaluate::ROWS_AT_ONCE / 1_000;

/// Maximum days with work between two sweeps that are remembered.
const MAX_TOUCHED: usize = 10_000;

/// Result of a job.
enum Done {
    Folded(WorkspaceDay, Dirty, Result<Written>),
    Step((WorkspaceDay, Step), Pending, Instant, Result<Made>),
}

/// Result of folding.
struct Written {
    folded: Folded,
    taken: Taken,
    segments: u64,
    retries: u64,
}

/// Result of a step after the fold.
enum Made {
    Stored(Effort),
    /// Another version is active by now; the day must be checked again.
    Outdated,
}

/// Number of days in work.
#[derive(Debug, Default)]
struct Busy {
    folding: usize,
    stepping: usize,
}

impl Busy {
    fn room(&self) -> Room {
        Room { to_fold: self.folding < FOLDS_AT_ONCE, to_step: self.stepping < STEPS_AT_ONCE }
    }

    fn begins(&mut self, job: &Job) {
        match job {
            Job::Fold(..) => self.folding += 1,
            Job::Step(..) => self.stepping += 1,
        }
    }

    fn ends(&mut self, done: &Done) {
        match done {
            Done::Folded(..) => self.folding -= 1,
            Done::Step(..) => self.stepping -= 1,
        }
    }
}

/// Works forever.
pub(crate) async fn run(shared: &Arc<Shared>) -> Result<()> {
    let room = Arc::new(Semaphore::new(KILOROWS_AT_ONCE));
    let (mut jobs, mut busy) = (JoinSet::new(), Busy::default());
    loop {
        loop {
            let Some(job) = shared.schedule().next(Instant::now(), busy.room()) else { break };
            busy.begins(&job);
            let (shared, room) = (Arc::clone(shared), Arc::clone(&room));
            jobs.spawn(async move { shared.work_on(job, &room).await });
        }
        let next = shared.schedule().next_at(busy.room());
        tokio::select! {
            biased;
            Some(done) = jobs.join_next() => {
                // A job catches its failures itself, so this is the end of the process.
                let done = done.map_err(|error| Error::unavailable("working on a day failed").because(error))?;
                busy.ends(&done);
                shared.settle(done).await;
            }
            () = shared.work.notified() => {}
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

impl Shared {
    async fn work_on(&self, job: Job, room: &Semaphore) -> Done {
        match job {
            Job::Fold(day, dirty) => {
                let folded = caught::whole(self.fold(&day, &dirty)).await;
                Done::Folded(day, dirty, folded)
            }
            Job::Step(day, step @ Step::Sketch, pending) => {
                let started = Instant::now();
                let made = caught::whole(self.sketch(&day, &pending)).await;
                Done::Step((day, step), pending, started, made)
            }
            Job::Step(day, step @ Step::Evaluate, pending) => {
                let kilorows = (pending.events as usize / 1_000).clamp(1, KILOROWS_OF_DAY);
                // The semaphore is never closed, so a permit is obtained.
                let _permit = room.acquire_many(kilorows as u32).await;
                let started = Instant::now();
                let made = caught::whole(self.evaluate(&day, &pending)).await;
                Done::Step((day, step), pending, started, made)
            }
        }
    }

    async fn fold(&self, day: &WorkspaceDay, dirty: &Dirty) -> Result<Written> {
        let began = Instant::now();
        let table = &*self.table;
        // Read each time: after a rebuild, later events belong to the new version.
        let version = active::load(table, &day.workspace).await?.version;
        let segment_cache = &self.options.segment_cache;
        let projection = project::project_handed(table, segment_cache, version, day, &dirty.logs).await?;
        for stopped in &projection.stopped {
            self.note(version, stopped, Refused::Rollup).await?;
        }
        for unrecorded in &projection.unrecorded {
            self.note_unrecorded(unrecorded);
        }
        let has_letters = lock(&self.stopped).get(&day.workspace).is_some_and(|count| *count > 0);
        if has_letters && projection.segments > 0 {
            // Bytes of a segment may have been restored. A sweep finds those that another worker folds.
            dead_letters::clear(table, version, day, Refused::Rollup, &projection.applied).await?;
        }
        // Done also for a day folded before: its worker may have died before it did the rest.
        if dirty.logs.iter().any(|log| log.kind == Kind::Releases) {
            self.rank(&day.workspace).await?;
            // A definition holds from a day on: a sweep finds the days that do not know it. No checkpoint moves past the event
            // before those are evaluated.
            self.ask_for_sweep_under(dirty.mark, Extent::Workspace(day.workspace.clone()));
        } else if dirty.logs.iter().any(|log| log.kind == Kind::Metrics) {
            let settings = self.catalog.settings(&day.workspace).await?;
            if settings.primary_metric.is_some_and(|primary| primary.metric.logged().is_some()) {
                self.rank(&day.workspace).await?;
            }
        }
        let Projection { rollup, applied, grown, segments, taken, has_features, retries, .. } = projection;
        let kinds = [Kind::Predictions, Kind::Outcomes];
        let events = kinds.map(|kind| rollup.events(kind)).iter().sum();
        let folded = Folded { version, applied, events, grown, has_features, took: began.elapsed() };
        Ok(Written { folded, taken, segments, retries })
    }

    async fn sketch(&self, day: &WorkspaceDay, pending: &Pending) -> Result<Made> {
        let table = &*self.table;
        if active::load(table, &day.workspace).await?.version != pending.version {
            return Ok(Made::Outdated);
        }
        let effort = features::sketch(table, pending.version, day, &pending.applied).await?;
        for stopped in &effort.stopped {
            self.note(pending.version, stopped, Refused::Features).await?;
        }
        Ok(Made::Stored(effort))
    }

    async fn evaluate(&self, day: &WorkspaceDay, pending: &Pending) -> Result<Made> {
        let table = &*self.table;
        if active::load(table, &day.workspace).await?.version != pending.version {
            return Ok(Made::Outdated);
        }
        let effort = evaluate::evaluate(table, pending.version, day, &pending.applied).await?;
        for stopped in &effort.stopped {
            self.note(pending.version, stopped, Refused::Evaluation).await?;
        }
        if effort.rows > 0 {
            self.rank(&day.workspace).await?;
        }
        Ok(Made::Stored(effort))
    }

    /// Marks a day for the next sweep, however old the day is.
    fn touch(&self, day: &WorkspaceDay) {
        let mut touched = lock(&self.touched);
        if touched.len() < MAX_TOUCHED {
            touched.insert(day.clone());
        }
    }

    async fn settle(&self, done: Done) {
        let now = Instant::now();
        let (Done::Folded(day, ..) | Done::Step((day, _), ..)) = &done;
        self.touch(day);
        match done {
            Done::Folded(day, dirty, Ok(written)) => {
                add(&self.stats.segments, written.segments);
                add(&self.stats.retries, written.retries);
                self.stats.meters.folded(&written.taken, written.folded.took);
                tracing::debug!(
                    workspace = %day.workspace,
                    day = %day.day,
                    segments = written.segments,
                    rows = written.taken.rows.values().sum::<u64>(),
                    lag_seconds = (now - dirty.since).as_secs_f64(),
                    "folded"
                );
                self.written(&day, OfDay::Rollup).await;
                let has = |kind| dirty.logs.iter().any(|log| log.kind == kind);
                self.look_for_unmatched(&day.workspace, has(Kind::Unmatched), has(Kind::Predictions), now);
                self.schedule().folded(&day, dirty, now, written.folded);
            }
            Done::Folded(day, dirty, Err(error)) if error.may_pass() => {
                tracing::warn!(workspace = %day.workspace, day = %day.day, %error, "the table is not available; trying again");
                self.schedule().not_folded(&day, dirty, now);
            }
            Done::Folded(day, dirty, Err(error)) => {
                match self.note_unwritten(&day, OfDay::Rollup, &error).await {
                    Ok(()) => self.schedule().gave_up_folding(&day, &dirty),
                    Err(_) => self.schedule().not_folded(&day, dirty, now),
                }
            }
            Done::Step(step, pending, started, Ok(Made::Stored(effort))) => {
                add(&self.stats.evaluated_rows, effort.rows);
                add(&self.stats.retries, effort.retries);
                let (day, of) = (&step.0, step.1);
                if of == Step::Evaluate {
                    self.stats.meters.evaluated(now - started);
                }
                tracing::debug!(
                    workspace = %day.workspace,
                    day = %day.day,
                    rows = effort.rows,
                    lag_seconds = (now - pending.since).as_secs_f64(),
                    "{} written",
                    of.writes().name()
                );
                if effort.stopped.is_empty() {
                    self.written(day, of.writes()).await;
                }
                self.schedule().made(&step, &pending, (started, now));
            }
            Done::Step(step, pending, started, Ok(Made::Outdated)) => {
                let mut schedule = self.schedule();
                schedule.mark(step.0.clone(), None, Some(pending.mark), now);
                schedule.made(&step, &pending, (started, now));
            }
            Done::Step(step, pending, _, Err(error)) if error.may_pass() => {
                let day = &step.0;
                tracing::warn!(workspace = %day.workspace, day = %day.day, %error, "the table is not available; trying again");
                self.schedule().not_made(&step, pending, now);
            }
            Done::Step(step, pending, started, Err(error)) => {
                match self.note_unwritten(&step.0, step.1.writes(), &error).await {
                    Ok(()) => self.schedule().made(&step, &pending, (started, now)),
                    Err(_) => self.schedule().not_made(&step, pending, now),
                }
            }
        }
    }
}
