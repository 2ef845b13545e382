//! Unmatched outcomes: waiting outcomes, and decisions (matches) about others.
//!
//! **Decisions are the source of truth.** They are numbered without gaps for each segment of unmatched outcomes. Each
//! is put if its number is free, by a writer that has read all earlier ones. So each outcome is decided once, and a
//! decision never changes, except one by a clock that was ahead, in which rows had waited for too long ([`take_back`]).
//! The item of a segment that [waits](Waiting) is an index: the remaining outcomes, and the number of executed
//! decisions. It can be rebuilt from the decisions.

use std::collections::{BTreeMap, BTreeSet};

use event::{Day, Error, Id, Result, Timestamp};
use futures::future::try_join_all;
use segment::bytes::{Checked, Cursor, put_varint, unzigzag, zigzag};
use serde::{Deserialize, Serialize};
use table::{Condition, Item, Key, Query, Table, Write, item::Value, query_all, unless_overtaken};

use crate::{
    batch::{after_from_item, after_to_item},
    erased::ErasureEpoch,
    indexes,
    key::{self, DecisionId, LogId, UnmatchedSegment},
    segment_item::MAX_SEGMENT_ROWS,
};

/// Version of the item of a segment that waits, and of a decision.
const WAITING_VERSION: i64 = 1;
const DECISION_VERSION: i64 = 1;
const TAKEN_VERSION: i64 = 1;

/// Maximum age, in days, of the prediction of an outcome without a date, at its observation.
pub const LOOK_BACK_DAYS: i64 = 90;

/// Maximum days for which an outcome waits.
pub const WAITS_DAYS: i64 = 90;

/// Number of items deleted at once.
const DELETES_AT_ONCE: usize = 16;

/// Maximum predictions labelled by the outcomes of one decision (an outcome that labels none counts as one), so that it
/// fits an item and an append.
pub const MAX_DECIDED: usize = 5_000;
/// Maximum days labelled by the outcomes of one decision, unless it is about one outcome.
pub const MAX_DECIDED_DAYS: usize = 64;

/// Segment with waiting outcomes, or with a decision that is not known to be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Number of writes; 0 before the first.
    pub ver: i64,
    /// Time at which the segment was appended.
    pub arrived_at: Timestamp,
    /// The rows that wait.
    pub left: BTreeSet<u32>,
    /// Number of executed decisions.
    pub decided: u32,
    /// Last search for their predictions.
    pub looked: Option<Looked>,
}

/// Search for predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// Time at which the logs were first seen in this state.
    pub at: Timestamp,
    /// First day that may have one of the predictions.
    pub from: Day,
    /// Digest of this state.
    #[serde(with = "crate::key_filter::hex")]
    pub of: u64,
    /// True if all events in the logs were appended by the instant of the search: then the same digest means that
    /// nothing has come.
    pub is_all: bool,
}

impl Waiting {
    /// Makes the item of a segment with this number of rows, none of them decided.
    pub fn new(arrived_at: Timestamp, rows: usize) -> Self {
        Self { ver: 0, arrived_at, left: (0..rows as u32).collect(), decided: 0, looked: None }
    }

    /// Returns the item after the next decision was executed.
    #[must_use]
    pub fn after(mut self, decision: &Decision) -> Self {
        decision.rows().for_each(|row| _ = self.left.remove(&row));
        self.decided += 1;
        self
    }

    fn to_item(&self, key: Key) -> Item {
        let left: Vec<u32> = self.left.iter().copied().collect();
        let item = Item::new(key)
            .with("v", WAITING_VERSION)
            .with("ver", self.ver)
            .with("arrived_at", self.arrived_at.to_string())
            .with("decided", i64::from(self.decided))
            .with("left", indexes::encode(&left));
        match &self.looked {
            Some(looked) => item.with("looked", Value::record(looked)),
            None => item,
        }
    }

