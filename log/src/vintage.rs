//! Vintages in the table: the evaluation of a day at an age of the day.
//!
//! A vintage is decided once: it is put under the condition that there is none, and never rewritten or deleted by a later fold; but
//! an erasure of values rewrites it, of the same events without these, and a vintage that a clock that was ahead made before its
//! time is [taken back](take_back). Parts of a large one are written before it, under keys with the digest of all of them, so two
//! writers cannot mix theirs. Vintages of a day are written in the order of their ages; one that is missing before a later one is
//! empty: no event of the day was known then.

use std::collections::{BTreeMap, BTreeSet};

use event::{Day, Error, Id, Result, Timestamp};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use table::{Condition, Item, Query, Table, Write, item::Value, query_all, unless_overtaken};

use crate::{
    erased::ErasureEpoch,
    evaluated::digest,
    key::{self, VintagePart},
    projection::{Applied, Projected},
};

/// Mark in the place of an age, for a day with events whose time of knowledge is stated: none of its vintages counts, since the
/// events known at an age change when more of that kind are appended. It is greater than every age.
const STATED: u32 = 99_999;

/// Form of a vintage that is the whole evaluation, and of a part.
const WHOLE: i64 = 1;

/// Form of a vintage whose evaluation stands in parts.
const IN_PARTS: i64 = 2;

/// Version of the item with the instant up to which vintages are made.
const UNTIL_VERSION: i64 = 1;

/// Number of parts written or deleted at once.
const AT_ONCE: usize = 16;

/// Maximum segments that a vintage names as left out.
pub(crate) const MAX_LEFT_OUT: usize = 1_000;

/// Evaluation of a day at an age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vintage {
    /// Prefix of the day's predictions and outcomes that had been appended by then, and the definitions known.
    pub applied: Applied,
    /// Number of these predictions and outcomes, if it is known.
    pub rows: Option<u64>,
    /// Segments of these logs that are not in it because an operator skipped them, by the name of their log.
    pub left_out: BTreeSet<(String, u64)>,
    /// Results by release, in as many texts as are needed for each to fit an item: at least one. It has no slices.
    pub states: Vec<String>,
}

/// Vintages of days, by their ages in hours.
pub type Vintages = BTreeMap<Day, BTreeMap<u32, Vintage>>;

impl Vintage {
    fn to_items(&self, workspace: &Id, day: Day, hours: u32) -> (Item, Vec<Item>) {
        let head = Item::new(key::vintage(workspace, day, hours));
        let head = with_prefix(head, &self.applied, &self.left_out);
        let head = match self.rows {
            Some(rows) => head.with("rows", rows as i64),
            None => head,
        };
        match &self.states[..] {
            [] => (head.with("v", WHOLE).with("state", ""), Vec::new()),
            [state] => (head.with("v", WHOLE).with("state", state.as_str()), Vec::new()),
            states => {
                let digest = digest(states);
                let part = |(part, state): (u32, &String)| {
                    let key = key::vintage_part(workspace, day, hours, VintagePart { digest, part });
                    Item::new(key).with("v", WHOLE).with("state", state.as_str())
                };
                let parts = (0..).zip(states).map(part).collect();
                let head = head.with("v", IN_PARTS).with("digest", format!("{digest:016x}"));
                (head.with("parts", states.len() as i64), parts)
            }
        }
    }

    fn from_items(head: &Item, parts: &BTreeMap<VintagePart, &Item>) -> Result<Self> {
        let states = match head.int("v")? {
            IN_PARTS => {
                let digest = u64::from_str_radix(head.text("digest")?, 16);
                let digest = digest.map_err(|_| head.corrupt("`digest` is none"))?;
                let count: u32 = head.field("parts")?;
                let state = |part| {
                    let item = parts.get(&VintagePart { digest, part });
                    let item =
                        item.ok_or_else(|| head.corrupt(format_args!("its part {part} is missing")))?;
                    item.check_version(WHOLE)?;
                    item.text("state").map(str::to_owned)
                };
                (0..count).map(state).collect::<Result<_>>()?
            }
            _ => {
                head.check_version(WHOLE)?;
                vec![head.text("state")?.to_owned()]
            }
        };
        let (applied, left_out) = prefix_of(head)?;
        Ok(Self { applied, rows: head.field("rows")?, left_out, states })
    }
}

