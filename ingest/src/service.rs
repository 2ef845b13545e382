//! What the ingest service does, for requests over HTTP, for imported files and for the demo.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use catalog::{
    Action, CACHED_SECONDS, Cached, Catalog, Definitions, Keeping, Lanes, Noted, ReleaseChange, ReleaseSpec,
    Workspace,
};
use event::{Clock, Day, Error, ErrorKind, Id, Kind, RowProblem, Share, Window};
use meter::Counter;
use table::Table;

use crate::{
    append::{Appender, ChunkRows, Receipt, Remember},
    batch::{Batch, Refused, RowIssue, check_idempotency_key},
    defining,
    file::Origin,
    gate::{Bounds, Gate},
    limits::{BODY_WITHIN, MAX_LISTED_ERRORS},
    quota::Quotas,
    runs,
};

/// Why a batch was not stored.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Something is wrong with the request.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Something is wrong below.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Takes batches for workspaces.
#[derive(Debug)]
pub struct Ingest {
    catalog: Catalog,
    appender: Appender,
    clock: Clock,
    /// Releases that are known to have existed and to be used ([`catalog::First`]). They never change; one that
    /// is deleted stays known here.
    releases: Mutex<HashMap<Id, BTreeSet<String>>>,
    workspaces: Cached<String, Workspace>,
    lanes: Cached<Id, Lanes>,
    keeping: Cached<Id, Keeping>,
    definitions: Cached<Id, Arc<Definitions>>,
    /// Runs that are there, by their workspaces.
    runs: Cached<(Id, Id), ()>,
    gate: Arc<Gate>,
    pub(crate) quotas: Quotas,
    unrecorded: Counter,
    body_within: Duration,
}

