//! Appends outcomes of which the projector decided what they judge.

use std::collections::BTreeMap;

use catalog::Lanes;
use event::{Columns, Day, Error, Id, Kind, Result, Timestamp, Window};
use log::key::{DecisionId, LogId};

use crate::{Batch, Ingest};

impl Ingest {
    /// For each log that decided outcomes will go to, a segment that stands before any of them.
    ///
    /// # Errors
    /// As [`Ingest::append_decided`].
    pub async fn bounds_of_decided(&self, workspace: &Id, outcomes: Columns) -> Result<BTreeMap<LogId, u64>> {
        let (lanes, outcomes) = self.kept_of(workspace, outcomes).await?;
        self.appender.bounds_of_decided(workspace, &lanes, outcomes).await
    }

    /// Appends what is missing of the outcomes of a decision, which are always the same; how many that was. Those of days that are gone
    /// are left out. `after` names, for each log that was known when it was decided, a segment that stands before any of them.
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
        let (lanes, outcomes) = self.kept_of(workspace, outcomes).await?;
        if outcomes.rows() == 0 {
            return Ok(0);
        }
        self.appender.append_decided(workspace, &lanes, (id, outcomes), after).await
    }

    /// The outcomes of days that have their events, as a batch. All rows of a day are left out or none, so what goes to a log is
    /// always the same.
    pub(crate) async fn kept_of(&self, workspace: &Id, outcomes: Columns) -> Result<(Lanes, Batch)> {
        self.workspace(workspace.as_str()).await?.check_open()?;
        let now = self.clock().now();
        let instant = |row| outcomes.column("predicted_at").and_then(|column| column.time(row));
        let day = |row| instant(row).and_then(Timestamp::from_micros).map(Timestamp::day);
        let days: Vec<Day> = (0..outcomes.rows).filter_map(day).collect();
        if days.len() != outcomes.rows {
            return Err(Error::invalid("an outcome that was decided lacks the instant of its prediction"));
        }
        let mut kept: Vec<usize> = (0..outcomes.rows).collect();
        if let (Some(from), Some(to)) = (days.iter().min(), days.iter().max()) {
            let keeps = self.catalog().kept(workspace, Window::new(*from, *to)?, now).await?;
            kept.retain(|row| keeps.keeps(days[*row]));
        }
        let lanes = self.lanes.get(workspace.clone(), now, self.catalog().lanes(workspace)).await?;
        let numbers = (1..=outcomes.rows as u64).collect();
        let all = Batch {
            kind: Kind::Outcomes,
            columns: outcomes,
            days,
            waits: Vec::new(),
            numbers,
            event_id: None,
        };
        Ok((lanes, if kept.len() == all.rows() { all } else { all.take(&kept) }))
    }
}
