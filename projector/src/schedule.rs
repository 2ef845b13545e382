//! Schedule of a worker: days to fold, and then days to evaluate and features to sketch.
//!
//! Every task of a worker gets a mark, a number that grows. A mark is settled when its tasks, and everything before it, are
//! written. A checkpoint waits until the mark of the changes before it is settled. The schedule knows no table and no clock.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use event::{Id, Kind};
use log::{
    key::{LogId, OfDay},
    projection::Applied,
};
use tokio::time::Instant;

use crate::WorkspaceDay;

/// Share by which the events of a day must grow since its last evaluation for the next one: so a day that grows in many small
/// steps is read at most three times over.
const GROWTH: f64 = 1.0;
/// Time without a change after which a day is evaluated.
pub(crate) const QUIET: Duration = Duration::from_millis(300);
/// Time after an evaluation, as a multiple of its duration, before a quiet day is evaluated again: so evaluating a day that
/// changes a little every second takes a bounded share of the time.
const REST: u32 = 10;
/// Maximum time from a change to the evaluation; a multiple of the last duration may extend it.
const LATEST: Duration = Duration::from_secs(60);
/// Maximum time from a change to the first evaluation of a day that is not quiet: a day that is loaded as a whole is read once.
const FIRST: Duration = Duration::from_secs(5);
/// Divisor of the segments of a day: a day that grew by a smaller part of them rests between folds, so that a trickle does not
/// write the parts of its rollup again for each event. It rests for [`Options::rest`](crate::Options::rest), or longer by
/// `FOLD_REST`.
pub const SMALL: u64 = 64;
/// Minimum rest as a multiple of the duration of the last fold: so folding a trickle takes a fifth of the time at most.
const FOLD_REST: u32 = 4;
/// Maximum rest by that rule: a fold that took longer had much to fold, or waited for the table.
const LONGEST_FOLD_REST: Duration = Duration::from_secs(2);
/// Minimum time between two sketches of the features of a day.
const SKETCH_EVERY: Duration = Duration::from_secs(60);
/// Share by which the events of a day must grow since a step for the next one not to rest for what it costs.
const PAID_GROWTH: f64 = 0.125;
/// Minimum time between two steps of a day for each event that is read again, where reads are paid.
const PAID_REST_OF_EVENT: Duration = Duration::from_micros(900);
/// Maximum rest by that rule.
const LONGEST_PAID_REST: Duration = Duration::from_secs(15 * 60);
/// Maximum evaluations that are remembered.
const MAX_REMEMBERED: usize = 10_000;
/// Time to wait after a failure of the table.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Changed day that is not folded yet.
#[derive(Clone, Debug)]
pub(crate) struct Dirty {
    pub(crate) logs: BTreeSet<LogId>,
    /// Number of times that its logs were named.
    pub(crate) announced: u64,
    pub(crate) mark: u64,
    pub(crate) since: Instant,
    not_before: Instant,
    /// True if there is another cause than a new segment of events, which does not wait.
    is_urgent: bool,
}

/// Step for a day after its fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Step {
    /// Evaluates its predictions by its outcomes.
    Evaluate,
    /// Sketches its features.
    Sketch,
}

impl Step {
    /// Projection that it writes.
    pub(crate) fn writes(self) -> OfDay {
        match self {
            Self::Evaluate => OfDay::Evaluation,
            Self::Sketch => OfDay::Features,
        }
    }
}

/// Folded day with a step that it waits for.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// Version of the projections that was folded.
    pub(crate) version: u32,
    pub(crate) applied: Applied,
    /// Number of predictions and outcomes.
    pub(crate) events: u64,
    pub(crate) mark: u64,
    /// Instants of the first change since, and of the last.
    pub(crate) since: Instant,
    pub(crate) changed: Instant,
    not_before: Instant,
}

/// Last run of a step for a day.
#[derive(Clone, Copy, Debug)]
struct Made {
    events: u64,
    ended: Instant,
    took: Duration,
}

