use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::formulas::MAX_CLASSES;

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
fn undefined_metrics_have_no_estimate() {
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

/// Reads cases as the reference counts them: score, predicted class (1 if positive), number of negatives and of
/// positives.
fn cases_of(rows: &Value) -> Vec<Case> {
    let of_row = |row: &Value| {
        let count = |at: usize| row[at].as_u64().unwrap() as usize;
        let one = |real| case(row[0].as_f64().unwrap(), count(1) == 1, Some(real));
        [vec![one(false); count(2)], vec![one(true); count(3)]].concat()
    };
    rows.as_array().unwrap().iter().flat_map(of_row).collect()
}

#[test]
fn expected_metrics_are_those_of_the_reference() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference/estimates.json");
    let sets: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut chunks = 0;
    for (name, set) in sets.as_object().unwrap() {
        let calibration = Calibration::of(&cases_of(&set["reference"])).unwrap();
        for chunk in set["chunks"].as_array().unwrap() {
            let found = expected(&cases_of(&chunk["cases"]), &calibration);
            for ((metric, _), found) in EXPECTED.iter().zip(found) {
                // Reference: isotonic regression of scikit-learn, and the estimates of NannyML from calibrated
                // scores.
                close(found, &chunk["same_calibration"][metric], 1e-9, &format!("{name}: {metric}"));
                // End-to-end results of NannyML, which has no Brier score and no log loss, and rounds the inputs of
                // AUC.
                if let Some(theirs) = chunk["nannyml"].get(metric) {
                    close(found, theirs, 1e-8, &format!("{name}, NannyML: {metric}"));
                    let (theirs, (low, high)) = (theirs.as_f64().unwrap(), found.unwrap().band);
                    assert!(low < high && (low..=high).contains(&theirs), "{name}: {metric} {theirs}");
                }
            }
            chunks += 1;
        }
    }
    assert!(chunks > 10, "{chunks}");
}

