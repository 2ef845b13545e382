//! Chunks of files: a row is known by the digest of the chunk's bytes and by its index in it, for good,
//! also when other rows were bad when it was stored.
//!
//! A chunk has a marker for each group of days, so that none grows without bound. It holds the rows that
//! are `taken`, and for each log a segment `after` that stands before any other row of the chunk. Segments say
//! which rows they hold. So at any time a row that is stored is taken, or stands behind `after`: a log is
//! written in the marker before the first row goes there, and never again. A writer looks at both, and stores
//! the rows that are good now and not stored yet.

use std::collections::{BTreeMap, BTreeSet};

use event::{Day, Error, ErrorKind, Id, Kind, Result, Timestamp};
use log::{
    batch::{BatchId, after_from_item, after_to_item},
    indexes,
    key::{self, LogId},
};
use table::{Condition, Item, Key, Policy, unless_overtaken};

use super::{Appended, Appender, Receipt, identity, pack::Look};
use crate::{batch::Batch, file::Origin};

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// So many days, from one that is a multiple of it on, are a group: few enough for the logs of a marker.
const GROUP_DAYS: i32 = 256;

/// The group of the rows that name no day. No day is in it.
const WAITING: i32 = i32::MAX;

/// Retries of writes of a chunk's marker, which other imports of the same file change.
const TRIED: Policy<'static> =
    Policy { kind: ErrorKind::Unavailable, ..Policy::of(&"what is stored of this file") };

/// Rows of a chunk, those that are good today and others.
#[derive(Debug)]
pub struct ChunkRows<'a> {
    /// Identity of the chunk.
    pub origin: &'a Origin,
    /// All rows that could be read.
    pub batch: &'a Batch,
    /// Rows to store.
    pub good: &'a [usize],
}

/// The marker of a chunk and a group of days.
struct Marker {
    claimed_at: Timestamp,
    ver: i64,
    after: BTreeMap<LogId, u64>,
    taken: BTreeSet<u32>,
}

/// Key of a marker.
struct ChunkMarker<'a> {
    workspace: &'a Id,
    kind: Kind,
    digest: &'a str,
    group: i32,
}

impl ChunkMarker<'_> {
    fn key(&self) -> Key {
        key::chunk(self.workspace, self.kind, self.digest, self.group)
    }

    fn batch(&self) -> BatchId {
        identity::of_chunk(self.digest, self.group)
    }
}

impl Appender {
    /// Appends those good rows of a chunk that no earlier append has stored.
    ///
    /// # Errors
    /// Errors of the table. After an error the same call may be made again.
    pub async fn append_chunk(&self, workspace: &Id, lanes: u8, chunk: &ChunkRows<'_>) -> Result<Receipt> {
        let (kind, digest) = (chunk.batch.kind, chunk.origin.digest.as_str());
        let good: BTreeSet<usize> = chunk.good.iter().copied().collect();
        let mut appended = Appended::default();
        for (group, mut rows) in groups(chunk.batch) {
            rows.retain(|row| good.contains(row));
            let place = ChunkMarker { workspace, kind, digest, group };
            appended.add(self.append_group(&place, lanes, chunk, rows).await?);
        }
        let mut days = BTreeMap::<Day, usize>::new();
        let (waiting, dated): (Vec<usize>, Vec<usize>) =
            chunk.good.iter().partition(|row| chunk.batch.is_waiting(**row));
        dated.into_iter().for_each(|row| *days.entry(chunk.batch.days[row]).or_default() += 1);
        let (batch, rows, unmatched) = (format!("chunk-{digest}"), chunk.good.len(), waiting.len());
        let Appended { rows: appended, known_later } = appended;
        let replayed = appended == 0;
        Ok(Receipt { batch, kind, rows, days, unmatched, appended, replayed, known_later })
    }

