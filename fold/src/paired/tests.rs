use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Case {
    measure: String,
    periods: Vec<Period>,
    metrics: Vec<BTreeMap<String, Option<ReferenceMetric>>>,
    sequence: Vec<ReferenceSequence>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Period {
    real: Vec<bool>,
    probabilities: Vec<[f64; 2]>,
    errors: Vec<[f64; 2]>,
}

#[derive(Debug, Deserialize)]
struct ReferenceMetric {
    of: [f64; 2],
    interval: Option<(f64, f64)>,
    p_value: Option<f64>,
}

#[derive(Deserialize)]
struct ReferenceSequence {
    advantage: f64,
    n: u64,
    so_far: f64,
    bounds: (f64, f64),
    twosided: (f64, f64),
    decided: Option<usize>,
}

fn of_probabilities(key: u64, is_positive: bool, probabilities: [f64; 2]) -> Meeting {
    let side = |p: f64| Side {
        distance: (p - f64::from(u8::from(is_positive))).abs(),
        is_right: Some((p >= 0.5) == is_positive),
        probability: Some(p),
        is_number: false,
    };
    Meeting { day: 0, key, is_positive, sides: probabilities.map(side) }
}

fn of_errors(key: u64, errors: [f64; 2]) -> Meeting {
    let side = |distance| Side { distance, is_number: true, ..Side::default() };
    Meeting { key, sides: errors.map(side), ..Meeting::default() }
}

impl Period {
    /// Returns the meetings in the order of their keys, as the reference takes them.
    fn meetings(&self) -> Vec<Meeting> {
        let classes = self.real.iter().zip(&self.probabilities);
        let classes = classes.zip(0..).map(|((real, both), key)| of_probabilities(key, *real, *both));
        let numbers = self.errors.iter().zip(0..).map(|(errors, key)| of_errors(key, *errors));
        classes.chain(numbers).collect()
    }
}

fn is_close(found: f64, said: f64) -> bool {
    (found - said).abs() <= 1e-9 * said.abs().max(1.0)
}

fn are_close(found: Option<(f64, f64)>, said: Option<(f64, f64)>) -> bool {
    match (found, said) {
        (Some(found), Some(said)) => is_close(found.0, said.0) && is_close(found.1, said.1),
        (found, said) => found.is_none() && said.is_none(),
    }
}

/// Maximum distance of the bounds from those with variances from the plain mean, in the cases of the reference.
const FROM_PLAIN_MEAN: f64 = 0.02;

#[test]
fn metrics_and_bounds_are_those_of_the_reference() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference/paired.json");
    let cases: BTreeMap<String, Case> =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (name, case) in &cases {
        let (measure, found) = head_to_head(case.periods.iter().map(Period::meetings).collect());
        assert_eq!(measure.name(), case.measure, "{name}");
        assert_eq!(found.len(), case.periods.len());
        for ((found, metrics), sequence) in found.iter().zip(&case.metrics).zip(&case.sequence) {
            for (metric, found) in PAIRED.iter().zip(&found.metrics) {
                match (found, &metrics[metric.name]) {
                    (None, None) => {}
                    (Some(found), Some(says)) => {
                        let is_same = is_close(found.of[0], says.of[0])
                            && is_close(found.of[1], says.of[1])
                            && are_close(found.interval, says.interval)
                            && are_close(found.p_value.map(|p| (p, p)), says.p_value.map(|p| (p, p)));
                        assert!(is_same, "{} of {name} is {found:?}, and should be {says:?}", metric.name);
                    }
                    (found, says) => panic!("{} of {name} is {found:?}, and should be {says:?}", metric.name),
                }
            }
            let so_far = &found.so_far;
            assert!(is_close(found.advantage.unwrap(), sequence.advantage), "{name}");
            assert!(is_close(so_far.advantage.unwrap(), sequence.so_far) && so_far.n == sequence.n, "{name}");
            assert!(are_close(Some(so_far.bounds), Some(sequence.bounds)), "{name}: {so_far:?}");
            // Bounds of unmodified confseq, which predicts the mean differently.
            let far = (so_far.bounds.0 - sequence.twosided.0, so_far.bounds.1 - sequence.twosided.1);
            assert!(far.0.abs().max(far.1.abs()) <= FROM_PLAIN_MEAN, "{name}: {far:?}");
            assert_eq!(found.decided.map(|decided| decided.period), sequence.decided, "{name}");
        }
    }
}

