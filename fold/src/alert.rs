//! Alert rules: judging the number of each day, and deciding when to notify people, as a pure state machine.
//!
//! A rule judges whole days, one after the other. [`Rule::judge`] compares the number of a day with a threshold, or
//! its robust z-score among the days before it, and returns a [`Verdict`]. [`Standing::step`] takes the verdicts in
//! the order of days and returns the crossings: the rule begins to fire, or is resolved. Replaying the same numbers
//! gives the same crossings ([`replay`]).

mod robust;

pub use robust::{MAX_DEVIATIONS, robust_z};

use event::Day;

/// Threshold that the number of a day is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test {
    /// Fires above this number.
    Above(f64),
    /// Fires below this number.
    Below(f64),
    /// Fires more than this many robust deviations from the days before, up or down.
    Moved(f64),
}

/// Settings of an alert rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Threshold that the number of a day is compared with.
    pub test: Test,
    /// Threshold at which a firing rule is resolved; that of `test`, when `None`.
    pub clear: Option<f64>,
    /// Minimum number of events behind a day's number for it to be judged.
    pub min_n: u64,
    /// Number of consecutive days beyond the threshold before the rule fires, at least 1.
    pub for_days: u32,
    /// Number of days before a day that [`Test::Moved`] compares it with.
    pub window_days: u32,
}

/// Number of a day and the events behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Number of the day; `None` if undefined.
    pub value: Option<f64>,
    /// Number of events behind it; `None` if that does not matter.
    pub n: Option<u64>,
}

/// Verdict of a rule on one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The threshold is passed.
    Breached,
    /// The threshold is not passed, but the number has not come back far enough to resolve the rule.
    Between,
    /// All is well.
    Cleared,
    /// Too little data to judge the day.
    Unknown,
}

/// State of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// All is well.
    #[default]
    Ok,
    /// The threshold is passed, but not on enough days.
    Pending,
    /// Firing.
    Firing,
    /// Fired until the day before.
    Resolved,
    /// No data on the last day, while the rule was neither pending nor firing.
    NoData,
}

impl State {
    /// All states.
    pub const ALL: [Self; 5] = [Self::Ok, Self::Pending, Self::Firing, Self::Resolved, Self::NoData];

    /// Returns its name: `ok`, `pending`, `firing`, `resolved` or `no_data`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Pending => "pending",
            Self::Firing => "firing",
            Self::Resolved => "resolved",
            Self::NoData => "no_data",
        }
    }

    /// Returns the state of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// Event to notify people of: a rule begins to fire, or is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// Begins to fire.
    Fires,
    /// Stops firing.
    Resolves,
}

impl Crossing {
    /// Both crossings.
    pub const ALL: [Self; 2] = [Self::Fires, Self::Resolves];

    /// Returns its name: `fires` or `resolves`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fires => "fires",
            Self::Resolves => "resolves",
        }
    }

    /// Returns the crossing of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|crossing| crossing.name() == name)
    }
}

/// Standing of a rule after some days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// State of the rule.
    pub state: State,
    /// Number of consecutive judged days beyond the threshold, while pending.
    pub days: u32,
}

impl Standing {
    /// Returns the standing after one more day, and the crossing, if any.
    ///
    /// A day without data neither extends nor breaks a row of days, and a firing rule stays firing.
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
    /// Returns the number of a reading if it is finite and made of enough events.
    fn value(&self, reading: &Reading) -> Option<f64> {
        let is_enough = reading.n.is_none_or(|n| n >= self.min_n);
        reading.value.filter(|value| is_enough && value.is_finite())
    }

    /// Returns the number to compare with the threshold: that of the day, or its robust z-score among the days before
    /// it, at least half of which must have a number.
    pub fn measured(&self, reading: &Reading, before: &[Reading]) -> Option<f64> {
        let value = self.value(reading)?;
        let Test::Moved(_) = self.test else { return Some(value) };
        let window = self.window_days as usize;
        let before = &before[before.len().saturating_sub(window)..];
        let known: Vec<f64> = before.iter().filter_map(|reading| self.value(reading)).collect();
        (2 * known.len() >= window).then(|| robust_z(value, &known)).flatten()
    }

    /// Judges a measured number.
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
    /// Number of the day and the events behind it.
    pub reading: Reading,
    /// Number compared with the threshold.
    pub measured: Option<f64>,
    /// Standing of the rule after the day.
    pub standing: Standing,
    /// Crossing on this day, if any.
    pub crossing: Option<Crossing>,
}

/// Judges consecutive days from a standing on. The first `before` days only serve as history.
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
