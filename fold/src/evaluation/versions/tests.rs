use event::task::POSITIVE_SCORE;

use super::*;
use crate::{
    Evaluation,
    evaluation::Measures,
    evaluation::tests::{binary, judge, observed, predicted},
    testing::Prediction,
};

/// A text of every version before the current one, of which `the_state_is_golden` has one.
const GOLDENS: [&str; 5] = [
    include_str!("golden/v1.json"),
    include_str!("golden/v2.json"),
    include_str!("golden/v3.json"),
    include_str!("golden/v4.json"),
    include_str!("golden/v5.json"),
];

#[test]
fn every_version_is_read_and_says_what_it_can() {
    assert_eq!(GOLDENS.len() as u32, EVALUATION.current() - EVALUATION.oldest, "a golden for each version");
    let rows = [
        Prediction { score: Some(0.1), ..predicted("binary", "a") },
        Prediction { score: Some(0.7), ..predicted("binary", "b") },
        Prediction { value: Some(0.3), ..predicted("number", "a") },
        predicted("unknown", "a"),
    ];
    let outcomes = [observed("a", Some("late"), Some(0.1)), observed("b", Some("late"), None)];
    let now = judge(&rows, &outcomes);
    // A release of classes is in the third and the later ones.
    let classes = Prediction { label: Some("on time"), ..predicted("classes", "a") };
    let with_classes = [&rows[..], &[classes]].concat();
    for (text, version) in GOLDENS.into_iter().zip(EVALUATION.oldest..) {
        assert!(text.starts_with(&format!("{{\"v\":{version},")), "{text}");
        let then = Evaluation::from_state(text).unwrap();
        let rows = if version >= 3 { &with_classes[..] } else { &rows };
        assert!(judge(rows, &outcomes).says(&then), "{version}");
        assert!(!judge(rows, &outcomes[1..]).says(&then));
        // Written again, it is of the current version and says the same.
        assert!(EVALUATION.is_current(&then.to_state()));
        assert_eq!(Evaluation::from_state(&then.to_state()).unwrap(), then);
        assert_eq!(binary(&then).threshold, POSITIVE_SCORE);
    }
    let second = Evaluation::from_state(GOLDENS[1]).unwrap();
    assert_eq!((second.unmatched, &binary(&second).ranks), (Some(0), &None));
    assert!(binary(&now).ranks.is_some());
    let first = Evaluation::from_state(GOLDENS[0]).unwrap();
    assert_eq!((first.unmatched, first.releases["binary"].repeated), (None, None));
    assert!(now.says(&now));
    let third = Evaluation::from_state(GOLDENS[2]).unwrap();
    let Some(Measures::Multiclass(of)) = &third.releases["classes"].measures else { panic!("{third:?}") };
    assert!(of.scores.is_none() && of.classes.is_some(), "it did not look at scores");
    let Some(Measures::Regression(of)) = &third.releases["number"].measures else { panic!("{third:?}") };
    assert!(of.bounds.is_none() && of.detail.is_some());
}
