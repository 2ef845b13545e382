//! Refused attempts, in the audit log of the server: one record for each caller, status and minute, with their number. The audit log
//! keeps its records for good, so a process writes a limited number of them a day, since anybody can cause them: beyond that they
//! are gathered for longer, all callers together.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::{MatchedPath, Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use event::Result;
use log::{
    audit::{Author, note},
    key::AuditLog,
};
use serde_json::json;
use table::Table;
use web::{Refused, Requester};

#[cfg(test)]
mod tests;

/// Interval between records of refusals.
const EVERY: Duration = Duration::from_secs(60);

/// Maximum callers whose refusals are recorded apart in one interval; further ones are recorded together.
const MAX_CALLERS: usize = 20;

/// Maximum records that a process writes at once, and the minutes until it may write one more: 96 a day.
const MAX_RECORDS: usize = 20;
const MINUTES_A_RECORD: u64 = 15;

/// Maximum operations that a record names.
const MAX_OPERATIONS: usize = 5;

/// Principal of an unknown caller.
const UNKNOWN: &str = "unknown";

/// Principal of the callers beyond the maximum.
const OTHERS: &str = "(others)";

/// Refusals since the last record.
#[derive(Debug)]
pub(crate) struct Refusals {
    table: Arc<dyn Table>,
    gathered: Mutex<Gathered>,
    /// Number of records that may be written now.
    left: AtomicUsize,
}

type Gathered = BTreeMap<(Caller, u16), Tally>;

/// The refused caller: its principal, or the address of an unknown one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Caller(Author);

/// Refusals of one caller.
#[derive(Clone, Debug, Default)]
struct Tally {
    count: u64,
    /// Id of the first request.
    request: Option<String>,
    operations: BTreeSet<String>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.request = self.request.take().or(other.request);
        self.operations.extend(other.operations);
        while self.operations.len() > MAX_OPERATIONS {
            self.operations.pop_last();
        }
    }
}

/// Merges the refusals of all callers.
fn together(gathered: Gathered) -> Gathered {
    let mut all = Gathered::new();
    for ((_, status), tally) in gathered {
        all.entry((Caller(Author::named(OTHERS)), status)).or_default().add(tally);
    }
    all
}

impl Refusals {
    /// Starts with no refusals.
    pub(crate) fn new(table: Arc<dyn Table>) -> Arc<Self> {
        Arc::new(Self { table, gathered: Mutex::default(), left: AtomicUsize::new(MAX_RECORDS) })
    }

    /// Wraps the router, and takes note of its refusals.
    pub(crate) fn watch(self: &Arc<Self>, router: Router) -> Router {
        router.layer(from_fn_with_state(Arc::clone(self), watched))
    }

    /// Takes note of a refusal.
    fn note(&self, requester: &Requester, refused: &Refused, status: u16, operation: String) {
        let principal = refused.principal.as_deref();
        let mut author = Author::named(principal.unwrap_or(UNKNOWN));
        author.address = requester.address;
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut caller = (Caller(author), status);
        if gathered.len() >= MAX_CALLERS && !gathered.contains_key(&caller) {
            caller.0 = Caller(Author::named(OTHERS));
        }
        let tally = gathered.entry(caller).or_default();
        tally.count += 1;
        tally.request.get_or_insert_with(|| requester.request_id.to_string());
        if tally.operations.len() < MAX_OPERATIONS {
            tally.operations.insert(operation);
        }
    }

    /// Takes the refusals that may be recorded now; the rest stays gathered.
    fn taken(&self) -> Gathered {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut some = std::mem::take(&mut *gathered);
        let left = self.left.load(Ordering::Relaxed);
        if some.len() > left {
            some = together(some);
        }
        if some.len() > left {
            *gathered = some;
            return Gathered::new();
        }
        self.left.fetch_sub(some.len(), Ordering::Relaxed);
        some
    }

    /// Records the gathered refusals, within the limit.
    ///
    /// # Errors
    /// Errors of the table. Refusals that could not be recorded are lost.
    pub(crate) async fn record(&self) -> Result<()> {
        for ((Caller(author), status), tally) in self.taken() {
            let author = Author { request: tally.request, ..author };
            let said = json!({ "count": tally.count, "operations": tally.operations });
            let what = ("refused", status.to_string());
            note(&*self.table, &AuditLog::Server, &author, (what.0, &what.1), Some(said.to_string())).await?;
        }
        Ok(())
    }

    /// Records the gathered refusals, within the limit, each minute and at the end.
    pub(crate) async fn run(self: Arc<Self>, end: impl Future<Output = ()>) {
        tokio::pin!(end);
        let (mut is_over, mut minutes) = (false, 0);
        while !is_over {
            tokio::select! {
                () = &mut end => is_over = true,
                () = tokio::time::sleep(EVERY) => minutes += 1,
            }
            if is_over {
                // Gathered refusals would be lost: allow one record for each status.
                self.left.fetch_max(4, Ordering::Relaxed);
            } else if minutes % MINUTES_A_RECORD == 0 && self.left.load(Ordering::Relaxed) < MAX_RECORDS {
                self.left.fetch_add(1, Ordering::Relaxed);
            }
            if let Err(error) = self.record().await {
                tracing::warn!(%error, "refused attempts could not be recorded in the audit log");
            }
        }
    }
}

async fn watched(
    State(refusals): State<Arc<Refusals>>,
    requester: Requester,
    matched: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let mut response = next.run(request).await;
    if let Some(refused) = response.extensions_mut().remove::<Refused>() {
        let path = matched.as_ref().map_or("", MatchedPath::as_str);
        refusals.note(&requester, &refused, response.status().as_u16(), format!("{method} {path}"));
    }
    response
}
