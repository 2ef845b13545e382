//! Links from ingest to query: ingest checks promotion gates and serves arenas, query reads the metrics and the predictions for
//! them.

use std::sync::Arc;

use catalog::{Measured, ToMeasure, Workspace};
use event::{Clock, Id, Result};
use futures::future::BoxFuture;
use ingest::{Ingest, Reader};
use query::Query;
use table::Table;

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
