//! Reader of a day: the segments of its logs, page by page, up to a bound.
//!
//! A walk reports the faults of a log in [`Note`]s: a number that is missing, a segment that is left out, an item that is no
//! segment. It unpacks nothing, and reads expired days only on request.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use event::{Day, Id, Kind, Result, Timestamp};
use table::{Item, Key, KeyRange, Query, Table};

use crate::{
    key::{self, LogId},
    scan,
    segment_item::KNOWN_AT,
};

/// Number of segments of each log, from its first on.
pub type Heads = BTreeMap<LogId, u64>;

/// Segments by log and number.
pub type Segments = BTreeSet<(LogId, u64)>;

/// Bound of a reading.
#[derive(Clone, Debug)]
pub enum Until {
    /// End of each log, which is before its first hole.
    Now,
    /// Segments whose events, and those of all before them, were known by then ([`crate::segment_item::Segment::known`]).
    AsOf(Timestamp),
    /// Segments that, like all before them, had been appended by then, whatever is stated of their events: once that instant is
    /// closed, it is the same for ever.
    AppendedBy(Timestamp),
    /// Exactly this number of segments of these logs, and none of others.
    Heads(Heads),
}

/// Times at which the events of segments of some logs were known; unknown for an unreadable one.
#[derive(Clone, Debug, Default)]
pub struct Arrivals(BTreeMap<LogId, Vec<(u64, Option<Timestamp>)>>);

impl Arrivals {
    /// Attributes of a segment that hold these times.
    pub const ATTRIBUTES: &[&str] = &["v", "appended_at", KNOWN_AT];

    /// Adds a segment that a walk met after those before it in its log.
    pub fn add(&mut self, segment: Admitted) {
        let Admitted { log, seq, item } = segment;
        self.0.entry(log).or_default().push((seq, known_at(&item)));
    }

    /// Head of each log at an instant, as [`Until::AsOf`] reads it.
    pub fn heads_at(&self, at: Timestamp) -> Heads {
        let head = |segments: &Vec<(u64, Option<Timestamp>)>| {
            let there = segments.iter().take_while(|(_, known)| known.is_none_or(|known| known <= at));
            there.last().map(|(seq, _)| *seq)
        };
        self.0.iter().filter_map(|(log, segments)| Some((log.clone(), head(segments)?))).collect()
    }
}

/// Time at which the events of a segment were known; it is unknown for an unreadable one, which does not end a prefix.
fn known_at(item: &Item) -> Option<Timestamp> {
    stated_at(item).or_else(|| time(item, "appended_at"))
}

fn stated_at(item: &Item) -> Option<Timestamp> {
    time(item, KNOWN_AT)
}

fn time(item: &Item, name: &str) -> Option<Timestamp> {
    item.int(name).ok().and_then(Timestamp::from_micros)
}

/// Heads of a day and kind.
pub fn heads_of<'a>(
    heads: &'a Heads,
    workspace: &Id,
    day: Day,
    kind: Kind,
) -> impl Iterator<Item = (&'a LogId, &'a u64)> + use<'a> {
    let log = |lane| LogId { workspace: workspace.clone(), day, kind, lane };
    heads.range(log(0)..=log(u8::MAX))
}

/// Stored segment that is part of the reading.
#[derive(Debug)]
pub struct Admitted {
    /// Log of the segment.
    pub log: LogId,
    /// Number of the segment.
    pub seq: u64,
    /// Item, with the requested attributes.
    pub item: Item,
}

/// Finding of a walk besides segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Log that is read at least up to this segment.
    Read(LogId, u64),
    /// Segment that was to be left out and is.
    LeftOut(LogId, u64),
    /// Missing segment, at which the reading of the log ends.
    Missing(LogId, u64),
    /// Item under the key of a segment that is none.
    NoSegment(Key),
    /// Log whose first events were known only later than the instant as of which it is read.
    Later(LogId, Timestamp),
    /// Log with a segment that states when its events were known.
    Stated(LogId),
}

