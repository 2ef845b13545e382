//! Reads the logs of a window: days side by side, only the columns that are wanted, and of the
//! segments only those that can hold a row that is.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use meter::catalogue::QUERY_DECODED_BYTES;
use store::{
    Columns, Day, Error, Id, Kind, Result, Table, Timestamp, Window,
    catalog::Kept,
    key,
    lane::Place,
    log::Segment,
    table::{Query, query_all},
};

/// How many days are read at once.
const DAYS_AT_ONCE: usize = 4;

/// Which segments and columns to read.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) kind: Kind,
    /// The columns to unpack; all when `None`.
    pub(crate) columns: Option<Vec<String>>,
    /// Only segments that hold events of this release.
    pub(crate) release: Option<String>,
    /// Only segments appended by then.
    pub(crate) as_of: Option<Timestamp>,
    /// Only days that have their events.
    pub(crate) kept: Arc<Kept>,
}

/// A segment with its events unpacked.
#[derive(Clone, Debug)]
pub(crate) struct Unpacked {
    pub(crate) day: Day,
    pub(crate) place: Place,
    pub(crate) appended_at: Timestamp,
    pub(crate) columns: Columns,
}

/// The days of a window.
pub(crate) fn days(window: Window) -> impl Iterator<Item = Day> {
    std::iter::successors(Some(window.from()), |day| day.next()).take_while(move |day| *day <= window.to())
}

/// What `make` makes of the segments of each day of a window, day by day. A day without segments is left out.
pub(crate) async fn window<T: Send + 'static>(
    table: &Arc<dyn Table>,
    workspace: &Id,
    window: Window,
    filter: &Filter,
    make: impl Fn(Vec<Unpacked>) -> Result<T> + Clone + Send + 'static,
) -> Result<Vec<T>> {
    let reads = days(window).map(|day| day_with(table, workspace, day, filter, make.clone()));
    let days: Vec<Option<T>> = stream::iter(reads).buffered(DAYS_AT_ONCE).try_collect().await?;
    Ok(days.into_iter().flatten().collect())
}

/// The segments of a day, in the order of the log.
pub(crate) async fn day_of(
    table: &Arc<dyn Table>,
    workspace: &Id,
    day: Day,
    filter: &Filter,
) -> Result<Vec<Unpacked>> {
    Ok(day_with(table, workspace, day, filter, Ok).await?.unwrap_or_default())
}

/// What `make` makes of the segments of a day, in the order of the log; `None`, when there is none.
async fn day_with<T: Send + 'static>(
    table: &Arc<dyn Table>,
    workspace: &Id,
    day: Day,
    filter: &Filter,
    make: impl FnOnce(Vec<Unpacked>) -> Result<T> + Send + 'static,
) -> Result<Option<T>> {
    if filter.kind != Kind::Releases && !filter.kept.keeps(day) {
        return Ok(None);
    }
    let range = key::segments_of_kind(workspace, day, filter.kind);
    let items = query_all(&**table, Query::table(range)).await?;
    if items.is_empty() {
        return Ok(None);
    }
    let filter = filter.clone();
    let unpacking = tokio::task::spawn_blocking(move || {
        let segments = items.into_iter().map(Segment::from_item);
        let wanted =
            segments.filter(|segment| segment.as_ref().map_or(true, |segment| filter.wants(segment)));
        let decoded_bytes = QUERY_DECODED_BYTES.counter([]);
        let unpacked = wanted.map(|segment| {
            let segment = segment?;
            decoded_bytes.increment(segment.data.len() as u64);
            filter.unpack(&segment)
        });
        let mut unpacked = unpacked.collect::<Result<Vec<_>>>()?;
        unpacked.sort_by_key(|segment| segment.place);
        if unpacked.is_empty() { Ok(None) } else { make(unpacked).map(Some) }
    });
    unpacking.await.map_err(|error| Error::unavailable("reading was interrupted").because(error))?
}

impl Filter {
    fn wants(&self, segment: &Segment) -> bool {
        let known = self.as_of.is_none_or(|as_of| segment.appended_at <= as_of);
        known
            && segment.rows > 0
            && self.release.as_ref().is_none_or(|release| segment.releases.contains_key(release))
    }

    fn unpack(&self, segment: &Segment) -> Result<Unpacked> {
        let is_filtered = self.release.is_some();
        let columns = segment.unpack(|name| match &self.columns {
            Some(wanted) => wanted.iter().any(|column| column == name) || (is_filtered && name == "release"),
            None => true,
        })?;
        let columns = match &self.release {
            Some(release)
                if segment.releases.len() > 1
                    || segment.releases.get(release) != Some(&(segment.rows as u64)) =>
            {
                let column = columns.column("release");
                let is_of = |row: &usize| column.and_then(|column| column.text(*row)) == Some(release);
                columns.take(&(0..columns.rows).filter(is_of).collect::<Vec<_>>())
            }
            _ => columns,
        };
        let appended_at = segment.appended_at;
        Ok(Unpacked { day: segment.log.day, place: segment.place(), appended_at, columns })
    }
}
