use event::{Column, Values};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::{
    FoldError,
    testing::{self, Outcome, Prediction, floats, texts, times},
};

fn folded(kind: Kind, columns: &Columns) -> Delta {
    Delta::of(kind, columns).unwrap()
}

fn release_part<'a>(day: &'a Delta, name: &str) -> &'a ReleasePart {
    match &day.parts[&Breakdown::of(By::Release, name)] {
        Part::Release(part) => part,
        other => panic!("{other:?}"),
    }
}

fn detail<'a>(day: &'a Delta, name: &str) -> &'a ReleaseDetail {
    release_part(day, name).details.get(name).unwrap()
}

fn metric<'a>(day: &'a Delta, name: &str) -> &'a Metric {
    match &day.parts[&Breakdown::of(By::Metric, name)] {
        Part::Metric(part) => part.metrics.get(name).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn tag<'a>(day: &'a Delta, name: &str) -> &'a TagValues {
    match &day.parts[&Breakdown::of(By::Tag, name)] {
        Part::Tag(part) => part.tags.get(name).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The texts of everything, each read back.
fn texts_of(day: &Delta) -> Vec<String> {
    let rollup = day.rollup.to_state();
    assert_eq!(Rollup::from_state(&rollup).unwrap(), day.rollup);
    assert!(rollup.len() <= MAX_ROLLUP_BYTES, "a rollup of {} bytes", rollup.len());
    let mut texts = vec![rollup];
    for (breakdown, part) in &day.parts {
        let text = part.to_state();
        assert_eq!(Part::from_state(breakdown.by, &text).as_ref(), Ok(part));
        assert!(text.len() <= MAX_PART_BYTES, "{breakdown} of {} bytes", text.len());
        texts.push(format!("{breakdown} {text}"));
    }
    texts
}

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
        assert_eq!((numbers.n, numbers.mean(), numbers.min, numbers.max), (3, Some(2.75 / 3.0), 0.25, 1.5));
        assert_eq!(numbers.variance(), Some(19.0 / 72.0));
        let quantiles = [0.0, 0.5, 0.9, 1.0].map(|q| score.quantile(q).unwrap().value);
        assert_eq!(quantiles, [0.25, 1.0, 1.4, 1.5]);
        assert_eq!((b.score_bins.0[5], b.score_bins.0[19], b.score_bins.n()), (1, 1, 2));
        let head = b.headline();
        assert_eq!(head.null_rate(head.score.as_ref()), Some(0.25));
        assert_eq!((head.label_null_rate(), head.null_rate(head.value.as_ref())), (Some(0.25), Some(1.0)));
        assert_eq!(head.latency.unwrap().mean(), Some(4.0));
        assert_eq!(b.labels.names(), &BTreeMap::from([("no".into(), 1), ("yes".into(), 2)]));
        let known: Vec<_> = release_counts(day.parts.values()).map(|(name, _)| name).collect();
        assert!(!known.contains(&"unused"));
        let side = tag(&day, "side");
        let heads = side.heads.names();
        assert_eq!(heads["l"].score.as_ref().unwrap().mean(), Some(0.625));
        assert_eq!((heads["l"].labelled, heads["r"].labelled), (2, 0));
        assert_eq!(side.counts.names().values().map(|counts| counts.predictions).sum::<u64>(), 4);
        assert_eq!(side.scores.get("r").unwrap().n(), 2);
    }
}

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
fn other_states_are_refused() {
    let newer = Rollup::default().to_state().replace("\"v\":3", "\"v\":4");
    assert!(Rollup::from_state(&newer).unwrap_err().to_string().contains("newer"));
    let older = Rollup::default().to_state().replace("\"v\":3", "\"v\":1");
    assert!(Rollup::from_state(&older).unwrap_err().to_string().contains("rebuild"));
    for text in
        ["", "{}", "{\"v\":2}", "[]", "{\"v\":2,\"tags\":{\"names\":[]}}", "{\"v\":3,\"counts\":null}"]
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
        assert_eq!(Delta::of(Kind::Predictions, &columns), Err(error.clone()));
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
fn means_and_deviations_hold_for_numbers_of_any_size() {
    let of = |values: &[f64]| {
        let row =
            |value: &f64| Prediction { release: "r", key: "k", value: Some(*value), ..Prediction::default() };
        let rows: Vec<Prediction> = values.iter().map(row).collect();
        let day = folded(Kind::Predictions, &testing::predictions(&rows, false));
        texts_of(&day);
        let value = detail(&day, "r").value.as_ref().unwrap().numbers.clone();
        (value.mean().unwrap(), value.std().unwrap())
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
fn a_frequent_value_of_a_tag_is_not_among_the_others() {
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

#[test]
fn states_of_version_2_are_read() {
    let old = include_str!("states_of_version_2.txt");
    let (rollup, parts) = old.split_once('\n').unwrap();
    let rollup = Rollup::from_state(rollup).unwrap();
    let score = rollup.predictions.total.score.as_ref().unwrap();
    assert_eq!((score.n, score.mean(), score.std()), (2, Some(0.1), Some(0.0)));
    let mut found = Vec::new();
    for line in parts.lines() {
        let (breakdown, text) = line.split_once(' ').unwrap();
        let by = By::ALL.into_iter().find(|by| breakdown.starts_with(by.name())).unwrap();
        let part = Part::from_state(by, text).unwrap();
        // Written again, it is of this version and says the same.
        assert_eq!(Part::from_state(by, &part.to_state()).unwrap(), part);
        match part {
            Part::Release(part) => {
                let score = part.details.get("delay-2").unwrap().score.as_ref().unwrap();
                let median = score.quantile(0.5).unwrap();
                found.push(format!("score {} {median:?}", score.numbers.n));
            }
            Part::Metric(part) => {
                let metric = part.metrics.get("latency").unwrap();
                let numbers = &metric.total.0.as_ref().unwrap().numbers;
                let median = metric.sketch.quantile(0.5, numbers.extremes()).unwrap();
                found.push(format!("latency {:?} {median:?}", numbers.mean()));
            }
            Part::Tag(part) => {
                let carrier = part.tags.get("carrier").unwrap();
                let head = carrier.heads.get("UA").unwrap();
                let score = head.score.as_ref().unwrap();
                let median = carrier.scores.get("UA").unwrap().quantile(0.5, score.extremes()).unwrap();
                found.push(format!(
                    "UA {:?} {:?} {median:?}",
                    carrier.counts.get("UA").unwrap(),
                    score.mean()
                ));
            }
        }
    }
    insta::assert_snapshot!(found.join("\n"));
}

/// Text of the greatest length that ingest takes, all of it escaped in JSON.
fn long(n: usize) -> String {
    format!("{n:\u{1}<128}").replace('0', "\u{2}")
}

fn wild(n: usize) -> f64 {
    let size = 2f64.powi(n as i32 % 190 - 96) * (1.0 + n as f64 * 1e-7);
    if n.is_multiple_of(3) { -size } else { size }
}

/// Rows of which every name is long and every number needs many digits.
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
fn five_hundred_metrics_times_five_hundred_releases_stay_bounded() {
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
        .map(|metric| metric.total.0.as_ref().unwrap().numbers.n)
        .sum();
    assert_eq!((metrics, day.rollup.metrics.n), (250_000, 250_000));
    assert_eq!(
        release_counts(day.parts.values()).map(|(_, counts)| counts.m).sum::<u64>(),
        250_000,
        "no release is lost"
    );
}

#[test]
fn five_hundred_releases_times_a_hundred_labels_stay_bounded() {
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
fn sixty_four_tags_times_a_thousand_values_stay_bounded() {
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
    for longest in [ReleasePart::MAX_TEXT, MetricPart::MAX_TEXT, TagPart::MAX_TEXT] {
        assert!(longest + 20 <= MAX_PART_BYTES, "{longest}");
    }
}

/// An event of any kind, simple enough to be counted by a naive loop.
#[derive(Clone, Debug)]
struct Event {
    kind: Kind,
    name: &'static str,
    release: Option<&'static str>,
    at: i64,
    score: Option<f64>,
    label: Option<&'static str>,
    value: f64,
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![3 => 0.0..=1.0f64, 1 => select(vec![0.0, -0.0, 1.0, 1e300, 5e-324, 0.15]), 1 => -1e3..1e3f64]
}

fn event() -> impl Strategy<Value = Event> {
    let release = option::of(select(vec!["r1", "r2", "r3", ""]));
    let label = option::of(select(vec!["0", "1", "late", "\"quoted\"", ""]));
    let kind = select(Kind::ALL.to_vec());
    (kind, select(vec!["m1", "m2"]), release, 0i64..4, option::of(number()), label, number()).prop_map(
        |(kind, name, release, at, score, label, value)| Event {
            kind,
            name,
            release,
            at,
            score,
            label,
            value,
        },
    )
}

fn pack(kind: Kind, events: &[&Event], coded: bool) -> Columns {
    let of =
        |text: fn(&Event) -> Option<&'static str>| events.iter().map(|event| text(event)).collect::<Vec<_>>();
    let release = of(|event| Some(event.release.unwrap_or("none")));
    let value = floats("value", &events.iter().map(|event| Some(event.value)).collect::<Vec<_>>());
    let tag = || texts("tag.label", &of(|event| event.label), coded);
    let mut columns = match kind {
        Kind::Predictions => vec![
            texts("release", &release, coded),
            floats("score", &events.iter().map(|event| event.score).collect::<Vec<_>>()),
            texts("label", &of(|event| event.label), coded),
            value,
            tag(),
        ],
        Kind::Outcomes => vec![texts("label", &of(|event| event.label), coded), value],
        Kind::Metrics => vec![
            texts("name", &of(|event| Some(event.name)), coded),
            times("measured_at", &events.iter().map(|event| Some(event.at)).collect::<Vec<_>>()),
            value,
            texts("release", &of(|event| event.release), coded),
            tag(),
        ],
        Kind::Releases => {
            vec![texts("release", &release, coded), texts("action", &of(|event| Some(event.name)), coded)]
        }
    };
    // A column without a value may as well be absent.
    columns.retain(|column| column.nulls() < events.len());
    testing::columns(columns)
}

/// Folds the events of each kind in segments that end where `cuts` say.
fn fold_all(events: &[Event], cuts: &[usize], coded: bool) -> Delta {
    let mut day = Delta::default();
    let mut start = 0;
    for end in cuts.iter().map(|&cut| cut.min(events.len())).chain([events.len()]) {
        let segment = &events[start.min(end)..end];
        for kind in Kind::ALL {
            let of_kind: Vec<&Event> = segment.iter().filter(|event| event.kind == kind).collect();
            day.merge(&folded(kind, &pack(kind, &of_kind, coded)));
        }
        start = end.max(start);
    }
    day
}

proptest! {
    #[test]
    fn any_grouping_and_order_gives_the_same_bytes(
        events in vec(event(), 0..60).prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle())),
        cuts in vec(0usize..60, 0..4),
        split in 0usize..60,
        coded in any::<bool>(),
    ) {
        let (events, shuffled) = events;
        let whole = fold_all(&events, &[], !coded);
        let mut cuts = cuts;
        cuts.sort_unstable();
        let (left, right) = shuffled.split_at(split.min(shuffled.len()));
        let (left, right) = (fold_all(left, &cuts, !coded), fold_all(right, &cuts, coded));
        let mut one_way = left.clone();
        one_way.merge(&right);
        let mut other_way = right;
        other_way.merge(&left);
        prop_assert_eq!(texts_of(&one_way), texts_of(&whole));
        prop_assert_eq!(&other_way, &one_way);
        prop_assert_eq!(one_way, whole);
    }

    #[test]
    fn agrees_with_naive_counts(events in vec(event(), 0..60), coded in any::<bool>()) {
        let day = fold_all(&events, &[20, 30], coded);
        let naive = |kind: Kind, of: &dyn Fn(&Event) -> bool| {
            events.iter().filter(|event| event.kind == kind && of(event)).count() as u64
        };
        for kind in Kind::ALL {
            prop_assert_eq!(day.rollup.events(kind), naive(kind, &|_| true));
        }
        for (release, counts) in release_counts(day.parts.values()) {
            let named = |event: &Event| event.release.unwrap_or("none") == release;
            prop_assert_eq!(counts.p, naive(Kind::Predictions, &named));
            // The empty name is none.
            let is_of = |event: &Event| !release.is_empty() && event.release == Some(release);
            prop_assert_eq!(counts.m, naive(Kind::Metrics, &is_of));
            prop_assert_eq!(counts.r, naive(Kind::Releases, &named));
            let of_release = || events.iter().filter(|event| event.kind == Kind::Predictions && named(event));
            let scores: Vec<f64> = of_release().filter_map(|event| event.score).collect();
            let Some(part) = release_part(&day, release).details.get(release) else {
                prop_assert!(counts.p + counts.r == 0);
                continue;
            };
            prop_assert_eq!(part.score.as_ref().map_or(0, |score| score.numbers.n), scores.len() as u64);
            if let Some(score) = &part.score {
                prop_assert_eq!(score.sketch.n(), scores.len() as u64);
                prop_assert_eq!(score.numbers.min, scores.iter().copied().fold(f64::INFINITY, f64::min));
                prop_assert_eq!(score.numbers.max, scores.iter().copied().fold(f64::NEG_INFINITY, f64::max));
                let mean = scores.iter().sum::<f64>() / scores.len() as f64;
                if let (Some(found), Some(variance), false) = (score.numbers.mean(), score.numbers.variance(), scores.contains(&1e300)) {
                    let naive = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / scores.len() as f64;
                    prop_assert!((found - mean).abs() < 1e-9 && (variance - naive).abs() <= 1e-9 * naive + 1e-12);
                }
            }
            let inside = scores.iter().filter(|score| (0.0..=1.0).contains(*score)).count() as u64;
            prop_assert_eq!(part.score_bins.n(), inside);
            for (label, n) in part.labels.names() {
                prop_assert_eq!(*n, of_release().filter(|event| event.label == Some(label)).count() as u64);
            }
        }
        let names = &day.rollup.metrics.names;
        for name in names.names().keys() {
            let metric = metric(&day, name);
            prop_assert_eq!(metric.sketch.n(), names.names()[name]);
            for (release, series) in metric.releases.names() {
                let series = series.0.as_ref().unwrap();
                let observed = || events.iter().filter(|event| {
                    event.kind == Kind::Metrics && event.name == name && event.release.unwrap_or("") == release
                });
                prop_assert_eq!(series.numbers.n, observed().count() as u64);
                let last = observed().max_by(|a, b| a.at.cmp(&b.at).then(a.value.total_cmp(&b.value))).unwrap();
                prop_assert_eq!((series.last_at, series.last.to_bits()), (last.at, last.value.to_bits()));
            }
        }
        if events.iter().any(|event| event.kind.has_tags() && event.label.is_some()) {
            let tag = tag(&day, "label");
            for (value, counts) in tag.counts.names() {
                let labelled = |event: &Event| event.label == Some(value);
                prop_assert_eq!(counts.predictions, naive(Kind::Predictions, &labelled));
                prop_assert_eq!(counts.metrics, naive(Kind::Metrics, &labelled));
                let n = tag.heads.get(value).map_or(0, |head| head.n);
                prop_assert_eq!(n, counts.predictions);
            }
        }
    }
}
