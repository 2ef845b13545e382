//! Erased keys: no event of them is stored any more.
//!
//! They are looked up twice: when a batch is checked, so that its rows are refused by their numbers, and right before its
//! segments are put, since a batch may wait for long in between. The looked-up keys may be [`CACHED_SECONDS`] old, which an
//! erasure waits for.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use catalog::{CACHED_SECONDS, Catalog, ErasedKeys};
use event::{Columns, Error, Id, Kind, Result};
use tokio::time::Instant;

use crate::{
    batch::{Batch, RowIssue},
    service::Ingest,
};

/// Maximum workspaces whose erased keys are cached.
const MAX_KEPT: usize = 10_000;

type Kept = HashMap<Id, (Arc<ErasedKeys>, Instant)>;

/// Erased keys of workspaces, at most some seconds old.
#[derive(Debug)]
pub(crate) struct Erased {
    catalog: Catalog,
    kept: Mutex<Kept>,
}

impl Erased {
    pub(crate) fn new(catalog: Catalog) -> Self {
        Self { catalog, kept: Mutex::default() }
    }

    /// Returns the keys of a workspace; the same object as long as they are unchanged.
    pub(crate) async fn of(&self, workspace: &Id) -> Result<Arc<ErasedKeys>> {
        let known = self.lock().get(workspace).cloned();
        if let Some((keys, since)) = &known
            && since.elapsed() < Duration::from_secs(CACHED_SECONDS as u64)
        {
            return Ok(Arc::clone(keys));
        }
        // Taken before the read: its result may be as old as its beginning.
        let since = Instant::now();
        let keys = self.catalog.erased_keys(workspace, known.map(|(keys, _)| keys)).await?;
        let mut kept = self.lock();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(workspace.clone(), (Arc::clone(&keys), since));
        Ok(keys)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds the rows, from one on, with an erased key.
pub(crate) fn erased_rows<'a>(
    keys: &'a ErasedKeys,
    kind: Kind,
    columns: &'a Columns,
    first: usize,
) -> impl Iterator<Item = usize> + 'a {
    let columns_of_keys =
        columns.columns.iter().filter(move |column| !keys.is_empty() && kind.is_key(&column.name));
    columns_of_keys.flat_map(move |column| {
        (first..columns.rows).filter(|row| column.text(*row).is_some_and(|key| keys.has(key)))
    })
}

/// Error of events whose key was erased after they were checked.
pub(crate) fn erased_since() -> Error {
    Error::conflict(
        "events of this batch have a key that was erased in this workspace while they came; events of it are not stored any more: send the \
         batch without them",
    )
}

impl Ingest {
    /// Finds the rows of erased keys.
    pub(crate) async fn erased_keys(&self, workspace: &Id, batch: &Batch) -> Result<Vec<RowIssue>> {
        let keys = self.erased().of(workspace).await?;
        let rows = erased_rows(&keys, batch.kind, &batch.columns, 0);
        Ok(rows
            .map(|row| (row, "key", "was erased in this workspace: no events of it are taken".to_owned()))
            .collect())
    }
}
