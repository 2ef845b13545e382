//! Rollups at ages of their days, with the parts of their breakdowns.

use std::{collections::BTreeMap, sync::Arc};

use event::{Kind, Result, Timestamp};
use fold::rollup::Folding;
use log::{
    active,
    erased::ErasureEpoch,
    key,
    projection::{Applied, Projected},
    rollup_vintage::{self, RollupVintage},
    scan::LogHead,
};
use table::Table;

use super::{Due, Made, Span, all_came_by, arrivals, due, settled};
use crate::{
    WorkspaceDay,
    day::{DayFold, PartFold, stored_parts},
    dead_letters::{LeftOut, Skipped, Stopped, within},
    evaluate::covers,
    features::{self, fold_up_to},
};

/// Makes the due rollups of a day, of ages after `last`.
///
/// # Errors
/// As [`super::make`].
pub(super) async fn make(
    table: &dyn Table,
    day: &WorkspaceDay,
    last: Option<u32>,
    by: (Timestamp, Span),
) -> Result<Made> {
    let Some((logs, due)) = due(table, day, (&Kind::STORED, last), by).await? else {
        return Ok(Made::default());
    };
    let epoch = ErasureEpoch::load(table, &day.workspace).await?;
    // During an erasure, parts that no rollup names yet would be taken for old ones.
    if epoch.is_open {
        return Ok(Made::WAITING);
    }
    let version = active::load(table, &day.workspace).await?.version;
    let making = Making { table, epoch, version, day };
    settled(table, day, epoch, making.all(&logs, &due).await).await
}

/// Rollups of a day while they are made.
struct Making<'a> {
    table: &'a dyn Table,
    epoch: ErasureEpoch,
    version: u32,
    day: &'a WorkspaceDay,
}

impl Making<'_> {
    /// Makes and writes the due rollups, the youngest first.
    async fn all(&self, logs: &[LogHead], due: &[Due]) -> Result<Made> {
        let WorkspaceDay { workspace, day } = self.day;
        let mut made = Made::default();
        let Some(first) = due.first() else { return Ok(made) };
        let left_out = LeftOut::of(self.table, self.version, self.day, Folding::Rollup).await?.always;
        let of_all: Applied = logs.iter().map(|head| (head.log.name(), head.seq)).collect();
        let arrived = match all_came_by(self.table, logs, first.at).await? {
            true => None,
            false => match arrivals(self.table, self.day, &Kind::STORED, &left_out).await? {
                Some(arrived) => Some(arrived),
                None => return Ok(Made::WAITING),
            },
        };
        let mut before: Option<RollupVintage> = None;
        for (number, one) in due.iter().enumerate() {
            let applied = match &arrived {
                None => of_all.clone(),
                Some(arrived) => {
                    arrived.heads_at(one.at).into_iter().map(|(log, seq)| (log.name(), seq)).collect()
                }
            };
            if applied.is_empty() && number + 1 < due.len() {
                continue;
            }
            let vintage = match &before {
                Some(before) if before.applied == applied => before.clone(),
                _ => match self.copied(&applied, &left_out).await? {
                    Some(vintage) => vintage,
                    None => match folded(self.table, self.version, self.day, (&applied, &left_out)).await? {
                        Ok(vintage) => vintage,
                        Err(_) => return Ok(Made { waiting: 1, ..made }),
                    },
                },
            };
            let at = (workspace, *day, one.age.hours);
            let is_written =
                rollup_vintage::write(self.table, self.epoch, at, &vintage, before.as_ref()).await?;
            made.rollups += u64::from(is_written);
            // The parts of a refused one may be missing.
            before = is_written.then_some(vintage);
        }
        Ok(made)
    }

    /// Returns the stored rollup, if it covers this prefix.
    async fn copied(&self, applied: &Applied, left_out: &Skipped) -> Result<Option<RollupVintage>> {
        let key = key::rollup(&self.day.workspace, self.version, self.day.day);
        let Some(item) = self.table.get(&key).await? else { return Ok(None) };
        let rollup = Projected::from_item(&item)?;
        if rollup.applied != *applied {
            return Ok(None);
        }
        let of_features = features::wanted(applied);
        let features = match features::head(self.table, self.version, self.day).await? {
            None => None,
            Some((head, _)) if head.applied != of_features => return Ok(None),
            Some((head, _)) => Some(head.state),
        };
        // Read after the rollup: a part that has been folded further since is ahead of it.
        let mut parts = stored_parts(self.table, self.version, self.day, Folding::Rollup).await?;
        let is_of = |part: &PartFold| covers(applied, &part.applied);
        if features.is_some() {
            parts.extend(stored_parts(self.table, self.version, self.day, Folding::Features).await?);
        }
        // The parts of a version are deleted only after another one is active.
        let is_active = active::load(self.table, &self.day.workspace).await?.version == self.version;
        if !is_active || !parts.values().all(is_of) {
            return Ok(None);
        }
        let parts = parts.into_iter().map(|(breakdown, part)| (breakdown, part.stored_state().into()));
        Ok(Some(RollupVintage {
            applied: applied.clone(),
            left_out: within(left_out, applied),
            rollup: rollup.state,
            features,
            parts: parts.collect(),
        }))
    }
}

/// Folds the rollup of a prefix of a day without some segments; or returns the segment that cannot be folded.
///
/// # Errors
/// Errors of the table, and `Incomplete` when a log ends before the prefix does.
pub(crate) async fn folded(
    table: &dyn Table,
    version: u32,
    day: &WorkspaceDay,
    (applied, left_out): (&Applied, &Skipped),
) -> Result<Result<RollupVintage, Stopped>> {
    let without = LeftOut { always: within(left_out, applied), ..LeftOut::default() };
    let rollup = match fold_prefix(table, day, (applied, &without), Folding::Rollup).await? {
        Ok(rollup) => rollup,
        Err(stopped) => return Ok(Err(stopped)),
    };
    let mut parts: BTreeMap<_, _> = states(&rollup).collect();
    let mut features = None;
    if rollup.has_features {
        let mut without = LeftOut::of(table, version, day, Folding::Features).await?;
        without.always.extend(left_out.iter().cloned());
        let of_features = features::wanted(applied);
        match fold_prefix(table, day, (&of_features, &without), Folding::Features).await? {
            Ok(fold) => {
                parts.extend(states(&fold));
                features = Some(fold.rollup.to_state());
            }
            Err(stopped) => return Ok(Err(stopped)),
        }
    }
    Ok(Ok(RollupVintage {
        applied: applied.clone(),
        left_out: without.always,
        rollup: rollup.rollup.to_state(),
        features,
        parts,
    }))
}

fn states(fold: &DayFold<'_>) -> impl Iterator<Item = (key::Breakdown, Arc<str>)> {
    fold.parts.iter().map(|(breakdown, part)| (*breakdown, part.part.to_state().into()))
}

async fn fold_prefix(
    table: &dyn Table,
    day: &WorkspaceDay,
    (applied, left_out): (&Applied, &LeftOut),
    folding: Folding,
) -> Result<Result<DayFold<'static>, Stopped>> {
    let mut fold = DayFold::fresh(folding);
    let (_, stopped) = fold_up_to(table, day, (&Applied::new(), applied), left_out, &mut fold).await?;
    Ok(match stopped.into_iter().next() {
        Some(stopped) => Err(stopped),
        None => Ok(fold),
    })
}
