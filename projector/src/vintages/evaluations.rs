//! Evaluations at ages of their days.

use std::collections::BTreeMap;

use catalog::Definitions;
use event::{Definition, Result, Timestamp};
use fold::{Evaluation, evaluation::Slices};
use log::{
    active,
    erased::ErasureEpoch,
    evaluated::{self, At},
    projection::Applied,
    scan::LogHead,
    vintage::{self, Vintage},
    walk::{Arrivals, Heads},
};
use table::Table;

use super::{Due, JUDGED, Made, Span, all_came_by, arrivals, due, settled};
use crate::{
    WorkspaceDay,
    dead_letters::{self, Skipped, Stopped, within},
    evaluate::{SKIPPED, compute_in_partitions},
};

/// Maximum predictions and outcomes unpacked at a time. It is less than for evaluations, since it adds to their memory.
const ROWS_AT_ONCE: usize = 500_000;

/// Makes the due vintages of a day, of ages after `last`.
///
/// # Errors
/// As [`super::make`].
pub(super) async fn make(
    table: &dyn Table,
    day: &WorkspaceDay,
    last: Option<u32>,
    by: (Timestamp, Span),
) -> Result<Made> {
    let Some((logs, due)) = due(table, day, (JUDGED, last), by).await? else {
        return Ok(Made::default());
    };
    let epoch = ErasureEpoch::load(table, &day.workspace).await?;
    if epoch.is_rewriting {
        return Ok(Made::WAITING);
    }
    let version = active::load(table, &day.workspace).await?.version;
    let making = Making {
        table,
        epoch,
        version,
        day,
        skipped: dead_letters::skipped(table, version, day, SKIPPED).await?,
        definitions: Definitions::load(table, &day.workspace).await?,
    };
    settled(table, day, epoch, making.all(&logs, &due).await).await
}

/// Vintages of a day while they are made.
struct Making<'a> {
    table: &'a dyn Table,
    epoch: ErasureEpoch,
    version: u32,
    day: &'a WorkspaceDay,
    skipped: Skipped,
    definitions: Definitions,
}

impl Making<'_> {
    /// Makes and writes the vintages that are due, the youngest first.
    async fn all(&self, logs: &[LogHead], due: &[Due]) -> Result<Made> {
        let mut made = Made::default();
        let mut before: Option<(Applied, Vintage)> = None;
        let mut arrivals = None;
        let mut stored = self.stored(logs, due).await?;
        for (number, one) in due.iter().enumerate() {
            let known = self.definitions.known(|defined| defined.appended_at <= one.at);
            if let Some((by, vintage)) = stored.take_if(|(by, _)| *by == known.of(self.day.day)) {
                made.vintages += self.write(one, &vintage).await?;
                stored = Some((by, vintage));
                continue;
            }
            if arrivals.is_none() {
                arrivals = self.arrivals().await?;
            }
            let Some(arrivals) = &arrivals else { return Ok(Made { waiting: 1, ..made }) };
            let heads = arrivals.heads_at(one.at);
            let is_last = number + 1 == due.len();
            if heads.is_empty() && !is_last {
                continue;
            }
            let applied = self.covered(&heads, &known);
            let vintage = match before.take().filter(|(last, _)| *last == applied) {
                Some((_, vintage)) => vintage,
                None => match self.computed(&applied, &known.of(self.day.day)).await? {
                    Ok(vintage) => vintage,
                    Err(_) => return Ok(Made { waiting: 1, ..made }),
                },
            };
            made.vintages += self.write(one, &vintage).await?;
            before = Some((applied, vintage));
        }
        Ok(made)
    }

    async fn write(&self, due: &Due, vintage: &Vintage) -> Result<u64> {
        let WorkspaceDay { workspace, day } = self.day;
        vintage::write(self.table, self.epoch, (workspace, *day, due.age.hours), vintage).await.map(u64::from)
    }

    fn covered(&self, heads: &Heads, known: &Definitions) -> Applied {
        let heads = heads.iter().map(|(log, seq)| (log.name(), *seq)).collect::<Applied>();
        if heads.is_empty() { heads } else { known.cover(self.day.day, heads) }
    }

    /// Returns the stored evaluation as a vintage, with its definitions, if it covers all events and none has come
    /// since the first instant.
    async fn stored(
        &self,
        logs: &[LogHead],
        due: &[Due],
    ) -> Result<Option<(BTreeMap<String, Definition>, Vintage)>> {
        let Some(first) = due.first() else { return Ok(None) };
        let at = At { workspace: &self.day.workspace, version: self.version, day: self.day.day };
        let head = evaluated::head(self.table, at).await?;
        let is_of_all = logs.iter().all(|one| head.applied.get(&one.log.name()) == Some(&one.seq));
        if !is_of_all || !all_came_by(self.table, logs, first.at).await? {
            return Ok(None);
        }
        let found = evaluated::load_plain(self.table, at).await?;
        let Some((_, states)) = found.filter(|(found, _)| *found == head) else { return Ok(None) };
        let by = self.definitions.covered(&head.applied).of(self.day.day);
        let left_out = within(&self.skipped, &head.applied);
        Ok(Some((by, Vintage { applied: head.applied, rows: head.rows, left_out, states })))
    }

    /// Times at which the segments of the day were appended; `None`, when one is missing.
    async fn arrivals(&self) -> Result<Option<Arrivals>> {
        arrivals(self.table, self.day, JUDGED, &self.skipped).await
    }

    async fn computed(
        &self,
        applied: &Applied,
        by: &BTreeMap<String, Definition>,
    ) -> Result<Result<Vintage, Stopped>> {
        let left_out = within(&self.skipped, applied);
        let folded = fold_of(self.table, self.day, applied, by, &left_out).await?;
        let most = evaluated::state_bytes(self.table.item_bytes());
        Ok(folded.map(|(evaluation, rows)| Vintage {
            applied: applied.clone(),
            rows: Some(rows),
            left_out,
            states: evaluation.to_states(most),
        }))
    }
}

/// Evaluates a prefix of a day without slices; returns it with the number of joined rows, or the segment that cannot be
/// read.
pub(crate) async fn fold_of(
    table: &dyn Table,
    day: &WorkspaceDay,
    applied: &Applied,
    by: &BTreeMap<String, Definition>,
    skipped: &Skipped,
) -> Result<Result<(Evaluation, u64), Stopped>> {
    let mut by = by.clone();
    by.values_mut().for_each(|definition| definition.dimensions.clear());
    let folded = compute_in_partitions(table, day, applied, &by, skipped, ROWS_AT_ONCE).await?;
    Ok(folded.map(|(evaluation, rows)| (Evaluation { slices: Slices::new(), ..evaluation }, rows)))
}
