//! The events of a window in parts, sized so that a few parts at a time fit the memory for any window and any day. The beginnings
//! of parts depend on the segments alone.

use std::{collections::VecDeque, pin::Pin, sync::Arc};

use event::{Error, Result};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use log::walk::Admitted;
use polars::prelude::DataFrame;

use crate::{
    events::{self, Wanted},
    explain::Step,
    filter::Lanes,
    read::{Filter, Reading, Unpacked},
    runs::{self, DayRuns, Run},
    work,
};

/// Number of rows at which a part ends, behind the segment that reaches it; likewise the bytes.
const PART_ROWS: usize = 16_384;
/// The first part ends earlier, so that the client has something sooner.
const FIRST_ROWS: usize = 4_096;
const PART_BYTES: u64 = 4 * 1024 * 1024;

/// Number of parts made at once.
const PARTS_AT_ONCE: usize = 2;

/// Some rows of an answer, in its order.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) frame: DataFrame,
    /// Bytes counted for it in the hold of the query.
    pub(crate) bytes: u64,
    /// The segment at its beginning, by lane and number, if the part is in the order of the log.
    pub(crate) begin: Option<(u8, u64)>,
}

/// An answer, part by part.
pub(crate) type Parts = Pin<Box<dyn Stream<Item = Result<Part>> + Send>>;

type Pages = Pin<Box<dyn Stream<Item = Result<VecDeque<Admitted>>> + Send>>;

/// Segments on their way into parts.
struct Filling {
    reading: Arc<Reading>,
    filter: Arc<Filter>,
    pages: Pages,
    page: VecDeque<Admitted>,
    /// Number of rows at which the next part ends.
    enough: usize,
}

/// Returns the requested rows of some days, in parts.
pub(crate) fn parts(reading: &Arc<Reading>, wanted: &Arc<Wanted>, days: Vec<DayRuns>) -> Parts {
    if !wanted.row_filter.newest {
        let runs: Vec<Run> = days.into_iter().flat_map(|day| day.runs).collect();
        return limited(wanted, parts_of(reading, wanted, runs));
    }
    // A day with its latest event first is sorted as a whole.
    let (reading, all) = (Arc::clone(reading), Arc::clone(wanted));
    let days = days.into_iter().rev().map(move |day| {
        let (reading, wanted) = (Arc::clone(&reading), Arc::clone(&all));
        async move {
            let parts = parts_of(&reading, &wanted, day.runs);
            let mut day = None;
            let mut parts = std::pin::pin!(parts);
            while let Some(part) = parts.try_next().await? {
                day = Some(merged(&reading, &wanted, day, Part { begin: None, ..part }).await?);
            }
            Ok(day)
        }
    });
    let days = stream::iter(days).buffered(1).try_filter_map(|day| std::future::ready(Ok(day)));
    limited(wanted, days)
}

/// Merges a part with the rows of the day read before, the latest events first.
async fn merged(
    reading: &Arc<Reading>,
    wanted: &Arc<Wanted>,
    before: Option<Part>,
    part: Part,
) -> Result<Part> {
    let Some(before) = before else { return Ok(part) };
    let held = before.bytes + part.bytes;
    // Sorting makes a copy.
    reading.grow(held).await?;
    let (wanted, hold) = (Arc::clone(wanted), reading.hold.clone());
    let made = work::piece(move || {
        let _timed = hold.step(Step::Make);
        let mut all = before.frame;
        all.vstack_mut_owned(part.frame).map_err(crate::frame::failed)?;
        wanted.in_order(all)
    });
    let frame = made.await.map_err(interrupted)??;
    settled(reading, frame, 2 * held).await
}

pub(crate) fn interrupted(error: tokio::task::JoinError) -> Error {
    Error::unavailable("reading was interrupted").because(error)
}

impl Reading {
    /// Counts `bytes` instead of the `held` ones counted so far.
    pub(crate) async fn keep(&self, bytes: u64, held: u64) -> Result<()> {
        match bytes.checked_sub(held) {
            Some(more) => self.grow(more).await?,
            None => self.hold.shrink(held - bytes),
        }
        Ok(())
    }
}

