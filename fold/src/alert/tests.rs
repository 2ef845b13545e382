use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn rule(test: Test) -> Rule {
    Rule { test, clear: None, min_n: 1, for_days: 1, window_days: 4 }
}

/// Returns days from the first of June on, with these numbers.
fn days(values: &[Option<f64>]) -> Vec<(Day, Reading)> {
    let mut day: Day = "2026-06-01".parse().unwrap();
    let of_value = |value: &Option<f64>| {
        let this = day;
        day = day.next().unwrap();
        (this, Reading { value: *value, n: Some(100) })
    };
    values.iter().map(of_value).collect()
}

/// Returns the states of days, and their transitions.
fn run(rule: &Rule, values: &[Option<f64>]) -> (Vec<&'static str>, Vec<(usize, &'static str)>) {
    let judged = replay(rule, Standing::default(), &days(values), 0);
    let transitions = judged.iter().enumerate();
    let transitions = transitions.filter_map(|(at, day)| Some((at, day.transition?.name()))).collect();
    (judged.iter().map(|day| day.standing.state.name()).collect(), transitions)
}

#[test]
fn alert_resolves_only_past_its_clear_threshold() {
    let rule = Rule { clear: Some(0.15), for_days: 2, ..rule(Test::Above(0.2)) };
    let values = [0.3, 0.1, 0.3, 0.3, 0.18, 0.15, 0.1, 0.2].map(Some);
    let (states, transitions) = run(&rule, &values);
    assert_eq!(states, ["pending", "ok", "pending", "firing", "firing", "resolved", "ok", "ok"]);
    assert_eq!(transitions, [(3, "fires"), (5, "resolves")]);
    let below = Rule { clear: Some(0.8), ..super::tests::rule(Test::Below(0.7)) };
    assert_eq!(run(&below, &[0.69, 0.7, 0.79, 0.8].map(Some)).1, [(0, "fires"), (3, "resolves")]);
}

#[test]
fn alert_ignores_days_without_data() {
    let rule = Rule { for_days: 2, ..rule(Test::Above(0.2)) };
    let values = [None, Some(0.3), None, Some(0.3), None, Some(0.1), None, Some(0.1)];
    let (states, transitions) = run(&rule, &values);
    let known = ["no_data", "pending", "pending", "firing", "firing", "resolved", "no_data", "ok"];
    assert_eq!(states, known);
    assert_eq!(transitions, [(3, "fires"), (5, "resolves")]);
}

#[test]
fn a_number_of_too_few_events_is_none() {
    let rule = Rule { min_n: 101, ..rule(Test::Above(0.2)) };
    assert_eq!(run(&rule, &[Some(0.3)]).0, ["no_data"]);
    let uncounted = Reading { value: Some(0.3), n: None };
    assert_eq!(rule.judge(rule.measured(&uncounted, &[])), Verdict::Breached);
    assert_eq!(rule.judge(rule.measured(&Reading { value: Some(f64::NAN), n: None }, &[])), Verdict::Unknown);
}

#[test]
fn change_needs_half_of_preceding_days_known() {
    let rule = rule(Test::Moved(3.0));
    let values = [Some(10.0), None, Some(11.0), None, Some(10.5), Some(30.0), Some(1.0)];
    let judged = replay(&rule, Standing::default(), &days(&values), 0);
    let measured: Vec<bool> = judged.iter().map(|day| day.measured.is_some()).collect();
    assert_eq!(measured, [false, false, false, false, true, true, true]);
    assert_eq!(judged[5].transition, Some(Transition::Fires), "{judged:?}");
    // The first four days only serve as history.
    let late = replay(&rule, Standing::default(), &days(&values), 4);
    assert_eq!(
        late.iter().map(|day| day.measured).collect::<Vec<_>>(),
        judged[4..].iter().map(|day| day.measured).collect::<Vec<_>>()
    );
}

#[test]
fn names_are_the_serde_names() {
    let states = [State::Ok, State::Pending, State::Firing, State::Resolved, State::NoData];
    assert_eq!(states.map(State::name), State::NAMES);
    for state in states {
        assert_eq!(serde_json::to_value(state).unwrap(), state.name());
    }
    for transition in [Transition::Fires, Transition::Resolves] {
        assert_eq!(serde_json::to_value(transition).unwrap(), transition.name());
    }
}

/// Reads the cases of a statistic from alert.json.
fn reference(statistic: &str) -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference/alert.json");
    let cases: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = cases[statistic].as_array().unwrap();
    assert!(cases.len() >= 9, "{} cases", cases.len());
    cases.clone()
}

fn numbers(of: &Value) -> Vec<f64> {
    of.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect()
}

#[test]
fn robust_scores_are_those_of_the_reference() {
    for case in reference("robust_z") {
        let others = numbers(&case["others"]);
        let found = robust_z(case["value"].as_f64().unwrap(), &others).unwrap();
        let known = case["z"].as_f64().unwrap();
        assert!((found - known).abs() <= 1e-9 * known.abs().max(1.0), "{case}: {found}");
    }
    assert_eq!(robust_z(1.0, &[]), None);
    assert_eq!(robust_z(2.0, &[2.0, 2.0]), Some(0.0));
    assert_eq!(robust_z(1.0, &[2.0, 2.0]), Some(-MAX_DEVIATIONS));
}

/// Generates numbers of days: none, below, between or beyond the thresholds.
fn values() -> impl Strategy<Value = Vec<Option<f64>>> {
    prop::collection::vec(prop::option::weighted(0.8, prop::sample::select(vec![0.1, 0.17, 0.3])), 0..40)
}

proptest! {
    /// Evaluating a history in pieces gives the same days, and transitions alternate.
    #[test]
    fn a_replay_in_pieces_gives_the_same_transitions(values in values(), for_days in 1u32..4, cut in 0usize..40) {
        let rule = Rule { clear: Some(0.15), for_days, ..rule(Test::Above(0.2)) };
        let days = days(&values);
        let whole = replay(&rule, Standing::default(), &days, 0);
        let cut = cut.min(days.len());
        let first = replay(&rule, Standing::default(), &days[..cut], 0);
        let standing = first.last().map_or(Standing::default(), |day| day.standing);
        let second = replay(&rule, standing, &days, cut);
        prop_assert_eq!([first, second].concat(), whole.clone());
        let transitions: Vec<Transition> = whole.iter().filter_map(|day| day.transition).collect();
        for (at, transition) in transitions.iter().enumerate() {
            prop_assert_eq!(transition.name(), Transition::NAMES[at % 2]);
        }
    }

    /// Compares the transitions with a naive search of the history.
    #[test]
    fn alert_fires_after_required_consecutive_days(values in values(), for_days in 1usize..4) {
        let rule = Rule { clear: Some(0.15), for_days: for_days as u32, ..rule(Test::Above(0.2)) };
        let known: Vec<(usize, f64)> =
            values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?))).collect();
        let (mut expected, mut from, mut fires) = (Vec::new(), 0, false);
        while from < known.len() {
            let found = match fires {
                false => (from..known.len())
                    .find(|at| at + 1 >= from + for_days && known[at + 1 - for_days..=*at].iter().all(|(_, value)| *value > 0.2)),
                true => (from..known.len()).find(|at| known[*at].1 <= 0.15),
            };
            let Some(at) = found else { break };
            expected.push((known[at].0, Transition::NAMES[usize::from(fires)]));
            (from, fires) = (at + 1, !fires);
        }
        prop_assert_eq!(run(&rule, &values).1, expected);
    }
}
