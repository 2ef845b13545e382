//! The query service: scans date windows of the log into dataframes.
//!
//! A [`request`] says what to read: events, predictions joined with their outcomes, or the daily
//! rollups and evaluations. The answer is a polars dataframe, which [`output`] writes as a table for
//! people, CSV, NDJSON, Parquet or Arrow. [`http`] answers the same questions over HTTP.
//!
//! It writes nothing to the table.

mod board;
mod columns;
mod daily;
mod events;
mod frame;
pub mod http;
mod joined;
mod meters;
pub mod output;
mod read;
pub mod request;
mod rollups;
mod stack;

use std::sync::Arc;

use polars::prelude::DataFrame;
use store::{Clock, Error, Id, Result, Table, catalog::Catalog};

use tokio::time::Instant;

use self::meters::Meters;

pub use board::Place;
pub use output::{Format, number_text};
pub use request::{By, Request, What, Words};

/// Answers questions about workspaces.
#[derive(Clone, Debug)]
pub struct Query {
    table: Arc<dyn Table>,
    catalog: Catalog,
    clock: Clock,
    meters: Arc<Meters>,
}

impl Query {
    /// A service on `table`, with `clock` for the time by which events have expired.
    pub fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        Self { catalog: Catalog::new(Arc::clone(&table)), table, clock, meters: Arc::default() }
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Answers a request. Events that have expired are not read.
    ///
    /// # Errors
    /// `Invalid`, when it names a column or a release that does not exist; those of the table.
    pub async fn run(&self, workspace: &Id, request: &Request) -> Result<DataFrame> {
        let began = Instant::now();
        let frame = self.read(workspace, request).await?;
        self.meters.answered(request.what, began.elapsed(), frame.height());
        Ok(frame)
    }

    async fn read(&self, workspace: &Id, request: &Request) -> Result<DataFrame> {
        self.check_release(workspace, request).await?;
        let kept = Arc::new(self.catalog.kept(workspace, request.window, self.clock.now()).await?);
        match request.what {
            What::Events(kind) => {
                let filter = read::Filter {
                    kind,
                    columns: request.columns.clone(),
                    release: request.release.clone(),
                    as_of: request.as_of,
                    kept,
                };
                events::events(&self.table, workspace, request.window, &filter).await
            }
            What::Joined => joined::joined(&self.table, workspace, request, &kept).await,
            What::Rollups => rollups::rollups(&self.table, workspace, request).await,
            What::Evaluations => {
                daily::evaluations(&self.table, &self.catalog, workspace, request, &kept).await
            }
        }
    }

    /// Checks that the release of a request exists.
    ///
    /// # Errors
    /// `Invalid`, naming those there are; those of the table.
    pub(crate) async fn check_release(&self, workspace: &Id, request: &Request) -> Result<()> {
        let Some(wanted) = &request.release else { return Ok(()) };
        let page = self.catalog.page(workspace).await?;
        let names: Vec<&str> = page.releases.iter().map(|release| release.entity.name.as_str()).collect();
        if names.contains(&wanted.as_str()) {
            return Ok(());
        }
        let there = if names.is_empty() {
            "there is none yet".into()
        } else {
            format!("there are {}", names.join(", "))
        };
        Err(Error::invalid(format!("there is no release `{wanted}` in {}; {there}", page.workspace.path)))
    }
}
