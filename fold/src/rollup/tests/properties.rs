//! Properties of folds of any events.

use event::lane::LogPosition;
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::testing::{self, floats, texts, times};

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

fn at_instants_of_their_own(mut events: Vec<Event>) -> Vec<Event> {
    (0..).zip(&mut events).for_each(|(at, event)| event.at = at * 7 % 61);
    events
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
        Kind::Outcomes | Kind::Unmatched => vec![texts("label", &of(|event| event.label), coded), value],
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

/// Folds the events of each kind in segments that end at `cuts`, one after the other.
fn fold_all(events: &[Event], cuts: &[usize], coded: bool) -> Delta {
    let mut day = Delta::default();
    segments(events, cuts, coded).iter().for_each(|segment| day.merge(segment));
    day
}

/// Folds each segment, of the events of one kind up to the next of `cuts`.
fn segments(events: &[Event], cuts: &[usize], coded: bool) -> Vec<Delta> {
    let mut folded = Vec::new();
    let mut start = 0;
    for (seq, end) in (1..).zip(cuts.iter().map(|&cut| cut.min(events.len())).chain([events.len()])) {
        let segment = &events[start.min(end)..end];
        for kind in Kind::ALL {
            let of_kind: Vec<&Event> = segment.iter().filter(|event| event.kind == kind).collect();
            folded.push(folded_at(LogPosition::of(0, seq), kind, &pack(kind, &of_kind, coded)));
        }
        start = end.max(start);
    }
    folded
}

/// Returns the texts of a day without the places of last events, which depend on the segments.
fn texts_without_places(day: &Delta) -> Vec<String> {
    let without = |text: String| {
        let mut parts = text.split(",\"last_in\":\"");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| all + part.split_once('"').unwrap().1)
    };
    texts_of(day).into_iter().map(without).collect()
}

/// Merges deltas in the order and grouping that `picks` choose: each pick takes two and puts back their sum.
fn merged(mut deltas: Vec<Delta>, picks: &[(usize, usize)]) -> Delta {
    for (first, second) in
        picks.iter().cycle().take(deltas.len().saturating_sub(1)).copied().collect::<Vec<_>>()
    {
        let mut sum = deltas.swap_remove(first % deltas.len());
        sum.merge(&deltas.swap_remove(second % deltas.len()));
        deltas.push(sum);
    }
    deltas.pop().unwrap_or_default()
}

proptest! {
    /// Any segments of a log, in any order and grouping, give the same bytes.
    #[test]
    fn any_grouping_of_segments_gives_the_same_bytes(
        events in vec(event(), 0..60),
        cuts in vec(0usize..60, 0..8),
        picks in vec((0usize..64, 0usize..64), 1..64),
        coded in any::<bool>(),
    ) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        let whole = fold_all(&events, &cuts, coded);
        let grouped = merged(segments(&events, &cuts, !coded), &picks);
        prop_assert_eq!(texts_of(&grouped), texts_of(&whole));
        prop_assert_eq!(grouped, whole);
    }

    /// Equal events in other segments differ only in the places of last events. Each is measured at an instant of its
    /// own, because otherwise the log decides which of two is the later one.
    #[test]
    fn any_grouping_and_order_gives_the_same_bytes(
        events in vec(event(), 0..60).prop_map(at_instants_of_their_own)
            .prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle())),
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
        prop_assert_eq!(texts_without_places(&one_way), texts_without_places(&whole));
        prop_assert_eq!(texts_of(&other_way), texts_of(&one_way));
        prop_assert_eq!(other_way, one_way);
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
            // The empty name means no release.
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
                if !scores.contains(&1e300) {
                    let (found, variance) = (score.numbers.mean(), score.numbers.variance());
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
                let series = series.as_ref().unwrap();
                let observed = || events.iter().filter(|event| {
                    event.kind == Kind::Metrics && event.name == name && event.release.unwrap_or("") == release
                });
                prop_assert_eq!(series.numbers.n, observed().count() as u64);
                // The last one in the log counts.
                let last = observed().max_by_key(|event| event.at).unwrap();
                prop_assert_eq!((series.last_at, series.last.to_bits()), (last.at, last.value.to_bits()));
            }
        }
        if events.iter().any(|event| !event.kind.families().is_empty() && event.label.is_some()) {
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
