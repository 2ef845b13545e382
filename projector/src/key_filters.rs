//! Makes the filters of the keys of days ([`fold::key_filter`]), with which a query of some keys skips segments without
//! them.
//!
//! A day has filters from an hour after its end on, one of predictions and one of outcomes. Each covers a prefix of the
//! logs, that of the rollup. Later segments are always read, so a filter that is behind costs reads and is never wrong.
//! It is made again when twice as many segments are covered, or a day after it was made.

use std::collections::{BTreeMap, BTreeSet};

use event::{Day, Id, Kind, Result, Timestamp};
use fold::key_filter::{KeyFilterBuilder, ROWS_OF_PART, parts_of};
use log::{
    active, expired,
    key::{self, LogId, Projection},
    key_filter::{self, At, Head, KINDS},
    projection::{Applied, COVERAGE, Projected},
    scan,
    segment_item::Segment,
};
use table::{Item, Query, Table, query_all};

use crate::{WorkspaceDay, evaluate::covers, project::read};

/// Time after the end of a day at which it gets filters.
const AFTER_SECONDS: i64 = 60 * 60;

/// Time after which a filter that is behind is made again, however little it lacks.
const AGAIN_SECONDS: i64 = 24 * 60 * 60;

/// Maximum days that get filters in one call; the next sweep continues.
const MAX_DAYS: usize = 16;

/// Maximum events whose hashes are in memory at a time, of eight bytes each; the logs of a larger day are read several
/// times.
const ROWS_AT_ONCE: u64 = 4_000_000;

/// Maximum bytes of column names in a head.
const MAX_NAMES_BYTES: usize = 16 * 1024;

/// Makes the filters of a workspace that are due at `now`, of the days from `first` on (all days, when that is `None`)
/// and of the days `older`. Returns their number.
///
/// # Errors
/// Errors of the table, and `Corrupt`. It may be called again at any time.
pub async fn make(
    table: &dyn Table,
    workspace: &Id,
    (first, older): (Option<Day>, &BTreeSet<Day>),
    now: Timestamp,
) -> Result<u64> {
    let version = active::load(table, workspace).await?.version;
    let days = rolled_up(table, workspace, version, (first, older)).await?;
    let (Some(from), Some(to)) = (days.keys().next(), days.keys().last()) else { return Ok(0) };
    let heads = key_filter::heads(table, workspace, version, (*from, *to)).await?;
    let is_due = |(day, applied): &(&Day, &Applied)| {
        is_over(**day, now)
            && KINDS.iter().any(|kind| is_due(heads.get(&(**day, *kind)), &of_kind(applied, *kind), now))
    };
    let due: Vec<Day> = days.iter().filter(is_due).map(|(day, _)| *day).collect();
    let mut made = 0;
    for day in due.into_iter().take(MAX_DAYS) {
        let day = WorkspaceDay { workspace: workspace.clone(), day };
        made += make_day(table, version, &day, now).await?;
    }
    Ok(made)
}

/// Makes the filters of a day that are due at `now`, in a version of its projections. Returns their number.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub(crate) async fn make_day(
    table: &dyn Table,
    version: u32,
    day: &WorkspaceDay,
    now: Timestamp,
) -> Result<u64> {
    if !is_over(day.day, now) || expired::load(table, &day.workspace, day.day).await?.is_some() {
        return Ok(0);
    }
    let (stored, rollup) = match read(table, version, day).await {
        // An unreadable rollup has a dead letter; its day has no filter until it is written again.
        Err(error) if !error.may_pass() => return Ok(0),
        read => read?,
    };
    let mut made = 0;
    for kind in KINDS {
        let at = At { workspace: &day.workspace, version, day: day.day, kind };
        let applied = of_kind(&stored.applied, kind);
        let before = key_filter::head(table, at).await?;
        if !is_due(before.as_ref(), &applied, now) {
            continue;
        }
        let (head, parts) = filter_of(table, at, &applied, parts_of(rollup.events(kind)), now).await?;
        let before = before.map_or(0, |before| before.ver);
        made += u64::from(key_filter::write(table, at, before, head, parts).await?);
    }
    Ok(made)
}

/// Reads the coverage of the rollups of the days.
pub(crate) async fn rolled_up(
    table: &dyn Table,
    workspace: &Id,
    version: u32,
    (first, older): (Option<Day>, &BTreeSet<Day>),
) -> Result<BTreeMap<Day, Applied>> {
    let latest = match first {
        Some(first) => key::projections_since(workspace, version, first),
        None => key::all_projections(workspace, version),
    };
    let older = older.iter().filter(|day| first.is_some_and(|first| **day < first));
    let older = older.map(|day| key::projections(workspace, version, *day, *day));
    let mut days = BTreeMap::new();
    for range in [latest].into_iter().chain(older) {
        for item in query_all(table, Query::table(range).only(COVERAGE)).await? {
            if let (day, Projection::Rollup) = key::parse_projection(&item.key)? {
                days.insert(day, Projected::applied_of(&item)?);
            }
        }
    }
    Ok(days)
}

/// Returns whether a day ended long enough ago.
fn is_over(day: Day, now: Timestamp) -> bool {
    day.next().is_some_and(|next| next.start().plus_seconds(AFTER_SECONDS) <= now)
}

/// Returns the logs of a kind.
pub(crate) fn of_kind(applied: &Applied, kind: Kind) -> Applied {
    let is_of = |log: &str| log.split('/').next() == Some(kind.letter());
    applied.iter().filter(|(log, _)| is_of(log)).map(|(log, seq)| (log.clone(), *seq)).collect()
}

