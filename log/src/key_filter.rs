//! Key filters of days as items: a head with the covered prefix of the logs, and parts; the key selects the part that
//! says whether the key may occur.
//!
//! Parts are written first, under the digest of all of them, so parts of two writers do not mix; then the head that
//! names them, on the condition that it is as it was read and that the day is not expired; then parts of other digests
//! are deleted. A reader that misses a part was overtaken, and works without the filter.

use std::collections::{BTreeMap, BTreeSet};

use event::{Day, Id, Kind, Result, Timestamp};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use table::{Condition, Item, Key, Query, Table, Write, query_all, unless_overtaken};

use crate::{key, projection::Applied};

/// Kinds of events with filters.
pub const KINDS: [Kind; 2] = [Kind::Predictions, Kind::Outcomes];

/// Version of a head, and of a part; the data of a part has a version of its own.
const ITEM_VERSION: i64 = 1;

/// Number of parts written or deleted at once.
const AT_ONCE: usize = 16;

/// Attribute with the data of a part.
const DATA: &str = "data";

/// Identity of a filter.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The workspace.
    pub workspace: &'a Id,
    /// The version of the projections.
    pub version: u32,
    /// The day.
    pub day: Day,
    /// The kind of events.
    pub kind: Kind,
}

impl At<'_> {
    fn key(&self) -> Key {
        key::key_filter(self.workspace, self.version, self.day, self.kind)
    }
}

/// Events that a filter covers, and its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Number of writes; 0 if there is no filter.
    pub ver: i64,
    /// The covered prefix of each log of the day and kind.
    pub applied: Applied,
    /// Latest `appended_at` of a covered segment.
    pub appended_at: Timestamp,
    /// Number of lanes of the day, if known.
    pub lanes: Option<u8>,
    /// Names of the columns of tags, features and classes that occur, unless they are too many.
    pub columns: Option<BTreeSet<String>>,
    /// Number of distinct keys, by hash.
    pub keys: u64,
    /// Number of parts; 0 if keys cannot be read, so that any key may occur.
    pub parts: u32,
    /// Time at which it was made.
    pub made_at: Timestamp,
    /// Digest of the parts.
    #[serde(with = "hex")]
    pub digest: u64,
}

impl Head {
    /// Head of a filter without parts, made at an instant.
    pub fn of(applied: Applied, made_at: Timestamp) -> Self {
        Self {
            ver: 0,
            applied,
            appended_at: Timestamp::default(),
            lanes: None,
            columns: None,
            keys: 0,
            parts: 0,
            made_at,
            digest: 0,
        }
    }

    fn to_item(&self, at: At<'_>) -> Item {
        Item::record(at.key(), ITEM_VERSION, self)
    }

    /// Decodes an item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_item(item: &Item) -> Result<Self> {
        item.to_record(ITEM_VERSION)
    }
}

/// Reads the head of a filter, if there is one.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn head(table: &dyn Table, at: At<'_>) -> Result<Option<Head>> {
    table.get(&at.key()).await?.as_ref().map(Head::from_item).transpose()
}

/// Reads the heads of the filters of the days from `from` to `to`.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn heads(
    table: &dyn Table,
    workspace: &Id,
    version: u32,
    (from, to): (Day, Day),
) -> Result<BTreeMap<(Day, Kind), Head>> {
    let query = Query::table(key::key_filters_between(workspace, version, from, to));
    let of = |item: &Item| {
        let of = key::parse_key_filter(&item.key);
        let of = of.ok_or_else(|| item.corrupt("its key is not one of a filter"))?;
        Ok(((of.day, of.kind), Head::from_item(item)?))
    };
    query_all(table, query).await?.iter().map(of).collect()
}

/// Reads a part of a filter; `None` if another filter has replaced it since its head was read.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub async fn part(table: &dyn Table, at: At<'_>, head: &Head, number: u32) -> Result<Option<Vec<u8>>> {
    let key = key::key_filter_part(at.workspace, at.version, at.day, at.kind, (head.digest, number));
    let Some(mut item) = table.get(&key).await? else { return Ok(None) };
    item.check_version(ITEM_VERSION)?;
    item.take_bytes(DATA)
}

/// Replaces the filter of version `before` (0 for none). Returns true if no writer was quicker and the day is not
/// expired.
///
/// # Errors
/// Errors of the table.
pub async fn write(
    table: &dyn Table,
    at: At<'_>,
    before: i64,
    head: Head,
    parts: Vec<Vec<u8>>,
) -> Result<bool> {
    let digest = digest(&parts);
    let head = Head { ver: before + 1, parts: parts.len() as u32, digest, ..head };
    let item = |(number, data): (u32, Vec<u8>)| {
        let key = key::key_filter_part(at.workspace, at.version, at.day, at.kind, (digest, number));
        Item::new(key).with("v", ITEM_VERSION).with(DATA, data)
    };
    let items: Vec<Item> = (0..).zip(parts).map(item).collect();
    for some in items.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|part| table.put(part.clone(), Condition::None))).await?;
    }
    let is_kept = Write::Check(key::expired(at.workspace, at.day), Condition::Absent);
    let put = Write::Put(head.to_item(at), Condition::unchanged(before));
    let is_written = unless_overtaken(table.transact(vec![put, is_kept]).await)?.is_some();
    tidy(table, at).await?;
    Ok(is_written)
}

