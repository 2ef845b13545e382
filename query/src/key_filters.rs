//! What need not be read of a day, because its filter of keys says that it has none of those that are wanted.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use event::{
    Day, Error, ErrorKind, Result, Timestamp,
    lane::{Place, Placed, lane_of},
};
use fold::key_filter::{KeyFilterPart, part_of};
use log::{
    active,
    key_filter::{self, At, Head, KINDS},
    scan,
    walk::{Heads, Until, Walk},
};

use crate::{
    filter::{Filter, Times, Why},
    read::{Reading, Unpacked},
};

/// Of more keys than this whole days are seldom passed over, and filters are not read.
const MAX_KEYS: usize = 64;

/// What is passed over of the logs of a day and kind.
#[derive(Debug)]
pub(crate) struct PassedOver {
    /// Of each log the segments up to this one.
    heads: Heads,
    /// The members of families that occur in the day.
    pub(crate) columns: BTreeSet<String>,
    appended_at: Timestamp,
}

impl PassedOver {
    /// A walk through the logs of a day without what is passed over for a filter, and what that is.
    ///
    /// # Errors
    /// Those of [`Reading::walk`] and of the table.
    pub(crate) async fn walk(reading: &Reading, day: Day, filter: &Filter) -> Result<(Walk, Option<Self>)> {
        let passed = Self::of_day(reading, day, filter).await?;
        let walk = reading.walk(day, filter.kind)?;
        let walk = match &passed {
            Some(passed) => walk.beyond(passed.heads.clone()),
            None => walk,
        };
        passed.iter().for_each(|passed| passed.tell(reading));
        Ok((walk, passed))
    }

    /// What is passed over of a day for a filter; `None`, when all of it must be read.
    ///
    /// # Errors
    /// Those of the table.
    async fn of_day(reading: &Reading, day: Day, filter: &Filter) -> Result<Option<Self>> {
        let Some(keys) = filter.bounds.keys.as_deref().filter(|keys| keys.len() <= MAX_KEYS) else {
            return Ok(None);
        };
        if !KINDS.contains(&filter.kind) || !reading.is_kept(day, filter.kind) || depends_on_columns(filter) {
            return Ok(None);
        }
        let version = reading.version.get_or_try_init(async || {
            Ok::<_, Error>(active::load(&*reading.table, &reading.workspace).await?.version)
        });
        let version = *version.await?;
        let at = At { workspace: &reading.workspace, version, day, kind: filter.kind };
        match of_filter(reading, at, keys).await {
            // It is an index: without it the answer is the same.
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::warn!(%error, "a filter of keys cannot be read; all of its day is");
                Ok(None)
            }
            found => found,
        }
    }

    /// The columns of what is passed over, without its rows.
    pub(crate) fn no_rows(&self, day: Day, filter: &Filter) -> Unpacked {
        let fields = filter.kind.fields().iter().map(|field| field.name.to_owned());
        let columns = filter.no_rows(fields.chain(self.columns.iter().cloned()));
        let place = Place { placed: Placed::ByKey, lane: 0, seq: 0 };
        Unpacked { day, place, appended_at: self.appended_at, columns }
    }

    /// Tells an explanation what is passed over.
    fn tell(&self, reading: &Reading) {
        let Some(tally) = reading.hold.tally() else { return };
        for (log, last) in &self.heads {
            (1..=*last).for_each(|seq| tally.segment(log, seq, Some(Why::Filter)));
        }
    }
}

/// Whether the columns of the answer, or an error about them, depend on which segments have a release or time that is wanted.
fn depends_on_columns(filter: &Filter) -> bool {
    let bounds = &filter.bounds;
    let is_narrowed =
        filter.release.is_some() || bounds.releases.is_some() || bounds.times != Times::default();
    let is_member = |name: &String| filter.kind.family(name).is_some();
    is_narrowed && filter.columns.as_ref().is_none_or(|names| names.iter().any(is_member))
}

async fn of_filter(reading: &Reading, at: At<'_>, keys: &BTreeSet<String>) -> Result<Option<PassedOver>> {
    let table = &*reading.table;
    let Some(head) = key_filter::head(table, at).await?.filter(|head| head.parts > 0) else {
        return Ok(None);
    };
    let Some(columns) = head.columns.clone() else { return Ok(None) };
    // Of a prefix that ends within what the filter covers it is not known where.
    if matches!(reading.until, Until::AsOf(as_of) if as_of < head.appended_at) {
        return Ok(None);
    }
    let mut parts = BTreeMap::new();
    let mut possible = BTreeSet::new();
    for key in keys {
        let number = part_of(key, head.parts);
        let part = match parts.entry(number) {
            Entry::Occupied(part) => part.into_mut(),
            Entry::Vacant(part) => {
                let Some(bytes) = key_filter::part(table, at, &head, number).await? else { return Ok(None) };
                let read = KeyFilterPart::from_bytes(&bytes);
                part.insert(read.map_err(|error| Error::corrupt(error.to_string()))?)
            }
        };
        if part.may_hold(key) {
            possible.insert(key.as_str());
        }
    }
    let heads = passed(reading, at, &head, &possible);
    let appended_at = head.appended_at;
    Ok((!heads.is_empty()).then_some(PassedOver { heads, columns, appended_at }))
}

/// The logs that cannot hold one of the keys, as far as the filter and the reading go: all, or those of other lanes.
fn passed(reading: &Reading, at: At<'_>, head: &Head, possible: &BTreeSet<&str>) -> Heads {
    let lanes: Option<BTreeSet<u8>> =
        head.lanes.map(|lanes| possible.iter().map(|key| lane_of(key, lanes)).collect());
    let covered = head.applied.iter().filter_map(|(name, last)| {
        let log = scan::log_named(at.workspace, at.day, name)?;
        let last = match &reading.until {
            Until::Heads(heads) => (*last).min(heads.get(&log).copied()?),
            _ => *last,
        };
        Some((log, last))
    });
    covered
        .filter(|(log, _)| match &lanes {
            _ if possible.is_empty() => true,
            Some(lanes) => !lanes.contains(&log.lane),
            None => false,
        })
        .collect()
}
