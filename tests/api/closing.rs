//! Workspaces that are deleted or renamed while services cache them: no event is accepted for a deleted workspace, and none lands
//! in another one than its path named.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use catalog::{Catalog, Patch, RESERVED_SECONDS, Workspace};
use event::{Clock, ErrorKind, Kind, Task, Timestamp};
use ingest::{Ingest, Remember, SubmitError, json::read_json_array};
use log::{
    key::{EntityId, EntityKind},
    scan,
};
use serde_json::json;
use table::Table;
use tests::{
    crashing::Crashing,
    engine::{Engine, Fresh},
    register::register,
    world::at,
};

const PATH: &str = "credit/prod";

/// Table with a clock that is moved by hand.
struct Place {
    table: Arc<dyn Table>,
    seconds: Arc<AtomicI64>,
    _fresh: Fresh,
}

fn moved() -> (Arc<AtomicI64>, Clock) {
    let seconds = Arc::<AtomicI64>::default();
    let clock = Clock::from_fn({
        let seconds = Arc::clone(&seconds);
        move || start().plus_seconds(seconds.load(Ordering::SeqCst))
    });
    (seconds, clock)
}

fn start() -> Timestamp {
    at("2026-06-10T00:00:00Z")
}

impl Place {
    async fn on(engine: Engine) -> Self {
        let (seconds, clock) = moved();
        let fresh = engine.fresh(clock).await;
        Self { table: Arc::clone(&fresh.table), seconds, _fresh: fresh }
    }

    fn now(&self) -> Timestamp {
        start().plus_seconds(self.seconds.load(Ordering::SeqCst))
    }

    fn pass(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::SeqCst);
    }

    fn catalog(&self) -> Catalog {
        Catalog::new(Arc::clone(&self.table))
    }

    /// A workspace with a release at [`PATH`], cached by a service.
    async fn workspace(&self, ingest: &Ingest) -> Workspace {
        let workspace = register(&self.table, PATH, &["v1"], self.now()).await;
        ingest.workspace(PATH).await.unwrap();
        workspace
    }

    fn ingest(&self) -> Ingest {
        Ingest::replaying(Arc::clone(&self.table), Clock::from_fn(start))
    }

    /// Number of predictions in the log of a workspace.
    async fn stored(&self, workspace: &Workspace) -> u64 {
        let heads = scan::heads(&*self.table, workspace.id()).await.unwrap();
        heads.iter().filter(|head| head.log.kind == Kind::Predictions).map(|head| head.seq).sum()
    }
}

/// Appends a prediction to the workspace at a path, as the service over HTTP does.
async fn append(ingest: &Ingest, path: &str, key: &str) -> Result<Workspace, SubmitError> {
    let workspace = ingest.workspace(path).await?;
    let events =
        json!([{ "key": key, "predicted_at": "2026-06-01T01:00:00Z", "release": "v1", "score": 0.5 }]);
    let batch = read_json_array(Kind::Predictions, events.to_string().as_bytes(), start())?;
    ingest.submit(&workspace, batch, Some(key), Remember::Week).await?;
    Ok(workspace)
}

fn kind_of(error: &SubmitError) -> Option<ErrorKind> {
    if let SubmitError::Store(error) = error { Some(error.kind()) } else { None }
}

