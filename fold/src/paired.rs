//! Two releases head to head, prediction by prediction: outcomes that both predicted, and that label both.
//!
//! Pairing makes the comparison sharper than that of two metrics with an interval each: a hard day is hard for both.

mod sequence;
mod statistics;

use serde::{Deserialize, Serialize};

use self::{
    sequence::Sequence,
    statistics::{delong, mcnemar, of_means},
};
use crate::decimal;

/// Prediction of one release for an outcome, with its distance from the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Side {
    /// Distance from the truth: of a probability from 0 or 1, of a number from the real one; 1 for a wrong class.
    pub distance: f64,
    /// True if its class is the real one; `None` without a class.
    pub is_right: Option<bool>,
    /// Probability of the positive class; `None` without one.
    pub probability: Option<f64>,
    /// True for a number, false for a class.
    pub is_number: bool,
}

/// Predictions of two releases that one outcome labels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Meeting {
    /// Place of its day among the evaluated days.
    pub day: u32,
    /// Place of its key among all keys: the order of meetings within a day, which is independent of their results.
    pub key: u64,
    /// True if the positive class is the real one.
    pub is_positive: bool,
    /// Prediction of the compared release, and that of the release it is compared with.
    pub sides: [Side; 2],
}

/// A metric of two releases on the same predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Difference {
    /// Metric of each.
    pub of: [f64; 2],
    /// 95% interval of the first less the second, by the normal distribution; `None` for fewer than two predictions.
    pub interval: Option<(f64, f64)>,
    /// Probability of so great a difference, in either direction, if there is none; `None` if nothing differs.
    pub p_value: Option<f64>,
}

impl Difference {
    /// Returns the first less the second.
    pub fn difference(&self) -> f64 {
        self.of[0] - self.of[1]
    }
}

/// A metric with its formula for paired predictions.
pub struct Paired {
    /// Name of the metric.
    pub name: &'static str,
    /// Computes it; `None` if undefined.
    pub of: fn(&[Meeting]) -> Option<Difference>,
}

/// Metrics that are compared, with the tests of their differences:
///
/// - `accuracy`: the exact test of McNemar (1947), as `statsmodels.stats.contingency_tables.mcnemar(exact=True)`;
/// - `auc`: the test of DeLong, DeLong and Clarke-Pearson (1988), as `Delong_test` of MLstatkit;
/// - `brier`, `log_loss` and `mae`: the signed ranks of Wilcoxon (1945), as
///   `scipy.stats.wilcoxon(method="asymptotic")` of differences without rounding errors of doubles, which would break
///   ties.
///
/// Intervals of `accuracy`, `auc` and `brier` are cut at -1 and 1, the limits of their differences.
pub const PAIRED: [Paired; 5] = [
    Paired { name: "accuracy", of: accuracy },
    Paired { name: "auc", of: |met| delong(&scored(met)).map(within_one) },
    Paired { name: "brier", of: |met| of_means(&losses(met, brier), 0.0).map(within_one) },
    // The error of a logarithm is that of the probability, however small the loss is.
    Paired { name: "log_loss", of: |met| of_means(&losses(met, log_loss_by_decimals), 1.0) },
    Paired {
        name: "mae",
        of: |met| {
            let numbers = met.iter().filter(|met| met.sides.iter().all(|side| side.is_number));
            of_means(&numbers.map(|met| met.sides.map(|side| side.distance)).collect::<Vec<_>>(), 0.0)
        },
    },
];

/// Measure of the advantage of a release: each is from -1 to 1, and above 0 the release is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Brier score of the other less its own, if all have probabilities.
    Brier,
    /// Its accuracy less that of the other, if all have classes.
    Accuracy,
    /// Number of meetings in which it was nearer to the truth less those in which it was farther, divided by all
    /// meetings.
    Wins,
}

impl Measure {
    /// All measures, in order of preference.
    const ALL: [Self; 3] = [Self::Brier, Self::Accuracy, Self::Wins];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Brier => "brier",
            Self::Accuracy => "accuracy",
            Self::Wins => "wins",
        }
    }

    /// Returns the advantage of the first in one meeting; `None` if this measure is undefined there.
    fn of(self, met: &Meeting) -> Option<f64> {
        let [one, other] = &met.sides;
        match self {
            Self::Brier => {
                let real = f64::from(u8::from(met.is_positive));
                let loss = |p: f64| brier(p, real);
                Some(decimal::difference(loss(other.probability?), loss(one.probability?)))
            }
            Self::Accuracy => Some(f64::from(i8::from(one.is_right?) - i8::from(other.is_right?))),
            Self::Wins => Some(match one.distance.total_cmp(&other.distance) {
                std::cmp::Ordering::Less => 1.0,
                std::cmp::Ordering::Equal => 0.0,
                std::cmp::Ordering::Greater => -1.0,
            }),
        }
    }
}

