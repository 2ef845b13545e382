//! A table of a test's own, on which reads are counted.

use std::sync::Arc;

use catalog::{Catalog, New, NewEntity};
use event::{Clock, Task, Timestamp};
use log::key::EntityId;
use table::{
    Table,
    dynamodb::{self, DynamoTable},
    sqlite::SqliteTable,
};
use tests::{
    counted::{Counted, Reads},
    local::fresh_table,
};

/// A table, the catalog in it, and a count of what is read.
pub(crate) struct World {
    pub(crate) counted: Arc<Counted>,
    pub(crate) catalog: Catalog,
    _folder: Option<tempfile::TempDir>,
}

impl World {
    fn of(table: Arc<dyn Table>, folder: Option<tempfile::TempDir>) -> Self {
        let counted = Arc::new(Counted::new(table));
        Self { catalog: Catalog::new(Arc::clone(&counted) as _), counted, _folder: folder }
    }

    /// On a SQLite file.
    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let table = SqliteTable::open(&folder.path().join("t.db"), Clock::system()).unwrap();
        Self::of(Arc::new(table), Some(folder))
    }

    /// On DynamoDB Local.
    pub(crate) async fn dynamodb_local() -> Self {
        let config = fresh_table(Clock::system());
        dynamodb::create(&config).await.unwrap();
        Self::of(Arc::new(DynamoTable::connect(config).await.unwrap()), None)
    }

    /// The table, with the count.
    pub(crate) fn table(&self) -> Arc<dyn Table> {
        Arc::clone(&self.counted) as _
    }

    /// What `asked` answers, and what it read.
    pub(crate) async fn reads<T>(&self, asked: impl Future<Output = T>) -> (T, Reads) {
        self.counted.take_reads();
        let answer = asked.await;
        (answer, self.counted.take_reads())
    }
}

/// `gets` items by their keys, and `queries` pages; however many items these held.
pub(crate) fn cost(reads: Reads) -> (u64, u64) {
    (reads.gets, reads.queries)
}

/// An instant.
pub(crate) fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// The workspace `credit/prod`.
pub(crate) async fn workspace(world: &World) -> EntityId {
    let workspace = world.catalog.ensure_workspace("credit/prod", at("2026-06-01T00:00:00Z")).await.unwrap();
    EntityId::Workspace(workspace.entity.id)
}

/// A new model.
pub(crate) async fn model(world: &World, workspace: &EntityId, name: &str, now: Timestamp) -> EntityId {
    let what = New::Model { workspace: workspace.id().clone(), task: Task::Regression };
    world.catalog.create(NewEntity::new(name, what), now).await.unwrap().at()
}

/// What a new release of a model is.
pub(crate) fn release(workspace: &EntityId, model: &str) -> New {
    New::Release {
        workspace: workspace.id().clone(),
        model: model.to_owned(),
        configuration: Some("deep".to_owned()),
        environment: Some("production".to_owned()),
        details: Box::default(),
    }
}

/// A test for each of the named functions of a [`World`], on SQLite and on DynamoDB Local.
macro_rules! rows {
    ($($row:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $row() {
                super::$row(crate::World::sqlite().await).await;
            })*
        }

        mod dynamodb_local {
            $(#[tokio::test]
            async fn $row() {
                super::$row(crate::World::dynamodb_local().await).await;
            })*
        }
    };
}

pub(crate) use rows;
