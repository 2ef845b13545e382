//! The authors of appends, read from the segments of the days of a window.

use std::collections::BTreeMap;

use event::{
    Column, Columns, Id, Kind, Result, Timestamp,
    fields::{REASON, RETRACTED},
};
use log::{
    audit::Author,
    key::{self, LogId},
    scan,
    segment_item::{AUTHORS, DATA, SUMMARY, Segment},
};
use table::{KeyRange, Pages, Query as TableQuery};

use super::{
    request::AuditRequest,
    rows::{Page, Row},
};
use crate::Query;

/// First word of the action of an append; its kind follows.
const APPEND: &str = "append";

/// First word of the action of a retraction of events; their kind follows.
const RETRACT: &str = "retract";

/// First word of the action of a release event; the name of the event's own action follows.
const RELEASE: &str = "release";

impl Query {
    /// Adds the batches of the days of a window.
    pub(super) async fn appends(
        &self,
        workspace: &Id,
        request: &AuditRequest,
        page: &mut Page,
    ) -> Result<()> {
        let mut range = key::segments_of_days(workspace, request.window.from(), request.window.to());
        // Goes backwards from the last day: the latest appends usually belong to the last days and fill the page.
        if request.newest {
            while let Some((log, _)) = scan::last_within(&*self.table, range.clone()).await? {
                self.log(&log, request, page).await?;
                // Continues before the first segment of the log, number 1.
                range.to = key::segments_from(&log, 0).from;
            }
            return Ok(());
        }
        let end = range.to.clone();
        while let Some((log, _)) = scan::first_within(&*self.table, range).await? {
            self.log(&log, request, page).await?;
            range = KeyRange { to: end.clone(), ..key::segments_after(&log) };
        }
        Ok(())
    }

    /// Adds the batches of a log. Their times never fall.
    async fn log(&self, log: &LogId, request: &AuditRequest, page: &mut Page) -> Result<()> {
        let is_release = log.kind == Kind::Releases;
        let is_wanted = match is_release {
            true => request.may_want(RELEASE),
            false => request.may_want(APPEND) || request.may_want(RETRACT),
        };
        if !is_wanted {
            return Ok(());
        }
        let attributes: Vec<&str> =
            SUMMARY.iter().copied().chain([AUTHORS]).chain(is_release.then_some(DATA)).collect();
        let query = TableQuery::table(key::segments_from(log, 1)).only(&attributes);
        let query = if request.newest { query.backward() } else { query };
        let mut pages = Pages::of(&*self.table, query);
        while let Some(items) = pages.next().await? {
            for item in items {
                let segment = Segment::from_item(item)?;
                if page.is_past(segment.appended_at) {
                    return Ok(());
                }
                match is_release {
                    true => add_releases(&segment, request, page)?,
                    false => add_batches(&segment, request, page)?,
                }
                if segment.retracted > 0 && request.may_want(RETRACT) {
                    self.retractions(&segment, request, page).await?;
                }
            }
        }
        Ok(())
    }
}

impl Query {
    /// Adds a row for each retraction in a segment. An unreadable segment adds none; its append has a row all the same.
    async fn retractions(&self, segment: &Segment, request: &AuditRequest, page: &mut Page) -> Result<()> {
        let item = self.table.get(&key::segment(&segment.log, segment.seq)).await?;
        let Some(segment) = item.map(Segment::from_item).transpose()? else { return Ok(()) };
        let is_told = |name: &str| name == RETRACTED || name == KEY || OF_RETRACTIONS.contains(&name);
        let Ok(columns) = segment.unpack(is_told) else { return Ok(()) };
        let action = format!("{RETRACT}.{}", segment.log.kind.name());
        let shown = if request.tells_events { &OF_RETRACTIONS[..] } else { &[] };
        each_event(&segment, &columns, |(at, row), batch, author| {
            let text = |name: &str| columns.column(name).and_then(|column| column.text(row));
            if text(RETRACTED).is_none() {
                return;
            }
            let after = fields_json(&columns, row, shown.iter().copied());
            let name = text(KEY).filter(|_| request.tells_events).map(str::to_owned);
            // Sorts behind the row of its batch.
            let place = place(&segment, at, row + 1);
            page.add(request, of_event(&segment, place, (action.clone(), batch, name), after, author));
        })
    }
}

/// Returns the author of each part of a segment.
pub(crate) fn authors(segment: &Segment) -> Result<Vec<Option<Author>>> {
    let named = |what| {
        let key = key::segment(&segment.log, segment.seq);
        event::Error::corrupt(format!("segment {key}: `{AUTHORS}`: {what}"))
    };
    let mut authors: Vec<_> = segment.authors.read().map_err(named)?.into_iter().map(Some).collect();
    authors.resize(segment.batches.len(), None);
    Ok(authors)
}

