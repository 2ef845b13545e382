//! Bounds of a mean that hold after all numbers simultaneously.

use serde::{Deserialize, Serialize};

/// Error rate: at most 5 of 100 such sequences ever exclude the true mean.
const ALPHA: f64 = 0.05;

/// Maximum bet, so that no number can ruin it.
const GREATEST_BET: f64 = 0.5;

/// Confidence sequence of the mean of successive numbers from 0 to 1: the predictable plug-in empirical Bernstein
/// bounds (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2023, theorem 2), as
/// `predmix_lower_cs` of confseq computes them from the variances of that theorem, which are taken from the mean with
/// half a number of 1/2 before the first. (Its `predmix_empbern_twosided_cs` takes them from the plain mean; both
/// hold.) It assumes that no number predicts the next one beyond their mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sequence {
    n: u64,
    sum: f64,
    /// Sum of squared distances from the mean after each number.
    squares: f64,
    bets: f64,
    /// Sum of the numbers, weighted by their bets.
    weighted: f64,
    /// Price of having looked: the sum of 4 (number - mean before it)^2 psi(bet).
    price: f64,
}

impl Sequence {
    /// Adds the next number.
    pub(super) fn add(&mut self, number: f64) {
        let before = self.n as f64;
        let next = before + 1.0;
        // Half a number of 1/2 and a variance of 1/4 are assumed before the first.
        let mean_before = (0.5 + self.sum) / (before + 1.0);
        let variance = (0.25 + self.squares) / (before + 1.0);
        let bet = (2.0 * libm::log(2.0 / ALPHA) / (variance * next * libm::log(1.0 + next))).sqrt();
        let bet = bet.min(GREATEST_BET);
        let psi = (-libm::log(1.0 - bet) - bet) / 4.0;
        let distance = number - mean_before;
        self.price += 4.0 * distance * distance * psi;
        self.bets += bet;
        self.weighted += bet * number;
        self.n += 1;
        self.sum += number;
        let from_mean = number - (0.5 + self.sum) / (next + 1.0);
        self.squares += from_mean * from_mean;
    }

    /// Returns the number of numbers.
    pub(super) fn n(&self) -> u64 {
        self.n
    }

    /// Returns their mean.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }

    /// Returns the bounds of the true mean.
    pub(super) fn bounds(&self) -> (f64, f64) {
        if self.n == 0 {
            return (0.0, 1.0);
        }
        let centre = self.weighted / self.bets;
        let radius = (libm::log(2.0 / ALPHA) + self.price) / self.bets;
        ((centre - radius).max(0.0), (centre + radius).min(1.0))
    }
}
