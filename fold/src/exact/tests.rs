use proptest::{collection::vec, prelude::*};

use super::ExactSum;

/// Computes Python's `math.fsum` (Shewchuk's growing expansion with a correctly rounded end), an independent exact
/// method as long as no partial sum overflows.
fn fsum(terms: &[f64]) -> f64 {
    let mut partials: Vec<f64> = Vec::new();
    for &term in terms {
        let mut x = term;
        let mut kept = 0;
        for at in 0..partials.len() {
            let mut y = partials[at];
            if x.abs() < y.abs() {
                std::mem::swap(&mut x, &mut y);
            }
            let high = x + y;
            let low = y - (high - x);
            if low != 0.0 {
                partials[kept] = low;
                kept += 1;
            }
            x = high;
        }
        partials.truncate(kept);
        partials.push(x);
    }
    let Some(mut high) = partials.pop() else { return 0.0 };
    let mut low = 0.0;
    while let Some(y) = partials.pop() {
        let x = high;
        high = x + y;
        low = y - (high - x);
        if low != 0.0 {
            break;
        }
    }
    // Halfway cases: the next partial decides the side of the tie.
    if let Some(next) = partials.last()
        && (low < 0.0) == (*next < 0.0)
        && low != 0.0
    {
        let twice = low * 2.0;
        let x = high + twice;
        if twice == x - high {
            high = x;
        }
    }
    high
}

fn sum(terms: &[f64]) -> ExactSum {
    terms.iter().copied().collect()
}

/// Generates any finite double, with a bias for edges.
fn finite() -> impl Strategy<Value = f64> {
    let edges =
        vec![0.0, -0.0, 1.0, -1.0, f64::MIN_POSITIVE, f64::from_bits(1), -f64::from_bits(1), f64::EPSILON];
    prop_oneof![
        4 => any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |x| x.is_finite()),
        2 => 0.0..1.0f64,
        1 => proptest::sample::select(edges),
        1 => any::<i32>().prop_map(f64::from),
    ]
}

#[test]
fn small_cases_by_hand() {
    assert_eq!(sum(&[]), ExactSum::new());
    assert_eq!(sum(&[-0.0, -0.0]).value().to_bits(), 0.0f64.to_bits());
    assert_eq!((sum(&[1.0]).value(), sum(&[-1.5]).value()), (1.0, -1.5));
    assert_ne!(sum(&[1.0]), sum(&[1.0, f64::from_bits(1)]));
    assert_eq!(sum(&[0.1; 10]).value(), 1.0);
    assert_eq!(sum(&[1e16, 1.0, -1e16]).value(), 1.0);
    assert_eq!(sum(&[1e308, -1e308]), ExactSum::new());
    assert_eq!(sum(&[f64::from_bits(1)]).value().to_bits(), 1);
}

#[test]
fn rounds_to_nearest_even_once() {
    let ulp = f64::EPSILON;
    assert_eq!(sum(&[1.0, ulp / 2.0]).value(), 1.0, "tie to even, down");
    assert_eq!(sum(&[1.0 + ulp, ulp / 2.0]).value(), 1.0 + 2.0 * ulp, "tie to even, up");
    assert_eq!(sum(&[1.0, ulp / 2.0, f64::from_bits(1)]).value(), 1.0 + ulp, "just above the tie");
    assert_eq!(sum(&[2.0, -ulp / 2.0]).value(), 2.0, "tie up over a power of two");
    assert_eq!(sum(&[-1.0, -ulp / 2.0, -f64::from_bits(1)]).value(), -1.0 - ulp);
}

#[test]
fn extremes() {
    assert_eq!(sum(&[f64::MAX]).value(), f64::MAX);
    assert_eq!(sum(&[f64::MAX, f64::MAX]).value(), f64::INFINITY);
    assert_eq!(sum(&[f64::MIN, f64::MIN]).value(), f64::NEG_INFINITY);
    let half_step = 2f64.powi(970);
    assert_eq!(sum(&[f64::MAX, half_step]).value(), f64::INFINITY, "rounds up to infinity as IEEE 754 does");
    assert_eq!(sum(&[f64::MAX, half_step, -f64::from_bits(1)]).value(), f64::MAX);
    assert_eq!(sum(&[f64::MAX, f64::MAX, f64::MIN]).value(), f64::MAX, "back from beyond");
    let subnormal = sum(&[f64::MIN_POSITIVE, -f64::from_bits(1)]);
    assert_eq!(subnormal.value(), f64::from_bits((1 << 52) - 1));
    let mut many: ExactSum = std::iter::repeat_n(f64::MAX, 100_000).collect();
    assert_eq!(many.value(), f64::INFINITY);
    many.extend(std::iter::repeat_n(f64::MIN, 99_999));
    assert_eq!(many, sum(&[f64::MAX]), "back from a hundred thousand times beyond");
}

