//! Vintages of rollups: rollups of days at some ages, with the parts of their breakdowns.
//!
//! Each is written once, like vintages of evaluations ([`crate::vintage`]): on the condition that there is none. It is
//! rewritten only by an erasure, or [taken back](take_back) if it was made before its time. It names its parts by the
//! digest of their content, so ages share an unchanged part: numbers that outcomes add to are in the rollup itself.
//! Parts are written before the rollup that names them. A part that only later ages name is empty at earlier ones: no
//! such event was known then.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use event::{Day, ErrorKind, Id, Result, lane::Breakdown};
use table::{Condition, Item, Query, Table, item::Value, query_all};

use crate::{
    erased::ErasureEpoch,
    evaluated::digest,
    key::{self, RollupVintageKey},
    projection::Applied,
    vintage::{check_left_out, decide, delete_all, prefix_of, with_prefix},
};

/// Version of the items.
const VERSION: i64 = 1;

/// Maximum number of tries to rewrite the rollups of a day while another writer deletes parts of them.
const TRIES: usize = 10;

/// Rollup of a day at an age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RollupVintage {
    /// Covered prefix of the day's logs.
    pub applied: Applied,
    /// Segments of these logs that are left out because an operator skipped them, by the name of their log.
    pub left_out: BTreeSet<(String, u64)>,
    /// The rollup as text, equal for equal events.
    pub rollup: String,
    /// Rollup with the number of predictions of its features; `None` if the day has no features.
    pub features: Option<String>,
    /// Parts of its breakdowns. A part shared by several ages is held once.
    pub parts: BTreeMap<Breakdown, Arc<str>>,
}

/// Rollups of days, by their ages in hours.
pub type RollupVintages = BTreeMap<Day, BTreeMap<u32, RollupVintage>>;

impl RollupVintage {
    /// Returns whether both cover the same segments.
    pub fn is_of_same(&self, other: &Self) -> bool {
        self.applied == other.applied && self.left_out == other.left_out
    }

    fn to_items(&self, workspace: &Id, day: Day, hours: u32) -> (Item, Vec<Item>) {
        let (mut named, mut items) = (BTreeMap::new(), Vec::with_capacity(self.parts.len()));
        for (breakdown, state) in &self.parts {
            let digest = digest([state]);
            named.insert(breakdown.to_string(), Value::from(format!("{digest:016x}")));
            let key = key::rollup_vintage_part(workspace, day, *breakdown, digest);
            items.push(Item::new(key).with("v", VERSION).with("state", &**state));
        }
        let head = Item::new(key::rollup_vintage(workspace, day, hours)).with("v", VERSION);
        let head = with_prefix(head, &self.applied, &self.left_out).with("state", self.rollup.as_str());
        let head = if named.is_empty() { head } else { head.with("parts", named) };
        let head = match &self.features {
            Some(features) => head.with("features", features.as_str()),
            None => head,
        };
        (head, items)
    }

    fn from_items(head: &Item, parts: &BTreeMap<(Breakdown, u64), Arc<str>>) -> Result<Self> {
        head.check_version(VERSION)?;
        let (applied, left_out) = prefix_of(head)?;
        let mut named: BTreeMap<String, u64> = names_of(head)?;
        let mut states = BTreeMap::new();
        for ((breakdown, digest), state) in parts {
            // Parts of other ages are among these items.
            if named.get(&breakdown.to_string()) == Some(digest) {
                states.insert(*breakdown, Arc::clone(state));
                named.remove(&breakdown.to_string());
            }
        }
        match named.keys().next() {
            Some(name) => Err(head.corrupt(format_args!("its part {name} is missing"))),
            None => Ok(Self {
                applied,
                left_out,
                rollup: head.text("state")?.to_owned(),
                features: head.optional_text("features").map(str::to_owned),
                parts: states,
            }),
        }
    }
}

