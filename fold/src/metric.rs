//! Metrics of evaluations and of numbers in rollups ([`STATISTICS`]), each declared once.
//!
//! [`METRICS`] is the only list of them. It defines the columns of dataframes and their types, the names by which a
//! workspace can rank its releases, the better direction of each, and the merging of several days ([`Windowed`]).
//!
//! To add a metric, write its formula in [`crate::formulas`] and its entry in `metric/table.rs`, then describe it in
//! `docs/metrics.md`, which a test compares with the table. A metric that follows from stored counts needs no new
//! version of the stored state.

mod any;
mod evidence;
mod gaps;
mod table;
mod window;

use serde::{Deserialize, Serialize};
use std::fmt;

pub use any::{
    AnyMetric, LoggedMetric, LoggedStatistic, METRIC_PREFIX, STATISTICS, Statistic, StatisticGetter,
};
use event::{Error, Result};
pub use evidence::Evidence;
pub use gaps::{GAPS, Gap};
pub use table::METRICS;
pub use window::Windowed;

use crate::{
    Evaluation,
    evaluation::{Binary, Measures, ReleaseEvaluation, Tested},
    formulas::{CalibrationBin, Classes, Confusion},
};

/// A metric of evaluations.
#[derive(Clone, Copy)]
pub struct Metric {
    /// Name of the metric, its column and the ranking of releases by it.
    pub name: &'static str,
    /// Reader of the metric, which determines its type.
    pub getter: Getter,
    /// Ranking of releases by it; `None` if it cannot rank.
    pub ranking: Option<Ranking>,
    /// True if tables for people show it by default.
    pub is_main: bool,
    /// Method of its 95% interval for keys that do not repeat; `None` if it has none.
    pub method: Option<Method>,
    /// Subset of the evaluated predictions that it covers.
    pub of: Of,
    /// Its value with a given number in place of a division by zero, for which scikit-learn warns.
    pub divided: Option<fn(&Row<'_>, f64) -> Option<f64>>,
    /// Reader of the inputs of its test, if supported: for shares, and for means with known squares.
    pub evidence: Option<fn(&Row<'_>) -> Option<Evidence>>,
    /// Inputs of its test that must be computed from events, because they are not stored.
    pub tested: Option<Tested>,
}

/// Reader of a metric from a row. `None` if the metric is undefined.
#[derive(Clone, Copy, Debug)]
pub enum Getter {
    /// Text.
    Text(fn(&Row<'_>) -> Option<String>),
    /// Non-negative integer.
    Count(fn(&Row<'_>) -> Option<u64>),
    /// A number.
    Number(fn(&Row<'_>) -> Option<f64>),
}

/// Subset of the evaluated predictions, or of their groups, that a metric covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Predictions with a class or a number.
    Judged,
    /// Predictions with a score, or with scores of classes.
    Scored,
    /// Predictions with both ends of an interval.
    Bounded,
    /// Predictions with a class of known gain or cost.
    Priced,
    /// Groups of ranked items with a relevant one.
    Groups,
}

/// Method of the 95% interval of a metric. If keys repeat, predictions are not independent of each other, and each
/// metric has a [`Method::Bootstrap`] of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Share: the interval of Wilson 1927.
    Wilson,
    /// Mean: by Student's distribution.
    Student,
    /// Area under the curve of a binary task: by DeLong, DeLong and Clarke-Pearson 1988. For several classes it is a
    /// [`Method::Bootstrap`].
    DeLong,
    /// Any other metric: percentiles of its values when keys are drawn again and again, with a fixed seed.
    Bootstrap,
}

/// Ranking of releases by a metric.
#[derive(Clone, Copy, Debug)]
pub struct Ranking {
    /// Better direction.
    pub better: Direction,
    /// Merging of several days into one value.
    pub merge: Merge,
}

/// Better direction of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Greater is better.
    Max,
    /// Less is better.
    Min,
}

/// Merging of the metrics of several days into one.
#[derive(Clone, Copy, Debug)]
pub enum Merge {
    /// Computed from the sum of the confusion matrices, which is exact. Days of a task without a confusion matrix
    /// merge by their mean, weighted by rows.
    Confusion(fn(&Confusion) -> Option<f64>),
    /// Computed from the sum of the counts of classes, which is exact; if not all classes are named, the mean of the
    /// days.
    Classes(fn(&Classes) -> Option<f64>),
    /// As [`Merge::Confusion`] for a binary task, as [`Merge::Classes`] for several classes.
    Both(fn(&Confusion) -> Option<f64>, fn(&Classes) -> Option<f64>),
    /// Computed from the sum of the calibration bins, which is exact.
    Calibration(fn(&[CalibrationBin]) -> Option<f64>),
    /// Mean of the days, weighted by rows, which is exact for a mean of rows.
    Mean,
    /// Mean of the days, weighted by rows, for metrics that cannot be merged, such as AUC.
    MeanOfDays,
    /// Sum of the days, which is exact.
    Sum,
    /// Root of the mean of the days' squares, weighted by rows, which is exact.
    RootMeanSquare,
}

/// A row of evaluations: a release on a day, or a day without predictions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row<'a> {
    /// Name of the release.
    pub name: Option<&'a str>,
    /// Results of the release.
    pub release: Option<&'a ReleaseEvaluation>,
    /// Outcomes of the day that fit no prediction.
    pub orphaned: Option<u64>,
}

impl<'a> Row<'a> {
    /// Creates a row of a release without its name.
    fn of(release: &'a ReleaseEvaluation) -> Self {
        Self { release: Some(release), ..Self::default() }
    }

    /// Returns the measures of the release.
    fn measures(&self) -> Option<&'a Measures> {
        self.release?.measures.as_ref()
    }

    /// Returns the results of a binary task.
    fn binary(&self) -> Option<&'a Binary> {
        if let Measures::Binary(of) = self.measures()? { Some(of) } else { None }
    }
}

impl Merge {
    /// Returns its formula for a confusion matrix.
    pub(crate) fn of_confusion(self) -> Option<fn(&Confusion) -> Option<f64>> {
        if let Self::Confusion(of) | Self::Both(of, _) = self { Some(of) } else { None }
    }

    /// Returns its formula for the counts of classes.
    pub(crate) fn of_classes(self) -> Option<fn(&Classes) -> Option<f64>> {
        if let Self::Classes(of) | Self::Both(_, of) = self { Some(of) } else { None }
    }
}

impl Metric {
    /// Returns the metric of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// Returns the number of a row, with `zero_division` where scikit-learn divides by zero and warns; `None` if the
    /// metric is not a number.
    pub fn number(&self, row: &Row<'_>, zero_division: Option<f64>) -> Option<f64> {
        match (self.getter, self.divided, zero_division) {
            (_, Some(divided), Some(value)) => divided(row, value),
            (Getter::Number(read), ..) => read(row),
            _ => None,
        }
    }

    /// Returns the count of a release; `None` if the metric is not a count.
    pub fn count(&self, of: &ReleaseEvaluation) -> Option<u64> {
        if let Getter::Count(read) = self.getter { read(&Row::of(of)) } else { None }
    }

    /// Returns the metrics that releases can be ranked by.
    pub fn ranking_ones() -> impl Iterator<Item = &'static Self> {
        METRICS.iter().filter(|metric| metric.ranking.is_some())
    }
}

impl Direction {
    /// Both directions.
    pub const ALL: [Self; 2] = [Self::Max, Self::Min];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Min => "min",
        }
    }

    /// Returns the direction of a name.
    ///
    /// # Errors
    /// `Invalid` if it is neither.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|direction| direction.name() == name);
        found.ok_or_else(|| Error::invalid(format!("the direction `{name}` is neither max nor min")))
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Metric {}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Evaluation {
    /// Returns its rows: one for each release. A day without predictions has one if there are orphaned outcomes.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let orphaned = Some(self.orphaned);
        let releases = self.releases.iter();
        let rows =
            releases.map(move |(name, release)| Row { name: Some(name), release: Some(release), orphaned });
        let is_alone = self.releases.is_empty() && self.orphaned > 0;
        rows.chain(is_alone.then_some(Row { orphaned, ..Row::default() }))
    }
}

