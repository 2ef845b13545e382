//! The rows that can be read: events, and results computed from them.

use catalog::SNAPSHOTS_OF;
use event::{Error, Kind, Result, fields::TAG_PREFIX};

use crate::row_filter::KEY;

/// The rows to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dataset {
    /// Events of a kind.
    Events(Kind),
    /// Predictions with the outcomes that label them.
    Joined,
    /// Daily counts and sums.
    Rollups,
    /// Daily metrics of the quality of predictions.
    Evaluations,
    /// Daily metrics of each class.
    Classes,
    /// Daily counts of predicted class by true class.
    Confusion,
    /// Distance of the columns of predictions from those of other days.
    Drift,
    /// Maturity of each day.
    Maturity,
    /// Expected metrics before there are labels.
    Estimates,
    /// The dimensions of releases in which they are worst.
    Slices,
    /// Comparison of two releases on predictions of the same.
    HeadToHead,
    /// The live release of a model against each other one that predicts beside it.
    Challengers,
}

impl Dataset {
    /// Returns the tables of SQL: all that need no more than a window, and whose rows do not depend on the other rows read.
    pub fn tables() -> impl Iterator<Item = Self> {
        Self::all().filter(|what| {
            !matches!(what, Dataset::HeadToHead | Dataset::Challengers | Dataset::Estimates | Dataset::Slices)
        })
    }

