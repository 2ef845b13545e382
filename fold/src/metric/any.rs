//! Metrics by name: of the table, defined by a model, a statistic of a metric that clients log, or one of the scores, values
//! and latencies in rollups.

use event::{Error, Result, custom::CUSTOM_METRICS, fields::MAX_TEXT_BYTES, id::check_name};
use serde::{Deserialize, Serialize};

use super::{Direction, Merge, Metric};
use crate::{
    evaluation::ReleaseEvaluation,
    rollup::{Distribution, NumberRollup, Series},
};

/// Prefix of the name of a logged metric in the name of a metric.
pub const METRIC_PREFIX: &str = "metric.";

/// A metric of the table, a custom metric, or a statistic of a logged metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AnyMetric {
    /// Metric of the table.
    Declared(&'static Metric),
    /// Custom metric of a model, by the name of its column.
    Custom(String),
    /// Statistic of a metric that clients log.
    Logged(LoggedMetric),
}

/// A statistic of a logged metric: `metric.NAME` is the mean of its observations, `metric.NAME:sum` their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedMetric {
    name: String,
    metric: String,
    statistic: LoggedStatistic,
}

/// Statistic of the observations of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedStatistic {
    /// Mean, the default.
    Mean,
    /// Sum.
    Sum,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Last measured value.
    Last,
}

impl LoggedStatistic {
    /// All statistics.
    pub const ALL: [Self; 5] = [Self::Mean, Self::Sum, Self::Min, Self::Max, Self::Last];

    /// Returns its name: `mean`, `sum`, `min`, `max` or `last`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Last => "last",
        }
    }

    /// Returns the statistic of some observations; `None` if it is beyond the range of doubles.
    fn of(self, series: &Series) -> Option<f64> {
        let numbers = &series.numbers;
        let found = match self {
            Self::Mean => numbers.mean(),
            Self::Sum => numbers.sum(),
            Self::Min => numbers.min,
            Self::Max => numbers.max,
            Self::Last => series.last,
        };
        Some(found).filter(|value| value.is_finite())
    }
}

impl LoggedMetric {
    /// Parses the name of a metric, without [`METRIC_PREFIX`].
    fn parse(text: &str) -> Option<Self> {
        let named = text.rsplit_once(':').and_then(|(metric, statistic)| {
            let found = LoggedStatistic::ALL.into_iter().find(|known| known.name() == statistic)?;
            Some((metric, found))
        });
        let (metric, statistic) = named.unwrap_or((text, LoggedStatistic::Mean));
        let is_name = (1..=MAX_TEXT_BYTES).contains(&metric.len());
        is_name.then(|| Self { name: format!("{METRIC_PREFIX}{text}"), metric: metric.to_owned(), statistic })
    }

    /// Returns the name under which the metric is logged.
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// Returns the statistic of its observations.
    pub fn statistic(&self) -> LoggedStatistic {
        self.statistic
    }

    /// Returns the value of some observations of the metric.
    pub fn of(&self, series: &Series) -> Option<f64> {
        self.statistic.of(series)
    }
}

impl From<AnyMetric> for String {
    fn from(metric: AnyMetric) -> Self {
        metric.name().to_owned()
    }
}

impl TryFrom<String> for AnyMetric {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        Self::named(&name).ok_or_else(|| Error::invalid(format!("there is no metric `{name}`")))
    }
}

impl AnyMetric {
    /// Returns the metric of a name, without checking that a model defines a custom metric, or that a metric is
    /// logged.
    pub fn named(name: &str) -> Option<Self> {
        if let Some(logged) = name.strip_prefix(METRIC_PREFIX) {
            return LoggedMetric::parse(logged).map(Self::Logged);
        }
        match CUSTOM_METRICS.member(name) {
            Some(member) => check_name(member).is_ok().then(|| Self::Custom(name.to_owned())),
            None => Metric::named(name).map(Self::Declared),
        }
    }

