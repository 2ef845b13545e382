//! Tests of the difference between two metrics of the same predictions.

use super::Difference;
use crate::{
    decimal::{self, NOISE},
    formulas::{NORMAL_975, Placements, normal_beyond, variance_of_mean},
};

fn around(difference: f64, error: f64) -> (f64, f64) {
    (difference - NORMAL_975 * error, difference + NORMAL_975 * error)
}

/// Returns the means of two series of numbers, and the test of Wilcoxon of their differences. `None` without numbers.
/// The inputs of their computation are at least as great as `scale`.
pub(super) fn of_means(pairs: &[[f64; 2]], scale: f64) -> Option<Difference> {
    if pairs.is_empty() {
        return None;
    }
    let n = pairs.len() as f64;
    let of = [0, 1].map(|side| pairs.iter().map(|pair| pair[side]).sum::<f64>() / n);
    let differences: Vec<f64> = pairs.iter().map(|[one, other]| one - other).collect();
    let interval = (pairs.len() > 1).then(|| around(of[0] - of[1], variance_of_mean(&differences).sqrt()));
    let noise = |[one, other]: &[f64; 2]| NOISE * one.abs().max(other.abs()).max(scale);
    let differences = pairs.iter().map(|pair| (decimal::difference(pair[0], pair[1]), noise(pair)));
    Some(Difference { of, interval, p_value: wilcoxon(differences.collect()) })
}

/// Returns the p-value of the exact test of McNemar: the probability that of `one + other` fair coins so few, or so
/// many, fall on one side.
pub(super) fn mcnemar(one: u64, other: u64) -> Option<f64> {
    let (fewer, n) = (one.min(other), one + other);
    if n == 0 {
        return None;
    }
    let (of, k) = (n as f64, fewer as f64);
    let ways = libm::lgamma(of + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(of - k + 1.0);
    let mut term = libm::exp(ways - of * std::f64::consts::LN_2);
    let mut sum = 0.0;
    // Each term, from the most probable down, is the one before times k / (n - k + 1).
    for k in (0..=fewer).rev() {
        sum += term;
        if term < sum * 1e-18 {
            break;
        }
        term *= k as f64 / (n - k + 1) as f64;
    }
    Some((2.0 * sum).min(1.0))
}

/// Returns the p-value of the test of Wilcoxon by the normal distribution, of differences given with their rounding
/// error, without those that are zero. `None` if all are. Neighbours that differ by rounding are tied.
fn wilcoxon(mut differences: Vec<(f64, f64)>) -> Option<f64> {
    differences.retain(|(difference, noise)| difference.abs() > *noise);
    differences.sort_unstable_by(|(one, _), (other, _)| one.abs().total_cmp(&other.abs()));
    let n = differences.len() as f64;
    let (mut above, mut ranked, mut ties) = (0.0, 0.0, 0.0);
    let is_tied = |one: &(f64, f64), other: &(f64, f64)| other.0.abs() - one.0.abs() <= one.1.max(other.1);
    for tied in differences.chunk_by(is_tied) {
        let many = tied.len() as f64;
        let rank = ranked + (many + 1.0) / 2.0;
        above += rank * tied.iter().filter(|(difference, _)| *difference > 0.0).count() as f64;
        ties += many * many * many - many;
        ranked += many;
    }
    let variance = (n * (n + 1.0) * (2.0 * n + 1.0) - ties / 2.0) / 24.0;
    (variance > 0.0).then(|| normal_beyond((above - n * (n + 1.0) / 4.0) / variance.sqrt()))
}

/// Returns the areas under the curves of two series of probabilities of the same cases, and the test of their
/// difference. `None` unless there are positives and negatives.
pub(super) fn delong(cases: &[([f64; 2], bool)]) -> Option<Difference> {
    let shares = [0, 1].map(|side| {
        let scores: Vec<(f64, bool)> = cases.iter().map(|(p, real)| (p[side], *real)).collect();
        Placements::new(&scores).shares
    });
    let count = |is: bool| cases.iter().filter(|(_, real)| *real == is).count() as f64;
    let (positives, negatives) = (count(true), count(false));
    if positives == 0.0 || negatives == 0.0 {
        return None;
    }
    let of_class = |side: usize, is: bool| {
        shares[side].iter().zip(cases).filter(move |(_, (_, real))| *real == is).map(|(share, _)| *share)
    };
    let of = [0, 1].map(|side| of_class(side, true).sum::<f64>() / positives);
    let spread = |is: bool| {
        let differences = of_class(0, is).zip(of_class(1, is)).map(|(one, other)| one - other);
        variance_of_mean(&differences.collect::<Vec<f64>>())
    };
    if positives < 2.0 || negatives < 2.0 {
        return Some(Difference { of, interval: None, p_value: None });
    }
    let error = (spread(true) + spread(false)).sqrt();
    let difference = of[0] - of[1];
    let p_value = (error > 0.0).then(|| normal_beyond(difference / error));
    Some(Difference { of, interval: Some(around(difference, error)), p_value })
}