    /// Decodes an item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_item(item: &Item) -> Result<Self> {
        item.check_version(WAITING_VERSION)?;
        let left = indexes::decode(item.bytes("left")?);
        Ok(Self {
            ver: item.int("ver")?,
            arrived_at: item.field("arrived_at")?,
            left: left.map_err(|flaw| item.corrupt(format_args!("`left`: {flaw}")))?.into_iter().collect(),
            decided: item.field("decided")?,
            looked: item.field("looked")?,
        })
    }
}

/// Decision about some outcomes of a segment. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Closed instant of the search, which covers all events appended by then.
    pub as_of: Timestamp,
    /// The rows that label predictions, each with at least one instant in microseconds. No row occurs twice.
    pub matched: BTreeMap<u32, Vec<i64>>,
    /// The rows that have waited for too long, and label nothing.
    pub expired: BTreeSet<u32>,
    /// The rows that would label too many predictions, and label none.
    pub refused: BTreeSet<u32>,
    /// For each log that its outcomes go to, a segment before any of them.
    pub after: BTreeMap<LogId, u64>,
}

impl Decision {
    /// Returns the rows that it decides.
    pub fn rows(&self) -> impl Iterator<Item = u32> {
        self.matched.keys().chain(&self.expired).chain(&self.refused).copied()
    }

    fn to_item(&self, id: &DecisionId) -> Item {
        let set = |rows: &BTreeSet<u32>| indexes::encode(&rows.iter().copied().collect::<Vec<_>>());
        Item::new(key::decision(id))
            .with("v", DECISION_VERSION)
            .with("as_of", self.as_of.to_string())
            .with("matched", encode(&self.matched))
            .with("expired", set(&self.expired))
            .with("refused", set(&self.refused))
            .with("after", after_to_item(&self.after))
    }

    fn from_item(item: &Item, workspace: &Id) -> Result<Self> {
        item.check_version(DECISION_VERSION)?;
        let matched = decode(item.bytes("matched")?);
        let set = |name: &str| -> Result<BTreeSet<u32>> {
            let rows = indexes::decode(item.bytes(name)?);
            let rows = rows.map_err(|flaw| item.corrupt(format_args!("`{name}`: {flaw}")))?;
            Ok(rows.into_iter().collect())
        };
        Ok(Self {
            as_of: item.field("as_of")?,
            matched: matched.map_err(|flaw| item.corrupt(format_args!("`matched`: {flaw}")))?,
            expired: set("expired")?,
            refused: set("refused")?,
            after: after_from_item(item, workspace)?,
        })
    }
}

/// Encodes rows with instants: the number of rows, then for each its distance from the previous one, its number of
/// instants, and the step of each.
fn encode(matched: &BTreeMap<u32, Vec<i64>>) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, matched.len() as u64);
    let (mut next, mut last) = (0, 0i64);
    for (row, judged) in matched {
        put_varint(&mut out, u64::from(row - next));
        put_varint(&mut out, judged.len() as u64);
        for at in judged {
            put_varint(&mut out, zigzag(at.wrapping_sub(last)));
            last = *at;
        }
        next = row + 1;
    }
    out
}

/// Inverts [`encode`].
fn decode(bytes: &[u8]) -> Checked<BTreeMap<u32, Vec<i64>>> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.varint_at_most(MAX_SEGMENT_ROWS, "the number of rows")?;
    let (mut matched, mut next, mut last) = (BTreeMap::new(), 0usize, 0i64);
    for _ in 0..count {
        let row = next + cursor.varint_at_most(MAX_SEGMENT_ROWS, "the rows in between")?;
        if row >= MAX_SEGMENT_ROWS {
            return Err(format!("there is no row {row}").into());
        }
        let several = cursor.varint_at_most(MAX_DECIDED, "the number of instants")?;
        let mut judged = Vec::new();
        for _ in 0..several {
            last = last.wrapping_add(unzigzag(cursor.varint()?));
            judged.push(last);
        }
        if judged.is_empty() {
            return Err(format!("row {row} judges nothing").into());
        }
        matched.insert(row as u32, judged);
        next = row + 1;
    }
    if cursor.remaining() > 0 { Err("bytes are left over".into()) } else { Ok(matched) }
}

