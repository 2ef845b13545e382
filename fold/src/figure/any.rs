//! A figure by its name: one of the table, one that a model defines, or a statistic of a metric that clients log.

use event::{Error, Result, custom::CUSTOM_FIGURES, fields::MAX_TEXT_BYTES, id::check_name};

use super::{Direction, Figure, Merge};
use crate::{evaluation::ReleaseEvaluation, rollup::Series};

/// Before the name of a logged metric, in the name of a figure.
pub const METRIC_PREFIX: &str = "metric.";

/// A figure of the table, one that a model defines, or a statistic of a logged metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyFigure {
    /// One of the table.
    Declared(&'static Figure),
    /// One that models define, by the name of its column.
    Custom(String),
    /// A statistic of a metric that clients log.
    Logged(LoggedFigure),
}

/// A statistic of a logged metric: `metric.NAME` is the mean of its observations, `metric.NAME:sum` their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedFigure {
    name: String,
    metric: String,
    statistic: LoggedStatistic,
}

/// A statistic of the observations of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedStatistic {
    /// Their mean, which need not be named.
    Mean,
    /// Their sum.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The one that was measured last.
    Last,
}

impl LoggedStatistic {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Mean, Self::Sum, Self::Min, Self::Max, Self::Last];

    /// Its name: `mean`, `sum`, `min`, `max` or `last`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Last => "last",
        }
    }

    /// The statistic of some observations; `None`, where it is too large for a double.
    fn of(self, series: &Series) -> Option<f64> {
        let numbers = &series.numbers;
        let found = match self {
            Self::Mean => numbers.mean(),
            Self::Sum => numbers.sum(),
            Self::Min => Some(numbers.min),
            Self::Max => Some(numbers.max),
            Self::Last => Some(series.last),
        };
        found.filter(|value| value.is_finite())
    }
}

impl LoggedFigure {
    /// The figure whose name goes on like this after [`METRIC_PREFIX`].
    fn parse(text: &str) -> Option<Self> {
        let named = text.rsplit_once(':').and_then(|(metric, statistic)| {
            let found = LoggedStatistic::ALL.into_iter().find(|known| known.name() == statistic)?;
            Some((metric, found))
        });
        let (metric, statistic) = named.unwrap_or((text, LoggedStatistic::Mean));
        let is_name = (1..=MAX_TEXT_BYTES).contains(&metric.len());
        is_name.then(|| Self { name: format!("{METRIC_PREFIX}{text}"), metric: metric.to_owned(), statistic })
    }

    /// The metric, by the name under which it is logged.
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// The statistic of its observations.
    pub fn statistic(&self) -> LoggedStatistic {
        self.statistic
    }

    /// The value of some observations of the metric.
    pub fn of(&self, series: &Series) -> Option<f64> {
        self.statistic.of(series)
    }
}

impl AnyFigure {
    /// The figure of a name. Whether a model defines a custom figure, or somebody logs a metric, is not asked.
    pub fn named(name: &str) -> Option<Self> {
        if let Some(logged) = name.strip_prefix(METRIC_PREFIX) {
            return LoggedFigure::parse(logged).map(Self::Logged);
        }
        match CUSTOM_FIGURES.member(name) {
            Some(member) => check_name(member).is_ok().then(|| Self::Custom(name.to_owned())),
            None => Figure::named(name).map(Self::Declared),
        }
    }

    /// The figure of a name to rank releases by, and which way it is better. Of a custom figure and of a logged metric the greater value is the
    /// better one, unless `direction` says otherwise.
    ///
    /// # Errors
    /// `Invalid`, naming those there are.
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

    /// Its name, which is that of its column.
    pub fn name(&self) -> &str {
        match self {
            Self::Declared(figure) => figure.name,
            Self::Custom(column) => column,
            Self::Logged(logged) => &logged.name,
        }
    }

    /// The statistic of a logged metric that it is, if it is one.
    pub fn logged(&self) -> Option<&LoggedFigure> {
        if let Self::Logged(logged) = self { Some(logged) } else { None }
    }

    /// Its value; `None`, where it is not defined, as is a logged metric of predictions.
    pub fn of(&self, release: &ReleaseEvaluation) -> Option<f64> {
        match self {
            Self::Declared(figure) => release.figure(figure),
            Self::Custom(column) => release.custom.get(CUSTOM_FIGURES.member(column)?)?.value,
            Self::Logged(_) => None,
        }
    }

    /// How many predictions it is made of.
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

    /// Whether it is a sum, which grows with what it is of.
    pub fn is_sum(&self) -> bool {
        matches!(self.merge(), Some(Merge::Sum))
    }

    /// How several days make one value; `None`, when releases are not ranked by it.
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