/// Up to so many release events of a batch are recorded as live by who appends them, not only later by
/// the projector.
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
            gate: Gate::new(Bounds::default()),
            quotas: Quotas::new(table, clock),
            unrecorded: meter::catalogue::INGEST_UNRECORDED.counter([]),
            body_within: BODY_WITHIN,
        }
    }

    /// The same, which keeps the features of a share of all keys only.
    pub fn sampling_features(self, share: Share) -> Self {
        Self { appender: self.appender.sampling_features(share), ..self }
    }

    /// The same, in which the body of a request may take so long to come.
    pub fn taking_bodies_within(self, body_within: Duration) -> Self {
        Self { body_within, ..self }
    }

    /// How long the body of a request may take to come.
    pub(crate) fn body_within(&self) -> Duration {
        self.body_within
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The gate that requests go through.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
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
    /// When a row names a release that does not exist or a day that has expired, the idempotency key is no good or was used
    /// for other events, or the table fails.
    pub async fn submit(
        &self,
        workspace: &Workspace,
        batch: Batch,
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
        let (lanes, recorded) = self.prepare(workspace, &batch).await?;
        let id = workspace.id();
        let receipt = self.appender.append(id, &lanes, batch, idempotency_key, remember).await?;
        self.record(id, recorded).await;
        Ok(receipt)
    }

    /// Records what events change about what is live and what holds. They are in the log: whatever fails from
    /// here on is not theirs, and the projector records them as well.
    async fn record(&self, workspace: &Id, recorded: Recorded) {
        self.record_runs(workspace, recorded.runs).await;
        if let Err(error) = self.catalog.record(workspace, &recorded.changes).await {
            self.unrecorded.increment(1);
            tracing::warn!(%workspace, %error, "release events are stored; the projector records what is live");
        }
        self.record_definitions(workspace, &recorded.defines).await;
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
        let (id, kind) = (workspace.id(), batch.kind);
        let (lanes, recorded) = self.prepare(workspace, &batch.take(good)).await?;
        let none = BTreeSet::new();
        let chunk = ChunkRows { origin, batch, good, old: &none };
        let is_new =
            self.appender.has_old_files(id, kind).await? && !self.appender.knows_chunk(id, &chunk).await?;
        let (old, completed) = match is_new {
            true => {
                let releases = self.catalog.page(id).await?.releases.into_iter();
                let registered = releases.map(|release| (release.entity.name, release.entity.created_at));
                self.appender.old_rows(id, &chunk, &registered.collect()).await?
            }
            false => (BTreeSet::new(), 0),
        };
        let chunk = ChunkRows { old: &old, ..chunk };
        let mut receipt = self.appender.append_chunk(id, &lanes, &chunk).await?;
        receipt.appended += completed;
        receipt.replayed = receipt.appended == 0;
        self.record(id, recorded).await;
        Ok(receipt)
    }

    /// Checks a batch and registers the releases that it brings; the lanes of its workspace, and what is to
    /// be recorded of it once it is stored.
    async fn prepare(&self, workspace: &Workspace, batch: &Batch) -> Result<(Lanes, Recorded), SubmitError> {
        // By its id: the path that the caller resolved long ago may be another workspace's by now.
        self.workspace(workspace.id().as_str()).await?.check_open()?;
        self.check(workspace, batch).await?;
        if batch.kind != Kind::Releases {
            self.register_unknown(workspace, batch).await?;
        } else {
            for spec in specs(batch).into_iter().filter(|spec| spec.action == Some(Action::Register)) {
                self.catalog.ensure_release(workspace.id(), &spec.release, self.clock.now()).await?;
            }
        }
        self.use_named(workspace, batch).await?;
        let id = workspace.id();
        let lanes = self.lanes.get(id.clone(), self.clock.now(), self.catalog.lanes(id)).await?;
        // A larger one is left to the projector.
        let is_recorded = batch.kind == Kind::Releases && batch.rows() <= MAX_RECORDED_ROWS;
        let changes = if is_recorded { ReleaseChange::of(&batch.columns)? } else { Vec::new() };
        let (defines, runs) = (defining::days_of(batch), runs::noted(batch));
        Ok((lanes, Recorded { changes, defines, runs }))
    }

    /// Checks, without writing, that every release a batch names exists, or can be registered, and that
    /// no event belongs to a day that has expired.
    ///
    /// # Errors
    /// `Refused`, naming the rows; those of the table.
    pub async fn check(&self, workspace: &Workspace, batch: &Batch) -> Result<(), SubmitError> {
        let problems = self.problems(workspace, batch).await?;
        if problems.is_empty() {
            return Ok(());
        }
        let error_count = problems.len();
        let errors = problems.into_values().take(MAX_LISTED_ERRORS).collect();
        Err(Refused::Rows { errors, error_count }.into())
    }

    /// What [`Ingest::check`] finds, for every row, by its index in the batch.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn problems(
        &self,
        workspace: &Workspace,
        batch: &Batch,
    ) -> Result<BTreeMap<usize, RowProblem>, Error> {
        let issues = match batch.kind {
            Kind::Releases => self.release_problems(workspace.id(), batch).await?,
            _ => {
                let mut issues = self.expired_days(workspace.id(), batch).await?;
                issues.extend(self.unknown_releases(workspace.id(), batch).await?);
                issues.extend(self.unknown_runs(workspace.id(), batch).await?);
                issues
            }
        };
        let problem = |(row, field, message): RowIssue| {
            (row, RowProblem { row: batch.numbers[row], field: Some(field.into()), message })
        };
        Ok(issues.into_iter().map(problem).collect())
    }

    /// What is wrong with release events: by row, the field and the message.
    async fn release_problems(&self, workspace: &Id, batch: &Batch) -> Result<Vec<RowIssue>, Error> {
        let page = self.catalog.page(workspace).await?;
        let known = self.catalog.definitions(workspace).await?;
        let mut problems = Vec::new();
        let mut registered: BTreeMap<String, ReleaseSpec> = BTreeMap::new();
        for (row, spec) in specs(batch).into_iter().enumerate() {
            let name = spec.release.name.clone();
            let is_known = registered.contains_key(&name)
                || page.releases.iter().any(|release| release.entity.name == name);
            if let Some(problem) = defining::problem(batch, row, spec.action) {
                problems.push(problem);
            }
            if spec.action != Some(Action::Register) {
                if !is_known {
                    problems.push((row, "release", unknown_release(&name)));
                }
                let found = page.releases.iter().find(|release| release.entity.name == name);
                if let Some(known) = found.filter(|known| known.model != spec.release.model) {
                    problems.push((
                        row,
                        "model",
                        format!("is not that of `{name}`, which is `{}`", known.model),
                    ));
                }
                if spec.release.environment.is_none() && spec.action.is_none_or(Action::is_of_live) {
                    problems.push((row, "environment", "is missing; say where".to_owned()));
                }
                continue;
            }
            match (Catalog::check_release(&page, &spec.release), registered.get(&name)) {
                (Err(error), _) if error.kind() == ErrorKind::NotFound => {
                    problems.push((row, "model", error.to_string()))
                }
                (Err(error), _) => problems.push((row, "release", error.to_string())),
                (Ok(()), Some(other)) if *other != spec.release => {
                    problems.push((row, "release", format!("`{name}` is registered differently further up")));
                }
                (Ok(()), _) => {
                    problems.extend(defining::differs(batch, row, &page, &known, &spec.release));
                    registered.insert(name, spec.release);
                }
            }
        }
        Ok(problems)
    }

    /// The rows of days whose events have expired.
    async fn expired_days(&self, workspace: &Id, batch: &Batch) -> Result<Vec<RowIssue>, Error> {
        let now = self.clock.now();
        let reading = self.catalog.keeping(workspace);
        let keeping = self.keeping.get(workspace.clone(), now, reading).await?;
        let (Some(from), Some(to)) = (batch.days.iter().min(), batch.days.iter().max()) else {
            return Ok(Vec::new());
        };
        if keeping.is_young(*from, now) {
            return Ok(Vec::new());
        }
        let kept = self.catalog.kept(workspace, Window::new(*from, *to)?, now).await?;
        let field = match batch.kind {
            // The day of an outcome is that of the prediction.
            Kind::Outcomes => "predicted_at",
            kind => kind.time_field(),
        };
        let issue = |(row, day): (usize, &Day)| {
            let message = || format!("is of {day}, whose events have expired in this workspace");
            (!kept.keeps(*day)).then(|| (row, field, message()))
        };
        Ok(batch.days.iter().enumerate().filter_map(issue).collect())
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

    /// The runs that are known to be there.
    pub(crate) fn known_runs(&self) -> &Cached<(Id, Id), ()> {
        &self.runs
    }

    pub(crate) fn known_releases(&self) -> MutexGuard<'_, HashMap<Id, BTreeSet<String>>> {
        self.releases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is recorded of a batch of release events once it is stored.
struct Recorded {
    changes: Vec<ReleaseChange>,
    defines: BTreeSet<Day>,
    runs: Noted,
}

/// What a release event says.
struct Change {
    action: Option<Action>,
    release: ReleaseSpec,
}

fn specs(batch: &Batch) -> Vec<Change> {
    let text = |name: &str, row| batch.columns.column(name)?.text(row).map(str::to_owned);
    let change = |row| Change {
        action: text("action", row).as_deref().and_then(Action::from_name),
        release: ReleaseSpec {
            name: text("release", row).unwrap_or_default(),
            model: text("model", row).unwrap_or_default(),
            configuration: text("configuration", row),
            environment: text("environment", row),
        },
    };
    (0..batch.rows()).map(change).collect()
}

fn unknown_release(name: &str) -> String {
    format!("`{name}` is no release of this workspace; register it first")
}
