//! Reading of some of the events that a follower has not read.

use std::sync::Arc;

use event::{Error, Result, Window};
use log::{
    expired::Expired,
    key::{self, LogId},
    read_version::ReadVersion,
    scan,
    segment_item::CLOSED_AFTER_SECONDS,
    walk::{Admitted, Note},
};
use polars::prelude::DataFrame;
use tokio::time::Instant;

use super::watch::Watch;
use crate::{
    Point, Query,
    answer::Held,
    budget::Hold,
    events::{self, Wanted},
    filter::Lanes,
    frame::failed,
    parts::interrupted,
    read::{Filter, Reading, Unpacked},
    work,
};

/// Number of logs of one reading, which looks up their kept days and skipped segments at once.
const LOGS_AT_ONCE: usize = 32;

/// Approximate maximum bytes of packed events read for an answer, even if few of their rows are requested.
const MAX_READ_BYTES: usize = 16 * 1024 * 1024;

/// An answer before it is finished.
pub(super) struct Page {
    /// The rows, if there are any.
    pub(super) frame: Option<DataFrame>,
    /// The read version up to which everything has been answered.
    pub(super) read_version: ReadVersion,
    pub(super) warnings: Vec<String>,
    /// True if it goes beyond the read version that it began with.
    pub(super) is_news: bool,
    pub(super) held: Option<Held>,
    pub(super) began: Instant,
}

/// Segments read for a page.
struct Filling {
    segments: Vec<Unpacked>,
    /// Numbers of rows and bytes that may still be read.
    rows: usize,
    bytes: usize,
}

impl Filling {
    fn is_full(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }

    /// Counts another segment; returns true if it is to be read.
    fn takes(&mut self, segment: &Admitted) -> bool {
        if self.is_full() {
            return false;
        }
        let rows = segment.item.int("n").ok().and_then(|rows| usize::try_from(rows).ok());
        self.rows = self.rows.saturating_sub(rows.unwrap_or_default());
        self.bytes = self.bytes.saturating_sub(segment.item.size());
        true
    }
}

impl Page {
    /// Builds an empty page.
    pub(super) fn nothing(read_version: &ReadVersion) -> Self {
        let (read_version, began) = (read_version.clone(), Instant::now());
        Self { frame: None, read_version, warnings: Vec::new(), is_news: false, held: None, began }
    }

    /// Takes over the result of reading some logs.
    fn take(&mut self, reading: &Reading) {
        let (read, warnings) = reading.read_version();
        self.is_news |= !read.heads.is_empty();
        for (log, seq) in read.heads {
            self.read_version.window = self.read_version.window.until(log.day);
            self.read_version.heads.insert(log, seq);
        }
        self.read_version.left_out.extend(read.left_out);
        self.warnings.extend(warnings);
    }

    /// Warns of days that expired before they were read.
    fn tell_expired(&mut self, marks: &[Expired]) {
        let (mut segments, mut days) = (0, 0);
        let mut last = None;
        for mark in marks {
            let mut missed = 0;
            for (name, seq) in &mark.heads {
                let log = scan::log_named(&self.read_version.workspace, mark.day, name);
                let Some(log) = log.filter(|log| self.read_version.kinds.contains(&log.kind)) else {
                    continue;
                };
                self.read_version.window = self.read_version.window.until(mark.day);
                let read = self.read_version.heads.entry(log).or_default();
                missed += seq.saturating_sub(*read);
                *read = (*seq).max(*read);
            }
            if missed > 0 {
                segments += missed;
                days += 1;
                last = last.max(Some(mark.day));
            }
        }
        if let Some(last) = last {
            self.is_news = true;
            self.warnings.push(format!(
                "the events of {days} of the days, up to {last}, expired before they were read: {segments} segments"
            ));
        }
    }
}

impl Query {
    /// Reads about `rows` rows behind a read version, as far as they exist.
    pub(super) async fn read_after(
        &self,
        watch: &Watch,
        read_version: &ReadVersion,
        wanted: &Wanted,
        rows: usize,
    ) -> Result<Page> {
        let behind = watch.behind(&read_version.heads, read_version.window.from(), read_version.as_of);
        let mut page = Page::nothing(read_version);
        if !behind.logs.is_empty() {
            let (turn, hold) = self.budget.enter(Some(&page.read_version.workspace)).await?;
            let mut filling = Filling { segments: Vec::new(), rows, bytes: MAX_READ_BYTES };
            let logs: Vec<LogId> = behind.logs.into_keys().collect();
            for logs in logs.chunks(LOGS_AT_ONCE) {
                self.read_on(logs, wanted, &hold, &mut page, &mut filling).await?;
                if filling.is_full() {
                    break;
                }
            }
            page.frame = rows_of(wanted, filling.segments, &hold).await?;
            page.held = Some(Held { wanted: hold.wanted(), hold, turn: Some(turn) });
        }
        page.tell_expired(&behind.expired);
        let closed = self.now().min(behind.looked_at).plus_seconds(-CLOSED_AFTER_SECONDS);
        page.read_version.as_of = page.read_version.as_of.max(closed);
        watch.without_expired(&mut page.read_version);
        Ok(page)
    }

