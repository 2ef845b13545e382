//! Unmatched outcomes, between projector and ingest: the projector decides the predictions that they judge, ingest appends them.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use event::{Clock, Columns, Id, Result};
use ingest::Ingest;
use log::key::{DecisionId, LogId};
use projector::unmatched::Append;
use table::Table;

/// Appends decided outcomes by an ingest.
#[derive(Debug)]
pub struct ByIngest(pub(crate) Arc<Ingest>);

impl ByIngest {
    /// Makes an ingest of its own on `table`.
    pub fn new(table: Arc<dyn Table>) -> Self {
        Self::at(table, Clock::system())
    }

    /// Makes an ingest of its own on `table`, with another clock than that of the machine.
    pub fn at(table: Arc<dyn Table>, clock: Clock) -> Self {
        Self(Arc::new(Ingest::new(table, clock)))
    }
}

#[async_trait]
impl Append for ByIngest {
    async fn bounds(&self, workspace: &Id, outcomes: Columns) -> Result<BTreeMap<LogId, u64>> {
        self.0.bounds_of_decided(workspace, outcomes).await
    }

    async fn append(
        &self,
        workspace: &Id,
        id: &DecisionId,
        outcomes: Columns,
        after: &BTreeMap<LogId, u64>,
    ) -> Result<()> {
        self.0.append_decided(workspace, id, outcomes, after).await.map(drop)
    }

    async fn finish_answers(&self, workspace: &Id) -> Result<u64> {
        self.0.finish_answers(workspace).await
    }
}