    /// Returns the metric of a name to rank releases by, and its better direction. For a custom metric and a logged
    /// metric greater is better, unless `direction` overrides it.
    ///
    /// # Errors
    /// `Invalid`, with the valid names.
    pub fn to_rank_by(name: &str, direction: Option<Direction>) -> Result<(Self, Direction)> {
        let found = Self::named(name).and_then(|metric| {
            let better = match &metric {
                Self::Declared(metric) => metric.ranking?.better,
                Self::Custom(_) | Self::Logged(_) => Direction::Max,
            };
            Some((metric, direction.unwrap_or(better)))
        });
        found.ok_or_else(|| {
            let known = Metric::ranking_ones().map(|metric| metric.name).collect::<Vec<_>>().join(", ");
            let custom = CUSTOM_METRICS.columns_are_called();
            Error::invalid(format!(
                "`{name}` is no metric to rank by; there are {known}, {custom} and {METRIC_PREFIX}NAME"
            ))
        })
    }

    /// Returns its name, which is also that of its column.
    pub fn name(&self) -> &str {
        match self {
            Self::Declared(metric) => metric.name,
            Self::Custom(column) => column,
            Self::Logged(logged) => &logged.name,
        }
    }

    /// Returns the statistic of a logged metric, if it is one.
    pub fn logged(&self) -> Option<&LoggedMetric> {
        if let Self::Logged(logged) = self { Some(logged) } else { None }
    }

    /// Returns its value; `None` if undefined, as for a logged metric.
    pub fn of(&self, release: &ReleaseEvaluation) -> Option<f64> {
        match self {
            Self::Declared(metric) => release.metric(metric),
            Self::Custom(column) => release.custom.get(CUSTOM_METRICS.member(column)?)?.value,
            Self::Logged(_) => None,
        }
    }

    /// Returns the number of predictions behind it.
    pub fn n(&self, release: &ReleaseEvaluation) -> u64 {
        match self {
            Self::Declared(metric) => release.judged_by(metric),
            Self::Custom(column) => {
                let custom = CUSTOM_METRICS.member(column).and_then(|name| release.custom.get(name));
                custom.map_or(0, |custom| custom.n)
            }
            Self::Logged(_) => 0,
        }
    }

    /// Returns whether it is a sum, which grows with the number of predictions.
    pub fn is_sum(&self) -> bool {
        matches!(self.merge(), Some(Merge::Sum))
    }

    /// Returns the merging of several days; `None` if releases are not ranked by it.
    pub(super) fn merge(&self) -> Option<Merge> {
        match self {
            Self::Declared(metric) => Some(metric.ranking?.merge),
            Self::Custom(_) => Some(Merge::MeanOfDays),
            Self::Logged(_) => None,
        }
    }
}

impl From<&'static Metric> for AnyMetric {
    fn from(metric: &'static Metric) -> Self {
        Self::Declared(metric)
    }
}

/// A metric of numbers in rollups.
#[derive(Clone, Copy, Debug)]
pub struct Statistic {
    /// Suffix of its name, after that of the numbers: `score_mean`.
    pub name: &'static str,
    /// Reader of the metric.
    pub getter: StatisticGetter,
}

impl Statistic {
    /// Returns the metric of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        STATISTICS.iter().find(|statistic| statistic.name == name)
    }

    /// Returns the metric of these numbers; `None` if not finite or unknown.
    pub fn of<const MAX: usize>(&self, numbers: &Distribution<MAX>) -> Option<f64> {
        let found = match self.getter {
            StatisticGetter::Numbers(read) => Some(read(&numbers.numbers)),
            StatisticGetter::Quantile(q) => numbers.quantile(q).map(|quantile| quantile.value),
        };
        found.filter(|found| found.is_finite())
    }
}

/// Reader of a metric of numbers.
#[derive(Clone, Copy, Debug)]
pub enum StatisticGetter {
    /// Statistic of their count, sums and extremes.
    Numbers(fn(&NumberRollup) -> f64),
    /// The quantile of this share, where there is a sketch.
    Quantile(f64),
}

/// Every metric of numbers, in the order of the columns.
pub static STATISTICS: &[Statistic] = &[
    numbers("mean", NumberRollup::mean),
    numbers("std", NumberRollup::std),
    numbers("min", |of| of.min),
    quantile("p50", 0.5),
    quantile("p90", 0.9),
    quantile("p99", 0.99),
    numbers("max", |of| of.max),
];

const fn numbers(name: &'static str, read: fn(&NumberRollup) -> f64) -> Statistic {
    Statistic { name, getter: StatisticGetter::Numbers(read) }
}

const fn quantile(name: &'static str, q: f64) -> Statistic {
    Statistic { name, getter: StatisticGetter::Quantile(q) }
}