/// Returns the last recorded segment of a log of unmatched outcomes.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn taken_up(table: &dyn Table, log: &LogId) -> Result<u64> {
    let Some(item) = table.get(&key::taken_up(log)).await? else { return Ok(0) };
    item.check_version(TAKEN_VERSION)?;
    u64::try_from(item.int("seq")?).map_err(|_| item.corrupt("`seq` is no number of a segment"))
}

/// Records the next segment of a log, with its time of append and number of rows: from now on it waits. Returns true if
/// no other writer was quicker and the day is not expired.
///
/// # Errors
/// Errors of the table.
pub async fn take_up(
    table: &dyn Table,
    segment: &UnmatchedSegment,
    (arrived_at, rows): (Timestamp, usize),
) -> Result<bool> {
    let before = match segment.seq - 1 {
        0 => Condition::Absent,
        before => Condition::Equals("seq", (before as i64).into()),
    };
    let taken =
        Item::new(key::taken_up(&segment.log)).with("v", TAKEN_VERSION).with("seq", segment.seq as i64);
    let mut writes = vec![Write::Put(taken, before), is_kept(&segment.log)];
    if rows > 0 {
        let waiting = Waiting { ver: 1, ..Waiting::new(arrived_at, rows) };
        writes.push(Write::Put(waiting.to_item(key::waiting(segment)), Condition::Absent));
    }
    unless_overtaken(table.transact(writes).await).map(|written| written.is_some())
}

/// Condition that a log's day is not expired.
fn is_kept(log: &LogId) -> Write {
    Write::Check(key::expired(&log.workspace, log.day), Condition::Absent)
}

/// Returns the waiting outcomes of a segment; `None` if it is not recorded yet, or fully decided and executed.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn of_segment(table: &dyn Table, segment: &UnmatchedSegment) -> Result<Option<Waiting>> {
    table.get(&key::waiting(segment)).await?.as_ref().map(Waiting::from_item).transpose()
}

/// Returns waiting segments of a workspace in the order of arrival, after a key; and the last key read, if there are
/// more.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn waiting(
    table: &dyn Table,
    workspace: &Id,
    after: Option<&Key>,
    most: usize,
) -> Result<(Vec<(UnmatchedSegment, Waiting)>, Option<Key>)> {
    let range = key::all_waiting(workspace);
    let mut query = Query::table(range).limit(most);
    if let Some(after) = after {
        query.range.from = format!("{}\0", after.sk);
    }
    let page = table.query(&query).await?;
    let last = page.next.and(page.items.last().map(|item| item.key.clone()));
    let waits = |item: &Item| {
        let segment =
            key::parse_waiting(&item.key).ok_or_else(|| item.corrupt("its key names no segment"))?;
        Ok((segment, Waiting::from_item(item)?))
    };
    Ok((page.items.iter().map(waits).collect::<Result<_>>()?, last))
}

/// Replaces the item of a waiting segment as it was read, or deletes it if all rows are decided. Returns true if no
/// other writer was quicker.
///
/// # Errors
/// Errors of the table.
pub async fn write(table: &dyn Table, segment: &UnmatchedSegment, waiting: &mut Waiting) -> Result<bool> {
    let (key, unchanged) = (key::waiting(segment), Condition::unchanged(waiting.ver));
    let written = if waiting.left.is_empty() {
        table.delete(&key, unchanged).await
    } else {
        waiting.ver += 1;
        table.put(waiting.to_item(key), unchanged).await
    };
    unless_overtaken(written).map(|written| written.is_some())
}

/// Reads the decisions about a segment from one number on.
///
/// # Errors
/// Errors of the table; `Corrupt`, also when one is missing.
pub async fn decisions(
    table: &dyn Table,
    segment: &UnmatchedSegment,
    first: u32,
) -> Result<Vec<(DecisionId, Decision)>> {
    let items = query_all(table, Query::table(key::decisions_from(segment, first))).await?;
    let decision = |(item, number): (&Item, u32)| {
        let id = key::parse_decision(&item.key).filter(|id| id.number == number);
        let id =
            id.ok_or_else(|| Error::corrupt(format!("the decision {number} about {segment} is missing")))?;
        Ok((id, Decision::from_item(item, &segment.log.workspace)?))
    };
    items.iter().zip(first..).map(decision).collect()
}

