//! Compaction: merges the small segments of days that are over into items that hold many ([`log::merged`]).
//!
//! docs/internals/retention.md says why no reader and no writer notices. Two steps: a merged item replaces the item of
//! its last segment, under the condition that this is unchanged and that no key was erased meanwhile. The items of its
//! other segments are deleted later, when none of them has been the head of its log for [`QUIET`]; the last first, so
//! that the remaining ones always begin where the merged item does.
//!
//! A day is checked at several ages, since outcomes come late. [`window`] merges days at the request of an operator.

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

/// Ages at which a day is checked, in days since it began.
pub const AGES: [u32; 4] = [2, 9, 33, 129];

/// Minimum number of items to merge: fewer are not worth the writes.
const LEAST_ITEMS: usize = 8;

/// Maximum rows of a small segment.
const SMALL_ROWS: usize = MAX_SEGMENT_ROWS / 4;

/// Maximum days of a workspace checked in one call; the next sweep continues.
const MAX_DAYS: usize = 16;

/// Maximum items of a workspace deleted in one call.
const MAX_DELETES: u64 = 2_000;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Result of compacting a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Number of merged items written.
    pub merged: u64,
    /// Number of deleted items, whose segments merged items contain.
    pub deleted: u64,
    /// True if something is left to do today.
    pub is_left: bool,
}

/// State of one process that compacts.
#[derive(Debug, Default)]
pub struct Compactor {
    /// Instant since which no segment of a merged item is known to be the head, by log and last segment.
    seen: Mutex<BTreeMap<(LogId, u64), Instant>>,
    /// Day on which a workspace had nothing left to do.
    settled: Mutex<BTreeMap<Id, Day>>,
}

/// Stored item of a log.
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

/// Amount of stored items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Number of items.
    pub items: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Held {
    fn add(&mut self, items: &[Item]) {
        self.items += items.len() as u64;
        self.bytes += items.iter().map(Item::size).sum::<usize>() as u64;
    }
}

impl Compactor {
    /// Merges what is due in a workspace at `now`, up to a maximum for each call.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`. It may be called again at any time, by several processes at once.
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
            // A day checked at a greater age had this age as well.
            let until = now.plus_seconds(-i64::from(age) * DAY_SECONDS).day();
            // A day checked by a clock that was ahead is checked again.
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

    /// Checks the days after one, up to another; returns the day up to which all are done.
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

    /// Merges the items of a day. Returns whether nothing is left to do.
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

    /// Merges the items of a log. Returns whether nothing is left to do.
    async fn log(
        &self,
        table: &dyn Table,
        log: &LogId,
        epoch: ErasureEpoch,
        done: &mut Done,
    ) -> Result<bool> {
        let stored = stored_items(table, log).await?;
        // A segment that was read and is not the head will not become it.
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
            // After a conflict with another process, something is left to do.
            is_done &= merged.lasts.is_empty() && !merged.is_overtaken;
            done.merged += merged.lasts.len() as u64;
            lock(&self.seen).extend(merged.lasts.into_iter().map(|last| ((log.clone(), last), read_at)));
        }
        Ok(is_done)
    }
}

/// Reads all items of a log. A short page is not the last: engines end pages by bytes.
async fn stored_items(table: &dyn Table, log: &LogId) -> Result<Vec<Stored>> {
    let query = Query::table(key::segments_from(log, 0)).only(&["v", "n", FROM]).as_stored();
    let mut pages = Pages::of(table, query);
    let mut stored = Vec::new();
    while let Some(items) = pages.next().await? {
        stored.extend(items.iter().filter_map(Stored::of));
    }
    Ok(stored)
}

/// Returns the merged items that still have an item of one of their segments before them.
fn held_twice(stored: &[Stored]) -> impl Iterator<Item = &Stored> {
    stored.windows(2).filter(|pair| pair[0].last >= pair[1].from).map(|pair| &pair[1])
}

/// Returns the items without those whose segments a merged item contains.
fn without_held(stored: &[Stored], head: u64) -> Vec<Stored> {
    let is_held = |item: &Stored| {
        held_twice(stored).any(|by| by.last < head && by.from <= item.last && item.last < by.last)
    };
    stored.iter().filter(|item| !is_held(item)).copied().collect()
}

/// Returns the runs of consecutive items that can be merged; the head is in none.
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

/// Result of merging items.
#[derive(Debug, Default)]
struct Merged {
    /// Last segment of each merged item.
    lasts: Vec<u64>,
    /// True if another process merges them, or a key is being erased.
    is_overtaken: bool,
    /// Amount of the replaced items.
    before: Held,
    /// Amount of the merged items.
    after: Held,
}

/// Merges items of a log, by halves where they do not fit into one. Without an epoch it writes nothing.
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

/// Returns one item in place of some, and the condition to write it, if it has at most `most` bytes and fewer than
/// they.
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

/// Deletes the items whose segments a merged item contains, the last first, one by one.
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
    fn duplicate_items_are_found() {
        let merged = Stored { from: 3, last: 9, rows: 7 };
        let of = |stored: &[Stored]| held_twice(stored).map(|item| item.last).collect::<Vec<_>>();
        assert!(of(&[own(1), own(2), merged, own(10)]).is_empty());
        assert_eq!(of(&[own(1), own(2), own(3), own(4), merged, own(10)]), [9]);
    }
}
