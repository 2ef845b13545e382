//! The events of a window as a dataframe.

use std::{
    collections::{BTreeSet, HashMap},
    pin::pin,
    sync::Arc,
};

use event::{Columns, Error, Kind, Result, custom::OUTCOME_COLUMNS, fields::FieldType};
use futures::{Stream, TryStreamExt};
use polars::prelude::{BooleanChunked, Column as Series, DataFrame, Expr, SortMultipleOptions};

use crate::{
    concat::{concatenated, instants, nulls},
    frame::{days, failed, filtered, frame},
    read::{self, Filter, Made, Reading, RowBounds, Unpacked},
    request::{Dataset, Request},
    row_filter::{KEY, RowFilter},
};

/// Columns of every event besides its own: its day, and the time at which it was appended.
pub(crate) const DAY: &str = "day";
pub(crate) const APPENDED_AT: &str = "appended_at";

/// Minimum number of rows of a piece; smaller segments and days are put together.
const MIN_CHUNK_ROWS: usize = 4_096;

/// Checks the names of columns of a kind.
pub(crate) fn check_columns(kind: Kind, extra: &[&str], wanted: Option<&[String]>) -> Result<()> {
    let known = |name: &str| kind.may_have(name) || extra.contains(&name);
    check_known(wanted, known, || kind.columns_are_called(extra))
}

/// Checks that all names of columns are known; an error lists the existing ones.
pub(crate) fn check_known(
    wanted: Option<&[String]>,
    known: impl Fn(&str) -> bool,
    there: impl Fn() -> String,
) -> Result<()> {
    match wanted.and_then(|names| names.iter().find(|name| !known(name))) {
        None => Ok(()),
        Some(name) => Err(Error::invalid(format!("there is no column `{name}`; there are {}", there()))),
    }
}

/// The events of a kind that are requested, or the joined rows, with their columns.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    /// True for predictions that each come with the outcome that labels them.
    pub(crate) is_joined: bool,
    /// These columns; all if `None`.
    pub(crate) columns: Option<Vec<String>>,
    /// Only events of this release.
    pub(crate) release: Option<String>,
    /// Only rows for which it holds, with the columns that it needs.
    pub(crate) predicate: Option<(Expr, Vec<String>)>,
    /// Bounds of those rows.
    pub(crate) bounds: RowBounds,
    /// Their number, keys and order.
    pub(crate) row_filter: RowFilter,
}

impl Wanted {
    /// Takes over a request, without its condition.
    pub(crate) fn of(kind: Kind, request: &Request) -> Self {
        let (columns, release) = (request.columns.clone(), request.release.clone());
        let (is_joined, row_filter) = (request.what == Dataset::Joined, request.row_filter.clone());
        Self { kind, is_joined, columns, release, predicate: None, bounds: RowBounds::default(), row_filter }
    }

    /// Returns the columns needed to choose rows and to order them.
    fn working(&self) -> Vec<String> {
        let of_predicate = self.predicate.iter().flat_map(|(_, columns)| columns.iter().cloned());
        let of_sample = self.row_filter.sample.map(|_| KEY.to_owned());
        let of_order = self.row_filter.newest.then(|| self.kind.time_field().to_owned());
        of_predicate.chain(of_sample).chain(of_order).collect()
    }

