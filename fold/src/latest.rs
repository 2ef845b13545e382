//! Which prediction an outcome judges that names none: the latest of its key within a span of time.
//!
//! A prediction counts here as it does in the [join](mod@crate::join): one that is withdrawn takes back itself and all of its identity
//! (release, key, `predicted_at`) that stand before it. An instant is found while the prediction of any release counts there, for an
//! outcome judges every release.
//!
//! The segments of a day are handed in once, in any order. Where one of the instants found was withdrawn by some release
//! ([`Latest::again`]), they are handed in a second time, and then it is known what was taken back. So what is held grows with what
//! is asked and with what is withdrawn of it, and not with the day.

use std::collections::{BTreeMap, HashMap};

use event::{fields::WITHDRAWN, lane::Place};

use crate::{
    FoldError, LogSegment, Result,
    read::{required_texts, required_times, texts},
};

/// The columns that [`Latest`] needs of predictions.
pub const COLUMNS: &[&str] = &["key", "predicted_at", "release", WITHDRAWN];

/// The most withdrawn predictions of the keys of one question and day that are held.
pub const MAX_WITHDRAWN: usize = 1_000_000;

/// What is asked: the latest prediction of a key in a span of time, in microseconds, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The key.
    pub key: String,
    /// No earlier than this.
    pub from: i64,
    /// No later than this.
    pub until: i64,
}

/// A release, a key and an instant: what a prediction is known by.
type Identity = (String, String, i64);

/// The latest predictions of a day that were asked for.
#[derive(Debug)]
pub struct Latest<'a> {
    asked: &'a [Asked],
    /// The questions of each key.
    of_key: HashMap<&'a str, Vec<usize>>,
    found: Vec<Option<i64>>,
    /// Where each identity was taken back for the last time: segment and row.
    withdrawn: BTreeMap<Identity, (Place, usize)>,
    /// Whether it is known by now what was taken back.
    is_second: bool,
}

impl<'a> Latest<'a> {
    /// Of the questions with these numbers.
    pub fn new(asked: &'a [Asked], numbers: impl IntoIterator<Item = usize>) -> Self {
        let mut of_key = HashMap::<&str, Vec<usize>>::new();
        for number in numbers {
            of_key.entry(&asked[number].key).or_default().push(number);
        }
        let (found, withdrawn) = (vec![None; asked.len()], BTreeMap::new());
        Self { asked, of_key, found, withdrawn, is_second: false }
    }

