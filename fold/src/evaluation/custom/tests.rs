use std::convert::Infallible;

use event::Task;
use proptest::prelude::*;

use super::*;
use crate::{
    ExactSum,
    evaluation::{
        Evaluation, Evaluator, IntervalsOf, MAX_ROWS, ReleaseEvaluation,
        grouping::tests::{definitions, fed, in_segments, outcomes, rows},
    },
    testing::{Outcome, Prediction},
};

const METRICS: &str = "average=avg(score)\nhits=sum(case when outcome_label = label then 1 else 0 end)\nmiddle=median(feature.f)\nof_a=count(*) filter (where tag.t = 'a')\nshare=sum(score) / count(*)\nspread=stddev(feature.f)";

fn metrics(text: &str) -> Vec<CustomMetric> {
    CustomMetric::parse_all(text).unwrap().into_values().flatten().collect()
}

fn with_metrics(release: &str, custom_metrics: &str) -> BTreeMap<String, Definition> {
    let mut definitions = definitions();
    definitions.get_mut(release).unwrap().custom_metrics = metrics(custom_metrics);
    definitions
}

fn evaluated(
    by: BTreeMap<String, Definition>,
    predictions: &[Prediction],
    outcomes: &[Outcome],
    parts: usize,
) -> Evaluation {
    let evaluator = Evaluator::new(by);
    fed(evaluator, &in_segments(predictions), outcomes, parts).unwrap().finish()
}

proptest! {
    /// Custom metrics do not depend on the partition of rows, and other results do not depend on custom metrics.
    #[test]
    fn the_order_of_rows_leaves_no_trace(predictions in rows(), outcomes in outcomes()) {
        let by = || with_metrics("v1", METRICS);
        let whole = evaluated(by(), &predictions, &outcomes, 1);
        let halves = evaluated(by(), &predictions, &outcomes, 2);
        prop_assert_eq!(whole.to_state(), halves.to_state());
        let mut without = whole.clone();
        without.releases.values_mut().for_each(|of| of.custom.clear());
        prop_assert_eq!(&without, &evaluated(definitions(), &predictions, &outcomes, 1));
        prop_assert_eq!(Evaluation::from_state(&whole.to_state()).unwrap(), whole.clone());
        for (name, of) in &whole.releases {
            prop_assert_eq!(of.custom.len(), if name == "v1" { 6 } else { 0 });
        }
        if let Some(of) = whole.releases.get("v1") {
            prop_assert_eq!(of.custom["average"].value, of.mean_score);
            let share = of.custom["share"];
            prop_assert_eq!(share.n, of.predictions);
            let scored = of.custom["average"].n as f64;
            let expected = of.mean_score.map(|mean| mean * scored / of.predictions as f64);
            match (share.value, expected) {
                (Some(value), Some(expected)) => prop_assert!((value - expected).abs() < 1e-9),
                (value, expected) => prop_assert_eq!(value, expected),
            }
        }
    }
}

fn day(label: &'static str, score: f64) -> (Vec<Prediction>, Vec<Outcome>) {
    let row = |key, score| Prediction { release: "v1", key, score: Some(score), ..Prediction::default() };
    let outcome = Outcome { key: "a", label: Some(label), ..Outcome::default() };
    (vec![row("a", score), row("b", 0.5)], vec![outcome])
}

/// Evaluates the metrics over two days, each with its own definition.
fn window(first: &str, second: &str) -> CustomValues {
    let mut evaluator = Evaluator::new(with_metrics("v1", first));
    for (custom_metrics, (predictions, outcomes)) in
        [(first, day("late", 0.25)), (second, day("on time", 0.75))]
    {
        let definitions =
            if custom_metrics.is_empty() { definitions() } else { with_metrics("v1", custom_metrics) };
        evaluator.next_day(definitions).unwrap();
        evaluator = fed(evaluator, &in_segments(&predictions), &outcomes, 1).unwrap();
    }
    evaluator.finish_buckets().buckets.pop().unwrap().1.custom
}

#[test]
fn window_metric_uses_days_of_one_definition() {
    let of = |value, n| CustomValue { value, n, interval: None };
    let both = window("f=sum(score)\ng=count(outcome_label)", "f=sum(score)\ng=count(outcome_label)");
    assert_eq!(both, BTreeMap::from([("f".into(), of(Some(2.0), 4)), ("g".into(), of(Some(2.0), 2))]));
    assert_eq!(window("f=sum(score)", "g=count(*)")["f"], of(Some(0.75), 2));
    assert_eq!(window("f=sum(score)", "f=avg(score)")["f"], of(None, 0));
    assert_eq!(window("f=sum(score)", "f=avg(score)").len(), 1);
}

