//! Lanes as partitions. Lanes from 1 on have partitions of their own, shown as one partition of the workspace to
//! readers and writers of logs.
//!
//! DynamoDB takes 1,000 write units a second for a partition, and a new day is a new range at the end of its partition,
//! however that was split before. Lane 0 is in the partition of all logs of its workspace, `w#<id>/day`, each other
//! lane in `w#<id>/day/<lane>` ([`key::lane_partition`]), under the same sort keys. The first segment of lane 0 of a
//! day and kind has the number of lanes, and is deleted last. So a range is read from lane 0, and then, for days and
//! kinds with several lanes, from their other lanes.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use event::{
    Error, Result,
    lane::{MAX_LANES, lanes_of_kind},
};
use table::{Cursor, Direction, Item, Key, KeyRange, Page, Query, Scan, engine::Whole};

use super::{Store, merged_view::next_to};
use crate::{
    key::{self, LogId},
    merged::{self, FROM},
    segment_item::LANES,
};

#[cfg(test)]
mod tests;

/// The bytes by which keys of lanes are longer: `/03`.
pub(super) const LONGER: usize = 3;

/// First part of the cursors of pages of several lanes.
const MARK: &str = "lanes";

/// Maximum number of days and kinds whose number of lanes is remembered. The number never changes.
const MAX_KNOWN: usize = 10_000;

/// Number of lanes of days and kinds, by their lanes 0.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashMap<LogId, u8>>);

impl Known {
    fn lock(&self) -> MutexGuard<'_, HashMap<LogId, u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the number of lanes that an item of lane 0 states, if it holds the first segment.
    fn note(&self, item: &Item) -> Option<u8> {
        let (log, first) = match merged::span(item) {
            Some((log, from, _)) => (log, from),
            None => key::parse_segment(&item.key).filter(|(_, seq)| *seq == 1)?,
        };
        (first == 1).then_some(())?;
        // An unreadable number must hide no lane.
        let said = |_| item.int(LANES).ok().and_then(|lanes| lanes.try_into().ok()).unwrap_or(MAX_LANES);
        let lanes = item.attributes.get(LANES).map_or(1, said);
        let mut known = self.lock();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(log, lanes);
        Some(lanes)
    }
}

/// Changes the key of a segment into the one under which it is stored.
pub(super) fn place(key: &mut Key) {
    if let Some((log, _)) = key::parse_segment(key)
        && log.lane > 0
    {
        key.pk = key::lane_partition(&log.workspace, log.lane);
    }
}

/// The key under which an item is stored.
pub(super) fn placed(mut key: Key) -> Key {
    place(&mut key);
    key
}

/// Changes a key that is stored into the one that is shown.
pub(super) fn show(key: &mut Key) {
    if let Some(logs) = key::parse_lane_partition(&key.pk) {
        key.pk = logs.to_owned();
    }
}

/// An item that is stored, under the key that is shown.
pub fn shown(mut item: Item) -> Item {
    show(&mut item.key);
    item
}

/// All items of a table, under the keys that are shown.
pub struct Shown(Box<dyn Whole>);

impl Shown {
    /// The items of a table, under the keys that are shown.
    pub fn over(below: Box<dyn Whole>) -> Box<dyn Whole> {
        Box::new(Self(below))
    }
}

#[async_trait]
impl Whole for Shown {
    async fn page(&self, scan: &Scan) -> Result<Page> {
        let mut page = self.0.page(scan).await?;
        page.items.iter_mut().for_each(|item| show(&mut item.key));
        Ok(page)
    }
}

/// A page of the logs of a workspace, with merged items as they are stored.
///
/// # Errors
/// `Invalid`, when the cursor is of something else; those of the engine.
pub(super) async fn read(store: &Store, query: &Query) -> Result<Page> {
    if let Some(log) = key::log_of_range(&query.range) {
        return ask(store, log.lane, query.clone()).await;
    }
    let KeyRange { from, to, .. } = &query.range;
    let is_forward = query.direction == Direction::Forward;
    let mut at = match query.after.as_ref().map(Cursor::parts) {
        None if is_forward => from.clone(),
        None => to.clone(),
        Some([mark, at]) if mark == MARK && from <= at && at <= to => at.clone(),
        Some(_) => return Err(Error::invalid("the cursor does not belong to this query")),
    };
    // The attributes that state the number of lanes are read as well.
    let with_lanes = |names: &Vec<String>| {
        let more = [FROM, LANES].into_iter().filter(|name| names.iter().all(|asked| asked != name));
        names.iter().cloned().chain(more.map(str::to_owned)).collect()
    };
    let attributes = query.attributes.as_ref().map(with_lanes);
    let asked = Query { attributes, after: None, ..query.clone() };
    let mut units = None::<f64>;
    loop {
        let (mut page, next) = match is_forward {
            true => forward(store, &asked, at).await?,
            false => backward(store, &asked, at).await?,
        };
        units = units.map_or(page.read_units, |units| Some(units + page.read_units.unwrap_or_default()));
        match next.filter(|next| from <= next && next <= to) {
            Some(next) if page.items.is_empty() => at = next,
            next => {
                if let Some(names) = &query.attributes {
                    let is_asked = |name: &String| names.contains(name);
                    page.items.iter_mut().for_each(|item| item.attributes.retain(|name, _| is_asked(name)));
                }
                let next = next.map(|at| Cursor::of(vec![MARK.to_owned(), at]));
                return Ok(Page { next, read_units: units, ..page });
            }
        }
    }
}

/// A page of the partition of a lane, under the keys that are shown.
async fn ask(store: &Store, lane: u8, mut query: Query) -> Result<Page> {
    if lane == 0 {
        return store.page(&query).await;
    }
    let shown = std::mem::take(&mut query.range.pk);
    query.range.pk = format!("{shown}/{lane:02}");
    let mut page = store.page(&query).await?;
    page.items.iter_mut().for_each(|item| item.key.pk.clone_from(&shown));
    Ok(page)
}

