//! Predictions labelled by an outcome that names no instant: the latest of its key within a span of time, or all of
//! them.
//!
//! A prediction counts here as it does in the [join](mod@crate::join): a retracted one removes itself and all earlier
//! ones of its identity (release, key, `predicted_at`). An instant is found while the prediction of any release
//! counts there, because an outcome labels every release.
//!
//! The segments of a day are added once, in any order. If one of the instants found was retracted by some release
//! ([`Latest::again`]), they are added a second time, with all retractions known. So memory grows with the searches and
//! with the retractions of their keys, not with the day.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use event::{
    fields::{AppliesTo, RETRACTED},
    lane::LogPosition,
};

use crate::{
    FoldError, LogSegment, Result,
    read::{required_texts, required_times, texts},
};

/// Columns that [`Latest`] needs of predictions.
pub const COLUMNS: &[&str] = &["key", "predicted_at", "release", RETRACTED];

/// Maximum number of retracted predictions in memory for the keys of one search and day.
pub const MAX_RETRACTED: usize = 1_000_000;

/// Maximum number of predictions that one outcome labels. At most one more is in memory for a search.
pub const MAX_JUDGED: usize = 1_000;

/// A search for the latest prediction of a key in a span of time, in microseconds, both ends included, or for all of
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Key of the predictions.
    pub key: String,
    /// Earliest instant, inclusive.
    pub from: i64,
    /// Latest instant, inclusive.
    pub until: i64,
    /// Selection: the latest or all.
    pub applies_to: AppliesTo,
}

/// Identity of a prediction: release, key and instant.
type Identity = (String, String, i64);

/// Predictions of a day that match searches.
#[derive(Debug)]
pub struct Latest<'a> {
    asked: &'a [Asked],
    /// Indexes of the searches of each key.
    of_key: HashMap<&'a str, Vec<usize>>,
    found: Vec<BTreeSet<i64>>,
    /// Position and row of the last retraction of each identity.
    retracted: BTreeMap<Identity, (LogPosition, usize)>,
    /// True in the second pass, with all retractions known.
    is_second: bool,
}

impl<'a> Latest<'a> {
    /// Creates the matcher of the searches with these indexes.
    pub fn new(asked: &'a [Asked], numbers: impl IntoIterator<Item = usize>) -> Self {
        let mut of_key = HashMap::<&str, Vec<usize>>::new();
        for number in numbers {
            of_key.entry(&asked[number].key).or_default().push(number);
        }
        let (found, retracted) = (vec![BTreeSet::new(); asked.len()], BTreeMap::new());
        Self { asked, of_key, found, retracted, is_second: false }
    }

    /// Returns the keys of the searches.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.of_key.keys().copied()
    }

    /// Adds the predictions of a segment.
    ///
    /// # Errors
    /// Fails if a column is invalid, or if more than [`MAX_RETRACTED`] predictions of the keys are retracted.
    pub fn add(&mut self, LogSegment { place, columns }: LogSegment<'_>) -> Result<()> {
        if columns.rows == 0 {
            return Ok(());
        }
        let (keys, instants) = (required_texts(columns, "key")?, required_times(columns, "predicted_at")?);
        let releases = required_texts(columns, "release")?;
        let retracted = texts(columns, RETRACTED)?;
        for (row, &at) in instants.iter().enumerate() {
            let Some((key, questions)) = keys.get(row).and_then(|key| self.of_key.get_key_value(key)) else {
                continue;
            };
            let asked = self.asked;
            let mut fits = questions
                .iter()
                .filter(|number| (asked[**number].from..=asked[**number].until).contains(&at));
            let Some(first) = fits.next() else { continue };
            let release = releases.get(row).unwrap_or_default();
            if retracted.is_some_and(|retracted| retracted.get(row).is_some()) {
                if !self.is_second {
                    let identity = (release.to_owned(), (*key).to_owned(), at);
                    let known = self.retracted.entry(identity).or_insert((place, row));
                    *known = (*known).max((place, row));
                    if self.retracted.len() > MAX_RETRACTED {
                        return Err(FoldError::TooManyRetracted);
                    }
                }
                continue;
            }
            if self.is_second && !self.retracted.is_empty() {
                let identity = (release.to_owned(), (*key).to_owned(), at);
                if self.retracted.get(&identity).is_some_and(|last| *last > (place, row)) {
                    continue;
                }
            }
            for number in [first].into_iter().chain(fits) {
                note(&mut self.found[*number], asked[*number].applies_to, at);
            }
        }
        Ok(())
    }

    /// Returns whether the segments must be added a second time, and begins that pass.
    pub fn again(&mut self) -> bool {
        let is_doubted = |(_, key, at): &Identity| {
            let found = |number: &usize| &self.found[*number];
            // Above the maximum, some instants were skipped and are unknown.
            let doubts = |found: &BTreeSet<i64>| found.contains(at) || found.len() > MAX_JUDGED;
            self.of_key[key.as_str()].iter().map(found).any(doubts)
        };
        if self.is_second || !self.retracted.keys().any(is_doubted) {
            return false;
        }
        self.is_second = true;
        self.found.fill(BTreeSet::new());
        true
    }

    /// Returns the instants found, by the index of the search; more than [`MAX_JUDGED`] if there are too many.
    pub fn finish(self) -> Vec<BTreeSet<i64>> {
        self.found
    }
}

