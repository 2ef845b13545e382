//! The breakdown by feature, and within a feature by release.
//!
//! It is folded apart from the rollup, and less often: with a hundred features it is larger than all else of a day.
//! Its head is a [`Rollup`](super::Rollup) that only counts predictions, by release: of how many the features are,
//! also those that have none.

use serde::{Deserialize, Serialize};

use super::{
    bounded::{Bounded, Cell, Merge},
    numbers::Distribution,
};

/// Bytes of the sketch of a feature of a release.
pub const FEATURE_SKETCH_BYTES: usize = 1200;

/// Bytes for the releases of one feature: 25 whatever they hold.
pub const FEATURE_RELEASES_BUDGET: usize = 60 * 1024;

/// Bytes for the features of one of 256 items: four whatever they hold, and some hundred of one release.
pub const FEATURES_BUDGET: usize = 272 * 1024;

/// The numbers of one feature of one release.
pub type FeatureNumbers = Distribution<FEATURE_SKETCH_BYTES>;

/// No numbers of a release take more, the name of the release apart.
const _: () = assert!(FeatureNumbers::MAX_TEXT <= 2 * 1024, "at most 2 KB for a release, feature and day");

/// One feature.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Feature {
    /// By release. (Of the features that did not fit together, only their number means anything.)
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
    /// By the name of the feature, without `feature.`.
    pub features: Bounded<Feature, FEATURES_BUDGET>,
}

impl FeaturePart {
    /// The most bytes of its text.
    pub const MAX_TEXT: usize = Bounded::<Feature, FEATURES_BUDGET>::MAX_TEXT + 20;
}

impl Merge for FeaturePart {
    fn merge(&mut self, other: &Self) {
        self.features.merge(&other.features);
    }
}
