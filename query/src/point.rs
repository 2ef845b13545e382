//! The part of the logs that a request is about, and readings of it.

use std::sync::Arc;

use catalog::Kept;
use event::{Error, Id, Result, Timestamp, Window};
use futures::future::BoxFuture;
use log::{active, read_version::ReadVersion, skipped, walk::Until};

use crate::{Query, budget::Hold, read::Reading, request::Request};

/// Maximum number of readings of a window in which days keep expiring.
const MAX_READS: usize = 3;

/// The part of the logs to read.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) window: Window,
    pub(crate) as_of: Option<Timestamp>,
    pub(crate) read_version: Option<Arc<ReadVersion>>,
    /// True if segments that evaluations alone refused are read all the same, as for events and rollups.
    pub(crate) is_raw: bool,
}

impl Point {
    /// Returns the point of a request.
    pub(crate) fn of(request: &Request) -> Self {
        let is_raw = request.what.is_raw();
        Self {
            window: request.days_read(),
            as_of: request.as_of,
            read_version: request.read_version.clone(),
            is_raw,
        }
    }
}

impl Query {
    /// Returns the result of `make` for a reading of the logs during which no day expired.
    pub(crate) async fn out_of_logs<'a, T>(
        &self,
        workspace: &Id,
        point: &Point,
        hold: &Hold,
        make: impl Fn(Arc<Reading>) -> BoxFuture<'a, Result<T>>,
    ) -> Result<(T, Arc<Reading>)> {
        let mut kept = self.kept(workspace, point).await?;
        for _ in 0..MAX_READS {
            let reading = self.reading(workspace, point, kept.clone(), hold).await?;
            let made = make(Arc::clone(&reading)).await?;
            if kept == Kept::default() {
                return Ok((made, reading));
            }
            // A day that expired meanwhile may have been read in part.
            let now = self.kept(workspace, point).await?;
            if now == kept {
                return Ok((made, reading));
            }
            drop(made);
            hold.settle(0).await?;
            kept = now;
        }
        Err(Error::unavailable("days of the window expire while it is read; try again"))
    }

    pub(crate) async fn kept(&self, workspace: &Id, point: &Point) -> Result<Kept> {
        self.catalog.kept(workspace, point.window, self.clock.now()).await
    }

    /// Starts a reading of the logs.
    pub(crate) async fn reading(
        &self,
        workspace: &Id,
        point: &Point,
        kept: Kept,
        hold: &Hold,
    ) -> Result<Arc<Reading>> {
        let closed = self.closed_instant();
        let until = match (&point.read_version, point.as_of) {
            (Some(read_version), _) if read_version.workspace != *workspace => {
                return Err(Error::invalid(format!(
                    "the read version is of the workspace {}",
                    read_version.workspace
                )));
            }
            (Some(read_version), _) => (Until::Heads(read_version.heads.clone()), read_version.as_of),
            (None, Some(as_of)) => (Until::AsOf(as_of.min(closed)), as_of.min(closed)),
            (None, None) => (Until::Now, closed),
        };
        let left_out = match (&point.read_version, point.window) {
            (Some(read_version), _) => read_version.left_out.clone(),
            (None, window) => {
                // As in the projections: sums lack the segments refused by their fold, and evaluations also those that they
                // refused.
                let counts = |refused: &str| {
                    refused == skipped::BY_ROLLUP || !point.is_raw && refused == skipped::BY_EVALUATION
                };
                let version = active::load(&*self.table, workspace).await?.version;
                let days = (window.from(), window.to());
                skipped::between(&*self.table, workspace, version, days, counts).await?
            }
        };
        Ok(Arc::new(Reading::new(&self.table, workspace, point.window, until, kept, left_out, hold.clone())))
    }
}
