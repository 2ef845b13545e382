//! Reading of the logs of a window: days side by side, only the requested columns, and only segments that can hold a requested
//! row.
//!
//! A prefix of each log is read: all of it, the part appended by an instant, or the part named by a [`ReadVersion`]. The prefix is noted,
//! so that it can be read again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use catalog::Kept;
use event::{Columns, Day, Error, ErrorKind, Id, Kind, Result, Timestamp, Window, lane::LogPosition};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use log::{
    key::LogId,
    read_version::ReadVersion,
    segment_item::Segment,
    walk::{Admitted, Heads, Note, Segments, Until, Walk, heads_of},
};
use meter::catalogue::{QUERY_DECODED_BYTES, QUERY_LEFT_OUT};
use table::Table;
use tokio::sync::OnceCell;

use crate::{
    budget::{Full, Hold, in_words},
    explain::Step,
    filter::Lanes,
    filter::Why,
    key_filters::PassedOver,
    meters,
    runs::rows_of,
    work,
};

pub(crate) use crate::filter::{Filter, RowBounds};

/// Number of days read at once.
pub(crate) const DAYS_AT_ONCE: usize = 4;

/// The result of a day, and its bytes if these are fewer than the bytes of its segments.
pub(crate) type Made<T> = (T, Option<u64>);

/// One reading of a window for an answer, and its findings.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) table: Arc<dyn Table>,
    pub(crate) workspace: Id,
    pub(crate) window: Window,
    pub(crate) until: Until,
    /// The closed instant by which definitions are chosen.
    pub(crate) closed: Timestamp,
    /// Days whose events have not expired; only these are read.
    pub(crate) kept: Kept,
    /// Segments that operators skipped, or that a read version leaves out.
    pub(crate) left_out: Arc<Segments>,
    pub(crate) hold: Hold,
    /// True if another reading has already warned of what is left out.
    is_again: bool,
    /// Active version of the projections of the workspace, once it was looked up.
    pub(crate) version: OnceCell<u32>,
    /// True if the answer has days as they stood at an age, which no read version names.
    pub(crate) has_vintages: AtomicBool,
    /// True if the answer depends on the times when events were known, though it is of now.
    pub(crate) is_of_times: AtomicBool,
    found: Mutex<Findings>,
}

/// The findings of a reading.
#[derive(Debug, Default)]
struct Findings {
    kinds: BTreeSet<Kind>,
    heads: BTreeMap<LogId, u64>,
    left_out: BTreeSet<(LogId, u64)>,
    warnings: BTreeSet<String>,
    /// Append times of the first segments of logs that had none at the instant as of which they are read.
    later: BTreeMap<LogId, Timestamp>,
    /// The days that have events with known-at times.
    stated: BTreeSet<Day>,
    /// Number of days read, counted for each kind.
    days: usize,
}

impl Findings {
    /// Warns of days that were over at the instant `as_of`, but whose predictions were all appended later, as those of an
    /// imported history are.
    fn appended_later(&self, as_of: Timestamp) -> Option<String> {
        let is_over = |log: &LogId| {
            log.kind == Kind::Predictions && log.day.next().is_some_and(|next| next.start() <= as_of)
        };
        let is_read = |day| self.heads.keys().any(|log| log.kind == Kind::Predictions && log.day == day);
        let mut days = BTreeSet::new();
        let mut first: Option<Timestamp> = None;
        for (log, at) in self.later.iter().filter(|(log, _)| is_over(log) && !is_read(log.day)) {
            days.insert(log.day);
            first = Some(first.map_or(*at, |first| first.min(*at)));
        }
        let (from, to, first) = (days.first()?, days.last()?, first?);
        Some(format!(
            "as of {as_of} no prediction of {} day(s) from {from} to {to} had been appended: the first was at {first}, so nothing is known of them as of times before that",
            days.len()
        ))
    }

    /// Warns of days whose events count from their known-at time instead of their append.
    fn as_stated(&self) -> Option<String> {
        let (from, to) = (self.stated.first()?, self.stated.last()?);
        Some(format!(
            "of {} day(s) from {from} to {to} events count from when their import states that they were known, which Almanac did not see",
            self.stated.len()
        ))
    }
}

/// A segment with its events unpacked.
#[derive(Clone, Debug)]
pub(crate) struct Unpacked {
    pub(crate) day: Day,
    pub(crate) place: LogPosition,
    pub(crate) appended_at: Timestamp,
    pub(crate) columns: Columns,
}

