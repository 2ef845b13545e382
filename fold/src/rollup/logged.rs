//! Breakdown by metric, and within a metric by release.

use serde::{Deserialize, Serialize};

use super::{
    bounded::{Bounded, Cell, Merge, Optional},
    numbers::NumberRollup,
};
use crate::{EventPlace, sketch::Sketch};

/// Bytes of the sketch of a metric.
pub const METRIC_SKETCH_BYTES: usize = 2 * 1024;

/// Bytes for the releases of one metric: about 40 with any content.
pub const METRIC_RELEASES_BUDGET: usize = 19 * 1024;

/// Bytes for the metrics of one of 256 items: about 12 with any content.
pub const METRICS_BUDGET: usize = 312 * 1024;

/// Observations of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Observed values.
    pub numbers: NumberRollup,
    /// Time of the last measurement, in microseconds since 1970-01-01T00:00:00Z.
    pub last_at: i64,
    /// Last measured value; among several at the same instant that of the later event.
    pub last: f64,
    /// Position of that event; `None` while there is no event.
    pub last_in: Option<EventPlace>,
}

impl Series {
    /// Maximum number of bytes of its text.
    pub const MAX_TEXT: usize = NumberRollup::MAX_TEXT + 20 + 24 + 36 + EventPlace::MAX_TEXT + 11;

    /// Creates a series without observations; never stored.
    pub(super) const fn empty() -> Self {
        let numbers = NumberRollup::empty();
        Self { numbers, last_at: i64::MIN, last: f64::NEG_INFINITY, last_in: None }
    }

    #[inline]
    pub(super) fn add(&mut self, at: i64, value: f64, place: EventPlace) {
        self.numbers.add(value);
        self.latest(at, value, Some(place));
    }

    #[inline]
    fn latest(&mut self, at: i64, value: f64, place: Option<EventPlace>) {
        if (at, place) > (self.last_at, self.last_in) {
            (self.last_at, self.last, self.last_in) = (at, value, place);
        }
    }
}

impl Merge for Series {
    fn merge(&mut self, other: &Self) {
        self.numbers.merge(&other.numbers);
        self.latest(other.last_at, other.last, other.last_in);
    }
}

impl Optional for Series {
    const MAX_BYTES: usize = Self::MAX_TEXT;

    fn weight(&self) -> usize {
        self.numbers.weight() + Self::MAX_TEXT - NumberRollup::MAX_TEXT
    }
}

/// One metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoggedMetricRollup {
    /// All observations. (For metrics that did not fit, only the total is meaningful.)
    pub total: Option<Series>,
    /// Quantiles of the values.
    pub sketch: Sketch<METRIC_SKETCH_BYTES>,
    /// Observations by release; the empty name has those without a release.
    pub releases: Bounded<Option<Series>, METRIC_RELEASES_BUDGET>,
}

impl Merge for LoggedMetricRollup {
    fn merge(&mut self, other: &Self) {
        self.total.merge(&other.total);
        self.sketch.merge(&other.sketch);
        self.releases.merge(&other.releases);
    }
}

impl Cell for LoggedMetricRollup {
    const MAX_BYTES: usize = Series::MAX_TEXT
        + Sketch::<METRIC_SKETCH_BYTES>::MAX_TEXT
        + Bounded::<Option<Series>, METRIC_RELEASES_BUDGET>::MAX_TEXT
        + 44;
    const LEAST_BYTES: usize = 64;

    fn weight(&self) -> usize {
        self.total.weight() + self.sketch.weight() + self.releases.weight() + 44
    }
}

/// Metrics whose names have the same hash modulo [`event::lane::BREAKDOWN_BUCKETS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricPart {
    /// Metrics by name.
    pub metrics: Bounded<LoggedMetricRollup, METRICS_BUDGET>,
}

impl MetricPart {
    /// Maximum number of bytes of its text.
    pub const MAX_TEXT: usize = Bounded::<LoggedMetricRollup, METRICS_BUDGET>::MAX_TEXT + 20;
}

impl Merge for MetricPart {
    fn merge(&mut self, other: &Self) {
        self.metrics.merge(&other.metrics);
    }
}
