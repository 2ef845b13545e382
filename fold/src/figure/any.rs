//! A figure by its name: one of the table, or one that a model defines.

use event::{Error, Result, custom::CUSTOM_FIGURES, id::check_name};

use super::{Direction, Figure, Merge};
use crate::evaluation::ReleaseEvaluation;

/// A figure of the table, or one that a model defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyFigure {
    /// One of the table.
    Declared(&'static Figure),
    /// One that models define, by the name of its column.
    Custom(String),
}

impl AnyFigure {
    /// The figure of a name. Whether a model defines a custom figure is not asked.
    pub fn named(name: &str) -> Option<Self> {
        match CUSTOM_FIGURES.member(name) {
            Some(member) => check_name(member).is_ok().then(|| Self::Custom(name.to_owned())),
            None => Figure::named(name).map(Self::Declared),
        }
    }

    /// The figure of a name to rank releases by, and which way it is better. Of a custom figure the greater value is the
    /// better one, unless `direction` says otherwise.
    ///
    /// # Errors
    /// `Invalid`, naming those there are.
    pub fn to_rank_by(name: &str, direction: Option<Direction>) -> Result<(Self, Direction)> {
        let found = Self::named(name).and_then(|figure| {
            let better = match &figure {
                Self::Declared(figure) => figure.ranking?.better,
                Self::Custom(_) => Direction::Max,
            };
            Some((figure, direction.unwrap_or(better)))
        });
        found.ok_or_else(|| {
            let known = Figure::ranking_ones().map(|figure| figure.name).collect::<Vec<_>>().join(", ");
            let custom = CUSTOM_FIGURES.columns_are_called();
            Error::invalid(format!("`{name}` is no metric to rank by; there are {known} and {custom}"))
        })
    }

    /// Its name, which is that of its column.
    pub fn name(&self) -> &str {
        match self {
            Self::Declared(figure) => figure.name,
            Self::Custom(column) => column,
        }
    }

    /// Its value; `None`, where it is not defined.
    pub fn of(&self, release: &ReleaseEvaluation) -> Option<f64> {
        match self {
            Self::Declared(figure) => release.figure(figure),
            Self::Custom(column) => release.custom.get(CUSTOM_FIGURES.member(column)?)?.value,
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
        }
    }
}

impl From<&'static Figure> for AnyFigure {
    fn from(figure: &'static Figure) -> Self {
        Self::Declared(figure)
    }
}
