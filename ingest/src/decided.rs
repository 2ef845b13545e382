//! Appends outcomes after the projector decided which predictions they judge.

use std::collections::BTreeMap;

use event::{Columns, Day, Error, Id, Kind, Result, Timestamp, Window};
use log::key::{DecisionId, LogId};

use crate::{Batch, Ingest};

impl Ingest {
    /// Reads, for each log that decided outcomes will go to, a segment that stands before any of them.
    ///
    /// # Errors
    /// As [`Ingest::append_decided`].
    pub async fn bounds_of_decided(&self, workspace: &Id, outcomes: Columns) -> Result<BTreeMap<LogId, u64>> {
        self.bounds_of(workspace, (Kind::Outcomes, outcomes)).await
    }

    /// Reads such segments for decided events of any kind.
    pub(crate) async fn bounds_of(
        &self,
        workspace: &Id,
        events: (Kind, Columns),
    ) -> Result<BTreeMap<LogId, u64>> {
        let (lanes, outcomes) = self.kept_of(workspace, events).await?;
        self.appender.bounds_of_decided(workspace, lanes, outcomes).await
    }

    /// Appends the missing outcomes of a decision, which are always the same, and returns their number. Outcomes of days that are
    /// gone are left out. `after` names, for each log known at the time of the decision, a segment that stands before any of
    /// them.
    ///
    /// # Errors
    /// `Conflict`, when the workspace is being deleted; `NotFound`, when it was; those of the table. It may be called again.
    pub async fn append_decided(
        &self,
        workspace: &Id,
        id: &DecisionId,
        outcomes: Columns,
        after: &BTreeMap<LogId, u64>,
    ) -> Result<usize> {
        let (lanes, outcomes) = self.kept_of(workspace, (Kind::Outcomes, outcomes)).await?;
        if outcomes.rows() == 0 {
            return Ok(0);
        }
        self.appender.append_decided(workspace, lanes, (id, outcomes), after).await
    }

    /// Returns the events of days that still have their events, as a batch. All rows of a day are left out or none, so a log
    /// always gets the same rows. Outcomes belong to the day that they judge.
    pub(crate) async fn kept_of(
        &self,
        workspace: &Id,
        (kind, events): (Kind, Columns),
    ) -> Result<(u8, Batch)> {
        self.workspace(workspace.as_str()).await?.check_open()?;
        let now = self.clock().now();
        let field = if kind == Kind::Outcomes { "predicted_at" } else { kind.time_field() };
        let instant = |row| events.column(field).and_then(|column| column.time(row));
        let day = |row| instant(row).and_then(Timestamp::from_micros).map(Timestamp::day);
        let days: Vec<Day> = (0..events.rows).filter_map(day).collect();
        if days.len() != events.rows {
            return Err(Error::invalid(format!("{} that was decided lacks its `{field}`", kind.one())));
        }
        let mut kept: Vec<usize> = (0..events.rows).collect();
        if let (Some(from), Some(to)) = (days.iter().min(), days.iter().max()) {
            let keeps = self.catalog().kept(workspace, Window::new(*from, *to)?, now).await?;
            kept.retain(|row| keeps.keeps(days[*row]));
        }
        let lanes = self.lanes(workspace).await?;
        let numbers = (1..=events.rows as u64).collect();
        let all = Batch { kind, columns: events, days, waits: Vec::new(), numbers, event_id: None };
        Ok((lanes, if kept.len() == all.rows() { all } else { all.take(&kept) }))
    }
}