async fn deleted_workspace_takes_no_later_events(place: Place) {
    let ingest = Arc::new(place.ingest());
    let workspace = place.workspace(&ingest).await;
    let at = EntityId::Workspace(workspace.id().clone());
    place.catalog().change(&at, &Patch::archive(true), None, place.now()).await.unwrap();
    append(&ingest, PATH, "before").await.unwrap();
    let deleting = tokio::spawn({
        let (catalog, at, now) = (place.catalog(), at.clone(), place.now());
        async move { catalog.delete(&at, None, now).await }
    });
    // Some are accepted while it is closing; all of those are stored in it.
    let mut taken = 1;
    let refused = loop {
        match append(&ingest, PATH, &format!("k{taken}")).await {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(kind_of(&refused), Some(ErrorKind::Conflict), "{refused}");
    assert!(refused.to_string().contains("is being deleted"), "{refused}");
    assert!(!deleting.is_finished(), "it is refused before it is gone");
    assert_eq!(place.stored(&workspace).await, taken);
    deleting.await.unwrap().unwrap();
    assert!(append(&ingest, PATH, "after").await.is_err());
    // Its name stays reserved for a while.
    let catalog = place.catalog();
    let reserved = catalog.ensure_workspace(PATH, place.now()).await.unwrap_err();
    assert!(reserved.is_conflict() && reserved.to_string().contains("free again 60 s"), "{reserved}");
    place.pass(RESERVED_SECONDS + 1);
    let next = place.workspace(&place.ingest()).await;
    assert_ne!(next.id(), workspace.id());
    let found = append(&place.ingest(), PATH, "again").await.unwrap();
    assert_eq!(found.id(), next.id());
    assert_eq!((place.stored(&workspace).await, place.stored(&next).await), (taken, 1));
}

async fn renamed_workspace_path_is_reserved_while_remembered(place: Place) {
    let ingest = place.ingest();
    let workspace = place.workspace(&ingest).await;
    let (catalog, now) = (place.catalog(), place.now());
    let at = EntityId::Workspace(workspace.id().clone());
    catalog.change(&at, &Patch::rename("old"), None, now).await.unwrap();
    // An append by the old path lands in the renamed workspace.
    assert_eq!(append(&ingest, PATH, "late").await.unwrap().id(), workspace.id());
    assert!(catalog.ensure_workspace(PATH, now).await.unwrap_err().is_conflict());
    // Another workspace does not get the name by a rename, and the first one gets it back.
    let other = catalog.ensure_workspace("credit/other", now).await.unwrap();
    let other = EntityId::Workspace(other.id().clone());
    assert!(catalog.change(&other, &Patch::rename("prod"), None, now).await.unwrap_err().is_conflict());
    catalog.change(&at, &Patch::rename("prod"), None, now).await.unwrap();
    assert_eq!(catalog.workspace(PATH).await.unwrap().id(), workspace.id());
    assert!(catalog.workspace("credit/old").await.is_err());
    // A rename of the category, whose name is in the paths.
    let category = catalog.resolve(EntityKind::Category, "credit").await.unwrap();
    catalog.change(&category, &Patch::rename("lending"), None, now).await.unwrap();
    assert!(catalog.ensure_workspace(PATH, now).await.unwrap_err().is_conflict());
    assert_eq!(append(&ingest, PATH, "later").await.unwrap().id(), workspace.id());
    place.pass(RESERVED_SECONDS + 1);
    let next = catalog.ensure_workspace(PATH, place.now()).await.unwrap();
    assert_ne!(next.id(), workspace.id());
    assert_eq!(place.stored(&workspace).await, 2);
    let category = catalog.resolve(EntityKind::Category, "lending").await.unwrap();
    let count = catalog.get(&category).await.unwrap().children()[&EntityKind::Workspace];
    assert_eq!(count, 2, "names that were given up are not counted");
}

async fn interrupted_deletion_resumes_or_is_reverted(place: Place) {
    let ingest = place.ingest();
    let workspace = place.workspace(&ingest).await;
    let (catalog, now) = (place.catalog().waiting(Duration::ZERO), place.now());
    let at = EntityId::Workspace(workspace.id().clone());
    catalog.change(&at, &Patch::archive(true), None, now).await.unwrap();
    // The deletion dies after the mark.
    let dying = Catalog::new(Arc::new(Crashing::new(Arc::clone(&place.table), 1))).waiting(Duration::ZERO);
    assert!(dying.delete(&at, None, now).await.is_err());
    let error = append(&place.ingest(), PATH, "a").await.unwrap_err();
    assert_eq!(kind_of(&error), Some(ErrorKind::Conflict), "{error}");
    catalog.change(&at, &Patch::archive(false), None, now).await.unwrap();
    append(&place.ingest(), PATH, "a").await.unwrap();
    catalog.change(&at, &Patch::archive(true), None, now).await.unwrap();
    for writes in 1..6 {
        let dying = Catalog::new(Arc::new(Crashing::new(Arc::clone(&place.table), writes)));
        _ = dying.waiting(Duration::ZERO).delete(&at, None, now).await;
    }
    match catalog.delete(&at, None, now).await {
        Ok(()) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
    }
    assert!(catalog.find(&at).await.unwrap().is_none());
    assert!(catalog.workspace(PATH).await.is_err());
    let category = catalog.resolve(EntityKind::Category, "credit").await.unwrap();
    assert_eq!(catalog.get(&category).await.unwrap().children()[&EntityKind::Workspace], 0);
}

/// An empty workspace need not be archived to be deleted; an event accepted before the end keeps it.
async fn event_admitted_during_closing_keeps_empty_workspace(place: Place) {
    let ingest = place.ingest();
    let catalog = place.catalog();
    let workspace = catalog.ensure_workspace(PATH, place.now()).await.unwrap();
    let at = EntityId::Workspace(workspace.id().clone());
    ingest.workspace(PATH).await.unwrap();
    ingest.workspace(workspace.id().as_str()).await.unwrap();
    let deleting = tokio::spawn({
        let (catalog, at, now) = (place.catalog(), at.clone(), place.now());
        async move { catalog.delete(&at, None, now).await }
    });
    while catalog.get(&at).await.unwrap().entity().closing.is_none() {
        tokio::task::yield_now().await;
    }
    let measured =
        json!([{ "name": "latency", "measured_at": "2026-06-01T00:00:00Z", "value": 1.5, "release": "v1" }]);
    let batch = read_json_array(Kind::Metrics, measured.to_string().as_bytes(), start()).unwrap();
    let accepted =
        catalog.change_settings(workspace.id(), |settings| settings.accept_unknown_releases = true);
    accepted.await.unwrap();
    catalog.ensure_model(workspace.id(), "m", &Task::Regression, place.now()).await.unwrap();
    ingest.submit(&workspace, batch, None, Remember::Week).await.unwrap();
    let refused = deleting.await.unwrap().unwrap_err();
    assert!(refused.is_conflict() && refused.to_string().contains("archive it first"), "{refused}");
    assert_eq!(catalog.get(&at).await.unwrap().entity().closing, None, "it is open again");
}

macro_rules! on_every_engine {
    ($($test:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::Place::on(super::Engine::Sqlite).await).await;
            })*
        }

        mod dynamodb_local {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::Place::on(super::Engine::DynamodbLocal).await).await;
            })*
        }
    };
}

on_every_engine!(
    deleted_workspace_takes_no_later_events,
    renamed_workspace_path_is_reserved_while_remembered,
    interrupted_deletion_resumes_or_is_reverted,
    event_admitted_during_closing_keeps_empty_workspace,
);