/// Last fold of a day.
#[derive(Clone, Copy, Debug)]
struct Fold {
    segments: u64,
    /// Instant until which the day rests if it has grown a little.
    rests_until: Instant,
}

/// Task of the schedule.
#[derive(Debug)]
pub(crate) enum Job {
    Fold(WorkspaceDay, Dirty),
    Step(WorkspaceDay, Step, Pending),
}

/// Room for tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) to_fold: bool,
    /// True if there is room for steps after the fold.
    pub(crate) to_step: bool,
}

/// Schedule of all tasks.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    marks: u64,
    /// Marks that are not settled, with the number of tasks that carry each.
    unsettled: BTreeMap<u64, usize>,
    queue: VecDeque<WorkspaceDay>,
    dirty: BTreeMap<WorkspaceDay, Dirty>,
    folding: BTreeSet<WorkspaceDay>,
    /// Days whose fold has not succeeded yet, with the instant of the first try.
    tried: BTreeMap<WorkspaceDay, Instant>,
    pending: BTreeMap<(WorkspaceDay, Step), Pending>,
    stepping: BTreeSet<(WorkspaceDay, Step)>,
    /// Instant at which a step last began in each workspace.
    turns: BTreeMap<Id, Instant>,
    made: BTreeMap<(WorkspaceDay, Step), Made>,
    rest: Duration,
    folds: BTreeMap<WorkspaceDay, Fold>,
    /// Number of folds that were left at the last check of all.
    folds_looked_at: usize,
}

impl Schedule {
    /// Creates an empty schedule. A day that grows a little rests at least `rest` between folds.
    pub(crate) fn resting(rest: Duration) -> Self {
        Self { rest, ..Self::default() }
    }

    /// Creates a new mark, unsettled until it is released.
    pub(crate) fn hold(&mut self) -> u64 {
        self.marks += 1;
        self.carry(self.marks);
        self.marks
    }

    /// Adds a task that carries a mark that is not settled.
    pub(crate) fn carry(&mut self, mark: u64) {
        *self.unsettled.entry(mark).or_default() += 1;
    }

    /// Releases `mark` after a task that carried it is done, or has handed it on.
    pub(crate) fn release(&mut self, mark: u64) {
        if let Some(count) = self.unsettled.get_mut(&mark) {
            *count -= 1;
            if *count == 0 {
                self.unsettled.remove(&mark);
            }
        }
    }

    /// Newest mark.
    pub(crate) fn newest(&self) -> u64 {
        self.marks
    }

    /// Returns whether everything up to `mark` is written.
    pub(crate) fn is_settled(&self, mark: u64) -> bool {
        self.unsettled.first_key_value().is_none_or(|(oldest, _)| *oldest > mark)
    }

    /// Records that a day changed, under a mark of its own or that of the sweep that found it.
    pub(crate) fn mark(&mut self, day: WorkspaceDay, log: Option<LogId>, mark: Option<u64>, now: Instant) {
        let mark = mark.unwrap_or_else(|| self.next_mark());
        let announced = u64::from(log.is_some());
        let logs = log.into_iter().collect();
        self.add(day, Dirty { logs, announced, mark, since: now, not_before: now, is_urgent: true });
    }

    /// Records that a log has a new segment. Release events do not wait.
    pub(crate) fn mark_grown(&mut self, log: LogId, now: Instant) {
        let (mark, is_urgent) = (self.next_mark(), log.kind == Kind::Releases);
        let day = WorkspaceDay { workspace: log.workspace.clone(), day: log.day };
        let logs = BTreeSet::from([log]);
        self.add(day, Dirty { logs, announced: 1, mark, since: now, not_before: now, is_urgent });
    }

    fn next_mark(&mut self) -> u64 {
        self.marks += 1;
        self.marks
    }

    fn add(&mut self, day: WorkspaceDay, new: Dirty) {
        self.carry(new.mark);
        match self.dirty.get_mut(&day) {
            None => {
                self.queue.push_back(day.clone());
                self.dirty.insert(day, new);
            }
            Some(known) => {
                let later = known.mark.max(new.mark);
                known.mark = known.mark.min(new.mark);
                known.logs.extend(new.logs);
                known.announced += new.announced;
                known.is_urgent |= new.is_urgent;
                known.since = known.since.min(new.since);
                known.not_before = known.not_before.max(new.not_before);
                self.release(later);
            }
        }
    }