/// Adds a prefix, and the segments left out of it, to a head.
pub(crate) fn with_prefix(head: Item, applied: &Applied, left_out: &BTreeSet<(String, u64)>) -> Item {
    let head = head.with("applied", Value::record(applied));
    let left_out = left_out.iter().map(|(log, seq)| Value::from(format!("{log}/{seq}")));
    let left_out: Vec<Value> = left_out.collect();
    if left_out.is_empty() { head } else { head.with("left_out", Value::L(left_out)) }
}

/// Reads the prefix of a head, and the segments left out of it.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn prefix_of(head: &Item) -> Result<(Applied, BTreeSet<(String, u64)>)> {
    let left_out = match head.attributes.contains_key("left_out") {
        true => head.list("left_out")?.iter().map(|value| left_out(head, value)).collect::<Result<_>>()?,
        false => BTreeSet::new(),
    };
    Ok((Projected::applied_of(head)?, left_out))
}

fn left_out(head: &Item, value: &Value) -> Result<(String, u64)> {
    let parsed = || {
        let Value::S(text) = value else { return None };
        let (log, seq) = text.rsplit_once('/')?;
        Some((log.to_owned(), seq.parse().ok()?))
    };
    parsed().ok_or_else(|| head.corrupt("`left_out` is not segments"))
}

/// Marks a day before events with a stated time of knowledge are appended to it: from now on none of its vintages counts.
///
/// # Errors
/// Errors of the table.
pub async fn note_stated(table: &dyn Table, workspace: &Id, day: Day) -> Result<()> {
    table.put(Item::new(key::vintage(workspace, day, STATED)).with("v", WHOLE), Condition::None).await
}

/// Returns whether a day has that mark.
///
/// # Errors
/// Errors of the table.
pub async fn is_stated(table: &dyn Table, workspace: &Id, day: Day) -> Result<bool> {
    Ok(table.get(&key::vintage(workspace, day, STATED)).await?.is_some())
}

/// Removes that mark, so that vintages of a day count that were made after the last of its events: no more of them come.
///
/// # Errors
/// Errors of the table.
pub async fn settle_stated(table: &dyn Table, workspace: &Id, day: Day) -> Result<()> {
    table.delete(&key::vintage(workspace, day, STATED), Condition::None).await
}

/// Deletes the vintages of a day, and its rollups at ages.
///
/// # Errors
/// Errors of the table.
pub async fn delete(table: &dyn Table, workspace: &Id, day: Day) -> Result<()> {
    for range in
        [key::vintages_between(workspace, day, day), key::rollup_vintage_between(workspace, day, day)]
    {
        let mut items = query_all(table, Query::table(range).only(&["v"])).await?;
        items.retain(|item| !is_of_stated(item));
        delete_all(table, &items).await?;
    }
    Ok(())
}

fn is_of_stated(item: &Item) -> bool {
    key::parse_vintage(&item.key).is_some_and(|(_, hours, _)| hours == STATED)
}

/// Assembles the vintages of some days from their items. A day with the mark of stated times has none.
///
/// # Errors
/// `Corrupt`.
pub fn assemble<'a>(items: impl IntoIterator<Item = &'a Item>) -> Result<Vintages> {
    let (mut heads, mut parts) = (Vec::new(), BTreeMap::<_, BTreeMap<VintagePart, &Item>>::new());
    for item in items {
        match key::parse_vintage(&item.key) {
            Some((day, hours, None)) => heads.push((day, hours, item)),
            Some((day, hours, Some(part))) => {
                parts.entry((day, hours)).or_default().insert(part, item);
            }
            None => return Err(item.corrupt("its key is not one of a vintage")),
        }
    }
    let (mut vintages, none) = (Vintages::new(), BTreeMap::new());
    let stated: BTreeSet<Day> =
        heads.iter().filter(|(_, hours, _)| *hours == STATED).map(|(day, ..)| *day).collect();
    for (day, hours, head) in heads.into_iter().filter(|(day, ..)| !stated.contains(day)) {
        let vintage = Vintage::from_items(head, parts.get(&(day, hours)).unwrap_or(&none))?;
        vintages.entry(day).or_default().insert(hours, vintage);
    }
    Ok(vintages)
}

