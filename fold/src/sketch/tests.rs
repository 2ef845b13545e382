use proptest::{collection::vec, prelude::*};

use super::{axis::place, near::COARSEST, *};

const ALL: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

fn sketch<const BYTES: usize>(numbers: &[f64]) -> Sketch<BYTES> {
    let mut sketch = Sketch::default();
    numbers.iter().for_each(|&number| sketch.merge(&Sketch::of(&[number])));
    sketch
}

fn extremes(numbers: &[f64]) -> (f64, f64) {
    numbers.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), x| (min.min(*x), max.max(*x)))
}

/// Returns deterministic pseudorandom numbers in [0, 1).
fn uniform(count: usize) -> impl Iterator<Item = f64> {
    (1..=count as u64).map(|n| {
        let mixed = crate::hash::mix(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), n);
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    })
}

/// Returns the quantile by the default of numpy.
fn exact(numbers: &[f64], q: f64) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = q * (sorted.len() - 1) as f64;
    let low = rank.floor() as usize;
    between(sorted[low], sorted[(low + 1).min(sorted.len() - 1)], rank - low as f64)
}

/// Returns the share of lesser numbers, and the share of numbers that are not greater.
fn ranks(numbers: &[f64], value: f64) -> (f64, f64) {
    let share = |below: &dyn Fn(f64) -> bool| {
        numbers.iter().filter(|x| below(**x)).count() as f64 / numbers.len() as f64
    };
    (share(&|x| x < value), share(&|x| x <= value))
}

/// Returns the distance of the reported quantile from its rank, and that between its ranks.
fn rank_error<const BYTES: usize>(numbers: &[f64], q: f64) -> (f64, f64) {
    let found = Sketch::<BYTES>::of(numbers).quantile(q, extremes(numbers)).unwrap();
    let (below, upto) = ranks(numbers, found.value);
    assert!(found.from <= upto + 1e-9 && below - 1e-9 <= found.to, "{found:?} is at {below} to {upto}");
    ((below - q).max(q - upto).max(0.0), found.to - found.from)
}

#[test]
fn places_are_ordered_as_numbers() {
    let near_one = (0..53).map(|power| 1.0 - 0.5f64.powi(power));
    let mut numbers = vec![
        -f64::MAX,
        -2.0,
        -1.5,
        -1e-300,
        -5e-324,
        5e-324,
        1e-300,
        1e-3,
        0.5,
        0.75,
        1.0,
        1.5,
        1e300,
        f64::MAX,
    ];
    numbers.extend(near_one.filter(|x| *x > 0.5));
    numbers.sort_by(f64::total_cmp);
    let places: Vec<i64> = numbers.iter().map(|number| place(*number)).collect();
    assert!(places.is_sorted(), "{places:?}");
    for (number, place) in numbers.iter().zip(places) {
        for level in [1, 2, 10, 40, 45, 52, 58, COARSEST] {
            let near = Near { level, zeros: 0, cells: Vec::new(), bytes: 0 };
            let (least, greatest) = near.bounds(place >> (level - 1));
            assert!(
                least <= *number && *number <= greatest,
                "{number} is not in [{least}, {greatest}] of level {level}"
            );
        }
    }
}

#[test]
fn the_texts_are_golden() {
    let few: Sketch<100> = sketch(&[1.0, 1.0, -2.0, 0.0, -0.0, 0.1]);
    let many: Sketch<100> = Sketch::of(&uniform(1000).collect::<Vec<_>>());
    let texts = [&Sketch::default(), &few, &many].map(|sketch| serde_json::to_string(sketch).unwrap());
    insta::assert_snapshot!(texts.join("\n"));
    for (text, sketch) in texts.iter().zip([&Sketch::default(), &few, &many]) {
        assert_eq!(serde_json::from_str::<Sketch<100>>(text).unwrap(), *sketch);
        assert!(text.len() <= 102, "{text}");
    }
}

