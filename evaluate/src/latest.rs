//! Search for the predictions that undated outcomes label: the latest of a key within a span of time, or all of them
//! ([`fold::latest`]).
//!
//! Days are searched from the latest back, each as of one closed instant. A question for the latest ends with the
//! first day on which it is found. So the result depends only on the events appended and the segments skipped by
//! then. Of a day with a filter of its keys, only logs that may hold one of them are read.

use std::{collections::BTreeSet, mem, sync::Arc};

use event::{
    Columns, Day, Error, ErrorKind, Id, Kind, Result, Timestamp,
    fields::{AppliesTo, JUDGES, PREDICTED_SINCE},
};
use fold::{
    LogSegment,
    latest::{Asked, COLUMNS, Latest, MAX_JUDGED},
};
use log::{
    key,
    key_filter::{self, At},
    scan,
    segment_item::Segment,
    unmatched::LOOK_BACK_DAYS,
    walk::{Admitted, Heads, Note, Segments, Until, Walk},
};
use table::Table;

use crate::{
    caught, corrupt,
    key_filters::{passed, possible},
};

const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// Scope of a search for predictions.
#[derive(Debug)]
pub struct Looking<'a> {
    /// Workspace.
    pub workspace: &'a Id,
    /// Version of the projections whose filters are used.
    pub version: u32,
    /// Closed instant: only events appended by then are searched.
    pub as_of: Timestamp,
    /// Segments that are left out, because they were skipped.
    pub left_out: Arc<Segments>,
}

/// Answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Instants of the predictions, in order.
    Found(Vec<Timestamp>),
    /// No prediction.
    Nothing,
    /// More than [`MAX_JUDGED`] predictions.
    TooMany,
    /// Unknown: it may have been on a deleted day.
    Gone(Day),
    /// Unknown: a segment of a day is unreadable or missing.
    Unreadable(Day, String),
}

/// Returns the question of a row of unmatched outcomes.
///
/// # Errors
/// `Corrupt` if it lacks its key or time, or has a value that this version does not know.
pub fn question(columns: &Columns, row: usize) -> Result<Asked> {
    let time = |name| columns.column(name).and_then(|column| column.time(row));
    let key = columns.column("key").and_then(|column| column.text(row));
    let (Some(key), Some(until)) = (key, time("observed_at")) else {
        return Err(Error::corrupt(format!(
            "row {row} of a segment of unmatched outcomes lacks its key or time"
        )));
    };
    let earliest = || (until - LOOK_BACK_DAYS * DAY_MICROS).max(Day::FIRST.start().micros());
    let from = time(PREDICTED_SINCE).unwrap_or_else(earliest);
    let applies_to = match columns.column(JUDGES).and_then(|column| column.text(row)) {
        Some(name) => AppliesTo::from_name(name).ok_or_else(|| {
            Error::corrupt(format!("row {row} of a segment of unmatched outcomes judges `{name}`"))
        })?,
        None => AppliesTo::default(),
    };
    Ok(Asked { key: key.to_owned(), from, until, applies_to })
}