/// Reads the digests of the parts that a head names.
fn names_of(head: &Item) -> Result<BTreeMap<String, u64>> {
    if !head.attributes.contains_key("parts") {
        return Ok(BTreeMap::new());
    }
    let digest = |(name, value): (&String, &Value)| {
        let Value::S(text) = value else { return None };
        Some((name.clone(), u64::from_str_radix(text, 16).ok()?))
    };
    let digests = head.map("parts")?.iter().map(digest).collect::<Option<_>>();
    digests.ok_or_else(|| head.corrupt("`parts` is not digests"))
}

/// Assembles the rollups of some days from their items.
///
/// # Errors
/// `Corrupt`.
pub fn assemble<'a>(items: impl IntoIterator<Item = &'a Item>) -> Result<RollupVintages> {
    let (mut heads, mut parts) = (Vec::new(), BTreeMap::<Day, BTreeMap<_, Arc<str>>>::new());
    for item in items {
        match key::parse_rollup_vintage(&item.key) {
            Some((day, RollupVintageKey::Head(hours))) => heads.push((day, hours, item)),
            Some((day, RollupVintageKey::Part(breakdown, digest))) => {
                item.check_version(VERSION)?;
                parts.entry(day).or_default().insert((breakdown, digest), item.text("state")?.into());
            }
            None => return Err(item.corrupt("its key is not one of a rollup at an age")),
        }
    }
    let (mut vintages, none) = (RollupVintages::new(), BTreeMap::new());
    for (day, hours, head) in heads {
        let vintage = RollupVintage::from_items(head, parts.get(&day).unwrap_or(&none))?;
        vintages.entry(day).or_default().insert(hours, vintage);
    }
    Ok(vintages)
}

/// Reads the rollups at ages of the days from `from` to `to`: one query.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn between(table: &dyn Table, workspace: &Id, from: Day, to: Day) -> Result<RollupVintages> {
    assemble(&query_all(table, Query::table(key::rollup_vintage_between(workspace, from, to))).await?)
}

/// Reads the last age in hours at which a day has a rollup: one query.
///
/// # Errors
/// Errors of the table.
pub async fn last_age(table: &dyn Table, workspace: &Id, day: Day) -> Result<Option<u32>> {
    let query = Query::table(key::rollup_vintage_heads(workspace, day)).only(&["v"]);
    let items = query_all(table, query).await?;
    let age = |item: &Item| match key::parse_rollup_vintage(&item.key)? {
        (_, RollupVintageKey::Head(hours)) => Some(hours),
        (_, RollupVintageKey::Part(..)) => None,
    };
    Ok(items.iter().filter_map(age).max())
}

/// Writes a rollup at an age, unless there is one, the day is expired, or an erasure has begun or ended since the epoch
/// was read. Returns whether it was written. Parts in `there` exist already.
///
/// # Errors
/// `TooLarge`, when it names too many segments; those of the table.
pub async fn write(
    table: &dyn Table,
    epoch: ErasureEpoch,
    (workspace, day, hours): (&Id, Day, u32),
    vintage: &RollupVintage,
    there: Option<&RollupVintage>,
) -> Result<bool> {
    check_left_out(day, &vintage.left_out)?;
    let (head, mut parts) = vintage.to_items(workspace, day, hours);
    if let Some(there) = there {
        let known: BTreeSet<_> =
            there.to_items(workspace, day, hours).1.into_iter().map(|part| part.key.sk).collect();
        parts.retain(|part| !known.contains(&part.key.sk));
    }
    decide(table, epoch, (workspace, day), &parts, (head, Condition::Absent)).await
}