    /// Takes the next task that is ready at `now` and for which there is room: the earliest dirty day first, and folds before all
    /// later steps. Of these, the workspaces take turns, and in each the day that has waited longest is next.
    pub(crate) fn next(&mut self, now: Instant, room: Room) -> Option<Job> {
        let is_ready = |day: &WorkspaceDay| {
            !self.folding.contains(day)
                && self.dirty.get(day).is_some_and(|dirty| self.fold_due_at(day, dirty) <= now)
        };
        if room.to_fold
            && let Some(at) = self.queue.iter().position(is_ready)
            && let Some(day) = self.queue.remove(at)
            && let Some(dirty) = self.dirty.remove(&day)
        {
            self.folding.insert(day.clone());
            self.tried.entry(day.clone()).or_insert(now);
            return Some(Job::Fold(day, dirty));
        }
        let due = self.pending.iter().filter(|_| room.to_step).filter(|(step, pending)| {
            !self.stepping.contains(*step) && self.step_due_at(step, pending) <= now
        });
        let next = due.min_by_key(|((day, _), pending)| (self.turns.get(&day.workspace), pending.since));
        let step = next.map(|(step, _)| step.clone())?;
        let pending = self.pending.remove(&step)?;
        self.stepping.insert(step.clone());
        if self.turns.len() > MAX_REMEMBERED {
            self.turns.retain(|_, last| now - *last < LATEST);
        }
        self.turns.insert(step.0.workspace.clone(), now);
        Some(Job::Step(step.0, step.1, pending))
    }

    /// Instant at which a day should be folded, as of now.
    fn fold_due_at(&self, day: &WorkspaceDay, dirty: &Dirty) -> Instant {
        let is_small = |last: &&Fold| !dirty.is_urgent && dirty.announced * SMALL < last.segments;
        let last = self.folds.get(day).filter(is_small);
        last.map_or(dirty.not_before, |last| dirty.not_before.max(last.rests_until))
    }

    /// Instant at which a step should be made, as of now. Where folds rest, reads are paid.
    fn step_due_at(&self, step: &(WorkspaceDay, Step), pending: &Pending) -> Instant {
        pending.due_at(step.1, self.made.get(step), !self.rest.is_zero())
    }

    /// Earliest instant at which a task may become ready, among tasks for which there is room.
    pub(crate) fn next_at(&self, room: Room) -> Option<Instant> {
        let dirty = self.dirty.iter().filter(|(day, _)| room.to_fold && !self.folding.contains(*day));
        let pending = self.pending.iter();
        let pending = pending.filter(|(step, _)| room.to_step && !self.stepping.contains(*step));
        let dirty = dirty.map(|(day, dirty)| self.fold_due_at(day, dirty));
        dirty.chain(pending.map(|(step, pending)| self.step_due_at(step, pending))).min()
    }

    /// Records a folded day, which is then evaluated, and sketched if it has features.
    pub(crate) fn folded(&mut self, day: &WorkspaceDay, done: Dirty, now: Instant, folded: Folded) {
        self.folding.remove(day);
        self.tried.remove(day);
        self.note_fold(day, &folded, now);
        let sketched = folded.has_features.then_some(Step::Sketch);
        for step in [Step::Evaluate].into_iter().chain(sketched) {
            self.carry(done.mark);
            self.wait_for((day.clone(), step), done.mark, now, &folded);
        }
        self.release(done.mark);
    }