/// Deletes everything about unmatched outcomes that arrived on an expired day; then nothing can be recorded or decided.
/// Returns false, and deletes nothing, while a decision is not executed, as that needs the events.
///
/// # Errors
/// Errors of the table, and `Corrupt`. It can be repeated at any time.
pub async fn delete(table: &dyn Table, workspace: &Id, day: Day) -> Result<bool> {
    let [waits, taken, decided] = key::unmatched_of_day(workspace, day);
    let waits = query_all(table, Query::table(waits)).await?;
    for item in &waits {
        let segment =
            key::parse_waiting(&item.key).ok_or_else(|| item.corrupt("its key names no segment"))?;
        let next = Waiting::from_item(item)?.decided + 1;
        let left = Query::table(key::decisions_from(&segment, next)).limit(1).only(&["v"]);
        if !query_all(table, left).await?.is_empty() {
            return Ok(false);
        }
    }
    let mut keys: Vec<Key> = waits.into_iter().map(|item| item.key).collect();
    for range in [taken, decided] {
        let items = query_all(table, Query::table(range).only(&["v"])).await?;
        keys.extend(items.into_iter().map(|item| item.key));
    }
    for some in keys.chunks(DELETES_AT_ONCE) {
        try_join_all(some.iter().map(|key| table.delete(key, Condition::None))).await?;
    }
    Ok(true)
}

/// Puts the next decision about its segment. Returns true if no other writer was quicker, the arrival day of its
/// outcomes is not expired, and no events were rewritten by an erasure since the epoch was read.
///
/// # Errors
/// Errors of the table.
pub async fn decide(
    table: &dyn Table,
    epoch: ErasureEpoch,
    id: &DecisionId,
    decision: &Decision,
) -> Result<bool> {
    let log = &id.segment.log;
    let put = Write::Put(decision.to_item(id), Condition::Absent);
    let writes = vec![put, is_kept(log), epoch.check(&log.workspace)];
    unless_overtaken(table.transact(writes).await).map(|written| written.is_some())
}

/// Reads the decisions about outcomes that arrived on a day or later.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn decisions_since(
    table: &dyn Table,
    workspace: &Id,
    day: Day,
) -> Result<Vec<(DecisionId, Decision)>> {
    let items = query_all(table, Query::table(key::decisions_since(workspace, day))).await?;
    let decision = |item: &Item| {
        let id = key::parse_decision(&item.key).ok_or_else(|| item.corrupt("its key is no decision's"))?;
        Ok((id, Decision::from_item(item, workspace)?))
    };
    items.iter().map(decision).collect()
}

/// Corrects a decision by a clock that was ahead: sets `as_of` to at most `now` and, with the time at which its segment
/// was appended, lets rows wait again that had expired. Returns true if no other writer was quicker, as in [`decide`].
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn take_back(
    table: &dyn Table,
    epoch: ErasureEpoch,
    (id, decision): (&DecisionId, &Decision),
    (now, arrived_at): (Timestamp, Option<Timestamp>),
) -> Result<bool> {
    let log = &id.segment.log;
    let mut again = Decision { as_of: decision.as_of.min(now), ..decision.clone() };
    let mut writes = vec![is_kept(log), epoch.check(&log.workspace)];
    if let Some(arrived_at) = arrived_at {
        let rows = std::mem::take(&mut again.expired);
        let waiting = match of_segment(table, &id.segment).await? {
            Some(waiting) => waiting,
            // All rows are decided and executed.
            None => {
                let last = decisions(table, &id.segment, 1).await?.last().map_or(0, |(last, _)| last.number);
                Waiting { decided: last, ..Waiting::new(arrived_at, 0) }
            }
        };
        let unchanged = Condition::unchanged(waiting.ver);
        let left = waiting.left.union(&rows).copied().collect();
        let waiting = Waiting { ver: waiting.ver + 1, left, looked: None, ..waiting };
        writes.push(Write::Put(waiting.to_item(key::waiting(&id.segment)), unchanged));
    }
    writes.push(Write::Put(again.to_item(id), Condition::Exists));
    unless_overtaken(table.transact(writes).await).map(|written| written.is_some())
}

