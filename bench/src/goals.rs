//! Goals, in one table. They hold on 2 cores, for medians, with acknowledged data on the disk.

/// Bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Almanac's figure divided by the peer's is at least this.
    RatioAtLeast(f64),
    /// Almanac's figure divided by the peer's is at most this.
    RatioAtMost(f64),
    /// Almanac's figure, in the unit of its line, is at least this.
    AtLeast(f64),
    /// Almanac's figure, in the unit of its line, is at most this.
    AtMost(f64),
}

/// A goal for a line of the report.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// Id of the line.
    pub line: &'static str,
    /// Bound of its figure.
    pub bound: Bound,
}

const fn goal(line: &'static str, bound: Bound) -> Goal {
    Goal { line, bound }
}

/// All goals.
pub const GOALS: &[Goal] = &[
    goal("ndjson/sqlite", Bound::RatioAtLeast(6.0)),
    goal("ndjson/chdb", Bound::RatioAtLeast(2.0)),
    goal("ndjson/mlflow", Bound::RatioAtLeast(300.0)),
    goal("columns/sqlite", Bound::RatioAtLeast(6.5)),
    goal("arrow/sqlite", Bound::RatioAtLeast(8.0)),
    goal("arrow/chdb", Bound::RatioAtLeast(1.5)),
    goal("single/mlflow", Bound::RatioAtLeast(200.0)),
    goal("single/mlflow", Bound::AtLeast(25_000.0)),
    goal("single/p99", Bound::AtMost(15.0)),
    goal("door/log_batch", Bound::RatioAtLeast(20.0)),
    goal("door/log_metric", Bound::RatioAtLeast(10.0)),
    goal("python/frame", Bound::RatioAtLeast(0.8)),
    goal("python/metrics", Bound::RatioAtLeast(100.0)),
    goal("python/logger", Bound::RatioAtLeast(100.0)),
    goal("python/call", Bound::AtMost(20.0)),
    goal("bytes/parquet", Bound::RatioAtMost(0.9)),
    goal("window-all/polars", Bound::RatioAtMost(0.9)),
    goal("window-all/duckdb", Bound::RatioAtMost(0.5)),
    goal("window-three/polars", Bound::RatioAtMost(0.6)),
    goal("window-three/duckdb", Bound::RatioAtMost(0.5)),
    goal("analyst-arrow", Bound::RatioAtMost(2.0)),
    goal("analyst-arrow-three", Bound::RatioAtMost(2.0)),
    goal("analyst-lz4", Bound::RatioAtMost(2.0)),
    goal("analyst-lz4-three", Bound::RatioAtMost(2.0)),
    goal("analyst-client", Bound::RatioAtMost(2.0)),
    goal("analyst-client-three", Bound::RatioAtMost(2.0)),
    goal("analyst-first", Bound::AtMost(5.0)),
    goal("analyst-first-three", Bound::AtMost(5.0)),
    goal("analyst-csv/rate", Bound::AtLeast(500.0)),
    goal("analyst-ndjson/rate", Bound::AtLeast(500.0)),
    goal("group-by/polars", Bound::RatioAtMost(1.0)),
    goal("group-by/chdb", Bound::RatioAtMost(1.0)),
    goal("daily/polars", Bound::AtMost(5.0)),
    goal("daily/polars", Bound::RatioAtMost(1.0 / 20.0)),
    goal("daily/all", Bound::AtMost(5.0)),
    goal("evaluate/polars", Bound::RatioAtMost(0.35)),
    goal("evaluate/nannyml", Bound::RatioAtMost(0.06)),
    goal("readable-loaded/p50", Bound::AtMost(100.0)),
    goal("readable-loaded/p99", Bound::AtMost(1_000.0)),
    goal("follow/p99", Bound::AtMost(100.0)),
    goal("follow-loaded/p99", Bound::AtMost(100.0)),
    goal("tail/p99", Bound::AtMost(100.0)),
    goal("fold/decode", Bound::RatioAtLeast(1.0 / 3.0)),
    goal("access/single", Bound::RatioAtLeast(0.97)),
    goal("access/ndjson", Bound::RatioAtLeast(0.97)),
    goal("segment_cache/cpu", Bound::RatioAtMost(1.0)),
    goal("segment_cache/rate", Bound::RatioAtLeast(1.0)),
    goal("idle/cpu", Bound::AtMost(0.5)),
    goal("idle/start", Bound::AtMost(1.0)),
    goal("memory", Bound::AtMost(400.0)),
    goal("growth/rate", Bound::RatioAtLeast(0.95)),
    goal("growth/window", Bound::RatioAtMost(1.1)),
    goal("units/items", Bound::RatioAtMost(1.0 / 30.0)),
    goal("features-0/units", Bound::RatioAtMost(1.1)),
    goal("features-10/units", Bound::RatioAtMost(1.1)),
    goal("features-100/units", Bound::RatioAtMost(1.1)),
];

/// Share by which a figure may miss its goal before a check fails.
pub const TOLERANCE: f64 = 0.1;

impl Bound {
    /// Returns whether a figure or its ratio is within the bound, extended by `tolerance`. A missing measurement is
    /// not.
    pub fn holds(self, value: f64, ratio: Option<f64>, tolerance: f64) -> bool {
        match self {
            Bound::RatioAtLeast(least) => ratio.is_some_and(|ratio| ratio >= least * (1.0 - tolerance)),
            Bound::RatioAtMost(most) => ratio.is_some_and(|ratio| ratio <= most * (1.0 + tolerance)),
            Bound::AtLeast(least) => value >= least * (1.0 - tolerance),
            Bound::AtMost(most) => value <= most * (1.0 + tolerance),
        }
    }

    /// Describes the goal, for a line with figures in `unit`.
    pub fn told(self, unit: &str) -> String {
        let ratio = |ratio: f64| crate::line::ratio_text(ratio);
        match self {
            Bound::RatioAtLeast(least) => format!("≥{}", ratio(least)),
            Bound::RatioAtMost(most) => format!("≤{}", ratio(most)),
            Bound::AtLeast(least) => format!("≥{}", crate::line::figure(least, unit)),
            Bound::AtMost(most) => format!("≤{}", crate::line::figure(most, unit)),
        }
    }
}

/// Returns the goals of a line.
pub fn of(line: &str) -> impl Iterator<Item = &'static Goal> {
    GOALS.iter().filter(move |goal| goal.line == line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_may_be_missed_by_a_tenth() {
        assert!(!Bound::RatioAtLeast(4.0).holds(0.0, Some(3.7), 0.0));
        assert!(Bound::RatioAtLeast(4.0).holds(0.0, Some(3.7), TOLERANCE));
        assert!(!Bound::RatioAtLeast(4.0).holds(0.0, Some(3.5), TOLERANCE));
        assert!(Bound::AtMost(50.0).holds(55.0, None, TOLERANCE));
        assert!(!Bound::AtMost(50.0).holds(f64::NAN, None, TOLERANCE));
        assert!(!Bound::RatioAtMost(0.5).holds(0.0, None, TOLERANCE));
    }
}
