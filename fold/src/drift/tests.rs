use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use serde::Deserialize;

use super::{
    numbers::{bins, in_bins},
    *,
};
use crate::{
    rollup::{Bounded, bounded::Merge},
    sketch::{Beside, Sketch},
};

#[derive(Deserialize)]
struct Reference {
    numbers: BTreeMap<String, OfNumbers>,
    names: BTreeMap<String, OfNames>,
    adjusted: Adjusted,
}

#[derive(Deserialize)]
struct OfNumbers {
    reference: Vec<f64>,
    window: Vec<f64>,
    says: BTreeMap<String, Option<f64>>,
}

#[derive(Deserialize)]
struct OfNames {
    counts: BTreeMap<String, [u64; 2]>,
    says: BTreeMap<String, Option<f64>>,
}

#[derive(Deserialize)]
struct Adjusted {
    p_values: Vec<f64>,
    says: Vec<f64>,
}

fn reference() -> Reference {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference/drift.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn is_close(found: f64, said: f64) -> bool {
    (found - said).abs() <= 1e-9 * said.abs().max(1e-3)
}

/// Compares each statistic with its reference value.
fn compare(case: &str, found: &Drift, says: &BTreeMap<String, Option<f64>>) {
    for (name, said) in says {
        let statistic = STATISTICS.iter().find(|statistic| statistic.name == name).unwrap();
        match ((statistic.read)(found), said) {
            (Some(found), Some(said)) if is_close(found, *said) => {}
            (None, None) => {}
            (found, said) => panic!("{name} of {case} is {found:?}, and should be {said:?}"),
        }
    }
}

#[test]
fn statistics_are_those_of_scipy() {
    let reference = reference();
    for (case, of) in &reference.numbers {
        let drift = Spread::of_numbers(&of.reference, &of.window).drift();
        compare(case, &drift, &of.says);
        assert_eq!((drift.ks_error, drift.wasserstein_error), (Some(0.0), Some(0.0)), "{case}");
    }
    for (case, of) in &reference.names {
        let drift = Names::of_counts(of.counts.clone()).drift();
        compare(case, &drift, &of.says);
        assert_eq!(drift.others_rate, Some(0.0), "{case}");
    }
    let p_values: Vec<_> = reference.adjusted.p_values.iter().map(|p| Some(*p)).collect();
    for (found, said) in adjusted(&p_values).into_iter().zip(&reference.adjusted.says) {
        assert!(is_close(found.unwrap(), *said), "{found:?} for {said}");
    }
}

/// Returns whether a statistic is an error bound.
fn is_bound(name: &str) -> bool {
    name.ends_with("_error") || name == "others_rate"
}

#[test]
fn every_statistic_has_a_reference() {
    let reference = reference();
    let says: Vec<_> = reference.numbers.values().map(|of| &of.says).collect();
    let says: Vec<_> = says.into_iter().chain(reference.names.values().map(|of| &of.says)).collect();
    for statistic in STATISTICS.iter().filter(|statistic| !is_bound(statistic.name)) {
        assert!(
            says.iter().any(|says| says.get(statistic.name).is_some_and(Option::is_some)),
            "{}",
            statistic.name
        );
    }
}

#[test]
fn missing_p_values_are_not_adjusted() {
    assert_eq!(adjusted(&[None, Some(0.02), None, Some(0.01)]), [None, Some(0.02), None, Some(0.02)]);
    assert_eq!(adjusted(&[]), []);
}

#[test]
fn an_empty_side_has_no_drift() {
    assert_eq!(Spread::of_numbers(&[], &[1.0]).drift(), Drift::default());
    assert_eq!(Spread::of_numbers(&[1.0], &[]).drift(), Drift::default());
    assert_eq!(Names::of_counts([("a".to_owned(), [0, 3])]).drift(), Drift::default());
    assert_eq!(Names::default().drift(), Drift::default());
}

#[test]
fn names_unkept_by_one_side_are_pooled() {
    let mut few = Bounded::<u64, 60>::default();
    ["a", "b"].iter().for_each(|name| few.add(name, &10));
    let mut many = Bounded::<u64, 60>::default();
    (0..50).for_each(|n| many.add(&format!("name {n}"), &2));
    many.add("a", &5);
    let names = Names::of(&few, &many);
    assert_eq!(names.totals(), [20, 105]);
    let known: Vec<&str> = names.counts.iter().map(|(name, _)| name.as_str()).collect();
    for (name, [reference, window]) in &names.counts {
        assert_eq!(*reference, few.get(name).copied().unwrap_or(0));
        assert!(*window == many.get(name).copied().unwrap_or(0) || name == "a", "{name}");
    }
    // The reference kept all of its names, so it certainly lacks every name that it does not keep.
    assert!(names.unseen().iter().all(|(name, _)| known.contains(name) && few.get(name).is_none()));
    assert!(names.others[1] > 0);
}

#[test]
fn unseen_names_are_ordered_by_frequency() {
    let counts = [("a", [5, 5]), ("b", [0, 2]), ("c", [0, 7]), ("d", [3, 0])];
    let names = Names::of_counts(counts.map(|(name, n)| (name.to_owned(), n)));
    assert_eq!(names.unseen(), [("c", 7), ("b", 2)]);
}

fn numbers() -> impl Strategy<Value = Vec<f64>> {
    prop_oneof![
        vec(0.0..1.0f64, 1..400),
        vec((0.0..1.0f64).prop_map(|x| 1.0 - x.powi(9)), 1..400),
        vec(-1e3..1e3f64, 1..400),
        vec((-3i8..9).prop_map(f64::from), 1..100),
    ]
}

fn sketched(numbers: &[f64]) -> Sketch<160> {
    let mut whole = Sketch::of(&[]);
    numbers.chunks(30).for_each(|some| whole.merge(&Sketch::of(some)));
    whole
}

/// Returns the minimum and maximum count of numbers in the cells of a bin: a number at the edge of two cells may belong
/// to either.
fn between(numbers: &[f64], cells: &[Beside]) -> [u64; 2] {
    let (Some(first), Some(last)) = (cells.first(), cells.last()) else { return [0; 2] };
    let count = |is: &dyn Fn(f64) -> bool| numbers.iter().filter(|number| is(**number)).count() as u64;
    let is_one = first.least == last.greatest;
    let within = count(&|number| number > first.least && number < last.greatest);
    let most = count(&|number| number >= first.least && number <= last.greatest);
    [if is_one { most } else { within }, most]
}

proptest! {
    /// The index and the distance are exact for these bins.
    #[test]
    fn a_bin_counts_what_lies_between_its_edges(reference in numbers(), window in numbers()) {
        let all = || reference.iter().chain(&window).copied();
        let extremes = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let cells = sketched(&reference).beside(&sketched(&window), extremes);
        let counts: Vec<Sides> = cells.iter().map(|cell| cell.n).collect();
        let of_reference = reference.len() as f64;
        let (ranges, found) = (bins(&counts, of_reference), in_bins(&counts, of_reference));
        for (bin, n) in ranges.iter().zip(&found) {
            for (numbers, n) in [&reference, &window].into_iter().zip(n) {
                let [least, most] = between(numbers, &cells[bin.clone()]);
                prop_assert!(least <= *n && *n <= most, "{} is not from {} to {}", n, least, most);
            }
        }
        let drift = Spread::of_cells(cells.clone()).drift();
        prop_assert_eq!(drift.psi.zip(drift.js_distance), divergences(&found));
        // A tenth ends with the cell that fills it: at most the content of that cell is beyond its end.
        let mut sorted = reference.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let tenths = &ranges[..ranges.len() - 3];
        let mut below = found[found.len() - 2];
        for (bin, n) in tenths.iter().zip(&found) {
            below = [below[0] + n[0], below[1] + n[1]];
            let full = (below[0] as f64 * 10.0 / of_reference) as usize;
            let end = sorted[(full * sorted.len()).div_ceil(10) - 1];
            for (side, numbers) in [&reference, &window].into_iter().enumerate() {
                let truly = numbers.iter().filter(|number| **number <= end).count() as u64;
                let cell = cells[bin.end - 1].n[side];
                prop_assert!(truly <= below[side] && below[side] <= truly + cell, "{} of {:?}", truly, below);
            }
        }
    }

    /// Names that are not kept apart cause an error of at most their share.
    #[test]
    fn pooled_names_hide_at_most_their_share(
        reference in prop::collection::btree_map(0u8..60, 1u64..50, 1..40),
        window in prop::collection::btree_map(0u8..60, 1u64..50, 1..40),
    ) {
        let kept = |counts: &BTreeMap<u8, u64>| {
            let mut kept = Bounded::<u64, 60>::default();
            counts.iter().for_each(|(name, n)| kept.add(&format!("name {name}"), n));
            kept
        };
        let all: std::collections::BTreeSet<u8> = reference.keys().chain(window.keys()).copied().collect();
        let of = |counts: &BTreeMap<u8, u64>, name: u8| counts.get(&name).copied().unwrap_or(0);
        let exact = all.iter().map(|name| (format!("name {name}"), [of(&reference, *name), of(&window, *name)]));
        let exact = Names::of_counts(exact).drift();
        let found = Names::of(&kept(&reference), &kept(&window)).drift();
        let others = found.others_rate.unwrap();
        prop_assert!((0.0..=1.0).contains(&others));
        let off = (found.l_infinity.unwrap() - exact.l_infinity.unwrap()).abs();
        prop_assert!(off <= others + 1e-12, "{} is more than {}", off, others);
        let hidden = exact.unseen_rate.unwrap() - found.unseen_rate.unwrap();
        prop_assert!(-1e-12 <= hidden && hidden <= others + 1e-12, "{} is not up to {}", hidden, others);
    }

    #[test]
    fn sketch_error_stays_within_its_stated_bound(reference in numbers(), window in numbers()) {
        let exact = Spread::of_numbers(&reference, &window);
        let all = || reference.iter().chain(&window).copied();
        let extremes = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let cells = sketched(&reference).beside(&sketched(&window), extremes);
        prop_assert!(cells.windows(2).all(|two| two[0].greatest <= two[1].least));
        let counted = |side: usize| cells.iter().map(|cell| cell.n[side]).sum::<u64>();
        prop_assert_eq!([counted(0), counted(1)], [reference.len() as u64, window.len() as u64]);
        let (found, exact) = (Spread::of_cells(cells).drift(), exact.drift());
        let (ks, error) = (found.ks.unwrap(), found.ks_error.unwrap());
        let true_ks = exact.ks.unwrap();
        prop_assert!(ks <= true_ks + 1e-12 && true_ks <= ks + error + 1e-12, "{} + {} for {}", ks, error, true_ks);
        let (area, error) = (found.wasserstein.unwrap(), found.wasserstein_error.unwrap());
        let true_area = exact.wasserstein.unwrap();
        let rounding = 1e-9 * (extremes.1 - extremes.0);
        prop_assert!((area - true_area).abs() <= error + rounding, "{} +- {} for {}", area, error, true_area);
    }

    #[test]
    fn distances_are_within_their_bounds(reference in numbers(), window in numbers()) {
        let drift = Spread::of_numbers(&reference, &window).drift();
        prop_assert!(drift.psi.unwrap() >= 0.0);
        for share in [drift.js_distance, drift.ks, drift.ks_p] {
            prop_assert!((0.0..=1.0).contains(&share.unwrap()));
        }
        let same = Spread::of_numbers(&reference, &reference).drift();
        prop_assert_eq!((same.psi, same.js_distance, same.ks, same.wasserstein), (Some(0.0), Some(0.0), Some(0.0), Some(0.0)));
    }
}
