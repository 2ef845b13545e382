//! The figures of evaluations, and those of numbers in rollups ([`STATISTICS`]), each declared once.
//!
//! [`FIGURES`] is the only list of them. The columns of dataframes and their types, the names that a workspace can
//! rank its releases by, which way each is better, and how several days merge ([`Windowed`]) all come from it.
//!
//! To add a figure, write its formula in [`crate::metrics`] and its entry in `figure/table.rs`, then describe it in
//! `docs/figures.md`, which a test compares with the table. A figure that follows from stored counts needs no new
//! version of the stored state.

mod any;
mod evidence;
mod gaps;
mod statistics;
mod table;
mod window;

use std::fmt;

pub use any::{AnyFigure, LoggedFigure, LoggedStatistic, METRIC_PREFIX};
use event::{Error, Result};
pub use evidence::Evidence;
pub use gaps::{GAPS, Gap};
pub use statistics::{STATISTICS, Statistic, StatisticGetter};
pub use table::FIGURES;
pub use window::Windowed;

use crate::{
    Evaluation,
    evaluation::{Binary, Measures, ReleaseEvaluation, Tested},
    metrics::{CalibrationBin, Classes, Confusion},
};

/// A figure of evaluations.
#[derive(Clone, Copy)]
pub struct Figure {
    /// Its name: that of the column, and what a workspace calls it that ranks its releases by it.
    pub name: &'static str,
    /// How it is read, and so what type it has.
    pub getter: Getter,
    /// How releases are ranked by it; `None` when they cannot be.
    pub ranking: Option<Ranking>,
    /// Whether a table for people shows it unless it is asked for other columns.
    pub is_main: bool,
    /// How its 95% interval is computed where keys do not repeat; `None` when it has none.
    pub method: Option<Method>,
    /// Of which of the judged predictions it is.
    pub of: Of,
    /// What it is when a number stands where scikit-learn divides by zero and warns.
    pub divided: Option<fn(&Row<'_>, f64) -> Option<f64>>,
    /// What a test of it needs, where that is known: of shares, and of means whose squares are.
    pub evidence: Option<fn(&Row<'_>) -> Option<Evidence>>,
    /// What a test of it needs of the events, because it is not stored.
    pub tested: Option<Tested>,
}

/// How a figure is read from a row. `None` where it is not defined.
#[derive(Clone, Copy, Debug)]
pub enum Getter {
    /// Text.
    Text(fn(&Row<'_>) -> Option<String>),
    /// A whole number that is not negative.
    Count(fn(&Row<'_>) -> Option<u64>),
    /// A number.
    Number(fn(&Row<'_>) -> Option<f64>),
}

/// Of which of the judged predictions a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Of those with a class or a number.
    Judged,
    /// Of those with a score, or with scores of classes.
    Scored,
    /// Of those with both ends of an interval.
    Bounded,
    /// Of those with a class whose gain or cost is known.
    Priced,
}

/// How the 95% interval of a figure is computed. Where keys repeat, predictions are not independent of each other, and each
/// figure has a [`Method::Bootstrap`] of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Of a share: the interval of Wilson 1927.
    Wilson,
    /// Of a mean: by Student's distribution.
    Student,
    /// Of the area under the curve of a binary task: by DeLong, DeLong and Clarke-Pearson 1988. Of several classes it is a
    /// [`Method::Bootstrap`].
    DeLong,
    /// Of all else: percentiles of what the figure is when keys are drawn again and again, with a fixed seed.
    Bootstrap,
}

/// How releases are ranked by a figure.
#[derive(Clone, Copy, Debug)]
pub struct Ranking {
    /// Which way it is better.
    pub better: Direction,
    /// How several days make one value.
    pub merge: Merge,
}

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The greater the better.
    Max,
    /// The less the better.
    Min,
}

/// How the figures of several days make one.
#[derive(Clone, Copy, Debug)]
pub enum Merge {
    /// It is computed from the confusion matrices added up, which is exact. Days of a task without a confusion
    /// matrix merge by their mean, weighted by rows.
    Confusion(fn(&Confusion) -> Option<f64>),
    /// It is computed from the counts of classes added up, which is exact; where not all classes are named, it is the mean of
    /// the days.
    Classes(fn(&Classes) -> Option<f64>),
    /// Of a binary task as the first, of several classes as the second.
    Both(fn(&Confusion) -> Option<f64>, fn(&Classes) -> Option<f64>),
    /// It is computed from the calibration bins added up, which is exact.
    Calibration(fn(&[CalibrationBin]) -> Option<f64>),
    /// It is the mean of the days, weighted by rows, which is exact for a mean of rows.
    Mean,
    /// It is the mean of the days, weighted by rows, for what cannot be merged, such as AUC.
    MeanOfDays,
    /// It is the sum of the days, which is exact.
    Sum,
    /// It is the root of the mean of the days' squares, weighted by rows, which is exact.
    RootMeanSquare,
}

/// A row of evaluations: a release on a day, or a day without predictions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row<'a> {
    /// The release, by name.
    pub name: Option<&'a str>,
    /// How good it was.
    pub release: Option<&'a ReleaseEvaluation>,
    /// Outcomes of the day that fit no prediction.
    pub unmatched: Option<u64>,
}

impl<'a> Row<'a> {
    /// Of a release, whatever its name.
    fn of(release: &'a ReleaseEvaluation) -> Self {
        Self { release: Some(release), ..Self::default() }
    }

    /// How the release was judged.
    fn measures(&self) -> Option<&'a Measures> {
        self.release?.measures.as_ref()
    }

    /// The results of a binary task.
    fn binary(&self) -> Option<&'a Binary> {
        if let Measures::Binary(of) = self.measures()? { Some(of) } else { None }
    }
}

impl Merge {
    /// How it is computed from a confusion matrix.
    pub(crate) fn of_confusion(self) -> Option<fn(&Confusion) -> Option<f64>> {
        if let Self::Confusion(of) | Self::Both(of, _) = self { Some(of) } else { None }
    }

    /// How it is computed from the counts of classes.
    pub(crate) fn of_classes(self) -> Option<fn(&Classes) -> Option<f64>> {
        if let Self::Classes(of) | Self::Both(_, of) = self { Some(of) } else { None }
    }
}

impl Figure {
    /// The figure of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// The number of a row, with `zero_division` where scikit-learn divides by zero and warns; `None`, when it is none.
    pub fn number(&self, row: &Row<'_>, zero_division: Option<f64>) -> Option<f64> {
        match (self.getter, self.divided, zero_division) {
            (_, Some(divided), Some(value)) => divided(row, value),
            (Getter::Number(read), ..) => read(row),
            _ => None,
        }
    }

    /// The count of a release; `None`, when it is none.
    pub fn count(&self, of: &ReleaseEvaluation) -> Option<u64> {
        if let Getter::Count(read) = self.getter { read(&Row::of(of)) } else { None }
    }

    /// Those that releases can be ranked by.
    pub fn ranking_ones() -> impl Iterator<Item = &'static Self> {
        FIGURES.iter().filter(|figure| figure.ranking.is_some())
    }
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Max, Self::Min];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Min => "min",
        }
    }

    /// The direction of a name.
    ///
    /// # Errors
    /// `Invalid`, when it is neither.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|direction| direction.name() == name);
        found.ok_or_else(|| Error::invalid(format!("the direction `{name}` is neither max nor min")))
    }
}

