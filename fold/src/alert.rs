//! Alert rules: when the number of a day is a reason to tell people, as a pure state machine.
//!
//! A rule judges whole days, one after the other. [`Rule::judge`] holds the number of a day against a threshold, or against the
//! days before it by its robust z-score, and gives a [`Verdict`]. [`Standing::step`] takes the verdicts in the order of days, and
//! says when the rule crosses: when it begins to fire, and when it is resolved. Replaying the same numbers gives the
//! same crossings ([`replay`]).

mod robust;

pub use robust::{MAX_DEVIATIONS, robust_z};

use event::Day;

/// Against what the number of a day is held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test {
    /// It fires above this number.
    Above(f64),
    /// It fires below this number.
    Below(f64),
    /// It fires when the number is more than this many robust deviations away from the days before, up or down.
    Moved(f64),
}

/// How a rule judges days.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Against what the number of a day is held.
    pub test: Test,
    /// How far the number must come back before the rule is resolved; as far as the threshold, when `None`.
    pub clear: Option<f64>,
    /// Of how many events the number of a day must be made to be judged.
    pub min_n: u64,
    /// On how many days in a row the threshold must be passed before the rule fires, at least 1.
    pub for_days: u32,
    /// How many days before a day [`Test::Moved`] looks at.
    pub window_days: u32,
}

/// What is known of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// The number; `None`, where it is not defined.
    pub value: Option<f64>,
    /// Of how many events it is made; `None`, where that does not matter.
    pub n: Option<u64>,
}

/// What a rule says of one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The threshold is passed.
    Breached,
    /// The threshold is not passed, but the number has not come back far enough to resolve the rule.
    Between,
    /// All is well.
    Cleared,
    /// There is too little to judge the day by.
    Unknown,
}

/// How a rule stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// All is well.
    #[default]
    Ok,
    /// The threshold is passed, but not on enough days.
    Pending,
    /// It fires.
    Firing,
    /// It fired until the day before.
    Resolved,
    /// All was well when there was something to judge by, or there never was: no day is judged yet.
    NoData,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ok, Self::Pending, Self::Firing, Self::Resolved, Self::NoData];

    /// Its name: `ok`, `pending`, `firing`, `resolved` or `no_data`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Pending => "pending",
            Self::Firing => "firing",
            Self::Resolved => "resolved",
            Self::NoData => "no_data",
        }
    }

    /// The state of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// What people are told: a rule begins to fire, or is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// It begins to fire.
    Fires,
    /// It does not fire any more.
    Resolves,
}

impl Crossing {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Fires, Self::Resolves];

    /// Its name: `fires` or `resolves`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fires => "fires",
            Self::Resolves => "resolves",
        }
    }

    /// The crossing of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|crossing| crossing.name() == name)
    }
}

/// Where a rule stands after some days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Its state.
    pub state: State,
    /// On how many judged days in a row the threshold was passed, while it is pending.
    pub days: u32,
}

impl Standing {
    /// Where the rule stands after one more day, and whether that crosses.
    ///
    /// A day of which nothing is known neither adds to a row of days nor breaks it, and a rule that fires goes on firing.
    pub fn step(self, verdict: Verdict, for_days: u32) -> (Self, Option<Crossing>) {
        let at = |state| Self { state, days: 0 };
        match (self.state, verdict) {
            (State::Firing, Verdict::Cleared) => (at(State::Resolved), Some(Crossing::Resolves)),
            (State::Firing, _) | (State::Pending, Verdict::Unknown) => (self, None),
            (_, Verdict::Unknown) => (at(State::NoData), None),
            (_, Verdict::Breached) => match self.days.saturating_add(1) {
                days if days >= for_days => (at(State::Firing), Some(Crossing::Fires)),
                days => (Self { state: State::Pending, days }, None),
            },
            (_, Verdict::Between | Verdict::Cleared) => (at(State::Ok), None),
        }
    }
}

impl Rule {
    /// What is usable of a reading: its number, unless it is made of too few events.
    fn value(&self, reading: &Reading) -> Option<f64> {
        let is_enough = reading.n.is_none_or(|n| n >= self.min_n);
        reading.value.filter(|value| is_enough && value.is_finite())
    }

    /// What is held against the threshold: the number of a day, or its robust z-score among the days before it, at
    /// least half of which must have a number.
    pub fn measured(&self, reading: &Reading, before: &[Reading]) -> Option<f64> {
        let value = self.value(reading)?;
        let Test::Moved(_) = self.test else { return Some(value) };
        let window = self.window_days as usize;
        let before = &before[before.len().saturating_sub(window)..];
        let known: Vec<f64> = before.iter().filter_map(|reading| self.value(reading)).collect();
        (2 * known.len() >= window).then(|| robust_z(value, &known)).flatten()
    }

    /// What a rule says of what it measured on a day.
    pub fn judge(&self, measured: Option<f64>) -> Verdict {
        let Some(measured) = measured else { return Verdict::Unknown };
        let (over, clear) = match self.test {
            Test::Above(limit) => (measured > limit, measured <= self.clear.unwrap_or(limit)),
            Test::Below(limit) => (measured < limit, measured >= self.clear.unwrap_or(limit)),
            Test::Moved(limit) => (measured.abs() > limit, measured.abs() <= self.clear.unwrap_or(limit)),
        };
        match (over, clear) {
            (true, _) => Verdict::Breached,
            (false, true) => Verdict::Cleared,
            (false, false) => Verdict::Between,
        }
    }
}

/// A day as a rule judged it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedDay {
    /// The day.
    pub day: Day,
    /// What was known of it.
    pub reading: Reading,
    /// What was held against the threshold.
    pub measured: Option<f64>,
    /// Where the rule stands after it.
    pub standing: Standing,
    /// Whether it crossed.
    pub crossing: Option<Crossing>,
}

/// Judges days without gaps in their order, from a standing on. The first `before` of them are only looked back at.
pub fn replay(rule: &Rule, standing: Standing, days: &[(Day, Reading)], before: usize) -> Vec<JudgedDay> {
    let readings: Vec<Reading> = days.iter().map(|(_, reading)| *reading).collect();
    let mut standing = standing;
    let judged = days.iter().enumerate().skip(before).map(|(at, (day, reading))| {
        let measured = rule.measured(reading, &readings[..at]);
        let (after, crossing) = standing.step(rule.judge(measured), rule.for_days);
        standing = after;
        JudgedDay { day: *day, reading: *reading, measured, standing, crossing }
    });
    judged.collect()
}

#[cfg(test)]
mod tests;
