//! Fold of the log of a day: its rollup and the parts of its breakdowns.
//!
//! Each part is an item of its own, with the segments that it covers: for every log the last segment that changed it.
//! Parts are written before the rollup, so after a crash in between a part is ahead of it. The segments are then folded
//! again from the rollup's position, and a part takes only those after its own. A missing part covers no segment of the
//! rollup.

use std::collections::BTreeMap;

use catalog::Noted;
use event::{Kind, Result};
use fold::{
    Delta, Rollup,
    rollup::{Folding, Merge, Part},
};
use futures::future::try_join_all;
use log::{
    key::{self, Breakdown, LogId, Projection},
    projection::{Applied, Projected},
};
use table::{Item, KeyRange, Query, Table, query_all};

use crate::{WorkspaceDay, events::Found};

/// Number of parts read or written at once.
const PARTS_AT_ONCE: usize = 16;

/// A part while segments are folded into it.
#[derive(Clone, Debug)]
pub(crate) struct PartFold {
    stored: Projected,
    /// Last segment of each log that changed it.
    pub(crate) applied: Applied,
    /// State of the part.
    pub(crate) part: Part,
}

impl PartFold {
    fn empty(breakdown: Breakdown) -> Self {
        Self { stored: Projected::empty(), applied: Applied::new(), part: Part::of(breakdown.by) }
    }

    fn read(breakdown: Breakdown, item: &Item) -> Result<Self> {
        let stored = Projected::from_item(item)?;
        let part = Part::from_state(breakdown.by, &stored.state).map_err(|error| item.corrupt(error))?;
        Ok(Self { applied: stored.applied.clone(), stored, part })
    }

    /// State as it was read.
    pub(crate) fn stored_state(&self) -> &str {
        &self.stored.state
    }
}

/// A day while segments are folded into it.
#[derive(Debug)]
pub(crate) struct DayFold<'a> {
    /// Source of the parts; a day folded from nothing reads none.
    source: Option<Source<'a>>,
    /// Kind of the fold.
    pub(crate) folding: Folding,
    /// True if any of the segments has features.
    pub(crate) has_features: bool,
    /// The rollup.
    pub(crate) rollup: Rollup,
    /// Parts that segments touched.
    pub(crate) parts: BTreeMap<Breakdown, PartFold>,
    /// Metrics of runs, to be recorded before the rollup is written.
    pub(crate) runs: Noted,
    /// Amount that was folded in.
    pub(crate) taken: Taken,
}

/// Amount that was folded into a day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Number of events, by kind.
    pub rows: BTreeMap<Kind, u64>,
    /// Bytes of packed events unpacked.
    pub bytes: u64,
}

impl Taken {
    pub(crate) fn note(&mut self, segment: &Found) {
        *self.rows.entry(segment.kind()).or_default() += segment.rows() as u64;
        self.bytes += segment.packed_bytes() as u64;
    }
}

impl<'a> DayFold<'a> {
    /// Continues from the stored state.
    pub(crate) fn stored(
        table: &'a dyn Table,
        version: u32,
        day: &'a WorkspaceDay,
        (folding, rollup): (Folding, Rollup),
    ) -> Self {
        let source = Source { table, version, day };
        Self { source: Some(source), rollup, ..Self::fresh(folding) }
    }

    /// Begins without any state.
    pub(crate) fn fresh(folding: Folding) -> Self {
        Self {
            source: None,
            folding,
            has_features: false,
            rollup: Rollup::default(),
            parts: BTreeMap::new(),
            runs: Noted::default(),
            taken: Taken::default(),
        }
    }

    /// Returns whether the fold is written, and not only compared with the stored one.
    pub(crate) fn is_written(&self) -> bool {
        self.source.is_some()
    }

    /// Adds segment `seq` of a log, as folded into `delta`.
    pub(crate) async fn add(&mut self, log: &LogId, seq: u64, delta: &Delta) -> Result<()> {
        self.load(delta).await?;
        self.rollup.merge(&delta.rollup);
        for (breakdown, part) in &delta.parts {
            let known = self.parts.entry(*breakdown).or_insert_with(|| PartFold::empty(*breakdown));
            let applied = known.applied.entry(log.name()).or_default();
            if seq > *applied {
                *applied = seq;
                known.part.merge(part);
            }
        }
        Ok(())
    }

    /// Reads the parts that this segment is the first to touch.
    async fn load(&mut self, delta: &Delta) -> Result<()> {
        let Some(source) = self.source else { return Ok(()) };
        let missing: Vec<Breakdown> =
            delta.parts.keys().filter(|breakdown| !self.parts.contains_key(breakdown)).copied().collect();
        for some in missing.chunks(PARTS_AT_ONCE) {
            let reads = some.iter().map(|breakdown| source.read(*breakdown));
            self.parts.extend(try_join_all(reads).await?);
        }
        Ok(())
    }

    /// Writes the changed parts.
    ///
    /// # Errors
    /// Errors of the table; a conflict, when another projector has written one since it was read. Some of the parts may
    /// be written then.
    pub(crate) async fn write_parts(&self) -> Result<()> {
        let Some(source) = self.source else { return Ok(()) };
        let mut changed = Vec::new();
        for (breakdown, part) in &self.parts {
            if part.applied != part.stored.applied {
                let key = source.key(*breakdown);
                changed.push(part.stored.replace(key, &part.applied, part.part.to_state()));
            }
        }
        for some in changed.chunks(PARTS_AT_ONCE) {
            try_join_all(some.iter().cloned().map(|(item, condition)| source.table.put(item, condition)))
                .await?;
        }
        Ok(())
    }
}

/// Place of the parts of a day.
#[derive(Clone, Copy, Debug)]
struct Source<'a> {
    table: &'a dyn Table,
    version: u32,
    day: &'a WorkspaceDay,
}

impl Source<'_> {
    async fn read(&self, breakdown: Breakdown) -> Result<(Breakdown, PartFold)> {
        let part = match self.table.get(&self.key(breakdown)).await? {
            None => PartFold::empty(breakdown),
            Some(item) => PartFold::read(breakdown, &item)?,
        };
        Ok((breakdown, part))
    }

    fn key(&self, breakdown: Breakdown) -> table::Key {
        key::breakdown(&self.day.workspace, self.version, self.day.day, breakdown)
    }
}

/// Range of the keys of the parts of a day.
pub(crate) fn parts_of(folding: Folding, version: u32, day: &WorkspaceDay) -> KeyRange {
    let range = match folding {
        Folding::Rollup => key::projections,
        Folding::Features => key::features_between,
    };
    range(&day.workspace, version, day.day, day.day)
}

/// Reads all stored parts of a day.
///
/// # Errors
/// Errors of the table, and `Corrupt`.
pub(crate) async fn stored_parts(
    table: &dyn Table,
    version: u32,
    day: &WorkspaceDay,
    folding: Folding,
) -> Result<BTreeMap<Breakdown, PartFold>> {
    let range = parts_of(folding, version, day);
    let mut parts = BTreeMap::new();
    for item in query_all(table, Query::table(range)).await? {
        if let (_, Projection::Breakdown(breakdown)) = key::parse_projection(&item.key)? {
            parts.insert(breakdown, PartFold::read(breakdown, &item)?);
        }
    }
    Ok(parts)
}
