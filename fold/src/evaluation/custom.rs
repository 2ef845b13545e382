//! Metrics that models define themselves, while predictions are being judged.
//!
//! They cover all predictions, with and without an outcome. Sums are exact and quantiles use all values, so the
//! results do not depend on the order of the rows.

mod sample;

use std::collections::{BTreeMap, BTreeSet};

use event::{
    CustomMetric, Definition, Kind,
    custom::{Aggregate, AggregateOf, Formula, JoinedColumn, Value},
    fields::FieldType,
};
use sample::Sample;
use serde::{Deserialize, Serialize};

use super::interval::GoOn;
use crate::{
    ExactSum, LogSegment, Result,
    formulas::{mean, quantile},
    join::Pair,
    read::{Numbers, Texts, floats, texts, times},
};

/// Result of a custom metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CustomValue {
    /// Its value; `None` if null or not finite.
    pub value: Option<f64>,
    /// Number of predictions from which any of its aggregates took a value.
    pub n: u64,
    /// Its 95% interval, if requested and available; not stored.
    #[serde(skip)]
    pub interval: Option<(f64, f64)>,
}

/// Custom metrics of a release, by name.
pub type CustomValues = BTreeMap<String, CustomValue>;

/// Returns the distinct columns of predictions that custom metrics need.
pub(super) fn columns(definitions: &BTreeMap<String, Definition>) -> BTreeSet<String> {
    let metrics = definitions.values().flat_map(|definition| &definition.custom_metrics);
    let columns = metrics.flat_map(|metric| &metric.formula.columns);
    columns.filter(|column| column.of == Kind::Predictions).map(|column| column.field.clone()).collect()
}

/// Inputs of custom metrics from joined rows.
pub(super) struct CustomRows<'a> {
    /// Metrics by release of the join, each with the places of its columns.
    releases: Vec<Vec<(&'a CustomMetric, Vec<usize>)>>,
    columns: Vec<JoinedColumn>,
    /// Cells by segment and column.
    predictions: Vec<Vec<Cells<'a>>>,
    outcomes: Vec<Vec<Cells<'a>>>,
}