/// Reads the vintages of the days from `from` to `to`: one query.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn between(table: &dyn Table, workspace: &Id, from: Day, to: Day) -> Result<Vintages> {
    let range = key::vintages_between(workspace, from, to);
    assemble(&query_all(table, Query::table(range)).await?)
}

/// Reads the ages in hours at which a day has vintages.
///
/// # Errors
/// Errors of the table.
pub async fn ages(table: &dyn Table, workspace: &Id, day: Day) -> Result<BTreeSet<u32>> {
    let query = Query::table(key::vintages_between(workspace, day, day)).only(&["v"]);
    let items = query_all(table, query).await?;
    let age = |item: &Item| match key::parse_vintage(&item.key)? {
        (_, hours, None) => Some(hours),
        _ => None,
    };
    Ok(items.iter().filter(|item| !is_of_stated(item)).filter_map(age).collect())
}

/// Writes a vintage, unless there is one, the events of its day are gone, or events were rewritten without their keys since the
/// epoch was read. Returns whether it was written. The events read for it were complete then: a day is marked before its first
/// event is deleted.
///
/// # Errors
/// `TooLarge`, when it names too many segments; those of the table.
pub async fn write(
    table: &dyn Table,
    epoch: ErasureEpoch,
    (workspace, day, hours): (&Id, Day, u32),
    vintage: &Vintage,
) -> Result<bool> {
    check_left_out(day, &vintage.left_out)?;
    put(table, epoch, (workspace, day, hours), (vintage, Condition::Absent)).await
}

/// Rewrites a vintage, of the same events without erased values, unless the events of its day are gone, or another erasure was
/// begun since the epoch was read. Returns whether it was written.
///
/// # Errors
/// Errors of the table.
pub async fn write_again(
    table: &dyn Table,
    epoch: ErasureEpoch,
    at: (&Id, Day, u32),
    vintage: &Vintage,
) -> Result<bool> {
    put(table, epoch, at, (vintage, Condition::Exists)).await
}

/// Deletes the vintages of a day from an age on, the last one first, so that none is missing before a later one: they are to be
/// made again.
///
/// # Errors
/// Errors of the table.
pub async fn take_back(table: &dyn Table, workspace: &Id, day: Day, from: u32) -> Result<()> {
    for hours in ages(table, workspace, day).await?.split_off(&from).into_iter().rev() {
        table.delete(&key::vintage(workspace, day, hours), Condition::None).await?;
        tidy(table, workspace, day, hours).await?;
    }
    Ok(())
}

/// Checks the number of left out segments that a vintage names.
///
/// # Errors
/// `TooLarge`.
pub(crate) fn check_left_out(day: Day, left_out: &BTreeSet<(String, u64)>) -> Result<()> {
    match left_out.len() {
        0..=MAX_LEFT_OUT => Ok(()),
        many => Err(Error::too_large(format!(
            "{many} segments of {day} were skipped, and a vintage names at most {MAX_LEFT_OUT}"
        ))),
    }
}

/// Writes parts, then their head if the condition holds, the events of the day are there, and the epoch is the same. Returns
/// whether it was written.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn decide(
    table: &dyn Table,
    epoch: ErasureEpoch,
    (workspace, day): (&Id, Day),
    parts: &[Item],
    (head, condition): (Item, Condition),
) -> Result<bool> {
    for some in parts.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|part| table.put(part.clone(), Condition::None))).await?;
    }
    let is_kept = Write::Check(key::expired(workspace, day), Condition::Absent);
    let written = table.transact(vec![Write::Put(head, condition), is_kept, epoch.check(workspace)]).await;
    Ok(unless_overtaken(written)?.is_some())
}

