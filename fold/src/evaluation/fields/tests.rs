use event::Kind;

use crate::{
    Evaluation,
    evaluation::{
        Measures, needs,
        tests::{judge, observed, predicted},
    },
    testing::{self, Prediction},
};

#[test]
fn unlabelled_prediction_takes_class_of_greatest_score() {
    let row = |key, label, scores: &[(&'static str, f64)]| Prediction {
        label,
        scores: scores.to_vec(),
        ..predicted("classes", key)
    };
    let tied = [("b", 0.4), ("a", 0.4), ("c", 0.2)];
    let predictions = [
        row("a", None, &tied),
        row("b", Some("c"), &tied), // its label counts
        row("c", None, &[("2.0", 1.0)]),
        row("d", Some("a"), &[]),
        row("e", None, &[]),
    ];
    let outcomes = [("a", "a"), ("b", "b"), ("c", "2"), ("d", "a"), ("e", "a")]
        .map(|(key, label)| observed(key, Some(label), None));
    let evaluation = judge(&predictions, &outcomes);
    let release = &evaluation.releases["classes"];
    let Some(Measures::Multiclass(of)) = &release.measures else { panic!("{release:?}") };
    assert_eq!((of.judged, of.correct, release.unlabelled()), (4, 3, 1));
    assert_eq!((of.scores.scored, of.scores.top), (3, [3, 3, 3]));
    assert_eq!(Evaluation::from_state(&evaluation.to_state()).unwrap(), evaluation);
}

#[test]
fn needed_columns_of_segments_are_read() {
    let row = Prediction {
        lower: Some(0.0),
        upper: Some(1.0),
        scores: vec![("a", 1.0)],
        ..predicted("number", "a")
    };
    let columns = testing::predictions(&[row], true);
    assert_eq!(columns.columns.len(), 9);
    assert!(columns.columns.iter().all(|column| needs(Kind::Predictions, &column.name)));
    let outcomes = testing::outcomes(&[observed("a", None, None)], true);
    assert!(outcomes.columns.iter().all(|column| needs(Kind::Outcomes, &column.name)));
    assert!(!needs(Kind::Predictions, "feature.score.a") && !needs(Kind::Outcomes, "score"));
}

#[test]
fn predictions_of_erased_keys_are_counted() {
    let rows = [
        Prediction { score: Some(0.1), ..predicted("binary", "a") },
        Prediction { score: Some(0.7), ..predicted("binary", "erased~b") },
    ];
    let evaluation = judge(&rows, &[observed("erased~b", Some("late"), None)]);
    let of = &evaluation.releases["binary"];
    assert_eq!((of.predictions, of.erased, of.labelled), (2, 1, 1));
    let state = evaluation.to_state();
    assert!(state.contains("\"erased\":1,"), "{state}");
    assert_eq!(Evaluation::from_state(&state).unwrap(), evaluation);
}