impl Looking<'_> {
    /// Answers questions, in order. `keeps` returns whether a day still has its events.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn look(
        &self,
        table: &dyn Table,
        asked: &[Asked],
        keeps: &(dyn Fn(Day) -> bool + Sync),
    ) -> Result<Vec<Answer>> {
        let mut answers = vec![Answer::Nothing; asked.len()];
        let day_of = |micros: i64| Timestamp::from_micros(micros).unwrap_or_default().day();
        let [first, last] = [|asked: &Asked| asked.from, |asked: &Asked| asked.until]
            .map(|end| asked.iter().map(|asked| day_of(end(asked))).collect::<Vec<Day>>());
        // The next question to search for is the last.
        let mut coming: Vec<usize> = (0..asked.len()).collect();
        coming.sort_by_key(|number| last[*number]);
        let mut open = Vec::<usize>::new();
        let mut next = coming.last().map(|number| last[*number]);
        // Latest day with events that has not been passed.
        let mut known: Option<Option<Day>> = None;
        while let Some(day) = next {
            open.retain(|number| first[*number] <= day);
            while let Some(number) = coming.pop_if(|number| last[*number] >= day) {
                open.extend((first[number] <= day).then_some(number));
            }
            if open.is_empty() {
                next = coming.last().map(|number| last[*number]);
                continue;
            }
            next = day.before();
            let found = if keeps(day) {
                // Days without any event are passed over.
                let latest = match known {
                    Some(latest) if latest.is_none_or(|latest| latest <= day) => latest,
                    _ => *known.insert(self.latest_until(table, day).await?),
                };
                if latest != Some(day) {
                    continue;
                }
                self.look_on(table, day, asked, &open).await?
            } else {
                Found { failed: Some(Answer::Gone(day)), ..Found::default() }
            };
            open.retain(|&number| found.goes_on(number, asked[number].applies_to, &mut answers[number]));
        }
        for answer in &mut answers {
            if let Answer::Found(instants) = answer {
                instants.sort_unstable();
            }
        }
        Ok(answers)
    }

    /// Returns the latest day with events, not after `day`.
    async fn latest_until(&self, table: &dyn Table, day: Day) -> Result<Option<Day>> {
        let Some(behind) = day.next() else { return Ok(Some(day)) };
        let last = scan::last_within(table, key::segments_before(self.workspace, behind)).await?;
        Ok(last.map(|(log, _)| log.day))
    }

    /// Searches one day for the answers to some questions.
    async fn look_on(
        &self,
        table: &dyn Table,
        day: Day,
        asked: &[Asked],
        numbers: &[usize],
    ) -> Result<Found> {
        let mut latest = Latest::new(asked, numbers.iter().copied());
        loop {
            if let Some(failed) = self.read(table, day, &mut latest).await? {
                return Ok(Found { failed: Some(failed), ..Found::default() });
            }
            if !latest.again() {
                return Ok(Found { instants: latest.finish(), failed: None });
            }
        }
    }

    /// Reads the segments that may hold one of the keys; returns an answer if the result is unknown.
    async fn read(&self, table: &dyn Table, day: Day, latest: &mut Latest<'_>) -> Result<Option<Answer>> {
        let until = Until::AppendedBy(self.as_of);
        let walk = Walk::new(self.workspace, day, Kind::Predictions, until, Arc::clone(&self.left_out));
        let at = At { workspace: self.workspace, version: self.version, day, kind: Kind::Predictions };
        let mut walk = match self.passed(table, at, latest).await {
            Ok(passed) => walk.beyond(passed),
            // The filter is an index: without it the answer is the same.
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::warn!(%error, "a filter of keys cannot be read; all of its day is");
                walk
            }
            Err(error) => return Err(error),
        };
        while let Some(page) = walk.next(table, None).await? {
            let unreadable = walk.notes().into_iter().find_map(|note| match note {
                Note::Missing(log, seq) => Some(format!("{log}/{seq} is missing")),
                Note::NoSegment(key) => Some(format!("{key} is no segment")),
                Note::Read(..) | Note::LeftOut(..) | Note::Later(..) | Note::Stated(..) => None,
            });
            let unreadable =
                unreadable.or_else(|| page.into_iter().find_map(|segment| take(latest, segment)));
            if let Some(reason) = unreadable {
                return Ok(Some(Answer::Unreadable(day, reason)));
            }
            // Unpacking takes a thread for a while: folds have their turn in between.
            tokio::task::yield_now().await;
        }
        Ok(None)
    }

    /// Returns the parts of a day's logs that a filter excludes.
    async fn passed(&self, table: &dyn Table, at: At<'_>, latest: &Latest<'_>) -> Result<Heads> {
        let Some(head) = key_filter::head(table, at).await? else { return Ok(Heads::new()) };
        let possible = possible(table, at, &head, latest.keys()).await?;
        Ok(possible.map_or_else(Heads::new, |possible| passed(at, &head, &possible)))
    }
}

/// Result of one day: instants by the number of the question, or the reason why they are unknown.
#[derive(Default)]
struct Found {
    instants: Vec<BTreeSet<i64>>,
    failed: Option<Answer>,
}