/// Returns the result of `make` for the segments of each day of a window, day by day. A day without segments is left out.
pub(crate) fn window<T, M>(
    reading: &Arc<Reading>,
    filter: &Filter,
    newest_first: bool,
    make: M,
) -> impl Stream<Item = Result<T>> + Send + 'static + use<T, M>
where
    T: Send + 'static,
    M: Fn(Vec<Unpacked>) -> Result<Made<T>> + Clone + Send + 'static,
{
    let (reading, filter) = (Arc::clone(reading), filter.clone());
    let mut days = reading.days(&filter);
    if newest_first {
        days.reverse();
    }
    let reads = days.into_iter().map(move |day| {
        let (reading, filter, make) = (Arc::clone(&reading), filter.clone(), make.clone());
        async move { day_with(&reading, day, &filter, make).await }
    });
    stream::iter(reads).buffered(DAYS_AT_ONCE).try_filter_map(|made| std::future::ready(Ok(made)))
}

/// Returns the segments of a day, in the order of the log.
pub(crate) async fn day_of(reading: &Arc<Reading>, day: Day, filter: &Filter) -> Result<Vec<Unpacked>> {
    Ok(day_with(reading, day, filter, |segments| Ok((segments, None))).await?.unwrap_or_default())
}

/// Returns the result of `make` for the segments of a day, in the order of the log; `None`, if there are none.
async fn day_with<T: Send + 'static>(
    reading: &Arc<Reading>,
    day: Day,
    filter: &Filter,
    make: impl FnOnce(Vec<Unpacked>) -> Result<Made<T>> + Send + 'static,
) -> Result<Option<T>> {
    let (mut walk, passed) = PassedOver::walk(reading, day, filter).await?;
    let mut lanes = Lanes::default();
    let mut unpacked: Vec<Unpacked> = passed.iter().map(|passed| passed.no_rows(day, filter)).collect();
    let mut bytes = 0;
    while let Some(page) = reading.page(&mut walk, None).await? {
        reading
            .hold
            .read_rows(page.iter().map(|segment| rows_of(filter, &segment.item).unwrap_or(0)).sum())?;
        lanes.learn(filter, &page);
        let (filter, of_day, taking) = (filter.clone(), lanes.clone(), Arc::clone(reading));
        let taken = work::piece(move || taking.unpack(&filter, &of_day, page)).await;
        let taken = taken.map_err(|error| Error::unavailable("reading was interrupted").because(error))??;
        let more = taken.iter().map(|segment| segment.columns.bytes() as u64).sum();
        bytes += more;
        unpacked.extend(taken);
        reading.grow(more).await?;
    }
    reading.end_of_day(1);
    if unpacked.is_empty() {
        return Ok(None);
    }
    unpacked.sort_by_key(|segment: &Unpacked| segment.place);
    // While the result is made, segments and result are both in memory.
    reading.grow(bytes).await?;
    let making = Arc::clone(reading);
    let made = work::piece(move || {
        making.hold.check()?;
        let _timed = making.hold.step(Step::Make);
        make(unpacked)
    });
    let made = made.await.map_err(|error| Error::unavailable("reading was interrupted").because(error))?;
    reading.hold.shrink(bytes);
    let (made, kept) = made?;
    reading.keep(kept.unwrap_or(bytes), bytes).await?;
    Ok(Some(made))
}

impl Reading {
    pub(crate) fn new(
        table: &Arc<dyn Table>,
        workspace: &Id,
        window: Window,
        (until, closed): (Until, Timestamp),
        kept: Kept,
        left_out: Segments,
        hold: Hold,
    ) -> Self {
        let (table, workspace, found) = (Arc::clone(table), workspace.clone(), Mutex::default());
        let left_out = Arc::new(left_out);
        Self {
            table,
            workspace,
            window,
            until,
            closed,
            kept,
            left_out,
            hold,
            is_again: false,
            version: OnceCell::new(),
            has_vintages: AtomicBool::new(false),
            is_of_times: AtomicBool::new(false),
            found,
        }
    }

    /// Returns a reading limited to the logs and segments found so far.
    pub(crate) fn fixed(&self) -> Self {
        let heads = self.found().heads.clone();
        self.then(heads, self.closed)
    }

