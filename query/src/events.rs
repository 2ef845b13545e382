//! The events of a window as a dataframe.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use event::{Columns, Error, Kind, Result, fields::FieldType};
use futures::{Stream, TryStreamExt};
use polars::prelude::{Column as Series, DataFrame, Expr};

use crate::{
    concat::{concatenated, instants, nulls},
    frame::{days, failed, filtered, frame},
    read::{self, Filter, Made, Reading, RowBounds, Unpacked},
    request::Request,
};

/// Columns that every event has besides its own: the day it belongs to, and when it was appended.
pub(crate) const DAY: &str = "day";
pub(crate) const APPENDED_AT: &str = "appended_at";

/// Days of fewer rows are put together in one piece.
const MIN_CHUNK_ROWS: usize = 4_096;

/// Checks the names of columns of a kind.
pub(crate) fn check_columns(kind: Kind, extra: &[&str], wanted: Option<&[String]>) -> Result<()> {
    let known = |name: &str| kind.may_have(name) || extra.contains(&name);
    match wanted.and_then(|names| names.iter().find(|name| !known(name))) {
        None => Ok(()),
        Some(name) => Err(Error::invalid(format!(
            "there is no column `{name}`; there are {}",
            kind.columns_are_called(extra)
        ))),
    }
}

/// Which events of a kind are wanted, and what of them.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    /// These columns; all when `None`.
    pub(crate) columns: Option<Vec<String>>,
    /// Only events of this release.
    pub(crate) release: Option<String>,
    /// Only rows for which it holds, and the columns that it needs.
    pub(crate) predicate: Option<(Expr, Vec<String>)>,
    /// What is known of those rows.
    pub(crate) bounds: RowBounds,
}

impl Wanted {
    /// What a request asks for.
    pub(crate) fn of(kind: Kind, request: &Request) -> Self {
        let (columns, release) = (request.columns.clone(), request.release.clone());
        Self { kind, columns, release, predicate: None, bounds: RowBounds::default() }
    }

    /// The columns that the predicate needs.
    fn of_predicate(&self) -> &[String] {
        self.predicate.as_ref().map_or(&[], |(_, columns)| columns)
    }
}

/// The events of a window.
pub(crate) async fn events(reading: &Arc<Reading>, wanted: &Wanted) -> Result<DataFrame> {
    let kind = wanted.kind;
    check_columns(kind, &[DAY, APPENDED_AT], wanted.columns.as_deref())?;
    if kind == Kind::Outcomes && wanted.release.is_some() {
        return Err(Error::invalid(
            "outcomes belong to keys, not to releases; ask for `joined` with a release",
        ));
    }
    let blocks: Vec<Block> = blocks(reading, wanted).try_collect().await?;
    let members: BTreeSet<String> = blocks.iter().flat_map(|block| block.members.iter().cloned()).collect();
    let names = match &wanted.columns {
        Some(names) => names.clone(),
        None => all_names(kind, &members),
    };
    check_members(kind, &names, &members, !blocks.is_empty())?;
    check_members(kind, wanted.of_predicate(), &members, !blocks.is_empty())?;
    let rows = blocks.iter().map(|block| block.rows).sum();
    let mut series: Vec<Vec<Series>> = names.iter().map(|_| Vec::with_capacity(blocks.len())).collect();
    for block in blocks {
        let Block { rows, mut columns, .. } = block;
        for (name, series) in names.iter().zip(&mut series) {
            series.push(columns.remove(name).unwrap_or_else(|| nulls(name, type_of(kind, name), rows)));
        }
    }
    let columns = names.iter().zip(series).map(|(name, series)| appended(kind, name, series));
    frame(rows, columns.collect::<Result<_>>()?)
}

/// The events of a window, day by day.
fn blocks(reading: &Arc<Reading>, wanted: &Wanted) -> impl Stream<Item = Result<Block>> + use<> {
    let needed = wanted.columns.as_ref().map(|columns| {
        let more = wanted.of_predicate().iter().filter(|name| !columns.contains(name));
        columns.iter().chain(more).cloned().collect()
    });
    let Wanted { kind, release, bounds, .. } = wanted.clone();
    let filter = Filter { kind, columns: needed, release, bounds };
    let wanted = Arc::new(wanted.clone());
    read::window(reading, &filter, move |segments| Block::of(&wanted, segments))
}