/// Records the instant of a prediction that matches a search.
fn note(found: &mut BTreeSet<i64>, applies_to: AppliesTo, at: i64) {
    match applies_to {
        AppliesTo::Latest if found.last().is_none_or(|last| *last < at) => {
            found.clear();
            found.insert(at);
        }
        AppliesTo::All if found.len() <= MAX_JUDGED => _ = found.insert(at),
        AppliesTo::Latest | AppliesTo::All => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::testing::{columns, texts, times};

    /// A prediction: release, key, instant, and true if retracted.
    type Row = (&'static str, &'static str, i64, bool);

    fn segment(rows: &[Row]) -> event::Columns {
        let text = |of: fn(&Row) -> &'static str| rows.iter().map(|row| Some(of(row))).collect::<Vec<_>>();
        let at: Vec<Option<i64>> = rows.iter().map(|row| Some(row.2)).collect();
        let retracted: Vec<Option<&str>> = rows.iter().map(|row| row.3.then_some("true")).collect();
        columns(vec![
            texts("key", &text(|row| row.1), false),
            times("predicted_at", &at),
            texts("release", &text(|row| row.0), true),
            texts(RETRACTED, &retracted, true),
        ])
    }

    fn asked(key: &str, from: i64, until: i64) -> Asked {
        Asked { key: key.to_owned(), from, until, applies_to: AppliesTo::Latest }
    }

    fn all(key: &str, from: i64, until: i64) -> Asked {
        Asked { applies_to: AppliesTo::All, ..asked(key, from, until) }
    }

    fn latest(segments: &[Vec<Row>], asked: &[Asked]) -> Vec<Vec<i64>> {
        let segments: Vec<event::Columns> = segments.iter().map(|rows| segment(rows)).collect();
        let mut latest = Latest::new(asked, 0..asked.len());
        loop {
            for (seq, columns) in (1..).zip(&segments) {
                latest.add(LogSegment { place: LogPosition::of(0, seq), columns }).unwrap();
            }
            if !latest.again() {
                return latest.finish().into_iter().map(|found| found.into_iter().collect()).collect();
            }
        }
    }

    #[test]
    fn latest_prediction_within_each_span_is_found() {
        let segments = [
            vec![("v1", "a", 10, false), ("v2", "a", 30, false), ("v1", "b", 20, false)],
            vec![("v1", "a", 20, false), ("v1", "a", 10, false)],
        ];
        let questions = [
            asked("a", 0, 29),
            asked("a", 0, 30),
            asked("a", 11, 19),
            asked("b", 20, 20),
            asked("b", 21, 99),
            asked("c", 0, 99),
        ];
        assert_eq!(latest(&segments, &questions), [vec![20], vec![30], vec![], vec![20], vec![], vec![]]);
        let questions = questions.map(|asked| Asked { applies_to: AppliesTo::All, ..asked });
        assert_eq!(
            latest(&segments, &questions),
            [vec![10, 20], vec![10, 20, 30], vec![], vec![20], vec![], vec![]]
        );
        let mut some = Latest::new(&questions, [3]);
        assert_eq!(some.keys().collect::<Vec<_>>(), ["b"]);
        some.add(LogSegment { place: LogPosition::of(0, 1), columns: &segment(&segments[0]) }).unwrap();
        let found: Vec<usize> = some.finish().iter().map(BTreeSet::len).collect();
        assert_eq!(found, [0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn retracted_predictions_are_skipped_unless_sent_again() {
        let question = [asked("a", 0, 99), all("a", 0, 99)];
        let taken = vec![("v1", "a", 30, false), ("v1", "a", 20, false), ("v1", "a", 30, true)];
        assert_eq!(latest(std::slice::from_ref(&taken), &question), [[20], [20]]);
        let again = [vec![30], vec![20, 30]];
        assert_eq!(latest(&[taken.clone(), vec![("v1", "a", 30, false)]], &question), again);
        assert_eq!(latest(&[taken.clone(), vec![("v2", "a", 30, false)]], &question), again);
        assert_eq!(latest(&[vec![("v2", "a", 40, true)], taken], &question), [[20], [20]]);
    }

    /// Too many predictions are detected even if some held at first are retracted.
    #[test]
    fn prediction_limit_holds_without_counting_retracted_ones() {
        let most = MAX_JUDGED as i64;
        let rows = |from: i64, to: i64, is_retracted: bool| -> Vec<Row> {
            (from..to).map(|at| ("v1", "a", at, is_retracted)).collect()
        };
        let question = [all("a", 0, 10 * most)];
        let found = |segments: &[Vec<Row>]| latest(segments, &question).remove(0);
        assert_eq!(found(&[rows(0, most, false)]).len(), MAX_JUDGED);
        assert_eq!(found(&[rows(0, 5 * most, false)]).len(), MAX_JUDGED + 1);
        let some = found(&[rows(0, most + 7, false), rows(0, 7, true)]);
        assert_eq!((some.len(), some[0], some[MAX_JUDGED - 1]), (MAX_JUDGED, 7, most + 6));
        assert_eq!(found(&[rows(0, most + 7, false), rows(0, 6, true)]).len(), MAX_JUDGED + 1);
    }

    #[test]
    fn a_column_that_is_missing_is_an_error() {
        let question = [asked("a", 0, 99)];
        let mut columns = segment(&[("v1", "a", 1, false)]);
        columns.columns.retain(|column| column.name != "release");
        let error =
            Latest::new(&question, [0]).add(LogSegment { place: LogPosition::of(0, 1), columns: &columns });
        assert_eq!(error, Err(FoldError::Missing { column: "release".into() }));
    }

    /// Answers a question by scanning all events.
    fn naive(segments: &[Vec<Row>], asked: &Asked) -> Vec<i64> {
        let rows: Vec<Row> = segments.iter().flatten().copied().collect();
        let counts = |(number, row): &(usize, &Row)| {
            let is_same = |later: &Row| (later.0, later.1, later.2) == (row.0, row.1, row.2) && later.3;
            row.1 == asked.key
                && (asked.from..=asked.until).contains(&row.2)
                && !row.3
                && !rows[*number..].iter().any(is_same)
        };
        let all: BTreeSet<i64> = rows.iter().enumerate().filter(counts).map(|(_, row)| row.2).collect();
        match asked.applies_to {
            AppliesTo::Latest => all.last().copied().into_iter().collect(),
            AppliesTo::All => all.into_iter().collect(),
        }
    }

    proptest! {
        #[test]
        fn it_is_what_going_through_all_events_finds(
            rows in vec(vec((0usize..2, 0usize..3, 0i64..6, 0u8..4), 0..8), 0..4),
            questions in vec((0usize..3, 0i64..6, 0i64..6, any::<bool>()), 1..6),
        ) {
            let (releases, keys) = (["v1", "v2"], ["a", "b", "c"]);
            let row = |(release, key, at, retracted): (usize, usize, i64, u8)| {
                (releases[release], keys[key], at, retracted == 0)
            };
            let segments: Vec<Vec<Row>> =
                rows.into_iter().map(|rows| rows.into_iter().map(row).collect()).collect();
            let question = |(key, from, until, is_all): (usize, i64, i64, bool)| match is_all {
                true => all(keys[key], from, until),
                false => asked(keys[key], from, until),
            };
            let questions: Vec<Asked> = questions.into_iter().map(question).collect();
            let expected: Vec<Vec<i64>> = questions.iter().map(|asked| naive(&segments, asked)).collect();
            prop_assert_eq!(latest(&segments, &questions), expected);
        }
    }
}
