//! What the log of a day folds to: its rollup and the parts of its breakdowns.
//!
//! Each part is an item of its own, with the segments that it covers: for every log the last segment
//! that changed it. Parts are written before the rollup. So after a crash between the two a part is
//! ahead of the rollup; the segments are folded again from where the rollup is, and a part takes only
//! those after its own. A part that is not there covers nothing that the rollup does: parts are written
//! before the rollup moves.

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

/// How many parts are read or written at once.
const PARTS_AT_ONCE: usize = 16;

/// A part while segments are folded into it.
#[derive(Clone, Debug)]
pub(crate) struct PartFold {
    stored: Projected,
    /// For every log the last segment that changed it.
    pub(crate) applied: Applied,
    /// What it folds to.
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

    /// Its text as it was read.
    pub(crate) fn stored_state(&self) -> &str {
        &self.stored.state
    }
}

/// A day while segments are folded into it.
#[derive(Debug)]
pub(crate) struct DayFold<'a> {
    /// Where the parts are read from; a day that is folded from nothing reads none.
    source: Option<Source<'a>>,
    /// What it is folded to.
    pub(crate) folding: Folding,
    /// Whether any of the segments has features.
    pub(crate) has_features: bool,
    /// The rollup.
    pub(crate) rollup: Rollup,
    /// The parts that segments touched.
    pub(crate) parts: BTreeMap<Breakdown, PartFold>,
    /// What its metrics say of runs, to be recorded before the rollup moves.
    pub(crate) runs: Noted,
    /// How much was folded in.
    pub(crate) taken: Taken,
}

/// How much was folded into a day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Events, by kind.
    pub rows: BTreeMap<Kind, u64>,
    /// Bytes of packed events that were unpacked.
    pub bytes: u64,
}

impl Taken {
    pub(crate) fn note(&mut self, segment: &Found) {
        *self.rows.entry(segment.kind()).or_default() += segment.rows() as u64;
        self.bytes += segment.packed_bytes() as u64;
    }
}

impl<'a> DayFold<'a> {
    /// Goes on from what is stored.
    pub(crate) fn stored(
        table: &'a dyn Table,
        version: u32,
        day: &'a WorkspaceDay,
        (folding, rollup): (Folding, Rollup),
    ) -> Self {
        let source = Source { table, version, day };
        Self { source: Some(source), rollup, ..Self::fresh(folding) }
    }

    /// Begins with nothing.
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

    /// Whether what it folds is written, and not only compared with what is stored.
    pub(crate) fn is_written(&self) -> bool {
        self.source.is_some()
    }

    /// Adds what segment `seq` of a log folds to.
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

    /// Reads the parts that a segment touches and none before did.
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

    /// Writes the parts that changed.
    ///
    /// # Errors
    /// Those of the table; a conflict, when another projector wrote one since it was read. Some of the
    /// parts may be written then.
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

/// Where the parts of a day are.
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

/// Where the parts of a day stand.
pub(crate) fn parts_of(folding: Folding, version: u32, day: &WorkspaceDay) -> KeyRange {
    let range = match folding {
        Folding::Rollup => key::projections,
        Folding::Features => key::features_between,
    };
    range(&day.workspace, version, day.day, day.day)
}

/// All parts of a day that are stored.
///
/// # Errors
/// Those of the table, and `Corrupt`.
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
