//! Predictions with the outcomes that label them, as a dataframe.

use std::{collections::BTreeSet, sync::Arc};

use event::{Column, Columns, Day, Error, Kind, Result, custom::OUTCOME_COLUMNS, fields::FieldType};
use fold::{LogSegment, RowRef, join, join::PREDICTION_COLUMNS};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use polars::prelude::{Column as Series, DataFrame};

use crate::{
    events::{self, Block, DAY, Wanted, check_known, check_members, members_of, type_of},
    frame,
    parts::{self, Part},
    read::{self, Filter, Reading, RowBounds, Unpacked},
    work,
};

/// Number of days joined at once.
pub(crate) const DAYS_AT_ONCE: usize = 2;

/// Predictions and outcomes of a day, and their pairs.
struct JoinedDay {
    day: Day,
    /// Number of predictions and outcomes together.
    rows: usize,
    predictions: Vec<Columns>,
    outcomes: Vec<Columns>,
    pairs: Vec<(RowRef, Option<RowRef>)>,
}

/// Checks the requested columns.
pub(crate) fn check(wanted: &Wanted) -> Result<()> {
    let extra = OUTCOME_COLUMNS.map(|(name, ..)| name);
    let extra: Vec<&str> = std::iter::once(DAY).chain(extra).collect();
    let known = |name: &str| Kind::Predictions.lasting_type(name).is_some() || extra.contains(&name);
    check_known(wanted.columns.as_deref(), known, || Kind::Predictions.lasting_are_called(&extra))
}

/// Reads the predictions of a window with their outcomes.
pub(crate) async fn joined(reading: &Arc<Reading>, wanted: &Wanted) -> Result<DataFrame> {
    check(wanted)?;
    let is_member = |name: &String| Kind::Predictions.family(name).is_some();
    let named = wanted.columns.clone().map(|names| wanted.with_working(names));
    // A read of some keys does not show whether other events have the member that is named, so all keys are read.
    let of_all_keys = named.iter().flatten().any(is_member).then(|| wanted.of_all_keys());
    let wanted = Arc::new(of_all_keys.unwrap_or_else(|| wanted.clone()));
    match wanted.takes_all() {
        true => all(reading, wanted).await,
        false => events::collected(&wanted, chosen(reading, &wanted), all_names).await,
    }
}

/// Joins all rows of a window.
async fn all(reading: &Arc<Reading>, wanted: Arc<Wanted>) -> Result<DataFrame> {
    let reads = days(reading, &wanted).into_iter().map(|day| join_day(reading, day, &wanted));
    let days: Vec<JoinedDay> = stream::iter(reads).buffered(DAYS_AT_ONCE).try_collect().await?;
    let bytes = days.iter().map(JoinedDay::bytes).sum();
    reading.grow(bytes).await?;
    let building = Arc::clone(reading);
    let building = work::run(move || built(&wanted, &days, &building));
    building.await.map_err(|error| Error::unavailable("joining was interrupted").because(error))?
}

/// Builds the frame of joined days.
fn built(wanted: &Wanted, days: &[JoinedDay], reading: &Reading) -> Result<DataFrame> {
    let members = members_of(Kind::Predictions, days.iter().flat_map(|day| &day.predictions));
    let names = wanted.columns.clone().unwrap_or_else(|| all_names(&members));
    let rows: usize = days.iter().map(|day| day.pairs.len()).sum();
    check_members(Kind::Predictions, &names, &members, rows > 0)?;
    frame_of(&names, days, reading)
}

/// Joins the requested rows of a window, day by day.
fn chosen(reading: &Arc<Reading>, wanted: &Arc<Wanted>) -> impl Stream<Item = Result<Vec<Block>>> + use<> {
    let (reading, wanted) = (Arc::clone(reading), Arc::clone(wanted));
    let days = days(&reading, &wanted).into_iter().map(move |day| {
        let (reading, wanted) = (Arc::clone(&reading), Arc::clone(&wanted));
        async move {
            let joined = join_day(&reading, day, &wanted).await?;
            let members = members_of(Kind::Predictions, joined.predictions.iter());
            let has_events = !joined.predictions.is_empty();
            let names = wanted.columns.clone().unwrap_or_else(|| all_names(&members));
            let part = made(&reading, joined, names, &wanted).await?;
            Ok(has_events.then(|| Block::new(part.frame, members)).into_iter().collect())
        }
    });
    stream::iter(days).buffered(DAYS_AT_ONCE)
}

/// Returns the days that may have requested rows, in the order of the answer.
fn days(reading: &Reading, wanted: &Wanted) -> Vec<Day> {
    let mut days: Vec<Day> = reading.window.days().filter(|day| wanted.bounds.may_be_of(*day)).collect();
    if wanted.row_filter.newest {
        days.reverse();
    }
    days
}

/// Returns the names of all columns, with those of the members of families that occur.
pub(crate) fn all_names(members: &BTreeSet<String>) -> Vec<String> {
    let fields = Kind::Predictions.lasting_fields().map(|field| field.name.to_owned());
    let names = std::iter::once(DAY.to_owned()).chain(fields).chain(members.iter().cloned());
    names.chain(OUTCOME_COLUMNS.iter().map(|(name, ..)| (*name).to_owned())).collect()
}

/// Returns the requested rows of a day, with the working columns.
pub(crate) async fn part(reading: &Arc<Reading>, day: Day, wanted: &Arc<Wanted>) -> Result<Part> {
    let joined = join_day(reading, day, wanted).await?;
    made(reading, joined, wanted.columns.clone().unwrap_or_default(), wanted).await
}

