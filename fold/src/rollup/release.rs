//! Breakdown by release.

use event::Kind;
use serde::{Deserialize, Serialize};

use super::{
    bounded::{Bounded, Cell, Merge, Optional},
    numbers::{Bins, Distribution, Headline, NumberRollup},
};

/// Bytes of the sketch of a release's scores, values or latencies.
pub const RELEASE_SKETCH_BYTES: usize = 3 * 1024;

/// Bytes for the counts of events, which feed the counters: some hundred releases in one of 256 items.
pub const COUNTS_BUDGET: usize = 64 * 1024;

/// Bytes for the details of releases.
pub const DETAILS_BUDGET: usize = 240 * 1024;

/// Bytes for the labels of one release.
pub const LABELS_BUDGET: usize = 6 * 1024;

/// Bytes for the actions on one release.
pub const ACTIONS_BUDGET: usize = 1024;

/// Metrics of numbers of one release, with quantiles.
pub type ReleaseNumbers = Distribution<RELEASE_SKETCH_BYTES>;

/// Number of events that name a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseCounts {
    /// Predictions.
    pub p: u64,
    /// Metric observations.
    pub m: u64,
    /// Changes.
    pub r: u64,
}

impl ReleaseCounts {
    /// Returns the count of a kind; outcomes name no release, nor do unmatched ones.
    pub fn of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Predictions => self.p,
            Kind::Outcomes | Kind::Unmatched => 0,
            Kind::Metrics => self.m,
            Kind::Releases => self.r,
        }
    }

    /// Counts `n` events of a kind.
    pub(super) fn new(kind: Kind, n: u64) -> Self {
        match kind {
            Kind::Predictions => Self { p: n, ..Self::default() },
            Kind::Outcomes | Kind::Unmatched => Self::default(),
            Kind::Metrics => Self { m: n, ..Self::default() },
            Kind::Releases => Self { r: n, ..Self::default() },
        }
    }
}

impl Merge for ReleaseCounts {
    fn merge(&mut self, other: &Self) {
        self.p = self.p.saturating_add(other.p);
        self.m = self.m.saturating_add(other.m);
        self.r = self.r.saturating_add(other.r);
    }
}

impl Cell for ReleaseCounts {
    const MAX_BYTES: usize = 3 * 24 + 4;
}

/// Predictions of one release, and the actions on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReleaseDetail {
    /// Number of predictions.
    pub n: u64,
    /// Number of predictions with a label.
    pub labelled: u64,
    /// Their scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<ReleaseNumbers>,
    /// Their scores by bin.
    #[serde(default, skip_serializing_if = "Bins::is_empty")]
    pub score_bins: Bins,
    /// Their values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<ReleaseNumbers>,
    /// Their latencies, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<ReleaseNumbers>,
    /// Number of predictions by label.
    #[serde(default, skip_serializing_if = "Bounded::is_empty")]
    pub labels: Bounded<u64, LABELS_BUDGET>,
    /// Number of changes by action.
    #[serde(default, skip_serializing_if = "Bounded::is_empty")]
    pub actions: Bounded<u64, ACTIONS_BUDGET>,
}

impl ReleaseDetail {
    /// Returns the numbers without sketches, bins and names.
    pub fn headline(&self) -> Headline {
        let numbers = |of: &Option<ReleaseNumbers>| -> Option<NumberRollup> {
            of.as_ref().map(|distribution| distribution.numbers.clone())
        };
        Headline {
            n: self.n,
            labelled: self.labelled,
            score: numbers(&self.score),
            value: numbers(&self.value),
            latency: numbers(&self.latency),
        }
    }
}

impl Merge for ReleaseDetail {
    fn merge(&mut self, other: &Self) {
        self.n = self.n.saturating_add(other.n);
        self.labelled = self.labelled.saturating_add(other.labelled);
        self.score.merge(&other.score);
        self.score_bins.merge(&other.score_bins);
        self.value.merge(&other.value);
        self.latency.merge(&other.latency);
        self.labels.merge(&other.labels);
        self.actions.merge(&other.actions);
    }
}

impl Cell for ReleaseDetail {
    const MAX_BYTES: usize = 2 * 20
        + 3 * ReleaseNumbers::MAX_TEXT
        + Bins::MAX_TEXT
        + Bounded::<u64, LABELS_BUDGET>::MAX_TEXT
        + Bounded::<u64, ACTIONS_BUDGET>::MAX_TEXT
        + 120;
    const LEAST_BYTES: usize = 2 * 20 + 120;

    fn weight(&self) -> usize {
        let numbers = [&self.score, &self.value, &self.latency].into_iter().flatten();
        let bins = if self.score_bins.is_empty() { 0 } else { Bins::MAX_TEXT };
        let names = self.labels.weight() + self.actions.weight();
        Self::LEAST_BYTES + numbers.map(ReleaseNumbers::weight).sum::<usize>() + bins + names
    }
}

/// Releases whose names have the same hash modulo [`event::lane::BREAKDOWN_BUCKETS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReleasePart {
    /// Number of events that name each release.
    pub counts: Bounded<ReleaseCounts, COUNTS_BUDGET>,
    /// Details of each release.
    pub details: Bounded<ReleaseDetail, DETAILS_BUDGET>,
}

impl ReleasePart {
    /// Maximum number of bytes of its text.
    pub const MAX_TEXT: usize = Bounded::<ReleaseCounts, COUNTS_BUDGET>::MAX_TEXT
        + Bounded::<ReleaseDetail, DETAILS_BUDGET>::MAX_TEXT
        + 40;
}

impl Merge for ReleasePart {
    fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.details.merge(&other.details);
    }
}
