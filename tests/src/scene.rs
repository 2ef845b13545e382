//! A workspace with a model and two releases, to which a test appends events, and whose log it projects.
//!
//! Calls of a method must succeed, unless it returns a result: a refusal fails the test.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{borrow::BorrowMut, collections::BTreeSet, sync::Arc};

use catalog::{Patch, Workspace};
use event::{Clock, Day, Id, Kind, Timestamp};
use ingest::{Ingest, Remember, SubmitError, definitions::NewDefinition, json::read_json_array};
use log::{
    active,
    counted::{self, CountedTime},
    key::EntityId,
    scan,
};
use projector::{
    WorkspaceDay,
    evaluate::evaluate,
    expire::{Deleted, expire},
    features::sketch,
    project::{self, project},
    sweep::sweep,
    verify::verify,
    vintages::{self, Made},
};
use query::{Answer, Dataset, Format, Params, Query, Request};
use serde_json::{Value, json};
use table::Table;

use crate::{
    engine::Engine,
    register::{register, release_of},
    world::{World, at},
};

/// Instant of questions about the past.
pub const NOW: &str = "2026-06-10T00:00:00Z";

/// Rows of an answer as CSV.
pub fn csv(mut answer: impl BorrowMut<Answer>) -> String {
    let mut text = Vec::new();
    Format::Csv.write(&mut answer.borrow_mut().frame, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Parameters of a question about one day; a comparison is of `v1` and `v2`, or with the day itself.
pub fn words_of(what: Dataset, day: &str) -> Params<'_> {
    Params {
        from: day,
        to: day,
        reference: Some(day).filter(|_| matches!(what, Dataset::Drift | Dataset::Estimates)),
        release: Some("v1").filter(|_| what == Dataset::HeadToHead),
        against: Some("v2").filter(|_| what == Dataset::HeadToHead),
        model: Some("m").filter(|_| what == Dataset::Challengers),
        ..Params::default()
    }
}

/// A workspace on a table, and its services.
#[derive(Debug)]
pub struct Scene {
    /// Table that counts reads, and the catalog.
    pub world: World,
    /// Table of the services.
    pub table: Arc<dyn Table>,
    /// `credit/prod`.
    pub workspace: Workspace,
}

impl Scene {
    /// Makes a scene on a new table of an engine.
    pub async fn on(engine: Engine) -> Self {
        Self::new(World::on(engine).await).await
    }

    /// Makes `credit/prod` with the binary model `m` and its releases `v1` and `v2`, which are not live.
    pub async fn new(world: World) -> Self {
        let table = world.table();
        let workspace = register(&table, "credit/prod", &["v1", "v2"], at("2026-06-01T00:00:00Z")).await;
        Self { table, world, workspace }
    }

    /// Id of the workspace.
    pub fn id(&self) -> &Id {
        self.workspace.id()
    }

    /// Append service at an instant.
    pub fn ingest(&self, now: Timestamp) -> Ingest {
        Ingest::replaying(Arc::clone(&self.table), Clock::from_fn(move || now))
    }

    /// Query service at an instant.
    pub fn query(&self, now: Timestamp) -> Query {
        Query::new(Arc::clone(&self.table), Clock::from_fn(move || now))
    }

    /// Appends events at an instant.
    pub async fn append(&self, kind: Kind, events: Value, now: &str) -> Result<(), SubmitError> {
        let ingest = self.ingest(at(now));
        let batch = read_json_array(kind, events.to_string().as_bytes(), at(now))?;
        ingest.submit(&self.workspace, batch, None, Remember::Week).await.map(|_| ())
    }

    /// Appends a prediction of `v1` or `v2` on a day, with a score.
    pub async fn predict(&self, day: &str, release: &str, score: f64) {
        let events = json!([
            { "key": "k", "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": score },
        ]);
        self.append(Kind::Predictions, events, "2026-06-04T12:00:00Z").await.unwrap();
    }

    /// Appends a positive outcome of the prediction of a day.
    pub async fn judge(&self, day: &str) {
        let events = json!([
            { "key": "k", "predicted_on": day, "observed_at": "2026-06-04T00:00:00Z", "label": "1" },
        ]);
        self.append(Kind::Outcomes, events, "2026-06-04T12:00:00Z").await.unwrap();
    }

    /// Folds, evaluates and ranks all that is behind, as a worker does.
    pub async fn project(&self) {
        let version = active::load(&*self.table, self.id()).await.unwrap().version;
        let behind = sweep(&*self.table, self.id()).await.unwrap();
        for log in behind.logs.keys() {
            let day = WorkspaceDay { workspace: self.id().clone(), day: log.day };
            let projection = project(&*self.table, version, &day, &[log.clone()].into()).await.unwrap();
            evaluate(&*self.table, version, &day, &projection.applied).await.unwrap();
            sketch(&*self.table, version, &day, &projection.applied).await.unwrap();
        }
        for day in sweep(&*self.table, self.id()).await.unwrap().evaluations {
            let (stored, _) = project::read(&*self.table, version, &day).await.unwrap();
            evaluate(&*self.table, version, &day, &stored.applied).await.unwrap();
        }
        self.world.catalog.refresh_leaderboard(self.id(), at(NOW)).await.unwrap();
    }

    /// Keeps the evaluations of days at the ages that they have reached at `now`, as a sweep does.
    pub async fn keep_vintages(&self, now: Timestamp) -> Made {
        vintages::make(&*self.table, self.id(), &BTreeSet::new(), now).await.unwrap()
    }

    /// Deletes the events that have expired at `now`, by the clock and by the time that the table has counted.
    pub async fn expire(&self, now: Timestamp) -> Deleted {
        let before = counted::load(&*self.table).await.unwrap();
        let ver = before.map_or(0, |time| time.ver) + 1;
        let time = CountedTime { ver, minutes: now.micros() / 60_000_000, at: now };
        time.write(&*self.table).await.unwrap();
        self.expire_by_clock(now).await
    }

    /// Deletes the events that have expired by the clock of a worker, at `now`, and by the time that the table has counted.
    pub async fn expire_by_clock(&self, now: Timestamp) -> Deleted {
        expire(&*self.table, &self.world.catalog, self.id(), now).await.unwrap()
    }

    /// Days that a query of June finds for `what`.
    pub async fn days(&self, what: Dataset, now: Timestamp) -> Vec<String> {
        let words =
            Params { from: "2026-06-01", to: "2026-06-30", columns: Some("day"), ..Params::default() };
        let request = Request::parse(what, &words).unwrap();
        let text = csv(self.query(now).run(self.id(), &request).await.unwrap());
        let mut days: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
        days.dedup();
        days
    }

    /// Days that have logs.
    pub async fn logs(&self) -> Vec<Day> {
        let heads = scan::heads(&*self.table, self.id()).await.unwrap();
        let mut days: Vec<Day> = heads.into_iter().map(|head| head.log.day).collect();
        days.dedup();
        days
    }

    /// Current evaluations of June, or those as of an instant.
    pub async fn metrics(&self, as_of: Option<&str>) -> String {
        let words = Params {
            from: "2026-06-01",
            to: "2026-06-30",
            columns: Some(
                "day,release,predictions,positives,accuracy,repeated,orphaned,definition_from,positive_label,threshold",
            ),
            as_of,
            ..Params::default()
        };
        let request = Request::parse(Dataset::Evaluations, &words).unwrap();
        let frame = self.query(at(NOW)).run(self.id(), &request).await.unwrap().frame;
        let cells = frame.columns().iter().map(|column| format!("{}: {:?}", column.name(), column));
        cells.collect::<Vec<_>>().join("\n")
    }

    /// Appends predictions of `k0`, `k1`, ... on a day, with scores 0.1, 0.2, ...
    pub async fn predict_many(&self, day: &str, release: &str, count: usize, now: &str) {
        let events = (0..count).map(|n| {
            let score = (n + 1) as f64 / 10.0;
            json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": release, "score": score })
        });
        self.append(Kind::Predictions, events.collect::<Value>(), now).await.unwrap();
    }

    /// Appends outcomes of these keys, every other one with the label.
    pub async fn observe_many(&self, day: &str, label: &str, count: usize, now: &str) {
        let events = (0..count).map(|n| {
            let label = if n % 2 == 0 { label } else { "other" };
            json!({ "key": format!("k{n}"), "predicted_on": day, "observed_at": format!("{day}T02:00:00Z"), "label": label })
        });
        self.append(Kind::Outcomes, events.collect::<Value>(), now).await.unwrap();
    }

    /// Asserts that all projections agree with the log, and nothing is behind.
    pub async fn assert_verified(&self) {
        let report = verify(&self.table, self.id(), |_, _| {}).await.unwrap();
        assert_eq!((report.faults, report.behind), (Vec::<String>::new(), 0));
    }

    /// Release of a name.
    pub async fn release(&self, name: &str) -> EntityId {
        let page = self.world.catalog.page(self.id()).await.unwrap();
        let id = page.releases.iter().find(|release| release.entity.name == name).unwrap().entity.id.clone();
        EntityId::Release(self.id().clone(), id)
    }

    /// Archives and deletes the release of a name.
    pub async fn delete_release(&self, name: &str) {
        let at_release = self.release(name).await;
        self.world.catalog.change(&at_release, &Patch::archive(true), None, at(NOW)).await.unwrap();
        self.world.catalog.delete(&at_release, None, at(NOW)).await.unwrap();
    }

    /// Registers a release of a model.
    pub async fn register(&self, name: &str, model: &str) -> event::Result<()> {
        let spec = release_of(model, name);
        self.world.catalog.ensure_release(self.id(), &spec, at(NOW)).await.map(|_| ())
    }

    /// Gives a release another positive label, from a day on.
    pub async fn define(&self, release: &str, label: &str, from: &str, now: &str) {
        let new = NewDefinition {
            positive_label: Some(label.into()),
            from: Some(from.parse().unwrap()),
            ..NewDefinition::default()
        };
        let ingest = self.ingest(at(now));
        ingest.define_release(&self.workspace, release, &new).await.unwrap();
    }
}
