//! The events of a window as a dataframe.

use std::{collections::BTreeSet, sync::Arc};

use polars::prelude::{Column as Series, DataFrame};
use store::{
    Columns, Error, Id, Kind, Result, Table, Window,
    event::{FieldType, TAG_PREFIX},
};

use crate::{
    frame::{days, frame, stacked, times},
    read::{self, Filter, Unpacked},
};

/// Columns that every event has besides its own: the day it belongs to, and when it was appended.
pub(crate) const DAY: &str = "day";
pub(crate) const APPENDED_AT: &str = "appended_at";

/// Checks the names of columns of a kind.
pub(crate) fn check_columns(kind: Kind, extra: &[&str], wanted: Option<&[String]>) -> Result<()> {
    let known = |name: &str| kind.may_have(name) || extra.contains(&name);
    match wanted.and_then(|names| names.iter().find(|name| !known(name))) {
        None => Ok(()),
        Some(name) => {
            let mut names: Vec<&str> = extra.to_vec();
            names.extend(kind.fields().iter().map(|field| field.name));
            Err(unknown_column(name, &names, kind.has_tags()))
        }
    }
}

pub(crate) fn unknown_column(name: &str, known: &[&str], has_tags: bool) -> Error {
    let tags = if has_tags { " and tag.NAME" } else { "" };
    Error::invalid(format!("there is no column `{name}`; there are {}{tags}", known.join(", ")))
}

/// The events of a window.
pub(crate) async fn events(
    table: &Arc<dyn Table>,
    workspace: &Id,
    window: Window,
    filter: &Filter,
) -> Result<DataFrame> {
    check_columns(filter.kind, &[DAY, APPENDED_AT], filter.columns.as_deref())?;
    if filter.kind == Kind::Outcomes && filter.release.is_some() {
        return Err(Error::invalid(
            "outcomes belong to keys, not to releases; ask for `joined` with a release",
        ));
    }
    let segments = read::window(table, workspace, window, filter).await?;
    let tags = tags_of(segments.iter().map(|segment| &segment.columns));
    let names = match &filter.columns {
        Some(names) => names.clone(),
        None => {
            let fields = filter.kind.fields().iter().map(|field| field.name.to_owned());
            let names = std::iter::once(DAY.to_owned()).chain(fields).chain(tags.iter().cloned());
            names.chain([APPENDED_AT.to_owned()]).collect()
        }
    };
    check_tags(&names, &tags, !segments.is_empty())?;
    let rows = segments.iter().map(|segment| segment.columns.rows).sum();
    let (meta, pieces): (Vec<_>, Vec<Columns>) = segments.into_iter().map(split).unzip();
    let series = names.iter().map(|name| series(filter.kind, name, &meta, &pieces));
    frame(rows, series.collect())
}

/// The names of the columns of all tags that occur.
pub(crate) fn tags_of<'a>(pieces: impl Iterator<Item = &'a Columns>) -> BTreeSet<String> {
    let columns = pieces.flat_map(|piece| &piece.columns);
    columns.filter(|column| column.name.starts_with(TAG_PREFIX)).map(|column| column.name.clone()).collect()
}

/// A tag that no event has is a mistake, unless there is no event.
pub(crate) fn check_tags(names: &[String], tags: &BTreeSet<String>, has_events: bool) -> Result<()> {
    match names.iter().find(|name| name.starts_with(TAG_PREFIX) && !tags.contains(*name)) {
        Some(name) if has_events => {
            Err(Error::invalid(format!("no event of the window has the tag `{name}`")))
        }
        _ => Ok(()),
    }
}

fn split(segment: Unpacked) -> ((i32, i64, usize), Columns) {
    ((segment.day.number(), segment.appended_at.micros(), segment.columns.rows), segment.columns)
}

fn series(kind: Kind, name: &str, meta: &[(i32, i64, usize)], pieces: &[Columns]) -> Series {
    let repeated = |(_, _, rows): &(i32, i64, usize)| 0..*rows;
    match name {
        DAY => days(DAY, meta.iter().flat_map(|piece| repeated(piece).map(|_| piece.0)).collect()),
        APPENDED_AT => {
            times(APPENDED_AT, meta.iter().flat_map(|piece| repeated(piece).map(|_| Some(piece.1))))
        }
        _ => stacked(name, kind.field(name).map_or(FieldType::Text, |field| field.kind), pieces),
    }
}