#[test]
fn no_meetings_have_no_comparison() {
    let (measure, found) = head_to_head(vec![Vec::new(), vec![of_errors(1, [0.5, 0.5])], Vec::new()]);
    assert_eq!(measure, Measure::Wins);
    assert_eq!((found[0].advantage, found[0].so_far.bounds), (None, (-1.0, 1.0)));
    assert!(found[0].metrics.iter().all(Option::is_none));
    let mae = found[1].metrics[4].unwrap();
    assert_eq!((found[1].ties, mae.of, mae.p_value, mae.interval), (1, [0.5, 0.5], None, None));
    assert_eq!((found[2].so_far.n, found[2].decided), (1, None));
}

/// A decision is retracted when the bounds include zero again, and reversed once they exclude it on the other side.
#[test]
fn later_days_can_revoke_a_decision() {
    let day = |day: u32| -> Vec<Meeting> {
        let sides = if day < 3 { [0.9, 0.4] } else { [0.4, 0.9] };
        (0..60).map(|key| Meeting { day, ..of_probabilities(key, true, sides) }).collect()
    };
    let by = |winner, period, day| Some(Decided { winner, period, day });
    let of_periods = |periods| -> Vec<Option<Decided>> {
        head_to_head(periods).1.iter().map(|of: &HeadToHead| of.decided).collect()
    };
    let by_day = of_periods(
        (0..10).map(|of| day(of).into_iter().map(|met| Meeting { day: 0, ..met }).collect()).collect(),
    );
    let first = by(Winner::First, 0, 0);
    let second = by(Winner::Second, 8, 0);
    assert_eq!(by_day, [first, first, first, first, first, None, None, None, second, second]);
    // Longer periods decide on the same days.
    let all = of_periods(vec![(0..10).flat_map(day).collect()]);
    assert_eq!(all, [by(Winner::Second, 0, 8)]);
    let in_two = of_periods(vec![(0..5).flat_map(day).collect(), (5..10).flat_map(day).collect()]);
    assert_eq!(in_two, [first, by(Winner::Second, 1, 8)]);
}

/// As doubles these losses differ by rounding errors of one sign, which ranks would take for a difference of 6
/// deviations.
#[test]
fn losses_that_are_equal_as_decimals_are_ties() {
    let met = |key: u64| {
        of_probabilities(
            key,
            key.is_multiple_of(2),
            if key.is_multiple_of(2) { [0.8, 0.9] } else { [0.1, 0.2] },
        )
    };
    let (measure, found) = head_to_head(vec![(0..200).map(met).collect()]);
    let [.., brier, log_loss, _] = &found[0].metrics;
    assert_eq!((measure, found[0].advantage), (Measure::Brier, Some(0.0)));
    assert_eq!((brier.unwrap().p_value, found[0].wins, found[0].losses), (Some(1.0), 100, 100));
    assert_eq!(log_loss.unwrap().p_value, Some(1.0));
    let met = |key: u64| {
        let (one, other, real) = if key.is_multiple_of(2) { (10.1, 10.3, 10.0) } else { (5.3, 5.1, 5.0) };
        of_errors(key, [one, other].map(|value: f64| crate::decimal::difference(value, real).abs()))
    };
    let (_, found) = head_to_head(vec![(0..200).map(met).collect()]);
    assert_eq!((found[0].metrics[4].unwrap().p_value, found[0].advantage), (Some(1.0), Some(0.0)));
    let met = |key: u64| {
        of_probabilities(
            key,
            key.is_multiple_of(2),
            if key.is_multiple_of(2) { [0.0001, 0.5] } else { [0.5, 0.9999] },
        )
    };
    let (_, found) = head_to_head(vec![(0..200).map(met).collect()]);
    assert_eq!(found[0].metrics[3].unwrap().p_value, Some(1.0));
    // Logarithms of equal shares: 0.8 is to 0.4 as 0.6 is to 0.3.
    let shares = [[0.8, 0.4], [0.3, 0.6], [0.9, 0.45], [0.35, 0.7]];
    let met = (0..).zip(shares).map(|(key, both)| of_probabilities(key, true, both)).collect();
    assert_eq!(head_to_head(vec![met]).1[0].metrics[3].unwrap().p_value, Some(1.0));
}

#[test]
fn share_differences_stay_between_minus_one_and_one() {
    let met = vec![of_probabilities(1, true, [0.9, 0.1]), of_probabilities(2, true, [0.1, 0.1])];
    let [accuracy, _, brier, ..] = head_to_head(vec![met]).1[0].metrics;
    for found in [accuracy, brier] {
        let (low, high) = found.unwrap().interval.unwrap();
        assert!((-1.0..=1.0).contains(&low) && (-1.0..=1.0).contains(&high), "{low} {high}");
    }
}

