//! Queries of the filter of a day's keys, and the logs that need not be read as a result.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use event::{Error, Result, lane::lane_of};
use fold::key_filter::{KeyFilterPart, part_of};
use log::{
    key_filter::{self, At, Head},
    scan,
    walk::Heads,
};
use table::Table;

/// Returns the keys that the events covered by a filter may have; `None` if it has no parts or another filter has
/// replaced the one with this head.
///
/// # Errors
/// Errors of the table; `Corrupt` if a part cannot be read.
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

/// Returns the covered prefixes of the logs that cannot hold a possible key: all of them if no key is possible, else
/// those of other lanes.
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
