//! Compaction: merges the small segments of days that are over into items that hold many ([`log::merged`]).
//!
//! docs/internals/retention.md has the argument why no reader and no writer notices. Here it is done in two steps. A merged item is put in the
//! place of its last segment, under the condition that this is as it was read and that no key was erased meanwhile. The own items of the other
//! segments are deleted later, when it has been known for [`QUIET`] that none of them is the head of its log; the last first, so
//! that at each moment what is left begins where the merged item does.
//!
//! A day is looked at when it has some ages: outcomes come late. [`window`] merges days when an operator asks for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use event::{Day, Error, Id, Result, Timestamp};
use log::{
    compacted::Compacted,
    erased::ErasureEpoch,
    expired,
    key::{self, LogId},
    merged::{self, FROM, MAX_MERGED_SEGMENTS, QUIET},
    scan,
    segment_item::{MAX_SEGMENT_BYTES, MAX_SEGMENT_ROWS, Segment},
};
use table::{Condition, Item, KeyRange, Pages, Query, Table, Write, query_all};
use tokio::time::Instant;

use crate::lock;

pub mod window;

/// At which ages a day is looked at, in days since it began.
pub const AGES: [u32; 4] = [2, 9, 33, 129];

/// How many items must become one: fewer are not worth the writes.
const LEAST_ITEMS: usize = 8;

/// The most rows of a segment that counts as small.
const SMALL_ROWS: usize = MAX_SEGMENT_ROWS / 4;

/// How many days of a workspace are looked at in one go; the next sweep goes on.
const MAX_DAYS: usize = 16;

/// How many items are deleted of a workspace in one go.
const MAX_DELETES: u64 = 2_000;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// What was done in a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Merged items that were written.
    pub merged: u64,
    /// Items of segments that were deleted, since merged items hold them.
    pub deleted: u64,
    /// Whether something is left to do today.
    pub is_left: bool,
}

/// What one process knows of what it merges.
#[derive(Debug, Default)]
pub struct Compactor {
    /// Since when it is known of merged items that none of their segments is the head, by log and last segment.
    seen: Mutex<BTreeMap<(LogId, u64), Instant>>,
    /// The day on which nothing was left to do in workspaces.
    settled: Mutex<BTreeMap<Id, Day>>,
}

/// An item of a log as it is stored.
#[derive(Clone, Copy, Debug)]
struct Stored {
    from: u64,
    last: u64,
    rows: usize,
}

impl Stored {
    fn of(item: &Item) -> Option<Self> {
        let (_, last) = key::parse_segment(&item.key)?;
        let from = merged::span(item).map_or(last, |(_, from, _)| from);
        Some(Self { from, last, rows: item.int("n").ok()?.try_into().ok()? })
    }

    fn segments(self) -> u64 {
        self.last - self.from + 1
    }
}

/// How much is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many items.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Held {
    fn add(&mut self, items: &[Item]) {
        self.items += items.len() as u64;
        self.bytes += items.iter().map(Item::size).sum::<usize>() as u64;
    }
}

impl Compactor {
    /// Merges what is due in a workspace when the clock says `now`, as much as is done in one go.
    ///
    /// # Errors
    /// Those of the table, and `Corrupt`. It may be called again at any time, by several processes at once.
    pub async fn compact(&self, table: &dyn Table, workspace: &Id, now: Timestamp) -> Result<Done> {
        let mut done = Done::default();
        if lock(&self.settled).get(workspace) == Some(&now.day()) {
            return Ok(done);
        }
        let epoch = ErasureEpoch::load(table, workspace).await?;
        if epoch.is_open || epoch.is_rewriting {
            return Ok(done);
        }
        let mut compacted = Compacted::load(table, workspace).await?;
        let (mut days, mut from) = (BTreeMap::new(), None);
        for age in AGES.into_iter().rev() {
            // What was looked at when it was older was that old as well.
            let until = now.plus_seconds(-i64::from(age) * DAY_SECONDS).day();
            // One that was looked at by a clock that was ahead is looked at again.
            from = from.max(compacted.until.get(&age).map(|known| until.min(*known)));
            let reached = self.of_age(table, (workspace, epoch), (from, until), &mut days, &mut done).await?;
            from = from.max(reached);
            compacted.until.extend(from.map(|from| (age, from)));
        }
        (compacted.merged, compacted.deleted) = (done.merged, done.deleted);
        compacted.note(table, workspace).await?;
        if !done.is_left {
            lock(&self.settled).insert(workspace.clone(), now.day());
        }
        Ok(done)
    }

