//! Two releases head to head, period by period, read from the events: metrics do not show which predictions the releases share.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use catalog::Catalog;
use event::{Error, Period, Result, Window, fields::FieldType};
use fold::{
    evaluation::{By, Value},
    paired::{Decided, Difference, HeadToHead, Measure, Meeting, PAIRED, Winner, head_to_head},
};
use polars::prelude::DataFrame;

use crate::{
    breakdown,
    columns::ColumnType,
    evaluation_rows::PeriodBuckets,
    evaluations::computed_periods,
    read::Reading,
    request::{Dataset, Params, Request},
    series::{Cell, Row, series},
    work,
};

const TEXT: ColumnType = ColumnType::Field(FieldType::Text);
const NUMBER: ColumnType = ColumnType::Field(FieldType::Float);

/// Name of the parameter and of the column of the release compared with.
pub(crate) const AGAINST: &str = "against";

/// A row before its cells are made.
pub(crate) struct Compared<'a> {
    pub(crate) release: &'a str,
    /// The release compared with.
    pub(crate) against: &'a str,
    pub(crate) measure: Measure,
    pub(crate) of: &'a HeadToHead,
    /// The day since which the comparison is decided.
    pub(crate) decided: Option<String>,
}

impl Compared<'_> {
    /// Returns the better release; `None`, if it is not decided.
    fn winner(&self) -> Option<String> {
        let winner = match self.of.decided?.winner {
            Winner::First => self.release,
            Winner::Second => self.against,
        };
        Some(winner.to_owned())
    }
}

/// A column: its name, its type, and its value for a row.
type Place = (&'static str, ColumnType, fn(&Compared<'_>) -> Cell);

const BEFORE: [Place; 2] = [
    (breakdown::RELEASE, TEXT, |row| Cell::Text(Some(row.release.to_owned()))),
    (AGAINST, TEXT, |row| Cell::Text(Some(row.against.to_owned()))),
];

const AFTER: [Place; 12] = [
    ("n", ColumnType::Count, |row| Cell::Int(Some(row.of.wins + row.of.losses + row.of.ties))),
    ("wins", ColumnType::Count, |row| Cell::Int(Some(row.of.wins))),
    ("losses", ColumnType::Count, |row| Cell::Int(Some(row.of.losses))),
    ("ties", ColumnType::Count, |row| Cell::Int(Some(row.of.ties))),
    ("measure", TEXT, |row| Cell::Text(Some(row.measure.name().to_owned()))),
    ("advantage", NUMBER, |row| Cell::Float(row.of.advantage)),
    ("n_so_far", ColumnType::Count, |row| Cell::Int(Some(row.of.so_far.n))),
    ("advantage_so_far", NUMBER, |row| Cell::Float(row.of.so_far.advantage)),
    ("low_so_far", NUMBER, |row| Cell::Float(Some(row.of.so_far.bounds.0))),
    ("high_so_far", NUMBER, |row| Cell::Float(Some(row.of.so_far.bounds.1))),
    ("decided_at", TEXT, |row| Cell::Text(row.decided.clone())),
    ("winner", TEXT, |row| Cell::Text(row.winner())),
];

/// A column of a metric of both releases: the suffix of its name, whether a table for people shows it, and its value.
type Part = (&'static str, bool, fn(&Difference) -> Option<f64>);

const PARTS: [Part; 6] = [
    ("", true, |of| Some(of.of[0])),
    ("_against", true, |of| Some(of.of[1])),
    ("_difference", false, |of| Some(of.difference())),
    ("_low", false, |of| of.interval.map(|(low, _)| low)),
    ("_high", false, |of| of.interval.map(|(_, high)| high)),
    ("_p_value", false, |of| of.p_value),
];

/// The columns of metrics: their names, the index of the metric and its part.
static METRICS: LazyLock<Vec<(String, usize, &'static Part)>> = LazyLock::new(|| {
    let of = |(at, metric): (usize, &'static fold::paired::Paired)| {
        PARTS.iter().map(move |part| (format!("{}{}", metric.name, part.0), at, part))
    };
    PAIRED.iter().enumerate().flat_map(of).collect()
});

/// Returns the columns after the day, without those of the breakdown.
pub(crate) fn columns() -> impl Iterator<Item = (&'static str, ColumnType)> {
    let metrics = METRICS.iter().map(|(name, ..)| (name.as_str(), NUMBER));
    let places = BEFORE.iter().chain(&AFTER).map(|(name, kind, _)| (*name, *kind));
    places.chain(metrics)
}

