//! The columns of evaluations, and their rows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use event::{Day, Period, Result, custom::CUSTOM_METRICS, fields::FieldType};
use fold::{
    AnyMetric, Metric,
    evaluation::{Bucket, Buckets, By, Measures, ReleaseEvaluation, Value},
    metric::{self, GAPS, Gap, Getter, METRICS},
};
use polars::prelude::DataFrame;

use crate::{
    breakdown::{self, MODEL},
    budget::Hold,
    classes,
    columns::ColumnType,
    intervals::{self, CustomInterval, IntervalColumn},
    maturity::{self, NOWCAST, Vintage, VintageColumn},
    request::{Dataset, Request},
    series::{Cell, series},
};

/// The column of the instant at which the hour of a row begins.
pub const HOUR: &str = "hour";

const SELECTION_RATE: &str = "selection_rate";

/// The content of a column.
pub(crate) enum Shown {
    Hour,
    Model,
    /// The value of a column of predictions, by its place among them.
    Value(usize),
    Metric(&'static Metric),
    /// A column of the vintage, for maturity.
    Vintage(&'static VintageColumn),
    /// A metric that models define.
    Custom(AnyMetric),
    Interval(&'static IntervalColumn),
    /// An interval of a custom metric.
    CustomInterval(CustomInterval),
    /// The share predicted positive.
    SelectionRate,
    Gap(&'static Gap),
}

/// Returns the columns that answers may have, after the day, without those whose names clients choose.
pub(crate) fn evaluation_columns() -> Vec<(&'static str, ColumnType)> {
    let more = [(HOUR, ColumnType::Field(FieldType::Time)), (MODEL, ColumnType::Field(FieldType::Text))];
    let metrics = METRICS.iter().map(|metric| (metric.name, metric.getter.into()));
    let intervals = intervals::columns().map(|column| (column.name.as_str(), column.kind()));
    let gaps = fairness_columns().map(|name| (name, ColumnType::Field(FieldType::Float)));
    more.into_iter().chain(metrics).chain(intervals).chain(gaps).collect()
}

/// Returns the columns of maturity, after the day, without those whose names clients choose.
pub(crate) fn maturity_columns() -> impl Iterator<Item = (&'static str, ColumnType)> {
    let metrics = METRICS.iter().map(|metric| (metric.name, metric.getter.into()));
    let vintages = maturity::COLUMNS.iter().chain(&NOWCAST).map(|(name, kind, _)| (*name, *kind));
    let model = (MODEL, ColumnType::Field(FieldType::Text));
    let gaps = fairness_columns().map(|name| (name, ColumnType::Field(FieldType::Float)));
    std::iter::once(model).chain(vintages).chain(metrics).chain(gaps)
}

/// Returns the columns of fairness, which an answer has if it is broken down by columns.
pub(crate) fn fairness_columns() -> impl Iterator<Item = &'static str> {
    std::iter::once(SELECTION_RATE).chain(GAPS.iter().map(|gap| gap.name))
}

/// Returns the columns that identify a row, after the day.
pub(crate) fn place_columns(request: &Request) -> impl Iterator<Item = (&str, ColumnType, Shown)> {
    let text = ColumnType::Field(FieldType::Text);
    let time = ColumnType::Field(FieldType::Time);
    let is_named = |name: &str| request.columns.iter().flatten().any(|column| column == name);
    let hour = (request.period == Period::Hour || is_named(HOUR)).then_some((HOUR, time, Shown::Hour));
    let model = (request.breakdown.by_model || is_named(MODEL)).then_some((MODEL, text, Shown::Model));
    let release = METRICS.first().map(|metric| (metric.name, metric.getter.into(), Shown::Metric(metric)));
    let values = request.breakdown.columns.iter().enumerate();
    let values = values.map(move |(at, column)| (column.as_str(), text, Shown::Value(at)));
    hour.into_iter().chain(model).chain(release).chain(values)
}

/// Returns the columns of the custom metrics of an answer, and of their intervals: those that its rows have, and those requested.
fn custom_columns(rows: &[EvaluationRow<'_>], request: &Request) -> Vec<String> {
    let found = rows.iter().filter_map(|row| row.metrics.release).flat_map(|of| of.custom.keys());
    let asked = request.columns.iter().flatten().filter(|name| CUSTOM_METRICS.member(name).is_some());
    let found: BTreeSet<String> = found.map(|name| CUSTOM_METRICS.column(name)).collect();
    let ends = |metric: &String| intervals::of_custom(metric).collect::<Vec<_>>();
    let intervals: Vec<_> = found.iter().filter(|_| request.has_intervals).flat_map(ends).collect();
    let mut columns: Vec<String> = found.into_iter().chain(intervals).collect();
    let more: BTreeSet<&String> = asked.filter(|name| !columns.contains(name)).collect();
    let more: Vec<String> = more.into_iter().cloned().collect();
    columns.extend(more);
    columns
}

/// Returns the columns of an answer, after the day.
fn shown<'a>(request: &'a Request, custom: &'a [String]) -> Vec<(&'a str, ColumnType, Shown)> {
    let metrics = METRICS.iter().skip(1);
    let metrics = metrics.map(|metric| (metric.name, metric.getter.into(), Shown::Metric(metric)));
    let intervals = intervals::columns().filter(|_| request.has_intervals);
    let intervals = intervals.map(|column| (column.name.as_str(), column.kind(), Shown::Interval(column)));
    let number = ColumnType::Field(FieldType::Float);
    let of_custom = |name: &'a String| match CustomInterval::named(name) {
        Some(column) => Some((name.as_str(), column.kind(), Shown::CustomInterval(column))),
        None => Some((name.as_str(), number, Shown::Custom(AnyMetric::named(name)?))),
    };
    let custom = custom.iter().filter_map(of_custom);
    let is_named = |name: &str| request.columns.iter().flatten().any(|column| column == name);
    let has_groups = !request.breakdown.columns.is_empty();
    let rate = (SELECTION_RATE, number, Shown::SelectionRate);
    let gaps = GAPS.iter().map(|gap| (gap.name, number, Shown::Gap(gap)));
    let fairness = std::iter::once(rate).chain(gaps).filter(|(name, ..)| has_groups || is_named(name));
    let is_vintage = request.what == Dataset::Maturity;
    let nowcast = NOWCAST.iter().filter(|_| request.nowcast.is_some());
    let vintages = maturity::COLUMNS.iter().chain(nowcast).filter(|_| is_vintage);
    let vintages = vintages.map(|column| (column.0, column.1, Shown::Vintage(column)));
    place_columns(request)
        .chain(vintages)
        .chain(metrics)
        .chain(custom)
        .chain(intervals)
        .chain(fairness)
        .collect()
}

/// A row and its place.
pub(crate) struct EvaluationRow<'a> {
    pub(crate) day: Day,
    /// Begin of its hour, in microseconds.
    pub(crate) hour: Option<i64>,
    pub(crate) model: Option<&'a str>,
    pub(crate) values: Vec<String>,
    pub(crate) metrics: metric::Row<'a>,
    /// The age of its day, for maturity.
    pub(crate) vintage: Option<Vintage>,
    /// The results of all values of its period and release, without those that are no value of their own (others, null).
    pub(crate) groups: Arc<Vec<&'a ReleaseEvaluation>>,
}

/// A period with the results of its buckets.
pub(crate) struct PeriodBuckets {
    pub(crate) day: Day,
    /// Beginnings of its hours, if it is divided into hours.
    pub(crate) hours: Vec<i64>,
    pub(crate) buckets: Buckets,
    /// True if it has all outcomes of its days, and so those that fit no prediction.
    pub(crate) is_of_days: bool,
}

impl<'a> EvaluationRow<'a> {
    /// Builds the row of a release, or of no release, on a day.
    pub(crate) fn new(day: Day, metrics: metric::Row<'a>) -> Self {
        Self {
            day,
            hour: None,
            model: None,
            values: Vec::new(),
            metrics,
            vintage: None,
            groups: Arc::default(),
        }
    }
}

impl PeriodBuckets {
    /// Returns its rows: one for each bucket. A period without predictions has a row if there are outcomes, which have no release
    /// to stand with.
    pub(crate) fn rows<'a>(&'a self, request: &Request, by: &[By]) -> Vec<EvaluationRow<'a>> {
        let orphaned = self.is_of_days.then_some(self.buckets.orphaned);
        let groups = self.groups();
        let of_bucket = |(bucket, of): &'a (Bucket, ReleaseEvaluation)| {
            let (model, name) = match request.breakdown.by_model {
                true => (Some(bucket.name.as_str()), None),
                false => (None, Some(bucket.name.as_str())),
            };
            let values = by.iter().zip(&bucket.values).map(|(by, value)| breakdown::text_of(by, value));
            let metrics = metric::Row { name, release: Some(of), orphaned };
            let hour = self.hours.get(bucket.period).copied();
            let groups = groups.get(&(bucket.period, &*bucket.name)).cloned().unwrap_or_default();
            EvaluationRow {
                day: self.day,
                hour,
                model,
                values: values.collect(),
                metrics,
                vintage: None,
                groups,
            }
        };
        let alone = metric::Row { orphaned, ..metric::Row::default() };
        let is_alone = self.buckets.buckets.is_empty() && orphaned.is_some_and(|orphaned| orphaned > 0);
        let alone = EvaluationRow::new(self.day, alone);
        self.buckets.buckets.iter().map(of_bucket).chain(is_alone.then_some(alone)).collect()
    }
}

