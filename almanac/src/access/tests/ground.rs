//! Setup shared by the tests of callers.

use std::sync::Arc;

use catalog::{Catalog, New, NewEntity};
use event::Clock;
use log::key::{EntityId, Scope};
use table::Table;
use tests::{
    conformance::TestClock,
    engine::{Engine, Fresh},
};

/// Setup of tests of callers: a table with a workspace and a user, and a clock that tests set.
pub(super) struct Ground {
    pub(super) clock: TestClock,
    pub(super) table: Arc<dyn Table>,
    pub(super) catalog: Catalog,
    pub(super) workspace: Scope,
    pub(super) ann: EntityId,
    pub(super) fresh: Fresh,
}

impl Ground {
    pub(super) async fn on(engine: Engine) -> Self {
        let clock = TestClock::new(Clock::system().now());
        let fresh = engine.fresh(clock.clock()).await;
        let table = Arc::clone(&fresh.table);
        let catalog = Catalog::new(Arc::clone(&table));
        let workspace = catalog.ensure_workspace("credit/prod", clock.now()).await.unwrap();
        let workspace = Scope::Workspace(workspace.entity.id);
        let ann = catalog.create(NewEntity::new("ann", New::User), clock.now()).await.unwrap().at();
        Self { clock, table, catalog, workspace, ann, fresh }
    }
}
