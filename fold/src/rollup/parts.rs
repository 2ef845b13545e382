//! Content of the rollup of a day, besides its breakdowns.

use serde::{Deserialize, Serialize};

use super::{
    bounded::{Bounded, Merge},
    numbers::{Bins, Headline, NumberRollup},
};

/// Bytes for the headline metrics of releases: about 20 of them. All releases are in [`super::release::ReleasePart`].
pub const RELEASES_BUDGET: usize = 24 * 1024;

/// Bytes for the counts of labels, of metric names, of actions.
pub const NAMES_BUDGET: usize = 8 * 1024;

/// Occurrences of each label (or name, or action).
pub type Counts = Bounded<u64, NAMES_BUDGET>;

/// All predictions, also repeated ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictionRollup {
    /// Headline of all predictions.
    pub total: Headline,
    /// Their scores.
    #[serde(default, skip_serializing_if = "Bins::is_empty")]
    pub score_bins: Bins,
    /// Headline of each release.
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
    /// Number of outcomes.
    pub n: u64,
    /// Number of outcomes that name the instant of the prediction that they label.
    pub with_instant: u64,
    /// Number of outcomes with a label.
    pub labelled: u64,
    /// Number of outcomes by label.
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
    /// Number of observations.
    pub n: u64,
    /// Number of observations that name a release.
    pub with_release: u64,
    /// Number of observations by metric.
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
    /// Number of changes.
    pub n: u64,
    /// Number of changes that name a configuration.
    pub with_configuration: u64,
    /// Number of changes that name an environment.
    pub with_environment: u64,
    /// Number of changes by action.
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
