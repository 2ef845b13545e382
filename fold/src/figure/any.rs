//! Figures by name: of the table, defined by a model, or a statistic of a metric that clients log.

use event::{Error, Result, custom::CUSTOM_FIGURES, fields::MAX_TEXT_BYTES, id::check_name};

use super::{Direction, Figure, Merge};
use crate::{evaluation::ReleaseEvaluation, rollup::Series};

/// Prefix of the name of a logged metric in the name of a figure.
pub const METRIC_PREFIX: &str = "metric.";

/// A figure of the table, a custom figure, or a statistic of a logged metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyFigure {
    /// Figure of the table.
    Declared(&'static Figure),
    /// Custom figure of a model, by the name of its column.
    Custom(String),
    /// Statistic of a metric that clients log.
    Logged(LoggedFigure),
}

/// A statistic of a logged metric: `metric.NAME` is the mean of its observations, `metric.NAME:sum` their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedFigure {
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

impl LoggedFigure {
    /// Parses the name of a figure, without [`METRIC_PREFIX`].
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

impl AnyFigure {
    /// Returns the figure of a name, without checking that a model defines a custom figure, or that a metric is
    /// logged.
    pub fn named(name: &str) -> Option<Self> {
        if let Some(logged) = name.strip_prefix(METRIC_PREFIX) {
            return LoggedFigure::parse(logged).map(Self::Logged);
        }
        match CUSTOM_FIGURES.member(name) {
            Some(member) => check_name(member).is_ok().then(|| Self::Custom(name.to_owned())),
            None => Figure::named(name).map(Self::Declared),
        }
    }

    /// Returns the figure of a name to rank releases by, and its better direction. For a custom figure and a logged
    /// metric greater is better, unless `direction` overrides it.
    ///
    /// # Errors
    /// `Invalid`, with the valid names.
    pub fn to_rank_by(name: &str, direction: Option<Direction>) -> Result<(Self, Direction)> {
        let found = Self::named(name).and_then(|figure| {
            let better = match &figure {
                Self::Declared(figure) => figure.ranking?.better,
                Self::Custom(_) | Self::Logged(_) => Direction::Max,
            };
            Some((figure, direction.unwrap_or(better)))
        });
        found.ok_or_else(|| {
            let known = Figure::ranking_ones().map(|figure| figure.name).collect::<Vec<_>>().join(", ");
            let custom = CUSTOM_FIGURES.columns_are_called();
            Error::invalid(format!(
                "`{name}` is no metric to rank by; there are {known}, {custom} and {METRIC_PREFIX}NAME"
            ))
        })
    }

    /// Returns its name, which is also that of its column.
    pub fn name(&self) -> &str {
        match self {
            Self::Declared(figure) => figure.name,
            Self::Custom(column) => column,
            Self::Logged(logged) => &logged.name,
        }
    }

    /// Returns the statistic of a logged metric, if it is one.
    pub fn logged(&self) -> Option<&LoggedFigure> {
        if let Self::Logged(logged) = self { Some(logged) } else { None }
    }

    /// Returns its value; `None` if undefined, as for a logged metric.
    pub fn of(&self, release: &ReleaseEvaluation) -> Option<f64> {
        match self {
            Self::Declared(figure) => release.figure(figure),
            Self::Custom(column) => release.custom.get(CUSTOM_FIGURES.member(column)?)?.value,
            Self::Logged(_) => None,
        }
    }

    /// Returns the number of predictions behind it.
    pub fn n(&self, release: &ReleaseEvaluation) -> u64 {
        match self {
            Self::Declared(figure) => release.judged_by(figure),
            Self::Custom(column) => {
                let custom = CUSTOM_FIGURES.member(column).and_then(|name| release.custom.get(name));
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
            Self::Declared(figure) => Some(figure.ranking?.merge),
            Self::Custom(_) => Some(Merge::MeanOfDays),
            Self::Logged(_) => None,
        }
    }
}

impl From<&'static Figure> for AnyFigure {
    fn from(figure: &'static Figure) -> Self {
        Self::Declared(figure)
    }
}
