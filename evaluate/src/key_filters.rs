//! What a filter of the keys of a day says of some keys, and which logs need not be read for them therefore.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use event::{Error, Result, lane::lane_of};
use fold::key_filter::{KeyFilterPart, part_of};
use log::{
    key_filter::{self, At, Head},
    scan,
    walk::Heads,
};
use table::Table;

/// Those of the keys that an event may have of what a filter covers; `None`, where there are no parts or another filter has taken the
/// place of the one with this head.
///
/// # Errors
/// Those of the table; `Corrupt`, when a part cannot be read.
pub async fn possible<'a>(
    table: &dyn Table,
    at: At<'_>,
    head: &Head,
    keys: impl IntoIterator<Item = &'a str>,
) -> Result<Option<BTreeSet<&'a str>>> {
    if head.parts == 0 {
        return Ok(None);
    }
    let (mut parts, mut possible) = (BTreeMap::new(), BTreeSet::new());
    for key in keys {
        let number = part_of(key, head.parts);
        let part = match parts.entry(number) {
            Entry::Occupied(part) => part.into_mut(),
            Entry::Vacant(part) => {
                let Some(bytes) = key_filter::part(table, at, head, number).await? else { return Ok(None) };
                let read = KeyFilterPart::from_bytes(&bytes);
                part.insert(read.map_err(|error| Error::corrupt(error.to_string()))?)
            }
        };
        if part.may_hold(key) {
            possible.insert(key);
        }
    }
    Ok(Some(possible))
}

/// How far the logs that cannot hold one of the possible keys are covered: all of them, where none is possible, or those of other lanes.
pub fn passed(at: At<'_>, head: &Head, possible: &BTreeSet<&str>) -> Heads {
    let lanes: Option<BTreeSet<u8>> =
        head.lanes.map(|lanes| possible.iter().map(|key| lane_of(key, lanes)).collect());
    let covered = head
        .applied
        .iter()
        .filter_map(|(name, last)| Some((scan::log_named(at.workspace, at.day, name)?, *last)));
    covered
        .filter(|(log, _)| match &lanes {
            _ if possible.is_empty() => true,
            Some(lanes) => !lanes.contains(&log.lane),
            None => false,
        })
        .collect()
}
