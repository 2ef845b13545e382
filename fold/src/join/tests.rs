use std::collections::BTreeSet;

use event::{Columns, lane::LogPosition};
use proptest::{bool::weighted, collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::{
    FoldError,
    testing::{self, Outcome, Prediction, texts},
};

fn prediction(release: &'static str, key: &'static str, at: i64) -> Prediction {
    Prediction { release, key, at, ..Prediction::default() }
}

fn outcome(key: &'static str, at: Option<i64>, observed: i64) -> Outcome {
    Outcome { key, at, observed, ..Outcome::default() }
}

/// Marks a test event as retracted.
trait Retracted {
    fn retracted(self) -> Self;
}

impl Retracted for Prediction {
    fn retracted(self) -> Self {
        Self { retracted: true, ..self }
    }
}

impl Retracted for Outcome {
    fn retracted(self) -> Self {
        Self { retracted: true, ..self }
    }
}

fn at(segment: u32, row: u32) -> RowRef {
    RowRef { segment, row }
}

/// Returns the outcome of each distinct prediction, by the prediction's place.
fn outcomes_of(joined: &Joined) -> Vec<(RowRef, Option<RowRef>)> {
    joined.pairs.iter().map(|pair| (pair.prediction, pair.outcome)).collect()
}

fn one<'a>(columns: &'a Columns) -> Vec<LogSegment<'a>> {
    vec![LogSegment { place: LogPosition::of(0, 1), columns }]
}

#[test]
fn the_last_of_equal_predictions_counts() {
    let first = testing::predictions(
        &[prediction("r", "k", 1), prediction("s", "k", 1), prediction("r", "k", 2)],
        true,
    );
    let second = testing::predictions(&[prediction("r", "k", 1), prediction("r", "k", 1)], false);
    // The segments are given against the log order, which the result follows all the same.
    let segments = [
        LogSegment { place: LogPosition::of(1, 1), columns: &second },
        LogSegment { place: LogPosition::of(0, 7), columns: &first },
    ];
    let joined = join(&segments, &[]).unwrap();
    assert_eq!(joined.releases, ["r", "s"]);
    assert_eq!(outcomes_of(&joined), [(at(1, 1), None), (at(1, 2), None), (at(0, 1), None)]);
    assert_eq!(joined.pairs.iter().map(|pair| pair.release).collect::<Vec<_>>(), [1, 0, 0]);
}

#[test]
fn an_outcome_labels_an_instant_or_the_day() {
    let predictions = testing::predictions(
        &[prediction("r", "a", 1), prediction("s", "a", 1), prediction("r", "a", 2), prediction("r", "b", 1)],
        true,
    );
    let exact = testing::outcomes(&[outcome("a", Some(1), 9)], true);
    let joined = join(&one(&predictions), &one(&exact)).unwrap();
    let found: Vec<bool> = joined.pairs.iter().map(|pair| pair.outcome.is_some()).collect();
    assert_eq!(found, [true, true, false, false], "of every release, at that instant only");
    let whole_day = testing::outcomes(&[outcome("a", None, 9)], true);
    let joined = join(&one(&predictions), &one(&whole_day)).unwrap();
    let found: Vec<bool> = joined.pairs.iter().map(|pair| pair.outcome.is_some()).collect();
    assert_eq!(found, [true, true, true, false]);
}

#[test]
fn a_later_observation_corrects_an_earlier_one() {
    let predictions = testing::predictions(&[prediction("r", "a", 1), prediction("r", "a", 2)], true);
    let rows =
        [outcome("a", Some(1), 5), outcome("a", None, 6), outcome("a", Some(2), 6), outcome("a", None, 4)];
    let outcomes = testing::outcomes(&rows, false);
    let joined = join(&one(&predictions), &one(&outcomes)).unwrap();
    let expected = [
        (at(0, 0), Some(at(0, 1))), // the later observation, although it names no instant
        (at(0, 1), Some(at(0, 2))), // observed at the same time, later in the log
    ];
    assert_eq!(outcomes_of(&joined), expected);
}

