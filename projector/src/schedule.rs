//! What a worker has to do, and in which order: days to fold, and days to evaluate.
//!
//! Everything that a worker has to do gets a mark, a number that grows. A mark is settled when what
//! it stands for, and everything before it, is written. A checkpoint waits until the mark of what
//! was read before it is settled. It knows no table and no clock.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use log::{key::LogId, projection::Applied};
use tokio::time::Instant;

use crate::WorkspaceDay;

/// A day is evaluated when its events have grown by this share since it was last evaluated: so a
/// day that grows in many small steps is read at most three times over,
const GROWTH: f64 = 1.0;
/// or when it has not changed for this long,
pub(crate) const QUIET: Duration = Duration::from_millis(300);
/// and the last evaluation is this many times its own duration ago: so evaluating a day that changes
/// a little every second takes a bounded share of the time;
const REST: u32 = 10;
/// or at the latest this long after it changed, or the same multiple of its own duration;
const LATEST: Duration = Duration::from_secs(60);
/// for the first time, when it is quiet, or this long after it changed: a day that is loaded as a
/// whole is read once.
const FIRST: Duration = Duration::from_secs(5);
/// How many evaluations are remembered.
const MAX_REMEMBERED: usize = 10_000;
/// How long to wait after a failure of the table.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A day that changed and is not folded yet.
#[derive(Clone, Debug)]
pub(crate) struct Dirty {
    pub(crate) logs: BTreeSet<LogId>,
    /// How often its logs were named.
    pub(crate) told: u64,
    pub(crate) mark: u64,
    pub(crate) since: Instant,
    not_before: Instant,
}

/// A day that is folded and not evaluated yet.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// The version of the projections that was folded.
    pub(crate) version: u32,
    pub(crate) applied: Applied,
    /// Predictions and outcomes.
    pub(crate) events: u64,
    pub(crate) mark: u64,
    /// When it changed for the first time since, and for the last.
    pub(crate) since: Instant,
    pub(crate) changed: Instant,
    not_before: Instant,
}

/// When a day was last evaluated.
#[derive(Clone, Copy, Debug)]
struct Evaluated {
    events: u64,
    ended: Instant,
    took: Duration,
}

/// Something to do.
#[derive(Debug)]
pub(crate) enum Job {
    Fold(WorkspaceDay, Dirty),
    Evaluate(WorkspaceDay, Pending),
}

/// What there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) to_fold: bool,
    pub(crate) to_evaluate: bool,
}

/// All that is to be done.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    marks: u64,
    /// Marks that are not settled, with how many things carry each.
    unsettled: BTreeMap<u64, usize>,
    queue: VecDeque<WorkspaceDay>,
    dirty: BTreeMap<WorkspaceDay, Dirty>,
    folding: BTreeSet<WorkspaceDay>,
    pending: BTreeMap<WorkspaceDay, Pending>,
    evaluating: BTreeSet<WorkspaceDay>,
    evaluated: BTreeMap<WorkspaceDay, Evaluated>,
}

impl Schedule {
    /// A new mark, unsettled until it is released.
    pub(crate) fn hold(&mut self) -> u64 {
        self.marks += 1;
        self.carry(self.marks);
        self.marks
    }

    /// One more thing carries a mark that is not settled.
    pub(crate) fn carry(&mut self, mark: u64) {
        *self.unsettled.entry(mark).or_default() += 1;
    }

    /// What carried `mark` is done, or has handed it on.
    pub(crate) fn release(&mut self, mark: u64) {
        if let Some(count) = self.unsettled.get_mut(&mark) {
            *count -= 1;
            if *count == 0 {
                self.unsettled.remove(&mark);
            }
        }
    }

    /// The newest mark.
    pub(crate) fn newest(&self) -> u64 {
        self.marks
    }

    /// Whether everything up to `mark` is written.
    pub(crate) fn is_settled(&self, mark: u64) -> bool {
        self.unsettled.first_key_value().is_none_or(|(oldest, _)| *oldest > mark)
    }

