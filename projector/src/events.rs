//! Source of the events for a fold: the table, or the events that ingest handed over in this process.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use event::{Columns, Kind, Result, lane::LogPosition};
use log::{
    erased,
    key::LogId,
    scan,
    segment_cache::{CachedSegment, SegmentCache},
    segment_item::Segment,
};
use table::Table;

use crate::WorkspaceDay;

/// Reader of logs.
pub(crate) struct Events<'a> {
    table: &'a dyn Table,
    /// The cache to take events from, and the number of erased keys in the workspace.
    handed: Option<(&'a SegmentCache, u64)>,
}

/// Segment to fold, from the table or the cache.
pub(crate) enum Found {
    /// Read from the table.
    Stored(Box<Segment>),
    /// Taken from the cache.
    CachedSegment(Kind, Arc<CachedSegment>),
}

/// Consecutive segments of a log.
pub(crate) struct Run {
    /// Segments in their order, without holes.
    pub(crate) segments: Vec<Found>,
    /// True if there may be more behind them, within the requested range.
    pub(crate) has_more: bool,
}

impl<'a> Events<'a> {
    /// Creates a reader of the table alone.
    pub(crate) fn stored(table: &'a dyn Table) -> Self {
        Self { table, handed: None }
    }

    /// Creates a reader of handed over events, if there are any for some of these logs of a day, and of the table otherwise. Must
    /// be called after the version of the projections is known: events found then have no key that was erased before.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub(crate) async fn handed(
        table: &'a dyn Table,
        segment_cache: &'a SegmentCache,
        day: &WorkspaceDay,
        logs: &BTreeSet<LogId>,
    ) -> Result<Self> {
        let handed = match logs.iter().any(|log| segment_cache.has(log)) {
            true => Some((segment_cache, erased::count(table, &day.workspace).await?)),
            false => None,
        };
        Ok(Self { table, handed })
    }

    /// The table.
    pub(crate) fn table(&self) -> &dyn Table {
        self.table
    }

    /// Reads a log from `first` on, up to `last` at most, as [`scan::grown`] does.
    ///
    /// # Errors
    /// Errors of [`scan::grown`].
    pub(crate) async fn grown(&self, log: &LogId, first: u64, last: u64) -> Result<Run> {
        if let Some((segment_cache, erased)) = self.handed {
            let taken = segment_cache.take(log, (first, last), erased);
            if !taken.is_empty() {
                // Behind the handed over segments the log may go on, here or in the table.
                let found = |handed| Found::CachedSegment(log.kind, handed);
                return Ok(Run { segments: taken.into_iter().map(found).collect(), has_more: true });
            }
        }
        let segments = scan::grown(self.table, log, first, last).await?;
        if let Some((segment_cache, _)) = self.handed {
            segment_cache.missed(segments.len());
        }
        let has_more = segments.len() as u64 == (last + 1).saturating_sub(first);
        Ok(Run { segments: segments.into_iter().map(Box::new).map(Found::Stored).collect(), has_more })
    }
}

impl Found {
    /// Place among the segments of its day and kind.
    pub(crate) fn place(&self) -> LogPosition {
        match self {
            Self::Stored(segment) => segment.place(),
            Self::CachedSegment(_, handed) => handed.place,
        }
    }

    /// Kind of its events.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Stored(segment) => segment.log.kind,
            Self::CachedSegment(kind, _) => *kind,
        }
    }

    /// Number of its events.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Stored(segment) => segment.rows,
            Self::CachedSegment(_, handed) => handed.columns.rows,
        }
    }

    /// Number of its events whose keys were erased. Those from the cache have none.
    pub(crate) fn erased(&self) -> u64 {
        match self {
            Self::Stored(segment) => segment.erased,
            Self::CachedSegment(..) => 0,
        }
    }

    /// Number of bytes unpacked to fold it.
    pub(crate) fn packed_bytes(&self) -> usize {
        match self {
            Self::Stored(segment) => segment.data.len(),
            Self::CachedSegment(..) => 0,
        }
    }

    /// Returns its columns, at least the wanted ones; `wanted` is called for each. Folds use no others.
    ///
    /// # Errors
    /// Errors of [`Segment::unpack`].
    pub(crate) fn columns(&self, wanted: impl Fn(&str) -> bool) -> Result<Cow<'_, Columns>> {
        match self {
            Self::Stored(segment) => segment.unpack(wanted).map(Cow::Owned),
            Self::CachedSegment(_, handed) => {
                handed.columns.columns.iter().for_each(|column| _ = wanted(&column.name));
                Ok(Cow::Borrowed(&*handed.columns))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use event::{Clock, Column, Id, Timestamp, Values};
    use table::{Condition, sqlite::SqliteTable};

    use super::*;
    use crate::project::project_handed;

    #[tokio::test]
    async fn fold_covers_handed_over_and_later_stored_segments() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let segment_cache = SegmentCache::of(1 << 20);
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let day = WorkspaceDay { workspace: workspace.clone(), day: "2013-06-01".parse().unwrap() };
        let log = LogId { workspace, day: day.day, kind: Kind::Predictions, lane: 0 };
        let append = async |seqs: std::ops::RangeInclusive<u64>, is_handed: bool| {
            for seq in seqs {
                let columns = vec![
                    Column::new("key", Values::Text(["a"].into_iter().collect())),
                    Column::new("predicted_at", Values::Time(vec![day.day.start().micros() + seq as i64])),
                    Column::new("release", Values::Text(["v1"].into_iter().collect())),
                ];
                let columns = Arc::new(Columns { rows: 1, columns });
                let segment =
                    Segment::pack(log.clone(), seq, Timestamp::default(), Vec::new(), &columns).unwrap();
                table.put(segment.to_item(), Condition::Absent).await.unwrap();
                if is_handed {
                    segment_cache.give(&segment, &columns, 0);
                }
            }
        };
        let logs = BTreeSet::from([log.clone()]);
        let mut last = 0;
        // Exactly a batch, several batches, and some segments behind them that are only stored.
        for (handed, stored) in [(64, 0), (200, 0), (64, 3), (1, 130)] {
            append(last + 1..=last + handed, true).await;
            append(last + handed + 1..=last + handed + stored, false).await;
            last += handed + stored;
            let done = project_handed(&table, &segment_cache, 1, &day, &logs).await.unwrap();
            assert_eq!(
                done.applied.get(&log.name()),
                Some(&last),
                "{handed} handed over, {stored} behind them"
            );
            assert!(!segment_cache.has(&log));
        }
    }
}
