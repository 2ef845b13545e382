//! Breakdown by tag, and within a tag by value.
//!
//! A tag of few values is broken down in full. With more values the detail goes first: sketches, then sums; events
//! are counted by value for about a thousand values a day. The hash of a value decides whether it keeps more.

use serde::{Deserialize, Serialize};

use super::{
    bounded::{Bounded, Cell, Merge},
    numbers::Headline,
};
use crate::sketch::Sketch;

/// Bytes for the number of events by value of a tag: a thousand short values.
pub const TAG_COUNTS_BUDGET: usize = 22 * 1024;

/// Bytes for the metrics of the values of a tag: 25 of any length with all metrics, 70 short ones with scores alone.
pub const TAG_HEADS_BUDGET: usize = 28 * 1024;

/// Bytes for the sketches of the scores of the values of a tag: 27 at least, if the values are short.
pub const TAG_SCORES_BUDGET: usize = 28 * 1024;

/// Bytes of the sketch of the scores of one value.
pub const TAG_SKETCH_BYTES: usize = 1024;

/// Least level of such a sketch: 16 cells from 1/4 to 1/2. Finer ones would cost more than all else by tag.
pub const TAG_SKETCH_LEVEL: u32 = 49;

/// Quantiles of the scores of one value of a tag.
pub type TagScores = Sketch<TAG_SKETCH_BYTES, TAG_SKETCH_LEVEL>;

/// Bytes for the tags of one of 256 items: three, with any content.
pub const TAGS_BUDGET: usize = 252 * 1024;

/// Number of events with a value of a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub struct TagCounts {
    /// Predictions.
    pub predictions: u64,
    /// Metric observations.
    pub metrics: u64,
}

impl From<(u64, u64)> for TagCounts {
    fn from((predictions, metrics): (u64, u64)) -> Self {
        Self { predictions, metrics }
    }
}

impl From<TagCounts> for (u64, u64) {
    fn from(counts: TagCounts) -> Self {
        (counts.predictions, counts.metrics)
    }
}

impl Merge for TagCounts {
    fn merge(&mut self, other: &Self) {
        self.predictions = self.predictions.saturating_add(other.predictions);
        self.metrics = self.metrics.saturating_add(other.metrics);
    }
}

impl Cell for TagCounts {
    const MAX_BYTES: usize = 2 * u64::MAX_BYTES + 3;
    const LEAST_BYTES: usize = u64::LEAST_BYTES + u64::LEAST_BYTES + 3;

    fn weight(&self) -> usize {
        self.predictions.weight() + self.metrics.weight() + 3
    }
}

/// Values of one tag. Events without the tag are not counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TagValues {
    /// Number of events by value.
    pub counts: Bounded<TagCounts, TAG_COUNTS_BUDGET>,
    /// Numbers of their predictions.
    #[serde(default, skip_serializing_if = "Bounded::is_empty")]
    pub heads: Bounded<Headline, TAG_HEADS_BUDGET>,
    /// Quantiles of their scores.
    #[serde(default, skip_serializing_if = "Bounded::is_empty")]
    pub scores: Bounded<TagScores, TAG_SCORES_BUDGET>,
}

impl Merge for TagValues {
    fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.heads.merge(&other.heads);
        self.scores.merge(&other.scores);
    }
}

impl Cell for TagValues {
    const MAX_BYTES: usize = Bounded::<TagCounts, TAG_COUNTS_BUDGET>::MAX_TEXT
        + Bounded::<Headline, TAG_HEADS_BUDGET>::MAX_TEXT
        + Bounded::<TagScores, TAG_SCORES_BUDGET>::MAX_TEXT
        + 40;
    const LEAST_BYTES: usize = 3 * 64 + 40;

    fn weight(&self) -> usize {
        self.counts.weight() + self.heads.weight() + self.scores.weight() + 40
    }
}

/// Tags whose names have the same hash modulo [`event::lane::BREAKDOWN_BUCKETS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TagPart {
    /// Tags by name, without `tag.`.
    pub tags: Bounded<TagValues, TAGS_BUDGET>,
}

impl TagPart {
    /// Maximum number of bytes of its text.
    pub const MAX_TEXT: usize = Bounded::<TagValues, TAGS_BUDGET>::MAX_TEXT + 20;
}

impl Merge for TagPart {
    fn merge(&mut self, other: &Self) {
        self.tags.merge(&other.tags);
    }
}
