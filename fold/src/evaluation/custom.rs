//! Metrics that models define themselves, while predictions are being evaluated.
//!
//! They cover all predictions, with and without an outcome. Sums are exact and quantiles use all values, so the
//! results do not depend on the order of the rows.

mod sample;

use std::collections::{BTreeMap, BTreeSet};

use event::{
    CustomMetric, Definition, Kind,
    custom::{AggregateOf, Formula, JoinedColumn, Value},
    fields::FieldType,
};
use sample::Sample;
use serde::{Deserialize, Serialize};

use super::interval::GoOn;
use crate::{
    ExactSum, LogSegment, Result,
    formulas::{mean, quantile},
    join::Pair,
    read::{floats, texts, times},
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
    /// Columns, with their cells by segment of their events.
    columns: Vec<(Kind, Vec<Cells<'a>>)>,
}

/// Values of a column of a segment by row.
type Cells<'a> = Box<dyn Fn(usize) -> Option<Value<'a>> + 'a>;

fn cells<'a>(segment: &LogSegment<'a>, column: &JoinedColumn) -> Result<Cells<'a>> {
    let (columns, field) = (segment.columns, &column.field);
    if columns.rows == 0 {
        return Ok(Box::new(|_| None));
    }
    Ok(match column.kind {
        FieldType::Float => {
            let numbers = floats(columns, field)?;
            Box::new(move |row| numbers?.get(row).map(Value::Number))
        }
        FieldType::Time => {
            let times = times(columns, field)?;
            // Microseconds are exact in a double until the year 2255.
            Box::new(move |row| times?.get(row).map(|micros| Value::Number(micros as f64)))
        }
        FieldType::Text => {
            let texts = texts(columns, field)?;
            Box::new(move |row| texts?.get(row).map(Value::Text))
        }
    })
}

impl<'a> CustomRows<'a> {
    /// Reads the inputs of the metrics of these definitions; `None` if there are none.
    pub(super) fn read(
        definitions: &[Option<&'a Definition>],
        predictions: &[LogSegment<'a>],
        outcomes: &[LogSegment<'a>],
    ) -> Result<Option<Self>> {
        let metrics = |of: &Option<&'a Definition>| of.map_or(&[][..], |of| &of.custom_metrics);
        if definitions.iter().all(|of| metrics(of).is_empty()) {
            return Ok(None);
        }
        let mut all: Vec<&JoinedColumn> =
            definitions.iter().flat_map(metrics).flat_map(|metric| &metric.formula.columns).collect();
        all.sort_unstable();
        all.dedup();
        let place = |column: &JoinedColumn| all.binary_search(&column).unwrap_or_default();
        let resolved =
            |metric: &'a CustomMetric| (metric, metric.formula.columns.iter().map(place).collect());
        let releases = definitions.iter().map(|of| metrics(of).iter().map(resolved).collect()).collect();
        let columns = all.iter().map(|column| {
            let segments = if column.of == Kind::Predictions { predictions } else { outcomes };
            let cells = segments.iter().map(|segment| cells(segment, column));
            Ok((column.of, cells.collect::<Result<_>>()?))
        });
        Ok(Some(Self { releases, columns: columns.collect::<Result<_>>()? }))
    }

    fn value(&self, column: usize, pair: &Pair) -> Value<'a> {
        let (of, segments) = &self.columns[column];
        let at = if *of == Kind::Predictions { Some(pair.prediction) } else { pair.outcome };
        at.and_then(|at| segments[at.segment as usize](at.row as usize)).unwrap_or(Value::Null)
    }
}

/// Custom metrics of a release, or of another bucket, while rows are being added.
#[derive(Debug, Default)]
pub(super) struct Customs {
    tallies: Vec<Tally>,
    has_intervals: bool,
}

#[derive(Debug)]
struct Tally {
    metric: CustomMetric,
    /// Its aggregates; `None` if it was defined in more than one way, so that it has no value.
    aggregates: Option<Aggregates>,
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

    /// Adds a prediction. Its key is only computed for intervals.
    pub(super) fn add<'k>(&mut self, rows: &CustomRows<'_>, pair: &Pair, key: impl Fn() -> &'k str) {
        for (metric, columns) in &rows.releases[pair.release as usize] {
            let tally = self.tally(metric);
            if tally.metric != **metric {
                (tally.aggregates, tally.sample) = (None, None);
            }
            tally.add(&|at: usize| rows.value(columns[at], pair), &key);
        }
    }

    /// Returns the tally of the metric of this name, which is added if missing.
    fn tally(&mut self, metric: &CustomMetric) -> &mut Tally {
        let known = self.tallies.iter().position(|tally| tally.metric.name == metric.name);
        let at = known.unwrap_or_else(|| {
            self.tallies.push(Tally::new(metric.clone(), self.has_intervals));
            self.tallies.len() - 1
        });
        &mut self.tallies[at]
    }

    /// Returns the approximate number of bytes held.
    pub(super) fn bytes(&self) -> usize {
        let aggregates = self.tallies.iter().filter_map(|tally| tally.aggregates.as_ref());
        let samples = self.tallies.iter().filter_map(|tally| tally.sample.as_ref());
        aggregates.flat_map(|aggregates| &aggregates.0).map(Values::bytes).sum::<usize>()
            + samples.map(Sample::bytes).sum::<usize>()
    }

    pub(super) fn finish<E>(self, go_on: GoOn<'_, E>) -> Result<CustomValues, E> {
        self.tallies.into_iter().map(|tally| tally.finish(go_on)).collect()
    }
}

impl Tally {
    fn new(metric: CustomMetric, has_interval: bool) -> Self {
        let aggregates = Some(Aggregates::of(&metric.formula));
        Self { metric, aggregates, sample: has_interval.then(Sample::default) }
    }

