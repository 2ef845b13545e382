//! Explanation of an answer: the reads it took and the time of each step, counted as they happen. A query without an explanation
//! has no tally, and counts nothing.

mod said;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use event::{Day, Error, Id, Kind, Result, Window};
use log::key::LogId;
use table::{Answer as Read, Call, Item, Layer, Table};
use tokio::time::Instant;

pub use self::said::Explanation;
use crate::{
    Made, Query, Said,
    filter::{Filter, Why},
    output::Format,
    request::Request,
    sql::Sql,
};

/// The bytes of a read unit of DynamoDB.
const UNIT_BYTES: usize = 4 * 1024;

/// The steps of making an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Waiting for a turn, or for a place among the streams.
    Wait,
    /// Planning a statement or a condition in polars.
    Plan,
    /// Waiting for items of the table.
    Read,
    /// Unpacking segments into columns.
    Unpack,
    /// Building rows from columns: joining, choosing, ordering.
    Make,
    /// Computing the answer of a statement in polars.
    Compute,
    /// Writing rows in a format.
    Write,
}

impl Step {
    /// All of them in their order, with their names.
    pub(crate) const ALL: [(Self, &'static str); 7] = [
        (Self::Wait, "wait"),
        (Self::Plan, "plan"),
        (Self::Read, "read"),
        (Self::Unpack, "unpack"),
        (Self::Make, "make"),
        (Self::Compute, "compute"),
        (Self::Write, "write"),
    ];
}

/// Names and texts of the reasons why segments are not unpacked: known facts rule them out, or the answer had enough rows before
/// them.
pub(crate) const REASONS: [(&str, &str); Why::ALL.len() + 1] = {
    let mut reasons = [(ENOUGH, "the answer had enough rows before them"); Why::ALL.len() + 1];
    let mut at = 0;
    while at < Why::ALL.len() {
        reasons[at] = (Why::ALL[at].1, Why::ALL[at].0.says());
        at += 1;
    }
    reasons
};

/// The reason for segments that were candidates for reading and were not read.
const ENOUGH: &str = "enough";

/// The fate of a segment. If two are noted, the greater one holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    #[default]
    Unknown,
    /// It may hold requested rows, and was not unpacked so far.
    Found,
    Skipped(Why),
    Unpacked,
}

/// The fate of a day and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DayFate {
    /// No row of it is requested.
    Skipped,
    Expired,
    Read,
}

/// The counters of one answer.
#[derive(Debug)]
pub(crate) struct Tally {
    began: Instant,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    gets: u64,
    queries: u64,
    items: u64,
    bytes: u64,
    /// Units of single items, computed from their sizes, and units of pages as reported by the engine.
    units_of_gets: u64,
    units_of_pages: Option<f64>,
    days: BTreeMap<(Day, Kind), DayFate>,
    /// By sequence, from 1.
    segments: BTreeMap<LogId, Vec<Fate>>,
    unpacked_rows: u64,
    unpacked_bytes: u64,
    /// The columns unpacked of each kind; all if `None`.
    columns: BTreeMap<Kind, Option<BTreeSet<String>>>,
    rows: u64,
    steps: [Duration; Step::ALL.len()],
}

