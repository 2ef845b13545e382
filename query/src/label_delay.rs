//! The share of outcomes that had arrived at each age of their prediction, counted pair by pair from the events. The ages of
//! `maturity` begin at the end of the day, so that for a prediction just after midnight the first age is up to 25 hours; the ages
//! here begin at the prediction.

use std::{collections::BTreeMap, sync::Arc};

use event::{Columns, Day, Error, Kind, Result, Timestamp, fields::FieldType};
use fold::{
    join,
    join::{OUTCOME_COLUMNS, PREDICTION_COLUMNS},
    maturity::AGES,
};
use futures::{StreamExt, TryStreamExt, stream};
use polars::prelude::DataFrame;

use crate::{
    columns::ColumnType,
    joined::{DAYS_AT_ONCE, in_log, pairs_bytes},
    maturity::{AGE, LATEST},
    read::{self, Filter, Reading, RowBounds, Unpacked},
    request::{Params, Request},
    series::{Cell, Row, series},
    work,
};

const HOUR_MICROS: i64 = 3_600_000_000;

const COLUMNS: [(&str, ColumnType); 5] = [
    ("release", ColumnType::Field(FieldType::Text)),
    (AGE, ColumnType::Field(FieldType::Text)),
    ("predictions", ColumnType::Count),
    ("arrived", ColumnType::Count),
    ("arrived_share", ColumnType::Field(FieldType::Float)),
];

/// Counts by age, with a last entry for any age: predictions that have reached the age, and those with an outcome by then.
type Counts = [[u64; 2]; AGES.len() + 1];

/// Returns true if ages are counted from each prediction.
///
/// # Errors
/// `Invalid`, if it is requested with parameters of evaluations.
pub(crate) fn after_prediction_of(words: &Params<'_>) -> Result<bool> {
    if !words.after_prediction {
        return Ok(false);
    }
    let judging = [
        ("group-by", words.by.is_some()),
        ("threshold", words.threshold.is_some()),
        ("zero-division", words.zero_division.is_some()),
        ("nowcast", words.nowcast.is_some()),
    ];
    match judging.into_iter().find(|(_, is_asked)| *is_asked) {
        Some((name, _)) => {
            Err(Error::invalid(format!("{name}: after-prediction counts outcomes, and judges nothing")))
        }
        None => Ok(true),
    }
}

/// Counts arrivals by day, release and age.
pub(crate) async fn arrived(reading: &Arc<Reading>, request: &Request) -> Result<DataFrame> {
    reading.warn_of_expired(reading.window);
    let days = reading.window.days().map(|day| of_day(reading, day, request.release.as_deref()));
    let days: Vec<(Day, BTreeMap<String, Counts>)> =
        stream::iter(days).buffered(DAYS_AT_ONCE).try_collect().await?;
    let mut rows = Vec::<Row>::new();
    for (day, releases) in days {
        for (release, counts) in releases {
            let names = AGES.iter().map(|age| age.name).chain([LATEST]);
            rows.extend(names.zip(counts).filter(|(_, [n, _])| *n > 0).map(|(age, [n, arrived])| {
                let share = Cell::Float(Some(arrived as f64 / n as f64));
                let texts = [release.as_str(), age].map(|text| Cell::Text(Some(text.to_owned())));
                (
                    day,
                    texts.into_iter().chain([Cell::Int(Some(n)), Cell::Int(Some(arrived)), share]).collect(),
                )
            }));
        }
    }
    series(&COLUMNS, &rows, request)
}

/// Counts the arrivals of a day by release.
async fn of_day(
    reading: &Arc<Reading>,
    day: Day,
    release: Option<&str>,
) -> Result<(Day, BTreeMap<String, Counts>)> {
    let of = |kind, columns: &[&str], release: Option<&str>| Filter {
        kind,
        columns: Some(columns.iter().map(|name| (*name).to_owned()).collect()),
        release: release.map(str::to_owned),
        bounds: RowBounds::default(),
    };
    let of_predictions = of(Kind::Predictions, PREDICTION_COLUMNS, release);
    let of_outcomes = of(Kind::Outcomes, OUTCOME_COLUMNS, None);
    let (predictions, outcomes) = futures::try_join!(
        read::day_of(reading, day, &of_predictions),
        read::day_of(reading, day, &of_outcomes),
    )?;
    let columns = || predictions.iter().chain(&outcomes).map(|segment| &segment.columns);
    let of_pairs = pairs_bytes(columns().map(|columns| columns.rows).sum());
    let held = columns().map(Columns::bytes).sum::<usize>() as u64 + of_pairs;
    reading.grow(of_pairs).await?;
    let (hold, now) = (reading.hold.clone(), reading.closed);
    let counting = work::run(move || {
        hold.check()?;
        let counts = counted(&predictions, &outcomes, now);
        counts.map_err(|error| Error::corrupt(format!("the events of {day} cannot be joined: {error}")))
    });
    let counts =
        counting.await.map_err(|error| Error::unavailable("counting was interrupted").because(error))??;
    reading.hold.shrink(held);
    Ok((day, counts))
}

fn counted(
    predictions: &[Unpacked],
    outcomes: &[Unpacked],
    now: Timestamp,
) -> Result<BTreeMap<String, Counts>> {
    let joined = join(&in_log(predictions), &in_log(outcomes))?;
    let mut counts: Vec<Counts> = vec![Counts::default(); joined.releases.len()];
    for pair in &joined.pairs {
        let of = pair.prediction;
        let predicted_at = predictions[of.segment as usize].columns.column("predicted_at");
        let Some(predicted_at) = predicted_at.and_then(|column| column.time(of.row as usize)) else {
            continue;
        };
        let arrived_at = pair.outcome.map(|of| outcomes[of.segment as usize].appended_at.micros());
        let ends = AGES.iter().map(|age| predicted_at.saturating_add(i64::from(age.hours) * HOUR_MICROS));
        let of_release = &mut counts[pair.release as usize];
        for (count, end) in of_release.iter_mut().zip(ends.map(Some).chain([None])) {
            count[0] += u64::from(end.is_none_or(|end| end <= now.micros()));
            // An arrival counts only at an age that the prediction has reached.
            let is_in_time = |at: i64| end.is_none_or(|end| at <= end && end <= now.micros());
            count[1] += u64::from(arrived_at.is_some_and(is_in_time));
        }
    }
    Ok(joined.releases.into_iter().zip(counts).collect())
}
