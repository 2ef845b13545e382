//! Ranking of releases by votes on pairs of them: the model of Bradley and Terry.
//!
//! A release of strength `a` wins against one of strength `b` with probability `1 / (1 + exp(b - a))` (R. A. Bradley
//! and M. E. Terry, *Rank analysis of incomplete block designs*, 1952). A tie is half a win of each. Strengths
//! maximise the likelihood of the votes and of one *virtual tie* of each release against a release of strength 0; the
//! virtual ties are the prior, which makes the answer unique for any votes (D. R. Hunter, *MM algorithms for
//! generalized Bradley-Terry models*, 2004, gives the conditions without it). The likelihood is strictly concave, and
//! its maximum is found by Newton's method. Strengths are given as differences from their mean; the interval holds 95
//! percent by the observed information.

use std::collections::{BTreeMap, BTreeSet};

use crate::formulas::NORMAL_975;

/// Maximum number of steps. Newton's method needs about ten.
const MAX_STEPS: usize = 100;

/// Maximum change of a strength in the last step.
const CLOSE: f64 = 1e-12;

/// Relative rounding error of a computed likelihood.
const ROUNDING: f64 = 1e-12;

/// Votes on two releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The releases.
    pub releases: [String; 2],
    /// Number of wins of each.
    pub wins: [u64; 2],
    /// Number of ties.
    pub ties: u64,
}

impl Tally {
    /// Returns the number of votes.
    pub fn votes(&self) -> u64 {
        self.wins[0] + self.wins[1] + self.ties
    }
}

/// A release in a ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// Name of the release.
    pub release: String,
    /// Number of wins.
    pub wins: u64,
    /// Number of losses.
    pub losses: u64,
    /// Number of ties.
    pub ties: u64,
    /// Strength with its interval; `None` without a vote.
    pub strength: Option<Strength>,
}

/// Strength of a release, as the logarithm of odds: the difference from the mean of all releases with votes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strength {
    /// Strength.
    pub value: f64,
    /// Lower end of its 95 percent interval.
    pub lower: f64,
    /// Upper end of its 95 percent interval.
    pub upper: f64,
}

/// Ranking of releases by votes.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// Releases, the strongest first, those without a vote last; equal ones by name.
    pub releases: Vec<Ranked>,
    /// True if each release with votes won, directly or through others, against each other one. Otherwise some
    /// distances depend on the prior alone.
    pub is_connected: bool,
}

/// Ranks releases by votes on pairs of them. A pair may occur several times.
pub fn rank(tallies: &[Tally]) -> Ranking {
    let mut releases = BTreeMap::<&str, [u64; 3]>::new();
    for Tally { releases: [one, other], wins: [won, lost], ties } in tallies {
        for (release, own) in [(one, [won, lost, ties]), (other, [lost, won, ties])] {
            let counts = releases.entry(release).or_default();
            counts.iter_mut().zip(own).for_each(|(count, own)| *count += own);
        }
    }
    let voted = releases.iter().filter(|(_, counts)| counts.iter().sum::<u64>() > 0);
    let numbers: BTreeMap<&str, usize> = voted.map(|(release, _)| *release).zip(0..).collect();
    let votes = Votes::new(tallies, &numbers);
    let strengths = votes.strengths();
    let mut releases: Vec<Ranked> = releases
        .into_iter()
        .map(|(release, [wins, losses, ties])| {
            let strength = numbers.get(release).map(|number| strengths[*number]);
            Ranked { release: release.to_owned(), wins, losses, ties, strength }
        })
        .collect();
    let value = |ranked: &Ranked| ranked.strength.map_or(f64::NEG_INFINITY, |strength| strength.value);
    releases.sort_by(|one, other| value(other).total_cmp(&value(one)).then(one.release.cmp(&other.release)));
    Ranking { releases, is_connected: votes.are_connected() }
}

/// Number of wins of each release against each other one, by their numbers; a tie is half a win of each.
struct Votes {
    n: usize,
    wins: BTreeMap<(usize, usize), f64>,
}

/// Derivatives of a likelihood: the first, and the negative second by rows.
struct Slopes {
    first: Vec<f64>,
    information: Vec<Vec<f64>>,
}

fn chance(strength: f64, other: f64) -> f64 {
    1.0 / (1.0 + libm::exp(other - strength))
}

/// Returns the logarithm of the chance.
fn log_chance(strength: f64, other: f64) -> f64 {
    let behind = other - strength;
    // This form does not overflow.
    -(behind.max(0.0) + libm::log1p(libm::exp(-behind.abs())))
}

impl Votes {
    fn new(tallies: &[Tally], numbers: &BTreeMap<&str, usize>) -> Self {
        let mut wins = BTreeMap::new();
        for Tally { releases: [one, other], wins: [won, lost], ties } in tallies {
            let (Some(one), Some(other)) = (numbers.get(one.as_str()), numbers.get(other.as_str())) else {
                continue;
            };
            let half = *ties as f64 / 2.0;
            for (key, won) in [((*one, *other), *won), ((*other, *one), *lost)] {
                *wins.entry(key).or_default() += won as f64 + half;
            }
        }
        wins.retain(|_, won| *won > 0.0);
        Self { n: numbers.len(), wins }
    }