impl Tally {
    fn new() -> Self {
        Self { began: Instant::now(), counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the number of rows of the answer.
    pub(crate) fn rows(&self, rows: u64) {
        self.counts().rows = rows;
    }

    /// Notes the days of a window that a filter leaves out, and the columns read.
    pub(crate) fn window(&self, window: Window, filter: &Filter) {
        let mut counts = self.counts();
        for day in window.days().filter(|day| !filter.bounds.may_be_of(*day)) {
            counts.days.entry((day, filter.kind)).or_insert(DayFate::Skipped);
        }
        let more = filter.columns.as_ref().map(|names| names.iter().cloned().collect::<BTreeSet<_>>());
        match (counts.columns.get_mut(&filter.kind), more) {
            (Some(Some(columns)), Some(more)) => columns.extend(more),
            (_, more) => _ = counts.columns.insert(filter.kind, more),
        }
    }

    /// Notes that a day is read, or that its events have expired.
    pub(crate) fn day(&self, day: Day, kind: Kind, is_kept: bool) {
        let fate = if is_kept { DayFate::Read } else { DayFate::Expired };
        let mut counts = self.counts();
        let known = counts.days.entry((day, kind)).or_insert(fate);
        *known = (*known).max(fate);
    }

    /// Notes the reason for not reading a segment, or that it may have to be read.
    pub(crate) fn segment(&self, log: &LogId, seq: u64, skipped: Option<Why>) {
        self.counts().note(log, seq, skipped.map_or(Fate::Found, Fate::Skipped));
    }

    /// Notes that a segment is unpacked.
    pub(crate) fn unpacked(&self, log: &LogId, seq: u64, rows: usize, bytes: usize) {
        let mut counts = self.counts();
        counts.note(log, seq, Fate::Unpacked);
        counts.unpacked_rows += rows as u64;
        counts.unpacked_bytes += bytes as u64;
    }

    fn item(&self, item: Option<&Item>) {
        let mut counts = self.counts();
        counts.units_of_gets += item.map_or(0, Item::size).div_ceil(UNIT_BYTES).max(1) as u64;
        counts.items += u64::from(item.is_some());
        counts.bytes += item.map_or(0, Item::size) as u64;
    }
}

impl Counts {
    fn note(&mut self, log: &LogId, seq: u64, fate: Fate) {
        if !self.segments.contains_key(log) {
            self.segments.insert(log.clone(), Vec::new());
        }
        let (Some(fates), Ok(at)) = (self.segments.get_mut(log), usize::try_from(seq.saturating_sub(1)))
        else {
            return;
        };
        if fates.len() <= at {
            fates.resize(at + 1, Fate::Unknown);
        }
        fates[at] = fates[at].max(fate);
    }
}

/// Measures the time of a step, until it is dropped.
#[derive(Debug)]
pub(crate) struct Timed {
    tally: Arc<Tally>,
    step: Step,
    began: Instant,
}

impl Timed {
    /// Begins a step of an explanation; does nothing without a tally.
    pub(crate) fn begin(tally: Option<&Arc<Tally>>, step: Step) -> Option<Self> {
        tally.map(|tally| Self { tally: Arc::clone(tally), step, began: Instant::now() })
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        self.tally.counts().steps[self.step as usize] += self.began.elapsed();
    }
}

/// A table that counts its reads.
#[derive(Debug)]
struct Counted {
    table: Arc<dyn Table>,
    tally: Arc<Tally>,
}

impl Layer for Counted {
    type Kept = (Option<Timed>, bool);
    const ONE_BY_ONE: bool = false;

    fn below(&self) -> &dyn Table {
        &*self.table
    }

    async fn before(&self, call: Call<'_>) -> Result<Self::Kept> {
        let is_get = matches!(call, Call::Get(_));
        let mut counts = self.tally.counts();
        counts.gets += u64::from(is_get);
        counts.queries += u64::from(matches!(call, Call::Query(_)));
        drop(counts);
        Ok((Timed::begin(Some(&self.tally), Step::Read), is_get))
    }

    fn after(&self, (timed, is_get): Self::Kept, answer: Result<Read<'_>, &Error>) {
        drop(timed);
        match answer {
            Ok(Read::Page(page)) => {
                let mut counts = self.tally.counts();
                counts.items += page.items.len() as u64;
                counts.bytes += page.items.iter().map(Item::size).sum::<usize>() as u64;
                if let Some(units) = page.read_units {
                    *counts.units_of_pages.get_or_insert_default() += units;
                }
            }
            Ok(Read::Item(item)) => self.tally.item(Some(item)),
            Ok(Read::Done) if is_get => self.tally.item(None),
            _ => {}
        }
    }
}

/// Counts the reads of a service, from its creation on.
#[derive(Debug)]
pub(crate) struct Explaining(Arc<Tally>);

impl Explaining {
    /// Returns the counts so far.
    pub(crate) fn explanation(&self) -> Explanation {
        Explanation::of(&self.0.counts(), self.0.began.elapsed())
    }
}

impl Query {
    /// Returns a copy of the service whose reads are counted, and the counter.
    pub(crate) fn explaining(&self) -> (Self, Explaining) {
        let tally = Arc::new(Tally::new());
        let table: Arc<dyn Table> =
            Arc::new(Counted { table: Arc::clone(&self.table), tally: Arc::clone(&tally) });
        let budget = self.budget.counting(&tally);
        let catalog = catalog::Catalog::new(Arc::clone(&table));
        (Self { table, catalog, budget, ..self.clone() }, Explaining(tally))
    }

    /// Answers a request in a format, and returns an explanation instead of the rows.
    ///
    /// # Errors
    /// Errors of [`Query::answer_as`], and of writing the answer.
    pub async fn explain(&self, workspace: &Id, request: &Request, format: Format) -> Result<Explanation> {
        let (query, explaining) = self.explaining();
        match query.answer_as(workspace, request, format).await? {
            Made::Whole(answer) => drop(answer.write(format).await?),
            Made::Streamed(mut streamed) => while let Said::Bytes(_) = streamed.next().await? {},
        }
        Ok(explaining.explanation())
    }

    /// Answers a statement in a format, and returns an explanation instead of the rows.
    ///
    /// # Errors
    /// Errors of [`Query::sql`], and of writing the answer.
    pub async fn explain_sql(&self, workspace: &Id, sql: &Sql, format: Format) -> Result<Explanation> {
        let (query, explaining) = self.explaining();
        drop(query.sql(workspace, sql).await?.write(format).await?);
        Ok(explaining.explanation())
    }
}
