//! The uncertainty of the metrics of a release: their 95% intervals.
//!
//! The table of metrics assigns a method to each metric ([`Method`]). The methods with a formula treat predictions as
//! independent of each other. Predictions of repeated keys are not, so every metric then gets a bootstrap of the
//! keys.

use std::{cmp::Ordering, collections::BTreeMap};

use event::Definition;

use super::{
    Measures, ReleaseEvaluation,
    fields::{Fields, Kept},
    judge::{Instead, Judge},
};
use crate::{
    Metric,
    formulas::{GROUP_METRICS, GroupMeans, NORMAL_975, delong, quantile, student_975, wilson},
    hash::hash,
    metric::{METRICS, Method},
};

/// Maximum number of evaluated predictions of a release with intervals; each score of a class counts as one more. Also
/// the maximum for a custom metric, where each prediction counts once for each aggregate.
pub const MAX_ROWS: usize = 200_000;

/// Number of rows evaluated in all draws of a bootstrap together, within the bounds on draws below. Each score of a
/// class counts as one row more.
const ROWS_TO_DRAW: usize = 10_000_000;
const MIN_DRAWS: usize = 100;
const MAX_DRAWS: usize = 1_000;

/// Cost of a draw beside its rows, in rows: computing the metrics.
const ROWS_OF_DRAW: usize = 500;

/// Seed of every bootstrap.
const SEED: u64 = 0x416c_6d61_6e61_6373;

/// Called repeatedly to ask whether to continue, with the number of rows to evaluate next, or the equivalent work.
pub(super) type GoOn<'a, E> = &'a mut dyn FnMut(u64) -> Result<(), E>;

/// Metrics to compute intervals of. The interval of a metric does not depend on which others are requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalsOf {
    /// Bit for each of [`METRICS`], by its place.
    metrics: u128,
    /// True to include custom metrics.
    has_customs: bool,
}

impl IntervalsOf {
    /// All metrics.
    pub const ALL: Self = Self { metrics: u128::MAX, has_customs: true };

    /// Adds this metric.
    #[must_use]
    pub fn and(self, metric: &Metric) -> Self {
        let place = METRICS.iter().position(|other| other.name == metric.name);
        Self { metrics: self.metrics | place.map_or(0, bit), ..self }
    }

    /// Adds the custom metrics.
    #[must_use]
    pub fn and_customs(self) -> Self {
        Self { has_customs: true, ..self }
    }

    /// Returns whether custom metrics are included.
    pub(super) fn has_customs(self) -> bool {
        self.has_customs
    }

    fn has(self, place: usize) -> bool {
        self.metrics & bit(place) != 0
    }
}

/// Returns the bit of a metric. With more metrics than bits, some would share one, and be computed unasked.
fn bit(place: usize) -> u128 {
    1 << (place % 128)
}

/// Intervals of the metrics of a release.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Intervals {
    /// Number of keys of the evaluated predictions, or of evaluated groups.
    pub keys: u64,
    /// Estimates by the name of the metric.
    pub estimates: BTreeMap<&'static str, Estimate>,
}

impl Intervals {
    /// Returns the intervals of the means over groups, which are independent of each other.
    fn of_groups(groups: &GroupMeans) -> Self {
        let n = groups.evaluated;
        let of = |name: &'static str| (name, Estimate { n, interval: groups.interval(name) });
        let estimates = GROUP_METRICS.iter().filter(|_| n > 0).map(|(name, _)| of(name));
        Self { keys: n, estimates: estimates.collect() }
    }
}

/// Uncertainty of a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Number of predictions or groups behind the metric.
    pub n: u64,
    /// Lower and upper bound; `None` if there are too few predictions.
    pub interval: Option<(f64, f64)>,
}

/// A prediction with an outcome, kept to be evaluated again.
#[derive(Clone, Debug)]
struct Row {
    key: u64,
    /// Place of its definition.
    by: usize,
    prediction: Kept,
    outcome: Kept,
}

impl Row {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.prediction.bytes() + self.outcome.bytes()
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let of = |row: &Self| (row.key, row.by);
        let by_key = of(self).cmp(&of(other));
        by_key
            .then_with(|| self.prediction.cmp(&other.prediction))
            .then_with(|| self.outcome.cmp(&other.outcome))
    }
}