/// Walk through the logs of a day and kind.
#[derive(Debug)]
pub struct Walk {
    until: Until,
    left_out: Arc<Segments>,
    queries: VecDeque<(Query, Option<(LogId, u64)>)>,
    /// Numbers of segments of these logs that are part of the reading without being read.
    passed: Heads,
    at: Option<At>,
    notes: Vec<Note>,
}

/// Log that is being read.
#[derive(Debug)]
struct At {
    log: LogId,
    /// Number of the segment that should come next.
    next: u64,
    /// True if further segments are not part of the prefix any more.
    has_ended: bool,
}

impl Walk {
    /// Creates a walk through the logs of `kind` of a day without the segments `left_out`. A segment that is left out may be
    /// missing.
    pub fn new(workspace: &Id, day: Day, kind: Kind, until: Until, left_out: Arc<Segments>) -> Self {
        let queries = match &until {
            Until::Heads(heads) => heads_of(heads, workspace, day, kind)
                .map(|(log, last)| {
                    (Query::table(key::segments_between(log, 1, *last)), Some((log.clone(), *last)))
                })
                .collect(),
            _ => [(Query::table(key::segments_of_kind(workspace, day, kind)), None)].into(),
        };
        Self { until, left_out, queries, passed: Heads::new(), at: None, notes: Vec::new() }
    }

    /// Passes over the given number of segments of these logs of the day and kind, which are part of the reading without being
    /// read: they must be there. The walk must not have begun, and must reach at least as far in these logs.
    #[must_use]
    pub fn beyond(mut self, passed: Heads) -> Self {
        for (log, last) in &passed {
            let left_out = self.left_out.range((log.clone(), 0)..=(log.clone(), *last)).cloned();
            self.notes.extend(left_out.map(|(log, seq)| Note::LeftOut(log, seq)));
            self.notes.push(Note::Read(log.clone(), *last));
        }
        self.queries = self.queries.drain(..).flat_map(|query| behind(query, &passed)).collect();
        Self { passed, ..self }
    }

    /// Returns the segments of the next page; `None` after the last. Only `attributes` are read, when they are named.
    ///
    /// # Errors
    /// `Incomplete`, when a log lacks a segment that [`Until::Heads`] demands; those of the table.
    pub async fn next(
        &mut self,
        table: &dyn Table,
        attributes: Option<&[&str]>,
    ) -> Result<Option<Vec<Admitted>>> {
        let Some((query, until)) = self.queries.pop_front() else { return Ok(None) };
        let asked = match attributes {
            Some(names) => query.clone().only(names),
            None => query.clone(),
        };
        let page = table.query(&asked).await?;
        let mut admitted = Vec::with_capacity(page.items.len());
        for item in page.items {
            admitted.extend(self.admit(item));
        }
        let ended = self.at.as_ref().filter(|at| at.has_ended).map(|at| at.log.clone());
        match (page.next, &until, ended) {
            (None, None, _) => {}
            (None, Some((log, last)), _) => self.check_whole(log, *last)?,
            // The rest of the log need not be read.
            (Some(_), None, Some(log)) => {
                let range = KeyRange { to: query.range.to.clone(), ..key::segments_after(&log) };
                self.queries.push_front((Query::table(range), None));
            }
            (Some(after), ..) => self.queries.push_front((Query { after: Some(after), ..query }, until)),
        }
        Ok(Some(admitted))
    }

