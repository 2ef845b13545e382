//! The rows of a lineage, and their columns.

use std::collections::BTreeMap;

use catalog::{Release, WorkspacePage};
use event::{Result, fields::FieldType};
use log::audit::SOURCE_WORDS;
use polars::prelude::DataFrame;

use super::{
    LineageRequest,
    flows::{Flow, Flows},
};
use crate::{
    columns::ColumnType,
    frame::{days, frame, ints, texts, times},
};

/// Maximum number of names in a list.
const MAX_NAMES: usize = 20;

/// A flow with related facts from the catalog and the other flows.
struct Row<'a> {
    flow: &'a Flow,
    labels: Option<String>,
    made: Option<&'a Release>,
    trained_on: Option<String>,
    live: Option<String>,
}

/// Reads a column's value from a row.
enum Getter {
    Day(fn(&Row<'_>) -> i32),
    Time(fn(&Row<'_>) -> i64),
    Count(fn(&Row<'_>) -> Option<u64>),
    Text(for<'a> fn(&'a Row<'a>) -> Option<&'a str>),
}

/// The columns, in their order.
const COLUMNS: [(&str, Getter); 18] = [
    ("day", Getter::Day(|row| row.flow.day.number())),
    ("kind", Getter::Text(|row| Some(row.flow.kind.name()))),
    (SOURCE_WORDS[0], Getter::Text(|row| row.flow.source()[0])),
    (SOURCE_WORDS[1], Getter::Text(|row| row.flow.source()[1])),
    (SOURCE_WORDS[2], Getter::Text(|row| row.flow.source()[2])),
    (SOURCE_WORDS[3], Getter::Text(|row| row.flow.source()[3])),
    ("release", Getter::Text(|row| row.flow.release.as_deref())),
    ("labels", Getter::Text(|row| row.labels.as_deref())),
    ("rows", Getter::Count(|row| Some(row.flow.rows))),
    ("rows_at_most", Getter::Count(|row| Some(row.flow.rows_at_most))),
    ("evaluated", Getter::Count(|row| row.flow.is_judged().then_some(row.flow.evaluated))),
    ("model", Getter::Text(|row| Some(row.made?.model.as_str()))),
    ("configuration", Getter::Text(|row| row.made?.configuration.as_deref())),
    ("snapshot", Getter::Text(|row| Some(row.made?.details.tuned_on.as_ref()?.name.as_str()))),
    ("trained_on", Getter::Text(|row| row.trained_on.as_deref())),
    ("live", Getter::Text(|row| row.live.as_deref())),
    ("first_at", Getter::Time(|row| row.flow.appended.0.micros())),
    ("last_at", Getter::Time(|row| row.flow.appended.1.micros())),
];

/// Returns the names and types of the columns.
pub(crate) fn columns() -> impl Iterator<Item = (&'static str, ColumnType)> {
    COLUMNS.iter().map(|(name, value)| {
        let kind = match value {
            Getter::Day(_) => ColumnType::Day,
            Getter::Time(_) => ColumnType::Field(FieldType::Time),
            Getter::Count(_) => ColumnType::Count,
            Getter::Text(_) => ColumnType::Field(FieldType::Text),
        };
        (*name, kind)
    })
}

/// Lists names separated by commas; a list that is too long ends with their number.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.collect();
    let mut text = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MAX_NAMES {
        text = format!("{text}, ... ({} in all)", names.len());
    }
    (!names.is_empty()).then_some(text)
}

/// Builds the frame of the requested flows.
pub(super) fn frame_of(flows: &Flows, request: &LineageRequest, page: &WorkspacePage) -> Result<DataFrame> {
    let made: BTreeMap<&str, &Release> =
        page.releases.iter().map(|release| (release.entity.name.as_str(), release)).collect();
    let live_in = |name: &str| {
        let environments = page.live.iter();
        let is_there = environments.filter(|(_, state)| state.values().any(|live| live.release == name));
        list(is_there.map(|(environment, _)| environment.as_str()))
    };
    let row = |flow| {
        let release = Flow::release_name(flow);
        let made = release.and_then(|name| made.get(name).copied());
        Row {
            flow,
            labels: list(flows.labels(flow)),
            made,
            trained_on: made.and_then(|made| made.details.snapshot).map(|days| days.to_string()),
            live: release.and_then(live_in),
        }
    };
    let rows: Vec<Row<'_>> = flows.wanted(request).map(row).collect();
    let columns = COLUMNS.iter().map(|(name, value)| match value {
        Getter::Day(get) => days(name, rows.iter().map(get).collect()),
        Getter::Time(get) => times(name, rows.iter().map(|row| Some(get(row)))),
        Getter::Count(get) => ints(name, rows.iter().map(get)),
        Getter::Text(get) => texts(name, rows.iter().map(get)),
    });
    frame(rows.len(), columns.collect())
}
