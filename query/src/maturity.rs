//! Maturity of each day: its evaluation as it stood at some ages of the day, and the expected number of its
//! predictions that will ever be labelled. An evaluation at an age equals `evaluations` as of that instant.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
};

use catalog::{Catalog, Definitions, PrimaryMetric};
use event::{
    Day, Error, Kind, Result, Timestamp, Window, custom::CUSTOM_METRICS, fields::FieldType, time::DAY_MICROS,
};
use fold::{
    Evaluation,
    evaluation::By,
    maturity::{AGES, Arrival, Nowcast, expected},
    metric::Direction,
};
use futures::{StreamExt, TryStreamExt, stream};
use log::walk::{Arrivals, Heads};
use polars::prelude::DataFrame;

use crate::{
    change::Change,
    columns::ColumnType,
    evaluation_rows::{EvaluationRow, PeriodBuckets, frame_of},
    evaluations::{DAYS_AT_ONCE, Prepared, Way, evaluate_part, prepared},
    label_delay::arrived,
    read::Reading,
    request::{Dataset, Request},
    series::Cell,
};

/// Approximate bytes of the metrics of one release, with their inputs.
pub(crate) const BYTES_OF_EVALUATION: u64 = 4_096;

/// Number of days before a window from which the arrival of labels is learned: it is learned from days that have reached the last
/// age of [`AGES`], 30 days after their end.
const LEARNED_FROM_DAYS: i64 = 31;

/// Number of further days before a window from which the moves of a metric are learned.
const MOVES_FROM_DAYS: i64 = 90;

/// Name in place of an age for the current state.
pub(crate) const LATEST: &str = "latest";

/// The vintage of a row of maturity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vintage {
    age: &'static str,
    at: Option<Timestamp>,
    /// Expected number of predictions of the day that will ever be labelled.
    expected: Option<f64>,
    /// The final value of the metric that is requested.
    nowcast: Option<Nowcast>,
}

pub(crate) const AGE: &str = "age";

/// A column of a vintage: its name, its type, and its value for a row.
pub(crate) type VintageColumn = (&'static str, ColumnType, fn(&EvaluationRow<'_>) -> Cell);

/// The columns of vintages, before the metrics.
pub(crate) const COLUMNS: [VintageColumn; 4] = [
    (AGE, ColumnType::Field(FieldType::Text), |row| {
        Cell::Text(row.vintage.map(|vintage| vintage.age.to_owned()))
    }),
    ("at", ColumnType::Field(FieldType::Time), |row| {
        Cell::Time(row.vintage.and_then(|vintage| vintage.at).map(Timestamp::micros))
    }),
    ("completeness", ColumnType::Field(FieldType::Float), |row| Cell::Float(completeness(row))),
    ("expected_labelled", ColumnType::Field(FieldType::Float), |row| {
        Cell::Float(row.vintage.and_then(|vintage| vintage.expected))
    }),
];

/// The columns of the final value of a metric, which an answer has if it is requested.
pub(crate) const NOWCAST: [VintageColumn; 5] = [
    ("nowcast", NUMBER, |row| Cell::Float(nowcast(row).map(|of| of.expected))),
    ("nowcast_low", NUMBER, |row| Cell::Float(nowcast(row).map(|of| of.band.0))),
    ("nowcast_high", NUMBER, |row| Cell::Float(nowcast(row).map(|of| of.band.1))),
    ("nowcast_days", ColumnType::Count, |row| Cell::Int(nowcast(row).map(|of| of.days as u64))),
    ("nowcast_coverage", NUMBER, |row| Cell::Float(nowcast(row).and_then(|of| of.coverage))),
];

const NUMBER: ColumnType = ColumnType::Field(FieldType::Float);

fn nowcast(row: &EvaluationRow<'_>) -> Option<Nowcast> {
    row.vintage?.nowcast
}

