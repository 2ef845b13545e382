//! Lists of operations that found something once, made shorter by [`super::shrink`]. They say what happens whatever
//! the operations of a seed become; only how long calls take and which of them fail still comes from the seed.

use super::{Change, Op};

/// Operations that found something.
#[derive(Clone, Copy, Debug)]
pub struct Regression {
    /// Expectation that holds since.
    pub name: &'static str,
    /// Where delays and faults come from.
    pub seed: u64,
    /// Operations.
    pub ops: &'static [Op],
}

const fn start(process: usize) -> Op {
    Op::Start { process }
}

const fn append(log: usize, segments: u64) -> Op {
    Op::Append { log, segments, told: true }
}

/// An append of which the feed tells later.
const fn hold_back(log: usize, segments: u64) -> Op {
    Op::Append { log, segments, told: false }
}

const fn advance(millis: u64) -> Op {
    Op::Advance { millis }
}

/// A definition that holds from a day of June on.
const fn define(log: usize, release: usize, (positive, threshold): (u64, u64), from: u64) -> Op {
    let change = Change::Define { log, release, positive, threshold, from };
    Op::Catalog { change, recorded: false }
}

/// A definition that its ingest service lives to record.
const fn define_recorded(log: usize, release: usize, (positive, threshold): (u64, u64), from: u64) -> Op {
    let change = Change::Define { log, release, positive, threshold, from };
    Op::Catalog { change, recorded: true }
}

/// All of them.
pub const REGRESSIONS: &[Regression] = &[
    // A worker read a shard along while it did not know whether the owner was alive. When it then took the lease, it
    // wrote what it had read before as the checkpoint, which was further by then.
    Regression {
        name: "a_lease_is_not_moved_back_by_what_was_read_without_it",
        seed: 5_816,
        ops: &[
            hold_back(0, 2),
            append(4, 1),
            start(2),
            advance(6_980),
            start(1),
            Op::SplitShard,
            advance(77),
            advance(345),
            Op::Pause { process: 2, millis: 7_020 },
            advance(2_663),
            Op::StealLease { process: 2 },
        ],
    },
    // The answer to the write before the end of a shard was lost. Tried again with the end of the shard, it wrote
    // the checkpoint from before.
    Regression {
        name: "a_checkpoint_is_not_moved_back_when_an_answer_is_lost_before_the_end_of_a_shard",
        seed: 53,
        ops: &[
            start(0),
            start(1),
            start(2),
            advance(5_000),
            hold_back(3, 1),
            hold_back(6, 3),
            hold_back(3, 3),
            advance(10),
            append(4, 3),
            Op::Query,
            append(7, 2),
            append(3, 3),
            append(1, 3),
            append(5, 2),
            append(6, 1),
            Op::SplitShard,
            advance(3_753),
            advance(509),
        ],
    },
    // The answer to the write of the rollup was lost. The next try found nothing new in it, and asked for no sweep
    // of the days that the definition concerns.
    Regression {
        name: "a_definition_reaches_its_days_when_the_answer_to_its_fold_is_lost",
        seed: 1_154,
        ops: &[
            start(0),
            start(1),
            start(2),
            advance(5_000),
            advance(4_949),
            Op::SplitShard,
            append(0, 1),
            hold_back(3, 1),
            append(5, 1),
            Op::SplitShard,
            append(2, 3),
            append(5, 3),
            append(7, 1),
            advance(8_595),
            define(1, 3, (1, 1), 1),
            advance(3_174),
        ],
    },
    // A worker died when it had folded a definition and moved the checkpoint past it, and not yet evaluated the days
    // that it concerns.
    Regression {
        name: "a_definition_reaches_its_days_when_a_worker_dies_after_its_fold",
        seed: 1_443,
        ops: &[
            start(0),
            start(2),
            append(0, 1),
            hold_back(1, 2),
            Op::SplitShard,
            define(1, 3, (0, 6), 3),
            define_recorded(1, 2, (0, 7), 2),
            advance(6_166),
            define_recorded(1, 0, (0, 4), 1),
            Op::Crash { process: 2 },
        ],
    },
    Regression {
        name: "a_definition_reaches_its_days_beside_a_broken_segment",
        seed: 2_311,
        ops: &[
            start(0),
            start(1),
            start(2),
            advance(5_000),
            Op::Skip,
            Op::Pause { process: 0, millis: 1_008 },
            Op::Break { log: 6 },
            append(5, 1),
            define(0, 2, (0, 2), 1),
            advance(5_907),
            Op::Skip,
            advance(3_109),
            define(0, 2, (1, 4), 2),
            Op::Crash { process: 0 },
        ],
    },
];
