//! Rollups and parts stay small for any events.

use event::{Column, Values};

use super::*;
use crate::testing;

/// Returns a text of the greatest length that ingest accepts, all of it escaped in JSON.
fn long(n: usize) -> String {
    format!("{n:\u{1}<128}").replace('0', "\u{2}")
}

fn wild(n: usize) -> f64 {
    let size = 2f64.powi(n as i32 % 190 - 96) * (1.0 + n as f64 * 1e-7);
    if n.is_multiple_of(3) { -size } else { size }
}

/// Returns rows with long names and numbers of many digits.
fn wild_rows(kind: Kind, rows: usize, releases: usize, names: usize) -> Columns {
    let all = |of: &dyn Fn(usize) -> String| -> Values {
        Values::Text((0..rows).map(of).collect::<Vec<_>>().iter().map(String::as_str).collect())
    };
    let release = all(&|row| long(row % releases));
    let number = |seed: usize| Values::Float((0..rows).map(|row| wild(row * 7919 + seed)).collect());
    let mut columns = vec![Column::new("release", release)];
    match kind {
        Kind::Metrics => {
            columns.push(Column::new("name", all(&|row| long(row / releases % names))));
            columns.push(Column::new("measured_at", Values::Time(vec![i64::MIN; rows])));
            columns.push(Column::new("value", number(1)));
        }
        _ => {
            columns.push(Column::new("label", all(&|row| long(row / releases % names))));
            columns.push(Column::new(
                "score",
                Values::Float((0..rows).map(|row| row as f64 / rows as f64).collect()),
            ));
            columns.push(Column::new("value", number(3)));
            columns.push(Column::new("latency_ms", number(4)));
        }
    }
    testing::columns(columns)
}

#[test]
fn rollup_of_many_metrics_and_releases_stays_bounded() {
    let mut day = Delta::default();
    let all = wild_rows(Kind::Metrics, 250_000, 500, 500);
    for start in (0..all.rows).step_by(10_000) {
        let rows: Vec<usize> = (start..start + 10_000).collect();
        day.merge(&folded(Kind::Metrics, &all.take(&rows)));
    }
    let longest = texts_of(&day).iter().map(String::len).max();
    assert!(longest > Some(MAX_PART_BYTES / 20), "{longest:?}: the case is not hard");
    let metrics: u64 = day
        .parts
        .values()
        .filter_map(|part| if let Part::Metric(part) = part { Some(part) } else { None })
        .flat_map(|part| part.metrics.names().values().chain(part.metrics.others()))
        .map(|metric| metric.total.as_ref().unwrap().numbers.n)
        .sum();
    assert_eq!((metrics, day.rollup.metrics.n), (250_000, 250_000));
    assert_eq!(
        release_counts(day.parts.values()).map(|(_, counts)| counts.m).sum::<u64>(),
        250_000,
        "no release is lost"
    );
}

#[test]
fn rollup_of_many_releases_and_labels_stays_bounded() {
    let mut day = Delta::default();
    let all = wild_rows(Kind::Predictions, 100_000, 500, 100);
    for start in (0..all.rows).step_by(10_000) {
        let rows: Vec<usize> = (start..start + 10_000).collect();
        day.merge(&folded(Kind::Predictions, &all.take(&rows)));
    }
    texts_of(&day);
    assert_eq!(
        release_counts(day.parts.values()).map(|(_, counts)| counts.p).collect::<Vec<_>>(),
        vec![200; 500]
    );
    let heads = &day.rollup.predictions.releases;
    assert_eq!(heads.names().values().chain(heads.others()).map(|head| head.n).sum::<u64>(), 100_000);
    assert!((100.0..2_500.0).contains(&heads.distinct()), "{}", heads.distinct());
}

#[test]
fn rollup_of_many_tags_and_values_stays_bounded() {
    let rows = 4_000;
    let mut columns = wild_rows(Kind::Predictions, rows, 3, 2);
    for tag in 0..64 {
        let values: Vec<String> = (0..rows).map(|row| long((row * 31 + tag) % 1000)).collect();
        let values = Values::Text(values.iter().map(String::as_str).collect());
        columns.columns.push(Column::new(format!("tag.{}", long(tag)), values));
    }
    let day = folded(Kind::Predictions, &columns);
    let halves = [0..rows / 2, rows / 2..rows]
        .map(|half| folded(Kind::Predictions, &columns.take(&half.collect::<Vec<_>>())));
    let mut merged = halves[1].clone();
    merged.merge(&halves[0]);
    assert_eq!(texts_of(&merged), texts_of(&day));
    for part in day.parts.values() {
        let Part::Tag(part) = part else { continue };
        assert_eq!(part.tags.others(), None, "each of 64 tags is kept");
        for values in part.tags.names().values() {
            assert!(values.counts.names().len() > 25, "{}", values.counts.names().len());
            assert!(values.heads.names().len() > 9, "{}", values.heads.names().len());
            let counts = values.counts.names().values().chain(values.counts.others());
            assert_eq!(counts.map(|counts| counts.predictions).sum::<u64>(), rows as u64);
            let heads = values.heads.names().values().chain(values.heads.others());
            assert_eq!(heads.map(|head| head.n).sum::<u64>(), rows as u64);
        }
    }
}

#[test]
fn a_part_is_bounded_by_construction() {
    for longest in [ReleasePart::MAX_TEXT, MetricPart::MAX_TEXT, TagPart::MAX_TEXT, FeaturePart::MAX_TEXT] {
        assert!(longest + 20 <= MAX_PART_BYTES, "{longest}");
    }
}