/// Deletes items.
///
/// # Errors
/// Errors of the table.
pub(crate) async fn delete_all(table: &dyn Table, items: &[Item]) -> Result<()> {
    for some in items.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|item| table.delete(&item.key, Condition::None))).await?;
    }
    Ok(())
}

async fn put(
    table: &dyn Table,
    epoch: ErasureEpoch,
    (workspace, day, hours): (&Id, Day, u32),
    (vintage, condition): (&Vintage, Condition),
) -> Result<bool> {
    let is_again = condition == Condition::Exists;
    let (head, parts) = vintage.to_items(workspace, day, hours);
    let is_written = decide(table, epoch, (workspace, day), &parts, (head, condition)).await?;
    // A rewritten vintage may have had parts.
    if !parts.is_empty() || is_again {
        tidy(table, workspace, day, hours).await?;
    }
    Ok(is_written)
}

/// Deletes the parts that the vintage does not name: those of a writer that came too late, which deletes them itself, or died.
async fn tidy(table: &dyn Table, workspace: &Id, day: Day, hours: u32) -> Result<()> {
    let head = table.get(&key::vintage(workspace, day, hours)).await?;
    let named = head.as_ref().and_then(|head| u64::from_str_radix(head.optional_text("digest")?, 16).ok());
    let query = Query::table(key::vintage_parts(workspace, day, hours)).only(&["v"]);
    let is_old = |item: &Item| {
        let (.., part) = key::parse_vintage(&item.key)?;
        Some(part.map(|part| part.digest) != named)
    };
    let mut old = query_all(table, query).await?;
    old.retain(|item| is_old(item) == Some(true));
    delete_all(table, &old).await
}

/// Instant up to which the vintages of a workspace are made: each day that had events by then, and an age between the instant
/// before and this one, has the vintage of that age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VintageUntil {
    /// Number that grows by one with each write; 0 when there is none.
    pub ver: i64,
    /// The instant.
    pub at: Timestamp,
}