impl Found {
    /// Adds the instants found for a question to its answer; returns whether earlier days belong to it as well.
    fn goes_on(&self, number: usize, applies_to: AppliesTo, answer: &mut Answer) -> bool {
        match (&self.failed, applies_to) {
            // Predictions of a deleted day can no longer be labelled, all others can.
            (Some(gone @ Answer::Gone(_)), AppliesTo::All) => {
                if *answer == Answer::Nothing {
                    *answer = gone.clone();
                }
                true
            }
            (Some(failed), _) => {
                *answer = failed.clone();
                false
            }
            (None, _) => {
                let Some(instants) = self.instants.get(number).filter(|instants| !instants.is_empty()) else {
                    return true;
                };
                let mut all = match mem::replace(answer, Answer::Nothing) {
                    Answer::Found(all) => all,
                    _ => Vec::new(),
                };
                all.extend(instants.iter().map(|at| Timestamp::from_micros(*at).unwrap_or_default()));
                let is_too_many = all.len() > MAX_JUDGED;
                *answer = if is_too_many { Answer::TooMany } else { Answer::Found(all) };
                applies_to == AppliesTo::All && !is_too_many
            }
        }
    }
}

/// Takes a segment; returns the reason if it cannot be read.
fn take(latest: &mut Latest<'_>, Admitted { log, seq, item }: Admitted) -> Option<String> {
    let taken = caught(|| {
        let segment = Segment::from_item(item)?;
        let columns = segment.unpack(|name| COLUMNS.contains(&name))?;
        latest.add(LogSegment { place: segment.place(), columns: &columns }).map_err(corrupt)?;
        Ok::<_, Error>(())
    });
    taken.err().map(|(reason, _)| format!("{log}/{seq}: {reason}"))
}

#[cfg(test)]
mod tests {
    use event::{Clock, Column, Values, lane::lane_of};
    use fold::key_filter::KeyFilterBuilder;
    use log::{key::LogId, key_filter::Head};
    use table::{Condition, Key, sqlite::SqliteTable};

    use super::*;

    struct Scene {
        table: SqliteTable,
        workspace: Id,
        _folder: tempfile::TempDir,
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    const LANES: u8 = 4;

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
            let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
            Self { table, workspace, _folder: folder }
        }

        fn log(&self, day: &str, lane: u8) -> LogId {
            LogId {
                workspace: self.workspace.clone(),
                day: day.parse().unwrap(),
                kind: Kind::Predictions,
                lane,
            }
        }

        /// Appends predictions of a key to its lane, `after` seconds after the end of the day.
        async fn predict(&self, key: &str, instants: &[&str], after: i64) -> Key {
            let times: Vec<i64> = instants.iter().map(|instant| at(instant).micros()).collect();
            let text = |text: &str| Values::Text(times.iter().map(|_| text).collect());
            let columns = Columns {
                rows: times.len(),
                columns: vec![
                    Column::new("key", text(key)),
                    Column::new("predicted_at", Values::Time(times.clone())),
                    Column::new("release", text("v1")),
                ],
            };
            let log = self.log(&instants[0][..10], lane_of(key, LANES));
            let seq = scan::head(&self.table, &log).await.unwrap() + 1;
            let appended = log.day.next().unwrap().start().plus_seconds(after);
            let segment = Segment::pack(log.clone(), seq, appended, Vec::new(), &columns).unwrap();
            self.table.put(segment.to_item(), Condition::Absent).await.unwrap();
            key::segment(&log, seq)
        }

        async fn look(&self, asked: &[(&str, &str, &str)], as_of: &str, gone: Option<&str>) -> Vec<Answer> {
            self.look_for(AppliesTo::Latest, asked, (as_of, gone)).await
        }

        async fn look_for(
            &self,
            applies_to: AppliesTo,
            asked: &[(&str, &str, &str)],
            (as_of, gone): (&str, Option<&str>),
        ) -> Vec<Answer> {
            let asked: Vec<Asked> = asked
                .iter()
                .map(|(key, from, until)| Asked {
                    key: (*key).to_owned(),
                    from: at(from).micros(),
                    until: at(until).micros(),
                    applies_to,
                })
                .collect();
            let (version, as_of, left_out) = (1, at(as_of), Arc::default());
            let looking = Looking { workspace: &self.workspace, version, as_of, left_out };
            let gone: Option<Day> = gone.map(|day| day.parse().unwrap());
            looking.look(&self.table, &asked, &|day| Some(day) != gone).await.unwrap()
        }

