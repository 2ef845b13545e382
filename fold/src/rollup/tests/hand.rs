//! Folds checked by hand.

use event::{Column, Values, lane::LogPosition};

use super::*;
use crate::{
    FoldError, LogSegment,
    testing::{self, Prediction, floats, texts, times},
};

#[test]
fn predictions_by_hand() {
    let row = |release, score, label| Prediction { release, key: "k", score, label, ..Prediction::default() };
    let rows = [
        row("b", Some(1.0), Some("yes")),
        row("a", Some(-0.0), None),
        row("b", Some(0.25), Some("no")),
        row("b", None, Some("yes")),
        row("b", Some(1.5), None),
    ];
    for coded in [false, true] {
        let mut columns = testing::predictions(&rows, coded);
        columns.columns.push(texts("tag.side", &[Some("l"), Some("r"), Some("l"), None, Some("r")], coded));
        columns.columns.push(floats("latency_ms", &[Some(3.0), None, Some(5.0), None, None]));
        let day = folded(Kind::Predictions, &columns);
        assert_eq!(day.rollup.events(Kind::Predictions), 5);
        let heads = day.rollup.predictions.releases.names();
        assert_eq!(
            heads.iter().map(|(name, head)| (name.as_str(), head.n)).collect::<Vec<_>>(),
            [("a", 1), ("b", 4)]
        );
        let b = detail(&day, "b");
        let score = b.score.as_ref().unwrap();
        let numbers = &score.numbers;
        assert_eq!((numbers.n, numbers.mean(), numbers.min, numbers.max), (3, 2.75 / 3.0, 0.25, 1.5));
        assert_eq!(numbers.variance(), 19.0 / 72.0);
        let quantiles = [0.0, 0.5, 0.9, 1.0].map(|q| score.quantile(q).unwrap().value);
        assert_eq!(quantiles, [0.25, 1.0, 1.4, 1.5]);
        assert_eq!((b.score_bins.0[5], b.score_bins.0[19], b.score_bins.n()), (1, 1, 2));
        let head = b.headline();
        assert_eq!(head.null_rate(head.score.as_ref()), Some(0.25));
        assert_eq!((head.label_null_rate(), head.null_rate(head.value.as_ref())), (Some(0.25), Some(1.0)));
        assert_eq!(head.latency.unwrap().mean(), 4.0);
        assert_eq!(b.labels.names(), &BTreeMap::from([("no".into(), 1), ("yes".into(), 2)]));
        let known: Vec<_> = release_counts(day.parts.values()).map(|(name, _)| name).collect();
        assert!(!known.contains(&"unused"));
        let side = tag(&day, "side");
        let heads = side.heads.names();
        assert_eq!(heads["l"].score.as_ref().unwrap().mean(), 0.625);
        assert_eq!((heads["l"].labelled, heads["r"].labelled), (2, 0));
        assert_eq!(side.counts.names().values().map(|counts| counts.predictions).sum::<u64>(), 4);
        assert_eq!(side.scores.get("r").unwrap().n(), 2);
    }
}

#[test]
fn bad_columns_are_refused() {
    let good = testing::columns(vec![
        texts("release", &[Some("r"), Some("r")], true),
        floats("score", &[Some(0.5), None]),
    ]);
    let with = |at: usize, column: Column| {
        let mut columns = good.clone();
        columns.columns[at] = column;
        columns
    };
    let short = floats("score", &[Some(0.5)]);
    let mut beyond = good.columns[0].clone();
    let Values::Coded(coded) = &mut beyond.values else { panic!("coded") };
    coded.codes[1] = 9;
    let column = || "release".to_owned();
    let score = || "score".to_owned();
    let cases = [
        (with(0, floats("other", &[None, None])), FoldError::Missing { column: column() }),
        (with(0, texts("release", &[Some("r"), None], true)), FoldError::Null { column: column(), row: 1 }),
        (with(0, floats("release", &[None, None])), FoldError::Type { column: column() }),
        (with(0, beyond), FoldError::Shape { column: column() }),
        (with(1, short), FoldError::Shape { column: score() }),
        (with(1, floats("score", &[None, Some(f64::NAN)])), FoldError::NotFinite { column: score(), row: 1 }),
        (with(1, floats("tag.x", &[None, Some(1.0)])), FoldError::Type { column: "tag.x".into() }),
    ];
    for (columns, error) in cases {
        let segment = LogSegment { place: LogPosition::of(0, 1), columns: &columns };
        assert_eq!(Delta::of(Kind::Predictions, segment), Err(error.clone()));
        assert_eq!(event::Error::from(error).kind(), event::ErrorKind::Corrupt);
    }
    let mut under_null = floats("score", &[Some(0.5), None]);
    under_null.values = Values::Float(vec![0.5, f64::NAN]);
    assert_eq!(
        folded(Kind::Predictions, &with(1, under_null)),
        folded(Kind::Predictions, &good),
        "what stands under a null does not count"
    );
}