    /// Returns the findings since the last call.
    pub fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Returns the segment, if it is part of the reading.
    fn admit(&mut self, item: Item) -> Option<Admitted> {
        let Some((log, seq)) = key::parse_segment(&item.key) else {
            self.notes.push(Note::NoSegment(item.key));
            return None;
        };
        if self.at.as_ref().is_none_or(|at| at.log != log) {
            let next = self.first_of(&log);
            self.at = Some(At { log: log.clone(), next, has_ended: false });
        }
        let at = self.at.as_mut()?;
        if at.has_ended {
            return None;
        }
        let next = at.after_left_out(seq, &self.left_out);
        if seq != next {
            at.has_ended = true;
            self.notes.push(Note::Missing(log, next));
            return None;
        }
        let (until, came_at) = match self.until {
            Until::AsOf(instant) => (Some(instant), known_at(&item)),
            Until::AppendedBy(instant) => (Some(instant), time(&item, "appended_at")),
            Until::Now | Until::Heads(_) => (None, None),
        };
        if let Some((until, came_at)) = until.zip(came_at)
            && came_at > until
        {
            at.has_ended = true;
            if next == 1 {
                self.notes.push(Note::Later(log, came_at));
            }
            return None;
        }
        if stated_at(&item).is_some() {
            self.notes.push(Note::Stated(log.clone()));
        }
        // Missing ones are left out as well: a read version must name them, to be read again.
        self.notes.extend((at.next..next).map(|missing| Note::LeftOut(log.clone(), missing)));
        at.next = seq + 1;
        self.notes.push(Note::Read(log.clone(), seq));
        let place = (log, seq);
        if self.left_out.contains(&place) {
            self.notes.push(Note::LeftOut(place.0, seq));
            return None;
        }
        Some(Admitted { log: place.0, seq, item })
    }

    /// Number of the first segment of a log that is read.
    fn first_of(&self, log: &LogId) -> u64 {
        self.passed.get(log).map_or(1, |last| last + 1)
    }

    /// Checks that all of a log was there.
    fn check_whole(&mut self, log: &LogId, last: u64) -> Result<()> {
        let begun =
            self.at.as_ref().filter(|at| at.log == *log).map_or_else(|| self.first_of(log), |at| at.next);
        let at = At { log: log.clone(), next: begun, has_ended: false };
        let next = at.after_left_out(last + 1, &self.left_out);
        if next > begun {
            self.notes.extend((begun..next).map(|missing| Note::LeftOut(log.clone(), missing)));
            self.notes.push(Note::Read(log.clone(), next - 1));
        }
        let read = next - 1;
        if read == last {
            return Ok(());
        }
        Err(scan::incomplete(log, (1, last), read))
    }
}

/// Splits a query to skip these segments.
fn behind(
    (query, until): (Query, Option<(LogId, u64)>),
    passed: &Heads,
) -> Vec<(Query, Option<(LogId, u64)>)> {
    if let Some((log, last)) = until {
        let first = passed.get(&log).map_or(1, |passed| passed + 1);
        let query = Query::table(key::segments_between(&log, first, last));
        return if first > last { Vec::new() } else { vec![(query, Some((log, last)))] };
    }
    let (mut queries, mut range) = (Vec::new(), query.range);
    for (log, last) in passed {
        // Nothing stands before the first log.
        if log.lane > 0 || !queries.is_empty() {
            let before = KeyRange { to: key::segment(log, 0).sk, ..range.clone() };
            queries.push((Query::table(before), None));
        }
        range.from = key::segment(log, last + 1).sk;
    }
    queries.push((Query::table(range), None));
    queries
}

impl At {
    /// First number that is not left out, from the one that should come next up to `seq`.
    fn after_left_out(&self, seq: u64, left_out: &Segments) -> u64 {
        let is_there = |number: &u64| !left_out.contains(&(self.log.clone(), *number));
        (self.next..seq).find(is_there).unwrap_or(seq)
    }
}

#[cfg(test)]
mod tests {
    use event::{Clock, Column, Columns, ErrorKind, Values};
    use table::{Condition, sqlite::SqliteTable};

    use super::*;
    use crate::segment_item::Segment;

    const MINUTE: i64 = 60;

    fn log() -> LogId {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        scan::log_named(&workspace, "2013-06-01".parse().unwrap(), "p/00").unwrap()
    }