/// Parses the metric of which the final value is predicted.
pub(crate) fn nowcast_of(word: &str) -> Result<PrimaryMetric> {
    let wrong = |why: String| Error::invalid(format!("nowcast: {why}"));
    let metric = PrimaryMetric::parse(Some(word), None).map_err(|error| wrong(error.to_string()))?;
    let metric = metric.filter(|of| of.metric.logged().is_none());
    metric.ok_or_else(|| wrong(format!("`{word}` is a logged metric, which no outcome changes")))
}

/// Returns the completeness: the labelled share of the predictions that will ever be labelled. (`maturity` is of all predictions.)
fn completeness(row: &EvaluationRow<'_>) -> Option<f64> {
    let expected = row.vintage?.expected.filter(|expected| *expected > 0.0)?;
    Some(judged(row) as f64 / expected)
}

fn judged(row: &EvaluationRow<'_>) -> u64 {
    row.metrics.release.map_or(0, |of| of.judged())
}

/// Parses the minimum completeness of a day.
pub(crate) fn mature_of(request: &Request, word: &str) -> Result<f64> {
    let share = word.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    let share = share
        .ok_or_else(|| Error::invalid(format!("min-completeness: `{word}` is not a share from 0 to 1")))?;
    let is_of_utc_days = request.zone.is_none() && request.period == event::Period::Day;
    if !is_of_utc_days {
        return Err(Error::invalid("min-completeness: it is of UTC days; leave period and time-zone out"));
    }
    Ok(share)
}

impl Request {
    /// Chooses the columns of an answer with a nowcast, unless they are named.
    pub(crate) fn with_nowcast(mut self) -> Self {
        if let (Some(metric), None) = (&self.nowcast, &self.columns) {
            let keys = self.series_columns().into_iter().filter(|key| key != AGE);
            let own = ["completeness", metric.metric.name()].map(str::to_owned);
            let nowcast = NOWCAST.iter().map(|(name, ..)| (*name).to_owned());
            self.columns = Some(keys.chain(own).chain(nowcast).collect());
        }
        self
    }

    /// Returns true if the request needs the maturity of days by their ages.
    pub(crate) fn is_of_ages(&self) -> bool {
        self.mature.is_some() || (self.what == Dataset::Maturity && !self.is_after_prediction)
    }
}

/// Returns the days to read for a window: for a request that needs maturity, with the days before it from which the arrival of
/// labels and the moves of a metric are learned; within a read version, only its days.
pub(crate) fn with_learned(request: &Request, window: Window) -> Window {
    if !request.is_of_ages() {
        return window;
    }
    // Days read for the comparison with earlier rows do not widen the window further.
    let asked_from = request.change.as_ref().map_or(window.from(), Change::from);
    let before = LEARNED_FROM_DAYS + request.nowcast.as_ref().map_or(0, |_| MOVES_FROM_DAYS);
    let first = asked_from.start().plus_seconds(-before * (DAY_MICROS / 1_000_000)).day();
    let first = request
        .read_version
        .as_ref()
        .map_or(first, |read_version| first.max(read_version.window.from()))
        .min(window.from());
    Window::new(first, window.to()).unwrap_or(window)
}

/// The evaluation of a day at an age.
pub(crate) struct EvaluationAtAge {
    pub(crate) age: &'static str,
    pub(crate) at: Option<Timestamp>,
    pub(crate) told: Told,
}

/// The source of an evaluation.
#[derive(Clone)]
pub(crate) enum Told {
    /// Computed from events.
    Computed(Arc<PeriodBuckets>),
    /// Read from the table.
    Stored(Arc<Evaluation>),
}

impl EvaluationAtAge {
    /// Builds the vintage of all that is known of a day.
    pub(crate) fn latest(told: Told) -> Self {
        Self { age: LATEST, at: None, told }
    }

