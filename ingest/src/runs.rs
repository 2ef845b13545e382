//! Runs that metrics name: their existence, and the latest value of each metric.

use std::collections::BTreeSet;

use catalog::Noted;
use event::{Error, ErrorKind, Id, Kind};

use crate::{Batch, Ingest, batch::RowIssue};

/// Collects the metrics of runs in a batch.
pub(crate) fn noted(batch: &Batch) -> Noted {
    let mut noted = Noted::default();
    if batch.kind == Kind::Metrics {
        noted.add(&batch.columns, None);
    }
    noted
}

impl Ingest {
    /// Records the latest values of metrics of runs that had been stored before, whose place the appender does not know: the
    /// process that appended them may have died before it recorded them.
    pub(crate) async fn record_runs(&self, workspace: &Id, noted: Noted) {
        if noted.is_empty() {
            return;
        }
        if let Err(error) = self.catalog().record_metrics(workspace, noted).await {
            self.unrecorded().increment(1);
            tracing::warn!(%workspace, %error, "metrics of runs are stored; the projector records the latest ones");
        }
    }

    /// Finds the rows that name a missing run.
    pub(crate) async fn unknown_runs(&self, workspace: &Id, batch: &Batch) -> Result<Vec<RowIssue>, Error> {
        let Some(column) = batch.columns.column("run") else { return Ok(Vec::new()) };
        let mut unknown = BTreeSet::new();
        for name in column.counts().into_keys() {
            let Ok(run) = Id::parse(name) else { continue };
            let reading = async { self.catalog().run(workspace, &run).await.map(drop) };
            match self.known_runs().get((workspace.clone(), run.clone()), self.clock().now(), reading).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => _ = unknown.insert(name),
                Err(error) => return Err(error),
            }
        }
        let issue = |row| {
            let name = column.text(row).filter(|name| unknown.contains(name))?;
            Some((row, "run", format!("`{name}` is no run of this workspace; create it first")))
        };
        Ok(if unknown.is_empty() { Vec::new() } else { (0..batch.rows()).filter_map(issue).collect() })
    }
}