/// The first page that has an item, if any has: one may be empty and yet not be the last.
pub(super) async fn first(store: &Store, lane: u8, mut query: Query) -> Result<Page> {
    loop {
        let mut page = ask(store, lane, query.clone()).await?;
        match page.next.take() {
            Some(next) if page.items.is_empty() => query.after = Some(next),
            next => return Ok(Page { next, ..page }),
        }
    }
}

/// Returns the number of lanes of the day and kind of a log; 1 if its lane 0 is empty, as then all others are.
async fn lanes_of(store: &Store, log: &LogId) -> Result<u8> {
    let log = LogId { lane: 0, ..log.clone() };
    if lanes_of_kind(log.kind, MAX_LANES) == 1 {
        return Ok(1);
    }
    let known = store.lanes.lock().get(&log).copied();
    if let Some(lanes) = known {
        return Ok(lanes);
    }
    let query = Query::table(key::segments_from(&log, 0)).limit(1).only(&["v", FROM, LANES]);
    let page = first(store, 0, query).await?;
    // If the first segment is lost or deleted, any lane may have segments.
    Ok(page.items.first().map_or(1, |item| store.lanes.note(item).unwrap_or(MAX_LANES)))
}

/// A page from a sort key on, and the one from which the next goes on.
async fn forward(store: &Store, query: &Query, at: String) -> Result<(Page, Option<String>)> {
    let (mut range, mut lane, mut then) = (KeyRange { from: at, ..query.range.clone() }, 0, None);
    if let Some(log) = key::log_at(&range.pk, &range.from) {
        let lanes = lanes_of(store, &log).await?;
        if lanes > 1 && log.lane < lanes {
            range.to = range.to.min(end_of(&log));
            (lane, then) = (log.lane, Some(begin_after(&log, lanes)));
        } else if log.lane > 0 {
            range.from = begin_after(&log, lanes);
        }
    }
    let (mut page, next) = part(store, query, lane, range).await?;
    if then.is_some() {
        return Ok((page, next.or(then)));
    }
    let mut logs: Vec<LogId> = page.items.iter().filter_map(log_of).collect();
    logs.dedup();
    for log in logs {
        let lanes = lanes_of(store, &log).await?;
        if lanes > 1 {
            let (end, all) = (end_of(&log), page.items.len());
            page.items.retain(|item| item.key.sk <= end);
            let next = next.filter(|_| page.items.len() == all);
            return Ok((page, next.or_else(|| Some(begin_after(&log, lanes)))));
        }
    }
    Ok((page, next))
}

/// A page from a sort key back, and the one from which the next goes on.
async fn backward(store: &Store, query: &Query, at: String) -> Result<(Page, Option<String>)> {
    let (mut range, mut lane, mut then) = (KeyRange { to: at, ..query.range.clone() }, 0, None);
    let mut begun = key::log_at(&range.pk, &range.to);
    if let Some(log) = begun.as_mut().filter(|log| log.lane > 0) {
        let last = lanes_of(store, log).await? - 1;
        if log.lane > last {
            log.lane = last;
            range.to = end_of(log);
        }
        if log.lane > 0 {
            range.from = range.from.max(key::segment(log, 0).sk);
            (lane, then) = (log.lane, Some(end_of(&LogId { lane: log.lane - 1, ..log.clone() })));
        }
    }
    let (mut page, mut next) = part(store, query, lane, range).await?;
    if then.is_some() {
        return Ok((page, next.or(then)));
    }
    // If the range begins behind lane 0 of a day and kind, no item of the page states its number of lanes.
    let first = key::log_at(&query.range.pk, &query.range.from).filter(|_| next.is_none());
    let logs: Vec<Option<LogId>> = page.items.iter().map(log_of).chain([first]).collect();
    for (at, log) in logs.into_iter().enumerate() {
        let Some(log) = log.map(|log| LogId { lane: 0, ..log }).filter(|log| begun.as_ref() != Some(log))
        else {
            continue;
        };
        let lanes = lanes_of(store, &log).await?;
        if lanes > 1 {
            page.items.truncate(at);
            next = Some(end_of(&LogId { lane: lanes - 1, ..log }));
            break;
        }
        begun = Some(log);
    }
    Ok((page, next))
}

/// A page of a range of one partition, and where that goes on.
async fn part(store: &Store, query: &Query, lane: u8, range: KeyRange) -> Result<(Page, Option<String>)> {
    if range.from > range.to {
        return Ok((Page::default(), None));
    }
    let by = if query.direction == Direction::Forward { 1 } else { -1 };
    let page = first(store, lane, Query { range, ..query.clone() }).await?;
    page.items.iter().filter(|_| lane == 0).for_each(|item| _ = store.lanes.note(item));
    let last = page.items.last().filter(|_| page.next.is_some());
    let next = last.map(|last| next_to(&last.key.pk, &last.key.sk, by));
    Ok((page, next))
}

fn log_of(item: &Item) -> Option<LogId> {
    key::parse_segment(&item.key).map(|(log, _)| log)
}

/// Returns the last sort key of a log.
fn end_of(log: &LogId) -> String {
    key::segments_from(log, 0).to
}

/// Returns the first sort key of the next lane, or of the next day and kind behind the last lane.
fn begin_after(log: &LogId, lanes: u8) -> String {
    match log.lane + 1 < lanes {
        true => key::segment(&LogId { lane: log.lane + 1, ..log.clone() }, 0).sk,
        false => key::segments_after_day(&log.workspace, log.day, log.kind).from,
    }
}
