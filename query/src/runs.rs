//! The segments of a window in their order, and their columns, known before they are read.
//!
//! A survey walks through the logs and reads the attributes of segments in their items, and the headers of the segments if the
//! names of columns are not known otherwise. From then on the answer is fixed: every segment found is there when it is read, or
//! the answer fails.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use event::{Day, Error, Kind, Result};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use log::{
    key::{self, LogId},
    segment_item::{self, DATA, KNOWN_AT, LANES},
    walk::{Admitted, Arrivals, Segments},
};
use table::{Item, Page, Query, Table, item::Value};
use tokio::task::JoinHandle;

use crate::{
    filter::Lanes,
    filter::{Facts, Filter, Why},
    key_filters::PassedOver,
    read::{DAYS_AT_ONCE, Reading},
};

/// Minimum number of consecutive segments without a requested row that are worth skipping.
const WORTH_SKIPPING: u64 = 16;

/// Number of runs started ahead of the one being read.
const RUNS_AHEAD: usize = 4;

/// The attributes of an item read by a survey.
const ATTRIBUTES: [&str; 8] = ["v", LANES, "n", "appended_at", KNOWN_AT, "first_at", "last_at", "releases"];

/// Consecutive segments of a log that are read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) log: LogId,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// The runs of a day.
#[derive(Clone, Debug)]
pub(crate) struct DayRuns {
    pub(crate) day: Day,
    /// In the order of the log.
    pub(crate) runs: Vec<Run>,
    /// The members of families that the segments have, if requested.
    pub(crate) members: BTreeSet<String>,
    /// Number of rows of the release, or of all.
    pub(crate) rows: u64,
    /// True if there are segments of other keys than the requested ones, which are not read.
    has_other_lanes: bool,
}

/// Surveys the days of a window, in their order. Days without runs are left out, unless there are segments of other keys.
pub(crate) async fn survey(
    reading: &Arc<Reading>,
    filter: &Filter,
    with_members: bool,
) -> Result<Vec<DayRuns>> {
    let days = reading.days(filter).into_iter().map(|day| survey_day(reading, day, filter, with_members));
    let days: Vec<DayRuns> = stream::iter(days).buffered(DAYS_AT_ONCE).try_collect().await?;
    Ok(days.into_iter().filter(|day| !day.runs.is_empty() || day.has_other_lanes).collect())
}

impl DayRuns {
    /// Drops everything before a segment, given by its lane and number.
    pub(crate) fn begun_at(mut self, (lane, seq): (u8, u64)) -> Self {
        let holds = |run: &Run| run.log.lane == lane && (run.first..=run.last).contains(&seq);
        if let Some(at) = self.runs.iter().position(holds) {
            self.runs.drain(..at);
            self.runs[0].first = seq;
        }
        self
    }
}

async fn survey_day(
    reading: &Arc<Reading>,
    day: Day,
    filter: &Filter,
    with_members: bool,
) -> Result<DayRuns> {
    let (mut walk, passed) = PassedOver::walk(reading, day, filter).await?;
    let mut lanes = Lanes::default();
    let attributes: Vec<&str> = ATTRIBUTES.into_iter().chain(with_members.then_some(DATA)).collect();
    let mut found =
        DayRuns { day, runs: Vec::new(), members: BTreeSet::new(), rows: 0, has_other_lanes: false };
    if let Some(passed) = passed {
        found.has_other_lanes = true;
        found.members.extend(passed.columns.into_iter().filter(|_| with_members));
    }
    while let Some(page) = reading.page(&mut walk, Some(&attributes)).await? {
        reading.hold.check()?;
        lanes.learn(filter, &page);
        for Admitted { log, seq, item } in page {
            let rows = rows_of(filter, &item);
            let is_of_other_lane = rows.is_ok() && !lanes.may_hold(&log);
            if let Some(tally) = reading.hold.tally() {
                tally.segment(&log, seq, is_of_other_lane.then_some(Why::Lane).or(rows.err()));
            }
            let Ok(rows) = rows else { continue };
            // The columns of the answer do not depend on the requested keys.
            if with_members {
                let names = segment_item::column_names(&item);
                found.members.extend(names.filter(|name| filter.kind.family(name).is_some()));
            }
            if is_of_other_lane {
                found.has_other_lanes = true;
                continue;
            }
            found.rows += rows;
            add(&mut found.runs, (log, seq), &reading.left_out);
        }
    }
    reading.end_of_day(1);
    Ok(found)
}

