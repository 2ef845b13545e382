//! The rollup of one workspace and day, and its breakdowns by release, metric, tag and feature.
//!
//! They keep exact values only (integers, fixed-point sums, extremes, counts of bins), never a mean or another
//! rounded result: those are derived when they are read. So folding a log in any pieces and in any order, and merging
//! the pieces, gives the same state byte for byte.
//!
//! The [`Rollup`] itself is a few KB. Data that grows with the number of releases, metrics, tags and features is cut
//! into [`Part`]s by a hash of the name, each of them a projection with a bound of its own ([`MAX_PART_BYTES`]).

pub mod bounded;
pub mod feature;
mod fold;
mod groups;
pub mod logged;
mod moments;
pub mod numbers;
pub mod parts;
pub mod release;
mod sums;
pub mod tag;

use std::collections::BTreeMap;

use event::{
    Kind,
    lane::{Breakdown, By},
};
use serde::{Deserialize, Serialize};

use crate::{LogSegment, Result, state};

pub use bounded::{Bounded, Merge};
pub use feature::{Feature, FeatureNumbers, FeaturePart};
pub use logged::{LoggedMetricRollup, MetricPart, Series};
pub(crate) use moments::Moments;
pub use numbers::{Bins, Distribution, Headline, NumberRollup, SCORE_BINS};
pub use parts::{MetricRollup, OutcomeRollup, PredictionRollup, ReleaseRollup};
pub use release::{ReleaseCounts, ReleaseDetail, ReleaseNumbers, ReleasePart};
pub use tag::{TagCounts, TagPart, TagScores, TagValues};

/// Maximum number of bytes of a rollup.
pub const MAX_ROLLUP_BYTES: usize = 72 * 1024;

/// Maximum number of bytes of a part. An item of DynamoDB may have 400 KB.
pub const MAX_PART_BYTES: usize = 340 * 1024;

/// Projection that the events of a day are folded into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folding {
    /// The rollup, and the parts by release, metric and tag.
    Rollup,
    /// The parts by feature. Their rollup only counts the predictions of each release, as the denominator.
    Features,
}

impl Folding {
    /// Returns whether it needs the column `name` of events of a kind.
    pub fn wants(self, kind: Kind, name: &str) -> bool {
        match self {
            Self::Rollup => kind.is_rolled_up(name),
            Self::Features => {
                kind == Kind::Predictions && (name == "release" || kind.sketched(name).is_some())
            }
        }
    }
}

/// Sums of the events of one workspace and day.
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
    /// Number of these events with erased keys.
    #[serde(default, skip_serializing_if = "state::is_default")]
    pub erased: u64,
}

impl Rollup {
    /// Returns the number of events of a kind. Unmatched outcomes are counted on the days that they label, as outcomes.
    pub fn events(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Predictions => self.predictions.total.n,
            Kind::Outcomes => self.outcomes.n,
            Kind::Metrics => self.metrics.n,
            Kind::Releases => self.releases.n,
            Kind::Unmatched => 0,
        }
    }

    /// Returns its text: JSON without white space, keys in order, the same for the same events.
    pub fn to_state(&self) -> String {
        state::write(self)
    }

    /// Reads the text of a rollup.
    ///
    /// # Errors
    /// If the text is no state of this version.
    pub fn from_state(text: &str) -> Result<Self> {
        state::read("a rollup", text)
    }
}

impl Merge for Rollup {
    fn merge(&mut self, other: &Self) {
        self.predictions.merge(&other.predictions);
        self.outcomes.merge(&other.outcomes);
        self.metrics.merge(&other.metrics);
        self.releases.merge(&other.releases);
        self.erased += other.erased;
    }
}

/// A part of a breakdown.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Releases.
    Release(Box<ReleasePart>),
    /// Metrics.
    Metric(Box<MetricPart>),
    /// Tags.
    Tag(Box<TagPart>),
    /// Features.
    Feature(Box<FeaturePart>),
}

impl Part {
    /// Creates an empty part.
    pub fn of(by: By) -> Self {
        match by {
            By::Release => Self::Release(Box::default()),
            By::Metric => Self::Metric(Box::default()),
            By::Tag => Self::Tag(Box::default()),
            By::Feature => Self::Feature(Box::default()),
        }
    }

    /// Returns its text: JSON without white space, keys in order, the same for the same events.
    pub fn to_state(&self) -> String {
        match self {
            Self::Release(part) => state::write(part),
            Self::Metric(part) => state::write(part),
            Self::Tag(part) => state::write(part),
            Self::Feature(part) => state::write(part),
        }
    }

    /// Reads the text of a part.
    ///
    /// # Errors
    /// If the text is no state of this version.
    pub fn from_state(by: By, text: &str) -> Result<Self> {
        Ok(match by {
            By::Release => Self::Release(state::read("a breakdown by release", text)?),
            By::Metric => Self::Metric(state::read("a breakdown by metric", text)?),
            By::Tag => Self::Tag(state::read("a breakdown by tag", text)?),
            By::Feature => Self::Feature(state::read("a breakdown by feature", text)?),
        })
    }
}

/// Adds a part of the same kind; parts of different kinds are never merged.
impl Merge for Part {
    fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Release(this), Self::Release(other)) => this.merge(other.as_ref()),
            (Self::Metric(this), Self::Metric(other)) => this.merge(other.as_ref()),
            (Self::Tag(this), Self::Tag(other)) => this.merge(other.as_ref()),
            (Self::Feature(this), Self::Feature(other)) => this.merge(other.as_ref()),
            _ => debug_assert!(false, "a part is merged with one of another breakdown"),
        }
    }
}

/// Contribution of one or more segments to a day: to its rollup, and to the parts that they touch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// The rollup of the segment.
    pub rollup: Rollup,
    /// The parts that it touches.
    pub parts: BTreeMap<Breakdown, Part>,
}

impl Delta {
    /// Folds a segment into the rollup and its parts.
    ///
    /// # Errors
    /// Fails if the columns are not as the kind requires, or a number is not finite.
    pub fn of(kind: Kind, segment: LogSegment<'_>) -> Result<Self> {
        Self::folded(Folding::Rollup, kind, segment)
    }

    /// Folds a segment.
    ///
    /// # Errors
    /// See [`Delta::of`].
    pub fn folded(to: Folding, kind: Kind, segment: LogSegment<'_>) -> Result<Self> {
        match to {
            Folding::Rollup => fold::segment(kind, segment),
            Folding::Features => fold::features(kind, segment.columns),
        }
    }
}

impl Merge for Delta {
    fn merge(&mut self, other: &Self) {
        self.rollup.merge(&other.rollup);
        for (breakdown, part) in &other.parts {
            self.parts.entry(*breakdown).or_insert_with(|| Part::of(breakdown.by)).merge(part);
        }
    }
}

/// Returns the number of events of each kind that name each release.
pub fn release_counts<'a>(
    parts: impl IntoIterator<Item = &'a Part>,
) -> impl Iterator<Item = (&'a str, &'a ReleaseCounts)> {
    let releases = parts.into_iter().filter_map(|part| match part {
        Part::Release(part) => Some(part),
        Part::Metric(_) | Part::Tag(_) | Part::Feature(_) => None,
    });
    releases.flat_map(|part| part.counts.names()).map(|(name, counts)| (name.as_str(), counts))
}

#[cfg(test)]
mod tests;
