//! The breakdown by tag, and within a tag by value.
//!
//! A tag of few values is broken down in full. With more of them the detail goes first: sketches, then sums; how many
//! events have which value is counted for about a thousand values a day. Which values keep more is by hash.

use serde::{Deserialize, Serialize};

use super::{
    bounded::{Bounded, Cell, Merge},
    numbers::Headline,
};
use crate::sketch::Sketch;

/// Bytes for how many events have which value of a tag: a thousand short values.
pub const TAG_COUNTS_BUDGET: usize = 22 * 1024;

/// Bytes for the figures of the values of a tag: 25 of any length with all figures, 70 short ones with scores alone.
pub const TAG_HEADS_BUDGET: usize = 28 * 1024;

/// Bytes for the sketches of the scores of the values of a tag: 27 at least, if the values are short.
pub const TAG_SCORES_BUDGET: usize = 28 * 1024;

/// Bytes of the sketch of the scores of one value.
pub const TAG_SKETCH_BYTES: usize = 1024;

/// The least level of such a sketch: 16 cells from 1/4 to 1/2. Finer ones would cost more than all else by tag.
pub const TAG_SKETCH_LEVEL: u32 = 49;

/// Where the scores of one value of a tag lie.
pub type TagScores = Sketch<TAG_SKETCH_BYTES, TAG_SKETCH_LEVEL>;

/// Bytes for the tags of one of 256 items: three, whatever they hold.
pub const TAGS_BUDGET: usize = 252 * 1024;

/// How many events have a value of a tag.
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

/// The values of one tag. Events without the tag are in none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TagValues {
    /// How many events have which value.
    pub counts: Bounded<TagCounts, TAG_COUNTS_BUDGET>,
    /// What their predictions add up to.
    #[serde(default, skip_serializing_if = "Bounded::is_empty")]
    pub heads: Bounded<Headline, TAG_HEADS_BUDGET>,
    /// Where their scores lie.
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
