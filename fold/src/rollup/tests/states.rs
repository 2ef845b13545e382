//! Texts of states.

use super::*;
use crate::{
    FoldError,
    testing::{self, Outcome, Prediction, floats, texts, times},
};

#[test]
fn the_states_are_golden() {
    let prediction = Prediction { release: "delay-2", key: "k", score: Some(0.1), ..Prediction::default() };
    let mut columns = testing::predictions(&[prediction.clone(), prediction], true);
    columns.columns.push(texts("tag.carrier", &[Some("UA"), None], true));
    let mut day = folded(Kind::Predictions, &columns);
    let outcome = Outcome { key: "k", label: Some("late"), value: Some(-0.0), ..Outcome::default() };
    day.merge(&folded(Kind::Outcomes, &testing::outcomes(&[outcome], false)));
    let metrics = testing::columns(vec![
        texts("name", &[Some("latency"); 3], true),
        times("measured_at", &[Some(5), Some(7), Some(7)]),
        floats("value", &[Some(3.0), Some(1.5), Some(2.0)]),
        texts("release", &[None, Some("delay-2"), Some("delay-2")], true),
        texts("tag.carrier", &[Some("UA"); 3], false),
    ]);
    day.merge(&folded(Kind::Metrics, &metrics));
    let changes = testing::columns(vec![
        texts("release", &[Some("delay-2"), Some("delay-2")], false),
        texts("action", &[Some("promote"), Some("retire")], false),
        texts("environment", &[Some("production"), None], false),
    ]);
    day.merge(&folded(Kind::Releases, &changes));
    let counts: Vec<_> = release_counts(day.parts.values()).collect();
    assert_eq!(counts, [("delay-2", &ReleaseCounts { p: 2, m: 2, r: 2 })]);
    insta::assert_snapshot!(texts_of(&day).join("\n"));
}

#[test]
fn erased_counts_are_added_and_stored() {
    let of = |erased| Rollup { erased, ..Rollup::default() };
    let mut all = of(3);
    all.merge(&of(4));
    let state = all.to_state();
    assert!(state.ends_with(",\"erased\":7}"), "{state}");
    assert_eq!(Rollup::from_state(&state).unwrap(), of(7));
}

#[test]
fn other_states_are_refused() {
    let newer = |state: String| state.replacen("\"v\":1", "\"v\":2", 1);
    let refused = Rollup::from_state(&newer(Rollup::default().to_state())).unwrap_err().to_string();
    assert!(refused.contains("version 2, this Almanac knows 1"), "{refused}");
    let refused = Part::from_state(By::Tag, &newer(Part::of(By::Tag).to_state())).unwrap_err().to_string();
    assert!(refused.contains("version 2, this Almanac knows 1"), "{refused}");
    for text in
        ["", "{}", "{\"v\":1}", "[]", "{\"v\":1,\"tags\":{\"names\":[]}}", "{\"v\":1,\"counts\":null}"]
    {
        assert!(matches!(Rollup::from_state(text), Err(FoldError::State { .. })), "{text}");
        for by in By::ALL {
            assert!(matches!(Part::from_state(by, text), Err(FoldError::State { .. })), "{text}");
        }
    }
}

#[test]
fn a_hostile_state_never_panics() {
    let row = Prediction {
        release: "r",
        key: "k",
        score: Some(0.5),
        label: Some("x"),
        value: Some(2.0),
        ..Prediction::default()
    };
    let mut columns = testing::predictions(&[row.clone(), row], true);
    columns.columns.push(texts("tag.t", &[Some("x"), Some("y")], true));
    let day = folded(Kind::Predictions, &columns);
    for text in texts_of(&day) {
        let (by, text) = match By::ALL.into_iter().find(|by| text.starts_with(by.name())) {
            Some(by) => (Some(by), text.split_once(' ').unwrap().1.to_owned()),
            None => (None, text),
        };
        let mut edits: Vec<String> = (0..text.len()).map(|end| text[..end].to_owned()).collect();
        for (at, byte) in text.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_digit()) {
            for new in ["18446744073709551615", "-1", "1e308", "null", "9"]
                .into_iter()
                .filter(|new| new.as_bytes() != [byte])
            {
                edits.push(format!("{}{new}{}", &text[..at], &text[at + 1..]));
            }
        }
        for edit in edits {
            match by {
                None => {
                    if let Ok(mut rollup) = Rollup::from_state(&edit) {
                        rollup.merge(&day.rollup);
                        rollup.merge(&rollup.clone());
                        rollup.to_state();
                        let total = &rollup.predictions.total;
                        let _ = (
                            total.score.as_ref().map(NumberRollup::std),
                            total.null_rate(total.value.as_ref()),
                        );
                        let _ = rollup.predictions.score_bins.n();
                    }
                }
                Some(by) => {
                    if let Ok(mut part) = Part::from_state(by, &edit) {
                        day.parts.iter().filter(|(of, _)| of.by == by).for_each(|(_, more)| part.merge(more));
                        part.merge(&part.clone());
                        part.to_state();
                        if let Part::Release(part) = &part {
                            let scores =
                                part.details.names().values().filter_map(|detail| detail.score.as_ref());
                            scores.for_each(|score| {
                                let _ = (score.quantile(0.5), score.numbers.std());
                            });
                        }
                    }
                }
            }
        }
    }
}
