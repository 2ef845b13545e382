use proptest::prelude::*;

use super::*;
use crate::{
    evaluation::{
        Evaluator,
        grouping::tests::{definitions, fed, in_segments, outcomes, rows},
    },
    testing::{Outcome, Prediction},
};

/// Declares dimensions for two of three releases.
fn split_definitions() -> BTreeMap<String, Definition> {
    let mut definitions = definitions();
    let declared = [("v1", "tag.t,feature.f:0:10"), ("w1", "tag.t")];
    for (name, dimensions) in declared {
        definitions.get_mut(name).unwrap().dimensions = Dimension::parse_all(dimensions).unwrap();
    }
    definitions
}

/// Evaluates partition by partition, after a survey.
fn run(evaluator: Evaluator, predictions: &[Prediction], outcomes: &[Outcome], parts: usize) -> Evaluator {
    let predictions = in_segments(predictions);
    let evaluator = match evaluator.survey() {
        None => evaluator,
        Some(mut survey) => {
            predictions.iter().for_each(|columns| survey.add(columns).unwrap());
            evaluator.split(survey)
        }
    };
    fed(evaluator, &predictions, outcomes, parts).unwrap()
}

fn evaluated(predictions: &[Prediction], outcomes: &[Outcome]) -> Evaluation {
    run(Evaluator::new(split_definitions()), predictions, outcomes, 1).finish()
}

proptest! {
    /// The stored rows of a dimension equal those of a breakdown to the bit, and the rows of releases are unchanged.
    #[test]
    fn a_stored_row_is_that_of_a_breakdown(predictions in rows(), outcomes in outcomes()) {
        let stored = evaluated(&predictions, &outcomes);
        let in_halves = run(Evaluator::new(split_definitions()), &predictions, &outcomes, 2);
        prop_assert_eq!(&stored, &in_halves.finish());
        let plain = run(Evaluator::new(definitions()), &predictions, &outcomes, 1).finish();
        prop_assert_eq!(&stored.releases, &plain.releases);
        prop_assert!(plain.slices.is_empty());
        for (text, releases) in [("tag.t", &["v1", "w1"][..]), ("feature.f:0:10", &["v1"])] {
            let dimension = Dimension::parse(text).unwrap();
            let by = match dimension.edges.is_empty() {
                true => By::Texts { column: dimension.column.clone(), kept: None },
                false => By::Bins { column: dimension.column.clone(), edges: dimension.edges.clone() },
            };
            let grouping = Arc::new(Grouping { by: vec![by], ..Grouping::default() });
            let evaluator = Evaluator::new(definitions()).grouped(grouping);
            let computed = run(evaluator, &predictions, &outcomes, 1).finish_buckets();
            for release in releases.iter().filter(|release| stored.releases.contains_key(**release)) {
                let found = stored.slices_of(&dimension, Some(release)).unwrap();
                let expected: Vec<_> =
                    computed.buckets.iter().filter(|(bucket, _)| bucket.name == *release).collect();
                prop_assert_eq!(found.len(), expected.len());
                for ((bucket, of), (expected, expected_of)) in found.into_iter().zip(expected) {
                    prop_assert_eq!((&bucket, of), (expected, expected_of));
                }
            }
        }
        let undeclared = stored.releases.contains_key("v2");
        prop_assert_eq!(stored.slices_of(&Dimension::parse("tag.t").unwrap(), None).is_none(), undeclared);
        // Splitting it into parts of any size loses nothing.
        for most in [200, 1_500, 4_000] {
            let states = stored.to_states(most);
            prop_assert_eq!(&Evaluation::from_states(&states).unwrap(), &stored);
            let largest = stored.pieces().map(|piece| piece.to_state().len()).max().unwrap_or(0);
            prop_assert!(states.iter().all(|state| state.len() <= most.max(largest + 40)));
        }
        prop_assert_eq!(Evaluation::from_state(&stored.to_state()).unwrap(), stored);
    }
}

#[test]
fn values_that_are_less_frequent_are_stored_together() {
    let tags: Vec<&'static str> = (0..70).map(|n| &*format!("t{n:02}").leak()).collect();
    // The first six are predicted once, the rest twice.
    let row = |(at, n): (i64, usize)| Prediction {
        release: "w1",
        key: tags[n],
        at,
        tag: Some(tags[n]),
        value: Some(n as f64),
        ..Prediction::default()
    };
    let numbers = (0..70).chain(6..70);
    let rows: Vec<Prediction> = (0..).zip(numbers).map(row).collect();
    let found = evaluated(&rows, &[]);
    let of = &found.slices["w1"]["tag.t"];
    let expected = tags[6..].iter().map(|tag| Value::Text((*tag).to_owned())).chain([Value::Others]);
    assert_eq!(of.iter().map(|row| row.value.clone()).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert_eq!(of[64].of.predictions, 6);
    assert_eq!(of.len(), MAX_SLICES + 1);
    let reversed: Vec<Prediction> = rows.into_iter().rev().collect();
    assert_eq!(evaluated(&reversed, &[]).to_state(), found.to_state());
}

#[test]
fn the_state_of_slices_is_golden() {
    let rows = [("a", Some("x")), ("b", None)].map(|(key, tag)| Prediction {
        release: "w1",
        key,
        tag,
        value: Some(1.5),
        ..Prediction::default()
    });
    insta::assert_snapshot!(evaluated(&rows, &[]).to_state(), @r#"{"v":1,"releases":{"w1":{"predictions":2,"repeated":0,"labelled":0,"mean_score":null,"measures":{"regression":{"judged":0,"mae":null,"rmse":null,"bias":null,"detail":{"mse":null,"mape":null,"smape":null,"msle":null,"r2":null,"median_absolute_error":null,"error_p10":null,"error_p50":null,"error_p90":null}}}}},"slices":{"w1":{"tag.t":[{"value":{"text":"x"},"of":{"predictions":1,"repeated":0,"labelled":0,"mean_score":null,"measures":{"regression":{"judged":0,"mae":null,"rmse":null,"bias":null,"detail":{"mse":null,"mape":null,"smape":null,"msle":null,"r2":null,"median_absolute_error":null,"error_p10":null,"error_p50":null,"error_p90":null}}}}},{"value":"null","of":{"predictions":1,"repeated":0,"labelled":0,"mean_score":null,"measures":{"regression":{"judged":0,"mae":null,"rmse":null,"bias":null,"detail":{"mse":null,"mape":null,"smape":null,"msle":null,"r2":null,"median_absolute_error":null,"error_p10":null,"error_p50":null,"error_p90":null}}}}}]}},"outcomes":0,"orphaned":0}"#);
}