/// Rewrites the rollups of a day without erased keys, unless the day is expired or another erasure was begun since the
/// epoch was read; then deletes the parts that none of them names any more. During an erasure no other process writes
/// vintages.
///
/// Two processes may do so at once, with different segments left out, and delete parts that the other one is about to name. So
/// both check the result: the last one to check sees the writes of the other, and rewrites everything if a part is missing.
///
/// # Errors
/// `Corrupt`, when a part is missing again and again; those of the table.
pub async fn write_again(
    table: &dyn Table,
    epoch: ErasureEpoch,
    (workspace, day): (&Id, Day),
    vintages: &BTreeMap<u32, RollupVintage>,
) -> Result<bool> {
    let mut tries = 0;
    loop {
        if !replace(table, epoch, (workspace, day), vintages).await? {
            return Ok(false);
        }
        tries += 1;
        match between(table, workspace, day, day).await {
            Err(error) if error.kind() == ErrorKind::Corrupt && tries < TRIES => {}
            found => return found.map(|_| true),
        }
    }
}

/// Deletes the rollups of a day from an age on, the last first, and the parts that no other one names, so that they are
/// made again.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn take_back(table: &dyn Table, workspace: &Id, day: Day, from: u32) -> Result<()> {
    let (mut named, mut early) = (BTreeSet::new(), BTreeMap::new());
    for head in query_all(table, Query::table(key::rollup_vintage_heads(workspace, day))).await? {
        match key::parse_rollup_vintage(&head.key) {
            Some((_, RollupVintageKey::Head(hours))) if hours >= from => _ = early.insert(hours, head),
            _ => named.extend(names_of(&head)?),
        }
    }
    for head in early.into_values().rev() {
        table.delete(&head.key, Condition::None).await?;
    }
    let mut parts =
        query_all(table, Query::table(key::rollup_vintage_parts(workspace, day)).only(&["v"])).await?;
    parts.retain(|part| match key::parse_rollup_vintage(&part.key) {
        Some((_, RollupVintageKey::Part(of, digest))) => !named.contains(&(of.to_string(), digest)),
        _ => false,
    });
    delete_all(table, &parts).await
}

