//! Breakdown by feature, and within a feature by release.
//!
//! It is folded separately from the rollup, and less often: with a hundred features it is larger than the rest of the
//! day. Its head is a [`Rollup`](super::Rollup) that only counts predictions by release, as the denominator of
//! features, including predictions without features.

use serde::{Deserialize, Serialize};

use super::{
    bounded::{Bounded, Cell, Merge},
    numbers::Distribution,
};

/// Bytes of the sketch of a feature of a release.
pub const FEATURE_SKETCH_BYTES: usize = 1200;

/// Bytes for the releases of one feature: 25 with any content.
pub const FEATURE_RELEASES_BUDGET: usize = 60 * 1024;

/// Bytes for the features of one of 256 items: four with any content, and some hundred of one release.
pub const FEATURES_BUDGET: usize = 272 * 1024;

/// Numbers of one feature of one release.
pub type FeatureNumbers = Distribution<FEATURE_SKETCH_BYTES>;

/// Maximum size of the numbers of a release, without the name of the release.
const _: () = assert!(FeatureNumbers::MAX_TEXT <= 2 * 1024, "at most 2 KB for a release, feature and day");

/// One feature.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Feature {
    /// Numbers by release. (For features that did not fit, only the total is meaningful.)
    pub releases: Bounded<Option<FeatureNumbers>, FEATURE_RELEASES_BUDGET>,
}

impl Merge for Feature {
    fn merge(&mut self, other: &Self) {
        self.releases.merge(&other.releases);
    }
}

impl Cell for Feature {
    const MAX_BYTES: usize = Bounded::<Option<FeatureNumbers>, FEATURE_RELEASES_BUDGET>::MAX_TEXT + 16;
    const LEAST_BYTES: usize = 64;

    fn weight(&self) -> usize {
        self.releases.weight() + 16
    }
}

/// Features whose names have the same hash modulo [`event::lane::BREAKDOWN_BUCKETS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FeaturePart {
    /// Features by name, without `feature.`.
    pub features: Bounded<Feature, FEATURES_BUDGET>,
}

impl FeaturePart {
    /// Maximum number of bytes of its text.
    pub const MAX_TEXT: usize = Bounded::<Feature, FEATURES_BUDGET>::MAX_TEXT + 20;
}

impl Merge for FeaturePart {
    fn merge(&mut self, other: &Self) {
        self.features.merge(&other.features);
    }
}
