//! A workspace that is deleted, with a run and its metrics.

use std::{sync::Arc, time::Duration};

use catalog::{Catalog, NewRun, Patch};
use event::{Clock, Kind};
use ingest::{Ingest, Remember, json::read_ndjson};
use log::key::{self, EntityId};
use table::{Query, Table, query_all};

use super::now;

/// Makes a workspace in which a run has metrics, and deletes it with all that is noted of the run.
pub(super) async fn delete_workspace(table: Arc<dyn Table>, clock: &Clock) {
    let ingest = Ingest::new(Arc::clone(&table), clock.clone());
    let catalog = ingest.catalog();
    let workspace = catalog.ensure_workspace("credit/gone", now()).await.unwrap();
    let run = catalog.create_run(workspace.id(), NewRun::default(), now()).await.unwrap();
    let row = format!(
        r#"{{"run":"{}","name":"loss","measured_at":"2026-06-01T04:30:00Z","value":1.5}}"#,
        run.id.as_str()
    );
    let batch = read_ndjson(Kind::Metrics, row.as_bytes(), now()).unwrap();
    ingest.submit(&workspace, batch, None, Remember::Week).await.unwrap();
    let latest = async || {
        let range = key::latest_of(workspace.id(), &run.id);
        query_all(&*table, Query::table(range)).await.unwrap().len()
    };
    assert!(latest().await > 0, "the latest metrics of the run are noted");
    let at = EntityId::Workspace(workspace.id().clone());
    catalog.change(&at, &Patch::archive(true), None, now()).await.unwrap();
    // Nobody else appends meanwhile, so nobody is waited for.
    let deleting = Catalog::new(Arc::clone(&table)).waiting(Duration::ZERO);
    deleting.delete(&at, None, now()).await.unwrap();
    assert_eq!(latest().await, 0, "what is noted of the run is gone");
}