    /// Continues reading some logs, until the page is full.
    async fn read_on(
        &self,
        logs: &[LogId],
        wanted: &Wanted,
        hold: &Hold,
        page: &mut Page,
        filling: &mut Filling,
    ) -> Result<()> {
        let (Some(first), Some(last)) = (logs.first(), logs.last()) else { return Ok(()) };
        let window = Window::new(first.day, last.day)?;
        let point = Point { window, as_of: None, read_version: None, is_raw: true };
        let workspace = &page.read_version.workspace;
        let kept = self.kept(workspace, &point).await?;
        let reading = self.reading(workspace, &point, kept, hold).await?;
        let filter = wanted.filter();
        for log in logs {
            // Nothing is read of a day beyond retention; its mark as expired gives a warning.
            if reading.is_kept(log.day, log.kind) {
                let read = page.read_version.heads.get(log).copied().unwrap_or_default();
                read_log(&reading, &filter, log, read, filling).await?;
            }
            if filling.is_full() {
                break;
            }
        }
        page.take(&reading);
        Ok(())
    }
}

/// Continues reading a log behind the segment `read`, up to its end or a hole.
async fn read_log(
    reading: &Arc<Reading>,
    filter: &Filter,
    log: &LogId,
    read: u64,
    filling: &mut Filling,
) -> Result<()> {
    let mut next = read + 1;
    let mut query = table::Query::table(key::segments_from(log, next));
    loop {
        let asked = reading.table.query(&query).await?;
        let mut admitted = Vec::with_capacity(asked.items.len());
        let (mut goes_on, mut notes) = (true, Vec::new());
        for item in asked.items {
            let Some((_, seq)) = key::parse_segment(&item.key) else {
                return Err(Error::corrupt(format!("the item {} is no segment", item.key)));
            };
            // Segments that are left out may be missing as well.
            while next < seq && reading.left_out.contains(&(log.clone(), next)) {
                notes.extend([Note::Read(log.clone(), next), Note::LeftOut(log.clone(), next)]);
                next += 1;
            }
            if seq != next {
                notes.push(Note::Missing(log.clone(), next));
                goes_on = false;
                break;
            }
            let segment = Admitted { log: log.clone(), seq, item };
            let is_left_out = reading.left_out.contains(&(log.clone(), seq));
            if !is_left_out && !filling.takes(&segment) {
                goes_on = false;
                break;
            }
            notes.push(Note::Read(log.clone(), seq));
            next += 1;
            if is_left_out {
                notes.push(Note::LeftOut(log.clone(), seq));
            } else {
                admitted.push(segment);
            }
        }
        let (unpacking, filter) = (Arc::clone(reading), filter.clone());
        let unpacked = work::piece(move || unpacking.unpack(&filter, &Lanes::default(), admitted));
        let unpacked = unpacked.await.map_err(interrupted)??;
        reading.grow(unpacked.iter().map(|segment| segment.columns.bytes() as u64).sum()).await?;
        filling.segments.extend(unpacked);
        reading.note(notes);
        match asked.next {
            Some(after) if goes_on && !filling.is_full() => query.after = Some(after),
            _ => return Ok(()),
        }
    }
}

/// Builds the requested rows of segments, in the order of their days and logs; `None`, if there are no segments.
async fn rows_of(wanted: &Wanted, mut segments: Vec<Unpacked>, hold: &Hold) -> Result<Option<DataFrame>> {
    if segments.is_empty() {
        return Ok(None);
    }
    let mut wanted = wanted.clone();
    // The rows are a copy of the segments.
    hold.take(segments.iter().map(|segment| segment.columns.bytes() as u64).sum()).await?;
    let making = work::piece(move || {
        segments.sort_by_key(|segment| (segment.day, segment.place));
        let members = events::members_of(wanted.kind, segments.iter().map(|segment| &segment.columns));
        let all = || events::all_names(wanted.kind, &members);
        let names = wanted.columns.clone().unwrap_or_else(all);
        wanted.columns = Some(names.clone());
        events::rows_of(&wanted, segments)?.select(names).map_err(failed)
    });
    making.await.map_err(interrupted)?.map(Some)
}
