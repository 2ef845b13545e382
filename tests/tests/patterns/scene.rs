//! A workspace with a model and two releases, to which a row appends, and whose log it projects.

use std::sync::Arc;

use catalog::{ReleaseSpec, Workspace};
use event::{Clock, Id, Kind, Task, Timestamp};
use ingest::{Ingest, Remember, SubmitError, json::read_json_array};
use projector::{
    WorkspaceDay, board,
    evaluate::evaluate,
    project::{self, project},
    sweep::sweep,
};
use query::Query;
use serde_json::{Value, json};
use table::Table;

use crate::world::{World, at};

pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) table: Arc<dyn Table>,
    pub(crate) workspace: Workspace,
}

impl Scene {
    /// `credit/prod` with the binary model `m` and its releases `v1` and `v2`, which are not live.
    pub(crate) async fn new(world: World) -> Self {
        let now = at("2026-06-01T00:00:00Z");
        let workspace = world.catalog.ensure_workspace("credit/prod", now).await.unwrap();
        let task = Task::Binary { positive_label: "1".into() };
        world.catalog.ensure_model(workspace.id(), "m", &task, now).await.unwrap();
        for name in ["v1", "v2"] {
            let spec =
                ReleaseSpec { name: name.into(), model: "m".into(), configuration: None, environment: None };
            world.catalog.ensure_release(workspace.id(), &spec, now).await.unwrap();
        }
        Self { table: Arc::clone(&world.counted) as _, world, workspace }
    }

    pub(crate) fn id(&self) -> &Id {
        self.workspace.id()
    }

    /// The append service at an instant.
    pub(crate) fn ingest(&self, now: Timestamp) -> Ingest {
        Ingest::replaying(Arc::clone(&self.table), Clock::from_fn(move || now))
    }

    /// The query service at an instant.
    pub(crate) fn query(&self, now: Timestamp) -> Query {
        Query::new(Arc::clone(&self.table), Clock::from_fn(move || now))
    }

    pub(crate) async fn append(&self, kind: Kind, events: Value, now: &str) -> Result<(), SubmitError> {
        let ingest = self.ingest(at(now));
        let batch = read_json_array(kind, events.to_string().as_bytes(), at(now))?;
        ingest.submit(&self.workspace, batch, None, Remember::Week).await.map(|_| ())
    }

    /// A prediction of `v1` or `v2` on a day, with a score.
    pub(crate) async fn predict(&self, day: &str, release: &str, score: f64) {
        let events = json!([
            { "key": "k", "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": score },
        ]);
        self.append(Kind::Predictions, events, "2026-06-04T12:00:00Z").await.unwrap();
    }

    /// That the prediction of a day came true.
    pub(crate) async fn judge(&self, day: &str) {
        let events = json!([
            { "key": "k", "predicted_on": day, "observed_at": "2026-06-04T00:00:00Z", "label": "1" },
        ]);
        self.append(Kind::Outcomes, events, "2026-06-04T12:00:00Z").await.unwrap();
    }

    /// Folds, evaluates and ranks what is behind, as a worker does.
    pub(crate) async fn project(&self) {
        let behind = sweep(&*self.table, self.id()).await.unwrap();
        for log in behind.logs.keys() {
            let day = WorkspaceDay { workspace: self.id().clone(), day: log.day };
            let projection = project(&*self.table, 1, &day, &[log.clone()].into()).await.unwrap();
            evaluate(&*self.table, 1, &day, &projection.applied).await.unwrap();
        }
        for day in sweep(&*self.table, self.id()).await.unwrap().evaluations {
            let (stored, _) = project::read(&*self.table, 1, &day).await.unwrap();
            evaluate(&*self.table, 1, &day, &stored.applied).await.unwrap();
        }
        board::refresh(&*self.table, &self.world.catalog, self.id()).await.unwrap();
    }
}
