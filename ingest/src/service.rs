//! What the ingest service does, whoever asks: over HTTP, from a file, or the demo.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use store::{
    Clock, Error, ErrorKind, Id, Kind, Table,
    catalog::{Catalog, ReleaseSpec, Workspace},
};
use web::RowProblem;

use crate::{
    append::{Appender, Receipt, Remember},
    batch::{Batch, Refused},
    limits::{MAX_IDEMPOTENCY_KEY_BYTES, MAX_LISTED_ERRORS},
};

/// Why a batch was not stored.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Something is wrong with the request.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Something is wrong below.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Takes batches for workspaces.
#[derive(Debug)]
pub struct Ingest {
    catalog: Catalog,
    appender: Appender,
    clock: Clock,
    /// Releases that are known to exist. They never change, so this is never stale.
    releases: Mutex<HashMap<Id, BTreeSet<String>>>,
}

impl Ingest {
    /// A service on `table`, with `clock` for the time at which events are appended.
    pub fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        Self {
            catalog: Catalog::new(Arc::clone(&table)),
            appender: Appender::new(table, clock.clone()),
            clock,
            releases: Mutex::default(),
        }
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Stores a batch, whole or not at all; returns after it is durable.
    ///
    /// # Errors
    /// When a row names a release that does not exist, the idempotency key is no good or was used
    /// for other events, or the table fails.
    pub async fn submit(
        &self,
        workspace: &Workspace,
        batch: &Batch,
        idempotency_key: Option<&str>,
        remember: Remember,
    ) -> Result<Receipt, SubmitError> {
        if let Some(key) = idempotency_key {
            check_idempotency_key(key)?;
        }
        if batch.kind == Kind::Releases {
            self.register(workspace.id(), batch).await?;
        } else {
            self.check_releases(workspace.id(), batch).await?;
        }
        Ok(self.appender.append(workspace.id(), batch, idempotency_key, remember).await?)
    }

    /// Creates the releases that a batch of release events registers.
    async fn register(&self, workspace: &Id, batch: &Batch) -> Result<(), SubmitError> {
        let text = |name: &str, row| batch.columns.column(name)?.text(row).map(str::to_owned);
        let (mut errors, mut error_count) = (Vec::new(), 0);
        for row in 0..batch.rows() {
            let spec = ReleaseSpec {
                name: text("release", row).unwrap_or_default(),
                model: text("model", row).unwrap_or_default(),
                configuration: text("configuration", row),
                environment: text("environment", row),
            };
            let problem = if text("action", row).as_deref() == Some("register") {
                match self.catalog.ensure_release(workspace, &spec, self.clock.now()).await {
                    Ok(_) => continue,
                    Err(error) if matches!(error.kind(), ErrorKind::NotFound) => ("model", error.to_string()),
                    Err(error) => return Err(error.into()),
                }
            } else if self.knows(workspace, &spec.name).await? {
                continue;
            } else {
                ("release", unknown_release(&spec.name))
            };
            error_count += 1;
            if errors.len() < MAX_LISTED_ERRORS {
                errors.push(RowProblem {
                    row: row as u64 + 1,
                    field: Some(problem.0.into()),
                    message: problem.1,
                });
            }
        }
        if error_count > 0 {
            return Err(Refused::Rows { errors, error_count }.into());
        }
        Ok(())
    }

    /// Checks that every release that a batch names exists.
    async fn check_releases(&self, workspace: &Id, batch: &Batch) -> Result<(), SubmitError> {
        let Some(column) = batch.columns.column("release") else { return Ok(()) };
        let named: BTreeSet<&str> = (0..batch.rows()).filter_map(|row| column.text(row)).collect();
        let mut unknown = BTreeSet::new();
        for name in named {
            if !self.knows(workspace, name).await? {
                unknown.insert(name);
            }
        }
        let is_unknown = |row: &usize| column.text(*row).is_some_and(|name| unknown.contains(name));
        let bad: Vec<usize> = (0..batch.rows()).filter(is_unknown).collect();
        if bad.is_empty() {
            return Ok(());
        }
        let errors = bad.iter().take(MAX_LISTED_ERRORS).map(|&row| RowProblem {
            row: row as u64 + 1,
            field: Some("release".into()),
            message: unknown_release(column.text(row).unwrap_or_default()),
        });
        Err(Refused::Rows { errors: errors.collect(), error_count: bad.len() }.into())
    }

    async fn knows(&self, workspace: &Id, release: &str) -> Result<bool, Error> {
        let known = |releases: &HashMap<Id, BTreeSet<String>>| {
            releases.get(workspace).is_some_and(|names| names.contains(release))
        };
        if known(&self.releases.lock().unwrap_or_else(std::sync::PoisonError::into_inner)) {
            return Ok(true);
        }
        let page = self.catalog.page(workspace).await?;
        let names = page.releases.into_iter().map(|release| release.entity.name).collect();
        let mut releases = self.releases.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        releases.insert(workspace.clone(), names);
        Ok(known(&releases))
    }
}

fn unknown_release(name: &str) -> String {
    format!("`{name}` is no release of this workspace; register it first")
}

fn check_idempotency_key(key: &str) -> Result<(), Refused> {
    if key.is_empty()
        || key.len() > MAX_IDEMPOTENCY_KEY_BYTES
        || key.bytes().any(|byte| !byte.is_ascii_graphic())
    {
        let message = format!(
            "an idempotency key is 1 to {MAX_IDEMPOTENCY_KEY_BYTES} printable ASCII characters without blanks"
        );
        return Err(Refused::Whole(message));
    }
    Ok(())
}