/// Advantage after all meetings so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SoFar {
    /// Number of meetings.
    pub n: u64,
    /// Mean advantage; `None` before the first meeting.
    pub advantage: Option<f64>,
    /// Bounds of the true advantage. With a probability of 95% they hold after all meetings simultaneously, so one
    /// may look every day and stop at any time.
    pub bounds: (f64, f64),
}

impl SoFar {
    /// Returns the better release if the bounds exclude zero; else `None`.
    pub fn winner(&self) -> Option<Winner> {
        match self.bounds {
            (low, _) if low > 0.0 => Some(Winner::First),
            (_, high) if high < 0.0 => Some(Winner::Second),
            _ => None,
        }
    }
}

/// Better one of two releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Winner {
    /// The compared release.
    First,
    /// The release that it is compared with.
    Second,
}

/// Decision that one of two releases is better: after each day from this one on, up to the latest, the bounds
/// excluded zero on the side of the winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Better release.
    pub winner: Winner,
    /// Period of the first of these days.
    pub period: usize,
    /// Place of that day (see [`Meeting::day`]).
    pub day: u32,
}

impl Decided {
    /// Returns the decision after a day, given the one before it. If the bounds include zero again, predictions have
    /// changed, and the decision is retracted.
    fn after(before: Option<Self>, so_far: &SoFar, (period, day): (usize, u32)) -> Option<Self> {
        let winner = so_far.winner()?;
        let goes_on = before.filter(|before| before.winner == winner);
        Some(goes_on.unwrap_or(Self { winner, period, day }))
    }
}

/// Comparison of two releases in a period.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadToHead {
    /// Number of meetings in which the first was nearer to the truth.
    pub wins: u64,
    /// Number of meetings in which it was farther.
    pub losses: u64,
    /// Number of meetings in which both were equally near.
    pub ties: u64,
    /// Mean advantage of the period; `None` without meetings.
    pub advantage: Option<f64>,
    /// Advantage including all earlier periods.
    pub so_far: SoFar,
    /// Decision after this period; `None` if undecided.
    pub decided: Option<Decided>,
    /// Metrics by the place in [`PAIRED`].
    pub metrics: [Option<Difference>; PAIRED.len()],
}

/// Compares two releases in consecutive periods; the meetings of a period need not be sorted.
pub fn head_to_head(mut periods: Vec<Vec<Meeting>>) -> (Measure, Vec<HeadToHead>) {
    periods.iter_mut().for_each(|period| in_order(period));
    let has = |measure: &Measure| periods.iter().flatten().all(|met| measure.of(met).is_some());
    let measure = Measure::ALL.into_iter().find(has).unwrap_or(Measure::Wins);
    let mut sequence = Sequence::default();
    let mut decided = None;
    let compared = periods.iter().enumerate().map(|(number, period)| {
        let mut sum = 0.0;
        for of_day in period.chunk_by(|met, next| met.day == next.day) {
            for advantage in of_day.iter().filter_map(|met| measure.of(met)) {
                sum += advantage;
                take(&mut sequence, advantage);
            }
            decided = Decided::after(decided, &so_far(&sequence), (number, of_day[0].day));
        }
        let so_far = so_far(&sequence);
        let count = |who: f64| period.iter().filter(|met| Measure::Wins.of(met) == Some(who)).count() as u64;
        HeadToHead {
            wins: count(1.0),
            losses: count(-1.0),
            ties: count(0.0),
            advantage: (!period.is_empty()).then(|| sum / period.len() as f64),
            so_far,
            decided,
            metrics: PAIRED.each_ref().map(|metric| (metric.of)(period)),
        }
    });
    let compared = compared.collect();
    (measure, compared)
}

/// Sorts meetings by keys, whose order is independent of the results.
fn in_order(met: &mut [Meeting]) {
    let bits = |met: &Meeting| met.sides.map(|side| side.distance.to_bits());
    met.sort_unstable_by_key(|met| (met.day, met.key, bits(met)));
}

/// Adds the next advantage to those before.
fn take(sequence: &mut Sequence, advantage: f64) {
    sequence.add((advantage + 1.0) / 2.0);
}