/// The names of all columns, with those of the members of families that occur.
fn all_names(kind: Kind, members: &BTreeSet<String>) -> Vec<String> {
    let fields = kind.fields().iter().map(|field| field.name.to_owned());
    let names = std::iter::once(DAY.to_owned()).chain(fields).chain(members.iter().cloned());
    names.chain([APPENDED_AT.to_owned()]).collect()
}

/// What a column holds.
pub(crate) fn type_of(kind: Kind, name: &str) -> FieldType {
    kind.column_type(name).unwrap_or(FieldType::Text)
}

/// The events of one day, each column in one piece.
struct Block {
    rows: usize,
    members: BTreeSet<String>,
    columns: HashMap<String, Series>,
}

impl Block {
    /// What is wanted of a day's segments.
    fn of(wanted: &Wanted, segments: Vec<Unpacked>) -> Result<Made<Self>> {
        let kind = wanted.kind;
        let members = members_of(kind, segments.iter().map(|segment| &segment.columns));
        let mut names = wanted.columns.clone().unwrap_or_else(|| all_names(kind, &members));
        let more: Vec<String> =
            wanted.of_predicate().iter().filter(|name| !names.contains(name)).cloned().collect();
        names.extend(more);
        let meta: Vec<_> = segments.iter().map(Meta::of).collect();
        let mut pieces: Vec<Columns> = segments.into_iter().map(|segment| segment.columns).collect();
        let rows = meta.iter().map(|piece| piece.rows).sum();
        let columns = names.into_iter().map(|name| match name.as_str() {
            DAY => days(DAY, repeated(&meta, rows, |piece| piece.day)),
            APPENDED_AT => instants(APPENDED_AT, repeated(&meta, rows, |piece| piece.appended_at)),
            _ => concatenated(&name, type_of(kind, &name), &mut pieces),
        });
        let columns: Vec<Series> = columns.collect();
        let (rows, columns, kept) = match &wanted.predicate {
            None => (rows, columns, None),
            Some((predicate, _)) => {
                let kept = filtered(frame(rows, columns)?, predicate.clone())?;
                let bytes = kept.estimated_size() as u64;
                (kept.height(), kept.into_columns(), Some(bytes))
            }
        };
        let columns = columns.into_iter().map(|column| (column.name().to_string(), column));
        Ok((Self { rows, columns: columns.collect(), members }, kept))
    }
}

/// What all rows of a segment have in common.
struct Meta {
    rows: usize,
    day: i32,
    appended_at: i64,
}

impl Meta {
    fn of(segment: &Unpacked) -> Self {
        let (rows, day) = (segment.columns.rows, segment.day.number());
        Self { rows, day, appended_at: segment.appended_at.micros() }
    }
}

fn repeated<T: Copy>(meta: &[Meta], rows: usize, value: impl Fn(&Meta) -> T) -> Vec<T> {
    let mut values = Vec::with_capacity(rows);
    meta.iter().for_each(|piece| values.resize(values.len() + piece.rows, value(piece)));
    values
}

/// One under the other; in one piece, when the days are so small that pieces would cost more than a copy.
fn appended(kind: Kind, name: &str, series: Vec<Series>) -> Result<Series> {
    let pieces = series.len();
    let mut series = series.into_iter();
    let Some(mut all) = series.next() else {
        return Ok(match name {
            DAY => days(DAY, Vec::new()),
            APPENDED_AT => instants(APPENDED_AT, Vec::new()),
            _ => nulls(name, type_of(kind, name), 0),
        });
    };
    for more in series {
        all.append_owned(more).map_err(failed)?;
    }
    Ok(if all.len() < pieces * MIN_CHUNK_ROWS { all.rechunk() } else { all })
}

/// The names of the columns of all members of families that occur.
pub(crate) fn members_of<'a>(kind: Kind, pieces: impl Iterator<Item = &'a Columns>) -> BTreeSet<String> {
    let names = pieces.flat_map(|piece| &piece.columns).map(|column| &column.name);
    names.filter(|name| kind.family(name).is_some()).cloned().collect()
}

/// A member of a family that no event has is a mistake, unless there is no event.
pub(crate) fn check_members(
    kind: Kind,
    names: &[String],
    members: &BTreeSet<String>,
    has_events: bool,
) -> Result<()> {
    let unknown = |name: &&String| kind.family(name).is_some() && !members.contains(*name);
    match names.iter().find(unknown).and_then(|name| Some((name, kind.family(name)?))) {
        Some((name, family)) if has_events => {
            Err(Error::invalid(format!("no event of the window has the {} `{name}`", family.noun)))
        }
        _ => Ok(()),
    }
}