/// Builds a part, of which `held` bytes are counted so far.
pub(crate) async fn settled(reading: &Reading, frame: DataFrame, held: u64) -> Result<Part> {
    let bytes = frame.estimated_size() as u64;
    reading.keep(bytes, held).await?;
    Ok(Part { frame, bytes, begin: None })
}

/// Limits parts to the requested number of rows and the requested columns.
pub(crate) fn limited(
    wanted: &Arc<Wanted>,
    parts: impl Stream<Item = Result<Part>> + Send + 'static,
) -> Parts {
    let names = wanted.columns.clone().unwrap_or_default();
    let left = wanted.row_filter.limit.unwrap_or(usize::MAX);
    let limited = stream::try_unfold((parts.boxed(), left), move |(mut parts, left)| {
        let names = names.clone();
        async move {
            if left == 0 {
                return Ok(None);
            }
            let Some(part) = parts.try_next().await? else { return Ok(None) };
            let frame = part.frame.head(Some(left)).select(names).map_err(crate::frame::failed)?;
            let left = left - frame.height();
            Ok(Some((Part { frame, ..part }, (parts, left))))
        }
    });
    limited.boxed()
}

fn parts_of(
    reading: &Arc<Reading>,
    wanted: &Arc<Wanted>,
    runs: Vec<Run>,
) -> impl Stream<Item = Result<Part>> + Send + use<> {
    let filter = Arc::new(wanted.filter());
    let pages: Pages = Box::pin(runs::pages(reading, runs));
    let filling =
        Filling { reading: Arc::clone(reading), filter, pages, page: VecDeque::new(), enough: FIRST_ROWS };
    let (reading, wanted) = (Arc::clone(reading), Arc::clone(wanted));
    stream::try_unfold(filling, async |mut filling| Ok(filling.next().await?.map(|part| (part, filling))))
        .map(move |part: Result<Vec<Unpacked>>| {
            let (reading, wanted) = (Arc::clone(&reading), Arc::clone(&wanted));
            async move { made(&reading, wanted, part?).await }
        })
        .buffered(PARTS_AT_ONCE)
}

/// Builds the requested rows of the segments of a part.
async fn made(reading: &Arc<Reading>, wanted: Arc<Wanted>, segments: Vec<Unpacked>) -> Result<Part> {
    let bytes: u64 = segments.iter().map(|segment| segment.columns.bytes() as u64).sum();
    let begin = segments.first().map(|first| (first.place.lane, first.place.seq));
    // While the rows are made, segments and rows are both in memory.
    reading.grow(bytes).await?;
    let hold = reading.hold.clone();
    let made = work::piece(move || {
        hold.check()?;
        let _timed = hold.step(Step::Make);
        events::rows_of(&wanted, segments)
    });
    let frame = made.await.map_err(interrupted)??;
    Ok(Part { begin, ..settled(reading, frame, 2 * bytes).await? })
}

impl Filling {
    /// Returns the segments of the next part.
    async fn next(&mut self) -> Result<Option<Vec<Unpacked>>> {
        let (mut part, mut rows, mut bytes) = (Vec::new(), 0, 0);
        let enough = std::mem::replace(&mut self.enough, PART_ROWS);
        while rows < enough && bytes < PART_BYTES {
            if self.page.is_empty() {
                match self.pages.try_next().await? {
                    Some(page) => self.page = page,
                    None if part.is_empty() => return Ok(None),
                    None => return Ok(Some(part)),
                }
            }
            let (reading, filter) = (Arc::clone(&self.reading), Arc::clone(&self.filter));
            let mut page = std::mem::take(&mut self.page);
            let unpacking = work::piece(move || {
                let mut taken = Vec::new();
                while let Some(segment) = page.pop_front() {
                    for segment in reading.unpack(&filter, &Lanes::default(), vec![segment])? {
                        rows += segment.columns.rows;
                        bytes += segment.columns.bytes() as u64;
                        taken.push(segment);
                    }
                    if rows >= enough || bytes >= PART_BYTES {
                        break;
                    }
                }
                Ok::<_, Error>((taken, page, rows, bytes))
            });
            let before = bytes;
            let taken;
            (taken, self.page, rows, bytes) = unpacking.await.map_err(interrupted)??;
            part.extend(taken);
            self.reading.grow(bytes - before).await?;
        }
        Ok(Some(part))
    }
}