/// Returns the bounds after all advantages so far.
fn so_far(sequence: &Sequence) -> SoFar {
    let to_advantage = |mean: f64| 2.0 * mean - 1.0;
    let (lower, upper) = sequence.bounds();
    SoFar {
        n: sequence.n(),
        advantage: sequence.mean().map(to_advantage),
        bounds: (to_advantage(lower), to_advantage(upper)),
    }
}

fn accuracy(met: &[Meeting]) -> Option<Difference> {
    let right: Vec<[bool; 2]> =
        met.iter().filter_map(|met| Some([met.sides[0].is_right?, met.sides[1].is_right?])).collect();
    let numbers: Vec<[f64; 2]> =
        right.iter().map(|sides| sides.map(|is_right| f64::from(u8::from(is_right)))).collect();
    let only = |side: usize| right.iter().filter(|of| of[side] && !of[1 - side]).count() as u64;
    Some(Difference { p_value: mcnemar(only(0), only(1)), ..within_one(of_means(&numbers, 0.0)?) })
}

/// Cuts the interval of a metric whose differences are between -1 and 1.
fn within_one(found: Difference) -> Difference {
    let interval = found.interval.map(|(low, high)| (low.max(-1.0), high.min(1.0)));
    Difference { interval, ..found }
}

/// Returns the probabilities of both, and whether the positive class is the real one.
fn scored(met: &[Meeting]) -> Vec<([f64; 2], bool)> {
    let both =
        |met: &Meeting| Some(([met.sides[0].probability?, met.sides[1].probability?], met.is_positive));
    met.iter().filter_map(both).collect()
}

/// Returns the losses of both, by a loss of a probability and the truth, 1 or 0.
fn losses(met: &[Meeting], loss: fn(f64, f64) -> f64) -> Vec<[f64; 2]> {
    let both = |(p, real): ([f64; 2], bool)| p.map(|p| loss(p, f64::from(u8::from(real))));
    scored(met).into_iter().map(both).collect()
}

fn brier(p: f64, real: f64) -> f64 {
    let off = decimal::difference(p, real);
    off * off
}

/// Computes the loss of [`Probabilities::log_loss`](crate::formulas::Probabilities::log_loss).
pub(crate) fn log_loss(p: f64, real: f64) -> f64 {
    let of_truth = if real == 1.0 { p } else { 1.0 - p };
    -libm::log(of_truth.clamp(f64::EPSILON, 1.0 - f64::EPSILON))
}

/// Computes the loss from the decimal probability of the truth, so that 0.9999 for a negative loses as much as 0.0001
/// for a positive.
fn log_loss_by_decimals(p: f64, real: f64) -> f64 {
    match decimal::difference(1.0, p) {
        // So near to 1 the only decimal is 1.
        of_truth if real != 1.0 && of_truth > 0.0 => log_loss(of_truth, 1.0),
        _ => log_loss(p, real),
    }
}

/// Two releases head to head, up to now. After each day it gives the advantage that
/// [`head_to_head`] computes from all days up to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ongoing {
    /// The advantages by each measure so far, by the place in [`Measure::ALL`]; `None` from the first meeting on that has none of the measure.
    courses: [Option<Sequence>; Measure::ALL.len()],
}

impl Default for Ongoing {
    fn default() -> Self {
        Self { courses: Measure::ALL.map(|_| Some(Sequence::default())) }
    }
}

impl Ongoing {
    /// Adds meetings of a day, unsorted. A day may be added in parts, in the order of the places of its keys.
    pub fn add(&mut self, mut met: Vec<Meeting>) {
        in_order(&mut met);
        for (measure, kept) in Measure::ALL.iter().zip(&mut self.courses) {
            let Some(sequence) = kept else { continue };
            let has_all = met.iter().all(|met| {
                let advantage = measure.of(met);
                if let Some(advantage) = advantage {
                    take(sequence, advantage);
                }
                advantage.is_some()
            });
            if !has_all {
                *kept = None;
            }
        }
    }

    /// Returns the measure of the advantage, and the advantage so far.
    pub fn says(&self) -> (Measure, SoFar) {
        let mut courses = Measure::ALL.into_iter().zip(&self.courses);
        let found = courses.find_map(|(measure, sequence)| Some((measure, sequence.as_ref()?)));
        match found {
            Some((measure, sequence)) => (measure, so_far(sequence)),
            None => (Measure::Wins, so_far(&Sequence::default())),
        }
    }
}

#[cfg(test)]
mod tests;
