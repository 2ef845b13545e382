//! Expected metrics of each period before there are labels, from scores calibrated on reference days, and their distance from the
//! real ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use catalog::Catalog;
use event::{Error, Period, Result, Window, fields::FieldType};
use fold::{
    estimate::{
        BYTES_OF_EXPECTED, Calibration, Case, ClassCalibration, ClassCases, EXPECTED, Expected, expected,
        expected_of_classes, realised, realised_of_classes,
    },
    evaluation::{Bucket, Buckets, By, Value},
    formulas::MAX_CLASSES,
};
use polars::prelude::DataFrame;

use crate::{
    breakdown,
    columns::ColumnType,
    evaluation_rows::PeriodBuckets,
    evaluations::{periods, prepared},
    read::Reading,
    request::{Dataset, Params, Request},
    series::{Cell, Row, series},
    work,
};

const NUMBER: ColumnType = ColumnType::Field(FieldType::Float);
const TEXT: ColumnType = ColumnType::Field(FieldType::Text);

/// Maximum number of warnings about missing rows.
const MAX_WARNINGS: usize = 10;

/// A row before its cells are made.
struct Estimated<'a> {
    release: &'a str,
    /// Values of the columns of the breakdown.
    values: &'a [String],
    n: usize,
    judged: usize,
    /// Realised metrics of the labelled predictions, in the order of [`EXPECTED`].
    real: [Option<f64>; EXPECTED.len()],
    /// Expected metrics of all its predictions, and of the labelled ones, in the order of [`EXPECTED`].
    expected: Vec<[Option<Expected>; 2]>,
}

/// A column: its name, its type, and its value for a row.
type Column = (&'static str, ColumnType, fn(&Estimated<'_>) -> Cell);

const PLACES: [Column; 3] = [
    (breakdown::RELEASE, TEXT, |row| Cell::Text(Some(row.release.to_owned()))),
    ("n", ColumnType::Count, |row| Cell::Int(Some(row.n as u64))),
    ("labelled", ColumnType::Count, |row| Cell::Int(Some(row.judged as u64))),
];

/// A column of a metric: the suffix of its name, whether a table for people shows it, and its value.
type Part = (&'static str, bool, fn(Option<f64>, [Option<Expected>; 2]) -> Option<f64>);

/// Suffixes of the names of the ends of a band.
const BAND: [&str; 2] = ["_expected_low", "_expected_high"];

const PARTS: [Part; 5] = [
    ("_expected", true, |_, [of_all, _]| of_all.map(|expected| expected.value)),
    (BAND[0], false, |_, [of_all, _]| of_all.map(|expected| expected.band.0)),
    (BAND[1], false, |_, [of_all, _]| of_all.map(|expected| expected.band.1)),
    ("", true, |real, _| real),
    ("_gap", true, |real, [_, of_judged]| Some(real? - of_judged?.value)),
];

/// The metrics shown in a table for people.
const MAIN: [&str; 3] = ["accuracy", "auc", "f1"];

/// The columns of metrics: their names, the index of the metric and its part.
static METRICS: LazyLock<Vec<(String, usize, &'static Part)>> = LazyLock::new(|| {
    let of = |(at, (name, _)): (usize, &'static (&str, [f64; 2]))| {
        PARTS.iter().map(move |part| (format!("{name}{}", part.0), at, part))
    };
    EXPECTED.iter().enumerate().flat_map(of).collect()
});

/// Returns the columns after the day.
pub(crate) fn columns() -> impl Iterator<Item = (&'static str, ColumnType)> {
    let places = PLACES.iter().map(|(name, kind, _)| (*name, *kind));
    places.chain(METRICS.iter().map(|(name, ..)| (name.as_str(), NUMBER)))
}

/// Returns true if a table for people shows a column.
pub(crate) fn is_main(name: &str) -> bool {
    let metric = METRICS.iter().find(|(column, ..)| column == name);
    metric.is_none_or(|(_, at, part)| part.1 && MAIN.contains(&EXPECTED[*at].0))
}

/// Returns true if a column is an end of the band in which a metric is expected.
pub(crate) fn is_end(name: &str) -> bool {
    METRICS.iter().any(|(column, _, part)| column == name && BAND.contains(&part.0))
}

