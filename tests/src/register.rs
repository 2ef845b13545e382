//! A workspace for most tests.

use std::sync::Arc;

use catalog::{Catalog, ReleaseSpec, Workspace};
use event::{Task, Timestamp};
use table::Table;

/// Makes the workspace of a path with the model `m`, which is binary with the positive label `1`, and its releases.
///
/// # Panics
/// If they cannot be made.
pub async fn register(table: &Arc<dyn Table>, path: &str, releases: &[&str], now: Timestamp) -> Workspace {
    let catalog = Catalog::new(Arc::clone(table));
    let workspace = catalog.ensure_workspace(path, now).await.expect("a workspace");
    let task = Task::Binary { positive_label: "1".into() };
    catalog.ensure_model(workspace.id(), "m", &task, now).await.expect("a model");
    for release in releases {
        let spec = release_of("m", release);
        catalog.ensure_release(workspace.id(), &spec, now).await.expect("a release");
    }
    workspace
}

/// Release of a model, with nothing but its name.
pub fn release_of(model: &str, name: &str) -> ReleaseSpec {
    ReleaseSpec { name: name.into(), model: model.into(), configuration: None, environment: None }
}