    /// Notes that a day changed, under a mark of its own or that of the sweep that found it.
    pub(crate) fn mark(&mut self, day: WorkspaceDay, log: Option<LogId>, mark: Option<u64>, now: Instant) {
        let mark = mark.unwrap_or_else(|| {
            self.marks += 1;
            self.marks
        });
        let told = u64::from(log.is_some());
        let logs = log.into_iter().collect();
        self.add(day, Dirty { logs, told, mark, since: now, not_before: now });
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
                known.told += new.told;
                known.since = known.since.min(new.since);
                known.not_before = known.not_before.max(new.not_before);
                self.release(later);
            }
        }
    }

    /// The next thing to do, if there is any at `now` that there is room for: what was dirty first comes first,
    /// and folding before evaluating.
    pub(crate) fn next(&mut self, now: Instant, room: Room) -> Option<Job> {
        let is_ready = |day: &WorkspaceDay| {
            !self.folding.contains(day) && self.dirty.get(day).is_some_and(|dirty| dirty.not_before <= now)
        };
        if room.to_fold
            && let Some(at) = self.queue.iter().position(is_ready)
            && let Some(day) = self.queue.remove(at)
            && let Some(dirty) = self.dirty.remove(&day)
        {
            self.folding.insert(day.clone());
            return Some(Job::Fold(day, dirty));
        }
        let due = self.pending.iter().filter(|_| room.to_evaluate).find(|(day, pending)| {
            !self.evaluating.contains(*day) && pending.due_at(self.evaluated.get(*day)) <= now
        });
        let day = due.map(|(day, _)| day.clone())?;
        let pending = self.pending.remove(&day)?;
        self.evaluating.insert(day.clone());
        Some(Job::Evaluate(day, pending))
    }

    /// When there may be something to do that is not ready yet, of what there is room for.
    pub(crate) fn next_at(&self, room: Room) -> Option<Instant> {
        let dirty = self.dirty.iter().filter(|(day, _)| room.to_fold && !self.folding.contains(*day));
        let pending = self.pending.iter();
        let pending = pending.filter(|(day, _)| room.to_evaluate && !self.evaluating.contains(*day));
        let dirty = dirty.map(|(_, dirty)| dirty.not_before);
        dirty.chain(pending.map(|(day, pending)| pending.due_at(self.evaluated.get(day)))).min()
    }

    /// A day was folded: it is to be evaluated.
    pub(crate) fn folded(&mut self, day: &WorkspaceDay, done: Dirty, now: Instant, folded: Folded) {
        self.folding.remove(day);
        let Folded { version, applied, events, grown } = folded;
        match self.pending.get_mut(day) {
            None => {
                let new = Pending {
                    version,
                    applied,
                    events,
                    mark: done.mark,
                    since: now,
                    changed: now,
                    not_before: now,
                };
                self.pending.insert(day.clone(), new);
            }
            Some(known) => {
                let later = known.mark.max(done.mark);
                known.mark = known.mark.min(done.mark);
                (known.version, known.applied, known.events) = (version, applied, events);
                if grown {
                    known.changed = now;
                }
                self.release(later);
            }
        }
    }

    /// A day could not be folded now; it is tried again.
    pub(crate) fn not_folded(&mut self, day: &WorkspaceDay, dirty: Dirty, now: Instant) {
        self.folding.remove(day);
        let mark = dirty.mark;
        self.add(day.clone(), Dirty { not_before: now + RETRY_AFTER, ..dirty });
        self.release(mark);
    }

    /// A day cannot be folded.
    pub(crate) fn gave_up_folding(&mut self, day: &WorkspaceDay, dirty: &Dirty) {
        self.folding.remove(day);
        self.release(dirty.mark);
    }

    /// A day was evaluated, or cannot be.
    pub(crate) fn evaluated(
        &mut self,
        day: &WorkspaceDay,
        done: &Pending,
        (started, ended): (Instant, Instant),
    ) {
        self.evaluating.remove(day);
        self.release(done.mark);
        let last = Evaluated { events: done.events, ended, took: ended - started };
        self.evaluated.insert(day.clone(), last);
        // The oldest matter least.
        if self.evaluated.len() > MAX_REMEMBERED {
            self.evaluated.retain(|_, last| ended - last.ended < LATEST);
        }
    }

    /// A day could not be evaluated now; it is tried again, with what was folded since.
    pub(crate) fn not_evaluated(&mut self, day: &WorkspaceDay, pending: Pending, now: Instant) {
        self.evaluating.remove(day);
        match self.pending.get_mut(day) {
            None => {
                let again = Pending { not_before: now + RETRY_AFTER, ..pending };
                self.pending.insert(day.clone(), again);
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

    /// How many days are folded and not evaluated.
    pub(crate) fn unevaluated(&self) -> usize {
        self.pending.len() + self.evaluating.len()
    }

    /// How many days are not folded yet, how many changes announced them, and since when the oldest waits.
    pub(crate) fn backlog(&self) -> (usize, u64, Option<Instant>) {
        let told = self.dirty.values().map(|dirty| dirty.told).sum();
        let oldest = self.dirty.values().map(|dirty| dirty.since).min();
        (self.dirty.len() + self.folding.len(), told, oldest)
    }
}

/// What came of folding a day.
#[derive(Debug)]
pub(crate) struct Folded {
    pub(crate) version: u32,
    pub(crate) applied: Applied,
    pub(crate) events: u64,
    pub(crate) grown: bool,
}

impl Pending {
    /// When it should be evaluated, as things stand.
    fn due_at(&self, last: Option<&Evaluated>) -> Instant {
        let Some(last) = last else {
            return (self.changed + QUIET).min(self.since + FIRST).max(self.not_before);
        };
        if self.events as f64 >= last.events as f64 * (1.0 + GROWTH) {
            return self.not_before;
        }
        let rested = last.ended + last.took * REST;
        let quiet = (self.changed + QUIET).max(rested);
        let latest = (self.since + LATEST).max(rested);
        quiet.min(latest).max(self.not_before)
    }
}

#[cfg(test)]
mod tests {
    use event::{Id, Kind};

    use super::*;

    /// Room for everything.
    const ALL: Room = Room { to_fold: true, to_evaluate: true };

    fn day(number: u8) -> WorkspaceDay {
        WorkspaceDay {
            workspace: Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap(),
            day: format!("2026-06-{number:02}").parse().unwrap(),
        }
    }

    fn log(day: &WorkspaceDay, lane: u8) -> LogId {
        LogId { workspace: day.workspace.clone(), day: day.day, kind: Kind::Predictions, lane }
    }

    fn folded(events: u64) -> Folded {
        Folded { version: 1, applied: Applied::new(), events, grown: true }
    }

    fn fold(schedule: &mut Schedule, now: Instant) -> (WorkspaceDay, Dirty) {
        match schedule.next(now, ALL) {
            Some(Job::Fold(day, dirty)) => (day, dirty),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_day_is_evaluated_when_it_doubled_or_rested_or_waited_long() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let due = |events, since, changed, last: Option<&Evaluated>| {
            let (since, changed) = (after(since), after(changed));
            let applied = Applied::new();
            Pending { version: 1, applied, events, mark: 1, since, changed, not_before: start }.due_at(last)
        };
        let last = Evaluated { events: 1_000, ended: start, took: Duration::from_millis(200) };
        assert_eq!(due(1, 0, 10, None), after(310), "never evaluated, and quiet");
        assert_eq!(due(1, 0, 4_999, None), after(5_000), "never evaluated, and never quiet");
        assert_eq!(due(2_000, 0, 10, Some(&last)), start, "grown to twice as much");
        assert_eq!(due(1_999, 0, 10, Some(&last)), after(2_000), "quiet, and rested");
        assert_eq!(due(1_999, 0, 2_500, Some(&last)), after(2_800), "rested, and quiet");
        assert_eq!(due(1_999, 0, 59_999, Some(&last)), after(60_000), "never quiet");
    }

    #[test]
    fn a_mark_is_settled_when_everything_up_to_it_is_folded_and_evaluated() {
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
        let Some(Job::Evaluate(two, pending)) = schedule.next(now, ALL) else { panic!("never evaluated") };
        assert_eq!(two, day(2));
        schedule.evaluated(&two, &pending, (now, now));
        schedule.folded(&one, dirty_one, now, folded(1));
        assert!(!schedule.is_settled(first), "folded, but not evaluated");
        let (one, dirty_one) = fold(&mut schedule, now);
        schedule.folded(&one, dirty_one, now, folded(2));
        let now = now + QUIET;
        let Some(Job::Evaluate(one, pending)) = schedule.next(now, ALL) else { panic!("never evaluated") };
        schedule.evaluated(&one, &pending, (now, now));
        assert!(schedule.is_settled(last) && schedule.is_settled(schedule.newest()));
        assert!(schedule.next(now, ALL).is_none() && schedule.next_at(ALL).is_none());
    }

    #[test]
    fn what_a_sweep_finds_holds_back_the_mark_of_the_sweep() {
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
    fn without_room_to_evaluate_days_are_folded_still() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.mark(day(1), Some(log(&day(1), 0)), None, now);
        let (one, dirty) = fold(&mut schedule, now);
        schedule.folded(&one, dirty, now, folded(1));
        let (now, folds) = (now + QUIET, Room { to_evaluate: false, ..ALL });
        assert!(schedule.next(now, folds).is_none());
        assert_eq!(schedule.next_at(folds), None, "nobody waits for what there is no room for");
        schedule.mark(day(2), Some(log(&day(2), 0)), None, now);
        assert!(matches!(schedule.next(now, folds), Some(Job::Fold(two, _)) if two == day(2)));
        assert!(matches!(schedule.next(now, ALL), Some(Job::Evaluate(one, _)) if one == day(1)));
    }

    #[test]
    fn a_failure_is_tried_again_later_under_the_same_mark() {
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
        let (_, dirty) = fold(&mut schedule, now + RETRY_AFTER);
        assert_eq!((dirty.mark, dirty.logs.len(), dirty.told), (mark, 2, 2));
    }

    /// A day that grows by one segment after the other is evaluated so rarely that all evaluations
    /// together read at most three times what one reads in the end.
    #[test]
    fn evaluating_a_growing_day_costs_at_most_three_passes() {
        let mut now = Instant::now();
        let mut schedule = Schedule::default();
        let (mut events, mut evaluated) = (0, 0);
        let mut drain = |schedule: &mut Schedule, events: u64, now: Instant| {
            while let Some(job) = schedule.next(now, ALL) {
                match job {
                    Job::Fold(day, dirty) => schedule.folded(&day, dirty, now, folded(events)),
                    Job::Evaluate(day, pending) => {
                        evaluated += pending.events;
                        schedule.evaluated(&day, &pending, (now, now));
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