#[test]
fn missing_probabilities_fall_back_to_class_measures() {
    let mut met = vec![of_probabilities(1, true, [0.9, 0.2]), of_probabilities(2, false, [0.6, 0.7])];
    met[1].sides[1].probability = None;
    assert_eq!(head_to_head(vec![met.clone()]).0, Measure::Accuracy);
    met[0].sides[0].is_right = None;
    assert_eq!(head_to_head(vec![met]).0, Measure::Wins);
}

proptest! {
    /// Swapping sides changes the sign of everything, and the order of meetings changes nothing.
    #[test]
    fn sides_and_order_do_not_matter(cases in vec((any::<bool>(), 0u8..=10, 0u8..=10), 1..60)) {
        let met: Vec<Meeting> = cases.iter().zip(0..).map(|((real, one, other), key)| {
            of_probabilities(key, *real, [f64::from(*one) / 10.0, f64::from(*other) / 10.0])
        }).collect();
        let (_, found) = head_to_head(vec![met.clone()]);
        let turned: Vec<Meeting> = met.iter().rev().map(|met| Meeting {
            sides: [met.sides[1], met.sides[0]],
            ..*met
        }).collect();
        let (_, other) = head_to_head(vec![turned]);
        let (found, other) = (&found[0], &other[0]);
        prop_assert_eq!((found.wins, found.losses, found.ties), (other.losses, other.wins, other.ties));
        let winners = [found, other].map(|of| of.decided.map(|decided| decided.winner));
        let is_turned = matches!(
            winners,
            [None, None]
                | [Some(Winner::First), Some(Winner::Second)]
                | [Some(Winner::Second), Some(Winner::First)]
        );
        prop_assert!(is_turned, "{winners:?}");
        let bounds = other.so_far.bounds;
        prop_assert!(are_close(Some(found.so_far.bounds), Some((-bounds.1, -bounds.0))));
        for (found, other) in found.metrics.iter().zip(&other.metrics) {
            prop_assert_eq!(found.is_some(), other.is_some());
            let (Some(found), Some(other)) = (found, other) else { continue };
            prop_assert!(is_close(found.difference(), -other.difference()));
            prop_assert!(are_close(found.p_value.map(|p| (p, p)), other.p_value.map(|p| (p, p))));
        }
    }

    /// The ongoing comparison equals that of all days, for any days, even if stored and read in between.
    #[test]
    fn what_goes_on_says_what_all_days_say(
        days in vec(vec((any::<bool>(), 0u8..=10, 0u8..=10, 0u8..20), 0..40), 1..8),
    ) {
        let meeting = |day: u32, key: u64, (real, one, other, odd): (bool, u8, u8, u8)| {
            let mut met = of_probabilities(key, real, [f64::from(one) / 10.0, f64::from(other) / 10.0]);
            met.day = day;
            if odd == 0 {
                met.sides[1].probability = None;
            }
            if odd == 1 {
                met.sides[0].is_right = None;
            }
            met
        };
        let days: Vec<Vec<Meeting>> = days.iter().zip(0..).map(|(met, day)| {
            met.iter().zip(0..).map(|(met, key)| meeting(day, key, *met)).collect()
        }).collect();
        let mut ongoing = Ongoing::default();
        for (number, day) in days.iter().enumerate() {
            ongoing.add(day.iter().rev().copied().collect());
            ongoing = serde_json::from_str(&serde_json::to_string(&ongoing).unwrap()).unwrap();
            let (measure, found) = head_to_head(days[..=number].to_vec());
            let last = &found[number];
            prop_assert_eq!(ongoing.says(), (measure, last.so_far));
            prop_assert_eq!(last.so_far.winner(), last.decided.map(|decided| decided.winner));
        }
    }

    #[test]
    fn a_probability_is_one(one in 0u64..3_000, other in 0u64..3_000) {
        let p = statistics::mcnemar(one, other);
        prop_assert_eq!(p.is_none(), one + other == 0);
        prop_assert!(p.is_none_or(|p| (0.0..=1.0).contains(&p)));
    }
}

#[test]
fn bounds_leave_out_the_truth_in_few_sequences() {
    // 400 sequences of 500 fair coins, from a deterministic generator: at most 5% may ever exclude one half.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut coin = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        f64::from(u8::from(state >> 63 == 1))
    };
    let left_out = (0..400).filter(|_| {
        let mut sequence = sequence::Sequence::default();
        (0..500).any(|_| {
            sequence.add(coin());
            let (lower, upper) = sequence.bounds();
            lower > 0.5 || upper < 0.5
        })
    });
    assert!(left_out.count() <= 20);
}