    /// Creates a log that lacks some of its first ten segments. Segment n was appended in minute n.
    async fn lacking(missing: &[u64]) -> (SqliteTable, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let columns = Columns { rows: 1, columns: vec![Column::new("predicted_at", Values::Time(vec![1]))] };
        for seq in (1..=10).filter(|seq| !missing.contains(seq)) {
            let at = Timestamp::default().plus_seconds(seq as i64 * MINUTE);
            let segment = Segment::pack(log(), seq, at, Vec::new(), &columns).unwrap();
            table.put(segment.to_item(), Condition::Absent).await.unwrap();
        }
        (table, folder)
    }

    /// Returns the segments that a walk admits, its end, the segments left out, and the hole that it met.
    async fn walk(
        table: &SqliteTable,
        until: Until,
        left_out: &[u64],
    ) -> Result<(Vec<u64>, Option<u64>, Vec<u64>, Option<u64>)> {
        let left_out = left_out.iter().map(|seq| (log(), *seq)).collect();
        let mut walk = Walk::new(&log().workspace, log().day, Kind::Predictions, until, Arc::new(left_out));
        let (mut admitted, mut read, mut left, mut missing) = (Vec::new(), None, Vec::new(), None);
        while let Some(page) = walk.next(table, None).await? {
            admitted.extend(page.iter().map(|segment| segment.seq));
        }
        for note in walk.notes() {
            match note {
                Note::Read(_, seq) => read = Some(seq),
                Note::LeftOut(_, seq) => left.push(seq),
                Note::Missing(_, seq) => missing = Some(seq),
                Note::NoSegment(key) => panic!("{key}"),
                Note::Later(_, first) => assert!(read.is_none(), "{first}"),
                Note::Stated(log) => panic!("{log}"),
            }
        }
        Ok((admitted, read, left, missing))
    }

    fn heads(last: u64) -> Until {
        Until::Heads([(log(), last)].into())
    }

    #[tokio::test]
    async fn omitted_segments_are_noted_even_when_missing() {
        let (table, _folder) = lacking(&[3, 4]).await;
        let all = (vec![1, 2, 5, 6, 8, 9, 10], Some(10), vec![3, 4, 7], None);
        assert_eq!(walk(&table, Until::Now, &[3, 4, 7]).await.unwrap(), all);
        assert_eq!(walk(&table, heads(10), &[3, 4, 7]).await.unwrap(), all);
        // Two missing segments of which only one is left out are a hole.
        assert_eq!(walk(&table, Until::Now, &[3]).await.unwrap(), (vec![1, 2], Some(2), Vec::new(), Some(4)));
        let error = walk(&table, heads(10), &[3]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incomplete);
    }

    /// A read version made from the notes of a walk is read again in the same way: the same segments, and the same notes.
    #[tokio::test]
    async fn walk_notes_suffice_to_repeat_the_reading() {
        let left_out = [3, 4, 7, 10];
        let (table, _folder) = lacking(&[3, 4, 10]).await;
        for minute in 0..=11 {
            let until = Until::AsOf(Timestamp::default().plus_seconds(minute * MINUTE));
            let first = walk(&table, until, &left_out).await.unwrap();
            let (_, Some(read), left, None) = &first else {
                assert_eq!(minute, 0, "{first:?}");
                continue;
            };
            assert_eq!(walk(&table, heads(*read), left).await.unwrap(), first, "minute {minute}");
        }
        // This holds also when the last segments of the prefix were lost after the read version was given out.
        let expected = (vec![1, 2, 5, 6, 8, 9], Some(10), vec![3, 4, 7, 10], None);
        assert_eq!(walk(&table, heads(10), &left_out).await.unwrap(), expected);
    }

