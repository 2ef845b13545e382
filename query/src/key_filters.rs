//! Segments of a day that are not read because the day's filter of keys excludes all requested keys.

use std::collections::BTreeSet;

use evaluate::key_filters::{passed, possible};
use event::{Day, Error, ErrorKind, Result, Timestamp, lane::LogPosition};
use log::{
    active,
    key::LogId,
    key_filter::{self, At, KINDS},
    walk::{Heads, Until, Walk},
};

use crate::{
    filter::{Filter, Times, Why},
    read::{Reading, Unpacked},
};

/// Maximum number of keys for which filters are read. With more keys, whole days are seldom excluded.
const MAX_KEYS: usize = 64;

/// The segments of a day and kind that are passed over.
#[derive(Debug)]
pub(crate) struct PassedOver {
    /// The last segment passed over in each log.
    heads: Heads,
    /// The members of families that occur in the day.
    pub(crate) columns: BTreeSet<String>,
    appended_at: Timestamp,
}

impl PassedOver {
    /// Starts a walk through the logs of a day without the segments that a filter passes over, and returns these too.
    ///
    /// # Errors
    /// Errors of [`Reading::walk`] and of the table.
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

    /// Returns the segments of a day that a filter passes over; `None`, if all must be read.
    ///
    /// # Errors
    /// Errors of the table.
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
            // The filter of keys is an index: without it the answer is the same.
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::warn!(%error, "a filter of keys cannot be read; all of its day is");
                Ok(None)
            }
            found => found,
        }
    }

    /// Returns the columns of the segments passed over, without their rows.
    pub(crate) fn no_rows(&self, day: Day, filter: &Filter) -> Unpacked {
        let fields = filter.kind.fields().iter().map(|field| field.name.to_owned());
        let columns = filter.no_rows(fields.chain(self.columns.iter().cloned()));
        let place = LogPosition::of(0, 0);
        Unpacked { day, place, appended_at: self.appended_at, columns }
    }

    /// Notes the segments passed over in an explanation.
    fn tell(&self, reading: &Reading) {
        let Some(tally) = reading.hold.tally() else { return };
        for (log, last) in &self.heads {
            (1..=*last).for_each(|seq| tally.segment(log, seq, Some(Why::Filter)));
        }
    }
}

/// Returns true if the columns of the answer, or an error about them, depend on the segments with a requested release or time.
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
    // A prefix that ends within the segments covered by the filter has an unknown end.
    if matches!(reading.until, Until::AsOf(as_of) if as_of < head.appended_at) {
        return Ok(None);
    }
    let Some(possible) = possible(table, at, &head, keys.iter().map(String::as_str)).await? else {
        return Ok(None);
    };
    let heads = heads(reading, passed(at, &head, &possible));
    let appended_at = head.appended_at;
    Ok((!heads.is_empty()).then_some(PassedOver { heads, columns, appended_at }))
}

/// Limits the segments passed over to those within the reading.
fn heads(reading: &Reading, passed: Heads) -> Heads {
    let Until::Heads(heads) = &reading.until else { return passed };
    let read = |(log, last): (LogId, u64)| {
        let last = last.min(heads.get(&log).copied()?);
        Some((log, last))
    };
    passed.into_iter().filter_map(read).collect()
}
