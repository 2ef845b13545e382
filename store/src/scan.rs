//! Reading logs: which there are, how long they are, and their segments in order.

use crate::{
    Day, Id, Kind, Result, Table,
    key::{self, KeyRange, LogId},
    log::{SUMMARY, Segment},
    table::{Query, query_all},
};

/// A log and the number of its last segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// The log.
    pub log: LogId,
    /// Its last segment.
    pub seq: u64,
}

/// All logs of a workspace with their heads, in order of day, kind and lane. It skips from log to
/// log: two small reads for each, however many segments they have.
///
/// # Errors
/// Those of the table.
pub async fn heads(table: &dyn Table, workspace: &Id) -> Result<Vec<LogHead>> {
    heads_within(table, key::segments(workspace)).await
}

/// The logs of the days before `day` with their heads.
///
/// # Errors
/// Those of the table.
pub async fn heads_before(table: &dyn Table, workspace: &Id, day: Day) -> Result<Vec<LogHead>> {
    heads_within(table, key::segments_before(workspace, day)).await
}

/// The logs of one day and kind with their heads.
///
/// # Errors
/// Those of the table.
pub async fn heads_of_kind(table: &dyn Table, workspace: &Id, day: Day, kind: Kind) -> Result<Vec<LogHead>> {
    heads_within(table, key::segments_of_kind(workspace, day, kind)).await
}

async fn heads_within(table: &dyn Table, range: KeyRange) -> Result<Vec<LogHead>> {
    let mut heads = Vec::new();
    let end = range.to.clone();
    let mut rest = range;
    while let Some((log, _)) = first(table, Query::table(rest.clone())).await? {
        let seq = head(table, &log).await?;
        rest = KeyRange { to: end.clone(), ..key::segments_after(&log) };
        heads.push(LogHead { log, seq });
    }
    Ok(heads)
}

/// The first segment's key of a query.
async fn first(table: &dyn Table, query: Query) -> Result<Option<(LogId, u64)>> {
    let mut query = query.limit(1).only(&["v"]);
    loop {
        let page = table.query(&query).await?;
        if let Some(item) = page.items.first() {
            let found = key::parse_segment(&item.key);
            return found.map(Some).ok_or_else(|| item.corrupt("its key is not one of a segment"));
        }
        // A page may be empty and yet not be the last.
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(None),
        }
    }
}

/// The number of the last segment of a log; 0 when it has none.
///
/// # Errors
/// Those of the table.
pub async fn head(table: &dyn Table, log: &LogId) -> Result<u64> {
    Ok(first(table, Query::table(key::segments_from(log, 0)).backward()).await?.map_or(0, |(_, seq)| seq))
}

/// The first segment of a log, without its events.
///
/// # Errors
/// Those of the table, and `Corrupt` for an item that is no segment.
pub async fn first_of(table: &dyn Table, log: &LogId) -> Result<Option<Segment>> {
    end_of(table, Query::table(key::segments_between(log, 1, 1))).await
}

/// The last segment of a log, without its events.
///
/// # Errors
/// Those of the table, and `Corrupt` for an item that is no segment.
pub async fn last_of(table: &dyn Table, log: &LogId) -> Result<Option<Segment>> {
    end_of(table, Query::table(key::segments_from(log, 0)).backward()).await
}

async fn end_of(table: &dyn Table, query: Query) -> Result<Option<Segment>> {
    let mut query = query.limit(1).only(SUMMARY);
    loop {
        let page = table.query(&query).await?;
        if let Some(item) = page.items.into_iter().next() {
            return Segment::from_item(item).map(Some);
        }
        // A page may be empty and yet not be the last.
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(None),
        }
    }
}

/// Segments of a log from `first` to `last`, ending before the first hole. A hole is what a read
/// sees that came too early; the next read goes on from there.
///
/// # Errors
/// Those of the table, and `Corrupt` for an item that is no segment.
pub async fn segments(table: &dyn Table, log: &LogId, first: u64, last: u64) -> Result<Vec<Segment>> {
    let query = Query::table(key::segments_between(log, first, last));
    let mut segments = Vec::new();
    for item in query_all(table, query).await? {
        let segment = Segment::from_item(item)?;
        debug_assert_eq!(segment.log, *log);
        if segment.seq != first + segments.len() as u64 {
            break;
        }
        segments.push(segment);
    }
    Ok(segments)
}

/// The log of a day that is called `name`, such as `p/00`.
pub fn log_named(workspace: &Id, day: Day, name: &str) -> Option<LogId> {
    let (kind, lane) = name.split_once('/')?;
    Some(LogId {
        workspace: workspace.clone(),
        day,
        kind: Kind::from_letter(kind)?,
        lane: lane.parse().ok()?,
    })
}