/// Adds a segment after the runs. All segments between two segments of a run are read with them, so a segment that is
/// left out must not lie between two.
fn add(runs: &mut Vec<Run>, (log, seq): (LogId, u64), left_out: &Segments) {
    if let Some(run) = runs.last_mut()
        && run.log == log
        && seq - run.last <= WORTH_SKIPPING
        && !(run.last + 1..seq).any(|between| left_out.contains(&(log.clone(), between)))
    {
        run.last = seq;
        return;
    }
    runs.push(Run { log, first: seq, last: seq });
}

/// Returns the number of rows of a segment that belong to the requested release, or of all; else the reason that it
/// need not be read.
pub(crate) fn rows_of(filter: &Filter, item: &Item) -> Result<u64, Why> {
    let (Ok(rows), Ok(releases)) = (item.int("n"), item.map("releases")) else { return Ok(0) };
    let count = |name: &String| match releases.get(name) {
        Some(Value::N(number)) => number.as_i64().and_then(|count| u64::try_from(count).ok()),
        _ => None,
    };
    let rows = u64::try_from(rows).unwrap_or_default();
    let times = item.int("first_at").ok().zip(item.int("last_at").ok());
    match filter.why_not(Facts { rows, times, has: |name: &String| count(name).is_some() }) {
        Some(why) => Err(why),
        None => Ok(filter.release.as_ref().and_then(count).unwrap_or(rows)),
    }
}

/// Walks the logs of a window without unpacking anything, to find their ends.
pub(crate) async fn resolve(reading: &Arc<Reading>, kinds: &[Kind]) -> Result<()> {
    let walks = reading.window.days().map(|day| resolve_day(reading, day, kinds));
    stream::iter(walks).buffered(DAYS_AT_ONCE).try_collect::<()>().await
}

async fn resolve_day(reading: &Reading, day: Day, kinds: &[Kind]) -> Result<()> {
    for kind in kinds {
        let mut walk = reading.walk(day, *kind)?;
        while reading.page(&mut walk, Some(Arrivals::ATTRIBUTES)).await?.is_some() {}
    }
    Ok(())
}

/// Returns the pages of runs, one after the other. Each run is read whole.
pub(crate) fn pages(
    reading: &Arc<Reading>,
    runs: Vec<Run>,
) -> impl Stream<Item = Result<VecDeque<Admitted>>> + Send + use<> {
    let reading = Arc::clone(reading);
    let begun = runs.into_iter().map(move |run| {
        let mut pages = Box::pin(pages_of(Arc::clone(&reading), run));
        async move {
            let first = pages.try_next().await?;
            Ok::<_, Error>(stream::iter(first.map(Ok)).chain(pages))
        }
    });
    stream::iter(begun).buffered(RUNS_AHEAD).try_flatten()
}

fn pages_of(
    reading: Arc<Reading>,
    run: Run,
) -> impl Stream<Item = Result<VecDeque<Admitted>>> + Send + use<> {
    let query = Query::table(key::segments_between(&run.log, run.first, run.last));
    let begin = (run.first, Some(query));
    stream::try_unfold(begin, move |(mut next, query)| {
        let (reading, run) = (Arc::clone(&reading), run.clone());
        async move {
            let Some(query) = query else { return Ok(None) };
            reading.hold.check()?;
            let page = on_its_own(Arc::clone(&reading.table), query.clone()).await?;
            let mut admitted = VecDeque::with_capacity(page.items.len());
            for item in page.items {
                // The survey has warned of an item that is no segment.
                let Some((log, seq)) = key::parse_segment(&item.key) else { continue };
                if seq != next {
                    return Err(gone(&run, next));
                }
                admitted.push_back(Admitted { log, seq, item });
                next += 1;
            }
            let rest = page.next.map(|after| Query { after: Some(after), ..query });
            match rest.is_none() && next != run.last + 1 {
                true => Err(gone(&run, next)),
                false => Ok(Some((admitted, (next, rest)))),
            }
        }
    })
}

/// Reads a page in a task of its own. A stream stands still while its client takes nothing, but a read that has begun must finish
/// all the same: others wait for its turn at the table.
async fn on_its_own(table: Arc<dyn Table>, query: Query) -> Result<Page> {
    struct Aborts(JoinHandle<Result<Page>>);
    impl Drop for Aborts {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let mut reading = Aborts(tokio::spawn(async move { table.query(&query).await }));
    (&mut reading.0).await.map_err(|error| Error::unavailable("reading was interrupted").because(error))?
}

fn gone(run: &Run, seq: u64) -> Error {
    Error::incomplete(format!(
        "the segment {}/{}/{seq} has been deleted since the answer was begun; ask again",
        run.log.day,
        run.log.name()
    ))
}