/// A column of a segment.
enum Cells<'a> {
    Absent,
    Numbers(Numbers<'a, f64>),
    Times(Numbers<'a, i64>),
    Texts(Texts<'a>),
}

impl<'a> Cells<'a> {
    fn read(segment: &LogSegment<'a>, of: Kind, column: &JoinedColumn) -> Result<Self> {
        let columns = segment.columns;
        if column.of != of || columns.rows == 0 {
            return Ok(Self::Absent);
        }
        let cells = match column.kind {
            FieldType::Float => floats(columns, &column.field)?.map(Self::Numbers),
            FieldType::Time => times(columns, &column.field)?.map(Self::Times),
            FieldType::Text => texts(columns, &column.field)?.map(Self::Texts),
        };
        Ok(cells.unwrap_or(Self::Absent))
    }

    #[inline]
    fn value(&self, row: usize) -> Value<'a> {
        let value = match self {
            Self::Absent => None,
            Self::Numbers(numbers) => numbers.get(row).map(Value::Number),
            // Microseconds are exact in a double until the year 2255.
            Self::Times(times) => times.get(row).map(|micros| Value::Number(micros as f64)),
            Self::Texts(texts) => texts.get(row).map(Value::Text),
        };
        value.unwrap_or(Value::Null)
    }
}

impl<'a> CustomRows<'a> {
    /// Reads the inputs of the metrics of these definitions; `None` if there are none.
    pub(super) fn read(
        definitions: &[Option<&'a Definition>],
        predictions: &[LogSegment<'a>],
        outcomes: &[LogSegment<'a>],
    ) -> Result<Option<Self>> {
        let metrics = |of: &Option<&'a Definition>| of.map_or(&[][..], |of| &of.custom_metrics);
        let all: BTreeSet<&JoinedColumn> =
            definitions.iter().flat_map(metrics).flat_map(|metric| &metric.formula.columns).collect();
        if definitions.iter().all(|of| metrics(of).is_empty()) {
            return Ok(None);
        }
        let columns: Vec<JoinedColumn> = all.into_iter().cloned().collect();
        let place = |column: &JoinedColumn| columns.binary_search(column).unwrap_or_default();
        let resolved =
            |metric: &'a CustomMetric| (metric, metric.formula.columns.iter().map(place).collect::<Vec<_>>());
        let releases = definitions.iter().map(|of| metrics(of).iter().map(resolved).collect()).collect();
        let cells = |segments: &[LogSegment<'a>], of: Kind| {
            let of_segment = |segment: &LogSegment<'a>| {
                columns.iter().map(|column| Cells::read(segment, of, column)).collect::<Result<Vec<_>>>()
            };
            segments.iter().map(of_segment).collect::<Result<Vec<_>>>()
        };
        let (predictions, outcomes) =
            (cells(predictions, Kind::Predictions)?, cells(outcomes, Kind::Outcomes)?);
        Ok(Some(Self { releases, columns, predictions, outcomes }))
    }

    fn value(&self, column: usize, pair: &Pair) -> Value<'a> {
        let (segments, at) = match self.columns[column].of {
            Kind::Predictions => (&self.predictions, pair.prediction),
            _ => match pair.outcome {
                Some(at) => (&self.outcomes, at),
                None => return Value::Null,
            },
        };
        segments[at.segment as usize][column].value(at.row as usize)
    }
}

/// Custom metrics of a release, or of another bucket, while rows are being added.
#[derive(Debug, Default)]
pub(super) struct Customs {
    tallies: Vec<Tally>,
    /// Release of the join whose rows are being added, and the places of its metrics among the tallies.
    current: Option<(u32, Vec<usize>)>,
    has_intervals: bool,
}

#[derive(Debug)]
struct Tally {
    metric: CustomMetric,
    /// True if it was defined in more than one way, so that it has no value.
    is_mixed: bool,
    aggregates: Aggregates,
    /// Inputs of each prediction, if its interval is requested.
    sample: Option<Sample>,
}

/// Aggregates of a metric while rows are being added.
#[derive(Debug)]
struct Aggregates(Vec<Values>);

impl Customs {
    pub(super) fn new(has_intervals: bool) -> Self {
        Self { has_intervals, ..Self::default() }
    }

    /// Begins the rows of another join.
    pub(super) fn next_join(&mut self) {
        self.current = None;
    }

    /// Adds a prediction. Its key is only computed for intervals.
    pub(super) fn add<'k>(&mut self, rows: &CustomRows<'_>, pair: &Pair, key: impl Fn() -> &'k str) {
        let metrics = &rows.releases[pair.release as usize];
        if self.current.as_ref().is_none_or(|(release, _)| *release != pair.release) {
            let places = metrics.iter().map(|(metric, _)| self.place(metric)).collect();
            self.current = Some((pair.release, places));
        }
        let Some((_, places)) = &self.current else { return };
        for ((_, columns), place) in metrics.iter().zip(places) {
            let tally = &mut self.tallies[*place];
            if !tally.is_mixed {
                tally.add(&|at: usize| rows.value(columns[at], pair), &key);
            }
        }
    }

    /// Returns the place of a metric, which is added if missing.
    fn place(&mut self, metric: &CustomMetric) -> usize {
        let known = self.tallies.iter().position(|tally| tally.metric.name == metric.name);
        match known {
            Some(at) => {
                let tally = &mut self.tallies[at];
                if tally.metric != *metric {
                    tally.is_mixed = true;
                    (tally.aggregates, tally.sample) = (Aggregates(Vec::new()), None);
                }
                at
            }
            None => {
                let (metric, aggregates) = (metric.clone(), Aggregates::of(&metric.formula));
                let sample = self.has_intervals.then(Sample::default);
                self.tallies.push(Tally { metric, is_mixed: false, aggregates, sample });
                self.tallies.len() - 1
            }
        }
    }

    /// Returns the approximate number of bytes held.
    pub(super) fn bytes(&self) -> usize {
        let aggregates = self.tallies.iter().flat_map(|tally| &tally.aggregates.0);
        let samples = self.tallies.iter().filter_map(|tally| tally.sample.as_ref());
        aggregates.map(Values::bytes).sum::<usize>() + samples.map(Sample::bytes).sum::<usize>()
    }

    pub(super) fn finish<E>(self, go_on: GoOn<'_, E>) -> Result<CustomValues, E> {
        self.tallies.into_iter().map(|tally| tally.finish(go_on)).collect()
    }
}

impl Tally {
    fn add<'a, 'k>(&mut self, leaf: &impl Fn(usize) -> Value<'a>, key: &impl Fn() -> &'k str) {
        let taken = |aggregate: &Aggregate| number_of(aggregate, leaf);
        let taken = self.metric.formula.aggregates.iter().map(taken);
        match &mut self.sample {
            None => self.aggregates.take(taken),
            Some(sample) => {
                let kept = sample.keep(key(), taken);
                self.aggregates.take(kept);
                if sample.is_too_large() {
                    self.sample = None;
                }
            }
        }
    }

    fn finish<E>(self, go_on: GoOn<'_, E>) -> Result<(String, CustomValue), E> {
        let Self { metric, is_mixed, aggregates, sample } = self;
        let n = aggregates.0.iter().map(|values| values.n).max().unwrap_or_default();
        let value = if is_mixed { None } else { aggregates.value(&metric.formula) };
        let interval = match sample.filter(|_| value.is_some()) {
            Some(sample) => sample.interval(&metric.formula, go_on)?,
            None => None,
        };
        Ok((metric.name, CustomValue { value, n, interval }))
    }
}

/// Returns the number that an aggregate takes from a row: 1 if it counts.
fn number_of<'a>(aggregate: &Aggregate, leaf: &impl Fn(usize) -> Value<'a>) -> Option<f64> {
    if aggregate.filter.as_ref().is_some_and(|filter| filter.truth(leaf) != Some(true)) {
        return None;
    }
    match (&aggregate.argument, aggregate.of) {
        (None, _) => Some(1.0),
        (Some(argument), AggregateOf::Count) => (argument.value(leaf) != Value::Null).then_some(1.0),
        (Some(argument), _) => argument.number(leaf),
    }
}