    /// Returns `names` and the working columns.
    pub(crate) fn with_working(&self, mut names: Vec<String>) -> Vec<String> {
        for name in self.working() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Returns the filter of segments and their columns.
    pub(crate) fn filter(&self) -> Filter {
        let columns = self.columns.clone().map(|columns| self.with_working(columns));
        let Self { kind, release, bounds, .. } = self.clone();
        Filter { kind, columns, release, bounds }
    }

    /// Returns true if rows are chosen by their own values.
    pub(crate) fn chooses_rows(&self) -> bool {
        self.predicate.is_some() || self.row_filter.sample.is_some()
    }

    /// Returns true if all rows read are requested, in the order of the log.
    pub(crate) fn takes_all(&self) -> bool {
        self.predicate.is_none() && self.row_filter == RowFilter::default()
    }

    /// Lifts the bounds on keys.
    pub(crate) fn of_all_keys(&self) -> Self {
        Self { bounds: RowBounds { keys: None, ..self.bounds.clone() }, ..self.clone() }
    }

    /// Returns the requested rows among some of a day.
    pub(crate) fn chosen(&self, mut rows: DataFrame) -> Result<DataFrame> {
        if let Some((predicate, _)) = &self.predicate {
            rows = filtered(rows, predicate.clone())?;
        }
        if let Some(share) = self.row_filter.sample {
            let keys = rows.column(KEY).and_then(Series::str).map_err(failed)?;
            let is_in: BooleanChunked =
                keys.iter().map(|key| key.is_some_and(|key| share.has(key))).collect();
            rows = rows.filter(&is_in).map_err(failed)?;
        }
        self.in_order(rows)
    }

    /// Puts rows of a day in the requested order, up to the requested number.
    pub(crate) fn in_order(&self, mut rows: DataFrame) -> Result<DataFrame> {
        if self.row_filter.newest {
            let order = SortMultipleOptions::default()
                .with_order_descending(true)
                .with_nulls_last(true)
                .with_maintain_order(true);
            rows = rows.sort([self.kind.time_field()], order).map_err(failed)?;
        }
        if let Some(limit) = self.row_filter.limit {
            rows = rows.head(Some(limit));
        }
        Ok(rows)
    }
}

/// Checks the columns and the release of a request.
pub(crate) fn check(wanted: &Wanted) -> Result<()> {
    check_columns(wanted.kind, &[DAY, APPENDED_AT], wanted.columns.as_deref())?;
    if wanted.kind == Kind::Outcomes && wanted.release.is_some() {
        return Err(Error::invalid(
            "outcomes belong to keys, not to releases; ask for `joined` with a release",
        ));
    }
    Ok(())
}

/// Reads the events of a window.
pub(crate) async fn events(reading: &Arc<Reading>, wanted: &Wanted) -> Result<DataFrame> {
    check(wanted)?;
    let kind = wanted.kind;
    collected(wanted, blocks(reading, wanted), |members| all_names(kind, members)).await
}

/// Concatenates the requested rows of days, of as many as have enough rows. Its columns are the named ones; else `all_names`
/// lists them, from the members that occur.
pub(crate) async fn collected(
    wanted: &Wanted,
    days: impl Stream<Item = Result<Vec<Block>>>,
    all_names: impl Fn(&BTreeSet<String>) -> Vec<String>,
) -> Result<DataFrame> {
    let kind = wanted.kind;
    let limit = wanted.row_filter.limit.unwrap_or(usize::MAX);
    let (mut blocks, mut rows) = (Vec::new(), 0);
    let mut days = pin!(days);
    while rows < limit
        && let Some(day) = days.try_next().await?
    {
        rows += day.iter().map(|block| block.rows).sum::<usize>();
        blocks.extend(day);
    }
    let members: BTreeSet<String> = blocks.iter().flat_map(|block| block.members.iter().cloned()).collect();
    let names = match &wanted.columns {
        Some(names) => names.clone(),
        None => all_names(&members),
    };
    // A member may occur in rows that were not read.
    let is_whole = !blocks.is_empty() && rows < limit;
    check_members(kind, &wanted.with_working(names.clone()), &members, is_whole)?;
    let all = one_under_the_other(kind, &names, blocks)?;
    Ok(if rows > limit { all.head(Some(limit)) } else { all })
}

/// Concatenates the columns `names` of blocks.
fn one_under_the_other(kind: Kind, names: &[String], blocks: Vec<Block>) -> Result<DataFrame> {
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

/// Reads the events of a window, day by day.
fn blocks(reading: &Arc<Reading>, wanted: &Wanted) -> impl Stream<Item = Result<Vec<Block>>> + use<> {
    let filter = wanted.filter();
    let wanted = Arc::new(wanted.clone());
    let newest = wanted.row_filter.newest;
    read::window(reading, &filter, newest, move |segments| Block::of_day(&wanted, segments))
}

/// Returns the requested rows of some segments, with the named columns and the working columns.
pub(crate) fn rows_of(wanted: &Wanted, segments: Vec<Unpacked>) -> Result<DataFrame> {
    let (block, _) = Block::of(wanted, segments)?;
    let names = wanted.with_working(wanted.columns.clone().unwrap_or_default());
    one_under_the_other(wanted.kind, &names, vec![block])
}

/// Builds a frame without rows.
pub(crate) fn no_rows(kind: Kind, names: &[String]) -> Result<DataFrame> {
    one_under_the_other(kind, names, Vec::new())
}

/// Returns the names of all columns, with those of the members of families that occur.
pub(crate) fn all_names(kind: Kind, members: &BTreeSet<String>) -> Vec<String> {
    let fields = kind.fields().iter().map(|field| field.name.to_owned());
    let names = std::iter::once(DAY.to_owned()).chain(fields).chain(members.iter().cloned());
    names.chain([APPENDED_AT.to_owned()]).collect()
}

/// Returns the type of a column of events or of joined rows.
pub(crate) fn type_of(kind: Kind, name: &str) -> FieldType {
    let of_outcome = || OUTCOME_COLUMNS.iter().find(|(column, ..)| *column == name).map(|(.., kind)| *kind);
    kind.column_type(name).or_else(of_outcome).unwrap_or(FieldType::Text)
}

/// Rows of one day, each column in one piece.
pub(crate) struct Block {
    rows: usize,
    members: BTreeSet<String>,
    columns: HashMap<String, Series>,
}

impl Block {
    /// Builds the requested rows of a day: large segments stay as they are, which saves a copy; else all are put together.
    fn of_day(wanted: &Wanted, segments: Vec<Unpacked>) -> Result<Made<Vec<Self>>> {
        let rows: usize = segments.iter().map(|segment| segment.columns.rows).sum();
        if !wanted.takes_all() || rows < segments.len() * MIN_CHUNK_ROWS {
            return Self::of(wanted, segments).map(|(block, kept)| (vec![block], kept));
        }
        let blocks = segments.into_iter().map(|segment| Ok(Self::of(wanted, vec![segment])?.0));
        Ok((blocks.collect::<Result<_>>()?, None))
    }

    /// Builds the requested rows of segments of a day.
    fn of(wanted: &Wanted, segments: Vec<Unpacked>) -> Result<Made<Self>> {
        let kind = wanted.kind;
        let members = members_of(kind, segments.iter().map(|segment| &segment.columns));
        let names = wanted.columns.clone().unwrap_or_else(|| all_names(kind, &members));
        let names = wanted.with_working(names);
        let meta: Vec<_> = segments.iter().map(Meta::of).collect();
        let mut pieces: Vec<Columns> = segments.into_iter().map(|segment| segment.columns).collect();
        let rows = meta.iter().map(|piece| piece.rows).sum();
        let columns = names.into_iter().map(|name| match name.as_str() {
            DAY => days(DAY, repeated(&meta, rows, |piece| piece.day)),
            APPENDED_AT => instants(APPENDED_AT, repeated(&meta, rows, |piece| piece.appended_at)),
            _ => concatenated(&name, type_of(kind, &name), &mut pieces),
        });
        let all = frame(rows, columns.collect())?;
        if wanted.takes_all() {
            return Ok((Self::new(all, members), None));
        }
        let kept = wanted.chosen(all)?;
        let bytes = kept.estimated_size() as u64;
        Ok((Self::new(kept, members), Some(bytes)))
    }

    /// Builds a block of rows, with the members of families that occur on their day.
    pub(crate) fn new(rows: DataFrame, members: BTreeSet<String>) -> Self {
        let height = rows.height();
        let columns = rows.into_columns().into_iter().map(|column| (column.name().to_string(), column));
        Self { rows: height, members, columns: columns.collect() }
    }
}

/// The values shared by all rows of a segment.
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

/// Concatenates pieces; in one piece if the days are so small that pieces would cost more than a copy.
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

/// Returns the names of the columns of all members of families that occur.
pub(crate) fn members_of<'a>(kind: Kind, pieces: impl Iterator<Item = &'a Columns>) -> BTreeSet<String> {
    let names = pieces.flat_map(|piece| &piece.columns).map(|column| &column.name);
    names.filter(|name| kind.family(name).is_some()).cloned().collect()
}

/// Refuses a member of a family that no event has, unless there is no event.
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
