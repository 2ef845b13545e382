//! A table of a test's own, on which reads are counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use catalog::{Catalog, New, NewEntity, SnapshotContent};
use event::{Clock, Day, Definition, Id, Kind, Task, Timestamp, Window};
use log::{
    cut::Cut,
    key::EntityId,
    lane_partitions::{self, LanePartitions},
    layout,
};
use table::Table;

use crate::{
    counted::{Counted, Reads},
    engine::{Engine, Fresh},
};

/// A table, the catalog in it, and a count of what is read.
#[derive(Debug)]
pub struct World {
    /// The table, which counts.
    pub counted: Arc<Counted>,
    /// The catalog in it.
    pub catalog: Catalog,
    /// The table itself.
    pub fresh: Fresh,
}

impl World {
    /// On a new table of an engine.
    pub async fn on(engine: Engine) -> Self {
        Self::with(engine, Clock::system()).await
    }

    /// On a new table of an engine, whose time is that of `clock`.
    pub async fn with(engine: Engine, clock: Clock) -> Self {
        let fresh = engine.fresh(clock.clone()).await;
        let table = LanePartitions::over(Arc::clone(&fresh.table), clock);
        // As in a table that this Almanac made.
        layout::raise(&*table, Timestamp::default(), async || Ok(true)).await.expect("an empty table");
        let counted = Arc::new(Counted::new(table));
        Self { catalog: Catalog::new(Arc::clone(&counted) as _), counted, fresh }
    }

    /// The table, with the count.
    pub fn table(&self) -> Arc<dyn Table> {
        Arc::clone(&self.counted) as _
    }

    /// What `asked` answers, and what it read.
    pub async fn reads<T>(&self, asked: impl Future<Output = T>) -> (T, Reads) {
        self.counted.take_reads();
        let answer = asked.await;
        (answer, self.counted.take_reads())
    }

    /// The workspace `credit/prod`.
    ///
    /// # Panics
    /// When it cannot be made.
    pub async fn workspace(&self) -> EntityId {
        let made = self.catalog.ensure_workspace("credit/prod", at("2026-06-01T00:00:00Z")).await;
        EntityId::Workspace(made.expect("a workspace").entity.id)
    }

    /// Sets how many lanes the days of a workspace get, and gives each a partition of its own at once, as if that had been decided long ago.
    ///
    /// # Panics
    /// When it cannot be set.
    pub async fn set_lanes(&self, workspace: &Id, lanes: u8) {
        lane_partitions::since(&*self.counted, workspace, lanes, Day::FIRST).await.expect("a table");
        self.catalog.set_lanes(workspace, lanes, Timestamp::default()).await.expect("a number of lanes");
    }

    /// A new model of a workspace.
    ///
    /// # Panics
    /// When it cannot be made.
    pub async fn model(&self, workspace: &EntityId, name: &str, now: Timestamp) -> EntityId {
        let what =
            New::Model { workspace: workspace.id().clone(), definition: Definition::of(Task::Regression) };
        self.catalog.create(NewEntity::new(name, what), now).await.expect("a model").at()
    }
}

/// How many items were read by their keys, and how many pages of queries; however many items these held.
pub fn cost(reads: Reads) -> (u64, u64) {
    (reads.gets, reads.queries)
}

/// An instant.
///
/// # Panics
/// When the text is none.
pub fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("an instant")
}

/// What a new snapshot is that reads nothing.
///
/// # Panics
/// When a cut of nothing cannot be written.
pub fn snapshot(workspace: &EntityId) -> New {
    let window = Window::of(at("2026-06-01T00:00:00Z").day());
    let cut = Cut {
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
        as_of: cut.as_of,
        rows: 0,
        digest: "sha256:00".to_owned(),
        cut: cut.to_bytes().expect("a cut"),
    };
    New::Snapshot { workspace: workspace.id().clone(), content: Box::new(content) }
}

/// What a new release of a model is.
pub fn release(workspace: &EntityId, model: &str) -> New {
    New::Release {
        workspace: workspace.id().clone(),
        model: model.to_owned(),
        configuration: Some("deep".to_owned()),
        environment: Some("production".to_owned()),
        details: Box::default(),
    }
}
