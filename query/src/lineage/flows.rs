//! Flows of events into a workspace, added up from the headers of its segments.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use catalog::Kept;
use event::{Day, Id, Kind, Result, Timestamp};
use log::{
    active,
    audit::{Author, SourceValues},
    key,
    projection::{Applied, COVERAGE, Projected},
    segment_item::{AUTHORS, SUMMARY, Segment},
};
use table::{KeyRange, Pages, Query as TableQuery, Table};

use super::LineageRequest;
use crate::{audit::appends::authors, budget::Hold};

/// Approximate bytes of a flow without its texts.
const BYTES_OF_FLOW: u64 = 256;

/// Events of a day and kind with one source and one release.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) day: Day,
    pub(super) kind: Kind,
    /// Source of the appends, without the author's other fields, which differ between batches.
    from: Author,
    pub(super) release: Option<Arc<str>>,
    /// Lower and upper bound of the number of events.
    pub(super) rows: u64,
    pub(super) rows_at_most: u64,
    /// Part of `rows` that the evaluation of the day covers.
    pub(super) evaluated: u64,
    /// Times at which the first and the last segment of them were appended.
    pub(super) appended: (Timestamp, Timestamp),
}

impl Flow {
    /// Returns the values of the source, in the order of its words.
    pub(super) fn source(&self) -> SourceValues<'_> {
        self.from.source_values()
    }

    /// Returns the release that the events name.
    pub(super) fn release_name(&self) -> Option<&str> {
        self.release.as_deref()
    }

    /// Returns true if such events are evaluated.
    pub(super) fn is_judged(&self) -> bool {
        matches!(self.kind, Kind::Predictions | Kind::Outcomes)
    }
}

/// Key of a flow: day, kind, source and release.
type FlowKey = (Day, Kind, Option<String>, Option<Arc<str>>);

/// The flows of a window.
#[derive(Debug, Default)]
pub(super) struct Flows {
    known: BTreeMap<FlowKey, Flow>,
    /// The releases with predictions on each day.
    predicted: BTreeMap<Day, BTreeSet<Arc<str>>>,
    evaluated: BTreeMap<Day, Applied>,
    bytes: u64,
}

impl Flows {
    /// Reads the flows of the days of a request that have not expired.
    ///
    /// # Errors
    /// `TooLarge` and `Unavailable`, if they take too much of the bounds; errors of the table.
    pub(super) async fn read(
        table: &dyn Table,
        workspace: &Id,
        request: &LineageRequest,
        kept: &Kept,
        hold: &Hold,
    ) -> Result<Self> {
        let version = active::load(table, workspace).await?.version;
        let (first, last) = (request.window.from(), request.window.to());
        let attributes: Vec<&str> = SUMMARY.iter().copied().chain([AUTHORS]).collect();
        let query = TableQuery::table(key::segments_of_days(workspace, first, last)).only(&attributes);
        let mut pages = Pages::of(table, query);
        let mut flows = Self::default();
        while let Some(items) = pages.next().await? {
            for item in items {
                let segment = Segment::from_item(item)?;
                let day = segment.log.day;
                if segment.rows == 0 || !kept.keeps(day) {
                    continue;
                }
                if let Entry::Vacant(new) = flows.evaluated.entry(day) {
                    new.insert(evaluated(table, workspace, version, day).await?);
                }
                flows.add(&segment)?;
            }
            hold.settle(flows.bytes).await?;
        }
        Ok(flows)
    }

    /// Adds the counts of a segment. For a source and a release it knows both numbers of events, but not their intersection: this
    /// is at least the excess of their sum over the segment's events, and at most the smaller number.
    fn add(&mut self, segment: &Segment) -> Result<()> {
        let mut by_source = BTreeMap::<Option<String>, u64>::new();
        for (part, author) in segment.batches.iter().zip(authors(segment)?) {
            *by_source.entry(author.and_then(Author::into_source)).or_default() += part.rows as u64;
        }
        let all = segment.rows as u64;
        let named: u64 = segment.releases.values().sum();
        let releases = segment.releases.iter().map(|(name, rows)| (Some(Arc::from(name.as_str())), *rows));
        let rest = (named < all).then_some((None, all.saturating_sub(named)));
        let releases: Vec<(Option<Arc<str>>, u64)> = releases.chain(rest).collect();
        let (day, kind, at) = (segment.log.day, segment.log.kind, segment.appended_at);
        if kind == Kind::Predictions {
            let predicted = releases.iter().filter_map(|(release, _)| release.clone());
            self.predicted.entry(day).or_default().extend(predicted);
        }
        let covered = self.evaluated.get(&day).and_then(|applied| applied.get(&segment.log.name()));
        let is_covered = covered.is_some_and(|seq| *seq >= segment.seq);
        for (source, of_source) in by_source {
            for (release, of_release) in &releases {
                let rows = (of_source + of_release).saturating_sub(all);
                let flow = self.flow((day, kind, source.clone(), release.clone()), at);
                flow.rows += rows;
                flow.rows_at_most += of_source.min(*of_release);
                flow.evaluated += if is_covered { rows } else { 0 };
                flow.appended = (flow.appended.0.min(at), flow.appended.1.max(at));
            }
        }
        Ok(())
    }

