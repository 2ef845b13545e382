//! Almanac as a library: on a file of your own, without a service. `examples/embed.rs` shows it.

use std::{path::Path, sync::Arc};

use catalog::{Catalog, ReleaseSpec, Workspace};
use event::{Clock, Error, Kind, Result, Task};
use ingest::{Batch, Ingest, Receipt, Remember, SubmitError, json::read_ndjson};
use log::{audit::by, store::Store};
use polars::prelude::DataFrame;
use query::{Dataset, Params, Query, Request};
use table::{Table, sqlite::SqliteTable};
use tokio::sync::watch;

use crate::{adapters, author, waiting::caught_up};

/// Ingest, projector and query on one table, in this process.
///
/// Other processes may work on the same table meanwhile. Events are durable when an append returns; rollups and
/// evaluations cover them after [`Embedded::project`], or when a service on the same table has projected them.
///
/// ```
/// use almanac::{Embedded, Kind, Task, Params};
///
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("almanac.db");
/// # let runtime = tokio::runtime::Runtime::new()?;
/// # runtime.block_on(async {
/// let almanac = Embedded::open(&file)?;
/// almanac.register("credit/prod", "risk", &Task::Regression, "v1").await?;
/// let prediction = r#"{"key":"loan-1","predicted_at":"2026-11-20T02:00:00Z","release":"v1","value":3.5}"#;
/// almanac.append("credit/prod", Kind::Predictions, prediction.as_bytes(), None).await?;
/// let day = Params { from: "2026-11-20", to: "2026-11-20", ..Params::default() };
/// assert_eq!(almanac.read("credit/prod", "predictions", &day).await?.height(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Embedded {
    table: Arc<dyn Table>,
    clock: Clock,
    ingest: Ingest,
    query: Query,
}

impl Embedded {
    /// Opens a SQLite file, which is created when it is new.
    ///
    /// # Errors
    /// If the file cannot be opened, or holds other data.
    pub fn open(file: &Path) -> Result<Self> {
        let clock = Clock::system();
        Ok(Self::on(Arc::new(SqliteTable::open(file, clock.clone())?), clock))
    }

    /// Uses an open table of any engine. `clock` gives the times of appends; it must be near the engine's.
    pub fn on(table: Arc<dyn Table>, clock: Clock) -> Self {
        let table: Arc<dyn Table> = Store::over(table);
        let ingest = adapters::ingest(Arc::clone(&table), clock.clone());
        let query = Query::new(Arc::clone(&table), clock.clone());
        Self { table, clock, ingest, query }
    }

    #[cfg(test)]
    pub(crate) fn table(&self) -> &Arc<dyn Table> {
        &self.table
    }

    /// Catalog of workspaces, models and releases.
    pub fn catalog(&self) -> &Catalog {
        self.ingest.catalog()
    }

    /// Registers a release of a model, and creates its workspace `category/name` and its model if they are new. The event that
    /// registers the release is appended once.
    ///
    /// # Errors
    /// `Conflict`, when the model exists with another task or the release with another model; `Invalid`, for an impossible name;
    /// errors of the table.
    pub async fn register(
        &self,
        workspace: &str,
        model: &str,
        task: &Task,
        release: &str,
    ) -> Result<Workspace, SubmitError> {
        let registering = async {
            let now = self.clock.now();
            let workspace = self.catalog().ensure_workspace(workspace, now).await?;
            self.catalog().ensure_model(workspace.id(), model, task, now).await?;
            let (name, model) = (release.into(), model.into());
            let spec = ReleaseSpec { name, model, configuration: None, environment: None };
            self.ingest.create_release(&workspace, spec.into()).await?;
            Ok(workspace)
        };
        by(author::local(), registering).await
    }

    /// Appends the events of NDJSON, all or none, and returns when they are durable. Events that are repeated under one
    /// idempotency key are stored once.
    ///
    /// # Errors
    /// `Refused`, naming the wrong rows; errors of the table.
    pub async fn append(
        &self,
        workspace: &str,
        kind: Kind,
        ndjson: &[u8],
        idempotency_key: Option<&str>,
    ) -> Result<Receipt, SubmitError> {
        self.append_batch(workspace, read_ndjson(kind, ndjson, self.clock.now())?, idempotency_key).await
    }

    /// Appends a batch that was read from another format (see [`ingest::format::BodyReader`]).
    ///
    /// # Errors
    /// Errors of [`Embedded::append`].
    pub async fn append_batch(
        &self,
        workspace: &str,
        batch: Batch,
        idempotency_key: Option<&str>,
    ) -> Result<Receipt, SubmitError> {
        let workspace = self.ingest.workspace(workspace).await?;
        let submitting = self.ingest.submit(&workspace, batch, idempotency_key, Remember::Week);
        by(author::local(), submitting).await
    }

    /// Folds and evaluates all events of all workspaces.
    ///
    /// # Errors
    /// `Corrupt`, when an unreadable segment stops it; `Unavailable`, when a quarter of an hour passes without progress; errors
    /// of the table.
    pub async fn project(&self) -> Result<()> {
        let (stop, mut stopped) = watch::channel(false);
        let projector = tokio::spawn(projector::run(Arc::clone(&self.table), async move {
            _ = stopped.wait_for(|stop| *stop).await;
        }));
        let mut caught = Ok(());
        for workspace in self.catalog().workspaces().await? {
            caught = caught_up(&self.table, workspace.id()).await.map(drop);
            if caught.is_err() {
                break;
            }
        }
        stop.send_replace(true);
        let ended = projector.await;
        caught?;
        ended.map_err(|error| Error::unavailable("the projector was broken off").because(error))?
    }

    /// Reads a window of days as a frame: `predictions`, `outcomes`, `metrics`, `releases`, `joined`, `rollups`,
    /// `evaluations`, `classes` or `confusion`.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong word; errors of the table.
    pub async fn read(&self, workspace: &str, what: &str, words: &Params<'_>) -> Result<DataFrame> {
        let request = Request::parse(Dataset::parse(what)?, words)?;
        let workspace = self.catalog().workspace(workspace).await?;
        Ok(self.query.run(workspace.id(), &request).await?.frame)
    }
}
