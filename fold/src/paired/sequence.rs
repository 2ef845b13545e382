//! Bounds of a mean that hold after each number at once.

use serde::{Deserialize, Serialize};

/// Of 100 such sequences at most 5 ever leave out the true mean.
const ALPHA: f64 = 0.05;

/// No bet is greater, so that no number can ruin it.
const GREATEST_BET: f64 = 0.5;

/// A confidence sequence of the mean of numbers from 0 to 1, which come one after the other: the predictable plug-in
/// empirical Bernstein bounds (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2023,
/// theorem 2), as `predmix_lower_cs` of confseq computes them from the variances of that theorem, which are taken from the mean
/// with half a number of 1/2 before the first. (Its `predmix_empbern_twosided_cs` takes them from the plain mean; both hold.) It takes
/// for granted that no number says what the next one will be beyond their mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sequence {
    n: u64,
    sum: f64,
    /// The sum of squared distances from the mean as it stood after each number.
    squares: f64,
    bets: f64,
    /// The sum of the numbers, each by its bet.
    weighted: f64,
    /// The price of having looked: the sum of 4 (number - mean before it)^2 psi(bet).
    price: f64,
}

impl Sequence {
    /// Takes the next number.
    pub(super) fn add(&mut self, number: f64) {
        let before = self.n as f64;
        let next = before + 1.0;
        // Half a number of 1/2 and a variance of 1/4 stand before the first.
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

    /// How many numbers there were.
    pub(super) fn n(&self) -> u64 {
        self.n
    }

    /// Their mean.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }

    /// Between what the true mean lies.
    pub(super) fn bounds(&self) -> (f64, f64) {
        if self.n == 0 {
            return (0.0, 1.0);
        }
        let centre = self.weighted / self.bets;
        let radius = (libm::log(2.0 / ALPHA) + self.price) / self.bets;
        ((centre - radius).max(0.0), (centre + radius).min(1.0))
    }
}