        /// Writes a filter of the keys of a day that covers `covered` segments of each lane.
        async fn filter(&self, day: &str, keys: &[&str], covered: u64) {
            let texts = Values::Text(keys.iter().copied().collect());
            let columns = Columns { rows: keys.len(), columns: vec![Column::new("key", texts)] };
            let mut builder = KeyFilterBuilder::new(1, 0..1);
            builder.add(&columns).unwrap();
            let parts = builder.finish().into_iter().map(|(part, _)| part.to_bytes()).collect();
            let applied =
                keys.iter().map(|key| (self.log(day, lane_of(key, LANES)).name(), covered)).collect();
            let head = Head { lanes: Some(LANES), ..Head::of(applied, Timestamp::default()) };
            let day = day.parse().unwrap();
            let at = At { workspace: &self.workspace, version: 1, day, kind: Kind::Predictions };
            assert!(key_filter::write(&self.table, at, 0, head, parts).await.unwrap());
        }
    }

    fn found(text: &str) -> Answer {
        all_of(&[text])
    }

    fn all_of(texts: &[&str]) -> Answer {
        Answer::Found(texts.iter().map(|text| at(text)).collect())
    }

    const LATER: &str = "2026-07-01T00:00:00Z";

    #[tokio::test]
    async fn latest_day_with_the_key_answers() {
        let scene = Scene::new();
        scene.predict("a", &["2026-06-01T10:00:00Z", "2026-06-01T12:00:00Z"], 0).await;
        scene.predict("a", &["2026-06-05T10:00:00Z"], 0).await;
        scene.predict("b", &["2026-06-03T10:00:00Z"], 0).await;
        let all = "2026-05-01T00:00:00Z";
        let asked = [
            ("a", all, "2026-06-30T00:00:00Z"),
            ("a", all, "2026-06-05T09:59:59Z"),
            ("a", all, "2026-06-01T10:00:00Z"),
            ("a", "2026-06-02T00:00:00Z", "2026-06-05T09:59:59Z"),
            ("b", all, "2026-06-30T00:00:00Z"),
            ("c", all, "2026-06-30T00:00:00Z"),
        ];
        let expected = [
            found("2026-06-05T10:00:00Z"),
            found("2026-06-01T12:00:00Z"),
            found("2026-06-01T10:00:00Z"),
            Answer::Nothing,
            found("2026-06-03T10:00:00Z"),
            Answer::Nothing,
        ];
        assert_eq!(scene.look(&asked, LATER, None).await, expected);
        // Filters change no answer.
        for day in ["2026-06-01", "2026-06-05"] {
            scene.filter(day, &["a"], 1).await;
        }
        assert_eq!(scene.look(&asked, LATER, None).await, expected);
        assert_eq!(scene.look(&[], LATER, None).await, []);
    }

    #[tokio::test]
    async fn predictions_stored_after_the_instant_are_ignored() {
        let scene = Scene::new();
        scene.predict("a", &["2026-06-01T10:00:00Z"], 0).await;
        scene.predict("a", &["2026-06-01T12:00:00Z"], 60).await;
        let asked = [("a", "2026-05-01T00:00:00Z", "2026-06-30T00:00:00Z")];
        assert_eq!(scene.look(&asked, "2026-06-01T23:59:59Z", None).await, [Answer::Nothing]);
        let first = [found("2026-06-01T10:00:00Z")];
        assert_eq!(scene.look(&asked, "2026-06-02T00:00:59Z", None).await, first);
        // A filter that covers all of the day changes nothing.
        scene.filter("2026-06-01", &["a"], 2).await;
        assert_eq!(scene.look(&asked, "2026-06-02T00:00:59Z", None).await, first);
        assert_eq!(scene.look(&asked, "2026-06-02T00:01:00Z", None).await, [found("2026-06-01T12:00:00Z")]);
    }

    /// Segments covered by a filter without the key are not read: they may be damaged.
    #[tokio::test]
    async fn keys_absent_from_filter_are_not_read() {
        let scene = Scene::new();
        let key = scene.predict("a", &["2026-06-01T10:00:00Z"], 0).await;
        scene.predict("b", &["2026-05-20T10:00:00Z"], 0).await;
        let asked = [("b", "2026-05-01T00:00:00Z", "2026-06-30T00:00:00Z")];
        let mut item = scene.table.get(&key).await.unwrap().unwrap();
        item.attributes.insert("data".into(), vec![1_u8, 2, 3].into());
        scene.table.put(item, Condition::None).await.unwrap();
        let answers = scene.look(&asked, LATER, None).await;
        assert!(matches!(&answers[..], [Answer::Unreadable(day, _)] if day.to_string() == "2026-06-01"));
        scene.filter("2026-06-01", &["a"], 1).await;
        assert_eq!(scene.look(&asked, LATER, None).await, [found("2026-05-20T10:00:00Z")]);
    }

    #[tokio::test]
    async fn lookup_stops_at_an_expired_day() {
        let scene = Scene::new();
        scene.predict("a", &["2026-06-01T10:00:00Z"], 0).await;
        scene.predict("b", &["2026-06-03T10:00:00Z"], 0).await;
        scene.predict("a", &["2026-06-05T10:00:00Z"], 0).await;
        let day: Day = "2026-06-03".parse().unwrap();
        let (all, late) = ("2026-05-01T00:00:00Z", "2026-06-30T00:00:00Z");
        let asked =
            [("a", all, late), ("a", all, "2026-06-04T00:00:00Z"), ("a", all, "2026-06-02T00:00:00Z")];
        let expected = [found("2026-06-05T10:00:00Z"), Answer::Gone(day), found("2026-06-01T10:00:00Z")];
        assert_eq!(scene.look(&asked, LATER, Some("2026-06-03")).await, expected);
    }

    #[tokio::test]
    async fn lookup_returns_all_predictions_unless_one_is_unreadable() {
        let scene = Scene::new();
        let days = ["2026-06-01T10:00:00Z", "2026-06-03T10:00:00Z", "2026-06-05T10:00:00Z"];
        scene.predict("a", &["2026-06-01T10:00:00Z", "2026-06-01T12:00:00Z"], 0).await;
        let second = scene.predict("a", &days[1..2], 0).await;
        scene.predict("a", &days[2..], 0).await;
        let (early, late) = ("2026-05-01T00:00:00Z", "2026-06-30T00:00:00Z");
        let asked = [
            ("a", early, late),
            ("a", early, "2026-06-04T00:00:00Z"),
            ("a", "2026-06-02T00:00:00Z", "2026-06-02T23:00:00Z"),
        ];
        let look = async |gone| scene.look_for(AppliesTo::All, &asked, (LATER, gone)).await;
        let two = ["2026-06-01T10:00:00Z", "2026-06-01T12:00:00Z"];
        let expected = [
            all_of(&[two[0], two[1], days[1], days[2]]),
            all_of(&[two[0], two[1], days[1]]),
            Answer::Nothing,
        ];
        assert_eq!(look(None).await, expected);
        scene.filter("2026-06-01", &["a"], 1).await;
        assert_eq!(look(None).await, expected, "filters change no answer");
        // Predictions of a deleted day are not included.
        let without = [all_of(&[two[0], two[1], days[2]]), all_of(&two), Answer::Nothing];
        assert_eq!(look(Some("2026-06-03")).await, without);
        let gone = Answer::Gone("2026-06-02".parse().unwrap());
        assert_eq!(look(Some("2026-06-02")).await[1..], [expected[1].clone(), gone]);
        // If one segment is unreadable, no prediction is returned.
        let mut item = scene.table.get(&second).await.unwrap().unwrap();
        item.attributes.insert("data".into(), vec![1_u8, 2, 3].into());
        scene.table.put(item, Condition::None).await.unwrap();
        let answers = look(None).await;
        assert!(matches!(&answers[..2], [Answer::Unreadable(..), Answer::Unreadable(..)]), "{answers:?}");
    }

    #[tokio::test]
    async fn a_segment_that_is_missing_leaves_it_open() {
        let scene = Scene::new();
        let first = scene.predict("a", &["2026-06-01T10:00:00Z"], 0).await;
        scene.predict("a", &["2026-06-01T12:00:00Z"], 0).await;
        scene.table.delete(&first, Condition::None).await.unwrap();
        let asked = [("a", "2026-05-01T00:00:00Z", "2026-06-30T00:00:00Z")];
        let answers = scene.look(&asked, LATER, None).await;
        assert!(matches!(&answers[..], [Answer::Unreadable(..)]), "{answers:?}");
    }
}