    /// Looks at the days after one, up to another; up to which all of them are done.
    async fn of_age(
        &self,
        table: &dyn Table,
        (workspace, epoch): (&Id, ErasureEpoch),
        (after, until): (Option<Day>, Day),
        days: &mut BTreeMap<Day, bool>,
        done: &mut Done,
    ) -> Result<Option<Day>> {
        if after.is_some_and(|after| after >= until) {
            return Ok(after);
        }
        let (mut reached, mut is_whole) = (after, true);
        let mut range = match after.and_then(Day::next) {
            Some(next) => key::segments_since(workspace, next),
            None => key::segments(workspace),
        };
        while let Some((log, _)) = scan::first_within(table, range).await? {
            if log.day > until {
                break;
            }
            let is_done = match days.get(&log.day) {
                Some(is_done) => *is_done,
                None if days.len() >= MAX_DAYS => {
                    done.is_left = true;
                    return Ok(reached);
                }
                None => self.day(table, (workspace, epoch), log.day, done).await?,
            };
            days.insert(log.day, is_done);
            is_whole &= is_done;
            if is_whole {
                reached = Some(log.day);
            }
            let Some(next) = log.day.next() else { break };
            range = key::segments_since(workspace, next);
        }
        done.is_left |= !is_whole;
        Ok(if is_whole { Some(until) } else { reached })
    }

    /// Merges what can be of a day; whether nothing is left to do.
    async fn day(
        &self,
        table: &dyn Table,
        (workspace, epoch): (&Id, ErasureEpoch),
        day: Day,
        done: &mut Done,
    ) -> Result<bool> {
        if expired::load(table, workspace, day).await?.is_some() {
            return Ok(true);
        }
        let mut range = key::segments_of_day(workspace, day);
        let end = range.to.clone();
        let mut is_done = true;
        while let Some((log, _)) = scan::first_within(table, range).await? {
            is_done &= self.log(table, &log, epoch, done).await?;
            range = KeyRange { to: end.clone(), ..key::segments_after(&log) };
        }
        Ok(is_done)
    }

    /// Merges what can be of a log; whether nothing is left to do.
    async fn log(
        &self,
        table: &dyn Table,
        log: &LogId,
        epoch: ErasureEpoch,
        done: &mut Done,
    ) -> Result<bool> {
        let stored = stored_items(table, log).await?;
        // What was read is not the head, nor becomes it again.
        let (read_at, Some(head)) = (Instant::now(), stored.last().map(|head| head.last)) else {
            return Ok(true);
        };
        let held: BTreeSet<u64> = held_twice(&stored).map(|item| item.last).collect();
        lock(&self.seen).retain(|(of, last), _| of != log || held.contains(last));
        if !held.is_empty() {
            let mut is_done = true;
            for item in held_twice(&stored).filter(|item| item.last < head) {
                let place = (log.clone(), item.last);
                let since = *lock(&self.seen).entry(place.clone()).or_insert(read_at);
                if since.elapsed() < QUIET || done.deleted >= MAX_DELETES {
                    is_done = false;
                    continue;
                }
                delete_held(table, log, *item, done).await?;
                lock(&self.seen).remove(&place);
            }
            if !is_done {
                return Ok(false);
            }
        }
        let mut is_done = true;
        for run in runs(&without_held(&stored, head), head) {
            let merged = merge(table, log, run, Some(epoch)).await?;
            // Also where somebody else was quicker something is left to do.
            is_done &= merged.lasts.is_empty() && !merged.is_overtaken;
            done.merged += merged.lasts.len() as u64;
            lock(&self.seen).extend(merged.lasts.into_iter().map(|last| ((log.clone(), last), read_at)));
        }
        Ok(is_done)
    }
}

