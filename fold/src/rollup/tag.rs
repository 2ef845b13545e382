//! The breakdown by tag, and within a tag by value.

use serde::{Deserialize, Serialize};

use super::{
    bounded::{Bounded, Cell, Merge},
    numbers::{Bins, Headline},
};

/// Bytes for the values of one tag: about 50 whatever they hold.
pub const TAG_VALUES_BUDGET: usize = 80 * 1024;

/// Bytes for the tags of one of 256 items: three, whatever they hold.
pub const TAGS_BUDGET: usize = 248 * 1024;

/// The events with one value of a tag.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TagCell {
    /// Predictions.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub predictions: Headline,
    /// Their scores.
    #[serde(default, skip_serializing_if = "Bins::is_empty")]
    pub score_bins: Bins,
    /// How many metric observations.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub metrics: u64,
}

fn is_nothing(headline: &Headline) -> bool {
    headline.n == 0
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Merge for TagCell {
    fn merge(&mut self, other: &Self) {
        self.predictions.merge(&other.predictions);
        self.score_bins.merge(&other.score_bins);
        self.metrics = self.metrics.saturating_add(other.metrics);
    }
}

impl Cell for TagCell {
    const MAX_BYTES: usize = Headline::MAX_TEXT + Bins::MAX_TEXT + 20 + 50;
}

/// The values of one tag. Events without the tag are in none.
pub type TagValues = Bounded<TagCell, TAG_VALUES_BUDGET>;

/// Tags whose names have the same hash modulo [`store::key::BREAKDOWN_BUCKETS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TagPart {
    /// By the name of the tag, without `tag.`.
    pub tags: Bounded<TagValues, TAGS_BUDGET>,
}

impl TagPart {
    /// The most bytes of its text.
    pub const MAX_TEXT: usize = Bounded::<TagValues, TAGS_BUDGET>::MAX_TEXT + 20;
}

impl Merge for TagPart {
    fn merge(&mut self, other: &Self) {
        self.tags.merge(&other.tags);
    }
}