#[test]
fn other_texts_are_refused() {
    for text in [
        "\"A\"",
        "\"AA\"",
        "\"AAA\"",
        "\"AAAB\"",
        "\"AAgAB\"",
        "\"AACA\"",
        "\"!\"",
        "\"AACBAB\"",
        "\"_BCB\"",
        "[46]",
        "[46,1]",
        "[45,1,1]",
        "[0,20,1]",
        "[64,0,1]",
        "[46,1,0]",
        "[46,1,1,0,1]",
        "[46,131072,1]",
        "{}",
        "1",
        "\"Agggggggggggggggggggg\"",
    ] {
        assert!(serde_json::from_str::<Sketch<100>>(text).is_err(), "{text}");
    }
}

#[test]
fn quantiles_of_few_numbers_are_those_of_numpy() {
    // References: numpy.quantile([1.5, 2.25, ..., 10], [0.5, 0.9, 0.99]) and numpy.quantile([.1, .2, .3], ...).
    let ten: Vec<f64> = (1..=10).map(f64::from).collect();
    let sketch: Sketch<3072> = sketch(&ten);
    let found = [0.0, 0.5, 0.9, 0.99, 1.0].map(|q| sketch.quantile(q, ALL).unwrap().value);
    assert_eq!(found, [1.0, 5.5, 9.1, 9.91, 10.0]);
    assert_eq!(sketch.quantile(0.99, ALL).map(|found| (found.from, found.to)), Some((0.99, 0.99)));
    let three: Sketch<3072> = Sketch::of(&[0.3, 0.1, 0.2]);
    assert_eq!([0.25, 0.9].map(|q| three.quantile(q, ALL).unwrap().value), [0.15000000000000002, 0.28]);
    assert_eq!(Sketch::<3072>::default().quantile(0.5, ALL), None);
    assert_eq!(
        Sketch::<3072>::of(&[7.0]).quantile(0.3, ALL),
        Some(Quantile { value: 7.0, from: 0.3, to: 0.3 })
    );
}

#[test]
fn medians_of_zeros_are_zero() {
    let mut numbers: Vec<f64> = uniform(1000).map(|x| x * 1e-300).collect();
    numbers.extend([0.0; 3000]);
    numbers.extend([-0.0; 3000]);
    let found = Sketch::<160>::of(&numbers).quantile(0.5, extremes(&numbers)).unwrap();
    assert_eq!(found, Quantile { value: 0.0, from: 0.5, to: 0.5 });
}

#[test]
fn quantiles_near_one_have_their_rank() {
    // Scores of a good classifier: 1 - x^4 lies above 0.99 for a third of them.
    let scores: Vec<f64> = uniform(100_000).map(|x| 1.0 - x.powi(4)).collect();
    for q in [0.5, 0.9, 0.99, 0.999] {
        let (error, between) = rank_error::<3072>(&scores, q);
        assert!(error < 0.002 && between < 0.03, "{q}: {error} {between}");
        let (error, between) = rank_error::<1024>(&scores, q);
        assert!(error < 0.01 && between < 0.06, "{q}: {error} {between}");
    }
    let spread: Vec<f64> = uniform(100_000).collect();
    for q in [0.01, 0.1, 0.5, 0.9, 0.99] {
        let (error, between) = rank_error::<3072>(&spread, q);
        assert!(error < 0.002 && between < 0.035, "{q}: {error} {between}");
    }
}

#[test]
fn large_numbers_with_a_little_noise_have_quantiles() {
    let numbers: Vec<f64> = uniform(50_000).map(|x| 1e9 + x * x * 10.0).collect();
    for q in [0.1, 0.5, 0.9, 0.99] {
        let (error, between) = rank_error::<3072>(&numbers, q);
        assert!(error < 0.002 && between < 0.06, "{q}: {error} {between}");
        let found = Sketch::<3072>::of(&numbers).quantile(q, extremes(&numbers)).unwrap().value;
        assert!((found - exact(&numbers, q)).abs() < 0.05, "{found}");
    }
}

