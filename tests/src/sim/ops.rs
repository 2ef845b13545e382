//! Operations of a simulation, drawn from a seed.

use super::random::Random;

/// Maximum number of projectors at once.
pub(super) const PROCESSES: usize = 3;

/// Number of logs: two days, predictions and outcomes, two lanes.
pub(super) const LOGS: usize = 8;

/// Number of logs of release events: one for each day.
pub(super) const RELEASE_LOGS: usize = 2;

/// The least and the most operations of a run.
const LEAST: u64 = 15;
const MOST: u64 = 60;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Segments are appended to a log, a millisecond apart; the feed tells of them at once or not yet.
    Append {
        /// The log.
        log: usize,
        /// Number of segments.
        segments: u64,
        /// True if the feed tells of them at once.
        told: bool,
    },
    /// A writer repeats its last append, and must be refused.
    Repeat {
        /// The log.
        log: usize,
    },
    /// A segment is appended that cannot be decoded.
    Break {
        /// The log.
        log: usize,
    },
    /// An operator skips the first segment that is refused.
    Skip,
    /// The feed tells of what it has held back.
    Deliver,
    /// The feed tells again of some segments.
    Redeliver {
        /// Number of segments.
        count: u64,
    },
    /// Changes that the feed holds back change places.
    Reorder,
    /// The feed forgets one change that it holds back, and does not say so.
    Drop,
    /// A shard closes, and two go on from it.
    SplitShard,
    /// Shards lose all changes that they have.
    TrimStream,
    /// A projector dies.
    Crash {
        /// Which.
        process: usize,
    },
    /// A projector stops and hands over.
    Stop {
        /// Which.
        process: usize,
    },
    /// A projector starts, if it does not run.
    Start {
        /// Which.
        process: usize,
    },
    /// Calls of a projector hang for a while, and are made after that.
    Pause {
        /// Which.
        process: usize,
        /// For how long.
        millis: u64,
    },
    /// A projector is given the lease of a shard that another one has.
    StealLease {
        /// Which.
        process: usize,
    },
    /// Time goes by.
    Advance {
        /// Milliseconds that go by.
        millis: u64,
    },
    /// A rebuild begins, if none runs.
    Rebuild,
    /// A rebuild that runs dies.
    CrashRebuild,
    /// A reader reads the rollups.
    Query,
    /// The catalog changes while events arrive.
    Catalog {
        /// Change of the catalog.
        change: Change,
        /// True if the ingest service that appends the release event lives to record it.
        recorded: bool,
    },
}

/// A change of the catalog. Releases are named by numbers, of which the rest counts when there are fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A release of the model is registered. Predictions are by it as well from now on.
    Register {
        /// The log of its event: that of the first day or of the second.
        log: usize,
    },
    /// A release event says how a release is judged, from a day on.
    Define {
        /// The log of the event.
        log: usize,
        /// The release.
        release: usize,
        /// The positive label, 0 or 1.
        positive: u64,
        /// From which score on a prediction is positive, in tenths.
        threshold: u64,
        /// The day of June 2026 from which it holds: events are of the first two.
        from: u64,
    },
    /// A release becomes the live one of its model.
    Promote {
        /// The log of the event.
        log: usize,
        /// The release.
        release: usize,
    },
    /// A release is live no more.
    Retire {
        /// The log of the event.
        log: usize,
        /// The release.
        release: usize,
    },
    /// The model gets another name.
    RenameModel,
    /// The workspace gets another name.
    RenameWorkspace,
}

impl Change {
    fn of(random: &Random) -> Self {
        let log = random.below(RELEASE_LOGS as u64) as usize;
        let release = random.below(4) as usize;
        match random.below(10) {
            0 | 1 => Self::Register { log },
            2..6 => Self::Define {
                log,
                release,
                positive: random.below(2),
                threshold: 1 + random.below(9),
                from: 1 + random.below(3),
            },
            6 => Self::Promote { log, release },
            7 => Self::Retire { log, release },
            8 => Self::RenameModel,
            _ => Self::RenameWorkspace,
        }
    }
}

/// The operations of a seed.
pub fn ops(seed: u64) -> Vec<Op> {
    let random = Random::new(seed);
    // Half of the seeds lose no change in silence: then everything must be found without a sweep.
    let may_drop = random.hits(2);
    let may_break = random.hits(3);
    let count = LEAST + random.below(MOST - LEAST);
    let mut ops = vec![Op::Start { process: 0 }];
    for _ in 0..count {
        let process = random.below(PROCESSES as u64) as usize;
        let log = random.below(LOGS as u64) as usize;
        ops.push(match random.below(100) {
            0..30 => Op::Append { log, segments: 1 + random.below(3), told: !random.hits(4) },
            30..32 => Op::Repeat { log },
            32..34 if may_break => Op::Break { log },
            34..37 if may_break => Op::Skip,
            37..42 => Op::Deliver,
            42..45 => Op::Redeliver { count: 1 + random.below(4) },
            45..48 => Op::Reorder,
            48..50 if may_drop => Op::Drop,
            50..53 => Op::SplitShard,
            53..55 => Op::TrimStream,
            55..60 => Op::Crash { process },
            60..62 => Op::Stop { process },
            62..70 => Op::Start { process },
            70..74 => Op::Pause { process, millis: 100 + random.below(9_000) },
            74..77 => Op::StealLease { process },
            77..79 => Op::Rebuild,
            79..80 => Op::CrashRebuild,
            80..83 => Op::Query,
            83..87 => Op::Catalog { change: Change::of(&random), recorded: random.hits(2) },
            _ => Op::Advance {
                millis: match random.below(4) {
                    0 => random.below(20),
                    1 | 2 => random.below(1_500),
                    _ => random.below(10_000),
                },
            },
        });
    }
    match random.hits(3) {
        true => steady(&ops, &random),
        false => ops,
    }
}

/// Lets all projectors be there from the beginning, and some of them die at the end right after an append or a change of
/// the catalog. Nothing sweeps then, so the worker that takes over must be told of everything again.
fn steady(ops: &[Op], random: &Random) -> Vec<Op> {
    let starts = (0..PROCESSES).map(|process| Op::Start { process });
    let mut steady: Vec<Op> = starts.chain([Op::Advance { millis: 5_000 }]).collect();
    let sweeps = |op: &Op| {
        matches!(
            op,
            Op::Start { .. } | Op::Stop { .. } | Op::Crash { .. } | Op::TrimStream | Op::Drop | Op::Rebuild
        )
    };
    steady.extend(ops.iter().filter(|op| !sweeps(op)));
    let survivor = random.below(PROCESSES as u64) as usize;
    for process in (0..PROCESSES).filter(|process| *process != survivor) {
        let log = random.below(LOGS as u64) as usize;
        let millis = random.below(10_000);
        let last = match random.hits(3) {
            true => Op::Catalog { change: Change::of(random), recorded: random.hits(2) },
            false => Op::Append { log, segments: 1, told: true },
        };
        steady.extend([
            Op::Advance { millis },
            last,
            Op::Advance { millis: random.below(if random.hits(2) { 200 } else { 4_000 }) },
            Op::Crash { process },
        ]);
    }
    steady
}
