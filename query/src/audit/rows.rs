//! The rows of a page of an audit log, and their columns.

use std::{cmp::Ordering, collections::BTreeMap};

use event::{Day, Result, Timestamp, fields::FieldType};
use log::audit::{Author, Record};
use polars::prelude::DataFrame;

use super::request::{AuditRequest, Place, place_text};
use crate::{
    columns::ColumnType,
    frame::{frame, ints, texts, times},
};

/// Maximum bytes of text in a page.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

/// A row: one action of a principal.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) place: Place,
    pub(super) seq: Option<u64>,
    pub(super) author: Option<Author>,
    pub(super) action: String,
    pub(super) object: String,
    pub(super) name: Option<String>,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    pub(super) day: Option<Day>,
    pub(super) rows: Option<u64>,
}

impl Row {
    /// Builds the row of a change.
    pub(super) fn of_change(record: Record) -> Self {
        Self {
            place: (record.at.micros(), format!("c{:010}", record.seq)),
            seq: Some(record.seq),
            author: Some(record.author),
            action: record.action,
            object: record.object,
            name: record.name,
            before: record.before,
            after: record.after,
            day: None,
            rows: None,
        }
    }

    fn bytes(&self) -> usize {
        let some = [&self.name, &self.before, &self.after].into_iter().flatten();
        256 + self.object.len() + some.map(String::len).sum::<usize>()
    }
}

/// The first rows added, in their order and up to the size of a page; the last ones if the newest come first.
pub(super) struct Page {
    rows: BTreeMap<Place, Row>,
    bytes: usize,
    limit: usize,
    newest: bool,
    after: Option<Place>,
    /// The first place that did not fit.
    end: Option<Place>,
}

impl Page {
    /// Builds an empty page.
    pub(super) fn new(request: &AuditRequest) -> Self {
        let (limit, newest, after) = (request.limit, request.newest, request.after.clone());
        Self { rows: BTreeMap::new(), bytes: 0, limit, newest, after, end: None }
    }

    /// Returns true if rows at an instant, and all behind it in the order of the page, do not fit.
    pub(super) fn is_past(&self, at: Timestamp) -> bool {
        self.end.as_ref().is_some_and(|(end, _)| self.ordered(&at.micros(), end).is_gt())
    }

    /// Compares two values in the order of the page.
    fn ordered<T: Ord>(&self, one: &T, other: &T) -> Ordering {
        if self.newest { other.cmp(one) } else { one.cmp(other) }
    }

    /// Adds a row, if it is requested and its order puts it into this page.
    pub(super) fn add(&mut self, request: &AuditRequest, row: Row) {
        let principal = row.author.as_ref().map(|author| author.principal.as_str());
        let is_wanted = request.wants(&row.action) && request.is_of(principal);
        let is_before = self.after.as_ref().is_some_and(|after| self.ordered(&row.place, after).is_le());
        let is_behind = self.end.as_ref().is_some_and(|end| self.ordered(&row.place, end).is_ge());
        if !is_wanted || is_before || is_behind {
            return;
        }
        self.bytes += row.bytes();
        self.rows.insert(row.place.clone(), row);
        while self.rows.len() > self.limit || (self.bytes > MAX_PAGE_BYTES && self.rows.len() > 1) {
            let last = if self.newest { self.rows.pop_first() } else { self.rows.pop_last() };
            let Some((place, row)) = last else { return };
            self.bytes -= row.bytes();
            self.end = Some(place);
        }
    }

    /// Returns the end of this page, from which the next one begins, if there is one.
    pub(super) fn next(&self) -> Option<String> {
        let last = if self.newest { self.rows.first_key_value() } else { self.rows.last_key_value() };
        self.end.as_ref().and(last).map(|(place, _)| place_text(place))
    }

    /// Builds the frame of the rows.
    pub(super) fn frame(&self) -> Result<DataFrame> {
        let mut ordered: Vec<&Row> = self.rows.values().collect();
        if self.newest {
            ordered.reverse();
        }
        let columns = COLUMNS.iter().map(|(name, value)| {
            let rows = ordered.iter().copied();
            match value {
                Getter::Time(get) => times(name, rows.map(|row| Some(get(row)))),
                Getter::Count(get) => ints(name, rows.map(get)),
                Getter::Text(get) => {
                    let values: Vec<Option<String>> = rows.map(get).collect();
                    texts(name, values.iter().map(Option::as_deref))
                }
            }
        });
        frame(self.rows.len(), columns.collect())
    }
}

/// Reads a column's value from a row.
enum Getter {
    Time(fn(&Row) -> i64),
    Count(fn(&Row) -> Option<u64>),
    Text(fn(&Row) -> Option<String>),
}

/// The columns, in their order.
const COLUMNS: [(&str, Getter); 13] = [
    ("at", Getter::Time(|row| row.place.0)),
    ("principal", Getter::Text(|row| row.author.as_ref().map(|author| author.principal.clone()))),
    ("action", Getter::Text(|row| Some(row.action.clone()))),
    ("object", Getter::Text(|row| Some(row.object.clone()))),
    ("name", Getter::Text(|row| row.name.clone())),
    ("day", Getter::Text(|row| row.day.map(|day| day.to_string()))),
    ("rows", Getter::Count(|row| row.rows)),
    ("before", Getter::Text(|row| row.before.clone())),
    ("after", Getter::Text(|row| row.after.clone())),
    ("source", Getter::Text(|row| row.author.as_ref()?.source.clone())),
    ("address", Getter::Text(|row| row.author.as_ref()?.address.map(|address| address.to_string()))),
    ("request", Getter::Text(|row| row.author.as_ref()?.request.clone())),
    ("seq", Getter::Count(|row| row.seq)),
];

/// Returns the names and types of the columns.
pub(crate) fn columns() -> impl Iterator<Item = (&'static str, ColumnType)> {
    COLUMNS.iter().map(|(name, value)| {
        let kind = match value {
            Getter::Time(_) => ColumnType::Field(FieldType::Time),
            Getter::Count(_) => ColumnType::Count,
            Getter::Text(_) => ColumnType::Field(FieldType::Text),
        };
        (*name, kind)
    })
}
