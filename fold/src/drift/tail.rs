//! Upper tails of distributions: the probability of exceeding a statistic.

/// Returns the probability that the Kolmogorov-Smirnov statistic, times the square root of the number of
/// observations, exceeds `x`, for many observations (`scipy.special.kolmogorov`; Marsaglia, Tsang and Wang 2003).
pub(super) fn kolmogorov(x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    // Both series give the function; each converges fast on its side.
    let tail = if x < 1.18 {
        let exponent = -std::f64::consts::PI.powi(2) / (8.0 * x * x);
        let terms = (0..8).map(|k| libm::exp(exponent * f64::from((2 * k + 1) * (2 * k + 1))));
        1.0 - (2.0 * std::f64::consts::PI).sqrt() / x * terms.sum::<f64>()
    } else {
        let terms = (1..8).map(|k| {
            let term = libm::exp(-2.0 * f64::from(k * k) * x * x);
            if k % 2 == 1 { term } else { -term }
        });
        2.0 * terms.sum::<f64>()
    };
    tail.clamp(0.0, 1.0)
}

/// Returns the probability that a number of the chi-squared distribution exceeds `x` (`scipy.stats.chi2.sf`): the
/// upper incomplete gamma function, regularised, by its series (DLMF 8.11.4) or its continued fraction (DLMF 8.9.2).
pub(super) fn chi_squared(x: f64, freedom: f64) -> f64 {
    let (a, x) = (freedom / 2.0, x / 2.0);
    if x <= 0.0 {
        return 1.0;
    }
    let front = libm::exp(a * libm::log(x) - x - libm::lgamma(a));
    let tail = if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        1.0 - front * sum
    } else {
        front * continued(x, a)
    };
    tail.clamp(0.0, 1.0)
}

/// Computes the continued fraction by the method of Lentz.
fn continued(x: f64, a: f64) -> f64 {
    let mut b = x + 1.0 - a;
    let mut d = 1.0 / b;
    let (mut c, mut value) = (f64::INFINITY, d);
    for step in 1..10_000 {
        let n = f64::from(step);
        let numerator = -n * (n - a);
        b += 2.0;
        d = 1.0 / (numerator * d + b);
        c = b + numerator / c;
        value *= c * d;
        if (c * d - 1.0).abs() < 1e-16 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// References are `scipy.special.kolmogorov` and `scipy.stats.chi2.sf` (scipy 1.17.1).
    #[test]
    fn tails_are_those_of_scipy() {
        for (x, tail) in KOLMOGOROV {
            assert!((kolmogorov(x) - tail).abs() < 1e-14, "{x}: {} for {tail}", kolmogorov(x));
        }
        for (x, freedom, tail) in CHI_SQUARED {
            let found = chi_squared(x, freedom);
            assert!((found - tail).abs() < 1e-12 * tail.max(1e-3), "{x}, {freedom}: {found} for {tail}");
        }
    }

    const KOLMOGOROV: [(f64, f64); 8] = [
        (0.0, 1.0),
        (0.2, 0.999999999999495),
        (0.5, 0.9639452436648751),
        (1.0, 0.26999967167735456),
        (1.17, 0.12939004218561884),
        (1.19, 0.11774229287977166),
        (2.0, 0.0006709252557796953),
        (5.0, 3.8574996959278356e-22),
    ];

    const CHI_SQUARED: [(f64, f64, f64); 10] = [
        (0.0, 1.0, 1.0),
        (0.1, 1.0, 0.7518296340458492),
        (3.84, 1.0, 0.05004352124870519),
        (50.0, 1.0, 1.537459794428033e-12),
        (5.0, 5.0, 0.4158801869955079),
        (20.0, 5.0, 0.0012497305630313773),
        (900.0, 1000.0, 0.9892827619087102),
        (1100.0, 1000.0, 0.014614408126295192),
        (1e-09, 2.0, 0.9999999995),
        (300.0, 10.0, 1.5546747543803087e-58),
    ];
}