/// All items of a log, from its first on. How many a page has says nothing: engines end it by the bytes of whole items.
async fn stored_items(table: &dyn Table, log: &LogId) -> Result<Vec<Stored>> {
    let query = Query::table(key::segments_from(log, 0)).only(&["v", "n", FROM]).as_stored();
    let mut pages = Pages::of(table, query);
    let mut stored = Vec::new();
    while let Some(items) = pages.next().await? {
        stored.extend(items.iter().filter_map(Stored::of));
    }
    Ok(stored)
}

/// The merged items of which some segment has an item before them still.
fn held_twice(stored: &[Stored]) -> impl Iterator<Item = &Stored> {
    stored.windows(2).filter(|pair| pair[0].last >= pair[1].from).map(|pair| &pair[1])
}

/// The items without those of segments that a merged item holds.
fn without_held(stored: &[Stored], head: u64) -> Vec<Stored> {
    let is_held = |item: &Stored| {
        held_twice(stored).any(|by| by.last < head && by.from <= item.last && item.last < by.last)
    };
    stored.iter().filter(|item| !is_held(item)).copied().collect()
}

/// Items that follow each other and can become one. The head is in none.
fn runs(stored: &[Stored], head: u64) -> Vec<&[Stored]> {
    let mut runs = Vec::new();
    let (mut begin, mut segments, mut rows) = (0, 0, 0);
    for (at, item) in stored.iter().enumerate() {
        let is_small = item.rows <= SMALL_ROWS && item.last < head;
        let follows = at > begin && item.from == stored[at - 1].last + 1;
        let fits =
            segments + item.segments() <= MAX_MERGED_SEGMENTS as u64 && rows + item.rows <= MAX_SEGMENT_ROWS;
        if at > begin && !(is_small && follows && fits) {
            runs.push(&stored[begin..at]);
            (begin, segments, rows) = (at, 0, 0);
        }
        if is_small {
            (segments, rows) = (segments + item.segments(), rows + item.rows);
        } else {
            begin = at + 1;
        }
    }
    runs.extend(stored.get(begin..));
    runs.retain(|run| run.len() >= LEAST_ITEMS);
    runs
}

/// What became of items that can be merged.
#[derive(Debug, Default)]
struct Merged {
    /// The last segments of the merged items.
    lasts: Vec<u64>,
    /// Whether somebody else merges them, or a key is being erased.
    is_overtaken: bool,
    /// The items in whose places merged items stand, or would,
    before: Held,
    /// and these.
    after: Held,
}