impl VintageUntil {
    /// Reads it; `None` before the first.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn load(table: &dyn Table, workspace: &Id) -> Result<Option<Self>> {
        let item = table.get(&key::vintage_until(workspace)).await?;
        item.map(|item| item.to_record(UNTIL_VERSION)).transpose()
    }

    /// Writes it in place of the one before. Returns false if another process was quicker.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn write(
        table: &dyn Table,
        workspace: &Id,
        before: Option<Self>,
        at: Timestamp,
    ) -> Result<bool> {
        let before = before.map_or(0, |before| before.ver);
        let until = Self { ver: before + 1, at };
        let item = Item::record(key::vintage_until(workspace), UNTIL_VERSION, &until);
        Ok(unless_overtaken(table.put(item, Condition::unchanged(before)).await)?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use event::Clock;
    use table::sqlite::SqliteTable;

    use super::*;

    const WORKSPACE: &str = "2NBs0sLBnJxEcoDLgVnQdJkhEgV";

    fn vintage(states: &[&str]) -> Vintage {
        Vintage {
            applied: Applied::from([("p/00".into(), 3), ("o/00".into(), 2), ("def".into(), 1)]),
            rows: Some(7),
            left_out: BTreeSet::new(),
            states: states.iter().map(|state| (*state).to_owned()).collect(),
        }
    }

    #[test]
    fn vintages_are_read_as_they_are_written() {
        let (workspace, day) = (Id::parse(WORKSPACE).unwrap(), "2013-06-01".parse().unwrap());
        let skipped = [("p/00".to_owned(), 2), ("o/00".to_owned(), 11)];
        let vintages = [
            (1, vintage(&["{}"])),
            (24, Vintage { rows: None, left_out: skipped.into(), ..vintage(&["{}"]) }),
            (720, vintage(&["a", "b"])),
        ];
        let mut items = Vec::new();
        for (hours, vintage) in &vintages {
            let (head, parts) = vintage.to_items(&workspace, day, *hours);
            items.extend([head].into_iter().chain(parts));
        }
        let read = assemble(&items).unwrap();
        assert_eq!(read, Vintages::from([(day, BTreeMap::from(vintages))]));
        insta::assert_snapshot!(
            items
                .iter()
                .map(|item| format!("{}: {:?}", item.key.sk, item.attributes))
                .collect::<Vec<_>>()
                .join("\n")
        );
        let part = items.pop().unwrap();
        assert!(assemble(&items).unwrap_err().to_string().contains("its part 1 is missing"));
        let other = Item { key: key::vintage_until(&workspace), ..part };
        assert!(assemble([&other]).is_err());
        assert!(assemble([&items[0].clone().with("v", 3)]).is_err());
        assert!(assemble([&items[1].clone().with("left_out", Value::L(vec![Value::from("p")]))]).is_err());
    }

    #[tokio::test]
    async fn what_is_decided_is_never_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let (workspace, day): (_, Day) = (Id::parse(WORKSPACE).unwrap(), "2013-06-01".parse().unwrap());
        let first = vintage(&["a", "b"]);
        assert!(write(&table, ErasureEpoch::default(), (&workspace, day, 24), &first).await.unwrap());
        for later in [vintage(&["c", "d"]), vintage(&["c"]), first.clone()] {
            assert!(!write(&table, ErasureEpoch::default(), (&workspace, day, 24), &later).await.unwrap());
        }
        let vintages = between(&table, &workspace, day, day).await.unwrap();
        assert_eq!(vintages[&day], BTreeMap::from([(24, first)]));
        assert_eq!(ages(&table, &workspace, day).await.unwrap(), BTreeSet::from([24]));
        let parts = query_all(&table, Query::table(key::vintage_parts(&workspace, day, 24))).await.unwrap();
        assert_eq!(parts.len(), 2, "those of the late writer are gone");

        // A day whose events are gone gets no vintage.
        let gone = crate::expired::Expired { day, heads: Applied::new(), at: Timestamp::default() };
        table.put(gone.to_item(&workspace), Condition::Absent).await.unwrap();
        assert!(
            !write(&table, ErasureEpoch::default(), (&workspace, day, 72), &vintage(&["a", "b"]))
                .await
                .unwrap()
        );
        assert_eq!(ages(&table, &workspace, day).await.unwrap(), BTreeSet::from([24]));
        let parts = query_all(&table, Query::table(key::vintage_parts(&workspace, day, 72))).await.unwrap();
        assert_eq!(parts, []);

        // Vintages made by a clock that was ahead are deleted with their parts, from an age on.
        let second = "2013-06-02".parse().unwrap();
        for hours in [1, 24, 72] {
            assert!(
                write(&table, ErasureEpoch::default(), (&workspace, second, hours), &vintage(&["a", "b"]))
                    .await
                    .unwrap()
            );
        }
        take_back(&table, &workspace, second, 24).await.unwrap();
        assert_eq!(ages(&table, &workspace, second).await.unwrap(), BTreeSet::from([1]));
        let left =
            query_all(&table, Query::table(key::vintages_between(&workspace, second, second))).await.unwrap();
        assert_eq!(left.len(), 3);

        let many = (0..=MAX_LEFT_OUT as u64).map(|seq| ("p/00".to_owned(), seq)).collect();
        let refused = write(
            &table,
            ErasureEpoch::default(),
            (&workspace, day, 168),
            &Vintage { left_out: many, ..vintage(&["a"]) },
        )
        .await;
        assert_eq!(refused.unwrap_err().kind(), event::ErrorKind::TooLarge);
    }

    #[tokio::test]
    async fn vintage_instant_moves_only_after_latest_read() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let (workspace, at) = (Id::parse(WORKSPACE).unwrap(), Timestamp::default());
        assert_eq!(VintageUntil::load(&table, &workspace).await.unwrap(), None);
        assert!(VintageUntil::write(&table, &workspace, None, at).await.unwrap());
        assert!(!VintageUntil::write(&table, &workspace, None, at).await.unwrap());
        let first = VintageUntil::load(&table, &workspace).await.unwrap();
        assert_eq!(first, Some(VintageUntil { ver: 1, at }));
        assert!(VintageUntil::write(&table, &workspace, first, at.plus_seconds(60)).await.unwrap());
        assert!(!VintageUntil::write(&table, &workspace, first, at).await.unwrap());
    }
}