#[test]
fn metrics_by_hand() {
    let row =
        |key, value, feature| Prediction { release: "v1", key, value, feature, ..Prediction::default() };
    let predictions = [
        row("a", Some(1.0), Some(2.0)),
        row("b", Some(1e308), Some(4.0)),
        row("c", Some(1e308), Some(9.0)),
        row("d", None, None),
    ];
    let outcome = |key, value| Outcome { key, value: Some(value), observed: 5_000_000, ..Outcome::default() };
    let of = |text: &str| {
        let by = with_metrics("v1", &format!("f={text}"));
        let outcomes = [outcome("a", 3.0), outcome("d", -1.0)];
        evaluated(by, &predictions, &outcomes, 1).releases["v1"].custom["f"]
    };
    for (text, value, n) in [
        ("count(*)", Some(4.0), 4),
        ("count(value)", Some(3.0), 3),
        ("count(outcome_value) / count(*)", Some(0.5), 4),
        // The sum exceeds the range of doubles, the mean does not.
        ("sum(value)", None, 3),
        ("case when avg(value) > 6e307 then 1 end", Some(1.0), 3),
        ("avg(abs(value - outcome_value))", Some(2.0), 1),
        ("sum(lower)", None, 0),
        ("total(lower)", Some(0.0), 0),
        ("max(feature.f) - min(feature.f)", Some(7.0), 3),
        ("median(feature.f)", Some(4.0), 3),
        ("quantile_cont(feature.f, 0.25)", Some(3.0), 3),
        ("var(feature.f)", Some(13.0), 3),
        ("stddev(value) * 0", None, 3),
        ("stddev(lower)", None, 0),
        ("avg(outcome_value > 0)", Some(0.5), 2),
        ("avg(observed_at - predicted_at)", Some(5.0), 2),
        ("sum(feature.f) filter (where outcome_value is null)", Some(13.0), 2),
        ("count(*) / count(lower)", None, 4),
        ("coalesce(sum(lower), -1)", Some(-1.0), 0),
        ("case when count(*) > 3 then avg(feature.f) end", Some(5.0), 4),
        ("min(0 * -1)", Some(0.0), 4),
    ] {
        assert_eq!(of(text), CustomValue { value, n, interval: None }, "{text}");
    }
    assert!(of("min(0 * -1)").value.unwrap().is_sign_positive());
    let mut sum = ExactSum::new();
    sum.extend([2.0, 4.0, 9.0]);
    assert_eq!(of("sum(feature.f)").value, Some(sum.value()));
}

#[test]
fn the_text_of_custom_metrics_is_golden() {
    let (predictions, outcomes) = day("late", 0.25);
    let evaluation = evaluated(with_metrics("v1", "f=sum(score)\ng=max(lower)"), &predictions, &outcomes, 1);
    let text = evaluation.to_state();
    let custom = r#""custom":{"f":{"value":0.75,"n":2},"g":{"value":null,"n":0}}"#;
    assert!(text.contains(custom), "{text}");
    assert_eq!(Evaluation::from_state(&text).unwrap(), evaluation);
}

