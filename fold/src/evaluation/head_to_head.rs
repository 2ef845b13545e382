//! Head to head: the release nearer to the truth, among several that predicted the same.
//!
//! Releases of one task meet at an outcome that labels a prediction of each; if a release predicted it several times,
//! the last prediction in log order counts. A release wins against each that is farther from the truth; two that are
//! equally near tie.

use std::{iter::once, ops::AddAssign};

use serde::{Deserialize, Serialize};

use crate::{Joined, LogSegment};

/// Wins, losses and ties of a release against others that predicted the same. One of the three rises by one for each
/// release that it met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Meetings in which it was nearer to the truth.
    pub wins: u64,
    /// Meetings in which it was farther.
    pub losses: u64,
    /// Meetings in which both were equally near.
    pub ties: u64,
}

impl Record {
    /// Returns whether it met no other release.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Record {
    fn add_assign(&mut self, other: Self) {
        self.wins += other.wins;
        self.losses += other.losses;
        self.ties += other.ties;
    }
}

/// A prediction among those that one outcome labels.
pub(super) struct Contender {
    /// Number of its bucket, to which the record belongs.
    pub(super) bucket: u32,
    /// Numbers of the cell of its bucket and of its task; only equal ones meet.
    pub(super) meets: (u32, u32),
    /// Distance from the truth.
    pub(super) distance: f64,
}

/// Marker of an outcome without a pair.
const NONE: u32 = u32::MAX;