    fn note_fold(&mut self, day: &WorkspaceDay, folded: &Folded, now: Instant) {
        let rests_until = now + self.rest.max((folded.took * FOLD_REST).min(LONGEST_FOLD_REST));
        self.folds.insert(day.clone(), Fold { segments: folded.applied.values().sum(), rests_until });
        // Folds that have rested are of no use any more. Until the next check there may be half as many more.
        if self.folds.len() > MAX_REMEMBERED.max(self.folds_looked_at * 3 / 2) {
            self.folds.retain(|_, last| last.rests_until > now);
            self.folds_looked_at = self.folds.len();
        }
    }

    fn wait_for(&mut self, step: (WorkspaceDay, Step), mark: u64, now: Instant, folded: &Folded) {
        let Folded { version, events, grown, .. } = *folded;
        match self.pending.get_mut(&step) {
            None => {
                let applied = folded.applied.clone();
                let (since, changed, not_before) = (now, now, now);
                let new = Pending { version, applied, events, mark, since, changed, not_before };
                self.pending.insert(step, new);
            }
            Some(known) => {
                let later = known.mark.max(mark);
                known.mark = known.mark.min(mark);
                (known.version, known.applied, known.events) = (version, folded.applied.clone(), events);
                if grown {
                    known.changed = now;
                }
                self.release(later);
            }
        }
    }

    /// Schedules a day again that could not be folded now.
    pub(crate) fn not_folded(&mut self, day: &WorkspaceDay, dirty: Dirty, now: Instant) {
        self.folding.remove(day);
        let mark = dirty.mark;
        self.add(day.clone(), Dirty { not_before: now + RETRY_AFTER, ..dirty });
        self.release(mark);
    }

    /// Gives up a day that cannot be folded.
    pub(crate) fn gave_up_folding(&mut self, day: &WorkspaceDay, dirty: &Dirty) {
        self.folding.remove(day);
        self.tried.remove(day);
        self.release(dirty.mark);
    }

    /// Records a step that was made for a day, or cannot be.
    pub(crate) fn made(
        &mut self,
        step: &(WorkspaceDay, Step),
        done: &Pending,
        (started, ended): (Instant, Instant),
    ) {
        self.stepping.remove(step);
        self.release(done.mark);
        let last = Made { events: done.events, ended, took: ended - started };
        self.made.insert(step.clone(), last);
        // The oldest matter least.
        if self.made.len() > MAX_REMEMBERED {
            self.made.retain(|_, last| ended - last.ended < LATEST);
        }
    }

    /// Schedules a step again that could not be made now, with everything folded since.
    pub(crate) fn not_made(&mut self, step: &(WorkspaceDay, Step), pending: Pending, now: Instant) {
        self.stepping.remove(step);
        match self.pending.get_mut(step) {
            None => {
                let again = Pending { not_before: now + RETRY_AFTER, ..pending };
                self.pending.insert(step.clone(), again);
            }
            Some(newer) => {
                let later = newer.mark.max(pending.mark);
                newer.mark = newer.mark.min(pending.mark);
                newer.since = newer.since.min(pending.since);
                newer.not_before = now + RETRY_AFTER;
                self.release(later);
            }
        }
    }

    /// Number of days that are folded and not evaluated.
    pub(crate) fn unevaluated(&self) -> usize {
        let is_evaluation = |(_, step): &&(WorkspaceDay, Step)| *step == Step::Evaluate;
        self.pending.keys().chain(&self.stepping).filter(is_evaluation).count()
    }

    /// Returns the instant of the first try of the oldest fold that has not succeeded yet.
    pub(crate) fn tried_since(&self) -> Option<Instant> {
        self.tried.values().min().copied()
    }

    /// Number of days that are not folded yet, number of changes that announced them, and instant since which the oldest waits.
    pub(crate) fn backlog(&self) -> (usize, u64, Option<Instant>) {
        let announced = self.dirty.values().map(|dirty| dirty.announced).sum();
        let oldest = self.dirty.values().map(|dirty| dirty.since).min();
        (self.dirty.len() + self.folding.len(), announced, oldest)
    }
}

/// Result of folding a day.
#[derive(Debug)]
pub(crate) struct Folded {
    pub(crate) version: u32,
    pub(crate) applied: Applied,
    pub(crate) events: u64,
    pub(crate) grown: bool,
    pub(crate) has_features: bool,
    /// Duration of the fold.
    pub(crate) took: Duration,
}

