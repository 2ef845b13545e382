//! Ingest service, for requests over HTTP, for imported files and for the demo.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use catalog::{
    Action, CACHED_SECONDS, Cached, Catalog, Definitions, Keeping, Measured, Noted, ReleaseChange, ToMeasure,
    Workspace,
};
use event::{Clock, Day, Error, Id, Kind, Share};
use futures::future::BoxFuture;
use log::segment_cache::SegmentCache;
use meter::Counter;
use table::Table;

use crate::{
    admission::{Admission, Bounds},
    append::{Appender, ChunkRows, Receipt, Remember},
    batch::{Batch, Refused, check_idempotency_key},
    defining,
    erased::Erased,
    file::Origin,
    limits::{BODY_WITHIN, MAX_LISTED_ERRORS},
    problems::specs,
    promotion::Gates,
    quota::Quotas,
    reviews::PAIRS_SECONDS,
};

/// Reason why a batch was not stored.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Flaw of the request.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Failure of the store.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Takes batches for workspaces.
#[derive(Debug)]
pub struct Ingest {
    catalog: Catalog,
    pub(crate) appender: Appender,
    clock: Clock,
    /// Releases that are known to have existed and to be used ([`catalog::First`]). They never change; one that
    /// is deleted stays known here.
    releases: Mutex<HashMap<Id, BTreeSet<String>>>,
    workspaces: Cached<String, Workspace>,
    lanes: Cached<Id, u8>,
    keeping: Cached<Id, Keeping>,
    definitions: Cached<Id, Arc<Definitions>>,
    /// Runs that are there, by their workspaces.
    runs: Cached<(Id, Id), ()>,
    admission: Arc<Admission>,
    pub(crate) quotas: Quotas,
    /// Reader of the metrics that promotion gates ask for, and of the predictions that arenas are made of.
    pub(crate) reader: Option<Arc<dyn Reader>>,
    /// Arenas that were looked at for pairs that they lack.
    pub(crate) arenas: Cached<Id, ()>,
    unrecorded: Counter,
    body_within: Duration,
}

/// Maximum number of release events of a batch that ingest itself records as live, and not only the projector later.
const MAX_RECORDED_ROWS: usize = 100;