#[test]
fn estimated_prediction_value_matches_reference() {
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
        let theirs = known["nannyml"][name].as_array().unwrap();
        let known = known["sets"][name].as_array().unwrap();
        assert_eq!([known.len(), theirs.len()], [set["chunks"].as_array().unwrap().len(); 2]);
        for ((chunk, known), theirs) in set["chunks"].as_array().unwrap().iter().zip(known).zip(theirs) {
            let cases = priced(&chunk["cases"]);
            let found = expected(&cases, &calibration);
            // End-to-end results of NannyML, to 1e-9 for each prediction.
            let (theirs, worth) = (theirs.as_f64().unwrap(), found[place("value")].unwrap());
            let off = (worth.value - theirs).abs() / cases.len() as f64;
            let (low, high) = worth.band;
            assert!(off <= 1e-9 && (low..=high).contains(&theirs), "{name}: {theirs} for {worth:?}");
            for metric in ["value", "value_per_prediction"] {
                let found = found[place(metric)].unwrap();
                for (found, part) in [(found.value, "value"), (found.band.0, "low"), (found.band.1, "high")] {
                    let known = known[metric][part].as_f64().unwrap();
                    assert!(
                        (found - known).abs() <= 1e-9 * known.abs().max(1.0),
                        "{name}: {metric} {part}: {found}, not {known}"
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

/// Truth drawn by calibrated scores lies within the band at its nominal rate.
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
        let expected = expected(&cases, &calibration);
        for ((within, expected), real) in within.iter_mut().zip(expected).zip(realised(&cases)) {
            // A metric undefined for a binary task counts as holding.
            let holds = expected
                .zip(real)
                .is_none_or(|(expected, real)| (expected.band.0..=expected.band.1).contains(&real));
            *within += usize::from(holds);
        }
    }
    for ((name, _), within) in EXPECTED.iter().zip(within) {
        let share = within as f64 / f64::from(rounds);
        let is_macro = name.starts_with("macro_");
        assert!((0.92..=0.98).contains(&share) || is_macro && share == 1.0, "{name}: {share}");
    }
}

/// Reads cases of several classes as the reference counts them: predicted class, real class, scores in twentieths,
/// count.
fn class_cases(rows: &Value, classes: &[String], has_truth: bool) -> ClassCases {
    let mut cases = ClassCases::default();
    for row in rows.as_array().unwrap() {
        let number = |at: usize| row[at].as_u64().unwrap() as usize;
        let scores =
            classes.iter().enumerate().map(|(at, name)| (name.as_str(), number(2 + at) as f64 / 20.0));
        for _ in 0..number(2 + classes.len()) {
            cases.add(scores.clone(), &classes[number(0)], has_truth.then(|| classes[number(1)].as_str()));
        }
    }
    cases
}

fn class_reference() -> (Value, Vec<String>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference/estimates_classes.json");
    let set: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let classes = serde_json::from_value(set["classes"].clone()).unwrap();
    (set, classes)
}

#[test]
fn expected_class_metrics_match_reference() {
    let (set, classes) = class_reference();
    let reference = class_cases(&set["reference"], &classes, true);
    let calibration = ClassCalibration::of(&reference).unwrap();
    let chunks = set["chunks"].as_array().unwrap();
    assert!(chunks.len() > 5, "{}", chunks.len());
    for chunk in chunks {
        let cases = class_cases(&chunk["cases"], &classes, false);
        let found = expected_of_classes(&cases, &calibration, false);
        for ((metric, _), found) in EXPECTED.iter().zip(found) {
            close(found, &chunk["same_calibration"][metric], 1e-9, metric);
            if let Some(theirs) = chunk["nannyml"].get(metric) {
                // NannyML orders equal scores of a class arbitrarily, which changes AUC.
                let tolerance = if *metric == "auc" { 1e-3 } else { 1e-8 };
                close(found, theirs, tolerance, &format!("NannyML: {metric}"));
            }
            let within = found.is_none_or(|found| found.band.0 <= found.value && found.value <= found.band.1);
            assert!(within, "{metric}: {found:?}");
        }
        assert!(
            expected_of_classes(&cases, &calibration, true).iter().all(Option::is_none),
            "nothing is judged"
        );
    }
}

#[test]
fn expected_class_metrics_handle_missing_scores_and_outcomes() {
    let mut reference = ClassCases::default();
    // Scores, predicted class, truth.
    type Case = (&'static [(&'static str, f64)], &'static str, &'static str);
    let rows: [Case; 4] = [
        (&[("a", 0.75), ("b", 0.25)], "a", "a"),
        (&[("a", 0.75), ("b", 0.25)], "a", "b"),
        (&[("b", 1.0)], "b", "b"),
        (&[("b", 1.0)], "b", "2.0"),
    ];
    rows.iter().for_each(|(scores, says, real)| reference.add(scores.iter().copied(), says, Some(real)));
    assert_eq!((reference.len(), reference.judged(), reference.is_empty()), (4, 4, false));
    let calibration = ClassCalibration::of(&reference).unwrap();
    let mut cases = ClassCases::default();
    cases.add([("a", 0.75), ("b", 0.25)].into_iter(), "a", None);
    let named = |found: &[Option<Expected>; EXPECTED.len()], name: &str| {
        found[EXPECTED.iter().position(|(known, _)| *known == name).unwrap()].map(|found| found.value)
    };
    let found = expected_of_classes(&cases, &calibration, false);
    // `a` gets one half, `b` one half, and `2`, which has no score, a quarter: 1 in 4 of the predictions without a
    // score of it.
    assert!((named(&found, "accuracy").unwrap() - 0.4).abs() < 1e-12, "{found:?}");
    assert_eq!(
        (named(&found, "precision"), named(&found, "brier"), named(&found, "value")),
        (None, None, None)
    );
    // One class does not calibrate another.
    let mut one = ClassCases::default();
    one.add([("a", 0.75)].into_iter(), "a", Some("a"));
    one.add([("a", 0.75)].into_iter(), "a", None);
    assert_eq!(ClassCalibration::of(&one), None);
    assert_eq!(expected_of_classes(&ClassCases::default(), &calibration, false), [None; EXPECTED.len()]);
    // Without any score, every class is equally probable.
    let mut unknown = ClassCases::default();
    unknown.add([("z", 1.0)].into_iter(), "z", None);
    let sure = ClassCalibration::of(&{
        let mut cases = ClassCases::default();
        cases.add([("a", 1.0), ("b", 0.0)].into_iter(), "a", Some("a"));
        cases.add([("a", 0.0), ("b", 1.0)].into_iter(), "b", Some("b"));
        cases
    })
    .unwrap();
    assert_eq!(named(&expected_of_classes(&unknown, &sure, false), "accuracy"), Some(1.0 / 3.0));
}

#[test]
fn too_many_classes_have_no_calibration() {
    let mut cases = ClassCases::default();
    for n in 0..=MAX_CLASSES {
        assert!(!cases.has_too_many(), "{n}");
        cases.add([(format!("c{n}").as_str(), 1.0)].into_iter(), &format!("c{n}"), None);
    }
    cases.add([("a", 1.0)].into_iter(), "a", None);
    assert!(cases.has_too_many() && cases.is_empty());
    let mut more = ClassCases::default();
    more.add([("a", 1.0)].into_iter(), "a", None);
    more.extend(&cases);
    assert!(more.has_too_many());
}

proptest! {
    #[test]
    fn the_order_of_predictions_of_classes_says_nothing(
        rows in prop::collection::vec((0u32..=4, 0u32..=4, 0usize..3, prop::option::of(0usize..3)), 2..40),
        by in 0usize..40,
    ) {
        const NAMES: [&str; 3] = ["a", "b", "c"];
        let kept = |rows: &[(u32, u32, usize, Option<usize>)]| {
            let mut cases = ClassCases::default();
            for (one, other, says, real) in rows {
                // A score of zero is absent.
                let scores = [("a", *one), ("c", *other)].into_iter().filter(|(_, score)| *score > 0);
                let scores = scores.map(|(class, score)| (class, f64::from(score) / 8.0));
                cases.add(scores, NAMES[*says], real.map(|real| NAMES[real]));
            }
            cases
        };
        let mut turned = rows.clone();
        turned.rotate_left(by % rows.len());
        let (cases, turned) = (kept(&rows), kept(&turned));
        let calibration = ClassCalibration::of(&cases);
        prop_assert_eq!(&calibration, &ClassCalibration::of(&turned));
        let Some(calibration) = calibration else { return Ok(()) };
        for is_judged in [false, true] {
            let found = expected_of_classes(&cases, &calibration, is_judged);
            prop_assert_eq!(found, expected_of_classes(&turned, &calibration, is_judged));
        }
        // Splitting the rows into two joins changes nothing.
        let mut both = kept(&rows[..rows.len() / 2]);
        both.extend(&kept(&rows[rows.len() / 2..]));
        let found = expected_of_classes(&both, &calibration, false);
        prop_assert_eq!(found, expected_of_classes(&cases, &calibration, false));
    }
}

/// Truth of classes drawn by calibrated scores lies within the band at its nominal rate.
#[test]
fn class_bands_cover_at_their_stated_rate() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let mut state = 11u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    // The identity as calibration.
    let line = Calibration { points: vec![(0.0, 0.0), (1.0, 1.0)] };
    let calibration = ClassCalibration::of_each(NAMES, &line);
    let (rounds, n) = (200, 300);
    let mut within = [0; EXPECTED.len()];
    for _ in 0..rounds {
        let mut cases = ClassCases::default();
        for _ in 0..n {
            let raw = [draw() + 0.1, draw() + 0.1, draw() + 0.1];
            let sum: f64 = raw.iter().sum();
            let scores = raw.map(|one| one / sum);
            let (mut left, mut real) = (draw(), 2);
            for (class, score) in scores.iter().enumerate() {
                if left < *score {
                    real = class;
                    break;
                }
                left -= score;
            }
            let says = (0..3).max_by(|one, other| scores[*one].total_cmp(&scores[*other])).unwrap();
            cases.add(NAMES.into_iter().zip(scores), NAMES[says], Some(NAMES[real]));
        }
        let expected = expected_of_classes(&cases, &calibration, true);
        for ((within, expected), real) in within.iter_mut().zip(expected).zip(realised_of_classes(&cases)) {
            let holds = expected
                .zip(real)
                .is_none_or(|(expected, real)| (expected.band.0..=expected.band.1).contains(&real));
            *within += usize::from(holds);
        }
    }
    for ((name, _), within) in EXPECTED.iter().zip(within) {
        let share = f64::from(within as u32) / f64::from(rounds);
        assert!((0.9..=1.0).contains(&share), "{name}: {share}");
    }
}