    /// The keys that are asked for.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.of_key.keys().copied()
    }

    /// Takes the predictions of a segment.
    ///
    /// # Errors
    /// When a column is not what it must be, or more than [`MAX_WITHDRAWN`] predictions of the keys are withdrawn.
    pub fn add(&mut self, LogSegment { place, columns }: LogSegment<'_>) -> Result<()> {
        if columns.rows == 0 {
            return Ok(());
        }
        let (keys, instants) = (required_texts(columns, "key")?, required_times(columns, "predicted_at")?);
        let releases = required_texts(columns, "release")?;
        let withdrawn = texts(columns, WITHDRAWN)?;
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
            if withdrawn.is_some_and(|withdrawn| withdrawn.get(row).is_some()) {
                if !self.is_second {
                    let identity = (release.to_owned(), (*key).to_owned(), at);
                    let known = self.withdrawn.entry(identity).or_insert((place, row));
                    *known = (*known).max((place, row));
                    if self.withdrawn.len() > MAX_WITHDRAWN {
                        return Err(FoldError::TooManyWithdrawn);
                    }
                }
                continue;
            }
            if self.is_second && !self.withdrawn.is_empty() {
                let identity = (release.to_owned(), (*key).to_owned(), at);
                if self.withdrawn.get(&identity).is_some_and(|last| *last > (place, row)) {
                    continue;
                }
            }
            for number in [first].into_iter().chain(fits) {
                let found = &mut self.found[*number];
                *found = (*found).max(Some(at));
            }
        }
        Ok(())
    }

    /// Whether the segments must be handed in a second time, and begins that.
    pub fn again(&mut self) -> bool {
        let is_doubted = |(_, key, at): &Identity| {
            self.of_key[key.as_str()].iter().any(|number| self.found[*number] == Some(*at))
        };
        if self.is_second || !self.withdrawn.keys().any(is_doubted) {
            return false;
        }
        self.is_second = true;
        self.found.fill(None);
        true
    }

    /// What was found, by the number of the question.
    pub fn finish(self) -> Vec<Option<i64>> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::testing::{columns, texts, times};

    /// A prediction: release, key, instant, and whether it is withdrawn.
    type Row = (&'static str, &'static str, i64, bool);

    fn segment(rows: &[Row]) -> event::Columns {
        let text = |of: fn(&Row) -> &'static str| rows.iter().map(|row| Some(of(row))).collect::<Vec<_>>();
        let at: Vec<Option<i64>> = rows.iter().map(|row| Some(row.2)).collect();
        let withdrawn: Vec<Option<&str>> = rows.iter().map(|row| row.3.then_some("true")).collect();
        columns(vec![
            texts("key", &text(|row| row.1), false),
            times("predicted_at", &at),
            texts("release", &text(|row| row.0), true),
            texts(WITHDRAWN, &withdrawn, true),
        ])
    }

    fn asked(key: &str, from: i64, until: i64) -> Asked {
        Asked { key: key.to_owned(), from, until }
    }

    fn latest(segments: &[Vec<Row>], asked: &[Asked]) -> Vec<Option<i64>> {
        let segments: Vec<event::Columns> = segments.iter().map(|rows| segment(rows)).collect();
        let mut latest = Latest::new(asked, 0..asked.len());
        loop {
            for (seq, columns) in (1..).zip(&segments) {
                latest.add(LogSegment { place: Place::of(0, seq), columns }).unwrap();
            }
            if !latest.again() {
                return latest.finish();
            }
        }
    }

    #[test]
    fn the_latest_within_the_span_is_found_for_each_question() {
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
        assert_eq!(latest(&segments, &questions), [Some(20), Some(30), None, Some(20), None, None]);
        let mut some = Latest::new(&questions, [3]);
        assert_eq!(some.keys().collect::<Vec<_>>(), ["b"]);
        some.add(LogSegment { place: Place::of(0, 1), columns: &segment(&segments[0]) }).unwrap();
        assert_eq!(some.finish(), [None, None, None, Some(20), None, None]);
    }

    #[test]
    fn what_is_taken_back_is_passed_over_unless_it_was_sent_again_or_by_another_release() {
        let question = [asked("a", 0, 99)];
        let taken = vec![("v1", "a", 30, false), ("v1", "a", 20, false), ("v1", "a", 30, true)];
        assert_eq!(latest(std::slice::from_ref(&taken), &question), [Some(20)]);
        assert_eq!(latest(&[taken.clone(), vec![("v1", "a", 30, false)]], &question), [Some(30)]);
        assert_eq!(latest(&[taken.clone(), vec![("v2", "a", 30, false)]], &question), [Some(30)]);
        assert_eq!(latest(&[vec![("v2", "a", 40, true)], taken], &question), [Some(20)]);
    }

    #[test]
    fn a_column_that_is_missing_is_an_error() {
        let question = [asked("a", 0, 99)];
        let mut columns = segment(&[("v1", "a", 1, false)]);
        columns.columns.retain(|column| column.name != "release");
        let error = Latest::new(&question, [0]).add(LogSegment { place: Place::of(0, 1), columns: &columns });
        assert_eq!(error, Err(FoldError::Missing { column: "release".into() }));
    }

    /// By going through all events for each question.
    fn naive(segments: &[Vec<Row>], asked: &Asked) -> Option<i64> {
        let rows: Vec<Row> = segments.iter().flatten().copied().collect();
        let counts = |(number, row): &(usize, &Row)| {
            let is_same = |later: &Row| (later.0, later.1, later.2) == (row.0, row.1, row.2) && later.3;
            row.1 == asked.key
                && (asked.from..=asked.until).contains(&row.2)
                && !row.3
                && !rows[*number..].iter().any(is_same)
        };
        rows.iter().enumerate().filter(counts).map(|(_, row)| row.2).max()
    }

    proptest! {
        #[test]
        fn it_is_what_going_through_all_events_finds(
            rows in vec(vec((0usize..2, 0usize..3, 0i64..6, 0u8..4), 0..8), 0..4),
            questions in vec((0usize..3, 0i64..6, 0i64..6), 1..6),
        ) {
            let (releases, keys) = (["v1", "v2"], ["a", "b", "c"]);
            let row = |(release, key, at, withdrawn): (usize, usize, i64, u8)| {
                (releases[release], keys[key], at, withdrawn == 0)
            };
            let segments: Vec<Vec<Row>> =
                rows.into_iter().map(|rows| rows.into_iter().map(row).collect()).collect();
            let questions: Vec<Asked> =
                questions.into_iter().map(|(key, from, until)| asked(keys[key], from, until)).collect();
            let expected: Vec<Option<i64>> = questions.iter().map(|asked| naive(&segments, asked)).collect();
            prop_assert_eq!(latest(&segments, &questions), expected);
        }
    }
}