    fn add<'a, 'k>(&mut self, leaf: &impl Fn(usize) -> Value<'a>, key: &impl Fn() -> &'k str) {
        let Some(aggregates) = &mut self.aggregates else { return };
        let row = self.metric.formula.aggregates.iter();
        let row = row.map(|aggregate| aggregate.argument.number(leaf).unwrap_or(f64::NAN));
        match &mut self.sample {
            None => aggregates.take(row),
            Some(sample) => {
                aggregates.take(sample.keep(key(), row).iter().copied());
                self.sample.take_if(|sample| sample.is_too_large());
            }
        }
    }

    fn finish<E>(self, go_on: GoOn<'_, E>) -> Result<(String, CustomValue), E> {
        let Self { metric, aggregates, sample } = self;
        let Some(aggregates) = aggregates else { return Ok((metric.name, CustomValue::default())) };
        let n = aggregates.0.iter().map(|values| values.n).max().unwrap_or_default();
        let value = aggregates.value(&metric.formula);
        let interval = match sample.filter(|_| value.is_some()) {
            Some(sample) => sample.interval(&metric.formula, go_on)?,
            None => None,
        };
        Ok((metric.name, CustomValue { value, n, interval }))
    }
}

impl Aggregates {
    /// Creates the empty aggregates of a formula.
    fn of(formula: &Formula) -> Self {
        Self(formula.aggregates.iter().map(|aggregate| Values::new(aggregate.of)).collect())
    }

    /// Adds a row: the number for each aggregate; NaN if there is none.
    fn take(&mut self, row: impl Iterator<Item = f64>) {
        let numbers = self.0.iter_mut().zip(row).filter(|(_, number)| !number.is_nan());
        numbers.for_each(|(values, number)| values.add(number));
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

/// Values of an aggregate: their number, and what it needs of them.
#[derive(Debug)]
struct Values {
    of: AggregateOf,
    n: u64,
    sum: Option<Box<ExactSum>>,
    /// Least or greatest value; NaN without values, which no number is less or greater than.
    extreme: f64,
    all: Vec<f64>,
}

impl Values {
    fn new(of: AggregateOf) -> Self {
        Self { of, n: 0, sum: None, extreme: f64::NAN, all: Vec::new() }
    }

    fn bytes(&self) -> usize {
        let sum = self.sum.as_ref().map_or(0, |_| size_of::<ExactSum>());
        size_of::<Self>() + sum + size_of_val(&*self.all)
    }

    fn add(&mut self, number: f64) {
        self.n += 1;
        match self.of {
            AggregateOf::Count => {}
            AggregateOf::Sum | AggregateOf::Total | AggregateOf::Mean => {
                self.sum.get_or_insert_default().add(number);
            }
            AggregateOf::Least => self.extreme = number.min(self.extreme),
            AggregateOf::Greatest => self.extreme = number.max(self.extreme),
            _ => self.all.push(number),
        }
    }

    /// Returns the value of the aggregate; `None` if it has none.
    fn finish(self) -> Option<f64> {
        match (self.of, self.sum) {
            (AggregateOf::Count, _) => Some(self.n as f64),
            (AggregateOf::Total, None) => Some(0.0),
            (AggregateOf::Mean, sum) => mean(&*sum?, self.n),
            (AggregateOf::Sum | AggregateOf::Total, sum) => Some(sum?.value()),
            (AggregateOf::Least | AggregateOf::Greatest, _) => Some(self.extreme),
            (AggregateOf::Quantile(share), _) => quantile(&self.all, share),
            (AggregateOf::Variance, _) => variance(&self.all),
            (AggregateOf::Deviation, _) => variance(&self.all).map(f64::sqrt),
        }
    }
}

/// Returns the variance of a sample; `None` for fewer than two numbers, or if it exceeds the range of doubles.
fn variance(numbers: &[f64]) -> Option<f64> {
    let n = numbers.len() as u64;
    let middle = mean(&numbers.iter().copied().collect(), n)?;
    let squares = numbers.iter().map(|number| (number - middle) * (number - middle));
    if squares.clone().all(f64::is_finite) { mean(&squares.collect(), n - 1) } else { None }
}

#[cfg(test)]
mod tests;
