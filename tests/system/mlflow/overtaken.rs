//! A door whose requests are overtaken by another process where a test says so.

use std::sync::{Arc, Mutex};

use almanac::up::Options;
use catalog::{Catalog, RunChange};
use event::{Clock, Id};
use table::{Table, sqlite::SqliteTable};
use tests::between::{Between, Happens};

use crate::support::Service;

/// Before the next write of which run something happens.
type Next = Arc<Mutex<Option<(String, Happens)>>>;

/// A service with MLflow's door, and what happens next between two calls of its table.
pub(super) struct Overtaken {
    pub(super) service: Service,
    table: Arc<dyn Table>,
    next: Next,
    _folder: tempfile::TempDir,
}

impl Overtaken {
    /// A service with the workspace `credit/prod`.
    pub(super) fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("almanac.db");
        let table: Arc<dyn Table> = Arc::new(SqliteTable::open(&file, Clock::system()).unwrap());
        let next: Next = Arc::new(Mutex::new(None));
        let waiting = Arc::clone(&next);
        let between = Between::new(Arc::clone(&table), move |call| {
            let mut waiting = waiting.lock().unwrap();
            let is_now = waiting.as_ref().is_some_and(|(run, _)| call.writes("/run", &format!("run#{run}")));
            if is_now { waiting.take().map(|(_, happens)| happens) } else { None }
        });
        let options = Options { mlflow: true, ..Options::new(Clock::system()) };
        let service = Service::start_on(Arc::new(between), options);
        let made = service.post("/v1/workspaces", "application/json", None, r#"{"path":"credit/prod"}"#);
        assert_eq!(made.status, 201, "{}", made.text());
        Self { service, table, next, _folder: folder }
    }

    /// Lets another process change a run just before the next write of it.
    pub(super) fn by(&self, run: &str, change: RunChange) {
        let (catalog, id) = (Catalog::new(Arc::clone(&self.table)), Id::parse(run).unwrap());
        let happens: Happens = Box::pin(async move {
            let workspace = catalog.workspace("credit/prod").await.unwrap();
            catalog.change_run(workspace.id(), &id, &change, Clock::system().now()).await.unwrap();
        });
        *self.next.lock().unwrap() = Some((run.to_owned(), happens));
    }

    /// True if the other process was there.
    pub(super) fn has_happened(&self) -> bool {
        self.next.lock().unwrap().is_none()
    }
}
