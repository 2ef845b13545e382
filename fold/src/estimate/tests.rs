use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn case(score: f64, says_positive: bool, is_positive: Option<bool>) -> Case {
    Case { score, says_positive, is_positive, worth: None }
}

#[test]
fn shares_never_fall_and_lie_on_lines_between() {
    let judged = [(0.1, false), (0.2, true), (0.3, false), (0.3, false), (0.8, true), (0.9, true)];
    let cases: Vec<Case> =
        judged.iter().map(|(score, real)| case(*score, *score >= 0.5, Some(*real))).collect();
    let calibration = Calibration::of(&cases).unwrap();
    let shares = [0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.55, 0.8, 1.0].map(|score| calibration.probability(score));
    let third = 1.0 / 3.0;
    let known = [0.0, 0.0, third / 2.0, third, third, third, third + (1.0 - third) / 2.0, 1.0, 1.0];
    for (found, known) in shares.iter().zip(known) {
        assert!((found - known).abs() < 1e-15, "{found} is not {known}");
    }
    assert_eq!(Calibration::of(&cases[..1]), None, "one class says nothing of the other");
    assert_eq!(Calibration::of(&[case(0.5, true, None)]), None);
}

#[test]
fn what_is_not_defined_is_not_expected() {
    let calibration = Calibration { points: vec![(0.0, 0.0), (1.0, 1.0)] };
    assert_eq!(expected(&[], &calibration), [None; EXPECTED.len()]);
    let none_said = expected(&[case(0.25, false, None)], &calibration);
    let named = |name| none_said[EXPECTED.iter().position(|(known, _)| *known == name).unwrap()];
    assert_eq!(named("precision"), None);
    assert_eq!(named("accuracy").unwrap().value, 0.75);
    assert!(named("recall").unwrap().value == 0.0);
    assert_eq!((named("value"), named("value_per_prediction")), (None, None), "without costs");
}

fn close(found: Option<Expected>, known: &Value, tolerance: f64, what: &str) {
    let (found, known) = (found.map(|expected| expected.value), known.as_f64());
    let is_close = match (found, known) {
        (Some(found), Some(known)) => (found - known).abs() <= tolerance,
        (found, known) => found.is_none() && known.is_none(),
    };
    assert!(is_close, "{what}: {found:?} is not {known:?}");
}

/// Cases as the reference counts them: score, whether it says the positive class, how many are negative and positive.
fn cases_of(rows: &Value) -> Vec<Case> {
    let of_row = |row: &Value| {
        let count = |at: usize| row[at].as_u64().unwrap() as usize;
        let one = |real| case(row[0].as_f64().unwrap(), count(1) == 1, Some(real));
        [vec![one(false); count(2)], vec![one(true); count(3)]].concat()
    };
    rows.as_array().unwrap().iter().flat_map(of_row).collect()
}

#[test]
fn expected_figures_are_those_of_the_reference() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference/estimates.json");
    let sets: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut chunks = 0;
    for (name, set) in sets.as_object().unwrap() {
        let calibration = Calibration::of(&cases_of(&set["reference"])).unwrap();
        for chunk in set["chunks"].as_array().unwrap() {
            let found = expected(&cases_of(&chunk["cases"]), &calibration);
            for ((figure, _), found) in EXPECTED.iter().zip(found) {
                // With isotonic regression of scikit-learn, and what NannyML makes of calibrated scores.
                close(found, &chunk["same_calibration"][figure], 1e-9, &format!("{name}: {figure}"));
                // What NannyML answers as a whole; it has no Brier score and no log loss, and rounds what AUC is made of.
                if let Some(theirs) = chunk["nannyml"].get(figure) {
                    close(found, theirs, 1e-8, &format!("{name}, NannyML: {figure}"));
                }
            }
            chunks += 1;
        }
    }
    assert!(chunks > 10, "{chunks}");
}

