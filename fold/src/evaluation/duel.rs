//! Predictions of two releases with common outcomes, kept while days are evaluated.

use std::{collections::BTreeMap, mem};

use event::{Definition, Task, fields::same_label};

use super::{
    Bucket,
    cases::bytes_of,
    evaluator::Rows,
    fields::Fields,
    grouping::Dealt,
    head_to_head,
    judge::{Instead, distance, says_positive},
    selection::place_of,
};
use crate::paired::{Meeting, Side};

/// Meetings of two releases by the dimension values that their predictions share: buckets without a name.
pub type Duels = BTreeMap<Bucket, Vec<Meeting>>;

/// Two releases, and their meetings so far. They meet as in a [`Record`](super::Record).
#[derive(Debug)]
pub(super) struct Duel {
    releases: [String; 2],
    /// Number of days begun.
    days: u32,
    duels: Duels,
}

/// Cell (see [`Dealt::cells`]), and the number of the last pair of each of two releases in it.
type Last = (u32, [Option<usize>; 2]);

impl Duel {
    pub(super) fn new(releases: [String; 2]) -> Self {
        Self { releases, days: 0, duels: Duels::new() }
    }

    pub(super) fn next_day(&mut self) {
        self.days += 1;
    }

    pub(super) fn bytes(&self) -> usize {
        bytes_of(&self.duels)
    }

    pub(super) fn take(&mut self) -> Duels {
        mem::take(&mut self.duels)
    }

    pub(super) fn finish(self) -> Duels {
        self.duels
    }

    pub(super) fn add(&mut self, rows: &Rows<'_>, dealt: &Dealt) {
        let joined = rows.joined;
        let number = |name: &String| joined.releases.iter().position(|release| release == name);
        let [Some(one), Some(other)] = self.releases.each_ref().map(number) else { return };
        let (Some(by_one), Some(by_other)) = (rows.definitions[one], rows.definitions[other]) else { return };
        if rows.numbers[one] != rows.numbers[other] {
            return;
        }
        let (releases, definitions) = ([one, other], [by_one, by_other]);
        let day = self.days.saturating_sub(1);
        let mut last = Vec::<Last>::new();
        head_to_head::each_shared(joined, rows.outcomes.0, |numbers| {
            last.clear();
            for number in numbers {
                let pair = &joined.pairs[number];
                let side = releases.iter().position(|release| *release == pair.release as usize);
                let (Some(side), Some(bucket)) = (side, dealt.bucket(number, pair.release)) else { continue };
                let cell = dealt.cells[bucket];
                match last.iter_mut().find(|(known, _)| *known == cell) {
                    Some((_, pairs)) => pairs[side] = Some(number),
                    None => {
                        let mut pairs = [None; 2];
                        pairs[side] = Some(number);
                        last.push((cell, pairs));
                    }
                }
            }
            for (_, pairs) in &last {
                let [Some(one), Some(other)] = *pairs else { continue };
                let Some(met) = meeting(rows, [one, other], definitions) else { continue };
                let first = joined.pairs[one];
                let key = rows.predictions.1[first.prediction.segment as usize].key(first.prediction);
                let Some(bucket) = dealt.bucket(one, first.release) else { continue };
                let common = Bucket { name: String::new(), ..dealt.buckets[bucket].clone() };
                self.duels.entry(common).or_default().push(Meeting { day, key: place_of(key), ..met });
            }
        });
    }
}

/// Compares two pairs with one outcome; `None` when it does not label both.
fn meeting(rows: &Rows<'_>, pairs: [usize; 2], definitions: [&Definition; 2]) -> Option<Meeting> {
    let side = |at: usize| {
        let (prediction, outcome) = rows.fields(&rows.joined.pairs[pairs[at]]);
        side(definitions[at], rows.options.instead, &prediction, &outcome?)
    };
    let ((one, is_positive), (other, _)) = (side(0)?, side(1)?);
    Some(Meeting { is_positive, sides: [one, other], ..Meeting::default() })
}

/// Returns the side of a prediction, and whether the positive class is the real one.
fn side(
    definition: &Definition,
    instead: Instead,
    prediction: &Fields<'_>,
    outcome: &Fields<'_>,
) -> Option<(Side, bool)> {
    let distance = distance(&definition.task, prediction, outcome)?;
    let plain = Side { distance, ..Side::default() };
    match &definition.task {
        Task::Binary { positive_label } => {
            let real = same_label(outcome.label?, positive_label);
            let says = says_positive(prediction, positive_label, instead.threshold, definition.threshold);
            let probability = prediction.score.filter(|score| (0.0..=1.0).contains(score));
            Some((Side { is_right: says.map(|says| says == real), probability, ..plain }, real))
        }
        Task::Multiclass => Some((Side { is_right: Some(distance == 0.0), ..plain }, false)),
        Task::Regression => Some((Side { is_number: true, ..plain }, false)),
        Task::Ranking { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use event::lane;
    use proptest::{array::uniform2, collection::vec, option, prelude::*, sample::select};

    use super::*;
    use crate::{
        LogSegment,
        evaluation::Evaluator,
        paired::head_to_head,
        testing::{self, Outcome, Prediction},
    };

    const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

    proptest! {
        /// Meetings of two releases agree with their records, however their days are partitioned.
        #[test]
        fn they_meet_as_their_records_say(
            scores in uniform2(vec(option::of(select(vec![0.0, 0.25, 0.5, 0.75, 1.0])), 5)),
            labels in vec(option::of(select(vec!["late", "on time"])), 5),
        ) {
            let names = ["v1", "v2"];
            let task = || Definition::of(Task::Binary { positive_label: "late".into() });
            let definitions: BTreeMap<_, _> = names.map(|name| (name.to_owned(), task())).into();
            let mut evaluator = Evaluator::new(BTreeMap::new()).between(&[names.map(str::to_owned)]);
            evaluator.next_day(definitions).unwrap();
            // Each key is a partition of its own.
            for (at, key) in KEYS.into_iter().enumerate() {
                let of_key = names.iter().zip(&scores).filter_map(|(release, scores)| {
                    Some(Prediction { release, key, score: Some(scores[at]?), ..Prediction::default() })
                });
                let predictions = testing::predictions(&of_key.collect::<Vec<_>>(), true);
                let outcomes: Vec<Outcome> =
                    labels[at].map(|label| Outcome { key, label: Some(label), ..Outcome::default() }).into_iter().collect();
                let outcomes = testing::outcomes(&outcomes, false);
                let segment = |columns| [LogSegment { place: lane::LogPosition::of(0, 1), columns }];
                evaluator.add(&segment(&predictions), &segment(&outcomes)).unwrap();
            }
            let buckets = evaluator.finish_buckets();
            let record = buckets.buckets.iter().find(|(bucket, _)| bucket.name == "v1");
            let record = record.map(|(_, release)| release.record).unwrap_or_default();
            let met = buckets.duels[0].values().next().cloned().unwrap_or_default();
            let (_, found) = head_to_head(vec![met.clone()]);
            prop_assert_eq!(
                (found[0].wins, found[0].losses, found[0].ties),
                (record.wins, record.losses, record.ties)
            );
            for met in met {
                let [one, other] = met.sides.map(|side| side.probability.unwrap());
                prop_assert!(scores[0].contains(&Some(one)) && scores[1].contains(&Some(other)));
                prop_assert_eq!(met.sides[0].is_right, Some((one >= 0.5) == met.is_positive));
            }
        }
    }
}
