//! Attempts that were refused, in the trail of the server: one record for each caller, status and minute, however many
//! they were. The trail keeps its records for good, so a process writes at most so many a day of those that anybody can make come
//! about: beyond that they are gathered for longer, all callers together.

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
    key::Trail,
};
use serde_json::json;
use table::Table;
use web::{Asker, Refused};

/// How long refusals are gathered before they are recorded.
const EVERY: Duration = Duration::from_secs(60);

/// The most callers whose refusals are recorded apart in that time; further ones are recorded together.
const MAX_CALLERS: usize = 20;

/// The most records that a process writes at once, and after how many minutes one more may be written: 96 a day.
const MAX_RECORDS: usize = 20;
const MINUTES_A_RECORD: u64 = 15;

/// The most operations that a record names.
const MAX_OPERATIONS: usize = 5;

/// The principal of a caller that is not known.
const UNKNOWN: &str = "unknown";

/// The principal under which the callers are recorded that are too many.
const OTHERS: &str = "(others)";

/// What was refused since the last record.
#[derive(Debug)]
pub(crate) struct Refusals {
    table: Arc<dyn Table>,
    gathered: Mutex<Gathered>,
    /// How many records may be written now.
    left: AtomicUsize,
}

type Gathered = BTreeMap<(Caller, u16), Tally>;

/// Who was refused: the principal, or for one that is not known its address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Caller(Author);

/// What was refused to one caller.
#[derive(Clone, Debug, Default)]
struct Tally {
    count: u64,
    /// The id of the first request.
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

/// The same for all callers together.
fn together(gathered: Gathered) -> Gathered {
    let mut all = Gathered::new();
    for ((_, status), tally) in gathered {
        all.entry((Caller(Author::named(OTHERS)), status)).or_default().add(tally);
    }
    all
}

impl Refusals {
    /// Nothing refused yet.
    pub(crate) fn new(table: Arc<dyn Table>) -> Arc<Self> {
        Arc::new(Self { table, gathered: Mutex::default(), left: AtomicUsize::new(MAX_RECORDS) })
    }

    /// The router, of whose refusals are taken note.
    pub(crate) fn watch(self: &Arc<Self>, router: Router) -> Router {
        router.layer(from_fn_with_state(Arc::clone(self), watched))
    }

    /// Takes note of a refusal.
    fn note(&self, asker: &Asker, refused: &Refused, status: u16, operation: String) {
        let principal = refused.principal.as_deref();
        let mut author = Author::named(principal.unwrap_or(UNKNOWN));
        author.address = asker.address;
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut caller = (Caller(author), status);
        if gathered.len() >= MAX_CALLERS && !gathered.contains_key(&caller) {
            caller.0 = Caller(Author::named(OTHERS));
        }
        let tally = gathered.entry(caller).or_default();
        tally.count += 1;
        tally.request.get_or_insert_with(|| asker.request_id.to_string());
        if tally.operations.len() < MAX_OPERATIONS {
            tally.operations.insert(operation);
        }
    }

    /// What may be recorded now; the rest stays gathered.
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

    /// Records what was gathered, as far as it may.
    ///
    /// # Errors
    /// Those of the table. What was not recorded then is lost.
    pub(crate) async fn record(&self) -> Result<()> {
        for ((Caller(author), status), tally) in self.taken() {
            let author = Author { request: tally.request, ..author };
            let said = json!({ "count": tally.count, "operations": tally.operations });
            let what = ("refused", status.to_string());
            note(&*self.table, &Trail::Server, &author, (what.0, &what.1), Some(said.to_string())).await?;
        }
        Ok(())
    }

    /// Records what is gathered, as far as it may, each minute and at the end.
    pub(crate) async fn run(self: Arc<Self>, end: impl Future<Output = ()>) {
        tokio::pin!(end);
        let (mut is_over, mut minutes) = (false, 0);
        while !is_over {
            tokio::select! {
                () = &mut end => is_over = true,
                () = tokio::time::sleep(EVERY) => minutes += 1,
            }
            if is_over {
                // What is gathered would be lost: a record a status.
                self.left.fetch_max(4, Ordering::Relaxed);
            } else if minutes % MINUTES_A_RECORD == 0 && self.left.load(Ordering::Relaxed) < MAX_RECORDS {
                self.left.fetch_add(1, Ordering::Relaxed);
            }
            if let Err(error) = self.record().await {
                tracing::warn!(%error, "refused attempts could not be recorded in the audit trail");
            }
        }
    }
}

async fn watched(
    State(refusals): State<Arc<Refusals>>,
    asker: Asker,
    matched: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let mut response = next.run(request).await;
    if let Some(refused) = response.extensions_mut().remove::<Refused>() {
        let path = matched.as_ref().map_or("", MatchedPath::as_str);
        refusals.note(&asker, &refused, response.status().as_u16(), format!("{method} {path}"));
    }
    response
}
