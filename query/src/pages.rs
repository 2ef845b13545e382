//! Events page by page. All pages are read at the read version of the first one, so together they are the rows of one answer, independent
//! of later appends and of the answering process.

use std::{collections::BTreeSet, sync::Arc};

use event::{Day, Error, Id, Result};
use futures::{FutureExt, TryStreamExt};
use log::{
    after::{self, After, PageEnd},
    read_version::ReadVersion,
};
use polars::prelude::DataFrame;
use tokio::time::Instant;

use crate::{
    Answer, Point, Query,
    answer::Held,
    concat::nulls,
    events::{self, Wanted},
    frame::{self, failed},
    parts,
    read::{Reading, RowBounds},
    request::{Dataset, Request},
    runs,
};

/// Number of rows of a page if the request has no limit.
pub(crate) const PAGE_ROWS: usize = 10_000;

/// Maximum number of rows of a page.
pub(crate) const MAX_PAGE_ROWS: usize = 100_000;

/// Beginning of a page.
#[derive(Clone, Copy)]
struct Place {
    day: Day,
    /// The segment of the day at which reading begins, by its lane and number.
    begin: Option<(u8, u64)>,
    /// Number of rows from there on that earlier pages have.
    rows: u64,
}

/// Data read for a page.
struct Read {
    frame: DataFrame,
    /// The beginning of the next page; `None` behind the last one.
    next: Option<Place>,
    read_version: Arc<ReadVersion>,
    warnings: Vec<String>,
}

impl Query {
    /// Returns a page of events, and the beginning of the next one if there is one. If no columns are named, a page has those
    /// that occur on its days.
    ///
    /// # Errors
    /// `Invalid`, if the request is not for events, or differs from that of the page before; errors of [`Query::run`].
    pub async fn page(
        &self,
        workspace: &Id,
        request: &Request,
        after: &After,
    ) -> Result<(Answer, Option<PageEnd>)> {
        let Dataset::Events(kind) = request.what else {
            return Err(Error::invalid(format!(
                "after: {} are not read in pages; only events are",
                request.what.name()
            )));
        };
        let limit = request.row_filter.limit.unwrap_or(PAGE_ROWS);
        if limit > MAX_PAGE_ROWS {
            return Err(Error::invalid(format!("limit: a page has at most {MAX_PAGE_ROWS} events")));
        }
        let (checksum, point) = (checksum(request), Point::of(request));
        let (point, asked_at, end) = match after {
            After::Beginning => (point, self.clock.now(), None),
            After::Page(end) if end.request != checksum => {
                return Err(Error::invalid(
                    "after: the page before was of another request; only `limit`, `columns` and `format` may change",
                ));
            }
            After::Page(end) => {
                let point = Point { read_version: Some(Arc::clone(&end.read_version)), as_of: None, ..point };
                (point, end.asked_at, Some(&**end))
            }
        };
        let (turn, hold) = self.budget.enter(Some(workspace)).await?;
        let held = Held { wanted: hold.wanted(), turn: Some(turn), hold };
        let began = Instant::now();
        self.check_release(workspace, request).await?;
        let wanted = self.wanted(kind, request).await?;
        events::check(&wanted)?;
        let make = |reading: Arc<Reading>| read_page(reading, &wanted, (end, limit)).boxed();
        let (read, _) = self.out_of_logs(workspace, &point, &held.hold, make).await?;
        let Read { frame, next, read_version, warnings } = read;
        let answer = self.answer(request.what.name(), began, frame, (None, None), held).await?;
        let as_of = request.as_of.map(|_| read_version.as_of);
        let next = next.map(|Place { day, begin, rows }| PageEnd {
            read_version: Arc::clone(&read_version),
            asked_at,
            request: checksum,
            day,
            begin,
            rows,
        });
        Ok((Answer { read_version: Some((*read_version).clone()), as_of, warnings, ..answer }, next))
    }
}

/// Returns the checksum of the parts of a request that all pages of an answer share: all but their columns and number of rows.
fn checksum(request: &Request) -> u32 {
    let row_filter = &request.row_filter;
    let mut text = format!(
        "{}\n{}\n{}\n{:?}\n{:?}\n{:?}\n{}",
        request.what.name(),
        request.window.from(),
        request.window.to(),
        request.release,
        request.as_of,
        row_filter.sample,
        row_filter.newest,
    );
    row_filter.conditions.iter().for_each(|condition| text.extend(["\n", condition]));
    after::checksum(&text)
}

