//! What can be read: events, and what is made of them.

use event::{Error, Kind, Result};

use crate::narrow::{KEY, WHERE};

/// What to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Events of a kind.
    Events(Kind),
    /// Predictions with the outcomes that judge them.
    Joined,
    /// Daily counts and sums.
    Rollups,
    /// Daily figures of how good the predictions were.
    Evaluations,
    /// Daily figures of each class.
    Classes,
    /// Which class was taken for which on a day, and how often.
    Confusion,
    /// How far the columns of predictions are from those of other days.
    Drift,
    /// How far the truth of each day has come.
    Maturity,
    /// What figures are expected to be before there is truth.
    Estimates,
    /// The splits of releases in which they are worst.
    Segments,
    /// Two releases where both predicted the same.
    HeadToHead,
    /// The live release of a model against each other one that predicts beside it.
    Challengers,
}

impl What {
    /// The tables of SQL: all that needs no more than a window, and of which a row says the same whichever others are read.
    pub fn tables() -> impl Iterator<Item = Self> {
        Self::all().filter(|what| {
            !matches!(what, What::HeadToHead | What::Challengers | What::Estimates | What::Segments)
        })
    }

    /// All that can be read.
    pub fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.map(What::Events).into_iter().chain([
            What::Joined,
            What::Rollups,
            What::Evaluations,
            What::Classes,
            What::Confusion,
            What::Drift,
            What::Maturity,
            What::Estimates,
            What::Segments,
            What::HeadToHead,
            What::Challengers,
        ])
    }

    /// What there is to know of each before it is read.
    pub(crate) fn facts(self) -> Facts {
        const JUDGED: &[Kind] = &[Kind::Predictions, Kind::Outcomes];
        let (name, kinds, is_stored, summary): (_, &[Kind], _, _) = match self {
            What::Events(kind) => return Facts::of_events(kind),
            What::Joined => ("joined", JUDGED, false, "Query predictions with the outcomes that judge them"),
            What::Rollups => (
                "rollups",
                &Kind::ALL,
                true,
                "Query daily counts, sums and quantiles, by release, metric, tag or feature",
            ),
            What::Evaluations => {
                ("evaluations", JUDGED, true, "Query how good the predictions were, by day and release")
            }
            What::Classes => (
                "classes",
                JUDGED,
                true,
                "Query how good the predictions of each class were, by day and release",
            ),
            What::Confusion => {
                ("confusion", JUDGED, true, "Query which class was taken for which, by day and release")
            }
            What::Drift => (
                "drift",
                &[],
                true,
                "Query how far scores, labels, values, tags and features are from those of a reference",
            ),
            What::Maturity => (
                "maturity",
                JUDGED,
                false,
                "Query how much of the truth had come when each day was an hour, days and weeks old",
            ),
            What::Estimates => (
                "estimates",
                JUDGED,
                false,
                "Query how good predictions are expected to be without their outcomes, by day and release",
            ),
            What::Segments => (
                "segments",
                JUDGED,
                true,
                "Query in which values of the declared splits the predictions of a release are worst",
            ),
            What::HeadToHead => (
                "head-to-head",
                JUDGED,
                false,
                "Query which of two releases is better where both predicted the same",
            ),
            What::Challengers => (
                "challengers",
                JUDGED,
                false,
                "Query which release is better than the live one of a model, where both predicted the same",
            ),
        };
        Facts { name, kinds, is_stored, summary }
    }

    /// Its name, as in paths and commands.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// The kinds of events that it is made of, when it is read from the logs; none, when it never is.
    pub fn kinds(self) -> &'static [Kind] {
        self.facts().kinds
    }

    /// Whether it is made of evaluations.
    pub(crate) fn is_judged(self) -> bool {
        matches!(
            self,
            What::Evaluations
                | What::Classes
                | What::Confusion
                | What::Maturity
                | What::Estimates
                | What::Segments
                | What::HeadToHead
                | What::Challengers
        )
    }

    /// The kind of events of which each of its rows is one; `None`, where rows are made of several.
    pub(crate) fn rows_of(self) -> Option<Kind> {
        match self {
            What::Events(kind) => Some(kind),
            What::Joined => Some(Kind::Predictions),
            _ => None,
        }
    }

    /// Whether it has events that no evaluation could use.
    pub(crate) fn is_raw(self) -> bool {
        matches!(self, What::Events(_) | What::Rollups)
    }

    /// Whether it is told of a day whose events have expired as it stood at an age of the day.
    pub(crate) fn is_kept_at_ages(self) -> bool {
        matches!(self, What::Rollups | What::Evaluations | What::Classes | What::Confusion)
    }

    /// Whether it takes a word that only what is made of evaluations takes.
    pub(crate) fn takes(self, word: &str) -> bool {
        match word {
            "interval" | "mature" => self == What::Evaluations,
            "costs" => matches!(self, What::Evaluations | What::Estimates),
            "reference" => matches!(self, What::Drift | What::Estimates),
            "exact" | "column" => self == What::Drift,
            "after-prediction" => self == What::Maturity,
            "by" | "bins" => self.is_judged() && !matches!(self, What::Segments | What::Challengers),
            "environment" | "shadow" => {
                matches!(self, What::Evaluations | What::Classes | What::Confusion)
            }
            "group-by" => {
                matches!(self, What::Evaluations | What::Classes | What::Confusion | What::Drift)
                    || matches!(self, What::Estimates | What::HeadToHead)
            }
            "time-zone" => {
                matches!(self, What::Evaluations | What::Classes | What::Confusion | What::HeadToHead)
            }
            "change" => {
                matches!(self, What::Rollups | What::Evaluations | What::Classes | What::Confusion)
                    || matches!(self, What::Drift | What::Estimates | What::Maturity)
            }
            "zero-division" => matches!(self, What::Evaluations | What::Classes | What::Maturity),
            _ => self.is_judged(),
        }
    }

    /// Whether it judges only predictions that a word says.
    pub(crate) fn judges_only(self, word: &str) -> bool {
        matches!(self, What::Evaluations | What::Classes | What::Confusion | What::HeadToHead)
            && [WHERE, "tag", KEY].contains(&word)
    }

    /// What it answers, in the document of the API.
    pub(crate) fn summary(self) -> &'static str {
        self.facts().summary
    }

    /// Whether something of it stays when the events of its days expire.
    pub(crate) fn stays(self) -> bool {
        !matches!(self, What::Events(_) | What::Joined)
    }

    /// Whether it can be asked for as it was known at another time.
    pub(crate) fn has_history(self) -> bool {
        !self.kinds().is_empty()
    }

    /// Reads a name.
    ///
    /// # Errors
    /// `Invalid`, naming what there is.
    pub fn parse(name: &str) -> Result<Self> {
        Self::all().find(|what| what.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::all().map(Self::name).collect();
            Error::invalid(format!("`{name}` cannot be queried; there are {}", names.join(", ")))
        })
    }
}

/// What there is to know of something that can be read.
pub(crate) struct Facts {
    name: &'static str,
    kinds: &'static [Kind],
    /// Whether what is of now is read from the projections.
    pub(crate) is_stored: bool,
    /// What it answers, in the document of the API.
    summary: &'static str,
}

impl Facts {
    fn of_events(kind: Kind) -> Self {
        let (kinds, summary): (&[Kind], _) = match kind {
            Kind::Predictions => (&[Kind::Predictions], "Query predictions of a window of days"),
            Kind::Outcomes => (&[Kind::Outcomes], "Query outcomes of a window of days"),
            Kind::Metrics => (&[Kind::Metrics], "Query metrics of a window of days"),
            Kind::Releases => (&[Kind::Releases], "Query releases of a window of days"),
            Kind::Pending => (&[Kind::Pending], "Query pending outcomes of a window of days of arrival"),
        };
        Self { name: kind.name(), kinds, is_stored: false, summary }
    }
}
