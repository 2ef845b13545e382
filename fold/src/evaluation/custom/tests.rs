use proptest::prelude::*;

use super::*;
use crate::{
    ExactSum,
    evaluation::{
        Evaluation, Evaluator, Partition,
        grouping::tests::{definitions, fed, in_segments, outcomes, rows},
    },
    testing::{Outcome, Prediction},
};

const FIGURES: &str = "average=avg(score)\nhits=sum(case when outcome_label = label then 1 else 0 end)\nmiddle=median(feature.f)\nof_a=count(*) filter (where tag.t = 'a')\nshare=sum(score) / count(*)\nspread=stddev(feature.f)";

fn with_figures(release: &str, figures: &str) -> BTreeMap<String, Definition> {
    let mut definitions = definitions();
    definitions.get_mut(release).unwrap().figures = CustomFigure::parse_all(figures).unwrap();
    definitions
}

fn evaluated(
    by: BTreeMap<String, Definition>,
    predictions: &[Prediction],
    outcomes: &[Outcome],
    partition: Partition,
) -> Evaluation {
    let evaluator = Evaluator::new(by);
    fed(evaluator, &in_segments(predictions), outcomes, partition).unwrap().finish()
}

proptest! {
    /// Custom figures do not depend on how rows are cut, and what else is evaluated does not depend on them.
    #[test]
    fn the_order_of_rows_leaves_no_trace(predictions in rows(), outcomes in outcomes()) {
        let by = || with_figures("v1", FIGURES);
        let whole = evaluated(by(), &predictions, &outcomes, Partition::ALL);
        let halves = evaluated(by(), &predictions, &outcomes, Partition::ALL.half());
        prop_assert_eq!(whole.to_state(), halves.to_state());
        let mut without = whole.clone();
        without.releases.values_mut().for_each(|of| of.custom.clear());
        prop_assert_eq!(&without, &evaluated(definitions(), &predictions, &outcomes, Partition::ALL));
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

/// The figures of two days together, of which each has its definition.
fn window(first: &str, second: &str) -> CustomValues {
    let mut evaluator = Evaluator::new(with_figures("v1", first));
    for (figures, (predictions, outcomes)) in [(first, day("late", 0.25)), (second, day("on time", 0.75))] {
        let definitions = if figures.is_empty() { definitions() } else { with_figures("v1", figures) };
        evaluator.next_day(definitions).unwrap();
        evaluator = fed(evaluator, &in_segments(&predictions), &outcomes, Partition::ALL).unwrap();
    }
    evaluator.finish_buckets().buckets.pop().unwrap().1.custom
}

#[test]
fn a_figure_of_a_window_is_of_the_days_that_define_it_in_one_way() {
    let of = |value, n| CustomValue { value, n };
    let both = window("f=sum(score)\ng=count(outcome_label)", "f=sum(score)\ng=count(outcome_label)");
    assert_eq!(both, BTreeMap::from([("f".into(), of(Some(2.0), 4)), ("g".into(), of(Some(2.0), 2))]));
    assert_eq!(window("f=sum(score)", "g=count(*)")["f"], of(Some(0.75), 2));
    assert_eq!(window("f=sum(score)", "f=avg(score)")["f"], of(None, 0));
    assert_eq!(window("f=sum(score)", "f=avg(score)").len(), 1);
}

#[test]
fn figures_by_hand() {
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
        let by = with_figures("v1", &format!("f={text}"));
        let outcomes = [outcome("a", 3.0), outcome("d", -1.0)];
        evaluated(by, &predictions, &outcomes, Partition::ALL).releases["v1"].custom["f"]
    };
    for (text, value, n) in [
        ("count(*)", Some(4.0), 4),
        ("count(value)", Some(3.0), 3),
        ("count(outcome_value) / count(*)", Some(0.5), 4),
        // The sum is beyond the doubles, the mean is none of it.
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
        assert_eq!(of(text), CustomValue { value, n }, "{text}");
    }
    assert!(of("min(0 * -1)").value.unwrap().is_sign_positive());
    let mut sum = ExactSum::new();
    sum.extend([2.0, 4.0, 9.0]);
    assert_eq!(of("sum(feature.f)").value, Some(sum.value()));
}

#[test]
fn the_text_of_custom_figures_is_golden() {
    let (predictions, outcomes) = day("late", 0.25);
    let evaluation =
        evaluated(with_figures("v1", "f=sum(score)\ng=max(lower)"), &predictions, &outcomes, Partition::ALL);
    let text = evaluation.to_state();
    let custom = r#""custom":{"f":{"value":0.75,"n":2},"g":{"value":null,"n":0}}"#;
    assert!(text.contains(custom), "{text}");
    assert_eq!(Evaluation::from_state(&text).unwrap(), evaluation);
}
