//! Reading logs: their list, their lengths, and their segments in order.

use event::{Day, Error, Id, Kind, Result};
use table::{KeyRange, Pages, Query, Table, query_all};

use crate::{
    key::{self, LogId},
    segment_item::{SUMMARY, Segment},
};

/// Log and the number of its last segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// The log.
    pub log: LogId,
    /// Number of its last segment.
    pub seq: u64,
}

/// Reads all logs of a workspace with their heads, in order of day, kind and lane. It skips from log to log: two small reads for
/// each, however many segments they have.
///
/// # Errors
/// Errors of the table.
pub async fn heads(table: &dyn Table, workspace: &Id) -> Result<Vec<LogHead>> {
    heads_within(table, key::segments(workspace)).await
}

/// Reads the logs of the days before `day` with their heads.
///
/// # Errors
/// Errors of the table.
pub async fn heads_before(table: &dyn Table, workspace: &Id, day: Day) -> Result<Vec<LogHead>> {
    heads_within(table, key::segments_before(workspace, day)).await
}

/// Reads the logs of the days from `day` on with their heads.
///
/// # Errors
/// Errors of the table.
pub async fn heads_since(table: &dyn Table, workspace: &Id, day: Day) -> Result<Vec<LogHead>> {
    heads_within(table, key::segments_since(workspace, day)).await
}

/// Reads the logs of one day and kind with their heads.
///
/// # Errors
/// Errors of the table.
pub async fn heads_of_kind(table: &dyn Table, workspace: &Id, day: Day, kind: Kind) -> Result<Vec<LogHead>> {
    heads_within(table, key::segments_of_kind(workspace, day, kind)).await
}

/// Finds the first segment of a range: its log and its number.
///
/// # Errors
/// Errors of the table.
pub async fn first_within(table: &dyn Table, range: KeyRange) -> Result<Option<(LogId, u64)>> {
    first(table, Query::table(range)).await
}

