use proptest::{collection::vec, prelude::*};

use super::*;
use crate::formulas::{Scores, delong};

fn curve(rows: &[(f64, bool)]) -> Curve {
    let mut scores = Scores::default();
    rows.iter().for_each(|&(score, positive)| scores.add(score, positive));
    scores.curve()
}

#[test]
fn a_part_is_tested_by_hand() {
    let part = [(0.1, false), (0.4, false), (0.35, true), (0.8, true)];
    let rest = [(0.3, false), (0.3, true), (0.2, false), (0.3, true), (0.9, true)];
    let whole = curve(&[&part[..], &rest].concat());
    // The area of the part is 3/4, and each class has the placements 1/2 and 1. In the rest the positives have 3/4,
    // 3/4 and 1, the negatives 2/3 and 1.
    let variance = 0.125 / 2.0 * 2.0 + (1.0 / 48.0) / 3.0 + (1.0 / 18.0) / 2.0;
    let z = (0.75 - 5.0 / 6.0) / f64::sqrt(variance);
    let found = whole.p_value_of(&curve(&part)).unwrap();
    assert!((found - normal_beyond(z)).abs() < 1e-14, "{found} for {z}");
    assert!((whole.p_value_of(&curve(&rest)).unwrap() - found).abs() < 1e-14);
    assert_eq!((whole.bytes(), whole.bytes_of_tests()), (9 * 8, 9 * 40));
}

#[test]
fn curves_without_a_test_are_none() {
    let part = [(0.1, false), (0.4, false), (0.35, true), (0.8, true)];
    let whole = |rest: &[(f64, bool)]| curve(&[&part[..], rest].concat());
    let tested = |rest: &[(f64, bool)]| whole(rest).p_value_of(&curve(&part));
    assert_eq!(tested(&[]), None, "there is no rest");
    assert_eq!(tested(&[(0.1, false), (0.2, false), (0.3, true)]), None, "one positive has no variance");
    assert!(tested(&[(0.1, false), (0.2, false), (0.3, true), (0.15, true)]).is_some());
    // Nothing varies if the classes are separated in both.
    let apart = [(0.0, false), (0.0, false), (1.0, true), (1.0, true)];
    assert_eq!(curve(&[apart, apart].concat()).p_value_of(&curve(&apart)), None);
    // Not a part of the whole: another score, another class, one more often.
    let whole = whole(&[(0.1, false), (0.2, false), (0.3, true), (0.15, true)]);
    for wrong in [(0.11, false), (0.1, true), (1.0, true)] {
        assert_eq!(whole.p_value_of(&curve(&[&part[..], &[wrong]].concat())), None, "{wrong:?}");
    }
    assert_eq!(whole.p_value_of(&curve(&[&part[..], &[(0.8, true)]].concat())), None);
}

/// Tests by the scores of the rest.
fn directly(part: &[(f64, bool)], rest: &[(f64, bool)]) -> Option<f64> {
    let area = |rows: &[(f64, bool)]| {
        let mut scores = Scores::default();
        rows.iter().for_each(|&(score, positive)| scores.add(score, positive));
        scores.judge(None).auc
    };
    let error = delong(part)?.hypot(delong(rest)?);
    (error > 0.0).then_some(())?;
    Some(normal_beyond((area(part)? - area(rest)?) / error))
}

proptest! {
    /// Few distinct scores make many ties, within the part and between it and the rest.
    #[test]
    fn curve_test_of_remainder_equals_pooled_scores(
        rows in vec((0u8..12, any::<bool>(), any::<bool>()), 0..80),
        scale in prop_oneof![Just(11.0), Just(1e6)],
    ) {
        let of = |wanted: bool| -> Vec<(f64, bool)> {
            let of = rows.iter().filter(|(.., is_part)| *is_part == wanted);
            of.map(|(score, positive, _)| (f64::from(*score) / scale, *positive)).collect()
        };
        let (part, rest) = (of(true), of(false));
        let found = curve(&[&part[..], &rest].concat()).p_value_of(&curve(&part));
        match (found, directly(&part, &rest)) {
            (Some(found), Some(expected)) => prop_assert!((found - expected).abs() <= 1e-9 * expected),
            (found, expected) => prop_assert_eq!(found, expected),
        }
    }
}
