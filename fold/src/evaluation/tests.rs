use event::{Columns, Task, lane::LogPosition};
use proptest::{bool::weighted, collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::testing::{self, Outcome, Prediction};
use crate::{formulas::ClassCounts, runs::Runs};

fn tasks() -> BTreeMap<String, Definition> {
    let binary = Task::Binary { positive_label: "late".into() };
    BTreeMap::from([
        ("binary".into(), binary),
        ("classes".into(), Task::Multiclass),
        ("number".into(), Task::Regression),
        ("ranked".into(), Task::Ranking { positive_label: "late".into() }),
    ])
    .into_iter()
    .map(|(name, task): (String, Task)| (name, Definition::of(task)))
    .collect()
}

pub(super) fn predicted(release: &'static str, key: &'static str) -> Prediction {
    Prediction { release, key, ..Prediction::default() }
}

pub(super) fn observed(key: &'static str, label: Option<&'static str>, value: Option<f64>) -> Outcome {
    Outcome { key, label, value, ..Outcome::default() }
}

pub(super) fn judge(predictions: &[Prediction], outcomes: &[Outcome]) -> Evaluation {
    let (predictions, outcomes) =
        (testing::predictions(predictions, true), testing::outcomes(outcomes, false));
    let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
    evaluate(&segment(&predictions), &segment(&outcomes), &tasks()).unwrap()
}

pub(super) fn binary(evaluation: &Evaluation) -> Binary {
    match evaluation.releases["binary"].measures.clone() {
        Some(Measures::Binary(binary)) => *binary,
        other => panic!("{other:?}"),
    }
}

#[test]
fn binary_by_hand() {
    let row = |key, score, label| Prediction { score, label, ..predicted("binary", key) };
    let predictions = [
        row("a", Some(0.9), None),
        row("b", Some(0.5), None),
        row("c", Some(0.2), Some("late")), // positive by its label, whatever the score
        row("d", Some(0.4), Some("on time")),
        row("e", None, None),
        row("f", Some(0.8), None),
    ];
    let outcomes = [
        observed("a", Some("late"), None),
        observed("b", Some("on time"), None),
        observed("c", Some("late"), None),
        observed("d", Some("diverted"), None),
        observed("e", Some("late"), None),
        observed("x", Some("late"), None),
    ];
    let evaluation = judge(&predictions, &outcomes);
    let release = &evaluation.releases["binary"];
    assert_eq!((release.predictions, release.labelled, release.maturity()), (6, 5, Some(5.0 / 6.0)));
    assert_eq!(release.mean_score, Some(0.56));
    let binary = binary(&evaluation);
    assert_eq!((binary.judged, binary.positives, binary.scored), (5, 3, 4));
    assert_eq!(binary.confusion, Confusion { tp: 2, fp: 1, tn: 1, fn_: 0 });
    assert_eq!((binary.accuracy, binary.recall), (Some(0.75), Some(1.0)));
    // Positives 0.9 and 0.2 against negatives 0.5 and 0.4.
    assert_eq!(binary.auc, Some(0.5));
}

#[test]
fn one_class_only() {
    let rows = [Prediction { score: Some(0.25), ..predicted("binary", "a") }];
    let binary = binary(&judge(&rows, &[observed("a", Some("on time"), None)]));
    assert_eq!((binary.auc, binary.precision, binary.recall, binary.f1), (None, None, None, None));
    assert_eq!((binary.accuracy, binary.brier), (Some(1.0), Some(0.0625)));
    assert!((binary.log_loss.unwrap() + 0.75f64.ln()).abs() < 1e-15);
}

#[test]
fn scores_beyond_probability_only_decide_the_class() {
    let rows = [Prediction { score: Some(2.5), ..predicted("binary", "a") }];
    let binary = binary(&judge(&rows, &[observed("a", Some("late"), None)]));
    assert_eq!((binary.judged, binary.confusion.tp, binary.scored, binary.brier), (1, 1, 0, None));
}

#[test]
fn without_outcomes_nothing_is_defined() {
    let rows = [predicted("binary", "a"), predicted("classes", "a"), predicted("number", "a")];
    let evaluation = judge(&rows, &[]);
    let binary = binary(&evaluation);
    assert_eq!((binary.judged, binary.accuracy, binary.log_loss, binary.ece), (0, None, None, None));
    assert_eq!(evaluation.releases["binary"].maturity(), Some(0.0));
    assert_eq!(evaluation.releases["binary"].mean_score, None);
    let classes = Measures::Multiclass(Multiclass {
        judged: 0,
        correct: 0,
        accuracy: None,
        classes: Classes::default(),
        scores: ClassScores::default(),
    });
    assert_eq!(evaluation.releases["classes"].measures, Some(classes));
    let number = Measures::Regression(Regression {
        judged: 0,
        mae: None,
        rmse: None,
        bias: None,
        detail: ErrorDetail::default(),
        bounds: Bounds::default(),
        level: None,
    });
    assert_eq!(evaluation.releases["number"].measures, Some(number));
    let empty = Evaluation::default();
    assert_eq!(judge(&[], &[]), empty);
}

#[test]
fn classes_numbers_and_releases_without_a_task() {
    let class = |key, label| Prediction { label, ..predicted("classes", key) };
    let number = |key, value| Prediction { value, ..predicted("number", key) };
    let rows = [
        class("a", Some("x")),
        class("b", Some("y")),
        class("c", None),
        number("a", Some(3.0)),
        number("b", Some(1.0)),
        number("c", None),
        predicted("unknown", "a"),
    ];
    let outcomes = [
        observed("a", Some("x"), Some(1.0)),
        observed("b", Some("x"), Some(2.0)),
        observed("c", Some("x"), Some(0.0)),
    ];
    let evaluation = judge(&rows, &outcomes);
    let Some(Measures::Multiclass(classes)) = &evaluation.releases["classes"].measures else { panic!() };
    assert_eq!((classes.judged, classes.correct, classes.accuracy), (2, 1, Some(0.5)));
    let counts = &classes.classes;
    assert_eq!(counts.names["x"], ClassCounts { real: 2, predicted: 1, correct: 1 });
    assert_eq!((counts.names.len(), &counts.confused[..]), (2, &[(0, 1, 1)][..]));
    assert_eq!(
        (evaluation.releases["classes"].judged(), evaluation.releases["classes"].unlabelled()),
        (2, 1)
    );
    let rmse = Some(2.5f64.sqrt());
    let Some(Measures::Regression(number)) = &evaluation.releases["number"].measures else { panic!() };
    assert_eq!((number.judged, number.mae, number.rmse, number.bias), (2, Some(1.5), rmse, Some(0.5)));
    assert_eq!(number.detail.mse, Some(2.5));
    assert_eq!(evaluation.releases["unknown"].measures, None);
    assert_eq!((evaluation.releases["unknown"].predictions, evaluation.releases["unknown"].labelled), (1, 1));
    assert_eq!(
        (evaluation.releases["unknown"].judged(), evaluation.releases["unknown"].unlabelled()),
        (0, 1)
    );
}

#[test]
fn unlabelled_items_and_groups_by_hand() {
    let item = |key, group, score| Prediction { group, score: Some(score), ..predicted("ranked", key) };
    let rows = [
        item("a", Some("g"), 7.0),
        item("b", Some("g"), 7.0), // before `a` of the same score
        item("c", Some("g"), -3.0),
        item("d", Some("none"), 1.0),
        item("e", Some("waits"), 1.0),
        item("f", None, 9.0),
        Prediction { group: Some("g"), ..predicted("ranked", "x") },
    ];
    let outcomes = [
        observed("a", Some("late"), None),
        observed("c", Some("late"), Some(-1.0)), // no relevance
        observed("d", Some("on time"), None),
        observed("f", Some("late"), None),
        observed("x", None, Some(3.0)),
    ];
    let evaluation = judge(&rows, &outcomes);
    let release = &evaluation.releases["ranked"];
    assert_eq!((release.labelled, release.judged(), release.unlabelled()), (5, 2, 3));
    let metric = |name: &str| release.metric(crate::Metric::named(name).unwrap());
    let [groups, without] = ["groups", "groups_without_relevant"].map(crate::Metric::named);
    assert_eq!((groups.unwrap().count(release), without.unwrap().count(release)), (Some(1), Some(1)));
    assert_eq!(
        (metric("mrr"), metric("precision_at_5"), metric("recall_at_10")),
        (Some(0.5), Some(0.2), Some(1.0))
    );
    // The gain is shared by the first two ranks.
    let ndcg = 0.5 + 0.5 / 3f64.log2();
    assert!((metric("ndcg").unwrap() - ndcg).abs() < 1e-15);
    assert_eq!(metric("accuracy"), None);
}

#[test]
fn the_state_is_golden() {
    let rows = [
        Prediction { score: Some(0.1), ..predicted("binary", "a") },
        Prediction { score: Some(0.7), ..predicted("binary", "b") },
        Prediction { value: Some(0.3), ..predicted("number", "a") },
        Prediction { label: Some("on time"), ..predicted("classes", "a") },
        predicted("unknown", "a"),
    ];
    let evaluation =
        judge(&rows, &[observed("a", Some("late"), Some(0.1)), observed("b", Some("late"), None)]);
    insta::assert_snapshot!(evaluation.to_state(), @r#"{"v":1,"releases":{"binary":{"predictions":2,"repeated":0,"labelled":2,"mean_score":0.39999999999999997,"measures":{"binary":{"positive":"late","threshold":0.5,"judged":2,"positives":2,"confusion":{"tp":1,"fp":0,"tn":0,"fn":1},"accuracy":0.5,"precision":1.0,"recall":0.5,"f1":0.6666666666666666,"scored":2,"auc":null,"log_loss":1.329630018466389,"brier":0.45000000000000007,"ece":0.6000000000000001,"calibration":[{"n":0,"sum":0.0,"positives":0},{"n":1,"sum":0.1,"positives":1},{"n":0,"sum":0.0,"positives":0},{"n":0,"sum":0.0,"positives":0},{"n":0,"sum":0.0,"positives":0},{"n":0,"sum":0.0,"positives":0},{"n":0,"sum":0.0,"positives":0},{"n":1,"sum":0.7,"positives":1},{"n":0,"sum":0.0,"positives":0},{"n":0,"sum":0.0,"positives":0}],"ranks":{"average_precision":1.0,"ks":null,"lift_at_10":1.0,"ece_sklearn":0.6000000000000001,"ece_guo":0.6000000000000001}}}},"classes":{"predictions":1,"repeated":0,"labelled":1,"mean_score":null,"measures":{"multiclass":{"judged":1,"correct":0,"accuracy":0.0,"classes":{"names":{"late":{"real":1,"predicted":0,"correct":0},"on time":{"real":0,"predicted":1,"correct":0}},"confused":[[0,1,1]]}}}},"number":{"predictions":1,"repeated":0,"labelled":1,"mean_score":null,"measures":{"regression":{"judged":1,"mae":0.19999999999999998,"rmse":0.19999999999999998,"bias":0.19999999999999998,"detail":{"mse":0.039999999999999994,"mape":1.9999999999999998,"smape":0.9999999999999999,"msle":0.027907067202648295,"r2":null,"median_absolute_error":0.19999999999999998,"error_p10":0.19999999999999998,"error_p50":0.19999999999999998,"error_p90":0.19999999999999998}}}},"unknown":{"predictions":1,"repeated":0,"labelled":1,"mean_score":null,"measures":null}},"outcomes":2,"orphaned":0}"#);
    assert_eq!(Evaluation::from_state(&evaluation.to_state()).unwrap(), evaluation);
    let newer = Evaluation::from_state("{\"v\":2,\"releases\":{}}").unwrap_err().to_string();
    assert!(newer.contains("version 2, this Almanac knows 1"), "{newer}");
    assert!(Evaluation::from_state("{\"v\":1}").is_err());
}

fn prediction() -> impl Strategy<Value = Prediction> {
    let release = select(vec!["binary", "classes", "number", "ranked", "unknown"]);
    let label = option::of(select(vec!["late", "on time"]));
    let key = select(vec!["a", "b", "c", "d", "e"]);
    let scores = vec(0u8..4, 3).prop_map(|scores| {
        let scores = ["late", "on time", "gone"].into_iter().zip(scores).filter(|(_, score)| *score > 0);
        scores.map(|(class, score)| (class, f64::from(score) / 4.0)).collect()
    });
    let numbers = (option::of(0.0..=1.0f64), option::of(-1e6..1e6f64), option::of(-1e6..1e6f64));
    let (retracted, group) = (weighted(0.1), option::of(select(vec!["g", "h"])));
    (release, key, 0i64..3, label, numbers, scores, retracted, group).prop_map(
        |(release, key, at, label, (score, value, lower), scores, retracted, group)| {
            let upper = lower.filter(|lower| *lower > 0.0).map(|lower| 2.0 * lower);
            // Rankings have ties.
            let score =
                score.map(|score| if release == "ranked" { (score * 4.0).round() - 2.0 } else { score });
            let row =
                Prediction { score, label, value, lower, upper, scores, group, ..Prediction::default() };
            Prediction { release, key, at, retracted, ..row }
        },
    )
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let label = option::of(select(vec!["late", "on time"]));
    let key = select(vec!["a", "b", "c", "d", "e"]);
    (key, option::of(0i64..3), 0i64..2, label, option::of(-1e6..1e6f64), weighted(0.2)).prop_map(
        |(key, at, observed, label, value, retracted)| Outcome { key, at, observed, label, value, retracted },
    )
}

/// Cuts rows into segments of one lane.
fn cut<T: Clone>(rows: &[T], size: usize, pack: impl Fn(&[T]) -> Columns) -> Vec<(u64, Columns)> {
    rows.chunks(size).enumerate().map(|(seq, rows)| (seq as u64 + 1, pack(rows))).collect()
}

fn log(segments: &[(u64, Columns)]) -> Vec<LogSegment<'_>> {
    segments.iter().map(|(seq, columns)| LogSegment { place: LogPosition::of(0, *seq), columns }).collect()
}

proptest! {
    #[test]
    fn segments_and_their_order_leave_no_trace(
        predictions in vec(prediction(), 0..40),
        outcomes in vec(outcome(), 0..20),
        sizes in (1usize..10, 1usize..10),
    ) {
        let whole = judge(&predictions, &outcomes);
        let left = cut(&predictions, sizes.0, |rows| testing::predictions(rows, false));
        let right = cut(&outcomes, sizes.1, |rows| testing::outcomes(rows, true));
        let (mut left, mut right) = (log(&left), log(&right));
        left.reverse();
        let middle = right.len() / 2;
        right.rotate_left(middle);
        let pieces = evaluate(&left, &right, &tasks()).unwrap();
        prop_assert_eq!(pieces.to_state(), whole.to_state());
        prop_assert_eq!(Evaluation::from_state(&whole.to_state()).unwrap(), whole);
    }

    #[test]
    fn partition_by_partition_gives_the_same(
        predictions in vec(prediction(), 0..40),
        outcomes in vec(outcome(), 0..20),
        size in 1usize..40,
        halvings in 0usize..4,
    ) {
        let left = cut(&predictions, size, |rows| testing::predictions(rows, true));
        let right = cut(&outcomes, size, |rows| testing::outcomes(rows, false));
        let mut evaluator = Evaluator::new(tasks());
        let mut spilled = Evaluator::new(tasks());
        let mut runs = Runs::new(Box::new(std::io::Cursor::new(Vec::new())));
        let parts = 1 << halvings;
        let mut rows = 0;
        for number in 0..parts {
            let take = |segments: &[(u64, Columns)]| {
                let segments = segments.iter().map(|(seq, columns)| (*seq, testing::part(columns, number, parts)));
                segments.collect::<Vec<_>>()
            };
            let (left, right) = (take(&left), take(&right));
            rows += left.iter().chain(&right).map(|(_, columns)| columns.rows).sum::<usize>();
            evaluator.add(&log(&left), &log(&right)).unwrap();
            spilled.add(&log(&left), &log(&right)).unwrap();
            spilled.spill(&mut runs).unwrap();
        }
        prop_assert_eq!(rows, predictions.len() + outcomes.len());
        prop_assert_eq!(evaluator.finish(), judge(&predictions, &outcomes));
        spilled.settle(&mut runs).unwrap();
        prop_assert_eq!(spilled.finish(), judge(&predictions, &outcomes));
    }

    #[test]
    fn daily_evaluations_add_up_to_whole_window(
        days in vec((vec(prediction(), 0..20), vec(outcome(), 0..10)), 1..4),
    ) {
        let mut evaluator = Evaluator::new(BTreeMap::new());
        let (mut predictions, mut outcomes) = (Vec::new(), Vec::new());
        for (day, (predicted, observed)) in days.into_iter().enumerate() {
            // A key identifies other things on other days.
            let key = |key: &'static str| -> &'static str { format!("{key}{day}").leak() };
            let predicted: Vec<_> = predicted.into_iter().map(|row| Prediction { key: key(row.key), ..row }).collect();
            let observed: Vec<_> = observed.into_iter().map(|row| Outcome { key: key(row.key), ..row }).collect();
            let (left, right) = (testing::predictions(&predicted, true), testing::outcomes(&observed, true));
            evaluator.next_day(tasks()).unwrap();
            evaluator.add(&log(&[(1, left)]), &log(&[(1, right)])).unwrap();
            predictions.extend(predicted);
            outcomes.extend(observed);
        }
        prop_assert_eq!(evaluator.finish(), judge(&predictions, &outcomes));
    }

    #[test]
    fn evaluation_ignores_log_order_of_distinct_predictions(
        rows in vec((0.0..=1.0f64, any::<bool>()), 0..5)
            .prop_map(|rows| rows.into_iter().zip(["a", "b", "c", "d", "e"]).collect::<Vec<_>>())
            .prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
    ) {
        let run = |rows: &[((f64, bool), &'static str)]| {
            let scored = |&((score, _), key): &((f64, bool), &'static str)| {
                Prediction { score: Some(score), ..predicted("binary", key) }
            };
            let label = |late: bool| if late { "late" } else { "on time" };
            let predictions: Vec<Prediction> = rows.iter().map(scored).collect();
            let outcomes: Vec<Outcome> = rows.iter().map(|&((_, late), key)| observed(key, Some(label(late)), None)).collect();
            judge(&predictions, &outcomes).to_state()
        };
        prop_assert_eq!(run(&rows.0), run(&rows.1));
    }
}

#[test]
fn evaluation_counts_orphaned_outcomes_and_repeated_predictions() {
    let row = |key, score| Prediction { score: Some(score), ..predicted("binary", key) };
    let predictions = [row("a", 0.9), row("a", 0.8), row("a", 0.7), row("b", 0.2), predicted("number", "c")];
    let of_instant = |key, at| Outcome { at: Some(at), ..observed(key, Some("late"), None) };
    let outcomes = [
        observed("a", Some("late"), None),
        observed("a", Some("on time"), None),
        of_instant("b", 0),
        of_instant("b", 7), // no prediction at that instant
        observed("c", None, Some(1.0)),
        observed("x", Some("late"), None),
        observed("x", Some("late"), None),
    ];
    let evaluation = judge(&predictions, &outcomes);
    assert_eq!((evaluation.outcomes, evaluation.orphaned), (7, 3));
    let repeated: Vec<_> = evaluation.releases.values().map(|release| release.repeated).collect();
    assert_eq!(repeated, [2, 0]);
    assert_eq!(evaluation.releases["binary"].predictions, 2);
    // A day without predictions.
    let alone = judge(&[], &outcomes);
    assert_eq!((alone.outcomes, alone.orphaned, alone.releases.len()), (7, 7, 0));
}

#[test]
fn each_window_day_uses_its_own_definition() {
    let predictions = [Prediction { score: Some(0.4), ..predicted("binary", "a") }];
    let outcomes = [observed("a", Some("late"), None)];
    let (left, right) = (testing::predictions(&predictions, true), testing::outcomes(&outcomes, true));
    let (left, right) = ([(1, left)], [(1, right)]);
    let defined = |task: Task, threshold, from: &str| {
        let from = Some(from.parse().unwrap());
        BTreeMap::from([("binary".to_owned(), Definition { threshold, from, ..Definition::of(task) })])
    };
    let binary_of = |label: &str| Task::Binary { positive_label: label.into() };
    let mut evaluator = Evaluator::new(BTreeMap::new());
    for (label, threshold) in [("late", 0.5), ("late", 0.25), ("on time", 0.25)] {
        evaluator.next_day(defined(binary_of(label), threshold, "2026-06-01")).unwrap();
        evaluator.add(&log(&left), &log(&right)).unwrap();
    }
    assert!(evaluator.bytes() > 0);
    let error = evaluator.next_day(defined(Task::Regression, 0.5, "2026-06-01")).unwrap_err();
    assert!(error.to_string().contains("`binary` changed its task"), "{error}");
    let evaluation = evaluator.finish();
    let binary = binary(&evaluation);
    assert_eq!(binary.confusion, Confusion { tp: 1, fp: 1, tn: 0, fn_: 1 });
    assert_eq!((binary.positive.as_str(), binary.threshold, binary.judged), ("on time", 0.25, 3));
}

#[test]
fn threshold_decides_the_class_and_is_reported() {
    let rows = [("a", 0.3), ("b", 0.25)]
        .map(|(key, score)| Prediction { score: Some(score), ..predicted("binary", key) });
    let (predictions, outcomes) = (
        testing::predictions(&rows, true),
        testing::outcomes(&[observed("a", Some("late"), None), observed("b", Some("late"), None)], true),
    );
    let from = "2026-06-02".parse().unwrap();
    let task = Task::Binary { positive_label: "late".into() };
    let definition = Definition { threshold: 0.3, from: Some(from), ..Definition::of(task) };
    let by = BTreeMap::from([("binary".to_owned(), definition)]);
    let segment = |columns| [LogSegment { place: LogPosition::of(0, 1), columns }];
    let evaluation = evaluate(&segment(&predictions), &segment(&outcomes), &by).unwrap();
    assert_eq!(binary(&evaluation).confusion, Confusion { tp: 1, fp: 0, tn: 0, fn_: 1 });
    assert_eq!(
        (binary(&evaluation).threshold, evaluation.releases["binary"].defined_from),
        (0.3, Some(from))
    );
    assert_eq!(Evaluation::from_state(&evaluation.to_state()).unwrap(), evaluation);
}

#[test]
fn labels_are_named_when_no_outcome_is_positive() {
    const KEYS: [&str; 20] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"];
    const LABELS: [&str; 7] = ["g", "f", "e", "d", "c", "b", "a"];
    let predictions = KEYS.map(|key| Prediction { score: Some(0.5), ..predicted("binary", key) });
    let labelled = |n: usize| observed(KEYS[n], Some(LABELS[n % LABELS.len()]), None);
    let outcomes: Vec<Outcome> = (0..KEYS.len()).map(labelled).collect();
    assert_eq!(binary(&judge(&predictions, &outcomes)).instead, ["a", "b", "c", "d", "e"]);
    assert!(binary(&judge(&predictions, &outcomes[1..])).instead.is_empty(), "too few to doubt");
    let mut outcomes = outcomes;
    outcomes[19].label = Some("late");
    assert!(binary(&judge(&predictions, &outcomes)).instead.is_empty(), "one is positive");
}

#[test]
fn large_evaluation_is_split_into_bounded_texts() {
    let release = |n: usize| ReleaseEvaluation {
        predictions: n as u64,
        mean_score: Some(n as f64 / 7.0),
        ..ReleaseEvaluation::default()
    };
    let releases = (0..3_000).map(|n| (format!("\"release\" {n}"), release(n)));
    let (outcomes, orphaned) = (7, 3);
    let evaluation = Evaluation { releases: releases.collect(), outcomes, orphaned, ..Evaluation::default() };
    let whole = evaluation.to_state();
    assert_eq!(evaluation.to_states(whole.len()), std::slice::from_ref(&whole));
    for most in [whole.len() - 1, 10_000, 1_000, 200, 10] {
        let states = evaluation.to_states(most);
        // A single release may exceed the limit.
        assert!(states.iter().all(|state| state.len() <= most.max(200)), "{most}");
        assert!(states.len() <= 3_000.min(2 + whole.len() * 3 / most), "{most}: {}", states.len());
        assert_eq!(Evaluation::from_states(&states).unwrap(), evaluation);
    }
    assert_eq!(Evaluation::default().to_states(0).len(), 1);
}