/// The results of the values of each period and name.
type Groups<'a> = BTreeMap<(usize, &'a str), Arc<Vec<&'a ReleaseEvaluation>>>;

impl PeriodBuckets {
    fn groups(&self) -> Groups<'_> {
        let mut groups = Groups::new();
        for (bucket, of) in &self.buckets.buckets {
            let is_group = bucket.values.iter().all(|value| !matches!(value, Value::Others | Value::Null));
            if is_group && !bucket.values.is_empty() {
                Arc::make_mut(groups.entry((bucket.period, &bucket.name)).or_default()).push(of);
            }
        }
        groups
    }
}

/// Returns the content of a column for a row.
pub(crate) fn cell(shown: &Shown, row: &EvaluationRow<'_>, request: &Request) -> Cell {
    let metrics = &row.metrics;
    match shown {
        Shown::SelectionRate => Cell::Float(selection_rate(metrics)),
        Shown::Gap(gap) => Cell::Float(gap.between(&row.groups)),
        Shown::Vintage((.., read)) => read(row),
        Shown::Hour => Cell::Time(row.hour),
        Shown::Model => Cell::Text(row.model.map(str::to_owned)),
        Shown::Value(at) => Cell::Text(row.values.get(*at).cloned()),
        Shown::Metric(metric) => match metric.getter {
            Getter::Text(read) => Cell::Text(read(metrics)),
            Getter::Count(read) => Cell::Int(read(metrics)),
            Getter::Number(_) => Cell::Float(metric.number(metrics, request.zero_division)),
        },
        Shown::Custom(metric) => Cell::Float(metrics.release.and_then(|of| metric.of(of))),
        Shown::CustomInterval(column) => match column.kind() {
            ColumnType::Count => Cell::Int(column.count(metrics)),
            _ => Cell::Float(column.number(metrics)),
        },
        Shown::Interval(column) => match column.kind() {
            ColumnType::Count => Cell::Int(column.count(metrics)),
            _ => Cell::Float(column.number(metrics)),
        },
    }
}

/// Builds the frame of the rows.
pub(crate) async fn frame_of(
    rows: Vec<EvaluationRow<'_>>,
    request: &Request,
    hold: &Hold,
) -> Result<DataFrame> {
    if matches!(request.what, Dataset::Classes | Dataset::Confusion) {
        return classes::frame_of(rows, request, hold).await;
    }
    let custom = custom_columns(&rows, request);
    let columns = shown(request, &custom);
    let cells =
        |row: &EvaluationRow<'_>| columns.iter().map(|(.., shown)| cell(shown, row, request)).collect();
    let rows: Vec<_> = rows.iter().map(|row| (row.day, cells(row))).collect();
    let columns: Vec<(&str, ColumnType)> = columns.iter().map(|(name, kind, _)| (*name, *kind)).collect();
    series(&columns, &rows, request)
}

fn selection_rate(row: &metric::Row<'_>) -> Option<f64> {
    match &row.release?.measures {
        Some(Measures::Binary(of)) => of.confusion.selection_rate(),
        _ => None,
    }
}