impl Aggregates {
    /// Creates the empty aggregates of a formula.
    fn of(formula: &Formula) -> Self {
        Self(formula.aggregates.iter().map(|aggregate| Values::new(aggregate.of)).collect())
    }

    /// Adds a row: the number for each aggregate.
    fn take(&mut self, row: impl Iterator<Item = Option<f64>>) {
        for (values, number) in self.0.iter_mut().zip(row) {
            number.into_iter().for_each(|number| values.add(number));
        }
    }

    /// Returns the value of their formula.
    fn value(self, formula: &Formula) -> Option<f64> {
        let all: Vec<Option<f64>> = self.0.into_iter().map(Values::finish).collect();
        let leaf = |at: usize| {
            let value = all[at].filter(|value| value.is_finite());
            value.map_or(Value::Null, Value::Number)
        };
        // Negative zero becomes zero.
        formula.value.number(&leaf).map(|value| value + 0.0)
    }
}

/// Values of an aggregate.
#[derive(Debug)]
struct Values {
    of: AggregateOf,
    n: u64,
    kept: Kept,
}

/// State of the values.
#[derive(Debug)]
enum Kept {
    Nothing,
    Sum(Box<ExactSum>),
    Extreme(f64),
    All(Vec<f64>),
}

impl Values {
    fn new(of: AggregateOf) -> Self {
        let kept = match of {
            AggregateOf::Count => Kept::Nothing,
            AggregateOf::Sum | AggregateOf::Total | AggregateOf::Mean => Kept::Sum(Box::default()),
            AggregateOf::Least => Kept::Extreme(f64::INFINITY),
            AggregateOf::Greatest => Kept::Extreme(f64::NEG_INFINITY),
            AggregateOf::Quantile(_) | AggregateOf::Variance | AggregateOf::Deviation => {
                Kept::All(Vec::new())
            }
        };
        Self { of, n: 0, kept }
    }

    fn bytes(&self) -> usize {
        let kept = match &self.kept {
            Kept::Nothing | Kept::Extreme(_) => 0,
            Kept::Sum(_) => size_of::<ExactSum>(),
            Kept::All(all) => size_of_val(&**all),
        };
        size_of::<Self>() + kept
    }

    fn add(&mut self, number: f64) {
        self.n += 1;
        match &mut self.kept {
            Kept::Nothing => {}
            Kept::Sum(sum) => sum.add(number),
            Kept::Extreme(extreme) if self.of == AggregateOf::Least => *extreme = extreme.min(number),
            Kept::Extreme(extreme) => *extreme = extreme.max(number),
            Kept::All(all) => all.push(number),
        }
    }

    fn finish(self) -> Option<f64> {
        match (self.of, self.kept) {
            (AggregateOf::Mean, Kept::Sum(sum)) => mean(&sum, self.n),
            (of, Kept::Sum(sum)) => (self.n > 0 || of == AggregateOf::Total).then(|| sum.value()),
            (_, Kept::Extreme(extreme)) => (self.n > 0).then_some(extreme),
            (AggregateOf::Quantile(share), Kept::All(all)) => quantile(&all, share),
            (AggregateOf::Deviation, Kept::All(all)) => variance(&all).map(f64::sqrt),
            (_, Kept::All(all)) => variance(&all),
            (_, Kept::Nothing) => Some(self.n as f64),
        }
    }
}

/// Returns the variance of a sample; `None` for fewer than two numbers, or if it exceeds the range of doubles.
fn variance(numbers: &[f64]) -> Option<f64> {
    let n = numbers.len() as u64;
    let freedom = n.checked_sub(1).filter(|freedom| *freedom > 0)?;
    let mut sum = ExactSum::new();
    sum.extend(numbers.iter().copied());
    let middle = mean(&sum, n)?;
    let mut squares = ExactSum::new();
    for number in numbers {
        let square = (number - middle) * (number - middle);
        if !square.is_finite() {
            return None;
        }
        squares.add(square);
    }
    mean(&squares, freedom)
}

#[cfg(test)]
mod tests;
