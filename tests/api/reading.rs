//! The append service of a process that reads the log as well.

use std::sync::Arc;

use catalog::{Measured, ToMeasure, Workspace};
use event::{Id, Result};
use futures::future::BoxFuture;
use ingest::{Ingest, Reader};
use query::Query;
use tests::{scene::Scene, world::at};

#[derive(Debug)]
struct ByQuery(Query);

impl Reader for ByQuery {
    fn measure<'a>(&'a self, workspace: &'a Id, of: &'a ToMeasure) -> BoxFuture<'a, Result<Measured>> {
        Box::pin(self.0.measure_promotion(workspace, of))
    }

    fn pick_pairs<'a>(&'a self, workspace: &'a Workspace, arena: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.0.pick_missing_pairs(workspace, arena))
    }
}

/// It, at a time.
pub(crate) fn ingest(scene: &Scene, now: &str) -> Ingest {
    scene.ingest(at(now)).reading_by(Arc::new(ByQuery(scene.query(at(now)))))
}
