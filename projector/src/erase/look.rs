//! Looks for keys in all segments of a workspace.

use std::collections::BTreeSet;

use catalog::{Erasure, LeftOfErasure, MAX_UNREADABLE};
use event::{Kind, Result, lane::lane_of};
use log::{
    erased,
    key::{self, LogId},
    scan::{self, LogHead},
    segment_item::Segment,
};
use table::{Item, Query, Table};

use super::is_unreadable;
use crate::caught;

/// Where keys were found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The logs that have them.
    pub(super) left: BTreeSet<LeftOfErasure>,
    /// How many lanes the days of these have.
    pub(super) lanes: Vec<u8>,
    /// The first segments that cannot be read.
    pub(super) unreadable: Vec<String>,
}

impl Found {
    /// How many days they are of.
    pub(super) fn days(&self) -> u64 {
        self.left.iter().map(|left| left.day).collect::<BTreeSet<_>>().len() as u64
    }

    pub(super) fn note_unreadable(unreadable: &mut Vec<String>, log: &LogId, seq: u64) {
        let name = format!("{log}/{seq:010}");
        if unreadable.len() < MAX_UNREADABLE && !unreadable.contains(&name) {
            unreadable.push(name);
        }
    }
}

/// The kinds of events that name keys.
pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    Kind::STORED.into_iter().filter(|kind| kind.fields().iter().any(|field| kind.is_key(field.name)))
}

/// The logs of a day that are written again together.
pub(super) fn left_of(log: &LogId) -> LeftOfErasure {
    LeftOfErasure { day: log.day, is_unmatched: log.kind == Kind::Unmatched }
}

/// Reads all segments that may have keys of an erasure.
///
/// # Errors
/// Those of the table.
pub(super) async fn look(table: &dyn Table, erasure: &Erasure) -> Result<Found> {
    let mut found = Found::default();
    let mut lanes = (None, 1);
    for LogHead { log, .. } in scan::heads(table, &erasure.workspace).await? {
        if !kinds().any(|kind| kind == log.kind) {
            continue;
        }
        let of = (log.day, log.kind);
        if lanes.0 != Some(of) {
            lanes = (Some(of), lanes_of(table, &log).await?);
        }
        if read(table, erasure, (&log, lanes.1), &mut found).await? && !found.lanes.contains(&lanes.1) {
            found.lanes.push(lanes.1);
        }
    }
    Ok(found)
}

/// How many lanes a day and kind has.
async fn lanes_of(table: &dyn Table, log: &LogId) -> Result<u8> {
    match scan::first_of(table, &LogId { lane: 0, ..log.clone() }).await {
        Ok(first) => Ok(first.and_then(|first| first.lanes).unwrap_or(1)),
        Err(error) if is_unreadable(&error) => Ok(1),
        Err(error) => Err(error),
    }
}

/// Reads a log until one of the keys is found in it; whether it was. What cannot be read is noted, and read to the end.
async fn read(
    table: &dyn Table,
    erasure: &Erasure,
    (log, lanes): (&LogId, u8),
    found: &mut Found,
) -> Result<bool> {
    // Of metrics the lane is that of the name.
    let is_of_key = lanes > 1 && log.kind != Kind::Metrics;
    if is_of_key && !erasure.keys.keys().any(|key| lane_of(key, lanes) == log.lane) {
        return Ok(false);
    }
    let mut query = Query::table(key::segments_from(log, 0));
    let mut is_found = false;
    loop {
        let page = table.query(&query).await?;
        for item in page.items {
            let Some((_, seq)) = key::parse_segment(&item.key) else { continue };
            match has(item, erasure) {
                Ok(false) => {}
                Ok(true) => is_found = true,
                Err(_) => Found::note_unreadable(&mut found.unreadable, log, seq),
            }
        }
        // Folds have their turn in between.
        tokio::task::yield_now().await;
        match page.next {
            Some(after) => query.after = Some(after),
            None => break,
        }
    }
    if is_found {
        found.left.insert(left_of(log));
    }
    Ok(is_found)
}

fn has(item: Item, erasure: &Erasure) -> std::result::Result<bool, String> {
    caught::text(|| erased::has(&Segment::from_item(item)?, &erasure.keys))
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