    async fn append_group(
        &self,
        place: &ChunkMarker<'_>,
        lanes: u8,
        chunk: &ChunkRows<'_>,
        rows: Vec<usize>,
    ) -> Result<Appended> {
        let index = |number: u64| chunk.origin.index(number);
        let mut appended = Appended::default();
        let mut tries = TRIED.tries();
        loop {
            tries.next().await?;
            let found = self.marker(place).await?;
            let is_new = found.is_none() && !rows.is_empty();
            let now = self.times.now();
            let mut marker = found.unwrap_or_else(|| Marker::new(now));
            let is_missing = |row: &usize| !marker.taken.contains(&index(chunk.batch.numbers[*row]));
            let missing: Vec<usize> = rows.iter().copied().filter(is_missing).collect();
            let parts = chunk.batch.take(&missing).into_parts();
            // Waiting outcomes stand under the day on which they came first.
            let waits = marker.after.keys().find(|log| log.kind == Kind::Unmatched);
            let arrival = waits.map_or_else(|| now.day(), |log| log.day);
            let to = (place.kind, lanes, arrival);
            let dealt = self.deal(place.workspace, to, parts).await?;
            let before = marker.after.len();
            for dealt in &dealt {
                if !marker.after.contains_key(&dealt.log) {
                    let bound = self.log(&dealt.log).bound().await?;
                    marker.after.insert(dealt.log.clone(), bound);
                }
            }
            if (is_new || marker.after.len() > before) && !self.write_marker(place, &mut marker).await? {
                continue;
            }
            if dealt.is_empty() {
                return Ok(appended);
            }
            let look = |log: &LogId| Look::Behind(marker.after[log]);
            let (some, elsewhere) = self.store_as_dealt(place.batch(), dealt, &look, Some(&index)).await?;
            appended.add(some);
            if !elsewhere.is_empty() {
                // The marker must name the logs that they belong in first.
                continue;
            }
            let taken = missing.iter().map(|row| index(chunk.batch.numbers[*row])).collect();
            if let Err(error) = self.take(place, marker, taken).await {
                // Everything is stored: without it a repeat looks into the logs.
                tracing::warn!(%error, "the marker of a chunk does not say what is stored of it");
            }
            return Ok(appended);
        }
    }

    async fn marker(&self, place: &ChunkMarker<'_>) -> Result<Option<Marker>> {
        let item = self.table.get(&place.key()).await?;
        item.map(|item| Marker::from_item(&item, place.workspace)).transpose()
    }

    /// Replaces the marker that this one was made of; false when another writer was quicker.
    async fn write_marker(&self, place: &ChunkMarker<'_>, marker: &mut Marker) -> Result<bool> {
        let condition = Condition::unchanged(marker.ver);
        marker.ver += 1;
        let written = self.table.put(marker.to_item(place.key()), condition).await;
        unless_overtaken(written).map(|written| written.is_some())
    }

    /// Notes in the marker that rows are stored.
    async fn take(&self, place: &ChunkMarker<'_>, mut marker: Marker, taken: Vec<u32>) -> Result<()> {
        let mut tries = TRIED.tries();
        loop {
            tries.next().await?;
            marker.taken.extend(&taken);
            if self.write_marker(place, &mut marker).await? {
                return Ok(());
            }
            match self.marker(place).await? {
                Some(other) => marker = other,
                None => return Err(Error::corrupt("the marker of a chunk is gone")),
            }
        }
    }
}

impl Marker {
    fn new(now: Timestamp) -> Self {
        Self { claimed_at: now, ver: 0, after: BTreeMap::new(), taken: BTreeSet::new() }
    }

    fn to_item(&self, key: Key) -> Item {
        let taken: Vec<u32> = self.taken.iter().copied().collect();
        Item::new(key)
            .with("v", ITEM_VERSION)
            .with("ver", self.ver)
            .with("claimed_at", self.claimed_at.micros())
            .with("after", after_to_item(&self.after))
            .with("taken", indexes::encode(&taken))
    }

    fn from_item(item: &Item, workspace: &Id) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let taken = indexes::decode(item.bytes("taken")?);
        Ok(Self {
            claimed_at: Timestamp::from_micros(item.int("claimed_at")?)
                .ok_or_else(|| item.corrupt("`claimed_at` is no time"))?,
            ver: item.int("ver")?,
            after: after_from_item(item, workspace)?,
            taken: taken.map_err(|flaw| item.corrupt(format_args!("`taken`: {flaw}")))?.into_iter().collect(),
        })
    }
}

/// The rows of each group of days; those that wait are a group of their own.
fn groups(batch: &Batch) -> BTreeMap<i32, Vec<usize>> {
    let mut groups = BTreeMap::<i32, Vec<usize>>::new();
    for (row, day) in batch.days.iter().enumerate() {
        let group = if batch.is_waiting(row) { WAITING } else { day.number().div_euclid(GROUP_DAYS) };
        groups.entry(group).or_default().push(row);
    }
    groups
}
