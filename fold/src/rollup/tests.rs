use proptest::{collection::vec, option, prelude::*, sample::select};
use store::{Column, Values};

use super::*;
use crate::{
    FoldError,
    testing::{self, Outcome, Prediction, floats, texts, times},
};

fn folded(kind: Kind, columns: &Columns) -> Rollup {
    let mut rollup = Rollup::default();
    rollup.fold(kind, columns).unwrap();
    rollup
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
        let rollup = folded(Kind::Predictions, &testing::predictions(&rows, coded));
        assert_eq!(rollup.events(Kind::Predictions), 5);
        assert_eq!(
            rollup.events_by_release(Kind::Predictions),
            BTreeMap::from([("a".into(), 1), ("b".into(), 4)])
        );
        let b = rollup.predictions.releases.get("b").unwrap();
        let score = b.score.as_ref().unwrap();
        assert_eq!((score.n, score.sum.value(), score.min, score.max), (3, 2.75, 0.25, 1.5));
        assert_eq!((b.score_bins[5], b.score_bins[19], b.score_bins.iter().sum::<u64>()), (1, 1, 2));
        assert_eq!((b.null_scores(), b.null_labels(), b.null_values()), (1, 1, 4));
        assert_eq!(b.labels.counts.names().unwrap(), &BTreeMap::from([("no".into(), 1), ("yes".into(), 2)]));
        assert_eq!(rollup.predictions.releases.get("unused"), None);
    }
}