    /// Returns all of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.map(Dataset::Events).into_iter().chain([
            Dataset::Joined,
            Dataset::Rollups,
            Dataset::Evaluations,
            Dataset::Classes,
            Dataset::Confusion,
            Dataset::Drift,
            Dataset::Maturity,
            Dataset::Estimates,
            Dataset::Slices,
            Dataset::HeadToHead,
            Dataset::Challengers,
        ])
    }

    /// Returns its fixed facts.
    pub(crate) fn facts(self) -> Facts {
        const JUDGED: &[Kind] = &[Kind::Predictions, Kind::Outcomes];
        let (name, kinds, is_stored, summary): (_, &[Kind], _, _) = match self {
            Dataset::Events(kind) => return Facts::of_events(kind),
            Dataset::Joined => {
                ("joined", JUDGED, false, "Query predictions with the outcomes that judge them")
            }
            Dataset::Rollups => (
                "rollups",
                &Kind::ALL,
                true,
                "Query daily counts, sums and quantiles, by release, metric, tag or feature",
            ),
            Dataset::Evaluations => {
                ("evaluations", JUDGED, true, "Query how good the predictions were, by day and release")
            }
            Dataset::Classes => (
                "classes",
                JUDGED,
                true,
                "Query how good the predictions of each class were, by day and release",
            ),
            Dataset::Confusion => {
                ("confusion", JUDGED, true, "Query which class was taken for which, by day and release")
            }
            Dataset::Drift => (
                "drift",
                &[],
                true,
                "Query how far scores, labels, values, tags and features are from those of a reference",
            ),
            Dataset::Maturity => (
                "maturity",
                JUDGED,
                false,
                "Query how much of the truth had come when each day was an hour, days and weeks old",
            ),
            Dataset::Estimates => (
                "estimates",
                JUDGED,
                false,
                "Query how good predictions are expected to be without their outcomes, by day and release",
            ),
            Dataset::Slices => (
                "slices",
                JUDGED,
                true,
                "Query in which values of the declared dimensions the predictions of a release are worst",
            ),
            Dataset::HeadToHead => (
                "head-to-head",
                JUDGED,
                false,
                "Query which of two releases is better where both predicted the same",
            ),
            Dataset::Challengers => (
                "challengers",
                JUDGED,
                false,
                "Query which release is better than the live one of a model, where both predicted the same",
            ),
        };
        Facts { name, kinds, is_stored, summary }
    }

    /// Returns its name, as in paths and commands.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the kinds of events that it is made of, if it is ever read from the logs; else none.
    pub fn kinds(self) -> &'static [Kind] {
        self.facts().kinds
    }

    /// Returns true if it is made from evaluations.
    pub(crate) fn is_judged(self) -> bool {
        matches!(
            self,
            Dataset::Evaluations
                | Dataset::Classes
                | Dataset::Confusion
                | Dataset::Maturity
                | Dataset::Estimates
                | Dataset::Slices
                | Dataset::HeadToHead
                | Dataset::Challengers
        )
    }

    /// Returns the kind of the events that are its rows; `None`, if rows are made from several events.
    pub(crate) fn rows_of(self) -> Option<Kind> {
        match self {
            Dataset::Events(kind) => Some(kind),
            Dataset::Joined => Some(Kind::Predictions),
            _ => None,
        }
    }

    /// Returns true if it includes events that no evaluation could use.
    pub(crate) fn is_raw(self) -> bool {
        matches!(self, Dataset::Events(_) | Dataset::Rollups)
    }

    /// Returns true if the vintages of expired days answer it.
    pub(crate) fn is_kept_at_ages(self) -> bool {
        matches!(self, Dataset::Rollups | Dataset::Evaluations | Dataset::Classes | Dataset::Confusion)
    }

    /// Returns the names of the parameters that it takes, in the order in which they are described.
    pub(crate) fn parameters(self) -> impl Iterator<Item = &'static str> {
        let kind = self.rows_of();
        let has_key = kind.is_some_and(|kind| kind.field(KEY).is_some());
        let has_tags =
            kind.is_some_and(|kind| kind.families().iter().any(|family| family.prefix == TAG_PREFIX));
        let of_rows = |names, is_there: bool| if is_there { names } else { "" };
        let own = match self {
            Dataset::Events(_) => "limit after order",
            Dataset::Joined => "limit order",
            Dataset::Rollups => "group-by change",
            Dataset::Evaluations => {
                "where tag key group-by bins environment shadow period time-zone threshold costs zero-division interval min-completeness change"
            }
            Dataset::Classes => {
                "where tag key group-by bins environment shadow period time-zone threshold zero-division change"
            }
            Dataset::Confusion => {
                "where tag key group-by bins environment shadow period time-zone threshold change"
            }
            Dataset::Drift => "reference period exact as-of read-version column change",
            Dataset::Maturity => "group-by bins threshold zero-division after-prediction nowcast change",
            Dataset::Estimates => "reference group-by bins period threshold costs change",
            Dataset::Slices => "metric pairs threshold",
            Dataset::HeadToHead => "against where tag key group-by bins period time-zone threshold",
            Dataset::Challengers => "model environment threshold",
        };
        let names = [
            "from to last",
            of_rows("release", self.has_releases()),
            "columns",
            of_rows("as-of read-version", self.has_history()),
            of_rows("snapshot", SNAPSHOTS_OF.contains(&self.name())),
            of_rows("where", kind.is_some()),
            of_rows("tag", has_tags),
            of_rows("key sample", has_key),
            own,
            "format explain",
        ];
        names.into_iter().flat_map(str::split_whitespace)
    }

    /// Returns true if it takes a parameter.
    pub(crate) fn takes(self, name: &str) -> bool {
        self.parameters().any(|one| one == name)
    }

    /// Refuses a parameter that would have no effect.
    ///
    /// # Errors
    /// `Invalid`, naming what takes it.
    pub(crate) fn check_takes(self, name: &str) -> Result<()> {
        if self.takes(name) {
            return Ok(());
        }
        let others: Vec<&str> = Self::all().filter(|what| what.takes(name)).map(Self::name).collect();
        let others =
            if others.is_empty() { String::new() } else { format!("; it is of {}", others.join(", ")) };
        Err(Error::invalid(format!("{name}: `{}` does not take it{others}", self.name())))
    }

    /// Returns its summary in the document of the API.
    pub(crate) fn summary(self) -> &'static str {
        self.facts().summary
    }

    /// Returns true if parts of it stay when the events of its days expire.
    pub(crate) fn stays(self) -> bool {
        !matches!(self, Dataset::Events(_) | Dataset::Joined)
    }

    /// Returns true if it can be requested as of another time.
    pub(crate) fn has_history(self) -> bool {
        !self.kinds().is_empty()
    }

    /// Parses a name.
    ///
    /// # Errors
    /// `Invalid`, listing the existing names.
    pub fn parse(name: &str) -> Result<Self> {
        Self::all().find(|what| what.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::all().map(Self::name).collect();
            Error::invalid(format!("`{name}` cannot be queried; there are {}", names.join(", ")))
        })
    }
}

/// The fixed facts of a [`Dataset`].
pub(crate) struct Facts {
    name: &'static str,
    kinds: &'static [Kind],
    /// True if the current state is read from the projections.
    pub(crate) is_stored: bool,
    /// Summary in the document of the API.
    summary: &'static str,
}

impl Facts {
    fn of_events(kind: Kind) -> Self {
        let (kinds, summary): (&[Kind], _) = match kind {
            Kind::Predictions => (&[Kind::Predictions], "Query predictions of a window of days"),
            Kind::Outcomes => (&[Kind::Outcomes], "Query outcomes of a window of days"),
            Kind::Metrics => (&[Kind::Metrics], "Query metrics of a window of days"),
            Kind::Releases => (&[Kind::Releases], "Query releases of a window of days"),
            Kind::Unmatched => {
                (&[Kind::Unmatched], "Query unmatched outcomes of a window of days of arrival")
            }
        };
        Self { name: kind.name(), kinds, is_stored: false, summary }
    }
}