/// Checks the parameters of a request for estimates.
pub(crate) fn check(what: Dataset, words: &Params<'_>, period: Period) -> Result<()> {
    if what != Dataset::Estimates {
        return Ok(());
    }
    if words.reference.is_none() {
        return Err(Error::invalid(
            "reference: name the days whose truth says what a score means, such as 2013-04-01..2013-05-31",
        ));
    }
    if words.by.is_some_and(|by| by.split(',').any(|name| name.trim() == breakdown::MODEL)) {
        return Err(Error::invalid(
            "group-by: a score means what it means to its release, so estimates are by release, not by model",
        ));
    }
    match period {
        Period::Hour => {
            Err(Error::invalid("period: estimates are of days and what is made of days, not of hours"))
        }
        _ => Ok(()),
    }
}

/// Returns the days from the first to the last one of the window and the reference.
pub(crate) fn with_reference(window: Window, reference: Option<Window>) -> Result<Window> {
    let Some(reference) = reference else { return Ok(window) };
    Window::new(window.from().min(reference.from()), window.to().max(reference.to()))
}

/// Computes the expected metrics of each period and release, beside the realised ones.
pub(crate) async fn estimates(
    reading: &Arc<Reading>,
    catalog: &Catalog,
    request: &Request,
) -> Result<DataFrame> {
    let window = request.reference.unwrap_or(request.window);
    let of_reference = Request { window, period: Period::All, ..request.clone() };
    let prepared = prepared(reading, catalog, request).await?;
    let reference = periods(reading, &prepared, &of_reference).await?;
    let periods = periods(reading, &prepared, request).await?;
    let sizes = reference.iter().chain(&periods).map(|period| bytes_of_expected(&period.buckets));
    reading.grow(sizes.max().unwrap_or(0) as u64).await?;
    let (request, reading, by) = (request.clone(), Arc::clone(reading), prepared.grouping.by);
    let estimating = work::run(move || {
        reading.hold.check()?;
        rows_of((&reference, &periods), &by, &request, &reading)
    });
    estimating.await.map_err(|error| Error::unavailable("estimating was interrupted").because(error))?
}

/// Returns the maximum bytes that computing the metrics of a bucket takes.
fn bytes_of_expected(buckets: &Buckets) -> usize {
    let binary = buckets.cases.binary.values().map(|cases| cases.len() * BYTES_OF_EXPECTED);
    binary.chain(buckets.cases.classes.values().map(ClassCases::bytes_of_expected)).max().unwrap_or(0)
}

/// Calibrations of scores, by release and values.
#[derive(Default)]
struct Meaning<'a> {
    binary: BTreeMap<Place<'a>, Calibration>,
    classes: BTreeMap<Place<'a>, ClassCalibration>,
}

impl<'a> Meaning<'a> {
    /// Calibrates on the predictions of the reference with equal values.
    fn of(reference: &'a [PeriodBuckets]) -> Self {
        let mut meaning = Self::default();
        for period in reference {
            let cases = &period.buckets.cases;
            let binary = cases.binary.iter();
            meaning
                .binary
                .extend(binary.filter_map(|(of, cases)| Some((place(of), Calibration::of(cases)?))));
            let classes = cases.classes.iter();
            let classes = classes.filter_map(|(of, cases)| Some((place(of), ClassCalibration::of(cases)?)));
            meaning.classes.extend(classes);
        }
        meaning
    }
}

