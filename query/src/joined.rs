//! Predictions with the outcomes that judge them, as a dataframe.

use std::sync::Arc;

use fold::{LogSegment, RowRef, join};
use futures::{StreamExt, TryStreamExt, stream};
use polars::prelude::{Column as Series, DataFrame};
use store::{Column, Columns, Day, Error, Id, Kind, Result, Table, catalog::Kept, event::FieldType};

use crate::{
    events::{DAY, check_columns, check_tags, tags_of},
    frame,
    read::{self, Filter, Unpacked},
    request::Request,
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
pub(crate) async fn joined(
    table: &Arc<dyn Table>,
    workspace: &Id,
    request: &Request,
    kept: &Arc<Kept>,
) -> Result<DataFrame> {
    let extra = OUTCOME_COLUMNS.map(|(name, ..)| name);
    let extra: Vec<&str> = std::iter::once(DAY).chain(extra).collect();
    check_columns(Kind::Predictions, &extra, request.columns.as_deref())?;
    let reads = read::days(request.window).map(|day| join_day(table, workspace, day, request, kept));
    let days: Vec<JoinedDay> = stream::iter(reads).buffered(DAYS_AT_ONCE).try_collect().await?;
    let tags = tags_of(days.iter().flat_map(|day| &day.predictions));
    let names = request.columns.clone().unwrap_or_else(|| {
        let fields = Kind::Predictions.fields().iter().map(|field| field.name.to_owned());
        let names = std::iter::once(DAY.to_owned()).chain(fields).chain(tags.iter().cloned());
        names.chain(OUTCOME_COLUMNS.iter().map(|(name, ..)| (*name).to_owned())).collect()
    });
    let rows: usize = days.iter().map(|day| day.pairs.len()).sum();
    check_tags(&names, &tags, rows > 0)?;
    frame::frame(rows, names.iter().map(|name| series(name, &days)).collect())
}

async fn join_day(
    table: &Arc<dyn Table>,
    workspace: &Id,
    day: Day,
    request: &Request,
    kept: &Arc<Kept>,
) -> Result<JoinedDay> {
    let filter = |kind, release, columns| Filter {
        kind,
        columns,
        release,
        as_of: request.as_of,
        kept: Arc::clone(kept),
    };
    let needed = |columns: &[&str]| {
        let wanted = request.columns.as_ref()?;
        Some(wanted.iter().cloned().chain(columns.iter().map(|name| (*name).to_owned())).collect::<Vec<_>>())
    };
    let of_predictions =
        filter(Kind::Predictions, request.release.clone(), needed(&["release", "key", "predicted_at"]));
    let of_outcomes = filter(Kind::Outcomes, None, None);
    let (predictions, outcomes) = futures::try_join!(
        read::day_of(table, workspace, day, &of_predictions),
        read::day_of(table, workspace, day, &of_outcomes),
    )?;
    let joining = tokio::task::spawn_blocking(move || {
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

/// Segments as the fold wants them.
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
            let kind = Kind::Predictions.field(name).map_or(FieldType::Text, |field| field.kind);
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