/// Builds the requested rows of a day: its columns `names`, and the working columns.
async fn made(
    reading: &Arc<Reading>,
    joined: JoinedDay,
    names: Vec<String>,
    wanted: &Arc<Wanted>,
) -> Result<Part> {
    let bytes = joined.bytes();
    let held = 2 * bytes + joined.pairs_bytes();
    reading.grow(bytes).await?;
    let (wanted, building) = (Arc::clone(wanted), Arc::clone(reading));
    let building = work::run(move || {
        let names = wanted.with_working(names);
        wanted.chosen(frame_of(&names, &[joined], &building)?)
    });
    let frame = building.await.map_err(parts::interrupted)??;
    parts::settled(reading, frame, held).await
}

/// Builds the columns `names` of days.
fn frame_of(names: &[String], days: &[JoinedDay], reading: &Reading) -> Result<DataFrame> {
    let rows: usize = days.iter().map(|day| day.pairs.len()).sum();
    let column = |name: &String| {
        reading.hold.check()?;
        Ok(series(name, days))
    };
    frame::frame(rows, names.iter().map(column).collect::<Result<_>>()?)
}

/// Returns the filter of outcomes, which have no release.
pub(crate) fn of_outcomes(wanted: &Wanted) -> Filter {
    let bounds = RowBounds { releases: None, ..wanted.bounds.clone() };
    Filter { kind: Kind::Outcomes, columns: None, release: None, bounds }
}

async fn join_day(reading: &Arc<Reading>, day: Day, wanted: &Wanted) -> Result<JoinedDay> {
    let of_rows = wanted.filter();
    let of_join = PREDICTION_COLUMNS.iter().map(|name| (*name).to_owned());
    let columns = of_rows.columns.map(|names| names.into_iter().chain(of_join).collect());
    let of_predictions = Filter { columns, ..of_rows };
    let of_outcomes = of_outcomes(wanted);
    let (predictions, outcomes) = futures::try_join!(
        read::day_of(reading, day, &of_predictions),
        read::day_of(reading, day, &of_outcomes),
    )?;
    let rows: usize = predictions.iter().chain(&outcomes).map(|segment| segment.columns.rows).sum();
    reading.grow(pairs_bytes(rows)).await?;
    let hold = reading.hold.clone();
    let joining = work::run(move || {
        hold.check()?;
        let pairs = join(&in_log(&predictions), &in_log(&outcomes))
            .map_err(|error| Error::corrupt(format!("the events of {day} cannot be joined: {error}")))?
            .pairs
            .into_iter()
            .map(|pair| (pair.prediction, pair.outcome))
            .collect();
        let columns = |segments: Vec<Unpacked>| segments.into_iter().map(|segment| segment.columns).collect();
        Ok(JoinedDay { day, rows, predictions: columns(predictions), outcomes: columns(outcomes), pairs })
    });
    joining.await.map_err(|error| Error::unavailable("joining was interrupted").because(error))?
}

/// Returns the approximate bytes of joining so many rows: a pair for each prediction, and as much for the search.
pub(crate) fn pairs_bytes(rows: usize) -> u64 {
    (rows * 2 * size_of::<(RowRef, Option<RowRef>)>()) as u64
}

impl JoinedDay {
    fn pairs_bytes(&self) -> u64 {
        pairs_bytes(self.rows)
    }

    /// Returns its approximate bytes, which are about those of its dataframe.
    fn bytes(&self) -> u64 {
        let columns = self.predictions.iter().chain(&self.outcomes).map(Columns::bytes);
        columns.sum::<usize>() as u64
    }
}

/// Returns segments in the form that the fold takes.
pub(crate) fn in_log(segments: &[Unpacked]) -> Vec<LogSegment<'_>> {
    let segments = segments.iter();
    segments.map(|segment| LogSegment { place: segment.place, columns: &segment.columns }).collect()
}

fn series(name: &str, days: &[JoinedDay]) -> Series {
    if name == DAY {
        let numbers = days.iter().flat_map(|day| day.pairs.iter().map(|_| day.day.number()));
        return frame::days(DAY, numbers.collect());
    }
    match OUTCOME_COLUMNS.iter().find(|(column, ..)| *column == name) {
        Some((_, field, kind)) => gathered(name, *kind, days, |day, (_, outcome)| {
            let at = outcome.as_ref()?;
            Some((day.outcomes[at.segment as usize].column(field)?, at.row as usize))
        }),
        None => {
            let kind = type_of(Kind::Predictions, name);
            gathered(name, kind, days, |day, (at, _)| {
                Some((day.predictions[at.segment as usize].column(name)?, at.row as usize))
            })
        }
    }
}

/// Gathers one value for each pair, from the position given by `place`.
fn gathered<'a>(
    name: &str,
    kind: FieldType,
    days: &'a [JoinedDay],
    place: impl Fn(&'a JoinedDay, &(RowRef, Option<RowRef>)) -> Option<(&'a Column, usize)> + Copy,
) -> Series {
    let places = days.iter().flat_map(move |day| day.pairs.iter().map(move |pair| place(day, pair)));
    match kind {
        FieldType::Float => {
            frame::floats(name, places.map(|place| place.and_then(|(column, row)| column.float(row))))
        }
        FieldType::Time => {
            frame::times(name, places.map(|place| place.and_then(|(column, row)| column.time(row))))
        }
        FieldType::Text => {
            frame::texts(name, places.map(|place| place.and_then(|(column, row)| column.text(row))))
        }
    }
}