#[test]
fn what_predictions_are_worth_is_that_of_the_reference() {
    let read = |name: &str| -> Value {
        let path = format!("{}/../tests/reference/{name}", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let (sets, known) = (read("estimates.json"), read("estimates_value.json"));
    let costs = ["tp", "tn", "fp", "fn"].map(|name| known["costs"][name].as_f64().unwrap());
    let [gain_of_positive, gain_of_negative, cost_of_positive, cost_of_negative] = costs;
    let priced = |rows: &Value| -> Vec<Case> {
        let worth = |says_positive| match says_positive {
            true => [-cost_of_positive, gain_of_positive],
            false => [gain_of_negative, -cost_of_negative],
        };
        cases_of(rows)
            .into_iter()
            .map(|case| Case { worth: Some(worth(case.says_positive)), ..case })
            .collect()
    };
    let place = |name: &str| EXPECTED.iter().position(|(known, _)| *known == name).unwrap();
    let mut chunks = 0;
    for (name, set) in sets.as_object().unwrap() {
        let calibration = Calibration::of(&cases_of(&set["reference"])).unwrap();
        let known = known["sets"][name].as_array().unwrap();
        assert_eq!(known.len(), set["chunks"].as_array().unwrap().len());
        for (chunk, known) in set["chunks"].as_array().unwrap().iter().zip(known) {
            let found = expected(&priced(&chunk["cases"]), &calibration);
            for figure in ["value", "value_per_prediction"] {
                let found = found[place(figure)].unwrap();
                for (found, part) in [(found.value, "value"), (found.band.0, "low"), (found.band.1, "high")] {
                    let known = known[figure][part].as_f64().unwrap();
                    assert!(
                        (found - known).abs() <= 1e-9 * known.abs().max(1.0),
                        "{name}: {figure} {part}: {found}, not {known}"
                    );
                }
            }
            chunks += 1;
        }
    }
    assert!(chunks > 10, "{chunks}");
}

proptest! {
    #[test]
    fn the_order_of_predictions_says_nothing(
        rows in prop::collection::vec((0u32..=20, any::<bool>(), prop::option::of(any::<bool>())), 2..60),
        by in 0usize..60,
    ) {
        let worth = |score: u32| (!score.is_multiple_of(3)).then(|| [f64::from(score) / 7.0, -0.3]);
        let cases: Vec<Case> = rows.iter().map(|(score, says, real)| {
            Case { worth: worth(score * 5 + u32::from(*says)), ..case(f64::from(*score) / 20.0, *says, *real) }
        }).collect();
        let mut turned = cases.clone();
        turned.rotate_left(by % cases.len());
        let calibration = Calibration::of(&cases);
        prop_assert_eq!(&calibration, &Calibration::of(&turned));
        let Some(calibration) = calibration else { return Ok(()) };
        prop_assert_eq!(expected(&cases, &calibration), expected(&turned, &calibration));
        for (score, after) in (0..20).map(|at| (f64::from(at) / 20.0, f64::from(at + 1) / 20.0)) {
            prop_assert!(calibration.probability(score) <= calibration.probability(after));
        }
    }
}

/// Truth drawn as calibrated scores say lies within the band as often as the band says.
#[test]
fn bands_hold_as_often_as_they_say() {
    let mut state = 7u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let calibration = Calibration { points: vec![(0.0, 0.05), (1.0, 0.95)] };
    let (rounds, n) = (400, 500);
    let mut within = [0; EXPECTED.len()];
    for _ in 0..rounds {
        let cases: Vec<Case> = (0..n)
            .map(|_| {
                let score = draw();
                let says = score >= 0.4;
                let worth = Some(if says { [-2.0, 3.0] } else { [0.5, -4.0] });
                Case { worth, ..case(score, says, Some(draw() < calibration.probability(score))) }
            })
            .collect();
        let real = Calibration { points: vec![(0.0, 0.0), (1.0, 1.0)] };
        // A truth that is known for certain is a score of 0 or 1.
        let of_truth = realised(&cases, &real);
        for ((within, expected), real) in within.iter_mut().zip(expected(&cases, &calibration)).zip(of_truth)
        {
            let (low, high) = expected.unwrap().band;
            *within += usize::from((low..=high).contains(&real));
        }
    }
    for ((name, _), within) in EXPECTED.iter().zip(within) {
        let share = within as f64 / f64::from(rounds);
        assert!((0.92..=0.98).contains(&share), "{name}: {share}");
    }
}

/// The figures of cases with truth.
fn realised(cases: &[Case], certain: &Calibration) -> [f64; EXPECTED.len()] {
    let likely = |case: &Case| Likely {
        score: case.score,
        says: f64::from(u8::from(case.says_positive)),
        p: certain.probability(f64::from(u8::from(case.is_positive == Some(true)))),
        worth: case.worth,
    };
    let mut likely: Vec<Likely> = cases.iter().map(likely).collect();
    likely.sort_unstable_by(|one, other| one.score.total_cmp(&other.score));
    figures_of(&likely).map(|(value, _)| value)
}