async fn read_page(
    reading: Arc<Reading>,
    wanted: &Wanted,
    (end, limit): (Option<&PageEnd>, usize),
) -> Result<Read> {
    let (fixed, read_version, mut warnings) = match end {
        Some(end) => (Arc::clone(&reading), Arc::clone(&end.read_version), Vec::new()),
        None => {
            // Resolves the current end of all days, up to which the following pages read them.
            runs::resolve(&reading, &[wanted.kind]).await?;
            let fixed = Arc::new(reading.fixed());
            let (read_version, warnings) = reading.read_version();
            (fixed, Arc::new(read_version), warnings)
        }
    };
    let newest = wanted.row_filter.newest;
    let place = end.map(|end| Place { day: end.day, begin: end.begin, rows: end.rows });
    let is_left =
        |day: &Day| place.is_none_or(|place| if newest { *day <= place.day } else { *day >= place.day });
    let days = fixed.window.days().filter(|day| wanted.bounds.may_be_of(*day) && is_left(day));
    let mut days: Vec<Day> = days.collect();
    if newest {
        days.reverse();
    }
    // One more row than the page has shows that another page follows.
    let mut page = Page { left: limit + 1, pieces: Vec::new(), members: BTreeSet::new() };
    let mut next = None;
    for day in days {
        let from = place.filter(|place| place.day == day).unwrap_or(Place { day, begin: None, rows: 0 });
        let end = page.add(&fixed, wanted, from).await?;
        if page.left == 0 {
            next = Some(Place { rows: end.rows - 1, ..end });
            break;
        }
    }
    let frame = page.frame(wanted)?;
    let frame = if next.is_some() { frame.head(Some(limit)) } else { frame };
    warnings.extend(fixed.read_version().1);
    Ok(Read { frame, next, read_version, warnings })
}

/// The rows of a page, as they are read.
struct Page {
    /// Number of rows that it still takes.
    left: usize,
    pieces: Vec<DataFrame>,
    /// The members of families that the rows may have.
    members: BTreeSet<String>,
}

impl Page {
    /// Adds the rows of a day, without those that earlier pages have, and returns its end: the segment at which reading of the
    /// next rows would begin, and the number of its rows so far.
    async fn add(&mut self, reading: &Arc<Reading>, wanted: &Wanted, from: Place) -> Result<Place> {
        let bounds = RowBounds { days: Some(Arc::new([from.day].into())), ..wanted.bounds.clone() };
        let mut wanted = Wanted { bounds, ..wanted.clone() };
        let seeks_members = wanted.columns.is_none();
        let mut days = runs::survey(reading, &wanted.filter(), seeks_members).await?;
        let members: BTreeSet<String> = days.iter().flat_map(|day| day.members.iter().cloned()).collect();
        let names = wanted.columns.unwrap_or_else(|| events::all_names(wanted.kind, &members));
        self.members.extend(members);
        if let Some(begin) = from.begin {
            days = days.into_iter().map(|day| day.begun_at(begin)).collect();
        }
        let mut before = usize::try_from(from.rows).unwrap_or(usize::MAX);
        wanted.columns = Some(names);
        wanted.row_filter.limit = Some(self.left.saturating_add(before));
        let mut end = from;
        let mut parts = parts::parts(reading, &Arc::new(wanted), days);
        while let Some(part) = parts.try_next().await? {
            let earlier = before.min(part.frame.height());
            before -= earlier;
            end = match part.begin {
                Some(begin) => Place { begin: Some(begin), rows: part.frame.height() as u64, ..from },
                // Days in another order are read from their beginning.
                None => Place { begin: None, rows: end.rows.max(part.frame.height() as u64), ..from },
            };
            let frame = part.frame.slice(earlier as i64, usize::MAX);
            if frame.height() == 0 {
                reading.hold.shrink(part.bytes);
                continue;
            }
            self.left -= frame.height();
            self.pieces.push(frame);
        }
        Ok(end)
    }

    /// Concatenates all pieces, with equal columns.
    fn frame(self, wanted: &Wanted) -> Result<DataFrame> {
        let kind = wanted.kind;
        let names = wanted.columns.clone().unwrap_or_else(|| events::all_names(kind, &self.members));
        let mut all = events::no_rows(kind, &names)?;
        for piece in self.pieces {
            let column = |name: &String| match piece.column(name) {
                Ok(column) => column.clone(),
                Err(_) => nulls(name, events::type_of(kind, name), piece.height()),
            };
            let piece = frame::frame(piece.height(), names.iter().map(column).collect())?;
            all.vstack_mut_owned(piece).map_err(failed)?;
        }
        Ok(all)
    }
}
