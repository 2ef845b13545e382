//! Alert rules as a pure state machine: evaluates the number of each day, and decides when to notify people.
//!
//! A rule evaluates whole days, one after the other. [`Rule::judge`] compares the number of a day with a threshold, or
//! its robust z-score among the days before it, and returns a [`Verdict`]. [`Standing::step`] takes the verdicts in
//! the order of days and returns the transitions: the rule begins to fire, or is resolved. Replaying the same numbers
//! gives the same transitions ([`replay`]).

use event::Day;
use serde::{Deserialize, Serialize};

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
    /// Minimum number of events behind a day's number for it to be evaluated.
    pub min_n: u64,
    /// Number of consecutive days beyond the threshold before the rule fires, at least 1.
    pub for_days: u32,
    /// Number of days before a day that [`Test::Moved`] compares it with.
    pub window_days: u32,
}

/// Number of a day and the events behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
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
    /// Too little data to evaluate the day.
    Unknown,
}

/// State of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// Names of all states.
    pub const NAMES: [&'static str; 5] = ["ok", "pending", "firing", "resolved", "no_data"];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Event to notify people of: a rule begins to fire, or is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transition {
    /// Begins to fire.
    Fires,
    /// Stops firing.
    Resolves,
}

impl Transition {
    /// Names of both transitions.
    pub const NAMES: [&'static str; 2] = ["fires", "resolves"];

    /// Returns its name: `fires` or `resolves`.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Standing of a rule after some days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// State of the rule.
    pub state: State,
    /// Number of consecutive evaluated days beyond the threshold, while pending.
    pub days: u32,
}

impl Standing {
    /// Returns the standing after one more day, and the transition, if any.
    ///
    /// A day without data neither extends nor breaks a row of days, and a firing rule stays firing.
    pub fn step(self, verdict: Verdict, for_days: u32) -> (Self, Option<Transition>) {
        let at = |state| Self { state, days: 0 };
        match (self.state, verdict) {
            (State::Firing, Verdict::Cleared) => (at(State::Resolved), Some(Transition::Resolves)),
            (State::Firing, _) | (State::Pending, Verdict::Unknown) => (self, None),
            (_, Verdict::Unknown) => (at(State::NoData), None),
            (_, Verdict::Breached) => match self.days.saturating_add(1) {
                days if days >= for_days => (at(State::Firing), Some(Transition::Fires)),
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

    /// Evaluates a measured number.
    pub fn judge(&self, measured: Option<f64>) -> Verdict {
        let Some(measured) = measured else { return Verdict::Unknown };
        // Oriented so that greater is worse.
        let (measured, limit, sign) = match self.test {
            Test::Above(limit) => (measured, limit, 1.0),
            Test::Below(limit) => (-measured, -limit, -1.0),
            Test::Moved(limit) => (measured.abs(), limit, 1.0),
        };
        match measured > limit {
            true => Verdict::Breached,
            false if measured <= self.clear.map_or(limit, |clear| sign * clear) => Verdict::Cleared,
            false => Verdict::Between,
        }
    }
}

/// A day as a rule evaluated it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JudgedDay {
    /// The day.
    pub day: Day,
    /// Number of the day and the events behind it.
    #[serde(flatten)]
    pub reading: Reading,
    /// Number compared with the threshold.
    pub measured: Option<f64>,
    /// Standing of the rule after the day.
    #[serde(flatten)]
    pub standing: Standing,
    /// Transition on this day, if any.
    pub transition: Option<Transition>,
}

/// Evaluates consecutive days from a standing on. The first `before` days only serve as history.
pub fn replay(rule: &Rule, standing: Standing, days: &[(Day, Reading)], before: usize) -> Vec<JudgedDay> {
    let readings: Vec<Reading> = days.iter().map(|(_, reading)| *reading).collect();
    let mut standing = standing;
    let judged = days.iter().enumerate().skip(before).map(|(at, (day, reading))| {
        let measured = rule.measured(reading, &readings[..at]);
        let (after, transition) = standing.step(rule.judge(measured), rule.for_days);
        standing = after;
        JudgedDay { day: *day, reading: *reading, measured, standing, transition }
    });
    judged.collect()
}

/// Quantile of the standard normal distribution at 3/4: the median deviation in standard deviations.
const NORMAL_75: f64 = 0.674_489_750_196_081_7;

/// Standard deviation of a normal distribution in mean absolute deviations: the root of π/2.
const ROOT_HALF_PI: f64 = 1.253_314_137_315_500_3;

/// Limit of deviations: if all others are equal, every other number is infinitely far away.
pub const MAX_DEVIATIONS: f64 = 1e6;

/// Returns the number of robust standard deviations above the median of others, negative below; `None` without
/// others.
///
/// The modified z-score of Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993): by the median absolute
/// deviation from the median, or by the mean absolute deviation if half of the numbers equal the median.
pub fn robust_z(value: f64, others: &[f64]) -> Option<f64> {
    let middle = median(others.to_vec())?;
    let deviations: Vec<f64> = others.iter().map(|other| (other - middle).abs()).collect();
    let mean = deviations.iter().sum::<f64>() / deviations.len() as f64;
    let scale = match median(deviations)? {
        0.0 => mean * ROOT_HALF_PI,
        mad => mad / NORMAL_75,
    };
    let distance = value - middle;
    Some(match distance == 0.0 {
        true => 0.0,
        false => (distance / scale).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS),
    })
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_unstable_by(f64::total_cmp);
    let half = numbers.len() / 2;
    let upper = *numbers.get(half)?;
    Some(match numbers.len() % 2 {
        1 => upper,
        _ => f64::midpoint(numbers[half - 1], upper),
    })
}

#[cfg(test)]
mod tests;
