//! Adapters between the services, which do not know each other: the projector appends decided outcomes by an ingest; ingest
//! measures promotion gates and picks the pairs of arenas by queries.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use catalog::{Measured, ToMeasure, Workspace};
use event::{Clock, Columns, Id, Result};
use futures::future::BoxFuture;
use ingest::{Ingest, Reader};
use log::key::{DecisionId, LogId};
use projector::unmatched::Append;
use query::Query;
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

/// Reads the log for ingest by queries.
#[derive(Debug)]
pub(crate) struct ByQuery(pub(crate) Arc<Query>);

impl Reader for ByQuery {
    fn measure<'a>(&'a self, workspace: &'a Id, of: &'a ToMeasure) -> BoxFuture<'a, Result<Measured>> {
        Box::pin(self.0.measure_promotion(workspace, of))
    }

    fn pick_pairs<'a>(&'a self, workspace: &'a Workspace, arena: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.0.pick_missing_pairs(workspace, arena))
    }
}

/// Makes the ingest of a command, which reads the log by queries.
pub(crate) fn ingest(table: Arc<dyn Table>, clock: Clock) -> Ingest {
    let query = Query::new(Arc::clone(&table), clock.clone());
    Ingest::new(table, clock).reading_by(Arc::new(ByQuery(Arc::new(query))))
}
