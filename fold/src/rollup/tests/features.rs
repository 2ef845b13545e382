//! Rollups of features.

use event::{Column, Values};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::testing::{self, floats, texts};

fn sketched(columns: &Columns) -> Delta {
    let segment = LogSegment { place: LogPosition::of(0, 1), columns };
    Delta::folded(Folding::Features, Kind::Predictions, segment).unwrap()
}

fn feature<'a>(day: &'a Delta, name: &str) -> &'a Feature {
    match &day.parts[&Breakdown::of(By::Feature, name)] {
        Part::Feature(part) => part.features.get(name).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// A release and two features.
type Row = (&'static str, Option<f64>, Option<f64>);

/// Returns predictions with two features, one of which may be absent as a whole.
fn rows(rows: &[Row]) -> Columns {
    let releases: Vec<_> = rows.iter().map(|row| Some(row.0)).collect();
    let number = |of: fn(&Row) -> Option<f64>| rows.iter().map(of).collect::<Vec<_>>();
    let mut columns = vec![
        texts("release", &releases, true),
        floats("score", &vec![Some(0.5); rows.len()]),
        floats("feature.distance", &number(|row| row.1)),
        floats("feature.dep_delay", &number(|row| row.2)),
    ];
    columns.retain(|column| column.nulls() < rows.len());
    testing::columns(columns)
}

#[test]
fn the_state_of_features_is_golden() {
    let day = sketched(&rows(&[
        ("v1", Some(719.0), None),
        ("v2", Some(-0.5), Some(3.0)),
        ("v1", Some(1e300), None),
    ]));
    insta::assert_snapshot!(texts_of(&day).join("\n"));
}

#[test]
fn features_belong_only_to_predictions_apart_from_rollups() {
    let columns = rows(&[("v1", Some(1.0), Some(2.0))]);
    let segment = || LogSegment { place: LogPosition::of(0, 1), columns: &columns };
    assert_eq!(Delta::folded(Folding::Features, Kind::Metrics, segment()).unwrap(), Delta::default());
    let rollup = Delta::of(Kind::Predictions, segment()).unwrap();
    assert!(rollup.parts.keys().all(|breakdown| breakdown.by != By::Feature));
    let needed = |name: &str| {
        [Folding::Rollup, Folding::Features].map(|folding| folding.wants(Kind::Predictions, name))
    };
    assert_eq!(needed("release"), [true, true]);
    assert_eq!((needed("score"), needed("feature.x")), ([true, false], [false, true]));
    assert_eq!((needed("key"), needed("score.late")), ([false, false], [false, false]));
}

#[test]
fn feature_sketches_of_many_releases_stay_bounded() {
    const ROWS: usize = 4_000;
    let wild = |seed: usize| -> Vec<f64> {
        (0..ROWS)
            .map(|row| 2f64.powi(((row * 7919 + seed) % 190) as i32 - 96) * (1.0 + row as f64 * 1e-7))
            .collect()
    };
    let names: Vec<String> = (0..ROWS).map(|row| format!("{:\u{1}<128}", row % 100)).collect();
    let mut columns = vec![Column::new("release", Values::Text(names.iter().map(String::as_str).collect()))];
    columns.extend((0..200).map(|n| Column::new(format!("feature.f{n}"), Values::Float(wild(n)))));
    let columns = testing::columns(columns);
    let day = sketched(&columns);
    // `texts_of` checks the bounds.
    let longest = texts_of(&day).iter().map(String::len).max();
    assert!(longest > Some(MAX_PART_BYTES / 5), "{longest:?}: the case is not hard");
    let halves = [0..ROWS / 2, ROWS / 2..ROWS].map(|half| sketched(&columns.take(&half.collect::<Vec<_>>())));
    let mut merged = halves[1].clone();
    merged.merge(&halves[0]);
    assert_eq!(texts_of(&merged), texts_of(&day));
}

proptest! {
    #[test]
    fn any_grouping_gives_the_same_bytes_and_counts(
        all in vec((select(vec!["v1", "v2"]), option::of(-1e3..1e3f64), option::weighted(0.1, 0.0..1.0f64)), 1..60),
        cut in 0usize..60,
    ) {
        let whole = sketched(&rows(&all));
        let (left, right) = all.split_at(cut.min(all.len()));
        let mut merged = sketched(&rows(right));
        merged.merge(&sketched(&rows(left)));
        prop_assert_eq!(texts_of(&merged), texts_of(&whole));
        for release in ["v1", "v2"] {
            let of = || all.iter().filter(|row| row.0 == release);
            let heads = &whole.rollup.predictions.releases;
            prop_assert_eq!(heads.get(release).map_or(0, |head| head.n), of().count() as u64);
            let distances: Vec<f64> = of().filter_map(|row| row.1).collect();
            if distances.is_empty() {
                continue;
            }
            let found = feature(&whole, "distance").releases.get(release).and_then(Option::as_ref).unwrap();
            prop_assert_eq!((found.numbers.n, found.sketch.n()), (distances.len() as u64, distances.len() as u64));
            let least = distances.iter().copied().fold(f64::INFINITY, f64::min);
            prop_assert_eq!(found.quantile(0.0).map(|least| least.value), Some(least));
        }
    }
}
