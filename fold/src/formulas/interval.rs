//! Formulas of intervals.

/// Quantile 0.975 of the normal distribution.
pub(crate) const NORMAL_975: f64 = 1.959_963_984_540_054;

/// Returns the 95% interval of the share of `right` among `n` (Wilson 1927; `scipy.stats.binomtest`,
/// `method="wilson"`). `None` if `n` is 0.
pub(crate) fn wilson(right: u64, n: u64) -> Option<(f64, f64)> {
    if n == 0 {
        return None;
    }
    let (z, total) = (NORMAL_975, n as f64);
    let share = right as f64 / total;
    let scale = 1.0 + z * z / total;
    let center = (share + z * z / (2.0 * total)) / scale;
    let half = z / scale * (share * (1.0 - share) / total + z * z / (4.0 * total * total)).sqrt();
    let low = if right == 0 { 0.0 } else { (center - half).max(0.0) };
    let high = if right == n { 1.0 } else { (center + half).min(1.0) };
    Some((low, high))
}

/// Degrees of freedom above which the series is as exact as a double.
const MANY: f64 = 300.0;

/// Returns the quantile 0.975 of Student's distribution (`scipy.stats.t.ppf`).
pub(crate) fn student_975(freedom: f64) -> f64 {
    let z = NORMAL_975;
    let z2 = z * z;
    if freedom > MANY {
        // Abramowitz and Stegun 26.7.5.
        let terms = [
            z * (z2 + 1.0) / 4.0,
            z * ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0,
            z * (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0,
            z * ((((79.0 * z2 + 776.0) * z2 + 1482.0) * z2 - 1920.0) * z2 - 945.0) / 92_160.0,
        ];
        return terms.iter().rev().fold(0.0, |sum, term| (sum + term) / freedom) + z;
    }
    // With one degree of freedom it is 12.7; with more it is less.
    let (mut low, mut high) = (z, 13.0);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if student_beyond(middle, freedom) > 0.05 {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Returns the probability that a number of the standard normal distribution is farther than `z` from 0.
pub(crate) fn normal_beyond(z: f64) -> f64 {
    libm::erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// Returns the probability that a number of Student's distribution is farther than `t` from 0.
pub(crate) fn student_beyond(t: f64, freedom: f64) -> f64 {
    beta_share(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Returns the regularised incomplete beta function, by the continued fraction of DLMF 8.17.22, which converges fast
/// for x < (a + 1) / (a + b + 2).
fn beta_share(x: f64, a: f64, b: f64) -> f64 {
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_share(1.0 - x, b, a);
    }
    let scale = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b);
    let front = libm::exp(scale + a * libm::log(x) + b * libm::log1p(-x)) / a;
    // Method of Lentz.
    let (mut c, mut d, mut value) = (1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0)), 0.0);
    value += d;
    for step in 1..500 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / (1.0 + term * d);
            c = 1.0 + term / c;
            change = c * d;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-16 {
            break;
        }
    }
    front * value
}

/// Returns the standard error of the area under the curve of scores, each with whether it is of a positive (DeLong,
/// DeLong and Clarke-Pearson 1988). `None` unless there are two of each.
pub(crate) fn delong(scores: &[(f64, bool)]) -> Option<f64> {
    let Placements { order, shares } = Placements::new(scores);
    let of_class = |is: bool| {
        let class: Vec<f64> = order.iter().filter(|at| scores[**at].1 == is).map(|at| shares[*at]).collect();
        (class.len() > 1).then(|| variance_of_mean(&class))
    };
    Some((of_class(true)? + of_class(false)?).sqrt())
}

/// Returns the variance of the mean of at least two numbers.
pub(crate) fn variance_of_mean(numbers: &[f64]) -> f64 {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    numbers.iter().map(|number| (number - mean) * (number - mean)).sum::<f64>() / (n - 1.0) / n
}

/// Placements of scores among those of the other class.
pub(crate) struct Placements {
    /// Places of the scores, in ascending order of the score.
    pub(crate) order: Vec<usize>,
    /// Share of negatives with a smaller score, for each positive; share of positives with a greater score, for each
    /// negative. Equal scores count one half.
    pub(crate) shares: Vec<f64>,
}

impl Placements {
    /// Returns the placements of scores, each with whether it is of a positive.
    pub(crate) fn new(scores: &[(f64, bool)]) -> Self {
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_unstable_by(|one, other| scores[*one].0.total_cmp(&scores[*other].0));
        let all = scores.iter().filter(|(_, real)| *real).count() as f64;
        let all_negatives = scores.len() as f64 - all;
        let mut shares = vec![0.0; scores.len()];
        let (mut positives, mut negatives) = (0.0, 0.0);
        for tied in order.chunk_by(|one, other| scores[*one].0 == scores[*other].0) {
            let tied_positives = tied.iter().filter(|at| scores[**at].1).count() as f64;
            let tied_negatives = tied.len() as f64 - tied_positives;
            for at in tied {
                shares[*at] = match scores[*at].1 {
                    true => (negatives + tied_negatives / 2.0) / all_negatives,
                    false => (all - positives - tied_positives / 2.0) / all,
                };
            }
            positives += tied_positives;
            negatives += tied_negatives;
        }
        Self { order, shares }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_student_are_those_of_tables() {
        // scipy.stats.t.ppf(0.975, freedom).
        let known = [
            (1.0, 12.706_204_736_174_698),
            (2.0, 4.302652729749462),
            (10.0, 2.228138851986274),
            (299.0, 1.9679296690656698),
            (301.0, 1.9678765312856952),
            (1e6, 1.959966356814107),
        ];
        for (freedom, expected) in known {
            let found = student_975(freedom);
            assert!((found - expected).abs() < 1e-11 * expected, "{freedom}: {found} is not {expected}");
        }
    }

    #[test]
    fn intervals_by_hand() {
        assert_eq!(wilson(0, 0), None);
        let (low, high) = wilson(0, 10).unwrap();
        assert!(low == 0.0 && (high - 0.277_532_799_862_889_5).abs() < 1e-14, "{high}");
        assert_eq!(wilson(10, 10).map(|(_, high)| high), Some(1.0));
        assert_eq!(delong(&[(0.1, false), (0.2, true), (0.3, true)]), None);
        let error = delong(&[(0.1, false), (0.4, false), (0.35, true), (0.8, true)]).unwrap();
        // Each class has the shares 1/2 and 1, whose variance is 1/8.
        assert!((error - (0.125f64 / 2.0 * 2.0).sqrt()).abs() < 1e-15, "{error}");
        assert_eq!(delong(&[(0.5, false), (0.5, false), (0.5, true), (0.5, true)]), Some(0.0));
    }
}
