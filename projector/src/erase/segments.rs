//! Segments of erased keys: finds the days that have some, and rewrites them with pseudonyms in the place of keys.

use std::mem::take;

use catalog::{Catalog, Erasure, LeftOfErasure, MAX_UNREADABLE};
use event::{Error, Kind, Result, lane::lane_of, pseudonym::pseudonym_of};
use log::{
    key::{self, LogId},
    merged::{self, Erased},
    scan::{self, LogHead},
};
use table::{Item, MAX_TRANSACTION_BYTES, MAX_TRANSACTION_WRITES, Query, Table, Write};

use super::is_unreadable;
use crate::caught;

/// Maximum segments written in a transaction, beside the erasure itself.
const MAX_WRITES: usize = MAX_TRANSACTION_WRITES / 2;

/// Maximum bytes of these segments: with the erasure and its record they stay below the bound of a transaction.
const MAX_BYTES: usize = MAX_TRANSACTION_BYTES / 2;

/// Kinds of events that name keys.
fn kinds() -> impl Iterator<Item = Kind> {
    Kind::STORED.into_iter().filter(|kind| kind.fields().iter().any(|field| kind.is_key(field.name)))
}

/// Logs of a day that are rewritten together.
fn left_of(log: &LogId) -> LeftOfErasure {
    LeftOfErasure { day: log.day, is_unmatched: log.kind == Kind::Unmatched }
}

/// Items of a log that have events of the keys of an erasure, page by page.
struct Pages<'a> {
    table: &'a dyn Table,
    log: &'a LogId,
    /// Next page; `None` at the end.
    query: Option<Query>,
    /// Last segment that still has an item of its own.
    own: u64,
}

impl<'a> Pages<'a> {
    fn of(table: &'a dyn Table, log: &'a LogId) -> Self {
        Self { table, log, query: Some(Query::table(key::segments_from(log, 0)).as_stored()), own: 0 }
    }

    /// Returns the rewritten forms of the next items that have one of the keys. Unreadable segments are recorded.
    async fn next(&mut self, erasure: &mut Erasure) -> Result<Option<Vec<Erased>>> {
        let Some(query) = self.query.take() else { return Ok(None) };
        let page = self.table.query(&query).await?;
        let mut all = Vec::new();
        for item in page.items {
            let Some((_, seq)) = key::parse_segment(&item.key) else { continue };
            let from = merged::span(&item).map_or(seq, |(_, from, _)| from);
            match caught::text(|| erased_of(item, erasure, self.own)) {
                // A rewritten segment that fits no item stops the erasure, since its key would stay.
                Ok(erased) => {
                    all.extend(erased?);
                    self.own = seq;
                }
                Err(_) => (from..=seq).for_each(|seq| {
                    let (name, known) = (format!("{}/{seq:010}", self.log), &mut erasure.unreadable);
                    if known.len() < MAX_UNREADABLE && !known.contains(&name) {
                        known.push(name);
                    }
                }),
            }
        }
        self.query = page.next.map(|after| Query { after: Some(after), ..query });
        Ok(Some(all))
    }
}

/// Replaces the keys in an item; an error, when it is unreadable.
fn erased_of(item: Item, erasure: &Erasure, counted: u64) -> Result<Result<Option<Erased>>> {
    match merged::erase(item, (&erasure.keys, erasure.with_values), counted) {
        Err(error) if is_unreadable(&error) => Err(error),
        erased => Ok(erased),
    }
}

/// Reads all segments that may have keys of an erasure, records the days that have some, and draws the pseudonyms.
///
/// # Errors
/// `TooLarge`, when a rewritten segment fits no item; errors of the table.
pub(super) async fn look(table: &dyn Table, erasure: &mut Erasure) -> Result<()> {
    let (mut of, mut lanes, mut found) = (None, 1, Vec::new());
    for LogHead { log, .. } in scan::heads(table, &erasure.workspace).await? {
        if !kinds().any(|kind| kind == log.kind) {
            continue;
        }
        if of.replace((log.day, log.kind)) != Some((log.day, log.kind)) {
            lanes = lanes_of(table, &log).await?;
        }
        // Events of metrics are in the lane of their name, not of a key.
        let is_of_key = lanes > 1 && log.kind != Kind::Metrics;
        if is_of_key && !erasure.keys.keys().any(|key| lane_of(key, lanes) == log.lane) {
            continue;
        }
        let (mut pages, mut is_found) = (Pages::of(table, &log), false);
        while let Some(erased) = pages.next(erasure).await? {
            is_found |= !erased.is_empty();
            // Lets folds run in between.
            tokio::task::yield_now().await;
        }
        if is_found {
            erasure.left.insert(left_of(&log));
            found.push(lanes);
        }
    }
    found.sort_unstable();
    found.dedup();
    erasure.keys.iter_mut().for_each(|(key, pseudonym)| *pseudonym = pseudonym_of(key, &found));
    erasure.touched = erasure.left.iter().map(|left| left.day).collect();
    erasure.days = erasure.touched.len() as u64;
    Ok(())
}

/// Number of lanes of a day and kind.
async fn lanes_of(table: &dyn Table, log: &LogId) -> Result<u8> {
    match scan::first_of(table, &LogId { lane: 0, ..log.clone() }).await {
        Ok(first) => Ok(first.and_then(|first| first.lanes).unwrap_or(1)),
        Err(error) if is_unreadable(&error) => Ok(1),
        Err(error) => Err(error),
    }
}

/// Rewrites the segments of a day, as many at once as a transaction may hold, each time with the progress of the erasure.
///
/// # Errors
/// `Conflict`, when another process was quicker, or a segment is being deleted; `TooLarge`, when a rewritten segment
/// fits no item; errors of the table. It may be called again: rewritten segments have none of the keys any more.
pub(super) async fn rewrite(
    table: &dyn Table,
    catalog: &Catalog,
    erasure: &mut Erasure,
    left: LeftOfErasure,
) -> Result<()> {
    let (mut group, mut bytes) = (Vec::new(), 0);
    for kind in kinds() {
        for head in scan::heads_of_kind(table, &erasure.workspace, left.day, kind).await? {
            if left_of(&head.log) != left {
                continue;
            }
            let mut pages = Pages::of(table, &head.log);
            while let Some(all) = pages.next(erasure).await? {
                for erased in all {
                    if group.len() == MAX_WRITES || bytes + erased.bytes > MAX_BYTES {
                        write(catalog, erasure, take(&mut group)).await?;
                        bytes = 0;
                    }
                    bytes += erased.bytes;
                    erasure.rows += erased.rows;
                    group.push(erased.write);
                }
            }
        }
    }
    erasure.left.remove(&left);
    write(catalog, erasure, group).await
}

async fn write(catalog: &Catalog, erasure: &mut Erasure, writes: Vec<Write>) -> Result<()> {
    erasure.segments += writes.len() as u64;
    match catalog.move_erasure(erasure, writes).await? {
        true => Ok(()),
        false => Err(Error::conflict("somebody else was quicker to write segments again")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erasure_searches_exactly_the_kinds_with_keys() {
        let letters: String = kinds().map(Kind::letter).collect();
        assert_eq!(letters, "pomw");
    }
}