#[test]
fn mean_and_deviation_hold_at_any_magnitude() {
    let of = |values: &[f64]| {
        let row =
            |value: &f64| Prediction { release: "r", key: "k", value: Some(*value), ..Prediction::default() };
        let rows: Vec<Prediction> = values.iter().map(row).collect();
        let day = folded(Kind::Predictions, &testing::predictions(&rows, false));
        texts_of(&day);
        let value = detail(&day, "r").value.as_ref().unwrap().numbers.clone();
        (value.mean(), value.std())
    };
    assert_eq!(of(&[1e-30, 3e-30]), (2e-30, 9.999999999999999e-31));
    assert_eq!(of(&[4e28, 6e28]), (5.0000000000000005e28, 1.0000000000000002e28));
    assert_eq!(of(&[1e300, -1e300]), (0.0, 1e300));
    assert_eq!(of(&[f64::MAX, f64::MAX]), (f64::MAX, 0.0));
    assert_eq!(of(&[5e-324, 5e-324]), (5e-324, 0.0));
    assert_eq!(of(&[0.0, -0.0]), (0.0, 0.0));
    assert_eq!(of(&[1e20, 1.0, -1e20]).0, 1.0 / 3.0, "of different groups");
    assert_eq!(of(&[1e300, 1.0, -1e300]).0, 0.0, "less than 2^-128 of the greatest is left out");
}

#[test]
fn frequent_tag_value_is_kept_apart() {
    let values: Vec<String> =
        (0..1_600).map(|row| if row % 2 == 0 { "half".into() } else { format!("v{row}") }).collect();
    let values: Vec<Option<&str>> = values.iter().map(|value| Some(value.as_str())).collect();
    let row = Prediction { release: "r", key: "k", score: Some(0.5), ..Prediction::default() };
    for name in ["half", "UA", "x", "Newark"] {
        let values: Vec<Option<&str>> =
            values.iter().map(|value| if *value == Some("half") { Some(name) } else { *value }).collect();
        let mut columns = testing::predictions(&vec![row.clone(); values.len()], false);
        columns.columns.push(texts("tag.t", &values, false));
        let day = folded(Kind::Predictions, &columns);
        let tag = tag(&day, "t");
        assert_eq!((tag.counts.names().len(), tag.counts.others()), (801, None), "{name}");
        assert_eq!(tag.counts.get(name), Some(&TagCounts { predictions: 800, metrics: 0 }));
        assert!((50..800).contains(&tag.heads.names().len()), "{}", tag.heads.names().len());
        texts_of(&day);
    }
}

/// Among several observations at the same instant the later event is the last, whatever its value and the order in
/// which segments are folded.
#[test]
fn later_event_is_last_of_a_metric() {
    let observed = |place, values: &[f64]| {
        let rows = values.len();
        let columns = testing::columns(vec![
            texts("name", &vec![Some("latency"); rows], true),
            times("measured_at", &vec![Some(7); rows]),
            floats("value", &values.iter().map(|value| Some(*value)).collect::<Vec<_>>()),
        ]);
        folded_at(place, Kind::Metrics, &columns)
    };
    let last = |day: &Delta| {
        let metric = metric(day, "latency");
        let series = metric.total.as_ref().unwrap();
        assert_eq!(metric.releases.get("").unwrap().as_ref(), Some(series));
        (series.last, series.last_in.unwrap().to_string())
    };
    let segments = [
        observed(LogPosition::of(0, 1), &[9.0]),
        observed(LogPosition::of(0, 2), &[5.0, 8.0, 3.0]),
        observed(LogPosition::of(1, 1), &[1.0, 2.0]),
    ];
    assert_eq!(last(&segments[0]), (9.0, "0/1/0".into()));
    assert_eq!(last(&segments[1]), (3.0, "0/2/2".into()));
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut day = Delta::default();
        order.iter().for_each(|at| day.merge(&segments[*at]));
        assert_eq!(last(&day), (2.0, "1/1/1".into()), "{order:?}");
    }
}