async fn replace(
    table: &dyn Table,
    epoch: ErasureEpoch,
    (workspace, day): (&Id, Day),
    vintages: &BTreeMap<u32, RollupVintage>,
) -> Result<bool> {
    let mut named = BTreeSet::new();
    for (hours, vintage) in vintages {
        let (head, parts) = vintage.to_items(workspace, day, *hours);
        named.extend(parts.iter().map(|part| part.key.sk.clone()));
        if !decide(table, epoch, (workspace, day), &parts, (head, Condition::Exists)).await? {
            return Ok(false);
        }
    }
    let query = Query::table(key::rollup_vintage_parts(workspace, day)).only(&["v"]);
    let mut old = query_all(table, query).await?;
    old.retain(|item| !named.contains(&item.key.sk));
    delete_all(table, &old).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use event::{
        Clock, Kind, Timestamp,
        lane::{By, MAX_LANES},
    };
    use std::sync::Mutex;

    use table::{Call, Layer, item::MAX_ITEM_BYTES, sqlite::SqliteTable};

    use super::*;
    use crate::vintage::MAX_LEFT_OUT;

    /// The longest text of a rollup, as `fold` bounds it.
    const MAX_ROLLUP_BYTES: usize = 72 * 1024;

    const WORKSPACE: &str = "2NBs0sLBnJxEcoDLgVnQdJkhEgV";

    fn vintage(rollup: &str, parts: &[(By, &str)]) -> RollupVintage {
        let part = |(by, state): &(By, &str)| (Breakdown { by: *by, bucket: 3 }, Arc::from(*state));
        RollupVintage {
            applied: Applied::from([("p/00".into(), 3), ("o/00".into(), 2)]),
            left_out: BTreeSet::new(),
            rollup: rollup.to_owned(),
            features: None,
            parts: parts.iter().map(part).collect(),
        }
    }

    fn vintages() -> BTreeMap<u32, RollupVintage> {
        let left_out = [("p/00".to_owned(), 2), ("m/01".to_owned(), 11)].into();
        BTreeMap::from([
            (1, vintage("a", &[])),
            (24, vintage("b", &[(By::Release, "r1"), (By::Tag, "t1")])),
            (72, RollupVintage { left_out, ..vintage("c", &[(By::Release, "r1"), (By::Tag, "t2")]) }),
            (720, RollupVintage { features: Some("f".into()), ..vintage("d", &[(By::Feature, "t2")]) }),
        ])
    }

    #[test]
    fn rollup_vintage_vintages_round_trip_through_items() {
        let (workspace, day) = (Id::parse(WORKSPACE).unwrap(), "2013-06-01".parse().unwrap());
        let mut items = BTreeMap::new();
        for (hours, vintage) in vintages() {
            let (head, parts) = vintage.to_items(&workspace, day, hours);
            items.extend([head].into_iter().chain(parts).map(|item| (item.key.sk.clone(), item)));
        }
        assert_eq!(assemble(items.values()).unwrap(), RollupVintages::from([(day, vintages())]));
        let line = |(sk, item): (&String, &Item)| format!("{sk}: {:?}", item.attributes);
        insta::assert_snapshot!(items.iter().map(line).collect::<Vec<_>>().join("\n"));
        let is_head = |item: &&Item| !item.key.sk.contains("part");
        let missing = assemble(items.values().filter(is_head)).unwrap_err();
        assert!(missing.to_string().contains("its part release/03 is missing"), "{missing}");
        let head = items.values().next().unwrap();
        assert!(assemble([&head.clone().with("v", 2)]).is_err());
        assert!(
            assemble([&head
                .clone()
                .with("parts", BTreeMap::from([("tag/03".to_owned(), Value::from("x"))]))])
            .is_err()
        );
        let other = Item { key: key::vintage(&workspace, day, 1), ..head.clone() };
        assert!(assemble([&other]).is_err());
    }

    #[test]
    fn largest_rollup_vintage_vintage_fits_an_item() {
        let rollup = "x".repeat(MAX_ROLLUP_BYTES);
        let all =
            By::ALL.into_iter().flat_map(|by| (0..=u8::MAX).map(move |bucket| Breakdown { by, bucket }));
        let lanes = |kind: Kind| (0..MAX_LANES).map(move |lane| format!("{}/{lane:02}", kind.letter()));
        let logs: Vec<String> = Kind::STORED.into_iter().flat_map(lanes).collect();
        let greatest = RollupVintage {
            applied: logs.iter().map(|log| (log.clone(), key::MAX_SEQ)).collect(),
            left_out: (0..MAX_LEFT_OUT as u64).map(|seq| (logs[0].clone(), key::MAX_SEQ - seq)).collect(),
            features: Some(rollup.clone()),
            rollup,
            parts: all.map(|breakdown| (breakdown, Arc::from("part"))).collect(),
        };
        let workspace = Id::parse(WORKSPACE).unwrap();
        let (head, parts) = greatest.to_items(&workspace, "2013-06-01".parse().unwrap(), 720);
        assert_eq!(parts.len(), 1_024);
        assert!((180 * 1024..240 * 1024).contains(&head.size()), "{}", head.size());
        assert!(head.size() < MAX_ITEM_BYTES);
    }

    #[tokio::test]
    async fn vintage_is_rewritten_only_by_an_erasure() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let (workspace, day): (_, Day) = (Id::parse(WORKSPACE).unwrap(), "2013-06-01".parse().unwrap());
        assert_eq!(last_age(&table, &workspace, day).await.unwrap(), None);
        let mut before = None;
        for (hours, vintage) in vintages() {
            let at = (&workspace, day, hours);
            assert!(write(&table, ErasureEpoch::default(), at, &vintage, before.as_ref()).await.unwrap());
            assert!(
                !write(&table, ErasureEpoch::default(), at, &RollupVintage::default(), None).await.unwrap()
            );
            before = Some(vintage);
        }
        assert_eq!(between(&table, &workspace, day, day).await.unwrap()[&day], vintages());
        assert_eq!(last_age(&table, &workspace, day).await.unwrap(), Some(720));
        let parts = async || {
            let query = Query::table(key::rollup_vintage_parts(&workspace, day));
            query_all(&table, query).await.unwrap().len()
        };
        // Rollups made by a clock that was ahead are deleted from an age on, with the parts that no other one names.
        assert_eq!(parts().await, 4);
        take_back(&table, &workspace, day, 72).await.unwrap();
        assert_eq!((last_age(&table, &workspace, day).await.unwrap(), parts().await), (Some(24), 2));
        for hours in [72, 720] {
            let at = (&workspace, day, hours);
            assert!(write(&table, ErasureEpoch::default(), at, &vintages()[&hours], None).await.unwrap());
        }
        assert_eq!(parts().await, 4, "what did not change stands once");

        let mut again = vintages();
        for vintage in again.values_mut() {
            vintage.parts.retain(|breakdown, _| breakdown.by != By::Tag);
        }
        assert!(write_again(&table, ErasureEpoch::default(), (&workspace, day), &again).await.unwrap());
        assert_eq!(between(&table, &workspace, day, day).await.unwrap()[&day], again);
        assert_eq!(parts().await, 2, "what no age names is gone");
        // For a day whose events are gone nothing is decided, and nothing is rewritten.
        let gone = crate::expired::Expired { day, heads: Applied::new(), at: Timestamp::default() };
        table.put(gone.to_item(&workspace), Condition::Absent).await.unwrap();
        assert!(!write_again(&table, ErasureEpoch::default(), (&workspace, day), &vintages()).await.unwrap());
        assert!(
            !write(&table, ErasureEpoch::default(), (&workspace, day, 336), &vintage("e", &[]), None)
                .await
                .unwrap()
        );
    }

    /// Another process writes the same day again: its parts come before this one searches for old ones, its heads after.
    #[derive(Debug)]
    struct RuleTransition {
        below: SqliteTable,
        other: (Vec<Item>, Vec<Item>),
        steps: Mutex<(bool, bool)>,
    }

    impl Layer for RuleTransition {
        type Kept = ();
        const ONE_BY_ONE: bool = false;

        fn below(&self) -> &dyn Table {
            &self.below
        }

        async fn before(&self, call: Call<'_>) -> Result<()> {
            let items = {
                let mut steps = self.steps.lock().unwrap();
                match call {
                    Call::Query(_) if !std::mem::replace(&mut steps.0, true) => &self.other.1[..],
                    Call::Delete(_) if !std::mem::replace(&mut steps.1, true) => &self.other.0[..],
                    _ => &[],
                }
            };
            for item in items {
                self.below.put(item.clone(), Condition::None).await?;
            }
            Ok(())
        }
    }

    #[tokio::test]
    async fn concurrent_vintage_rewrites_leave_no_part_missing() {
        let folder = tempfile::tempdir().unwrap();
        let below = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let (workspace, day): (_, Day) = (Id::parse(WORKSPACE).unwrap(), "2013-06-01".parse().unwrap());
        let at = (&workspace, day);
        let old = vintage("a", &[(By::Release, "r1"), (By::Tag, "t1")]);
        assert!(write(&below, ErasureEpoch::default(), (at.0, day, 1), &old, None).await.unwrap());
        let (head, parts) =
            vintage("b", &[(By::Release, "r2"), (By::Tag, "t2")]).to_items(&workspace, day, 1);
        let table = RuleTransition { below, other: (vec![head], parts), steps: Mutex::default() };
        let mine = BTreeMap::from([(1, vintage("c", &[(By::Release, "r3")]))]);
        assert!(write_again(&table, ErasureEpoch::default(), at, &mine).await.unwrap());
        assert_eq!(*table.steps.lock().unwrap(), (true, true));
        assert_eq!(between(&table, at.0, day, day).await.unwrap()[&day], mine);
    }
}