/// Evaluates each key at two instants, with an outcome for two keys of three; with intervals, in halves or as a whole.
fn sure(custom_metrics: &str, is_reversed: bool, parts: usize) -> ReleaseEvaluation {
    const KEYS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let value = |n: usize| (n * 7 % 5) as f64;
    let at = |instant: i64| {
        KEYS.iter().enumerate().map(move |(n, key)| Prediction {
            release: "v1",
            key,
            at: instant,
            value: Some(value(n) + instant as f64 / 3.0),
            ..Prediction::default()
        })
    };
    let outcome =
        |(n, key): (usize, &&'static str)| Outcome { key, value: Some(value(n + 2)), ..Outcome::default() };
    let outcomes: Vec<_> = KEYS.iter().enumerate().filter(|(n, _)| n % 3 > 0).map(outcome).collect();
    let mut predictions: Vec<_> = at(1).chain(at(2)).collect();
    if is_reversed {
        predictions.reverse();
    }
    let custom_metrics = metrics(custom_metrics);
    let definition = Definition { custom_metrics, ..Definition::of(Task::Regression) };
    let evaluator =
        Evaluator::new([("v1".to_owned(), definition)].into()).with_intervals(Some(IntervalsOf::ALL));
    let evaluator = fed(evaluator, &in_segments(&predictions), &outcomes, parts).unwrap();
    evaluator.finish().releases.remove("v1").unwrap()
}

#[test]
fn custom_metric_draws_include_keys_without_outcome() {
    let judged = "filter (where outcome_value is not null)";
    let text = format!(
        "f=sqrt(avg(pow(value - outcome_value, 2)))\ng=count(*)\nh=stddev(value)\ni=count(*) / count(lower)\nj=count(*) {judged}\nk=1 + 0 * count(*)"
    );
    let of = sure(&text, false, 1);
    // All keys are drawn, also those without an outcome; so the draws differ from those of `rmse`.
    let (low, high) = of.custom["f"].interval.unwrap();
    let rmse = of.custom["f"].value.unwrap();
    let estimate = of.intervals.as_ref().unwrap().estimates["rmse"];
    let (least, most) = estimate.interval.unwrap();
    assert!(low < rmse && rmse < high && (low - least).abs() < 0.2 && (high - most).abs() < 0.2, "{of:?}");
    assert_eq!(of.custom["f"].n, estimate.n);
    // Each key drawn has two predictions, but not each has an outcome.
    assert_eq!(of.custom["g"], CustomValue { value: Some(24.0), n: 24, interval: Some((24.0, 24.0)) });
    let (low, high) = of.custom["j"].interval.unwrap();
    assert!(low < 16.0 && 16.0 < high, "{low} {high}");
    assert!(of.custom["h"].interval.is_some());
    assert_eq!(of.custom["i"], CustomValue { value: None, n: 24, interval: None });
    assert_eq!(of.custom["k"].interval, Some((1.0, 1.0)));
    // Neither the order nor the partitions change the result, and the stored text has no intervals.
    assert_eq!(sure(&text, true, 1).custom, of.custom);
    assert_eq!(sure(&text, false, 4).custom, of.custom);
    let stored: CustomValue = serde_json::from_str(&serde_json::to_string(&of.custom["g"]).unwrap()).unwrap();
    assert_eq!(stored, CustomValue { interval: None, ..of.custom["g"] });
}

#[test]
fn custom_draws_match_table_when_outcomes_are_complete() {
    let row = |n: usize| Prediction {
        release: "v1",
        key: ["a", "b", "c", "d", "e", "f", "g"][n % 7],
        at: (n / 7) as i64,
        value: Some((n * n % 11) as f64),
        ..Prediction::default()
    };
    let outcome =
        |key: &'static str| Outcome { key, value: Some(key.len() as f64 + 3.0), ..Outcome::default() };
    let custom_metrics = metrics("own=sqrt(avg(pow(value - outcome_value, 2)))");
    let definition = Definition { custom_metrics, ..Definition::of(Task::Regression) };
    let evaluator =
        Evaluator::new([("v1".to_owned(), definition)].into()).with_intervals(Some(IntervalsOf::ALL));
    let (predictions, outcomes): (Vec<_>, Vec<_>) =
        ((0..21).map(row).collect(), ["a", "b", "c", "d", "e", "f", "g"].map(outcome).into());
    let evaluator = fed(evaluator, &in_segments(&predictions), &outcomes, 1).unwrap();
    let of = evaluator.finish().releases.remove("v1").unwrap();
    let (low, high) = of.custom["own"].interval.unwrap();
    let (least, most) = of.intervals.unwrap().estimates["rmse"].interval.unwrap();
    assert!((low - least).abs() < 1e-12 && (high - most).abs() < 1e-12, "{low} {high}, {least} {most}");
    assert!(low < high);
}

#[test]
fn custom_metric_over_row_limit_has_no_interval() {
    let metric = metrics("f=sum(value) / count(*)").remove(0);
    let mut tally = Tally::new(metric, true);
    let add = |tally: &mut Tally, n: usize| {
        (0..n).for_each(|n| tally.add(&|_| Value::Number(n as f64), &|| if n % 2 == 0 { "a" } else { "b" }));
    };
    // Each prediction counts twice: there are two aggregates.
    add(&mut tally, MAX_ROWS / 2);
    let bytes = tally.sample.as_ref().unwrap().bytes();
    assert_eq!(bytes, MAX_ROWS / 2 * size_of::<u64>() + MAX_ROWS * size_of::<f64>());
    add(&mut tally, 1);
    assert!(tally.sample.is_none());
    let (_, of) = tally.finish(&mut |_| Ok::<_, Infallible>(())).unwrap();
    assert_eq!((of.n, of.interval, of.value.is_some()), (MAX_ROWS as u64 / 2 + 1, None, true));
}

#[test]
fn custom_metric_drawing_stops_on_request() {
    let metric = metrics("f=sum(value) / count(*)").remove(0);
    let mut tally = Tally::new(metric, true);
    ["a", "b", "c"].iter().for_each(|key| tally.add(&|_| Value::Number(1.0), &|| key));
    let mut asked = Vec::new();
    let finished = tally.finish(&mut |rows| {
        asked.push(rows);
        if asked.len() < 3 { Ok(()) } else { Err("enough") }
    });
    assert_eq!((finished, asked), (Err("enough"), vec![506; 3]));
}
