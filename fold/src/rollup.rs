//! The rollup of one workspace and day: counts, sums, extremes and histograms, by release.
//!
//! It keeps exact things only (whole numbers, [`crate::ExactSum`], extremes), never a mean or another
//! rounded result: those are derived when they are read. So folding a log in any pieces and in any
//! order, and merging the pieces, gives the same state byte for byte.

mod breakdown;
mod fold;
mod groups;
mod parts;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use store::{Columns, Kind};

pub use breakdown::{Breakdown, Merge};
pub use parts::{
    Labels, MetricRollup, NumberRollup, OutcomeRollup, PredictionRollup, ReleasePredictions, ReleaseRollup,
    SCORE_BINS, Series,
};

use crate::{Result, state};

/// Version of the text of a rollup.
const STATE_VERSION: u32 = 1;

/// More releases than this in one day, and predictions (or release changes, or a metric) are no
/// longer broken down by release. It keeps a rollup far below the 400 KB of a DynamoDB item.
pub const MAX_RELEASES: usize = 500;

/// More distinct labels than this in one day, and labels are no longer counted one by one.
pub const MAX_LABELS: usize = 100;

/// More differently named metrics than this in one day, and metrics are only counted.
pub const MAX_METRICS: usize = 500;

/// The columns that [`Rollup::fold`] needs of each kind.
pub const fn columns(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Predictions => &["release", "score", "label", "value"],
        Kind::Outcomes => &["label", "value"],
        Kind::Metrics => &["name", "measured_at", "value", "release"],
        Kind::Releases => &["release", "action"],
    }
}

/// What the events of one workspace and day add up to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rollup {
    /// All predictions, also repeated ones.
    pub predictions: PredictionRollup,
    /// All outcomes, also corrected ones.
    pub outcomes: OutcomeRollup,
    /// All metric observations.
    pub metrics: MetricRollup,
    /// All release changes.
    pub releases: ReleaseRollup,
}

impl Rollup {
    /// Adds the events of a segment.
    ///
    /// # Errors
    /// When the columns are not what the kind must have, or a number is not finite. Then `self` is
    /// as it was.
    pub fn fold(&mut self, kind: Kind, columns: &Columns) -> Result<()> {
        if columns.rows == 0 {
            return Ok(());
        }
        match kind {
            Kind::Predictions => self.predictions.merge(&fold::predictions(columns)?),
            Kind::Outcomes => self.outcomes.merge(&fold::outcomes(columns)?),
            Kind::Metrics => self.metrics.merge(&fold::metrics(columns)?),
            Kind::Releases => self.releases.merge(&fold::releases(columns)?),
        }
        Ok(())
    }

    /// Adds the events of another part of the same day.
    pub fn merge(&mut self, other: &Self) {
        self.predictions.merge(&other.predictions);
        self.outcomes.merge(&other.outcomes);
        self.metrics.merge(&other.metrics);
        self.releases.merge(&other.releases);
    }

    /// How many events of a kind there are.
    pub fn events(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Predictions => self.predictions.n,
            Kind::Outcomes => self.outcomes.n,
            Kind::Metrics => self.metrics.n,
            Kind::Releases => self.releases.n,
        }
    }

    /// How many events of a kind name each release. None for outcomes, which name no release, and
    /// none when there were too many releases ([`MAX_RELEASES`]) to tell them apart.
    pub fn events_by_release(&self, kind: Kind) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::<String, u64>::new();
        let mut count = |release: &str, n: u64| *counts.entry(release.to_owned()).or_default() += n;
        match kind {
            Kind::Predictions => {
                self.predictions.releases.iter().for_each(|(release, part)| count(release, part.n))
            }
            Kind::Outcomes => {}
            Kind::Metrics => {
                let series = self.metrics.names.iter().flat_map(|(_, releases)| releases.iter());
                let named = series.filter(|(release, _)| !release.is_empty());
                named.for_each(|(release, series)| count(release, series.numbers.n));
            }
            Kind::Releases => {
                self.releases.releases.iter().for_each(|(release, part)| count(release, part.n))
            }
        }
        counts
    }

    /// Its text: JSON without white space, keys in order, the same for the same events.
    pub fn to_state(&self) -> String {
        state::write(STATE_VERSION, self)
    }

    /// Reads the text of a rollup. Every older version is understood here and nowhere else.
    ///
    /// # Errors
    /// When it is not such a text, or of a version that is not known.
    pub fn from_state(text: &str) -> Result<Self> {
        state::read("a rollup", STATE_VERSION, text)
    }
}

#[cfg(test)]
mod tests;
