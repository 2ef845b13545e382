//! Appends the decisions of a projector about unmatched outcomes, by the ingest of a test; can fail on demand.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use async_trait::async_trait;
use event::{Columns, Error, Id, Result};
use ingest::Ingest;
use log::key::{DecisionId, LogId};
use projector::unmatched::Append;

/// Appends by an ingest.
#[derive(Debug)]
pub struct ByIngest {
    ingest: Arc<Ingest>,
    /// Number of further calls that are lost before anything is done.
    pub lost: AtomicU32,
    /// Number of further appends whose answers are lost.
    pub unheard: AtomicU32,
    /// Number of appended rows.
    pub rows: AtomicU32,
}

impl ByIngest {
    /// Uses this ingest, without failures.
    pub fn new(ingest: Ingest) -> Self {
        let none = AtomicU32::default;
        Self { ingest: Arc::new(ingest), lost: none(), unheard: none(), rows: none() }
    }
}

/// Counts a call down; returns true if it is lost.
fn is_lost(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

#[async_trait]
impl Append for ByIngest {
    async fn bounds(&self, workspace: &Id, outcomes: Columns) -> Result<BTreeMap<LogId, u64>> {
        self.ingest.bounds_of_decided(workspace, outcomes).await
    }

    async fn append(
        &self,
        workspace: &Id,
        id: &DecisionId,
        outcomes: Columns,
        after: &BTreeMap<LogId, u64>,
    ) -> Result<()> {
        if is_lost(&self.lost) {
            return Err(Error::unavailable("the process died before the append"));
        }
        let rows = self.ingest.append_decided(workspace, id, outcomes, after).await?;
        self.rows.fetch_add(rows as u32, Ordering::Relaxed);
        match is_lost(&self.unheard) {
            true => Err(Error::unavailable("the process died after the append")),
            false => Ok(()),
        }
    }

    async fn finish_answers(&self, workspace: &Id) -> Result<u64> {
        if is_lost(&self.lost) {
            return Err(Error::unavailable("the process died before the append"));
        }
        self.ingest.finish_answers(workspace).await
    }
}