#[test]
fn crowded_sketch_cell_reports_wide_quantile_bounds() {
    // No summary of a few KB that is the same in any grouping can do better; but the ranks show it.
    let wide = (-300..300).map(|power| 10f64.powi(power));
    let crowd = uniform(50_000).map(|x| 1e9 + x);
    let numbers: Vec<f64> = wide.chain(crowd).collect();
    let found = Sketch::<3072>::of(&numbers).quantile(0.5, extremes(&numbers)).unwrap();
    assert!(found.from < 0.1 && found.to > 0.9, "{found:?}");
}

#[test]
fn any_numbers_fit_the_fewest_bytes() {
    let numbers: Vec<f64> =
        (0..2000).map(|n| 2f64.powi(n - 1000) * if n % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let least: Sketch<100> = sketch(&numbers);
    assert_eq!(least.n(), 2000);
    assert!(least.quantile(0.0, ALL).unwrap().value < 0.0 && least.quantile(1.0, ALL).unwrap().value > 0.0);
    assert!(serde_json::to_string(&least).unwrap().len() <= 102);
    let mut most = least;
    (0..64).for_each(|_| most.merge(&most.clone()));
    assert!(serde_json::to_string(&most).unwrap().len() <= 102);
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        0.0..1.0f64,
        (0.0..1.0f64).prop_map(|x| 1.0 - x.powi(9)),
        -1e9..1e9f64,
        (0u8..9).prop_map(f64::from),
        (0.0..1.0f64).prop_map(|x| 1e9 + x),
        proptest::num::f64::NORMAL | proptest::num::f64::ZERO | proptest::num::f64::SUBNORMAL
    ]
}

proptest! {
    #[test]
    fn any_grouping_and_order_gives_the_same_bytes(
        (numbers, shuffled) in vec(number(), 0..300)
            .prop_flat_map(|numbers| (Just(numbers.clone()), Just(numbers).prop_shuffle())),
        (first, second) in (0usize..300, 0usize..300),
    ) {
        let whole: Sketch<240> = sketch(&numbers);
        let (low, high) = (first.min(second).min(shuffled.len()), first.max(second).min(shuffled.len()));
        let parts = [&shuffled[..low], &shuffled[low..high], &shuffled[high..]].map(Sketch::<240>::of);
        let mut left = parts[0].clone();
        left.merge(&parts[1]);
        left.merge(&parts[2]);
        let mut right = parts[2].clone();
        right.merge(&parts[1]);
        let mut other = parts[0].clone();
        other.merge(&right);
        let text = serde_json::to_string(&whole).unwrap();
        prop_assert!(text.len() <= whole.weight() && whole.weight() <= 242);
        prop_assert!(parts.iter().all(|part| part.weight() <= whole.weight()));
        prop_assert_eq!(serde_json::to_string(&Sketch::<240>::of(&shuffled)).unwrap(), &*text);
        prop_assert_eq!(serde_json::to_string(&left).unwrap(), &*text);
        prop_assert_eq!(&other, &whole);
        prop_assert_eq!(serde_json::from_str::<Sketch<240>>(&text).unwrap(), whole);
    }

    #[test]
    fn a_quantile_stands_between_its_ranks(numbers in vec(number(), 1..200), q in 0.0..=1.0f64) {
        let sketch: Sketch<160> = sketch(&numbers);
        let found = sketch.quantile(q, extremes(&numbers)).unwrap();
        let mut sorted = numbers.clone();
        sorted.sort_by(f64::total_cmp);
        let last = (sorted.len() - 1) as f64;
        prop_assert!(found.from <= q + 1e-9 && q <= found.to + 1e-9, "{:?} for {}", found, q);
        let low = sorted[((found.from * last + 1e-6).floor() as usize).min(sorted.len() - 1)];
        let high = sorted[((found.to * last - 1e-6).ceil() as usize).min(sorted.len() - 1)];
        prop_assert!(low <= found.value && found.value <= high, "{:?} is not in [{}, {}]", found, low, high);
        if sketch.level() == 0 {
            prop_assert_eq!(found.value, exact(&numbers, q));
        }
    }
}