    /// Segment n states that its events were known in minute n, though all were appended in minute 20.
    #[tokio::test]
    async fn what_is_stated_to_be_known_is_read() {
        let (table, _folder) = lacking(&[]).await;
        let minute = |minute: i64| Timestamp::default().plus_seconds(minute * MINUTE);
        for seq in 1..=10 {
            let key = key::segment(&log(), seq);
            let segment = Segment::from_item(table.get(&key).await.unwrap().unwrap()).unwrap();
            let stated = Segment { known_at: Some(segment.appended_at), appended_at: minute(20), ..segment };
            table.put(stated.to_item(), Condition::None).await.unwrap();
        }
        let read = async |until: Until| {
            let mut walk = Walk::new(&log().workspace, log().day, Kind::Predictions, until, Arc::default());
            let mut segments = 0;
            while let Some(page) = walk.next(&table, Some(Arrivals::ATTRIBUTES)).await.unwrap() {
                segments += page.len();
            }
            (segments, walk.notes().contains(&Note::Stated(log())))
        };
        assert_eq!(read(Until::AsOf(minute(4))).await, (4, true));
        assert_eq!(read(Until::AppendedBy(minute(4))).await, (0, false));
        assert_eq!(read(Until::AppendedBy(minute(20))).await, (10, true));
    }

    /// Segments passed over are noted as if they had been read, and those behind them are read, in all lanes.
    #[tokio::test]
    async fn skipped_segments_count_as_read() {
        let (table, _folder) = lacking(&[]).await;
        let lane = |lane| LogId { lane, ..log() };
        let columns = Columns { rows: 1, columns: vec![Column::new("predicted_at", Values::Time(vec![1]))] };
        for (lane_of, seq) in [(2, 1), (2, 2), (3, 1), (7, 1)] {
            let at = Timestamp::default().plus_seconds(seq as i64 * MINUTE);
            let segment = Segment::pack(lane(lane_of), seq, at, Vec::new(), &columns).unwrap();
            table.put(segment.to_item(), Condition::Absent).await.unwrap();
        }
        let read = async |until: Until, passed: Heads| {
            let left_out = [(log(), 3), (log(), 9)].into();
            let walk = Walk::new(&log().workspace, log().day, Kind::Predictions, until, Arc::new(left_out));
            let mut walk = walk.beyond(passed);
            let (mut admitted, mut heads, mut left) = (Vec::new(), Heads::new(), Vec::new());
            while let Some(page) = walk.next(&table, None).await? {
                admitted.extend(page.iter().map(|segment| (segment.log.lane, segment.seq)));
            }
            for note in walk.notes() {
                match note {
                    Note::Read(log, seq) => _ = heads.insert(log, seq),
                    Note::LeftOut(_, seq) => left.push(seq),
                    other => panic!("{other:?}"),
                }
            }
            left.sort_unstable();
            Ok::<_, event::Error>((admitted, heads, left))
        };
        let (all, heads, left) = read(Until::Now, Heads::new()).await.unwrap();
        assert_eq!((all.len(), heads.len(), &left[..]), (12, 4, &[3, 9][..]));
        let untils = [
            Until::Now,
            Until::AsOf(Timestamp::default().plus_seconds(60 * MINUTE)),
            Until::Heads(heads.clone()),
        ];
        for until in untils {
            for passed in [
                vec![(0, 8)],
                vec![(0, 10), (2, 1)],
                vec![(2, 2)],
                vec![(3, 1), (7, 1)],
                vec![(0, 10), (2, 2), (3, 1), (7, 1)],
            ] {
                let passed: Heads = passed.iter().map(|(number, last)| (lane(*number), *last)).collect();
                let (rest, known, left_out) = read(until.clone(), passed.clone()).await.unwrap();
                assert_eq!((&known, &left_out), (&heads, &left), "{passed:?}");
                let is_behind =
                    |(number, seq): &&(u8, u64)| passed.get(&lane(*number)).is_none_or(|last| seq > last);
                assert_eq!(rest, all.iter().filter(is_behind).copied().collect::<Vec<_>>(), "{passed:?}");
            }
        }
    }
}