    /// Returns a reading limited to these heads of the logs, as of an instant.
    pub(crate) fn then(&self, heads: Heads, closed: Timestamp) -> Self {
        let left_out = self.left_out.iter().cloned().chain(self.found().left_out.iter().cloned()).collect();
        let (point, kept) = ((Until::Heads(heads), closed), self.kept.clone());
        let again =
            Self::new(&self.table, &self.workspace, self.window, point, kept, left_out, self.hold.clone());
        Self { is_again: true, ..again }
    }

    /// Returns the days of the window that may have a requested row.
    pub(crate) fn days(&self, filter: &Filter) -> Vec<Day> {
        if let Some(tally) = self.hold.tally() {
            tally.window(self.window, filter);
        }
        self.window.days().filter(|day| filter.bounds.may_be_of(*day)).collect()
    }

    /// Starts a walk through the logs of a day and kind.
    ///
    /// # Errors
    /// `NotFound`, if events of a read version have expired.
    pub(crate) fn walk(&self, day: Day, kind: Kind) -> Result<Walk> {
        self.found().kinds.insert(kind);
        let is_kept = self.is_kept(day, kind);
        if let Some(tally) = self.hold.tally() {
            tally.day(day, kind, is_kept);
        }
        let until = match &self.until {
            Until::Heads(heads) => {
                let heads = heads_of(heads, &self.workspace, day, kind);
                let heads: BTreeMap<_, _> = heads.map(|(log, last)| (log.clone(), *last)).collect();
                if !is_kept && !heads.is_empty() {
                    return Err(Error::not_found(format!(
                        "the events of {day} have expired since this read version was given out; ask for other days"
                    )));
                }
                Until::Heads(heads)
            }
            _ if !is_kept => Until::Heads(BTreeMap::new()),
            until => until.clone(),
        };
        Ok(self.walk_until(day, kind, until))
    }

    /// Returns true if the events of a day are read. Release events never expire.
    pub(crate) fn is_kept(&self, day: Day, kind: Kind) -> bool {
        kind == Kind::Releases || self.kept.keeps(day)
    }

    /// Starts a walk through the prefixes already read of the logs of a day and kind.
    pub(crate) fn walk_again(&self, day: Day, kind: Kind, heads: Heads) -> Walk {
        self.walk_until(day, kind, Until::Heads(heads))
    }

    fn walk_until(&self, day: Day, kind: Kind, until: Until) -> Walk {
        Walk::new(&self.workspace, day, kind, until, Arc::clone(&self.left_out))
    }

    /// Returns the next page of a walk, and records missing data.
    pub(crate) async fn page(
        &self,
        walk: &mut Walk,
        attributes: Option<&[&str]>,
    ) -> Result<Option<Vec<Admitted>>> {
        let page = walk.next(&*self.table, attributes).await;
        self.note(walk.notes());
        page.map_err(|error| self.failed(error))
    }

    /// Translates an error of a walk for a query.
    pub(crate) fn failed(&self, error: Error) -> Error {
        match (error.kind(), &self.until) {
            (ErrorKind::Incomplete, Until::Heads(_)) => {
                Error::corrupt(format!("the read version cannot be read again: {error}"))
            }
            _ => error,
        }
    }

    /// Takes over the notes of a walk.
    pub(crate) fn note(&self, notes: Vec<Note>) {
        for note in notes {
            match note {
                Note::Read(log, seq) => _ = self.found().heads.insert(log, seq),
                Note::LeftOut(..) if self.is_again => {}
                Note::LeftOut(log, seq) => match self.until {
                    Until::Heads(_) => {
                        self.leave_out(&log, seq, meters::UNREADABLE, "so the read version says")
                    }
                    _ => self.leave_out(&log, seq, meters::SKIPPED, "an operator skipped it"),
                },
                Note::Missing(log, seq) => self.warn(format!(
                    "segment {}/{}/{seq} is missing, and what follows it is left out",
                    log.day,
                    log.name()
                )),
                Note::Later(log, first) => _ = self.found().later.insert(log, first),
                Note::Stated(log) => _ = self.found().stated.insert(log.day),
                Note::NoSegment(key) => self.warn(format!("the item {key} is left out: it is no segment")),
            }
        }
    }