/// Evaluated predictions of a release, kept until all have been added.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// Rows; `None` if there are too many.
    rows: Option<Vec<Row>>,
    /// Number of rows, plus the scores of their classes.
    work: usize,
    by: Definitions,
    /// Index of the definition by which further rows are evaluated.
    current: usize,
    asked: IntervalsOf,
}

/// Definitions that rows are evaluated by.
#[derive(Clone, Debug)]
struct Definitions {
    /// Definitions of the days, in order.
    definitions: Vec<Definition>,
    instead: Instead,
    /// Evaluation without predictions, cloned for each draw.
    fresh: Judge,
}

impl Definitions {
    /// Evaluates rows, each by its definition.
    fn judge<'a>(&self, rows: impl Iterator<Item = &'a Row>) -> ReleaseEvaluation {
        let mut judge = self.fresh.clone();
        let mut by = 0;
        for row in rows {
            if row.by != by {
                by = row.by;
                // All definitions have one kind of task.
                judge.go_on(&self.definitions[by], self.instead);
            }
            judge.add(&row.prediction.fields(), &row.outcome.fields());
        }
        ReleaseEvaluation { measures: Some(judge.finish(None).0), ..ReleaseEvaluation::default() }
    }
}

impl Rows {
    pub(super) fn new(definition: &Definition, instead: Instead, asked: IntervalsOf) -> Self {
        let (definitions, fresh) = (vec![definition.clone()], Judge::new(definition, instead));
        let by = Definitions { definitions, instead, fresh };
        Self { rows: Some(Vec::new()), work: 0, by, current: 0, asked }
    }

    /// Evaluates further rows by another definition.
    pub(super) fn go_on(&mut self, definition: &Definition) {
        let known = self.by.definitions.iter().position(|known| known == definition);
        self.current = known.unwrap_or_else(|| {
            self.by.definitions.push(definition.clone());
            self.by.definitions.len() - 1
        });
    }

    /// Returns the approximate number of bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.rows.iter().flatten().map(Row::bytes).sum()
    }

    /// Keeps a prediction, if its outcome labels it.
    pub(super) fn keep(&mut self, key: &str, prediction: &Fields<'_>, outcome: &Fields<'_>) {
        let Some(rows) = &mut self.rows else { return };
        if !self.by.fresh.applies_to(prediction, outcome) {
            return;
        }
        let (prediction, outcome) = (Kept::of(prediction), Kept::of(outcome));
        self.work += prediction.work();
        if self.work > MAX_ROWS {
            self.rows = None;
            return;
        }
        rows.push(Row { key: hash(key.as_bytes()), by: self.current, prediction, outcome });
    }

    /// Returns the intervals of the requested metrics that are defined.
    pub(super) fn intervals<E>(
        self,
        of: &ReleaseEvaluation,
        go_on: GoOn<'_, E>,
    ) -> Result<Option<Intervals>, E> {
        let Self { rows, work, by, asked, .. } = self;
        if let Some(Measures::Ranking(ranking)) = &of.measures {
            return Ok(Some(Intervals::of_groups(&ranking.groups)));
        }
        let Some(mut rows) = rows else { return Ok(None) };
        // The result must not depend on the order of arrival.
        rows.sort_unstable_by(Row::cmp);
        let keys: Vec<&[Row]> = rows.chunk_by(|one, other| one.key == other.key).collect();
        let repeats = keys.len() < rows.len();
        let metrics = METRICS.iter().enumerate().filter(|(place, _)| asked.has(*place));
        let metrics: Vec<_> =
            metrics.filter_map(|(_, metric)| Some((metric, method_of(metric, of)?))).collect();
        go_on(work as u64)?;
        let alone = Alone::of(&rows, &by, &metrics);
        let is_drawn = |method: Method| repeats || method == Method::Bootstrap;
        let drawn: Vec<_> =
            metrics.iter().filter(|(_, method)| is_drawn(*method)).map(|(metric, _)| *metric).collect();
        let values = bootstrap(&keys, work, &by, &drawn, go_on)?;
        let mut drawn: BTreeMap<_, _> = drawn.iter().map(|metric| metric.name).zip(values).collect();
        let estimates = metrics.iter().enumerate().map(|(at, (metric, method))| {
            let n = alone.n(at, *method, of.judged_by(metric));
            let interval = match drawn.remove(metric.name) {
                Some(values) => percentiles(&values),
                None => of.metric(metric).and_then(|value| alone.interval(at, *method, value)),
            };
            (metric.name, Estimate { n, interval })
        });
        let estimates = estimates.collect();
        Ok(Some(Intervals { keys: keys.len() as u64, estimates }))
    }
}