/// Returns the record of each of `buckets` buckets. `judged` returns the contender of the pair of a number: its
/// bucket and the distance of its prediction from its outcome; `None` if it has none.
pub(super) fn records(
    joined: &Joined,
    outcomes: &[LogSegment<'_>],
    buckets: usize,
    judged: impl Fn(usize) -> Option<Contender>,
) -> Vec<Record> {
    let mut records = vec![Record::default(); buckets];
    if records.len() < 2 {
        return records;
    }
    let mut contenders = Vec::new();
    each_shared(joined, outcomes, |pairs| {
        contenders.clear();
        contenders.extend(pairs.filter_map(&judged));
        compare(&mut contenders, &mut records);
    });
    records
}

/// Passes on the numbers of the pairs that one outcome labels, in log order, for each outcome that labels several.
pub(super) fn each_shared(
    joined: &Joined,
    outcomes: &[LogSegment<'_>],
    mut met: impl FnMut(&mut dyn Iterator<Item = usize>),
) {
    let mut rows = 0;
    let mut starts = Vec::with_capacity(outcomes.len());
    for segment in outcomes {
        starts.push(rows);
        rows += segment.columns.rows;
    }
    // Most outcomes label one prediction, so only the first one is recorded for each.
    let mut first = vec![NONE; rows];
    let mut later = Vec::<(usize, u32)>::new();
    for (pair, number) in joined.pairs.iter().zip(0..) {
        let Some(at) = pair.outcome else { continue };
        let outcome = starts[at.segment as usize] + at.row as usize;
        match first[outcome] {
            NONE => first[outcome] = number,
            _ => later.push((outcome, number)),
        }
    }
    later.sort_unstable();
    for later in later.chunk_by(|a, b| a.0 == b.0) {
        let pairs = once(first[later[0].0]).chain(later.iter().map(|(_, number)| *number));
        met(&mut pairs.map(|number| number as usize));
    }
}

/// Adds the results of one meeting of `contenders`, which are in log order.
fn compare(contenders: &mut Vec<Contender>, records: &mut [Record]) {
    // The last of each bucket counts: sorting is stable.
    contenders.reverse();
    contenders.sort_by_key(|contender| contender.bucket);
    contenders.dedup_by_key(|contender| contender.bucket);
    contenders.sort_unstable_by(|a, b| a.meets.cmp(&b.meets).then(a.distance.total_cmp(&b.distance)));
    for contenders in contenders.chunk_by(|a, b| a.meets == b.meets) {
        let mut nearer = 0;
        for equal in contenders.chunk_by(|a, b| a.distance.total_cmp(&b.distance).is_eq()) {
            let farther = contenders.len() - nearer - equal.len();
            for contender in equal {
                let record = &mut records[contender.bucket as usize];
                record.wins += farther as u64;
                record.losses += nearer as u64;
                record.ties += equal.len() as u64 - 1;
            }
            nearer += equal.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use event::{Definition, Task, lane};
    use proptest::{array::uniform3, collection::vec, option, prelude::*, sample::select};

    use super::*;
    use crate::{
        evaluate,
        testing::{self, Outcome, Prediction},
    };

    const RELEASES: [&str; 3] = ["v1", "v2", "v3"];
    const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

    fn scored(release: &'static str, key: &'static str, score: f64) -> Prediction {
        Prediction { release, key, score: Some(score), ..Prediction::default() }
    }

    fn observed(key: &'static str, label: &'static str) -> Outcome {
        Outcome { key, label: Some(label), ..Outcome::default() }
    }

    /// Returns the record of each release.
    fn records(predictions: &[Prediction], outcomes: &[Outcome]) -> BTreeMap<String, Record> {
        let tasks = RELEASES.map(|name| (name.to_owned(), Task::Binary { positive_label: "late".into() }));
        let others = [("classes".to_owned(), Task::Multiclass), ("number".to_owned(), Task::Regression)];
        let tasks = tasks.into_iter().chain(others);
        let tasks = tasks.map(|(name, task)| (name, Definition::of(task))).collect();
        let (predictions, outcomes) =
            (testing::predictions(predictions, true), testing::outcomes(outcomes, false));
        let segment = |columns| [LogSegment { place: lane::LogPosition::of(0, 1), columns }];
        let evaluation = evaluate(&segment(&predictions), &segment(&outcomes), &tasks).unwrap();
        evaluation.releases.into_iter().map(|(name, release)| (name, release.record)).collect()
    }

    fn record(wins: u64, losses: u64, ties: u64) -> Record {
        Record { wins, losses, ties }
    }

    #[test]
    fn releases_meet_where_they_predicted_the_same() {
        let predictions = [
            scored("v1", "a", 0.9),
            scored("v2", "a", 0.6),
            // The last prediction of a release counts.
            Prediction { at: 1, ..scored("v2", "a", 0.95) },
            scored("v1", "b", 0.9),
            scored("v2", "b", 0.2),
            scored("v1", "c", 0.5),
            scored("v2", "c", 0.5),
            // Without a score the label counts.
            Prediction { score: None, label: Some("late"), ..scored("v3", "c", 0.0) },
            // No other release predicted `d`, and `e` has no outcome.
            scored("v1", "d", 0.1),
            scored("v1", "e", 0.1),
            scored("v2", "e", 0.2),
            // Another task.
            Prediction { release: "classes", key: "a", label: Some("late"), ..Prediction::default() },
            Prediction { release: "number", key: "a", value: Some(1.0), ..Prediction::default() },
            scored("unknown", "a", 0.9),
        ];
        let outcomes =
            [observed("a", "late"), observed("b", "on time"), observed("c", "late"), observed("d", "late")];
        let found = records(&predictions, &outcomes);
        assert_eq!(found["v1"], record(0, 3, 1));
        assert_eq!(found["v2"], record(2, 1, 1));
        assert_eq!(found["v3"], record(2, 0, 0));
        for name in ["classes", "number", "unknown"] {
            assert!(found[name].is_empty(), "{name}: {:?}", found[name]);
        }
    }

    proptest! {
        /// Compares with each pair of releases separately.
        #[test]
        fn as_each_against_each(
            scores in uniform3(vec(option::of(select(vec![0.0, 0.25, 0.5, 0.75, 1.0])), 5)),
            labels in vec(option::of(select(vec!["late", "on time"])), 5),
        ) {
            let mut predictions = Vec::new();
            let mut expected = BTreeMap::<String, Record>::new();
            for (name, scores) in RELEASES.iter().zip(&scores) {
                for (key, score) in KEYS.iter().zip(scores).filter_map(|(key, score)| Some((key, (*score)?))) {
                    predictions.push(scored(name, key, score));
                    expected.entry((*name).to_owned()).or_default();
                }
            }
            let outcomes: Vec<Outcome> =
                KEYS.iter().zip(&labels).filter_map(|(key, label)| Some(observed(key, (*label)?))).collect();
            for (own, name) in scores.iter().zip(RELEASES) {
                for (other, _) in scores.iter().zip(RELEASES).filter(|(_, other)| *other != name) {
                    for ((own, other), label) in own.iter().zip(other).zip(&labels) {
                        let (Some(own), Some(other), Some(label)) = (own, other, label) else { continue };
                        let real = if *label == "late" { 1.0 } else { 0.0 };
                        let (own, other) = ((own - real).abs(), (other - real).abs());
                        let record = expected.get_mut(name).unwrap();
                        record.wins += u64::from(own < other);
                        record.losses += u64::from(own > other);
                        record.ties += u64::from(own == other);
                    }
                }
            }
            prop_assert_eq!(records(&predictions, &outcomes), expected);
        }
    }
}