    /// Returns the heads up to which the logs of a day and kind have been read.
    pub(crate) fn heads(&self, day: Day, kind: Kind) -> Heads {
        let heads = &self.found().heads;
        heads_of(heads, &self.workspace, day, kind).map(|(log, last)| (log.clone(), *last)).collect()
    }

    fn found(&self) -> MutexGuard<'_, Findings> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that some kinds of events of a day are read.
    pub(crate) fn end_of_day(&self, kinds: usize) {
        self.found().days += kinds;
    }

    /// Notes that a segment is not in the answer.
    pub(crate) fn leave_out(&self, log: &LogId, seq: u64, why: &'static str, because: &str) {
        let name = format!("{}/{}/{seq}", log.day, log.name());
        tracing::warn!(workspace = %log.workspace, segment = name, because, "a query leaves a segment out");
        if let Some(tally) = self.hold.tally() {
            tally.segment(log, seq, Some(Why::LeftOut));
        }
        let mut found = self.found();
        if found.left_out.insert((log.clone(), seq)) {
            QUERY_LEFT_OUT.counter([why]).increment(1);
        }
        found.warnings.insert(format!("segment {name} is left out: {because}"));
    }

    /// Adds a warning about other missing data.
    pub(crate) fn warn(&self, warning: String) {
        tracing::warn!(workspace = %self.workspace, warning, "a query is answered in part");
        self.found().warnings.insert(warning);
    }

    /// Counts `bytes` more; the error of a reading that is too large estimates its total.
    pub(crate) async fn grow(&self, bytes: u64) -> Result<()> {
        self.hold.grow(bytes).await.map_err(|full| match full {
            Full::Busy | Full::NotWhole => self.hold.refusal(full),
            Full::TooLarge { bytes } => {
                let done = self.found();
                let all = self.window.days().count() * done.kinds.len().max(1);
                let about = bytes as f64 * all as f64 / done.days.max(1) as f64;
                self.hold.too_large(&match done.days {
                    0 => format!("it holds {} before its first day is read", in_words(bytes)),
                    done => format!(
                        "it holds {} after {done} of {all} days, so it would take about {}",
                        in_words(bytes),
                        in_words(about as u64)
                    ),
                })
            }
        })
    }

    /// Returns the read version that was read, so that it can be read again, and the warnings.
    pub(crate) fn read_version(&self) -> (ReadVersion, Vec<String>) {
        let mut found = std::mem::take(&mut *self.found());
        found.warnings.extend(found.appended_later(self.closed));
        let is_of_then = !matches!(self.until, Until::Now) || self.is_of_times.load(Ordering::Relaxed);
        if is_of_then && !self.is_again {
            found.warnings.extend(found.as_stated());
        }
        let read_version = ReadVersion {
            workspace: self.workspace.clone(),
            window: self.window,
            kinds: found.kinds,
            as_of: self.closed,
            heads: found.heads,
            left_out: found.left_out,
        };
        (read_version, found.warnings.into_iter().collect())
    }

    /// Unpacks the requested rows and columns of a page. A segment that cannot be read is left out.
    pub(crate) fn unpack(
        &self,
        filter: &Filter,
        lanes: &Lanes,
        page: Vec<Admitted>,
    ) -> Result<Vec<Unpacked>> {
        let decoded_bytes = QUERY_DECODED_BYTES.counter([]);
        let _timed = self.hold.step(Step::Unpack);
        let mut unpacked = Vec::with_capacity(page.len());
        for Admitted { log, seq, item } in page {
            self.hold.check()?;
            let read = Segment::from_item(item).and_then(|segment| {
                if let Some(why) = filter.why_not_of(&segment) {
                    self.hold.tally().iter().for_each(|tally| tally.segment(&log, seq, Some(why)));
                    return Ok(None);
                }
                let bytes = segment.data.len();
                let (unpacked, why) = filter.unpack(&segment, lanes)?;
                if why != Some(Why::Lane) {
                    decoded_bytes.increment(bytes as u64);
                }
                self.hold.tally().iter().for_each(|tally| match why {
                    Some(_) => tally.segment(&log, seq, why),
                    None => tally.unpacked(&log, seq, segment.rows, bytes),
                });
                Ok(Some(unpacked))
            });
            match read {
                Ok(segment) => unpacked.extend(segment),
                Err(error) => {
                    self.leave_out(&log, seq, meters::UNREADABLE, &format!("it cannot be read ({error})"))
                }
            }
        }
        Ok(unpacked)
    }
}