/// The predictions of a bucket.
#[derive(Clone, Copy)]
enum Predicted<'a> {
    Binary(&'a [Case]),
    Classes(&'a ClassCases),
}

impl Predicted<'_> {
    /// Returns the predictions of each bucket.
    fn each(buckets: &Buckets) -> BTreeMap<&Bucket, Predicted<'_>> {
        let binary = buckets.cases.binary.iter().map(|(of, cases)| (of, Predicted::Binary(cases)));
        binary
            .chain(buckets.cases.classes.iter().map(|(of, cases)| (of, Predicted::Classes(cases))))
            .collect()
    }

    /// Returns the number of predictions, and of labelled ones.
    fn counts(self) -> (usize, usize) {
        match self {
            Self::Binary(cases) => {
                (cases.len(), cases.iter().filter(|case| case.is_positive.is_some()).count())
            }
            Self::Classes(cases) => (cases.len(), cases.judged()),
        }
    }

    /// Returns the metrics of the labelled predictions. Others of the bucket, such as those with a label and no score, are not
    /// among them.
    fn realised(self) -> [Option<f64>; EXPECTED.len()] {
        match self {
            Self::Binary(cases) => realised(cases),
            Self::Classes(cases) => realised_of_classes(cases),
        }
    }

    /// Returns the expected metrics of all predictions and of the labelled ones; `None`, if there is no calibration of their
    /// scores.
    fn expected(self, meaning: &Meaning<'_>, of: Place<'_>) -> Option<Vec<[Option<Expected>; 2]>> {
        let (all, judged) = match self {
            Self::Binary(cases) => {
                let calibration = meaning.binary.get(&of)?;
                let judged = cases.iter().filter(|case| case.is_positive.is_some());
                (expected(cases, calibration), expected(judged, calibration))
            }
            Self::Classes(cases) => {
                let calibration = meaning.classes.get(&of).filter(|_| !cases.has_too_many())?;
                let of = |is_judged| expected_of_classes(cases, calibration, is_judged);
                (of(false), of(true))
            }
        };
        Some(all.into_iter().zip(judged).map(|(all, judged)| [all, judged]).collect())
    }
}

fn rows_of(
    (reference, periods): (&[PeriodBuckets], &[PeriodBuckets]),
    by: &[By],
    request: &Request,
    reading: &Reading,
) -> Result<DataFrame> {
    let meaning = Meaning::of(reference);
    let mut lacking = BTreeSet::new();
    let mut rows = Vec::<Row>::new();
    for period in periods {
        for (bucket, predicted) in Predicted::each(&period.buckets) {
            reading.hold.check()?;
            let Some(expected) = predicted.expected(&meaning, place(bucket)) else {
                lacking.insert(place(bucket));
                continue;
            };
            let release = bucket.name.as_str();
            let values: Vec<String> =
                by.iter().zip(&bucket.values).map(|(by, value)| breakdown::text_of(by, value)).collect();
            let (n, judged) = predicted.counts();
            let row = Estimated { release, values: &values, n, judged, real: predicted.realised(), expected };
            rows.push((period.day, cells(&row)));
        }
    }
    let asked = |(name, _): &(&str, &[Value])| request.release.as_ref().is_none_or(|of| of == name);
    let lacking: Vec<_> = lacking.into_iter().filter(asked).collect();
    for (release, values) in lacking.iter().take(MAX_WARNINGS) {
        let of = by.iter().zip(*values);
        let of = of.map(|(by, value)| format!(" with {}={}", by.column(), breakdown::text_of(by, value)));
        let of = of.collect::<Vec<_>>().join(" and");
        reading.warn(format!(
            "nothing is expected of {release}{of}: in the reference it has no outcomes of two classes that judge scores from 0 to 1, or there are more classes than {MAX_CLASSES}"
        ));
    }
    if let more @ 1.. = lacking.len().saturating_sub(MAX_WARNINGS) {
        reading.warn(format!("nothing is expected of {more} more, for the same reason"));
    }
    let names = request.breakdown.columns.iter().map(|column| (column.as_str(), TEXT));
    let mut all: Vec<(&str, ColumnType)> = columns().collect();
    all.splice(1..1, names);
    series(&all, &rows, request)
}

/// Release and values of a bucket, independent of the period.
type Place<'a> = (&'a str, &'a [Value]);

fn place(bucket: &Bucket) -> Place<'_> {
    (&bucket.name, &bucket.values)
}

fn cells(row: &Estimated<'_>) -> Vec<Cell> {
    let metric =
        |(_, at, part): &(String, usize, &Part)| Cell::Float((part.2)(row.real[*at], row.expected[*at]));
    let places = |places: &'static [Column]| places.iter().map(|(.., read)| read(row));
    let values = row.values.iter().cloned().map(|value| Cell::Text(Some(value)));
    places(&PLACES[..1]).chain(values).chain(places(&PLACES[1..])).chain(METRICS.iter().map(metric)).collect()
}