/// Returns true if a table for people shows a column.
pub(crate) fn is_main(name: &str) -> bool {
    let metric = METRICS.iter().find(|(column, ..)| column == name);
    metric.is_none_or(|(_, at, part)| part.1 && PAIRED[*at].name != "log_loss") && name != "n_so_far"
}

/// Parses the release compared with.
pub(crate) fn against_of(what: Dataset, words: &Params<'_>, period: Period) -> Result<Option<String>> {
    let Some(against) = words.against else {
        return match what {
            Dataset::HeadToHead => Err(Error::invalid(
                "against: name the release to compare with, as release names the other one",
            )),
            _ => Ok(None),
        };
    };
    match words.release {
        None => Err(Error::invalid("release: name the release that is compared with the one of against")),
        Some(release) if release == against => {
            Err(Error::invalid(format!("against: `{release}` cannot be compared with itself")))
        }
        Some(_) if period == Period::Hour => {
            Err(Error::invalid("period: head-to-head is of days and what is made of days, not of hours"))
        }
        Some(_) => Ok(Some(against.to_owned())),
    }
}

/// Returns the two releases that a request compares.
pub(crate) fn pair(request: &Request) -> Option<[String; 2]> {
    Some([request.release.clone()?, request.against.clone()?])
}

/// Marks releases as compared only, so that metrics are computed for their shared predictions alone.
pub(crate) fn met_only<'a>(releases: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, bool> {
    releases.into_iter().map(|release| (release.clone(), false)).collect()
}

/// Compares two releases on predictions of both that one outcome labels.
pub(crate) async fn compared(
    reading: &Arc<Reading>,
    catalog: &Catalog,
    request: &Request,
) -> Result<DataFrame> {
    let (periods, by) = computed_periods(reading, catalog, request).await?;
    let (request, hold) = (request.clone(), reading.hold.clone());
    let comparing = work::run(move || {
        hold.check()?;
        rows_of(periods, &by, &request)
    });
    comparing.await.map_err(|error| Error::unavailable("comparing was interrupted").because(error))?
}

fn rows_of(periods: Vec<PeriodBuckets>, by: &[By], request: &Request) -> Result<DataFrame> {
    let parts = request.period.parts(request.window);
    let [release, against] = &pair(request).unwrap_or_default();
    let mut met = BTreeMap::<Vec<Value>, Vec<Vec<Meeting>>>::new();
    for (number, period) in periods.into_iter().enumerate() {
        for (bucket, of_bucket) in period.buckets.duels.into_iter().flatten() {
            let of_values = met.entry(bucket.values).or_insert_with(|| vec![Vec::new(); parts.len()]);
            of_values[number] = of_bucket;
        }
    }
    let mut rows = Vec::<(usize, Row)>::new();
    for (values, met) in met {
        let values: Vec<String> =
            by.iter().zip(&values).map(|(by, value)| breakdown::text_of(by, value)).collect();
        let (measure, compared) = head_to_head(met);
        for (number, of) in compared.iter().enumerate().filter(|(_, of)| of.advantage.is_some()) {
            let decided = of.decided.and_then(|decided| day_of(&parts, decided, request));
            let row = Compared { release, against, measure, of, decided };
            rows.push((number, (parts[number].from(), cells(&row, &values))));
        }
    }
    // Ordered by day, and within it by the values.
    rows.sort_by_key(|(number, _)| *number);
    let names = request.breakdown.columns.iter().map(|column| (column.as_str(), TEXT));
    let mut all: Vec<(&str, ColumnType)> = columns().collect();
    all.splice(BEFORE.len()..BEFORE.len(), names);
    series(&all, &rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>(), request)
}

/// Returns the day since which it is decided.
fn day_of(parts: &[Window], decided: Decided, request: &Request) -> Option<String> {
    let part = *parts.get(decided.period)?;
    let days = request.zone.map_or(part, |zone| zone.utc_days(part));
    days.days().nth(decided.day as usize).map(|day| day.to_string())
}

/// Returns the cells of a row, with the values of the breakdown.
pub(crate) fn cells(row: &Compared<'_>, values: &[String]) -> Vec<Cell> {
    let places = |places: &'static [Place]| places.iter().map(|(.., read)| read(row));
    let values = values.iter().cloned().map(|value| Cell::Text(Some(value)));
    let metric =
        |(_, at, part): &(String, usize, &Part)| Cell::Float(row.of.metrics[*at].as_ref().and_then(part.2));
    places(&BEFORE).chain(values).chain(places(&AFTER)).chain(METRICS.iter().map(metric)).collect()
}