#[cfg(test)]
mod tests {
    use event::{Clock, Kind};
    use proptest::{collection, prelude::*};
    use table::sqlite::SqliteTable;

    use super::*;
    use crate::expired::Expired;

    fn log() -> LogId {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        LogId { workspace, day: "2013-06-01".parse().unwrap(), kind: Kind::Unmatched, lane: 3 }
    }

    fn segment(seq: u64) -> UnmatchedSegment {
        UnmatchedSegment { log: log(), seq }
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn decision() -> Decision {
        let day: Day = "2013-05-31".parse().unwrap();
        let judged = LogId { day, kind: Kind::Outcomes, ..log() };
        Decision {
            as_of: at("2013-06-01T12:00:00Z"),
            matched: [(0, vec![1_370_000_000_000_000]), (2, vec![1_370_000_000_000_001]), (9, vec![-5])]
                .into(),
            expired: [1, 4].into(),
            refused: BTreeSet::new(),
            after: [(judged, 7)].into(),
        }
    }

    /// Stored items stay readable for good.
    #[test]
    fn the_stored_forms_stay_as_they_are() {
        let id = DecisionId { segment: segment(2), number: 1 };
        let decided = decision().to_item(&id);
        assert_eq!(Decision::from_item(&decided, &log().workspace).unwrap(), decision());
        let mut waiting = Waiting::new(at("2013-06-01T10:00:00Z"), 12).after(&decision());
        let waits = waiting.to_item(key::waiting(&segment(2)));
        assert_eq!(Waiting::from_item(&waits).unwrap(), waiting);
        let from = "2013-03-01".parse().unwrap();
        waiting.looked = Some(Looked { at: at("2013-06-01T12:00:00Z"), from, of: 0xab, is_all: true });
        let looked = waiting.to_item(key::waiting(&segment(2)));
        assert_eq!(Waiting::from_item(&looked).unwrap(), waiting);
        let mut of_several = decision();
        of_several.matched.insert(5, vec![-7, 1_370_000_000_000_002, 1_370_000_000_000_003]);
        of_several.refused = [3, 6].into();
        let several = of_several.to_item(&id);
        assert_eq!(Decision::from_item(&several, &log().workspace).unwrap(), of_several);
        let lines =
            [&decided, &waits, &looked, &several].map(|item| format!("{}: {:?}", item.key, item.attributes));
        insta::assert_snapshot!(lines.join("\n"));
        assert!(Decision::from_item(&several.with("v", 2), &log().workspace).is_err());
        assert!(Waiting::from_item(&waits.with("v", 2)).is_err());
    }

    #[test]
    fn largest_decision_and_waiting_list_fit_an_item() {
        let matched =
            (0..MAX_DECIDED as u32).map(|row| (2 * row, vec![if row % 2 == 0 { i64::MAX / 4 } else { 0 }]));
        let lane = |day: i32, lane| LogId {
            day: Timestamp::default().plus_seconds(i64::from(day) * 86_400).day(),
            lane,
            kind: Kind::Outcomes,
            ..log()
        };
        let logs = (0..MAX_DECIDED_DAYS as i32).flat_map(|day| (0..16).map(move |number| (day, number)));
        let after = logs.map(|(day, number)| (lane(15_000 + day, number), key::MAX_SEQ)).collect();
        let expired = (0..MAX_DECIDED as u32).map(|row| 2 * row + 1).collect();
        let greatest = Decision { matched: matched.collect(), expired, after, ..decision() };
        let item = greatest.to_item(&DecisionId { segment: segment(1), number: 1 });
        assert!(item.size() < 200 * 1024, "{} bytes", item.size());
        let all = (0..MAX_DECIDED as i64).map(|n| if n % 2 == 0 { i64::MAX / 4 } else { 0 });
        let refused = (0..MAX_DECIDED as u32).map(|row| 2 * row).collect();
        let several =
            Decision { matched: [(1, all.collect())].into(), expired: BTreeSet::new(), refused, ..greatest };
        let item = several.to_item(&DecisionId { segment: segment(1), number: 1 });
        assert!(item.size() < 200 * 1024, "{} bytes", item.size());
        let mut waits = Waiting::new(at("2013-06-01T10:00:00Z"), MAX_SEGMENT_ROWS);
        waits.left.retain(|row| row % 3 != 0 || row % 7 == 0);
        assert!(waits.to_item(key::waiting(&segment(1))).size() < 20 * 1024);
    }

    #[tokio::test]
    async fn each_unmatched_outcome_is_decided_once() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let arrived = at("2013-06-01T10:00:00Z");
        let here = async || waiting(&table, &log().workspace, None, 10).await.unwrap().0;
        // Segments are taken up one after the other, each once.
        assert!(!take_up(&table, &segment(2), (arrived, 3)).await.unwrap());
        assert!(take_up(&table, &segment(1), (arrived, 10)).await.unwrap());
        assert!(!take_up(&table, &segment(1), (arrived, 10)).await.unwrap());
        assert!(take_up(&table, &segment(2), (arrived, 0)).await.unwrap(), "an empty one waits for nothing");
        assert!(take_up(&table, &segment(3), (arrived, 1)).await.unwrap());
        assert_eq!(taken_up(&table, &log()).await.unwrap(), 3);
        let both = here().await;
        assert_eq!(both.iter().map(|(segment, _)| segment.seq).collect::<Vec<_>>(), [1, 3]);
        let (some, next) = waiting(&table, &log().workspace, None, 1).await.unwrap();
        assert_eq!(some, both[..1]);
        assert_eq!(
            waiting(&table, &log().workspace, next.as_ref(), 9).await.unwrap(),
            (both[1..].to_vec(), None)
        );
        // Two workers know the same, and one of them decides.
        let (mut mine, mut others) = (both[0].1.clone(), both[0].1.clone());
        let id = |number| DecisionId { segment: segment(1), number };
        assert!(decide(&table, ErasureEpoch::default(), &id(1), &decision()).await.unwrap());
        assert!(
            !decide(
                &table,
                ErasureEpoch::default(),
                &id(1),
                &Decision { matched: [(0, vec![9])].into(), ..decision() }
            )
            .await
            .unwrap()
        );
        let known = decisions(&table, &segment(1), 1).await.unwrap();
        assert_eq!(known, [(id(1), decision())]);
        mine = mine.after(&known[0].1);
        assert_eq!(mine.left, [3, 5, 6, 7, 8].into());
        assert!(write(&table, &segment(1), &mut mine).await.unwrap());
        others = others.after(&known[0].1);
        assert!(!write(&table, &segment(1), &mut others).await.unwrap(), "it was carried out already");
        assert_eq!(here().await[0].1, mine);
        // When all is decided nothing is left but the decisions.
        let rest = Decision { matched: BTreeMap::new(), expired: mine.left.clone(), ..decision() };
        assert!(decide(&table, ErasureEpoch::default(), &id(2), &rest).await.unwrap());
        mine = mine.after(&rest);
        assert!(write(&table, &segment(1), &mut mine).await.unwrap());
        assert_eq!(here().await.len(), 1);
        assert_eq!(decisions(&table, &segment(1), 2).await.unwrap(), [(id(2), rest)]);
        assert_eq!(decisions(&table, &segment(1), 3).await.unwrap(), []);
        // One that is missing is no end.
        table.delete(&key::decision(&id(1)), Condition::None).await.unwrap();
        assert!(decisions(&table, &segment(1), 1).await.is_err());
    }