/// Returns the name of a row among the rows of its time.
fn place(segment: &Segment, part: usize, row: usize) -> String {
    let log = &segment.log;
    let (day, kind, lane, seq) = (log.day, log.kind.letter(), log.lane, segment.seq);
    format!("s{day}.{kind}.{lane:02}.{seq:010}.{part:05}.{row:05}")
}

/// Adds a row for each part of a batch in a segment.
fn add_batches(segment: &Segment, request: &AuditRequest, page: &mut Page) -> Result<()> {
    let log = &segment.log;
    for (at, (part, author)) in segment.batches.iter().zip(authors(segment)?).enumerate() {
        let releases = (segment.batches.len() == 1).then(|| releases(&segment.releases)).flatten();
        page.add(
            request,
            Row {
                place: (segment.appended_at.micros(), place(segment, at, 0)),
                seq: None,
                author,
                action: format!("{APPEND}.{}", log.kind.name()),
                object: part.batch.to_string(),
                name: None,
                before: None,
                after: releases,
                day: Some(log.day),
                rows: Some(part.rows as u64),
            },
        );
    }
    Ok(())
}

/// Returns the number of rows of each release, as JSON.
fn releases(releases: &BTreeMap<String, u64>) -> Option<String> {
    /// Maximum number of releases listed.
    const MOST: usize = 20;
    let named: serde_json::Map<_, _> =
        releases.iter().take(MOST).map(|(name, rows)| (name.clone(), (*rows).into())).collect();
    let mut summary = serde_json::json!({ "releases": named });
    if releases.len() > MOST {
        summary["of"] = releases.len().into();
    }
    (!releases.is_empty()).then(|| summary.to_string())
}

/// The field with the key of an event.
const KEY: &str = "key";

/// The fields of a retraction that identify the retracted event and give the reason.
const OF_RETRACTIONS: [&str; 4] = ["release", "predicted_at", "observed_at", REASON];

/// The fields of release events that have columns of their own in the audit.
const WITH_OWN_COLUMNS: [&str; 2] = ["release", "action"];

/// Returns the value of a column at a row, if there is one.
fn value(column: &Column, row: usize) -> Option<serde_json::Value> {
    let time = || column.time(row).and_then(Timestamp::from_micros).map(|time| time.to_string().into());
    let text = || column.text(row).map(serde_json::Value::from);
    text().or_else(time).or_else(|| column.float(row).map(serde_json::Value::from))
}

/// Returns some fields of an event, as JSON.
fn fields_json(columns: &Columns, row: usize, fields: impl Iterator<Item = &'static str>) -> String {
    let values = fields.filter_map(|name| Some((name.to_owned(), value(columns.column(name)?, row)?)));
    serde_json::Value::Object(values.collect()).to_string()
}

/// Calls `add` with each event of a segment: its part and row, its batch and its author.
fn each_event(
    segment: &Segment,
    columns: &Columns,
    mut add: impl FnMut((usize, usize), String, Option<Author>),
) -> Result<()> {
    let mut first = 0;
    for (at, (part, author)) in segment.batches.iter().zip(authors(segment)?).enumerate() {
        for row in first..(first + part.rows).min(columns.rows) {
            add((at, row), part.batch.to_string(), author.clone());
        }
        first += part.rows;
    }
    Ok(())
}

/// Builds the row of an event: action, batch and object.
fn of_event(
    segment: &Segment,
    place: String,
    (action, object, name): (String, String, Option<String>),
    after: String,
    author: Option<Author>,
) -> Row {
    Row {
        place: (segment.appended_at.micros(), place),
        seq: None,
        author,
        action,
        object,
        name,
        before: None,
        after: Some(after),
        day: Some(segment.log.day),
        rows: Some(1),
    }
}

/// Adds a row for each event of a segment of release events.
fn add_releases(segment: &Segment, request: &AuditRequest, page: &mut Page) -> Result<()> {
    // An unreadable segment is shown as batches.
    let Ok(columns) = segment.unpack(|_| true) else { return add_batches(segment, request, page) };
    each_event(segment, &columns, |(at, row), batch, author| {
        let text = |name: &str| columns.column(name).and_then(|column| column.text(row));
        let fields = Kind::Releases.fields().iter().map(|field| field.name);
        let after = fields_json(&columns, row, fields.filter(|name| !WITH_OWN_COLUMNS.contains(name)));
        let action = format!("{RELEASE}.{}", text("action").unwrap_or("register"));
        let name = text("release").map(str::to_owned);
        let place = place(segment, at, row);
        page.add(request, of_event(segment, place, (action, batch, name), after, author));
    })
}
