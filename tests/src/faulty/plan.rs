//! Faults, their frequency, and the dice that decide about them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Frequencies of the kinds of faults: one in this number, never when 0. All are off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Calls answered with `Throttled` before anything happened.
    pub throttled: u64,
    /// Calls answered with `Unavailable` that were not made.
    pub refused: u64,
    /// Calls answered with `Unavailable` that were made: their own answer is lost.
    pub answer_lost: u64,
    /// Calls that take some milliseconds longer.
    pub slow: u64,
    /// Writes that an index does not show at once. Needs a copy of the table to read indexes from:
    /// [`FaultyTable::indexes_on`](super::FaultyTable::indexes_on).
    pub late_index: u64,
    /// Number of reads of an index from which such a write is hidden.
    pub late_reads: u64,
    /// Changes that the feed passes on twice.
    pub duplicated: u64,
    /// Changes that swap places with others, in the same answer or a later one.
    pub reordered: u64,
    /// Changes after which their shard closes, and two children continue it.
    pub split: u64,
    /// Changes that are gone before they could be read; a gap replaces them.
    pub trimmed: u64,
    /// Positions that are lost when they are asked for: a gap, and reading goes on at the oldest change or at the newest.
    pub expired: u64,
}

impl Faults {
    /// No faults.
    pub const NONE: Self = Self {
        throttled: 0,
        refused: 0,
        answer_lost: 0,
        slow: 0,
        late_index: 0,
        late_reads: 0,
        duplicated: 0,
        reordered: 0,
        split: 0,
        trimmed: 0,
        expired: 0,
    };

    /// Only delays: throttling and slow calls, and an index that lags if there is a copy of the table to read it from. No caller
    /// is ever in doubt.
    pub const fn delays(one_in: u64) -> Self {
        Self { throttled: one_in, slow: one_in, ..Self::NONE }
    }

    /// One call in `one_in` fails with an unknown result; half of those were made.
    pub const fn doubts(one_in: u64) -> Self {
        Self { refused: 2 * one_in, answer_lost: 2 * one_in, ..Self::NONE }
    }

    /// All faults of the change feed.
    pub const fn feed(one_in: u64) -> Self {
        Self {
            duplicated: one_in,
            reordered: one_in,
            split: one_in,
            trimmed: one_in,
            expired: one_in,
            ..Self::NONE
        }
    }

    pub(super) fn of(&self, fault: Fault) -> u64 {
        match fault {
            Fault::Throttled => self.throttled,
            Fault::Refused => self.refused,
            Fault::AnswerLost => self.answer_lost,
            Fault::Slow => self.slow,
            Fault::LateIndex => self.late_index,
            Fault::Duplicated => self.duplicated,
            Fault::Reordered => self.reordered,
            Fault::Split => self.split,
            Fault::Trimmed => self.trimmed,
            Fault::Expired => self.expired,
        }
    }

    pub(super) fn touch_the_feed(&self) -> bool {
        [Fault::Duplicated, Fault::Reordered, Fault::Split, Fault::Trimmed, Fault::Expired]
            .into_iter()
            .any(|fault| self.of(fault) > 0)
    }
}

/// Kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// See [`Faults::throttled`].
    Throttled,
    /// See [`Faults::refused`].
    Refused,
    /// See [`Faults::answer_lost`].
    AnswerLost,
    /// See [`Faults::slow`].
    Slow,
    /// See [`Faults::late_index`].
    LateIndex,
    /// See [`Faults::duplicated`].
    Duplicated,
    /// See [`Faults::reordered`].
    Reordered,
    /// See [`Faults::split`].
    Split,
    /// See [`Faults::trimmed`].
    Trimmed,
    /// See [`Faults::expired`].
    Expired,
}

/// Decides in the order of the questions, and counts the faults.
#[derive(Debug)]
pub(super) struct Dice {
    faults: Faults,
    thrown: Mutex<Thrown>,
}

#[derive(Debug)]
struct Thrown {
    state: u64,
    injected: Vec<Fault>,
}

impl Dice {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        Self { faults, thrown: Mutex::new(Thrown { state: seed, injected: Vec::new() }) }
    }

    /// Returns whether `fault` comes now. A kind that is off throws no dice, so it changes no other.
    pub(super) fn hits(&self, fault: Fault) -> bool {
        let one_in = self.faults.of(fault);
        if one_in == 0 {
            return false;
        }
        let mut thrown = self.thrown();
        let hit = thrown.next().is_multiple_of(one_in);
        if hit {
            thrown.injected.push(fault);
        }
        hit
    }

    /// Number less than `bound`.
    pub(super) fn below(&self, bound: u64) -> u64 {
        self.thrown().next() % bound.max(1)
    }

    pub(super) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(super) fn injected(&self) -> Vec<Fault> {
        self.thrown().injected.clone()
    }

    fn thrown(&self) -> MutexGuard<'_, Thrown> {
        self.thrown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Thrown {
    /// Next number of a splitmix64 sequence (Steele, Lea, Flood 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