#[test]
fn the_lane_and_the_sequence_decide_ties() {
    let predictions = testing::predictions(&[prediction("r", "a", 1)], true);
    let columns = testing::outcomes(&[outcome("a", None, 5)], true);
    let place = |lane, seq| LogSegment { place: LogPosition::of(lane, seq), columns: &columns };
    let winner =
        |segments: &[LogSegment<'_>]| join(&one(&predictions), segments).unwrap().pairs[0].outcome.unwrap();
    assert_eq!(winner(&[place(0, 2), place(0, 10)]), at(1, 0));
    assert_eq!(winner(&[place(1, 1), place(0, 99)]), at(0, 0));
}

#[test]
fn retracted_predictions_count_as_never_sent() {
    let sent = [prediction("r", "a", 1), prediction("s", "a", 1), prediction("r", "b", 1)];
    let taken_back = |rows: &[Prediction]| testing::predictions(&[&sent[..], rows].concat(), true);
    let outcomes = testing::outcomes(&[outcome("a", None, 5), outcome("b", None, 5)], true);
    // A retraction affects one release, with all repeats; a release without other predictions disappears.
    let columns = taken_back(&[prediction("s", "a", 1), prediction("s", "a", 1).retracted()]);
    let joined = join(&one(&columns), &one(&outcomes)).unwrap();
    assert_eq!((&joined.releases[..], &joined.repeated[..]), (&["r".to_owned()][..], &[0][..]));
    assert_eq!(outcomes_of(&joined), [(at(0, 0), Some(at(0, 0))), (at(0, 2), Some(at(0, 1)))]);
    // An outcome that fits only a retracted prediction is orphaned.
    let columns = taken_back(&[prediction("r", "b", 1).retracted()]);
    let joined = join(&one(&columns), &one(&outcomes)).unwrap();
    assert_eq!((joined.pairs.len(), joined.outcomes, joined.orphaned), (2, 2, 1));
    // Another instant is another prediction, and an event sent again counts again.
    let columns = taken_back(&[prediction("r", "b", 2).retracted()]);
    assert_eq!(join(&one(&columns), &[]).unwrap().pairs.len(), 3);
    let columns = taken_back(&[prediction("r", "b", 1).retracted(), prediction("r", "b", 1)]);
    let joined = join(&one(&columns), &one(&outcomes)).unwrap();
    assert_eq!(outcomes_of(&joined)[2], (at(0, 4), Some(at(0, 1))));
    assert_eq!(joined.repeated, [0, 0], "it is the first one that counts");
}

#[test]
fn retracted_correction_restores_the_earlier_outcome() {
    let predictions = testing::predictions(&[prediction("r", "a", 1)], true);
    let [first, second, exact] = [outcome("a", None, 5), outcome("a", None, 6), outcome("a", Some(1), 7)];
    let judged = |rows: &[Outcome]| {
        let outcomes = testing::outcomes(rows, false);
        let joined = join(&one(&predictions), &one(&outcomes)).unwrap();
        (joined.pairs[0].outcome.map(|at| at.row), joined.outcomes, joined.orphaned)
    };
    let sent = [first, second.clone(), exact.clone()];
    let with = |rows: &[Outcome]| judged(&[&sent[..], rows].concat());
    assert_eq!(with(&[]), (Some(2), 3, 0));
    assert_eq!(with(&[exact.clone().retracted()]), (Some(1), 2, 0));
    assert_eq!(with(&[exact.clone().retracted(), second.clone().retracted()]), (Some(0), 1, 0));
    let all = sent.clone().map(Retracted::retracted);
    assert_eq!(with(&all), (None, 0, 0));
    // An outcome that names the prediction in another way, or was observed at another time, is another outcome.
    assert_eq!(
        with(&[outcome("a", None, 7).retracted(), outcome("a", Some(1), 6).retracted()]),
        (Some(2), 3, 0)
    );
    assert_eq!(with(&[exact.clone().retracted(), exact]), (Some(4), 3, 0), "sent again");
    assert_eq!(judged(&[outcome("b", None, 1).retracted()]), (None, 0, 0), "of what was never sent");
}

#[test]
fn nothing_joins_nothing() {
    let empty = Columns::default();
    assert_eq!(join(&[], &[]).unwrap(), Joined::default());
    assert_eq!(join(&one(&empty), &one(&empty)).unwrap(), Joined::default());
    let outcomes = testing::outcomes(&[outcome("a", None, 5)], true);
    let alone = Joined { outcomes: 1, orphaned: 1, ..Joined::default() };
    assert_eq!(join(&[], &one(&outcomes)).unwrap(), alone);
}

#[test]
fn missing_columns_are_refused() {
    let columns =
        testing::columns(vec![texts("key", &[Some("a")], true), texts("release", &[Some("r")], true)]);
    assert_eq!(join(&one(&columns), &[]), Err(FoldError::Missing { column: "predicted_at".into() }));
    assert_eq!(join(&[], &one(&columns)), Err(FoldError::Missing { column: "observed_at".into() }));
}

#[test]
fn many_keys_are_joined_across_many_parts() {
    let names: Vec<String> = (0..60_000).map(|n| format!("{n}")).collect();
    let column = |order: &[usize]| {
        let rows: Vec<Option<&str>> = order.iter().map(|&n| Some(names[n].as_str())).collect();
        texts("key", &rows, false)
    };
    let time = |name: &str, n: usize| testing::times(name, &vec![Some(1); n]);
    // Every key is predicted, twice for the first ten; the odd ones have an outcome, backwards.
    let order: Vec<usize> = (0..60_000).chain(0..10).collect();
    let release = texts("release", &vec![Some("r"); order.len()], true);
    let predictions = testing::columns(vec![column(&order), time("predicted_at", order.len()), release]);
    let order: Vec<usize> = (0..60_000).rev().filter(|n| n % 2 == 1).collect();
    let outcomes = testing::columns(vec![column(&order), time("observed_at", order.len())]);
    let joined = join(&one(&predictions), &one(&outcomes)).unwrap();
    let expected = (10..60_010).map(|row: u32| {
        let key = row % 60_000;
        (at(0, row), (key % 2 == 1).then(|| at(0, (59_999 - key) / 2)))
    });
    assert_eq!(outcomes_of(&joined), expected.collect::<Vec<_>>());
    // One bucket, and several rounds of buckets.
    for buckets in [1, 700] {
        assert_eq!(join_in_buckets(&one(&predictions), &one(&outcomes), |_| buckets).unwrap(), joined);
    }
}

/// Place of a row in its log, and its reference in the slice.
type At = ((u8, u64, u32), RowRef);

/// Returns the events that are not retracted: neither retracting nor followed by a retraction of their identity.
fn lasting<T: Clone, I: PartialEq>(
    events: &[(At, T)],
    identity: impl Fn(&T) -> I,
    is_retracted: impl Fn(&T) -> bool,
) -> Vec<(At, T)> {
    let is_taken_back = |(place, event): &&(At, T)| {
        events.iter().any(|(other, taking)| {
            is_retracted(taking) && identity(taking) == identity(event) && other.0 >= place.0
        })
    };
    events.iter().filter(|event| !is_taken_back(event)).cloned().collect()
}

/// Returns the predictions that are not retracted.
fn lasting_predictions(events: &[(At, Prediction)]) -> Vec<(At, Prediction)> {
    lasting(events, |row| (row.release, row.key, row.at), |row| row.retracted)
}

/// Returns the outcomes that are not retracted.
fn lasting_outcomes(events: &[(At, Outcome)]) -> Vec<(At, Outcome)> {
    lasting(events, |row| (row.key, row.at, row.observed), |row| row.retracted)
}

/// Compares every prediction with every other and with every outcome.
fn naive(
    predictions: &[(At, Prediction)],
    outcomes: &[(At, Outcome)],
) -> Vec<(RowRef, &'static str, Option<RowRef>)> {
    let same = |a: &Prediction, b: &Prediction| (a.release, a.key, a.at) == (b.release, b.key, b.at);
    let mut distinct: Vec<&(At, Prediction)> = predictions
        .iter()
        .filter(|(place, row)| {
            !predictions.iter().any(|(other, later)| same(row, later) && other.0 > place.0)
        })
        .collect();
    distinct.sort_by_key(|(place, _)| place.0);
    let judge = |row: &Prediction| {
        let fits = |outcome: &Outcome| outcome.key == row.key && outcome.at.is_none_or(|at| at == row.at);
        let fitting = outcomes.iter().filter(|(_, outcome)| fits(outcome));
        fitting.max_by_key(|(place, outcome)| (outcome.observed, place.0)).map(|(place, _)| place.1)
    };
    distinct.into_iter().map(|(place, row)| (place.1, row.release, judge(row))).collect()
}

fn places<T: Clone>(segments: &[(u8, Vec<T>)]) -> Vec<(At, T)> {
    let rows = segments.iter().enumerate().flat_map(|(segment, (lane, rows))| {
        rows.iter().enumerate().map(move |(row, value)| {
            let place = ((*lane, 100 - segment as u64, row as u32), at(segment as u32, row as u32));
            (place, value.clone())
        })
    });
    rows.collect()
}

proptest! {
    #[test]
    fn agrees_with_comparing_everything(
        predictions in vec((0u8..6, vec((select(vec!["r", "s"]), select(vec!["a", "b", "c"]), 0i64..4, weighted(0.25)), 0..8)), 0..5),
        outcomes in vec((0u8..6, vec((select(vec!["a", "b", "d"]), option::of(0i64..4), 0i64..3, weighted(0.25)), 0..8)), 0..5),
        coded in any::<bool>(),
    ) {
        let predictions: Vec<(u8, Vec<Prediction>)> = predictions
            .into_iter()
            .map(|(lane, rows)| {
                let row = |(release, key, at, retracted)| Prediction { retracted, ..prediction(release, key, at) };
                (lane, rows.into_iter().map(row).collect())
            })
            .collect();
        let outcomes: Vec<(u8, Vec<Outcome>)> = outcomes
            .into_iter()
            .map(|(lane, rows)| {
                let row = |(key, at, seen, retracted)| Outcome { retracted, ..outcome(key, at, seen) };
                (lane, rows.into_iter().map(row).collect())
            })
            .collect();
        let left: Vec<Columns> = predictions.iter().map(|(_, rows)| testing::predictions(rows, coded)).collect();
        let right: Vec<Columns> = outcomes.iter().map(|(_, rows)| testing::outcomes(rows, !coded)).collect();
        let left_log: Vec<LogSegment<'_>> = left.iter().zip(&predictions).enumerate()
            .map(|(at, (columns, (lane, _)))| LogSegment { place: LogPosition::of(*lane, 100 - at as u64), columns }).collect();
        let right_log: Vec<LogSegment<'_>> = right.iter().zip(&outcomes).enumerate()
            .map(|(at, (columns, (lane, _)))| LogSegment { place: LogPosition::of(*lane, 100 - at as u64), columns }).collect();
        let joined = join(&left_log, &right_log).unwrap();
        let found: Vec<_> = joined.pairs.iter()
            .map(|pair| (pair.prediction, joined.releases[pair.release as usize].as_str(), pair.outcome))
            .collect();
        let sent = lasting_predictions(&places(&predictions));
        let observed = lasting_outcomes(&places(&outcomes));
        prop_assert_eq!(&found, &naive(&sent, &observed));
        let sent = sent.iter().map(|(_, row)| row);
        let fits = |row: &Outcome| sent.clone().any(|sent| row.key == sent.key && row.at.is_none_or(|at| at == sent.at));
        let orphaned = observed.iter().filter(|(_, row)| !fits(row)).count();
        prop_assert_eq!((joined.outcomes, joined.orphaned), (observed.len() as u64, orphaned as u64));
        let names: BTreeSet<&str> = sent.clone().map(|row| row.release).collect();
        prop_assert!(joined.releases.iter().map(String::as_str).eq(names));
        for (number, (release, repeated)) in (0..).zip(joined.releases.iter().zip(&joined.repeated)) {
            let of = sent.clone().filter(|row| row.release == release).count();
            let distinct = joined.pairs.iter().filter(|pair| pair.release == number).count();
            prop_assert_eq!(*repeated, (of - distinct) as u64);
            let repeats = joined.repeats.iter().filter(|(_, of)| *of == number).count();
            prop_assert_eq!(*repeated, repeats as u64);
        }
    }
}