impl Pending {
    /// Instant at which the step should be made, as of now.
    fn due_at(&self, step: Step, last: Option<&Made>, is_paid: bool) -> Instant {
        let first = (self.changed + QUIET).min(self.since + FIRST).max(self.not_before);
        let Some(last) = last else { return first };
        let has_grown_by = |share| self.events as f64 >= last.events as f64 * (1.0 + share);
        let paid_rest = match is_paid && !has_grown_by(PAID_GROWTH) {
            true => LONGEST_PAID_REST.min(PAID_REST_OF_EVENT.saturating_mul(self.events.min(1 << 31) as u32)),
            false => Duration::ZERO,
        };
        if step == Step::Sketch {
            return first.max(last.ended + SKETCH_EVERY.max(paid_rest));
        }
        if has_grown_by(GROWTH) && self.events > 0 {
            return self.not_before;
        }
        let rested = last.ended + paid_rest.max(last.took * REST);
        let quiet = (self.changed + QUIET).max(rested);
        let latest = (self.since + LATEST).max(rested);
        quiet.min(latest).max(self.not_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Room for everything.
    const ALL: Room = Room { to_fold: true, to_step: true };

    fn day(number: u8) -> WorkspaceDay {
        WorkspaceDay {
            workspace: Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(),
            day: format!("2026-{:02}-{:02}", 5 + number / 28, 1 + number % 28).parse().unwrap(),
        }
    }

    fn log(day: &WorkspaceDay, lane: u8) -> LogId {
        LogId { workspace: day.workspace.clone(), day: day.day, kind: Kind::Predictions, lane }
    }

    fn folded(events: u64) -> Folded {
        let (applied, took) = (Applied::new(), Duration::ZERO);
        Folded { version: 1, applied, events, grown: true, has_features: false, took }
    }

    fn fold(schedule: &mut Schedule, now: Instant) -> (WorkspaceDay, Dirty) {
        match schedule.next(now, ALL) {
            Some(Job::Fold(day, dirty)) => (day, dirty),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn evaluation_is_due_by_growth_rest_or_wait() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let due = |events, since, changed, last: Option<&Made>| {
            let (since, changed) = (after(since), after(changed));
            let applied = Applied::new();
            Pending { version: 1, applied, events, mark: 1, since, changed, not_before: start }.due_at(
                Step::Evaluate,
                last,
                false,
            )
        };
        let last = Made { events: 1_000, ended: start, took: Duration::from_millis(200) };
        assert_eq!(due(1, 0, 10, None), after(310), "never evaluated, and quiet");
        assert_eq!(due(1, 0, 4_999, None), after(5_000), "never evaluated, and never quiet");
        assert_eq!(due(2_000, 0, 10, Some(&last)), start, "grown to twice as much");
        let empty = Made { events: 0, ..last };
        assert_eq!(due(0, 0, 1_900, Some(&empty)), after(2_200), "nothing to judge, but other events");
        assert_eq!(due(1_999, 0, 10, Some(&last)), after(2_000), "quiet, and rested");
        assert_eq!(due(1_999, 0, 2_500, Some(&last)), after(2_800), "rested, and quiet");
        assert_eq!(due(1_999, 0, 59_999, Some(&last)), after(60_000), "never quiet");
    }

    #[test]
    fn paid_evaluation_rests_for_its_events_unless_grown() {
        let start = Instant::now();
        let due = |events, of_last| {
            let (applied, since) = (Applied::new(), start + Duration::from_secs(1));
            let pending =
                Pending { version: 1, applied, events, mark: 1, since, changed: since, not_before: start };
            let last = Made { events: of_last, ended: start, took: Duration::from_secs(2) };
            pending.due_at(Step::Evaluate, Some(&last), true) - start
        };
        assert_eq!(due(1_001, 1_000), Duration::from_secs(20), "a small day rests for its duration alone");
        assert_eq!(due(100_000, 99_999), Duration::from_secs(90));
        assert_eq!(due(20_000_000, 19_999_999), LONGEST_PAID_REST);
        assert_eq!(due(112_500, 100_000), Duration::from_secs(20), "grown by an eighth");
    }

    #[test]
    fn mark_settles_after_folding_and_evaluation() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        assert!(schedule.is_settled(0));
        schedule.mark(day(1), Some(log(&day(1), 0)), None, now);
        let first = schedule.newest();
        schedule.mark(day(2), Some(log(&day(2), 0)), None, now);
        schedule.mark(day(1), Some(log(&day(1), 1)), None, now);
        let last = schedule.newest();
        let (one, dirty_one) = fold(&mut schedule, now);
        assert_eq!((one.clone(), dirty_one.logs.len()), (day(1), 2));
        let (two, dirty_two) = fold(&mut schedule, now);
        schedule.folded(&two, dirty_two, now, folded(1));
        assert!(!schedule.is_settled(first), "the first is still being folded");
        // It changes again meanwhile.
        schedule.mark(day(1), Some(log(&day(1), 2)), None, now);
        let now = now + QUIET;
        let Some(Job::Step(two, Step::Evaluate, pending)) = schedule.next(now, ALL) else {
            panic!("never evaluated")
        };
        assert_eq!(two, day(2));
        schedule.made(&(two, Step::Evaluate), &pending, (now, now));
        schedule.folded(&one, dirty_one, now, folded(1));
        assert!(!schedule.is_settled(first), "folded, but not evaluated");
        let (one, dirty_one) = fold(&mut schedule, now);
        schedule.folded(&one, dirty_one, now, folded(2));
        let now = now + QUIET;
        let Some(Job::Step(one, Step::Evaluate, pending)) = schedule.next(now, ALL) else {
            panic!("never evaluated")
        };
        schedule.made(&(one, Step::Evaluate), &pending, (now, now));
        assert!(schedule.is_settled(last) && schedule.is_settled(schedule.newest()));
        assert!(schedule.next(now, ALL).is_none() && schedule.next_at(ALL).is_none());
    }

    #[test]
    fn features_are_sketched_each_minute_before_mark_settles() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        let with_features = |events| Folded { has_features: true, ..folded(events) };
        let step = |schedule: &mut Schedule, now: Instant| match schedule.next(now, ALL) {
            Some(Job::Step(day, step, pending)) => (day, step, pending),
            other => panic!("{other:?}"),
        };
        let mut now = start;
        for (events, due) in [(1, start + QUIET), (2, start + QUIET + SKETCH_EVERY)] {
            schedule.mark(day(1), Some(log(&day(1), 0)), None, now);
            let mark = schedule.newest();
            let (one, dirty) = fold(&mut schedule, now);
            schedule.folded(&one, dirty, now, with_features(events));
            now = schedule.next_at(ALL).unwrap();
            let (one, first, pending) = step(&mut schedule, now);
            assert_eq!(first, Step::Evaluate);
            schedule.made(&(one, first), &pending, (now, now));
            assert!(!schedule.is_settled(mark) && schedule.unevaluated() == 0);
            assert_eq!(schedule.next_at(ALL), Some(due));
            now = due;
            let (one, second, pending) = step(&mut schedule, now);
            assert_eq!((second, pending.events), (Step::Sketch, events));
            schedule.made(&(one, second), &pending, (now, now));
            assert!(schedule.is_settled(mark));
        }
    }

    #[test]
    fn days_found_by_sweep_delay_its_mark() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        let sweep = schedule.hold();
        schedule.mark(day(1), None, Some(sweep), now);
        schedule.release(sweep);
        assert!(!schedule.is_settled(sweep));
        let (one, dirty) = fold(&mut schedule, now);
        schedule.gave_up_folding(&one, &dirty);
        assert!(schedule.is_settled(sweep));
    }