/// Merges items of a log, in halves where they do not become one. Without an epoch nothing is written.
async fn merge(
    table: &dyn Table,
    log: &LogId,
    run: &[Stored],
    epoch: Option<ErasureEpoch>,
) -> Result<Merged> {
    let mut done = Merged::default();
    let mut todo = vec![run];
    while let Some(run) = todo.pop() {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        if run.len() < LEAST_ITEMS {
            continue;
        }
        let range = key::segments_between(log, first.last, last.last);
        let items = query_all(table, Query::table(range).as_stored()).await?;
        let most = table.item_bytes().min(MAX_SEGMENT_BYTES);
        let mut before = done.before;
        before.add(&items);
        let merging = tokio::task::spawn_blocking(move || merged_of(&items, most));
        let merged =
            merging.await.map_err(|error| Error::unavailable("merging was broken off").because(error))?;
        let Some((item, condition)) = merged.filter(|(item, _)| {
            merged::span(item).is_some_and(|(_, from, to)| (from, to) == (first.from, last.last))
        }) else {
            let (left, right) = run.split_at(run.len() / 2);
            todo.extend([right, left]);
            continue;
        };
        done.before = before;
        done.after.add(std::slice::from_ref(&item));
        let Some(epoch) = epoch else { continue };
        match table.transact(vec![Write::Put(item, condition), epoch.check(&log.workspace)]).await {
            Ok(()) => done.lasts.push(last.last),
            Err(error) if error.is_conflict() => done.is_overtaken = true,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// One item in the place of some, if it has at most so many bytes and fewer than they, and the condition under which it is written.
fn merged_of(items: &[Item], most: usize) -> Option<(Item, Condition)> {
    let mut segments = Vec::new();
    for item in items {
        match merged::span(item) {
            Some(_) => segments.extend(merged::split(item).ok()?),
            None => segments.push(Segment::from_item(item.clone()).ok()?),
        }
    }
    let condition = merged::unchanged(items.last()?);
    let bytes: usize = items.iter().map(Item::size).sum();
    let merged = merged::merge(&segments)?;
    (merged.size() <= most && merged.size() < bytes).then_some((merged, condition))
}

/// Deletes the items of segments that a merged item holds, the last first and one after the other.
async fn delete_held(table: &dyn Table, log: &LogId, by: Stored, done: &mut Done) -> Result<()> {
    let range = key::segments_between(log, by.from, by.last - 1);
    let query = Query::table(range).only(&["v"]).backward().as_stored();
    let mut pages = Pages::of(table, query);
    while let Some(items) = pages.next().await? {
        for item in items {
            table.delete(&item.key, Condition::None).await?;
            done.deleted += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(last: u64) -> Stored {
        Stored { from: last, last, rows: 1 }
    }

    #[test]
    fn compaction_runs_exclude_head_holes_and_large_segments() {
        let lengths = |stored: &[Stored]| -> Vec<(u64, u64)> {
            let head = stored.last().map_or(0, |item| item.last);
            runs(stored, head).iter().map(|run| (run[0].from, run[run.len() - 1].last)).collect()
        };
        let all = |numbers: std::ops::RangeInclusive<u64>| numbers.map(own).collect::<Vec<_>>();
        assert!(lengths(&[]).is_empty());
        assert!(lengths(&all(1..=8)).is_empty());
        assert_eq!(lengths(&all(1..=9)), [(1, 8)]);
        let without =
            |lacks: u64| all(1..=30).into_iter().filter(|item| item.last != lacks).collect::<Vec<_>>();
        assert_eq!(lengths(&without(12)), [(1, 11), (13, 29)]);
        let mut large = all(1..=30);
        large[11].rows = SMALL_ROWS + 1;
        assert_eq!(lengths(&large), [(1, 11), (13, 29)]);
        let before = Stored { from: 1, last: 20, rows: 20 };
        let grown: Vec<Stored> = [before].into_iter().chain(all(21..=40)).collect();
        assert_eq!(lengths(&grown), [(1, 39)]);
        let full = Stored { last: 999, rows: 999, ..before };
        let grown: Vec<Stored> = [full].into_iter().chain(all(1_000..=1_009)).collect();
        assert_eq!(lengths(&grown), [(1_001, 1_008)], "{grown:?}");
    }

    #[test]
    fn what_is_held_twice_is_found() {
        let merged = Stored { from: 3, last: 9, rows: 7 };
        let of = |stored: &[Stored]| held_twice(stored).map(|item| item.last).collect::<Vec<_>>();
        assert!(of(&[own(1), own(2), merged, own(10)]).is_empty());
        assert_eq!(of(&[own(1), own(2), own(3), own(4), merged, own(10)]), [9]);
    }
}