    /// Returns the logarithm of the likelihood of the votes and the virtual ties.
    fn likelihood(&self, at: &[f64]) -> f64 {
        let votes = self.wins.iter().map(|((one, other), won)| won * log_chance(at[*one], at[*other]));
        let virtual_ties = at.iter().map(|own| (log_chance(*own, 0.0) + log_chance(0.0, *own)) / 2.0);
        votes.sum::<f64>() + virtual_ties.sum::<f64>()
    }

    fn slopes(&self, at: &[f64]) -> Slopes {
        let mut slopes = Slopes { first: vec![0.0; self.n], information: vec![vec![0.0; self.n]; self.n] };
        for ((one, other), won) in &self.wins {
            let lost = chance(at[*other], at[*one]);
            slopes.first[*one] += won * lost;
            slopes.first[*other] -= won * lost;
            let weight = won * lost * (1.0 - lost);
            for (row, column, sign) in
                [(one, one, 1.0), (other, other, 1.0), (one, other, -1.0), (other, one, -1.0)]
            {
                slopes.information[*row][*column] += sign * weight;
            }
        }
        for (number, own) in at.iter().enumerate() {
            let won = chance(*own, 0.0);
            slopes.first[number] += 0.5 - won;
            slopes.information[number][number] += won * (1.0 - won);
        }
        slopes
    }

    /// Returns the strengths of maximum likelihood, with their intervals, by number.
    fn strengths(&self) -> Vec<Strength> {
        let mut at = vec![0.0; self.n];
        for _ in 0..MAX_STEPS {
            let slopes = self.slopes(&at);
            let step = solve(slopes.information, vec![slopes.first]).remove(0);
            let (before, mut share) = (self.likelihood(&at), 1.0);
            let least = before - ROUNDING * before.abs();
            // A whole step may lead too far; a small part of it never does.
            let next = loop {
                let next: Vec<f64> = at.iter().zip(&step).map(|(at, step)| at + share * step).collect();
                if self.likelihood(&next) >= least || share < CLOSE {
                    break next;
                }
                share /= 2.0;
            };
            let moved = at.iter().zip(&next).map(|(at, next)| (at - next).abs()).fold(0.0, f64::max);
            at = next;
            if moved <= CLOSE {
                break;
            }
        }
        self.centred(&at)
    }

    /// Returns strengths as differences from their mean, with the intervals of those differences.
    fn centred(&self, at: &[f64]) -> Vec<Strength> {
        let n = self.n as f64;
        let unit = |number| (0..self.n).map(|other| f64::from(u8::from(other == number))).collect();
        let covariance = solve(self.slopes(at).information, (0..self.n).map(unit).collect());
        let of_row: Vec<f64> = covariance.iter().map(|row| row.iter().sum()).collect();
        let of_all: f64 = of_row.iter().sum();
        let mean = at.iter().sum::<f64>() / n;
        let strength = |(number, at): (usize, &f64)| {
            let variance = covariance[number][number] - 2.0 * of_row[number] / n + of_all / (n * n);
            let (value, wide) = (at - mean, NORMAL_975 * variance.max(0.0).sqrt());
            Strength { value, lower: value - wide, upper: value + wide }
        };
        at.iter().enumerate().map(strength).collect()
    }

    fn are_connected(&self) -> bool {
        let reaches_all = |edges: &dyn Fn(usize) -> Vec<usize>| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![0]);
            while let Some(number) = next.pop() {
                if seen.insert(number) {
                    next.extend(edges(number));
                }
            }
            seen.len() == self.n
        };
        let beats =
            |number| self.wins.keys().filter(|(one, _)| *one == number).map(|(_, other)| *other).collect();
        let is_beaten =
            |number| self.wins.keys().filter(|(_, other)| *other == number).map(|(one, _)| *one).collect();
        self.n > 0 && reaches_all(&beats) && reaches_all(&is_beaten)
    }
}

/// Solves equations with a symmetric positive definite matrix for several right sides: by Cholesky decomposition.
fn solve(mut matrix: Vec<Vec<f64>>, mut sides: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let n = matrix.len();
    for column in 0..n {
        for row in column..n {
            let above: f64 = (0..column).map(|k| matrix[row][k] * matrix[column][k]).sum();
            let rest = matrix[row][column] - above;
            // Only rounding makes it zero or negative.
            let pivot = if row == column {
                rest.max(f64::MIN_POSITIVE).sqrt()
            } else {
                rest / matrix[column][column]
            };
            matrix[row][column] = pivot;
        }
    }
    for side in &mut sides {
        for row in 0..n {
            let known: f64 = (0..row).map(|k| matrix[row][k] * side[k]).sum();
            side[row] = (side[row] - known) / matrix[row][row];
        }
        for row in (0..n).rev() {
            let known: f64 = (row + 1..n).map(|k| matrix[k][row] * side[k]).sum();
            side[row] = (side[row] - known) / matrix[row][row];
        }
    }
    sides
}

#[cfg(test)]
mod tests;