/// Deletes the parts that the head does not name: those of an earlier filter, and those of a writer that came too late
/// or died.
async fn tidy(table: &dyn Table, at: At<'_>) -> Result<()> {
    let named = head(table, at).await?.map(|head| head.digest);
    let range = key::key_filter_parts(at.workspace, at.version, at.day, at.kind);
    let old = query_all(table, Query::table(range).only(&["v"])).await?;
    let is_old = |item: &&Item| key::parse_key_filter(&item.key).is_some_and(|of| of.digest != named);
    let old: Vec<&Item> = old.iter().filter(is_old).collect();
    for some in old.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|item| table.delete(&item.key, Condition::None))).await?;
    }
    Ok(())
}

/// Deletes all filters of a day: the heads first, so that no reader finds one without its parts.
///
/// # Errors
/// Errors of the table. It can be repeated at any time.
pub async fn delete(table: &dyn Table, workspace: &Id, version: u32, day: Day) -> Result<()> {
    for range in [
        key::key_filters_between(workspace, version, day, day),
        key::key_filter_parts_of_day(workspace, version, day),
    ] {
        let items = query_all(table, Query::table(range).only(&["v"])).await?;
        for some in items.chunks(AT_ONCE) {
            try_join_all(some.iter().map(|item| table.delete(&item.key, Condition::None))).await?;
        }
    }
    Ok(())
}

/// Computes the digest of the parts of a filter.
pub fn digest(parts: &[Vec<u8>]) -> u64 {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_le_bytes());
        sha.update(part);
    }
    let digest = sha.finalize();
    digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// Serde form of digests of 64 bits: 16 hexadecimal digits, since numbers of items hold no such number exactly.
pub(crate) mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(digest: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{digest:016x}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        u64::from_str_radix(&String::deserialize(from)?, 16).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use event::Clock;
    use table::sqlite::SqliteTable;

    use super::*;
    use crate::expired::Expired;

    const WORKSPACE: &str = "2NBs0sLBnJxEcoDLgVnQdJkhEgV";

    fn filter() -> Head {
        Head {
            appended_at: Timestamp::parse("2013-06-02T00:00:00Z").unwrap(),
            lanes: Some(4),
            columns: Some(["tag.b".to_owned(), "feature.a".to_owned()].into()),
            keys: 7,
            ..Head::of(Applied::from([("p/00".into(), 3), ("p/02".into(), 2)]), Timestamp::default())
        }
    }

    #[tokio::test]
    async fn written_filter_replaces_only_the_one_read() {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("table"), Clock::system()).unwrap();
        let workspace = Id::parse(WORKSPACE).unwrap();
        let day: Day = "2013-06-01".parse().unwrap();
        let at = At { workspace: &workspace, version: 1, day, kind: Kind::Predictions };
        assert_eq!(head(&table, at).await.unwrap(), None);
        let two = vec![vec![1, 2], vec![3]];
        assert!(write(&table, at, 0, filter(), two.clone()).await.unwrap());
        let first = head(&table, at).await.unwrap().unwrap();
        assert_eq!(first, Head { ver: 1, parts: 2, digest: digest(&two), ..filter() });
        assert_eq!(part(&table, at, &first, 1).await.unwrap(), Some(vec![3]));
        assert_eq!(part(&table, at, &first, 2).await.unwrap(), None);
        // A writer that read nothing comes too late, and leaves no part behind.
        assert!(!write(&table, at, 0, filter(), vec![vec![9]]).await.unwrap());
        let stored = async || {
            let range = key::key_filter_parts(&workspace, 1, day, Kind::Predictions);
            query_all(&table, Query::table(range)).await.unwrap().len()
        };
        assert_eq!((head(&table, at).await.unwrap().unwrap(), stored().await), (first.clone(), 2));
        // One that cannot say its columns or lanes, without parts.
        let unknown = Head::of(Applied::new(), Timestamp::default());
        assert!(write(&table, at, 1, unknown.clone(), Vec::new()).await.unwrap());
        let second = head(&table, at).await.unwrap().unwrap();
        assert_eq!(second, Head { ver: 2, digest: digest(&[]), ..unknown });
        assert_eq!((part(&table, at, &first, 0).await.unwrap(), stored().await), (None, 0));
        let other = At { kind: Kind::Outcomes, ..at };
        assert!(write(&table, other, 0, filter(), two.clone()).await.unwrap());
        let known = heads(&table, &workspace, 1, (day, day)).await.unwrap();
        assert_eq!(known.keys().map(|(_, kind)| *kind).collect::<Vec<_>>(), KINDS);
        delete(&table, &workspace, 1, day).await.unwrap();
        let all = Query::table(key::all_key_filters(&workspace, 1));
        assert_eq!(query_all(&table, all.clone()).await.unwrap(), []);
        // A day whose events are gone gets no filter.
        let gone = Expired { day, heads: Applied::new(), at: Timestamp::default() };
        table.put(gone.to_item(&workspace), Condition::Absent).await.unwrap();
        assert!(!write(&table, at, 0, filter(), two).await.unwrap());
        assert_eq!(query_all(&table, all).await.unwrap(), []);
    }

    /// Stored filters stay readable for good.
    #[test]
    fn stored_form_of_filter_head_stays_stable() {
        let workspace = Id::parse(WORKSPACE).unwrap();
        let day = "2013-06-01".parse().unwrap();
        let at = At { workspace: &workspace, version: 1, day, kind: Kind::Predictions };
        let head = Head { ver: 2, parts: 3, digest: 0xab, ..filter() };
        let item = head.to_item(at);
        assert_eq!(Head::from_item(&item).unwrap(), head);
        insta::assert_snapshot!(format!("{}: {:?}", item.key, item.attributes));
        assert!(Head::from_item(&item.with("v", 2)).is_err());
    }
}