/// Returns whether a filter of this coverage is due.
fn is_due(known: Option<&Head>, applied: &Applied, now: Timestamp) -> bool {
    let Some(known) = known else { return !applied.is_empty() };
    let segments = |applied: &Applied| applied.values().sum::<u64>();
    // A filter made by a clock that was ahead is old at once.
    let is_old = known.made_at.plus_seconds(AGAIN_SECONDS) <= now || known.made_at > now;
    !covers(&known.applied, applied) && (is_old || segments(applied) >= 2 * segments(&known.applied))
}

/// Makes the filter of the prefix of the logs of a day and kind: its head, and `parts` parts. If a segment is
/// unreadable it has no parts.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn filter_of(
    table: &dyn Table,
    at: At<'_>,
    applied: &Applied,
    parts: u32,
    now: Timestamp,
) -> Result<(Head, Vec<Vec<u8>>)> {
    let at_once = (ROWS_AT_ONCE / ROWS_OF_PART) as u32;
    let mut head = Head::of(applied.clone(), now);
    let mut all = Vec::with_capacity(parts as usize);
    for first in (0..parts).step_by(at_once as usize) {
        let mut pass = Pass {
            builder: KeyFilterBuilder::new(parts, first..parts.min(first.saturating_add(at_once))),
            facts: Facts { columns: Some(BTreeSet::new()), ..Facts::default() },
        };
        for (name, last) in applied {
            let log = scan::log_named(at.workspace, at.day, name);
            if !pass.take_log(table, log.as_ref(), *last).await? {
                return Ok((Head::of(applied.clone(), now), Vec::new()));
            }
        }
        let Facts { appended_at, lanes, columns } = pass.facts;
        head = Head { appended_at, lanes, columns, ..head };
        for (part, keys) in pass.builder.finish() {
            head.keys += keys;
            all.push(part.to_bytes());
        }
    }
    Ok((head, all))
}

/// One pass over the logs for some parts.
struct Pass {
    builder: KeyFilterBuilder,
    facts: Facts,
}

/// Properties of segments besides their keys.
#[derive(Default)]
struct Facts {
    appended_at: Timestamp,
    /// Number of lanes of the day.
    lanes: Option<u8>,
    columns: Option<BTreeSet<String>>,
}

impl Pass {
    /// Adds the segments of a log up to `last`. Returns whether all of them are there and readable.
    async fn take_log(&mut self, table: &dyn Table, log: Option<&LogId>, last: u64) -> Result<bool> {
        let Some(log) = log else { return Ok(false) };
        let mut query = Query::table(key::segments_between(log, 1, last));
        let mut next = 1;
        loop {
            let page = table.query(&query).await?;
            for item in page.items {
                let is_next = key::parse_segment(&item.key).is_some_and(|(_, seq)| seq == next);
                if !is_next || !self.take(item) {
                    return Ok(false);
                }
                next += 1;
            }
            // Lets folds run in between.
            tokio::task::yield_now().await;
            match page.next {
                Some(after) => query.after = Some(after),
                None => return Ok(next == last + 1),
            }
        }
    }

    /// Adds a segment. Returns false if it is unreadable.
    fn take(&mut self, item: Item) -> bool {
        let unpacked = ::evaluate::caught(|| {
            let segment = Segment::from_item(item)?;
            let columns = segment.unpack(|name| name == "key")?;
            Ok::<_, event::Error>((segment, columns))
        });
        let Ok((segment, columns)) = unpacked else { return false };
        self.note(&segment);
        self.builder.add(&columns).is_ok()
    }

    fn note(&mut self, segment: &Segment) {
        let facts = &mut self.facts;
        facts.appended_at = facts.appended_at.max(segment.appended_at);
        if segment.log.lane == 0 && segment.seq == 1 {
            facts.lanes = Some(segment.lanes.unwrap_or(1));
        }
        if let Some(known) = &mut facts.columns {
            known.extend(segment.column_names().filter(|name| segment.log.kind.family(name).is_some()));
            if known.iter().map(String::len).sum::<usize>() > MAX_NAMES_BYTES {
                facts.columns = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn key_filter_is_rebuilt_when_outdated() {
        let day: Day = "2026-06-01".parse().unwrap();
        assert!(!is_over(day, at("2026-06-02T00:59:59Z")) && is_over(day, at("2026-06-02T01:00:00Z")));
        let applied = |last| Applied::from([("p/00".to_owned(), last), ("p/01".to_owned(), 2)]);
        let now = at("2026-06-02T01:00:00Z");
        assert!(is_due(None, &applied(1), now) && !is_due(None, &Applied::new(), now));
        let known = Head::of(applied(2), now);
        let later = at("2026-06-03T01:00:00Z");
        for (last, soon, in_a_day) in
            [(1, false, false), (2, false, false), (3, false, true), (6, true, true)]
        {
            assert_eq!(is_due(Some(&known), &applied(last), now), soon, "{last}");
            assert_eq!(is_due(Some(&known), &applied(last), later), in_a_day, "{last}");
        }
        let mixed = Applied::from([("p/00".into(), 1), ("o/00".into(), 2), ("m/00".into(), 3)]);
        assert_eq!(of_kind(&mixed, Kind::Outcomes), Applied::from([("o/00".into(), 2)]));
    }
}