    /// Returns the number of its rows, of releases or of other buckets.
    pub(crate) fn releases(&self) -> usize {
        match &self.told {
            Told::Computed(buckets) => buckets.buckets.buckets.len(),
            Told::Stored(evaluation) => evaluation.releases.len(),
        }
    }

    fn rows(&self, day: Day, request: &Request, by: &[By]) -> Vec<EvaluationRow<'_>> {
        match &self.told {
            Told::Computed(buckets) => buckets.rows(request, by),
            Told::Stored(evaluation) => {
                evaluation.rows().map(|metrics| EvaluationRow::new(day, metrics)).collect()
            }
        }
    }
}

/// Evaluates each day at each age that it has reached, and by all that is known; for the request `evaluations` only the last
/// vintages of mature days.
pub(crate) async fn matured(
    reading: &Arc<Reading>,
    catalog: &Catalog,
    request: &Request,
) -> Result<DataFrame> {
    reading.is_of_times.store(true, Ordering::Relaxed);
    if request.is_after_prediction {
        return arrived(reading, request).await;
    }
    let prepared = prepared(reading, catalog, request).await?;
    let days = Days { reading, request, prepared: &prepared };
    let at_ages = request.days_read().days().map(async |day| Ok::<_, Error>((day, days.at_ages(day).await?)));
    let at_ages: Vec<(Day, Vec<EvaluationAtAge>)> =
        stream::iter(at_ages).buffered(DAYS_AT_ONCE).try_collect().await?;
    prepared.warn_of_unseen(reading);
    let (rows, warnings) = rows_of(&at_ages, &prepared.grouping.by, request);
    warnings.into_iter().for_each(|warning| reading.warn(warning));
    frame_of(rows, request, &reading.hold).await
}

/// Context for evaluating the days of an answer.
struct Days<'a> {
    reading: &'a Arc<Reading>,
    request: &'a Request,
    prepared: &'a Prepared,
}

impl Days<'_> {
    /// Evaluates a day at each age that it has reached, and by all that is known.
    async fn at_ages(&self, day: Day) -> Result<Vec<EvaluationAtAge>> {
        let arrivals = self.arrivals(day).await?;
        let instants = AGES.into_iter().filter_map(|age| Some((age.name, age.of(day)?)));
        let mut at_ages = Vec::<EvaluationAtAge>::new();
        let mut before: Option<(Heads, Definitions)> = None;
        for (age, at) in instants.filter(|(_, at)| *at <= self.reading.closed) {
            let known = (arrivals.heads_at(at), self.prepared.all.known(|one| one.appended_at <= at));
            let told = match at_ages.last() {
                // Nothing has arrived since the age before.
                Some(last) if before.as_ref() == Some(&known) => last.told.clone(),
                _ => {
                    let then = self.reading.then(known.0.clone(), at);
                    self.evaluated(
                        &then,
                        day,
                        Way { definitions: &known.1, is_surveyed: false, ..self.prepared.way() },
                    )
                    .await?
                }
            };
            at_ages.push(EvaluationAtAge { age, at: Some(at), told });
            before = Some(known);
        }
        at_ages.push(EvaluationAtAge::latest(self.evaluated(self.reading, day, self.prepared.way()).await?));
        Ok(at_ages)
    }

    async fn evaluated(&self, reading: &Reading, day: Day, way: Way<'_>) -> Result<Told> {
        let buckets = evaluate_part(reading, Window::new(day, day)?, &[], &way, self.request).await?;
        // All of them are kept until the answer is made.
        self.reading.hold.take(buckets.buckets.len() as u64 * BYTES_OF_EVALUATION).await?;
        let is_of_days = self.request.judges_all();
        let buckets = PeriodBuckets { day, hours: Vec::new(), buckets, is_of_days };
        Ok(Told::Computed(Arc::new(buckets)))
    }

    /// Reads the arrival times of the segments of a day.
    async fn arrivals(&self, day: Day) -> Result<Arrivals> {
        let mut arrivals = Arrivals::default();
        for kind in Dataset::Maturity.kinds() {
            let mut walk = match (kind, self.prepared.is_surveyed) {
                (Kind::Predictions, true) => {
                    self.reading.walk_again(day, *kind, self.reading.heads(day, *kind))
                }
                _ => self.reading.walk(day, *kind)?,
            };
            while let Some(page) = self.reading.page(&mut walk, Some(Arrivals::ATTRIBUTES)).await? {
                page.into_iter().for_each(|segment| arrivals.add(segment));
            }
        }
        Ok(arrivals)
    }
}

