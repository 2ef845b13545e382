//! A table of a test's own that counts reads.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use catalog::{Catalog, New, NewEntity, SnapshotContent};
use event::{Clock, Definition, Id, Kind, Task, Timestamp, Window};
use log::{key::EntityId, layout, read_version::ReadVersion};
use table::Table;

use crate::{
    counted::{Counted, Reads},
    engine::{Engine, Fresh},
};

/// A table, the catalog in it, and a count of reads.
#[derive(Debug)]
pub struct World {
    /// Table with the counts.
    pub counted: Arc<Counted>,
    /// Catalog in the table.
    pub catalog: Catalog,
    /// Table itself.
    pub fresh: Fresh,
}

impl World {
    /// Makes a new table of an engine.
    pub async fn on(engine: Engine) -> Self {
        Self::with(engine, Clock::system()).await
    }

    /// Makes a new table of an engine, with the time of `clock`.
    pub async fn with(engine: Engine, clock: Clock) -> Self {
        let fresh = engine.fresh(clock).await;
        // As in a table that this Almanac made.
        layout::begin(&*fresh.table, Timestamp::default()).await.expect("an empty table");
        let counted = Arc::new(Counted::new(Arc::clone(&fresh.table)));
        Self { catalog: Catalog::new(Arc::clone(&counted) as _), counted, fresh }
    }

    /// Table with the counts.
    pub fn table(&self) -> Arc<dyn Table> {
        Arc::clone(&self.counted) as _
    }

    /// Returns the answer of `asked`, and its reads.
    pub async fn reads<T>(&self, asked: impl Future<Output = T>) -> (T, Reads) {
        self.counted.take_reads();
        let answer = asked.await;
        (answer, self.counted.take_reads())
    }

    /// Makes the workspace `credit/prod`.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn workspace(&self) -> EntityId {
        let made = self.catalog.ensure_workspace("credit/prod", at("2026-06-01T00:00:00Z")).await;
        EntityId::Workspace(made.expect("a workspace").entity.id)
    }

    /// Sets how many lanes the days of a workspace get.
    ///
    /// # Panics
    /// If it cannot be set.
    pub async fn set_lanes(&self, workspace: &Id, lanes: u8) {
        self.catalog
            .change_settings(workspace, |settings| settings.lanes = Some(lanes))
            .await
            .expect("a number of lanes");
    }

    /// Makes a model in a workspace.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn model(&self, workspace: &EntityId, name: &str, now: Timestamp) -> EntityId {
        let what =
            New::Model { workspace: workspace.id().clone(), definition: Definition::of(Task::Regression) };
        self.catalog.create(NewEntity::new(name, what), now).await.expect("a model").at()
    }
}

/// Number of items read by key, and number of pages of queries; the items on the pages are not counted.
pub fn cost(reads: Reads) -> (u64, u64) {
    (reads.gets, reads.queries)
}

/// Parses an instant.
///
/// # Panics
/// If the text is none.
pub fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("an instant")
}

/// Content of a new snapshot that reads nothing.
///
/// # Panics
/// If an empty read version cannot be written.
pub fn snapshot(workspace: &EntityId) -> New {
    let window = Window::of(at("2026-06-01T00:00:00Z").day());
    let read_version = ReadVersion {
        workspace: workspace.id().clone(),
        window,
        kinds: [Kind::Predictions].into(),
        as_of: at("2026-06-10T00:00:00Z"),
        heads: BTreeMap::new(),
        left_out: BTreeSet::new(),
    };
    let content = SnapshotContent {
        what: "predictions".to_owned(),
        words: ["from", "to"].map(|name| (name.to_owned(), "2026-06-01".to_owned())).into(),
        window,
        columns: vec!["key".to_owned(), "score".to_owned()],
        as_of: read_version.as_of,
        rows: 0,
        digest: "sha256:00".to_owned(),
        read_version: read_version.to_bytes().expect("a read version"),
    };
    New::Snapshot { workspace: workspace.id().clone(), content: Box::new(content) }
}

/// Content of a new release of a model.
pub fn release(workspace: &EntityId, model: &str) -> New {
    New::Release {
        workspace: workspace.id().clone(),
        model: model.to_owned(),
        configuration: Some("deep".to_owned()),
        environment: Some("production".to_owned()),
        details: Box::default(),
    }
}