    #[test]
    fn without_room_to_step_days_are_folded_still() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.mark(day(1), Some(log(&day(1), 0)), None, now);
        let (one, dirty) = fold(&mut schedule, now);
        schedule.folded(&one, dirty, now, folded(1));
        let (now, folds) = (now + QUIET, Room { to_step: false, ..ALL });
        assert!(schedule.next(now, folds).is_none());
        assert_eq!(schedule.next_at(folds), None, "nobody waits for what there is no room for");
        schedule.mark(day(2), Some(log(&day(2), 0)), None, now);
        assert!(matches!(schedule.next(now, folds), Some(Job::Fold(two, _)) if two == day(2)));
        assert!(matches!(schedule.next(now, ALL), Some(Job::Step(one, Step::Evaluate, _)) if one == day(1)));
    }

    #[test]
    fn failed_fold_is_retried_under_its_mark() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.mark(day(1), Some(log(&day(1), 0)), None, now);
        let mark = schedule.newest();
        let (one, dirty) = fold(&mut schedule, now);
        schedule.mark(day(1), Some(log(&day(1), 1)), None, now);
        schedule.not_folded(&one, dirty, now);
        assert!(!schedule.is_settled(mark));
        assert!(schedule.next(now, ALL).is_none());
        assert_eq!(schedule.next_at(ALL), Some(now + RETRY_AFTER));
        let later = now + RETRY_AFTER;
        let (one, dirty) = fold(&mut schedule, later);
        assert_eq!((dirty.mark, dirty.logs.len(), dirty.announced), (mark, 2, 2));
        schedule.mark(day(2), None, None, later);
        let (two, other) = fold(&mut schedule, later);
        schedule.folded(&two, other, later, folded(1));
        assert_eq!(schedule.tried_since(), Some(now), "a day that cannot be folded, beside one that can");
        schedule.folded(&one, dirty, later, folded(1));
        assert_eq!(schedule.tried_since(), None);
    }

    #[test]
    fn slowly_growing_day_rests_except_for_urgent_work() {
        let (start, rest) = (Instant::now(), Duration::from_secs(15));
        let mut schedule = Schedule::resting(rest);
        let large = || Folded { applied: Applied::from([("p/00".to_owned(), 2 * SMALL)]), ..folded(200) };
        let mut now = start;
        let refold = |schedule: &mut Schedule, now| {
            let (day, dirty) = fold(schedule, now);
            schedule.folded(&day, dirty, now, large());
            while let Some(Job::Step(day, step, pending)) = schedule.next(now + QUIET, ALL) {
                schedule.made(&(day, step), &pending, (now, now));
            }
        };
        schedule.mark_grown(log(&day(1), 0), now);
        refold(&mut schedule, now);
        now += Duration::from_secs(1);
        schedule.mark_grown(log(&day(1), 0), now);
        assert!(schedule.next(now, ALL).is_none(), "one segment more of many");
        assert_eq!(schedule.next_at(ALL), Some(start + rest));
        schedule.mark_grown(log(&day(1), 1), now);
        refold(&mut schedule, now);
        schedule.mark_grown(log(&day(1), 0), now);
        assert_eq!(schedule.next_at(ALL), Some(now + rest), "the rest begins again");
        schedule.mark(day(1), None, None, now);
        refold(&mut schedule, now);
        schedule.mark_grown(LogId { kind: Kind::Releases, ..log(&day(1), 0) }, now);
        refold(&mut schedule, now);
        now += rest;
        schedule.mark_grown(log(&day(1), 0), now);
        refold(&mut schedule, now);
        assert!(schedule.is_settled(schedule.newest()));
    }

    #[test]
    fn trickle_folding_is_limited_without_delaying_rare_events() {
        let (start, took) = (Instant::now(), Duration::from_millis(5));
        let mut schedule = Schedule::default();
        let of_many =
            || Folded { applied: Applied::from([("p/00".to_owned(), 100 * SMALL)]), took, ..folded(0) };
        let (mut folds, mut now) = (0, start);
        while now < start + Duration::from_secs(1) {
            schedule.mark_grown(log(&day(1), 0), now);
            if let Some(Job::Fold(day, dirty)) = schedule.next(now, Room { to_step: false, ..ALL }) {
                now += took;
                folds += 1;
                schedule.folded(&day, dirty, now, of_many());
            }
            now += Duration::from_millis(1);
        }
        assert!((35..=40).contains(&folds), "{folds} folds of 5 ms in a second");
        now += took * FOLD_REST;
        schedule.mark_grown(log(&day(1), 0), now);
        let (day, dirty) = fold(&mut schedule, now);
        // Duration of the load of a history.
        schedule.folded(&day, dirty, now, Folded { took: Duration::from_secs(600), ..of_many() });
        schedule.mark_grown(log(&day, 0), now);
        assert_eq!(schedule.next_at(Room { to_step: false, ..ALL }), Some(now + LONGEST_FOLD_REST));
    }

    /// Outcomes trickle into 50 days of one workspace and one day of another, more than there is time to evaluate.
    #[test]
    fn saturated_evaluations_wait_about_equally() {
        const DAYS: u8 = 50;
        let (start, took) = (Instant::now(), Duration::from_secs(2));
        let mut schedule = Schedule::default();
        let mut small = day(1);
        small.workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgW").unwrap();
        let days = || (1..=DAYS).map(day).chain([small.clone()]);
        let mut running: Vec<(Instant, (WorkspaceDay, Step), Pending)> = Vec::new();
        let mut waits = BTreeMap::<WorkspaceDay, Vec<Duration>>::new();
        for second in 0..600u64 {
            let now = start + Duration::from_secs(second);
            running.retain(|(began, step, pending)| {
                let is_over = now - *began >= took;
                if is_over {
                    schedule.made(step, pending, (*began, now));
                }
                !is_over
            });
            if second % 4 == 0 {
                days().for_each(|day| schedule.mark(day, None, None, now));
            }
            while let Some(job) = schedule.next(now, Room { to_fold: true, to_step: running.len() < 3 }) {
                match job {
                    Job::Fold(day, dirty) => schedule.folded(&day, dirty, now, folded(3_000)),
                    Job::Step(day, step, pending) => {
                        if second > 120 {
                            waits.entry(day.clone()).or_default().push(now - pending.since);
                        }
                        running.push((now, (day, step), pending));
                    }
                }
            }
        }
        let of_small = waits.remove(&small).unwrap();
        let longest = of_small.iter().max().unwrap();
        assert!(*longest <= took * REST + took * 2, "a workspace with one day waited {longest:?}");
        let counts: Vec<usize> = waits.values().map(Vec::len).collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(counts.len() == usize::from(DAYS) && most - least <= 2, "{counts:?}");
        let waits: Vec<f64> = waits.into_values().flatten().map(|wait| wait.as_secs_f64()).collect();
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        let longest = waits.iter().copied().fold(0.0, f64::max);
        assert!(longest <= 1.5 * mean, "{longest} s, {mean} s in the mean");
    }

    /// A day that grows by one segment after the other is evaluated so rarely that all evaluations together read at most three
    /// times the rows of a single one at the end.
    #[test]
    fn growing_day_evaluation_takes_at_most_three_passes() {
        let mut now = Instant::now();
        let mut schedule = Schedule::default();
        let (mut events, mut evaluated) = (0, 0);
        let mut drain = |schedule: &mut Schedule, events: u64, now: Instant| {
            while let Some(job) = schedule.next(now, ALL) {
                match job {
                    Job::Fold(day, dirty) => schedule.folded(&day, dirty, now, folded(events)),
                    Job::Step(day, step, pending) => {
                        evaluated += pending.events;
                        schedule.made(&(day, step), &pending, (now, now));
                    }
                }
            }
        };
        for _ in 0..2_000 {
            events += 10;
            now += Duration::from_millis(10);
            schedule.mark(day(1), Some(log(&day(1), 0)), None, now);
            drain(&mut schedule, events, now);
        }
        drain(&mut schedule, events, now + QUIET);
        assert!(evaluated <= 3 * events, "{evaluated} rows for {events}");
        assert!(evaluated >= events);
    }
}
