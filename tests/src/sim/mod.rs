//! A simulation of several projectors on one table: in one process, in virtual time, the same for the
//! same seed.
//!
//! - [`Op`] is what happens: writers append, the catalog changes, the feed misbehaves, projectors die and are held up.
//! - [`world`] is the table in memory. It knows every event that was appended, and checks each
//!   write of a projector against a fold over that list.
//! - [`process`] is how one process sees the world: calls take time, fail and lose their answers.
//!   It also does, on demand, what a projector with a certain bug would do ([`Planted`]).
//! - [`clocks`] lets the clocks of workers disagree and jump while events expire.
//! - [`ahead`] sets the only clock ahead while a worker starts or works, and right again.
//! - [`writers`] lets the clocks of ingest services disagree and jump while lanes change and they die.
//! - [`resolving`] lets projectors that die decide what outcomes without a date judge.
//! - [`erasing`] lets keys be erased beside all of that, and compares what is left with a naive oracle.
//! - [`compacting`] has small segments merged while everything else happens.
//! - [`transitions`] has alert rules judged, and what crosses posted to receivers that fail.
//! - [`mod@heat`] has partitions throttle as those of DynamoDB do.
//! - [`retained`] lets a day expire while it is evaluated and rebuilt, in items that are small.
//! - [`run`] runs a list of operations, lets everything settle, and says what went wrong. [`shrink`] makes a list that
//!   finds something shorter, and [`REGRESSIONS`] keeps it under a name.

mod ahead;
mod clocks;
mod erasing;
pub mod heat;
mod ops;
pub mod process;
mod random;
mod regressions;
mod resolving;
mod scene;
mod shrink;
pub mod world;
mod writers;

pub use ahead::{Ahead, ahead};
pub use clocks::{Expired, clocks};
pub use erasing::{Erasing, erasing};
pub use ops::{Change, Op, ops};
pub use random::Random;
pub use regressions::{REGRESSIONS, Regression};
pub use resolving::{Judging, resolving};
pub use scene::{
    Compacted, Gone, RuleTransition, RunReport, compacting, grow, retained, run, run_ops, transitions,
};
pub use shrink::shrink;
pub use writers::{Written, writers};

/// A bug that the simulation must find. It is planted below the projector, in what its process makes of
/// its calls, so that the projector itself has no switch for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The checkpoint moves when changes are read, not when what they dirtied is written.
    CheckpointBeforeCommit,
    /// A rollup is written whether or not somebody else wrote it in between.
    BlindIncrement,
    /// A hole in a log is passed over.
    NoHoleCheck,
    /// A lease is written whether or not somebody else has it by now.
    LeaseWithoutEpoch,
    /// Definitions are not read from release events.
    OldDefinitions,
    /// Segments handed over differ from the appended ones.
    WrongCachedSegment,
    /// The events that are left of a day that expires meanwhile are taken for all, whether it is marked or not.
    /// [`retained`] finds it.
    ShortRead,
    /// Where an alert rule stands, and that it crossed, is written whether or not somebody else judged the day. [`transitions`] finds it.
    BlindJudging,
    /// A delivery is recorded as made before it is. [`transitions`] finds it.
    DeliveredTooEarly,
    /// A try is not claimed, and what came of it is written whatever somebody else has written. [`transitions`] finds it.
    BlindDelivery,
    /// A decision about an outcome without a date is written whether or not another process decided it. [`resolving`] finds
    /// it.
    BlindDecision,
}

impl Planted {
    /// All of them that [`run`] finds.
    pub const ALL: [Self; 6] = [
        Self::CheckpointBeforeCommit,
        Self::BlindIncrement,
        Self::NoHoleCheck,
        Self::LeaseWithoutEpoch,
        Self::OldDefinitions,
        Self::WrongCachedSegment,
    ];
}