/// Finds the last segment of a range: its log and its number.
///
/// # Errors
/// Errors of the table.
pub async fn last_within(table: &dyn Table, range: KeyRange) -> Result<Option<(LogId, u64)>> {
    first(table, Query::table(range).backward()).await
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

/// Finds the key of the first segment of a query.
pub(crate) async fn first(table: &dyn Table, query: Query) -> Result<Option<(LogId, u64)>> {
    let query = query.limit(1).only(&["v"]);
    let mut pages = Pages::of(table, query);
    while let Some(items) = pages.next().await? {
        if let Some(item) = items.first() {
            let found = key::parse_segment(&item.key);
            return found.map(Some).ok_or_else(|| item.corrupt("its key is not one of a segment"));
        }
    }
    Ok(None)
}

/// Reads the number of the last segment of a log; 0 when it has none.
///
/// # Errors
/// Errors of the table.
pub async fn head(table: &dyn Table, log: &LogId) -> Result<u64> {
    Ok(first(table, Query::table(key::segments_from(log, 0)).backward()).await?.map_or(0, |(_, seq)| seq))
}

/// Reads the first segment of a log, without its events.
///
/// # Errors
/// Errors of the table, and `Corrupt` for an item that is no segment.
pub async fn first_of(table: &dyn Table, log: &LogId) -> Result<Option<Segment>> {
    end_of(table, Query::table(key::segments_between(log, 1, 1))).await
}

/// Reads the last segment of a log, without its events.
///
/// # Errors
/// Errors of the table, and `Corrupt` for an item that is no segment.
pub async fn last_of(table: &dyn Table, log: &LogId) -> Result<Option<Segment>> {
    end_of(table, Query::table(key::segments_from(log, 0)).backward()).await
}

/// Reads the segment after `seq` in a log, without its events, if there is one already.
///
/// # Errors
/// Errors of the table, and `Corrupt` for an item that is no segment.
pub async fn after(table: &dyn Table, log: &LogId, seq: u64) -> Result<Option<Segment>> {
    end_of(table, Query::table(key::segments_from(log, seq + 1))).await
}

async fn end_of(table: &dyn Table, query: Query) -> Result<Option<Segment>> {
    let query = query.limit(1).only(SUMMARY);
    let mut pages = Pages::of(table, query);
    while let Some(items) = pages.next().await? {
        if let Some(item) = items.into_iter().next() {
            return Segment::from_item(item).map(Some);
        }
    }
    Ok(None)
}

/// Reads the segments of a log from `first` to `last`, which must exist: all of them, or an error. So no result covers
/// less than it claims.
///
/// # Errors
/// `Incomplete`, when one is missing: the events of the day were deleted, or are lost. `Corrupt` for an
/// item that is no segment; those of the table.
pub async fn segments(table: &dyn Table, log: &LogId, first: u64, last: u64) -> Result<Vec<Segment>> {
    let segments = grown(table, log, first, last).await?;
    let wanted = (last + 1).saturating_sub(first);
    if segments.len() as u64 != wanted {
        return Err(incomplete(log, (first, last), segments.len() as u64));
    }
    Ok(segments)
}

/// Makes the error of a log with only `read` of the segments that must exist.
pub(crate) fn incomplete(log: &LogId, (first, last): (u64, u64), read: u64) -> Error {
    let (wanted, day) = ((last + 1).saturating_sub(first), log.day);
    Error::incomplete(format!(
        "expected {wanted} segments of {log} from {first} up to {last}, read {read}; if the events of {day} \
         have not expired they are lost, and `almanac admin verify` says which"
    ))
}

/// Reads a log from `first` on, up to `last` at most, ending before the first gap: for followers, who do not know its
/// end. A gap means that the read came too early; the next read continues there.
///
/// # Errors
/// Errors of the table, and `Corrupt` for an item that is no segment.
pub async fn grown(table: &dyn Table, log: &LogId, first: u64, last: u64) -> Result<Vec<Segment>> {
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

/// Log of a day with the name `name`, such as `p/00`.
pub fn log_named(workspace: &Id, day: Day, name: &str) -> Option<LogId> {
    let (kind, lane) = name.split_once('/')?;
    Some(LogId {
        workspace: workspace.clone(),
        day,
        kind: Kind::from_letter(kind)?,
        lane: lane.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use event::{Clock, Column, Columns, ErrorKind, Timestamp, Values};
    use table::{Condition, sqlite::SqliteTable};

    use super::*;

    #[tokio::test]
    async fn a_short_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let log = log_named(&workspace, "2013-06-01".parse().unwrap(), "p/00").unwrap();
        let column = Column::new("predicted_at", Values::Time(vec![1]));
        let columns = Columns { rows: 1, columns: vec![column] };
        for seq in [1, 2, 4, 5] {
            let segment = Segment::pack(log.clone(), seq, Timestamp::default(), Vec::new(), &columns);
            table.put(segment.unwrap().to_item(), Condition::Absent).await.unwrap();
        }
        let seqs = async |first, last| {
            let segments = segments(&table, &log, first, last).await;
            segments.map(|segments| segments.iter().map(|segment| segment.seq).collect::<Vec<_>>())
        };
        assert_eq!(seqs(1, 2).await.unwrap(), [1, 2]);
        assert_eq!(seqs(4, 5).await.unwrap(), [4, 5]);
        assert_eq!(seqs(3, 2).await.unwrap(), [0; 0]);
        for (first, last, read) in [(1, 3, 2), (1, 5, 2), (3, 5, 0), (4, 6, 2), (6, 6, 0)] {
            let error = seqs(first, last).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Incomplete, "{first} to {last}");
            assert!(error.to_string().contains(&format!("up to {last}, read {read};")), "{error}");
        }
        // A follower of a log reads up to the hole.
        assert_eq!(grown(&table, &log, 1, u64::MAX).await.unwrap().len(), 2);
    }
}