#[test]
fn carries_survive_many_equal_terms() {
    for term in [f64::from_bits(u64::MAX >> 12), 1.999_999_999_999_999_8, -0.1, f64::MIN_POSITIVE * 1.7] {
        let n = 100_000u32;
        let exact: ExactSum = std::iter::repeat_n(term, n as usize).collect();
        // The product is exact here: n * term to the last bit.
        let product = f64::from(n) * term;
        assert_eq!(exact.value(), product, "{term:e}");
        let mut zero = exact.clone();
        zero.extend(std::iter::repeat_n(-term, n as usize));
        assert_eq!(zero, ExactSum::new());
    }
}

#[test]
#[should_panic(expected = "only finite numbers")]
fn infinity_is_refused() {
    ExactSum::new().add(f64::INFINITY);
}

proptest! {
    #[test]
    fn order_leaves_no_trace(
        terms in vec(finite(), 0..60).prop_flat_map(|terms| (Just(terms.clone()), Just(terms).prop_shuffle())),
    ) {
        let (terms, shuffled) = terms;
        let (one, other) = (sum(&terms), sum(&shuffled));
        prop_assert_eq!(&one, &other);
        prop_assert_eq!(one.value().to_bits(), other.value().to_bits());
    }

    #[test]
    fn agrees_with_fsum(terms in vec(finite().prop_filter("no overflow", |x| x.abs() < 1e300), 0..60)) {
        prop_assert_eq!(sum(&terms).value(), fsum(&terms));
    }

    #[test]
    fn agrees_with_whole_numbers(parts in vec((-(1i64 << 53)..(1 << 53), 0u32..60), 0..40)) {
        let exact: i128 = parts.iter().map(|&(mantissa, power)| i128::from(mantissa) << power).sum();
        let terms: Vec<f64> = parts.iter().map(|&(m, power)| m as f64 * 2f64.powi(power as i32)).collect();
        prop_assert_eq!(sum(&terms).value(), exact as f64);
    }

    #[test]
    fn a_single_term_comes_back(term in finite()) {
        prop_assert_eq!(sum(&[term]).value(), term);
    }

    #[test]
    fn subnormals_add_like_whole_numbers(terms in vec(-(1i64 << 54)..(1 << 54), 0..40)) {
        // Below 2^-1021 doubles are spaced evenly, so whole multiples of the least one are exact.
        let unit = |n: i64| f64::from_bits(n.unsigned_abs()) * if n < 0 { -1.0 } else { 1.0 };
        let small: Vec<f64> = terms.iter().map(|n| unit(n >> 2)).collect();
        let whole: i64 = terms.iter().map(|n| n >> 2).sum();
        let scaled = sum(&small).value() * 2f64.powi(1000) * 2f64.powi(74);
        prop_assert_eq!(scaled, whole as f64);
    }
}

proptest! {
    #[test]
    fn batched_exact_sum_equals_single_additions(
        groups in vec((-1080i32..1020, vec((-1.0..1.0f64, 0i32..70), 0..20)), 0..6),
        edges in vec(finite(), 0..4),
    ) {
        let similar = groups.iter().flat_map(|(power, terms)| {
            terms.iter().map(|(term, more)| libm::scalbn(*term, (*power + more).min(1020)))
        });
        let terms: Vec<f64> = similar.chain(edges).collect();
        let mut together = ExactSum::new();
        together.add_all(&terms);
        prop_assert_eq!(&together, &sum(&terms));
        groups.iter().for_each(|(_, terms)| together.add_all(&terms.iter().map(|(term, _)| *term).collect::<Vec<_>>()));
        prop_assert_eq!(together, terms.iter().copied().chain(groups.iter().flat_map(|(_, terms)| terms.iter().map(|(term, _)| *term))).collect::<ExactSum>());
    }
}

#[test]
fn many_great_terms_are_added_together() {
    for term in [f64::MAX, f64::MIN, 1.0 + f64::EPSILON, -0.0, f64::MIN_POSITIVE] {
        let mut together = ExactSum::new();
        for _ in 0..3 {
            together.add_all(&vec![term; 5_000]);
        }
        assert_eq!(together, std::iter::repeat_n(term, 15_000).collect::<ExactSum>(), "{term}");
        assert_eq!(together.mean(15_000), term + 0.0);
    }
    let widest = [1.0 + f64::EPSILON, libm::scalbn(1.0, 83), -libm::scalbn(1.5, 62), 0.0].repeat(256);
    let mut together = ExactSum::new();
    together.add_all(&widest);
    assert_eq!(together, sum(&widest));
}

#[test]
#[should_panic(expected = "only finite numbers")]
fn nonfinite_numbers_are_not_added() {
    ExactSum::new().add_all(&[1.0, f64::INFINITY]);
}