/// A row with the index of its vintage.
type VintageRow<'a> = (usize, EvaluationRow<'a>);

/// Builds the rows of the requested days; the days before them show how labels arrive. Returns warnings about days for which
/// that, or the final value of a metric, is unknown.
pub(crate) fn rows_of<'a>(
    days: &'a [(Day, Vec<EvaluationAtAge>)],
    by: &[By],
    request: &Request,
) -> (Vec<EvaluationRow<'a>>, Vec<String>) {
    let mut found = BTreeMap::<Series, Vec<VintageRow<'a>>>::new();
    for (day, at_ages) in days {
        for (number, one) in at_ages.iter().enumerate() {
            for mut row in one.rows(*day, request, by) {
                row.vintage = Some(Vintage { age: one.age, at: one.at, expected: None, nowcast: None });
                let name = row.model.or(row.metrics.name).unwrap_or_default().to_owned();
                found.entry((*day, name, row.values.clone())).or_default().push((number, row));
            }
        }
    }
    let reached: BTreeMap<Day, usize> = days.iter().map(|(day, at_ages)| (*day, at_ages.len() - 1)).collect();
    let arrivals: Vec<Arrival> = found.iter().map(|((day, ..), rows)| arrival(rows, reached[day])).collect();
    let expected = expected(&arrivals, AGES.len());
    let moves = request.nowcast.as_ref().map(|metric| Moves::learn(metric, &found, &reached));
    let (mut rows, mut untold, mut unlearned) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for ((key, of_key), (expected, arrival)) in found.into_iter().zip(expected.into_iter().zip(&arrivals)) {
        let day = key.0;
        if !request.window.contains(day) {
            continue;
        }
        if expected.is_none() && arrival.predictions > 0 {
            untold.insert(day);
        }
        let is_final = expected.is_some_and(|expected| expected <= arrival.latest as f64);
        let nowcast = moves.as_ref().and_then(|moves| match is_final {
            true => moves.value(&of_key, reached[&day]).map(Nowcast::is),
            false => moves.nowcast(&key, &of_key, reached[&day]),
        });
        if nowcast.is_none() && arrival.predictions > 0 {
            unlearned.insert(day);
        }
        let is_shown = |number: usize| moves.is_none() || number == reached[&day];
        rows.extend(of_key.into_iter().filter(|(number, _)| is_shown(*number)).map(|(_, mut row)| {
            row.vintage = row.vintage.map(|vintage| Vintage { expected, nowcast, ..vintage });
            row
        }));
    }
    if let Some(mature) = request.mature {
        let is_mature = |row: &EvaluationRow<'_>| completeness(row).is_some_and(|share| share >= mature);
        rows.retain(|row| row.vintage.is_some_and(|vintage| vintage.age == LATEST) && is_mature(row));
    }
    let mut warnings = Vec::from_iter(untold_of(&untold, request.mature.is_some()));
    if moves.is_some()
        && let Some(days) = words_of(&unlearned)
    {
        warnings.push(format!(
            "the final value of {days} is not predicted, so nowcast is empty: it is learned from at least 19 days that are 30 days old, up to {} days before the first day that is asked for, and from the age that a day has reached",
            LEARNED_FROM_DAYS + MOVES_FROM_DAYS
        ));
    }
    (rows, warnings)
}