impl ReleaseEvaluation {
    /// Returns the value of a metric; `None` if the task of the release does not have it, or nothing was evaluated.
    pub fn metric(&self, metric: &Metric) -> Option<f64> {
        if let Getter::Number(read) = metric.getter { read(&Row::of(self)) } else { None }
    }

    /// Returns the inputs of a test of a metric; `None` if not supported or nothing was evaluated.
    pub fn evidence(&self, metric: &Metric) -> Option<Evidence> {
        (metric.evidence?)(&Row::of(self))
    }

    /// Returns the number of predictions behind a metric, or of groups.
    pub fn judged_by(&self, metric: &Metric) -> u64 {
        match (self.measures.as_ref(), metric.of) {
            (Some(Measures::Binary(of)), Of::Judged) => of.confusion.n(),
            (Some(Measures::Binary(of)), Of::Scored) => of.scored,
            (Some(Measures::Binary(of)), Of::Priced) => of.worth.map_or(0, |worth| worth.n),
            (Some(Measures::Multiclass(of)), Of::Judged) => of.judged,
            (Some(Measures::Multiclass(of)), Of::Scored) => of.scores.scored,
            (Some(Measures::Regression(of)), Of::Judged) => of.judged,
            (Some(Measures::Regression(of)), Of::Bounded) => of.bounds.n,
            (Some(Measures::Ranking(of)), Of::Groups) => of.groups.evaluated,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
