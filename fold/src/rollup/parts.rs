//! What the rollup of a day is made of, besides its breakdowns.

use serde::{Deserialize, Serialize};

use super::{
    bounded::{Bounded, Merge},
    numbers::{Bins, Headline, NumberRollup},
};

/// Bytes for the headline figures of releases: about 20 of them. All releases are in
/// [`super::release::ReleasePart`].
pub const RELEASES_BUDGET: usize = 24 * 1024;

/// Bytes for the counts of labels, of metric names, of actions.
pub const NAMES_BUDGET: usize = 8 * 1024;

/// How often each label (or name, or action) occurs.
pub type Counts = Bounded<u64, NAMES_BUDGET>;

/// All predictions, also repeated ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictionRollup {
    /// All of them together.
    pub total: Headline,
    /// Their scores.
    #[serde(default, skip_serializing_if = "Bins::is_empty")]
    pub score_bins: Bins,
    /// Those of each release.
    pub releases: Bounded<Headline, RELEASES_BUDGET>,
}

impl Merge for PredictionRollup {
    fn merge(&mut self, other: &Self) {
        self.total.merge(&other.total);
        self.score_bins.merge(&other.score_bins);
        self.releases.merge(&other.releases);
    }
}

/// All outcomes, also corrected ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutcomeRollup {
    /// How many.
    pub n: u64,
    /// How many name the instant of the prediction that they judge.
    pub with_instant: u64,
    /// How many have a label.
    pub labelled: u64,
    /// How many have which label.
    pub labels: Counts,
    /// Their values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<NumberRollup>,
}

impl Merge for OutcomeRollup {
    fn merge(&mut self, other: &Self) {
        self.n = self.n.saturating_add(other.n);
        self.with_instant = self.with_instant.saturating_add(other.with_instant);
        self.labelled = self.labelled.saturating_add(other.labelled);
        self.labels.merge(&other.labels);
        self.value.merge(&other.value);
    }
}

/// All metric observations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricRollup {
    /// How many.
    pub n: u64,
    /// How many name a release.
    pub with_release: u64,
    /// How many observe which metric.
    pub names: Counts,
}

impl Merge for MetricRollup {
    fn merge(&mut self, other: &Self) {
        self.n = self.n.saturating_add(other.n);
        self.with_release = self.with_release.saturating_add(other.with_release);
        self.names.merge(&other.names);
    }
}

/// All release changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReleaseRollup {
    /// How many.
    pub n: u64,
    /// How many name a configuration.
    pub with_configuration: u64,
    /// How many name an environment.
    pub with_environment: u64,
    /// How many are which action.
    pub actions: Counts,
}

impl Merge for ReleaseRollup {
    fn merge(&mut self, other: &Self) {
        self.n = self.n.saturating_add(other.n);
        self.with_configuration = self.with_configuration.saturating_add(other.with_configuration);
        self.with_environment = self.with_environment.saturating_add(other.with_environment);
        self.actions.merge(&other.actions);
    }
}