/// Returns days in words; `None` if there are none.
fn words_of(days: &BTreeSet<Day>) -> Option<String> {
    Some(match (days.first()?, days.last()?) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{} days from {first} to {last}", days.len()),
    })
}

/// A day, and a release or model with its values.
type Series = (Day, String, Vec<String>);

/// Moves of a day by their ages.
type OfAges = [Option<f64>; AGES.len()];

/// Moves of a metric from each age to its final value.
struct Moves<'a> {
    metric: &'a PrimaryMetric,
    /// By series without their days.
    of: BTreeMap<(String, Vec<String>), Vec<OfAges>>,
}

impl<'a> Moves<'a> {
    /// Learns from the days that have reached the last age.
    fn learn(
        metric: &'a PrimaryMetric,
        found: &BTreeMap<Series, Vec<VintageRow<'_>>>,
        reached: &BTreeMap<Day, usize>,
    ) -> Self {
        let mut moves = Self { metric, of: BTreeMap::new() };
        for ((day, name, values), rows) in found {
            if reached.get(day) != Some(&AGES.len()) {
                continue;
            }
            let Some(last) = moves.value(rows, AGES.len()) else { continue };
            let of_ages = std::array::from_fn(|age| Some(last - moves.value(rows, age)?));
            moves.of.entry((name.clone(), values.clone())).or_default().push(of_ages);
        }
        moves
    }

    /// Returns the metric at an age.
    fn value(&self, rows: &[VintageRow<'_>], age: usize) -> Option<f64> {
        let (_, row) = rows.iter().find(|(number, _)| *number == age)?;
        self.metric.metric.of(row.metrics.release?)
    }

    /// Predicts the final value of a day from the last age that it has reached, by the moves of older days.
    fn nowcast(&self, key: &Series, rows: &[VintageRow<'_>], reached: usize) -> Option<Nowcast> {
        let age = reached.checked_sub(1)?;
        let moves = self.of.get(&(key.1.clone(), key.2.clone()))?;
        let moves: Vec<f64> = moves.iter().filter_map(|moves| moves[age]).collect();
        Some(Nowcast::of(self.value(rows, age)?, &moves)?.within(self.bounds()))
    }

    /// Returns the least and the greatest value that the metric may have.
    fn bounds(&self) -> (f64, f64) {
        match (self.metric.metric.name(), self.metric.direction) {
            ("value" | "value_per_prediction", _) => (f64::NEG_INFINITY, f64::INFINITY),
            (name, _) if CUSTOM_METRICS.member(name).is_some() => (f64::NEG_INFINITY, f64::INFINITY),
            ("mcc", _) => (-1.0, 1.0),
            ("lift_at_10", _) | (_, Direction::Min) => (0.0, f64::INFINITY),
            (_, Direction::Max) => (0.0, 1.0),
        }
    }
}

/// Returns the warning about days whose completeness is unknown.
fn untold_of(days: &BTreeSet<Day>, are_left_out: bool) -> Option<String> {
    let days = words_of(days)?;
    let then = if are_left_out { "they are left out" } else { "expected_labelled is empty" };
    Some(format!(
        "how much of the truth of {days} is to come is not known, so {then}: it is learned from days with predictions that are 30 days old, up to {LEARNED_FROM_DAYS} days before the first day that is asked for"
    ))
}

/// Returns the arrival of the labels of a row's predictions at the ages that its day has reached.
fn arrival(rows: &[VintageRow<'_>], reached: usize) -> Arrival {
    let mut judged_at = vec![0; reached + 1];
    for (number, row) in rows {
        judged_at[*number] = judged(row);
    }
    let latest = judged_at.pop().unwrap_or_default();
    let last = rows.iter().find(|(number, _)| *number == reached);
    let predictions = last.and_then(|(_, row)| row.metrics.release).map_or(0, |of| of.predictions);
    Arrival { predictions, judged: judged_at, latest }
}