    fn flow(&mut self, key: FlowKey, at: Timestamp) -> &mut Flow {
        let (day, kind, source, release) = key.clone();
        let bytes = &mut self.bytes;
        self.known.entry(key).or_insert_with(|| {
            let texts =
                source.as_ref().map_or(0, String::len) + release.as_ref().map_or(0, |name| name.len());
            *bytes += BYTES_OF_FLOW + 2 * texts as u64;
            let from = Author { source, ..Author::program() };
            Flow { day, kind, from, release, rows: 0, rows_at_most: 0, evaluated: 0, appended: (at, at) }
        })
    }

    /// Returns the requested flows, by day, kind, source and release.
    pub(super) fn wanted<'a>(&'a self, request: &'a LineageRequest) -> impl Iterator<Item = &'a Flow> {
        self.known.values().filter(|flow| request.wants(flow, self))
    }

    /// Returns the releases labelled by outcomes, which name none: all releases with predictions on their day.
    pub(super) fn labels(&self, flow: &Flow) -> impl Iterator<Item = &str> {
        let is_open = flow.kind == Kind::Outcomes && flow.release.is_none();
        let predicted = is_open.then(|| self.predicted.get(&flow.day)).flatten();
        predicted.into_iter().flatten().map(|name| &**name)
    }
}

/// Reads the prefixes of logs that the stored evaluation of a day covers; empty if there is none.
async fn evaluated(table: &dyn Table, workspace: &Id, version: u32, day: Day) -> Result<Applied> {
    let key = key::evaluation(workspace, version, day);
    let range = KeyRange { pk: key.pk, from: key.sk.clone(), to: key.sk };
    let query = TableQuery::table(range).only(COVERAGE);
    let mut pages = Pages::of(table, query);
    while let Some(items) = pages.next().await? {
        if let Some(item) = items.first() {
            return Projected::applied_of(item);
        }
    }
    Ok(Applied::default())
}

#[cfg(test)]
mod tests {
    use event::{Column, Columns, Values};
    use log::{
        authors::Authors,
        batch::{BatchId, BatchPart},
        key::LogId,
    };

    use super::*;

    /// Builds a segment of predictions: `sources` has the number of each source, `releases` the release of each.
    fn segment(sources: &[(Option<&str>, usize)], releases: &[Option<&str>]) -> Segment {
        let workspace = Id::new(Timestamp::default());
        let day = "2026-06-01".parse().unwrap();
        let log = LogId { workspace, day, kind: Kind::Predictions, lane: 0 };
        let column = Column::new("release", Values::Text(releases.iter().copied().flatten().collect()));
        let columns = Columns { rows: releases.len(), columns: vec![column] };
        let mut first = 0;
        let part = |(at, (_, rows)): (usize, &(Option<&str>, usize))| {
            first += rows;
            BatchPart { batch: BatchId([at as u8; 16]), first: first - rows, rows: *rows }
        };
        let parts = sources.iter().enumerate().map(part).collect();
        let author = |(source, _): &(Option<&str>, usize)| {
            Arc::new(Author { source: source.map(str::to_owned), ..Author::program() })
        };
        let authors: Vec<Arc<Author>> = sources.iter().map(author).collect();
        let segment = Segment::pack(log, 1, Timestamp::default(), parts, &columns).unwrap();
        Segment { authors: Authors::of(&authors), ..segment }
    }

    fn bounds(flows: &Flows) -> Vec<(Option<&str>, Option<&str>, u64, u64)> {
        let of = |flow| {
            let flow: &Flow = flow;
            (flow.source()[1], flow.release_name(), flow.rows, flow.rows_at_most)
        };
        flows.known.values().map(of).collect()
    }

    #[test]
    fn lineage_of_single_source_or_release_is_exact() {
        let mut flows = Flows::default();
        flows.add(&segment(&[(Some("job=a"), 4), (None, 1)], &[Some("v1"); 5])).unwrap();
        flows
            .add(&segment(
                &[(Some("job=a"), 5)],
                &[Some("v1"), Some("v1"), Some("v2"), Some("v2"), Some("v2")],
            ))
            .unwrap();
        let expected =
            [(None, Some("v1"), 1, 1), (Some("a"), Some("v1"), 4 + 2, 4 + 2), (Some("a"), Some("v2"), 3, 3)];
        assert_eq!(bounds(&flows), expected);
    }

    #[test]
    fn mixed_segment_counts_have_bounds() {
        let mut flows = Flows::default();
        let releases = [Some("v1"), Some("v2"), Some("v1"), Some("v1"), Some("v2")];
        flows.add(&segment(&[(Some("job=a"), 4), (Some("job=b"), 1)], &releases)).unwrap();
        let expected = [
            (Some("a"), Some("v1"), 2, 3),
            (Some("a"), Some("v2"), 1, 2),
            (Some("b"), Some("v1"), 0, 1),
            (Some("b"), Some("v2"), 0, 1),
        ];
        assert_eq!(bounds(&flows), expected);
    }
}