impl Ingest {
    /// A service on `table`, with `clock` for the time at which events are appended; it must be near that
    /// of the engine.
    pub fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        let appender = Appender::new(Arc::clone(&table), clock.clone());
        Self::with(table, clock, appender)
    }

    /// A service that appends a history again: `clock` gives the time at which each event was first appended.
    pub fn replaying(table: Arc<dyn Table>, clock: Clock) -> Self {
        let appender = Appender::replaying(Arc::clone(&table), clock.clone());
        Self::with(table, clock, appender)
    }

    fn with(table: Arc<dyn Table>, clock: Clock, appender: Appender) -> Self {
        Self {
            catalog: Catalog::new(Arc::clone(&table)),
            appender,
            clock: clock.clone(),
            releases: Mutex::default(),
            workspaces: Cached::new(CACHED_SECONDS),
            lanes: Cached::new(CACHED_SECONDS),
            keeping: Cached::new(CACHED_SECONDS),
            definitions: Cached::new(CACHED_SECONDS),
            runs: Cached::new(CACHED_SECONDS),
            admission: Admission::new(Bounds::default()),
            quotas: Quotas::new(table, clock),
            reader: None,
            arenas: Cached::new(PAIRS_SECONDS),
            unrecorded: meter::catalogue::INGEST_UNRECORDED.counter([]),
            body_within: BODY_WITHIN,
        }
    }

    /// Keeps the features of a share of all keys only.
    pub fn sampling_features(self, share: Share) -> Self {
        Self { appender: self.appender.sampling_features(share), ..self }
    }

    /// Hands over what it has put to the projector of this process.
    #[must_use]
    pub fn caching_segments(self, segment_cache: SegmentCache) -> Self {
        Self { appender: self.appender.caching_segments(segment_cache), ..self }
    }

    /// Sets the time in which the body of a request must come.
    pub fn taking_bodies_within(self, body_within: Duration) -> Self {
        Self { body_within, ..self }
    }

    /// Lets `reader` read the log. Without it a release whose gates need metrics is not made live, and arenas get more
    /// pairs only when they are refreshed.
    #[must_use]
    pub fn reading_by(self, reader: Arc<dyn Reader>) -> Self {
        Self { reader: Some(reader), ..self }
    }

    /// Maximum time in which the body of a request must come.
    pub(crate) fn body_within(&self) -> Duration {
        self.body_within
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The admission that requests go through.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The workspace of an id or of a path `category/name`, as it was [`CACHED_SECONDS`] ago at most.
    ///
    /// # Errors
    /// `NotFound`, when there is none.
    pub async fn workspace(&self, id_or_path: &str) -> Result<Workspace, Error> {
        let key = id_or_path.to_owned();
        self.workspaces.get(key, self.clock.now(), self.catalog.workspace(id_or_path)).await
    }

    /// Stores a batch, whole or not at all; returns after it is durable.
    ///
    /// # Errors
    /// When a row names a release that does not exist or a day that has expired, or makes a release live that does not pass
    /// its gates, the idempotency key is no good or was used for other events, or the table fails.
    pub async fn submit(
        &self,
        workspace: &Workspace,
        batch: Batch,
        idempotency_key: Option<&str>,
        remember: Remember,
    ) -> Result<Receipt, SubmitError> {
        self.submit_judged(workspace, (batch, Gates::Ask), idempotency_key, remember).await
    }

    /// Submits a batch whose promotion gates are still to be asked, or were.
    pub(crate) async fn submit_judged(
        &self,
        workspace: &Workspace,
        (batch, gates): (Batch, Gates),
        idempotency_key: Option<&str>,
        remember: Remember,
    ) -> Result<Receipt, SubmitError> {
        let event_id = batch.event_id.clone();
        let idempotency_key = match (idempotency_key, event_id.as_deref()) {
            (Some(key), Some(id)) if key != id => {
                let message = "the event has an `event_id` and the request another Idempotency-Key; give one";
                return Err(Refused::Whole(message.into()).into());
            }
            (key, id) => key.or(id),
        };
        if let Some(key) = idempotency_key {
            check_idempotency_key(key)?;
        }
        if batch.rows() == 0 {
            let name = idempotency_key.map_or_else(|| batch.digest(), str::to_owned);
            return Ok(Receipt::of_nothing(name, batch.kind));
        }
        let is_repeat = self.repeats_erased(workspace, &batch, idempotency_key, remember).await?;
        let (lanes, recorded) = self.prepare(workspace, &batch, gates, is_repeat).await?;
        let id = workspace.id();
        let receipt = self.appender.append(id, lanes, batch, idempotency_key, remember).await?;
        self.record(id, recorded, &receipt).await;
        Ok(receipt)
    }

    /// Records what events change about what is live and what holds. They are in the log: whatever fails from
    /// here on is not theirs, and the projector records them as well.
    async fn record(&self, workspace: &Id, recorded: Recorded, receipt: &Receipt) {
        if receipt.appended < receipt.rows {
            self.record_runs(workspace, recorded.runs).await;
        }
        if let Err(error) = self.catalog.record(workspace, &recorded.changes).await {
            self.unrecorded.increment(1);
            tracing::warn!(%workspace, %error, "release events are stored; the projector records what is live");
        }
        self.record_definitions(workspace, &recorded.defines).await;
    }

    /// Records the latest values of metrics of runs that had been stored before, whose place the appender does not know: the
    /// process that appended them may have died before it recorded them.
    async fn record_runs(&self, workspace: &Id, noted: Noted) {
        if noted.is_empty() {
            return;
        }
        if let Err(error) = self.catalog.record_metrics(workspace, noted).await {
            self.unrecorded.increment(1);
            tracing::warn!(%workspace, %error, "metrics of runs are stored; the projector records the latest ones");
        }
    }

    /// Stores those good rows of a chunk of a file that no earlier import has stored. `batch` is all rows
    /// that could be read, `good` says which of them are to be stored.
    ///
    /// # Errors
    /// As [`Ingest::submit`].
    pub async fn submit_chunk(
        &self,
        workspace: &Workspace,
        origin: &Origin,
        batch: &Batch,
        good: &[usize],
    ) -> Result<Receipt, SubmitError> {
        let id = workspace.id();
        let (lanes, recorded) = self.prepare(workspace, &batch.take(good), Gates::Ask, false).await?;
        let chunk = ChunkRows { origin, batch, good };
        let receipt = self.appender.append_chunk(id, lanes, &chunk).await?;
        self.record(id, recorded, &receipt).await;
        Ok(receipt)
    }

    /// Checks a batch and registers the releases that it brings; the lanes of its workspace, and what is to
    /// be recorded of it once it is stored.
    async fn prepare(
        &self,
        workspace: &Workspace,
        batch: &Batch,
        gates: Gates,
        is_repeat: bool,
    ) -> Result<(u8, Recorded), SubmitError> {
        // By its id: the path that the caller resolved long ago may be another workspace's by now.
        self.workspace(workspace.id().as_str()).await?.check_open()?;
        self.check(workspace, batch, gates, is_repeat).await?;
        if batch.kind != Kind::Releases {
            self.register_unknown(workspace, batch).await?;
        } else {
            for spec in specs(batch).into_iter().filter(|spec| spec.action == Some(Action::Register)) {
                self.catalog.ensure_release(workspace.id(), &spec.release, self.clock.now()).await?;
            }
        }
        self.use_named(workspace, batch).await?;
        let id = workspace.id();
        let lanes = self.lanes(id).await?;
        // A larger one is left to the projector.
        let is_recorded = batch.kind == Kind::Releases && batch.rows() <= MAX_RECORDED_ROWS;
        let changes = if is_recorded { ReleaseChange::of(&batch.columns)? } else { Vec::new() };
        let (defines, runs) = (defining::days_of(batch), run_metrics(batch));
        Ok((lanes, Recorded { changes, defines, runs }))
    }

    /// Returns the number of lanes of new days of a workspace, as it was [`CACHED_SECONDS`] ago at most.
    pub(crate) async fn lanes(&self, workspace: &Id) -> Result<u8, Error> {
        let read = async { self.catalog.settings(workspace).await.map(|settings| settings.lanes()) };
        self.lanes.get(workspace.clone(), self.clock.now(), read).await
    }

    /// Checks, without writing, that every release a batch names exists, or can be registered, and that no event belongs to
    /// an expired day or makes a release live that does not pass its gates. Events of erased keys are no problem in a
    /// repeat: they are not stored again.
    async fn check(
        &self,
        workspace: &Workspace,
        batch: &Batch,
        gates: Gates,
        is_repeat: bool,
    ) -> Result<(), SubmitError> {
        let problems = match is_repeat {
            true => self.problems_but_erased(workspace, batch, gates).await?,
            false => self.problems_judged(workspace, batch, gates).await?,
        };
        if problems.is_empty() {
            return Ok(());
        }
        let error_count = problems.len();
        let errors = problems.into_values().take(MAX_LISTED_ERRORS).collect();
        Err(Refused::Rows { errors, error_count }.into())
    }

    /// True if a batch with events of erased keys repeats one that came before they were erased.
    async fn repeats_erased(
        &self,
        workspace: &Workspace,
        batch: &Batch,
        idempotency_key: Option<&str>,
        remember: Remember,
    ) -> Result<bool, Error> {
        let id = workspace.id();
        match self.erased_keys(id, batch).await?.is_empty() {
            true => Ok(false),
            false => self.appender.is_repeat(id, batch.clone(), idempotency_key, remember).await,
        }
    }

    /// The keys that were erased.
    pub(crate) fn erased(&self) -> &Erased {
        &self.appender.erased
    }

    /// The definitions of a workspace, as they were some seconds ago at most.
    pub(crate) async fn definitions(&self, workspace: &Id) -> Result<Arc<Definitions>, Error> {
        let reading = async { self.catalog.definitions(workspace).await.map(Arc::new) };
        self.definitions.get(workspace.clone(), self.clock.now(), reading).await
    }

    /// Counts what was appended and could not be recorded.
    pub(crate) fn unrecorded(&self) -> &Counter {
        &self.unrecorded
    }

    /// Retentions of workspaces, as they were some seconds ago at most.
    pub(crate) fn known_keeping(&self) -> &Cached<Id, Keeping> {
        &self.keeping
    }

    /// The runs that are known to be there.
    pub(crate) fn known_runs(&self) -> &Cached<(Id, Id), ()> {
        &self.runs
    }

    pub(crate) fn known_releases(&self) -> MutexGuard<'_, HashMap<Id, BTreeSet<String>>> {
        self.releases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes of the catalog that a batch of release events makes once it is stored.
struct Recorded {
    changes: Vec<ReleaseChange>,
    defines: BTreeSet<Day>,
    runs: Noted,
}

/// Collects the metrics of runs in a batch.
fn run_metrics(batch: &Batch) -> Noted {
    let mut noted = Noted::default();
    if batch.kind == Kind::Metrics {
        noted.add(&batch.columns, None);
    }
    noted
}

/// Service that reads the log, and metrics of it.
pub trait Reader: Debug + Send + Sync {
    /// Reads the metrics by which promotion gates judge a release.
    ///
    /// # Errors
    /// Fails when they cannot be read.
    fn measure<'a>(&'a self, workspace: &'a Id, of: &'a ToMeasure) -> BoxFuture<'a, Result<Measured, Error>>;

    /// Picks items of the pairs of releases that the arena of this name does not have yet.
    ///
    /// # Errors
    /// Fails when the predictions cannot be read, or another process does the same.
    fn pick_pairs<'a>(&'a self, workspace: &'a Workspace, arena: &'a str)
    -> BoxFuture<'a, Result<(), Error>>;
}
