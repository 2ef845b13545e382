//! The projector: turns the log into counters, rollups and evaluations.
//!
//! The change feed only says which log grew ([`worker`]). What to do about it is read from the
//! table: a day's rollup knows the prefix of the logs that it covers, so the segments after it are
//! folded in and both are written under one condition ([`project`], [`counters`]). Evaluations join
//! the day's predictions with its outcomes ([`evaluate`]). [`sweep`] finds what no change told of,
//! and [`mod@verify`] folds everything again and compares.
//!
//! It appends nothing to the log, and nobody else writes what it writes. Losing, repeating or
//! reordering changes can delay a rollup; it cannot make it wrong.

pub mod counters;
mod day;
pub mod evaluate;
pub mod project;
pub mod sweep;
pub mod verify;
pub mod worker;

pub use verify::{Report, verify};
pub use worker::run;

use store::{Day, Id};

/// The version of the projections that is written and read.
pub use store::rollup::PROJECTION_VERSION;

/// How often a write may find that somebody else wrote before it gives up.
const MAX_ATTEMPTS: usize = 100;

/// One day of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceDay {
    /// The workspace.
    pub workspace: Id,
    /// The day.
    pub day: Day,
}

impl std::fmt::Display for WorkspaceDay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.workspace, self.day)
    }
}
