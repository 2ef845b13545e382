//! Predictions with the outcomes that judge them, as a dataframe.

use std::sync::Arc;

use event::{Column, Columns, Day, Error, Kind, Result, fields::FieldType};
use fold::{LogSegment, RowRef, join};
use futures::{StreamExt, TryStreamExt, stream};
use polars::prelude::{Column as Series, DataFrame};

use crate::{
    events::{DAY, Wanted, check_columns, check_members, members_of, type_of},
    frame,
    read::{self, Filter, Reading, RowBounds, Unpacked},
};

/// What an outcome adds to a prediction: the name of the column, and the field of the outcome.
pub(crate) const OUTCOME_COLUMNS: [(&str, &str, FieldType); 3] = [
    ("outcome_label", "label", FieldType::Text),
    ("outcome_value", "value", FieldType::Float),
    ("observed_at", "observed_at", FieldType::Time),
];

/// How many days are joined at once.
const DAYS_AT_ONCE: usize = 2;

/// A day's predictions and outcomes, and which belong together.
struct JoinedDay {
    day: Day,
    predictions: Vec<Columns>,
    outcomes: Vec<Columns>,
    pairs: Vec<(RowRef, Option<RowRef>)>,
}

/// The predictions of a window with their outcomes.
pub(crate) async fn joined(reading: &Arc<Reading>, wanted: &Wanted) -> Result<DataFrame> {
    let extra = OUTCOME_COLUMNS.map(|(name, ..)| name);
    let extra: Vec<&str> = std::iter::once(DAY).chain(extra).collect();
    check_columns(Kind::Predictions, &extra, wanted.columns.as_deref())?;
    let days = reading.window.days().filter(|day| wanted.bounds.may_be_of(*day));
    let reads = days.map(|day| join_day(reading, day, wanted));
    let days: Vec<JoinedDay> = stream::iter(reads).buffered(DAYS_AT_ONCE).try_collect().await?;
    let bytes = days.iter().map(JoinedDay::bytes).sum();
    reading.grow(bytes).await?;
    let (wanted, building) = (wanted.clone(), Arc::clone(reading));
    let building = tokio::task::spawn_blocking(move || built(wanted, &days, &building));
    building.await.map_err(|error| Error::unavailable("joining was interrupted").because(error))?
}

/// The dataframe of days that are joined.
fn built(wanted: Wanted, days: &[JoinedDay], reading: &Reading) -> Result<DataFrame> {
    let members = members_of(Kind::Predictions, days.iter().flat_map(|day| &day.predictions));
    let names = wanted.columns.unwrap_or_else(|| {
        let fields = Kind::Predictions.fields().iter().map(|field| field.name.to_owned());
        let names = std::iter::once(DAY.to_owned()).chain(fields).chain(members.iter().cloned());
        names.chain(OUTCOME_COLUMNS.iter().map(|(name, ..)| (*name).to_owned())).collect()
    });
    let rows: usize = days.iter().map(|day| day.pairs.len()).sum();
    check_members(Kind::Predictions, &names, &members, rows > 0)?;
    let column = |name: &String| {
        reading.hold.check()?;
        Ok(series(name, days))
    };
    frame::frame(rows, names.iter().map(column).collect::<Result<_>>()?)
}

async fn join_day(reading: &Arc<Reading>, day: Day, wanted: &Wanted) -> Result<JoinedDay> {
    let filter = |kind, release, columns, bounds| Filter { kind, columns, release, bounds };
    let needed = |columns: &[&str]| {
        let wanted = wanted.columns.as_ref()?;
        Some(wanted.iter().cloned().chain(columns.iter().map(|name| (*name).to_owned())).collect::<Vec<_>>())
    };
    let of_predictions = filter(
        Kind::Predictions,
        wanted.release.clone(),
        needed(&["release", "key", "predicted_at"]),
        wanted.bounds.clone(),
    );
    // Outcomes are of no release.
    let of_outcomes =
        filter(Kind::Outcomes, None, None, RowBounds { releases: None, ..wanted.bounds.clone() });
    let (predictions, outcomes) = futures::try_join!(
        read::day_of(reading, day, &of_predictions),
        read::day_of(reading, day, &of_outcomes),
    )?;
    // What the join finds: a pair for each prediction, and about as much while it looks for them.
    let rows: usize = predictions.iter().chain(&outcomes).map(|segment| segment.columns.rows).sum();
    reading.grow((rows * 2 * size_of::<(RowRef, Option<RowRef>)>()) as u64).await?;
    let hold = reading.hold.clone();
    let joining = tokio::task::spawn_blocking(move || {
        hold.check()?;
        let pairs = join(&in_log(&predictions), &in_log(&outcomes))
            .map_err(|error| Error::corrupt(format!("the events of {day} cannot be joined: {error}")))?
            .pairs
            .into_iter()
            .map(|pair| (pair.prediction, pair.outcome))
            .collect();
        let columns = |segments: Vec<Unpacked>| segments.into_iter().map(|segment| segment.columns).collect();
        Ok(JoinedDay { day, predictions: columns(predictions), outcomes: columns(outcomes), pairs })
    });
    joining.await.map_err(|error| Error::unavailable("joining was interrupted").because(error))?
}

impl JoinedDay {
    /// About how many bytes it takes, and so about how many a dataframe of it.
    fn bytes(&self) -> u64 {
        let columns = self.predictions.iter().chain(&self.outcomes).map(Columns::bytes);
        columns.sum::<usize>() as u64
    }
}

/// Segments as the fold wants them.
fn in_log(segments: &[Unpacked]) -> Vec<LogSegment<'_>> {
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

/// One value for each pair, from where `place` says it stands.
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
