//! Identity of a day. Numbers of segments are not enough: a table restored from a backup reaches the same numbers with other
//! events, and an erasure rewrites segments without moving a number.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use event::{Day, ErrorKind, Id, Kind, Result, surrogate::is_surrogate};
use futures::{StreamExt, TryStreamExt, stream};
use log::{
    erased::LAST,
    key::{self, LogId},
    scan,
    segment_item::{ERASED, Segment},
};
use sha2::{Digest, Sha256};
use table::{KeyRange, Pages, Query, Table};

use super::READS;
use crate::moved::hex;

/// Placeholder for the surrogates of an unreadable segment.
const UNREADABLE: &str = "unreadable";

/// Number of bytes kept of a SHA-256.
const DIGEST_BYTES: usize = 16;

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text)[..DIGEST_BYTES])
}

/// Erasures that a workspace has gone through, which identify their history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Erasures {
    /// Number of changes of the turn ([`log::erased::Turn`]); 0 if no key was ever erased.
    pub(super) turns: i64,
    /// The last erasure.
    pub(super) last: Option<Id>,
}

impl Erasures {
    /// Loads the erasures of a workspace: one read.
    pub(super) async fn load(table: &dyn Table, workspace: &Id) -> Result<Self> {
        let Some(item) = table.get(&key::erased(workspace)).await? else { return Ok(Self::default()) };
        let last = item.optional_text(LAST).map(Id::parse).transpose();
        let last = last.map_err(|_| item.corrupt(format!("`{LAST}` is no id")))?;
        Ok(Self { turns: item.int("ver")?, last })
    }
}

/// Erased keys in the events of a day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Erased {
    /// Number of events with such a key.
    pub(super) events: u64,
    /// Digest of the surrogates in each segment; empty if there are none.
    pub(super) surrogates: String,
}

/// Erased keys of days and kinds; days without any are left out.
pub(super) type ErasedOf = BTreeMap<(Day, Kind), Erased>;

/// Finds erased keys in the segments of a range.
pub(super) async fn erased_of(table: &dyn Table, range: KeyRange) -> Result<ErasedOf> {
    let mut found = Vec::new();
    let mut pages = Pages::of(table, Query::table(range).only(&["v", ERASED]));
    while let Some(items) = pages.next().await? {
        for item in items.iter().filter(|item| item.attributes.contains_key(ERASED)) {
            if let Some((log, seq)) = key::parse_segment(&item.key) {
                found.push((log, seq, item.int(ERASED)?.unsigned_abs()));
            }
        }
    }
    let read = found.into_iter().map(|(log, seq, events)| async move {
        let line = format!("{}/{seq} {}\n", log.name(), surrogates(table, &log, seq).await?);
        Ok::<_, event::Error>((log, events, line))
    });
    let mut read = stream::iter(read).buffered(READS);
    let mut all: BTreeMap<_, (u64, String)> = BTreeMap::new();
    while let Some((log, events, line)) = read.try_next().await? {
        let of_day = all.entry((log.day, log.kind)).or_default();
        of_day.0 += events;
        of_day.1 += &line;
    }
    let erased = |(events, lines): (u64, String)| Erased { events, surrogates: digest(&lines) };
    Ok(all.into_iter().map(|(of, found)| (of, erased(found))).collect())
}

/// Returns the surrogates in a segment, sorted. They are random, so a key that is erased again has another one.
async fn surrogates(table: &dyn Table, log: &LogId, seq: u64) -> Result<String> {
    let query = Query::table(key::segments_between(log, seq, seq));
    let items = table::query_all(table, query).await?;
    let unpack = |item| Segment::from_item(item)?.unpack(|name| log.kind.is_key(name));
    let columns = match items.into_iter().next().map(unpack) {
        Some(Ok(columns)) => columns,
        Some(Err(error)) if error.kind() == ErrorKind::Corrupt => return Ok(UNREADABLE.into()),
        Some(Err(error)) => return Err(error),
        // The segment has been deleted since.
        None => return Ok(String::new()),
    };
    let rows = columns.columns.iter().flat_map(|column| (0..columns.rows).map(move |row| column.text(row)));
    let surrogates: BTreeSet<&str> = rows.flatten().filter(|key| is_surrogate(key)).collect();
    Ok(surrogates.into_iter().collect::<Vec<_>>().join(","))
}

/// Returns the history of the heads of some logs: the times and batches of their last segments. Segments never change and follow
/// each other in time, so logs with equal last segments have equal earlier ones.
pub(super) async fn of_heads(table: &dyn Table, heads: &BTreeMap<LogId, u64>) -> Result<String> {
    let read = heads.iter().map(|(log, seq)| async move {
        let mut line = format!("{}/{seq} ", log.name());
        match scan::after(table, log, seq.saturating_sub(1)).await {
            Ok(Some(segment)) => {
                line += &format!("{}/{}", segment.seq, segment.appended_at.micros());
                for part in &segment.batches {
                    _ = write!(line, " {}:{}+{}", part.batch, part.first, part.rows);
                }
            }
            Ok(None) => {}
            Err(error) if error.kind() == ErrorKind::Corrupt => line += UNREADABLE,
            Err(error) => return Err(error),
        }
        Ok::<_, event::Error>(line)
    });
    let lines: Vec<String> = stream::iter(read).buffered(READS).try_collect().await?;
    Ok(digest(&lines.join("\n")))
}