/// Returns the method of the interval of a metric; `None` if it has none, or the metric is not defined.
fn method_of(metric: &Metric, of: &ReleaseEvaluation) -> Option<Method> {
    of.metric(metric)?;
    match (metric.method?, &of.measures) {
        (Method::DeLong, Some(Measures::Multiclass(_))) => Some(Method::Bootstrap),
        (method, _) => Some(method),
    }
}

/// Metrics of each prediction alone. A mean metric is the mean of these, and a share is a mean of zeros and ones.
struct Alone {
    /// Values by metric, of each prediction for which it is defined.
    values: Vec<Vec<f64>>,
    /// Scores, each with whether it is of a positive.
    scores: Vec<(f64, bool)>,
}

impl Alone {
    fn of(rows: &[Row], by: &Definitions, metrics: &[(&'static Metric, Method)]) -> Self {
        let mut values = vec![Vec::new(); metrics.len()];
        let mut scores = Vec::new();
        for row in rows {
            let one = by.judge(std::iter::once(row));
            for (values, (metric, method)) in values.iter_mut().zip(metrics) {
                if matches!(method, Method::Wilson | Method::Student) {
                    values.extend(one.metric(metric));
                }
            }
            if let (Some(Measures::Binary(of)), Some(score)) = (&one.measures, row.prediction.fields().score)
                && of.scored == 1
            {
                scores.push((score, of.positives == 1));
            }
        }
        Self { values, scores }
    }

    fn n(&self, at: usize, method: Method, judged: u64) -> u64 {
        match method {
            Method::Wilson | Method::Student => self.values[at].len() as u64,
            Method::DeLong => self.scores.len() as u64,
            Method::Bootstrap => judged,
        }
    }

    fn interval(&self, at: usize, method: Method, value: f64) -> Option<(f64, f64)> {
        let values = &self.values[at];
        match method {
            Method::Wilson => {
                let right = values.iter().filter(|value| **value == 1.0).count();
                wilson(right as u64, values.len() as u64)
            }
            Method::Student => {
                let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
                let squares = values.iter().map(|one| (one - value) * (one - value)).sum::<f64>();
                let error = (squares / freedom / values.len() as f64).sqrt();
                let half = student_975(freedom) * error;
                half.is_finite().then_some((value - half, value + half))
            }
            Method::DeLong => {
                let half = NORMAL_975 * delong(&self.scores)?;
                Some(((value - half).max(0.0), (value + half).min(1.0)))
            }
            Method::Bootstrap => None,
        }
    }
}

/// Returns the values of each metric over the draws of a bootstrap: as many keys as there are are drawn again and
/// again (Efron 1979; of clusters, Field and Welsh 2007).
fn bootstrap<E>(
    keys: &[&[Row]],
    work: usize,
    by: &Definitions,
    metrics: &[&'static Metric],
    go_on: GoOn<'_, E>,
) -> Result<Vec<Vec<f64>>, E> {
    let mut values = vec![Vec::new(); metrics.len()];
    if metrics.is_empty() {
        return Ok(values);
    }
    draw(keys, work, go_on, |drawn| {
        let drawn = by.judge(drawn.flat_map(|rows| rows.iter()));
        for (values, metric) in values.iter_mut().zip(metrics) {
            values.extend(drawn.metric(metric));
        }
    })?;
    Ok(values)
}

/// Draws as many keys as there are, again and again; the number of draws depends on `work`, in rows.
pub(super) fn draw<K: Copy, E>(
    keys: &[K],
    work: usize,
    go_on: GoOn<'_, E>,
    mut each: impl FnMut(&mut dyn Iterator<Item = K>),
) -> Result<(), E> {
    if keys.len() < 2 {
        return Ok(());
    }
    let draws = (ROWS_TO_DRAW / work.max(1)).clamp(MIN_DRAWS, MAX_DRAWS);
    let mut random = Random(SEED);
    for _ in 0..draws {
        go_on((work + ROWS_OF_DRAW) as u64)?;
        each(&mut (0..keys.len()).map(|_| keys[random.below(keys.len())]));
    }
    Ok(())
}

/// Returns the percentiles between which 95% of the values lie.
pub(super) fn percentiles(values: &[f64]) -> Option<(f64, f64)> {
    Some((quantile(values, 0.025)?, quantile(values, 0.975)?))
}

/// The generator `splitmix64` (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * end as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests;