#[test]
fn the_state_is_golden() {
    let mut rollup = Rollup::default();
    let prediction = Prediction { release: "delay-2", key: "k", score: Some(0.1), ..Prediction::default() };
    rollup.fold(Kind::Predictions, &testing::predictions(&[prediction.clone(), prediction], true)).unwrap();
    let outcome = Outcome { key: "k", label: Some("late"), value: Some(-0.0), ..Outcome::default() };
    rollup.fold(Kind::Outcomes, &testing::outcomes(&[outcome], false)).unwrap();
    let metrics = testing::columns(vec![
        texts("name", &[Some("latency"); 3], true),
        times("measured_at", &[Some(5), Some(7), Some(7)]),
        floats("value", &[Some(3.0), Some(1.5), Some(2.0)]),
        texts("release", &[None, Some("delay-2"), Some("delay-2")], true),
    ]);
    rollup.fold(Kind::Metrics, &metrics).unwrap();
    let changes = testing::columns(vec![
        texts("release", &[Some("delay-2"), Some("delay-2")], false),
        texts("action", &[Some("deploy"), Some("retire")], false),
    ]);
    rollup.fold(Kind::Releases, &changes).unwrap();
    assert_eq!(rollup.events_by_release(Kind::Metrics), BTreeMap::from([("delay-2".into(), 2)]));
    assert_eq!(rollup.events_by_release(Kind::Releases), BTreeMap::from([("delay-2".into(), 2)]));
    assert!(rollup.events_by_release(Kind::Outcomes).is_empty());
    insta::assert_snapshot!(rollup.to_state(), @r#"{"v":1,"predictions":{"n":2,"releases":{"delay-2":{"n":2,"score":{"n":2,"sum":"ccccccccccccdp-54","min":0.1,"max":0.1},"score_bins":[0,0,2,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"labels":{"n":0,"counts":{}},"value":null}}},"outcomes":{"n":1,"labels":{"n":1,"counts":{"late":1}},"value":{"n":1,"sum":"0","min":-0.0,"max":-0.0}},"metrics":{"n":3,"names":{"latency":{"":{"numbers":{"n":1,"sum":"3p0","min":3.0,"max":3.0},"last_at":5,"last":3.0},"delay-2":{"numbers":{"n":2,"sum":"7p-1","min":1.5,"max":2.0},"last_at":7,"last":2.0}}}},"releases":{"n":2,"releases":{"delay-2":{"n":2,"counts":{"deploy":1,"retire":1}}}}}"#);
    assert_eq!(Rollup::from_state(&rollup.to_state()).unwrap(), rollup);
}

#[test]
fn other_states_are_refused() {
    let newer = Rollup::default().to_state().replace("\"v\":1", "\"v\":2");
    assert!(Rollup::from_state(&newer).unwrap_err().to_string().contains("newer"));
    for text in ["", "{}", "{\"v\":1}", "[]"] {
        assert!(matches!(Rollup::from_state(text), Err(FoldError::State { .. })), "{text}");
    }
}

#[test]
fn bad_columns_are_refused_and_leave_no_trace() {
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
    let cases = [
        (with(0, floats("other", &[None, None])), FoldError::Missing { column: "release" }),
        (with(0, texts("release", &[Some("r"), None], true)), FoldError::Null { column: "release", row: 1 }),
        (with(0, floats("release", &[None, None])), FoldError::Type { column: "release" }),
        (with(0, beyond), FoldError::Shape { column: "release" }),
        (with(1, short), FoldError::Shape { column: "score" }),
        (with(1, floats("score", &[None, Some(f64::NAN)])), FoldError::NotFinite { column: "score", row: 1 }),
    ];
    let before = folded(Kind::Predictions, &good);
    for (columns, error) in cases {
        let mut rollup = before.clone();
        assert_eq!(rollup.fold(Kind::Predictions, &columns), Err(error.clone()));
        assert_eq!(rollup, before);
        assert_eq!(store::Error::from(error).kind(), store::ErrorKind::Corrupt);
    }
    let mut under_null = floats("score", &[Some(0.5), None]);
    under_null.values = Values::Float(vec![0.5, f64::NAN]);
    assert_eq!(
        folded(Kind::Predictions, &with(1, under_null)),
        before,
        "what stands under a null does not count"
    );
}

#[test]
fn too_many_names_are_too_many_in_any_order() {
    let names: Vec<String> = (0..=MAX_LABELS).map(|n| format!("label {n}")).collect();
    let part = |names: &[String]| {
        let names: Vec<Option<&str>> = names.iter().map(|name| Some(name.as_str())).collect();
        folded(Kind::Outcomes, &testing::columns(vec![texts("label", &names, true)]))
    };
    let (left, right) = (part(&names[..60]), part(&names[50..]));
    let mut one_way = left.clone();
    one_way.merge(&right);
    let mut other_way = right.clone();
    other_way.merge(&left);
    assert_eq!(one_way.to_state(), other_way.to_state());
    assert!(one_way.outcomes.labels.counts.is_too_many());
    assert_eq!(one_way.outcomes.labels.n, 111);
    one_way.merge(&left);
    assert!(one_way.outcomes.labels.counts.is_too_many(), "for good");
    assert_eq!(Rollup::from_state(&one_way.to_state()).unwrap(), one_way);
    assert!(!part(&names[1..]).outcomes.labels.counts.is_too_many());
}

#[test]
fn many_strings_in_one_segment() {
    // More pairs of release and label than are numbered by an array.
    let names: Vec<String> = (0..400).map(|n| format!("{n}")).collect();
    let releases: Vec<Option<&str>> = (0..4000).map(|row| Some(names[row % 400].as_str())).collect();
    let labels: Vec<Option<&str>> = (0..4000).map(|row| Some(names[row / 10].as_str())).collect();
    let columns = testing::columns(vec![texts("release", &releases, false), texts("label", &labels, false)]);
    let rollup = folded(Kind::Predictions, &columns);
    assert_eq!(rollup.predictions.releases.names().unwrap().len(), 400);
    for (release, part) in rollup.predictions.releases.iter() {
        assert_eq!((part.n, part.labels.n), (10, 10));
        assert_eq!(part.labels.counts.names().unwrap().len(), 10, "{release}");
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
    prop_oneof![3 => 0.0..=1.0f64, 1 => select(vec![0.0, -0.0, 1.0, 1e300, -1e300, 5e-324, 0.15]), 1 => -1e3..1e3f64]
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
    let mut columns = match kind {
        Kind::Predictions => vec![
            texts("release", &release, coded),
            floats("score", &events.iter().map(|event| event.score).collect::<Vec<_>>()),
            texts("label", &of(|event| event.label), coded),
            value,
        ],
        Kind::Outcomes => vec![texts("label", &of(|event| event.label), coded), value],
        Kind::Metrics => vec![
            texts("name", &of(|event| Some(event.name)), coded),
            times("measured_at", &events.iter().map(|event| Some(event.at)).collect::<Vec<_>>()),
            value,
            texts("release", &of(|event| event.release), coded),
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
fn fold_all(events: &[Event], cuts: &[usize], coded: bool) -> Rollup {
    let mut rollup = Rollup::default();
    let mut start = 0;
    for end in cuts.iter().map(|&cut| cut.min(events.len())).chain([events.len()]) {
        let segment = &events[start.min(end)..end];
        for kind in Kind::ALL {
            let of_kind: Vec<&Event> = segment.iter().filter(|event| event.kind == kind).collect();
            rollup.fold(kind, &pack(kind, &of_kind, coded)).unwrap();
        }
        start = end.max(start);
    }
    rollup
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
        let mut merged = fold_all(right, &cuts, coded);
        merged.merge(&Rollup::from_state(&fold_all(left, &cuts, !coded).to_state()).unwrap());
        prop_assert_eq!(merged.to_state(), whole.to_state());
        prop_assert_eq!(merged, whole);
    }

    #[test]
    fn agrees_with_naive_counts(events in vec(event(), 0..60), coded in any::<bool>()) {
        let rollup = fold_all(&events, &[20, 30], coded);
        for kind in Kind::ALL {
            prop_assert_eq!(rollup.events(kind), events.iter().filter(|event| event.kind == kind).count() as u64);
        }
        for (release, part) in rollup.predictions.releases.iter() {
            let of_release = || events.iter().filter(|event| {
                event.kind == Kind::Predictions && event.release.unwrap_or("none") == release
            });
            prop_assert_eq!(part.n, of_release().count() as u64);
            let scores: Vec<f64> = of_release().filter_map(|event| event.score).collect();
            prop_assert_eq!(part.null_scores(), part.n - scores.len() as u64);
            if let Some(score) = &part.score {
                prop_assert_eq!(&score.sum, &scores.iter().copied().collect());
                prop_assert_eq!(score.min, scores.iter().copied().fold(f64::INFINITY, f64::min));
                prop_assert_eq!(score.max, scores.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            }
            let inside = scores.iter().filter(|score| (0.0..=1.0).contains(*score)).count() as u64;
            prop_assert_eq!(part.score_bins.iter().sum::<u64>(), inside);
            for (label, n) in part.labels.counts.iter() {
                prop_assert_eq!(*n, of_release().filter(|event| event.label == Some(label)).count() as u64);
            }
        }
        for (name, releases) in rollup.metrics.names.iter() {
            for (release, series) in releases.iter() {
                let observed = || events.iter().filter(|event| {
                    event.kind == Kind::Metrics && event.name == name && event.release.unwrap_or("") == release
                });
                prop_assert_eq!(series.numbers.n, observed().count() as u64);
                let last = observed().max_by(|a, b| a.at.cmp(&b.at).then(a.value.total_cmp(&b.value))).unwrap();
                prop_assert_eq!((series.last_at, series.last.to_bits()), (last.at, last.value.to_bits()));
            }
        }
    }
}