    #[tokio::test]
    async fn decision_is_kept_until_carried_out() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        assert!(take_up(&table, &segment(1), (Timestamp::default(), 10)).await.unwrap());
        let id = DecisionId { segment: segment(1), number: 1 };
        assert!(decide(&table, ErasureEpoch::default(), &id, &decision()).await.unwrap());
        let workspace = log().workspace;
        assert!(!delete(&table, &workspace, log().day).await.unwrap());
        let (some, _) = waiting(&table, &workspace, None, 9).await.unwrap();
        let mut after = some[0].1.clone().after(&decision());
        assert!(write(&table, &segment(1), &mut after).await.unwrap());
        assert!(delete(&table, &workspace, "2013-06-02".parse().unwrap()).await.unwrap());
        assert_eq!(taken_up(&table, &log()).await.unwrap(), 1, "of another day");
        assert!(delete(&table, &workspace, log().day).await.unwrap());
        assert_eq!(taken_up(&table, &log()).await.unwrap(), 0);
        assert_eq!(decisions(&table, &segment(1), 1).await.unwrap(), []);
        assert_eq!(waiting(&table, &workspace, None, 9).await.unwrap(), (Vec::new(), None));
    }

    #[tokio::test]
    async fn what_expired_too_early_waits_again() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let (now, epoch, workspace) = (at("2013-06-02T00:00:00Z"), ErasureEpoch::default(), log().workspace);
        assert!(take_up(&table, &segment(1), (now, 10)).await.unwrap());
        let id = |number| DecisionId { segment: segment(1), number };
        let early = |matched: &[u32], expired: &[u32]| Decision {
            as_of: at("2013-09-02T00:00:00Z"),
            matched: matched.iter().map(|row| (*row, vec![5])).collect(),
            expired: expired.iter().copied().collect(),
            refused: BTreeSet::new(),
            after: BTreeMap::new(),
        };
        let mut left = of_segment(&table, &segment(1)).await.unwrap().unwrap();
        for (number, decision) in [(1, early(&[0, 1], &[2, 3])), (2, early(&[4, 5, 6, 7, 8], &[9]))] {
            assert!(decide(&table, epoch, &id(number), &decision).await.unwrap());
            left = left.after(&decision);
            assert!(write(&table, &segment(1), &mut left).await.unwrap());
        }
        assert_eq!(of_segment(&table, &segment(1)).await.unwrap(), None);
        let known = decisions_since(&table, &workspace, log().day).await.unwrap();
        assert_eq!(known.len(), 2);
        assert_eq!(decisions_since(&table, &workspace, now.day()).await.unwrap(), []);
        for (id, decision) in &known {
            assert!(take_back(&table, epoch, (id, decision), (now, Some(now))).await.unwrap());
        }
        let left = of_segment(&table, &segment(1)).await.unwrap().unwrap();
        assert_eq!((left.left, left.decided, left.arrived_at), ([2, 3, 9].into(), 2, now));
        let judged = Decision { as_of: now, ..early(&[0, 1], &[]) };
        assert_eq!(decisions(&table, &segment(1), 1).await.unwrap()[0].1, judged);
    }

    #[tokio::test]
    async fn unmatched_outcomes_of_expired_day_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let gone = Expired { day: log().day, heads: BTreeMap::new(), at: Timestamp::default() };
        table.put(gone.to_item(&log().workspace), Condition::Absent).await.unwrap();
        assert!(!take_up(&table, &segment(1), (Timestamp::default(), 1)).await.unwrap());
        let id = DecisionId { segment: segment(1), number: 1 };
        assert!(!decide(&table, ErasureEpoch::default(), &id, &decision()).await.unwrap());
        assert_eq!(waiting(&table, &log().workspace, None, 9).await.unwrap(), (Vec::new(), None));
    }

    proptest! {
        #[test]
        fn rows_with_instants_round_trip(
            matched in collection::btree_map(0u32..MAX_SEGMENT_ROWS as u32, collection::vec(any::<i64>(), 1..4), 0..50)
        ) {
            prop_assert_eq!(decode(&encode(&matched)).unwrap(), matched);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&bytes);
        }
    }
}