impl PartialEq for Figure {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Figure {}

impl fmt::Debug for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Evaluation {
    /// Its rows: one for each release. A day without predictions has one if there are outcomes, as these have no
    /// release to stand with.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let unmatched = self.unmatched;
        let releases = self.releases.iter();
        let rows =
            releases.map(move |(name, release)| Row { name: Some(name), release: Some(release), unmatched });
        let is_alone = self.releases.is_empty() && unmatched.is_some_and(|unmatched| unmatched > 0);
        rows.chain(is_alone.then_some(Row { unmatched, ..Row::default() }))
    }
}

impl ReleaseEvaluation {
    /// The value of a figure; `None`, when the task of the release has none, or nothing was judged.
    pub fn figure(&self, figure: &Figure) -> Option<f64> {
        if let Getter::Number(read) = figure.getter { read(&Row::of(self)) } else { None }
    }

    /// What a test of a figure needs; `None`, where that is not known or nothing was judged.
    pub fn evidence(&self, figure: &Figure) -> Option<Evidence> {
        (figure.evidence?)(&Row::of(self))
    }

    /// How many predictions a figure is made of.
    pub fn judged_by(&self, figure: &Figure) -> u64 {
        match (self.measures.as_ref(), figure.of) {
            (Some(Measures::Binary(of)), Of::Judged) => of.confusion.n(),
            (Some(Measures::Binary(of)), Of::Scored) => of.scored,
            (Some(Measures::Binary(of)), Of::Priced) => of.worth.map_or(0, |worth| worth.n),
            (Some(Measures::Multiclass(of)), Of::Judged) => of.judged,
            (Some(Measures::Multiclass(of)), Of::Scored) => of.scores.map_or(0, |scores| scores.scored),
            (Some(Measures::Regression(of)), Of::Judged) => of.judged,
            (Some(Measures::Regression(of)), Of::Bounded) => of.bounds.map_or(0, |bounds| bounds.n),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
