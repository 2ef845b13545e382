//! Pure folds of the log: everything that Almanac computes from events.
//!
//! Everything here is a function of its arguments: no clock, no randomness, no input or output besides a file that the
//! caller provides ([`runs`]). The result is the
//! same, byte for byte, for the same events, in any pieces and any order of their segments. So a stored result can be
//! verified by computing it again, and a writer that lost a race may simply fold once more.
//!
//! In reading order:
//! - [`exact`] and [`fixed`]: sums of doubles that do not depend on the order of their terms;
//! - [`sketch`]: quantiles that do not depend on it either;
//! - [`rollup`]: counts, sums, histograms and quantiles of one day, by release, metric, tag and feature;
//! - [`mod@join`]: the outcome that labels each prediction, including repeats and corrections;
//! - [`latest`]: the predictions that an outcome without an instant labels;
//! - [`formulas`]: the formulas of accuracy, AUC, log loss and their like;
//! - [`evaluation`]: the quality of each release on one day;
//! - [`metric`]: the table of its metrics, from which columns, rankings and windows are derived;
//! - [`drift`]: the distances between the numbers and names of a window and those of a reference;
//! - [`alert`]: the days on which the numbers of a metric are a reason to notify people.
//!
//! Each module names the columns that it needs, so that readers decode no others.
//!
//! ```
//! use almanac_fold::{Delta, LogSegment, Rollup, rollup::Merge};
//! use event::{Column, Columns, Kind, Values, lane::LogPosition};
//!
//! let predictions = Columns {
//!     rows: 3,
//!     columns: vec![
//!         Column::new("release", Values::Text(["delay-1", "delay-2", "delay-1"].into_iter().collect())),
//!         Column::new("score", Values::Float(vec![0.1, 0.5, 0.2])),
//!     ],
//! };
//! let segment = LogSegment { place: LogPosition::of(0, 1), columns: &predictions };
//! let segment = Delta::of(Kind::Predictions, segment)?;
//! let mut day = Rollup::default();
//! day.merge(&segment.rollup);
//! assert_eq!(day.events(Kind::Predictions), 3);
//! assert_eq!(day.predictions.releases.names()["delay-1"].n, 2);
//! assert_eq!(Rollup::from_state(&day.to_state())?, day);
//! # Ok::<(), almanac_fold::FoldError>(())
//! ```

pub mod alert;
mod decimal;
pub mod drift;
mod error;
pub mod estimate;
pub mod evaluation;
pub mod exact;
pub mod fixed;
pub mod formulas;
mod hash;
pub mod join;
pub mod key_filter;
pub mod latest;
pub mod maturity;
pub mod metric;
pub mod paired;
pub mod ranking;
mod read;
pub mod rollup;
pub mod runs;
mod segment;
pub mod sketch;
pub mod slice_ranking;
mod state;
#[cfg(test)]
mod testing;

pub use error::{FoldError, Result};
pub use evaluation::{Evaluation, evaluate};
pub use exact::ExactSum;
pub use join::{Joined, join};
pub use metric::{AnyMetric, Metric, Windowed};
pub use rollup::{Delta, Rollup};
pub use segment::{EventPlace, LogSegment, RowRef};
