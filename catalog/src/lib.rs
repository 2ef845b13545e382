//! The catalog: categories, workspaces, models, configurations and releases; users, groups and systems.
//!
//! An entity is created in one transaction with its unique-name item and its parent's count, so names are unique and
//! counts exact; a repeated creation finds the entity.
//!
//! ```
//! use almanac_catalog::Catalog;
//! use event::{Definition, Clock, Task};
//! use table::sqlite::SqliteTable;
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("almanac.db");
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let clock = Clock::system();
//! let catalog = Catalog::new(std::sync::Arc::new(SqliteTable::open(&path, clock.clone())?));
//! let workspace = catalog.ensure_workspace("credit/prod", clock.now()).await?;
//! let model = catalog.ensure_model(workspace.id(), "churn", &Task::Multiclass, clock.now()).await?;
//! let again = catalog.ensure_model(workspace.id(), "churn", &Task::Multiclass, clock.now()).await?;
//! assert_eq!(model.entity.id, again.entity.id);
//! assert_eq!(catalog.workspace("credit/prod").await?.id(), workspace.id());
//! # Ok::<(), event::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! [`http`] serves it over HTTP. The crate does not depend on ingest, projector or query.

mod action;
pub mod activity;
mod address;
mod adopt;
mod alert;
pub mod attributes;
mod cached;
mod challenges;
mod change;
mod closing;
mod consumer;
mod counter;
pub mod counts;
mod create;
mod definition;
mod delete;
mod digest;
mod entity;
mod erasure;
mod feed;
mod first;
mod follow;
pub mod http;
pub mod json;
mod leaderboard;
mod list;
mod live;
mod live_spans;
mod member;
mod names;
pub mod new;
mod page;
mod place;
mod profile;
mod promotion;
mod quota;
mod recent;
mod record;
mod reference;
mod release;
mod retention;
mod review;
mod role;
mod run;
mod secret;
mod settings;
mod sight;
mod snapshot;

use std::{sync::Arc, time::Duration};

use event::{Clock, Definition, Error, Id, Result, Task, Timestamp, id::check_name};
use log::{
    audit::Audited,
    key::{self, EntityId, EntityKind},
};
use table::{Index, Query, Table, query_all};

pub use action::{Action, Effect};
pub use activity::Activity;
pub use alert::{
    AlertRule, AlertRuleBody, Alerts, Delivery, DeliveryState, FiredBy, Judged, Lags, MAX_ALERT_RULES,
    MAX_DELAY_DAYS, MAX_LISTED, MAX_REFERENCE_DAYS, MAX_TEST_DAYS, MAX_WEBHOOKS, Posted, Posting,
    RuleTransition, Scope as AlertScope, Watched, Webhook, WebhookFormat, check_webhook_url, digest_source,
    judged_rules,
};
pub use attributes::{Attributes, MAX_ATTRIBUTES_BYTES};
pub use cached::Cached;
pub use challenges::{Challenge, Challenges, Decision, MAX_CHALLENGES};
pub use change::Patch;
pub use closing::{CACHED_SECONDS, RESERVED_SECONDS};
pub use consumer::{Consumer, ConsumerLag, MAX_CONSUMERS, MAX_CONSUMERS_OF_ONE};
pub use counter::{MAX_KEY_BYTES as MAX_COUNTER_KEY_BYTES, MAX_REMEMBERED};
pub use create::{New, NewEntity};
pub use definition::{DEFINED, Defined, Definitions, record_definitions};
pub use digest::{
    DecidedComparison, DigestModel, FiredAlert, FollowersOf, LiveRelease, MAX_DIGEST_PAGES, MAX_FOLLOWERS,
    WeekOf, WeekValue, Weeks, digest_deliveries,
};
pub use entity::{AnyEntity, Category, Children, Configuration, Entity, Model, Workspace};
pub use erasure::{
    ERASURE_WAIT_SECONDS, ErasedKeys, Erasure, ErasurePhase, LeftOfErasure, MAX_ERASED_KEYS,
    MAX_ERASURE_KEYS, MAX_ERASURES, MAX_UNREADABLE,
};
pub use feed::{
    ALERT, Alert, DECIDED, FeedEntry, Happening, History, HistoryOf, MAX_ALERT_BYTES, MAX_ENTRIES, MAX_MARKS,
    alert_item, decision_item,
};
pub use first::First;
pub use follow::{Digest, Follow, Followers, MAX_FOLLOWS};
pub use leaderboard::{MAX_LEADERBOARD, Ranked, RankedRelease};
pub use list::{ListOptions, Listed, MAX_PAGE, OPTIONAL};
pub use live::{Live, LiveChange, LiveState, MAX_LIVE, ReleaseChange};
pub use live_spans::LiveSpans;
pub use member::{Grant, Membership};
pub use names::Names;
pub use page::{FreeCounters, UserPage, WorkspacePage};
pub use place::Place;
pub use profile::{profile_queries, profiles};
pub use promotion::{
    AgainstChampion, Approval, Evidence, FailedGate, GATE_DAYS, GATE_KINDS, GateKind,
    MAX_APPROVAL_NOTE_BYTES, MAX_APPROVALS, MAX_GATE_DAYS, MAX_GATE_ENVIRONMENTS, Measured, Override,
    PromotionGates, PromotionGatesBody, SECOND_PERSON, ToMeasure,
};
pub use quota::{LIMIT_COUNT, LIMITS, Limit, LimitValues, MAX_QUOTA, Measure, Quota, Span, TokenQuota};
pub use recent::{DayNumbers, Recent, last_whole_day};
pub use record::record;
pub use release::{
    Baselines, DetailedSpec, MAX_BASELINES, MAX_DETAIL_BYTES, MAX_METRICS, MAX_NOTES_BYTES, MAX_URI_BYTES,
    Release, ReleaseDetails, ReleaseSpec, TunedOn,
};
pub use retention::{
    EXPIRY_GRACE_SECONDS, Keeping, Kept, MAX_PINNED_DAYS, MAX_PINNED_RELEASES, MAX_RETENTION_DAYS, Pin,
    Retention,
};
pub use review::{
    ANSWERED_DAYS, ARENA_METRIC, AnsweredBy, AnsweredReview, ArenaPair, DEFAULT_LEASE_SECONDS,
    MAX_ARENA_JUDGES, MAX_ARENA_PAIRS, MAX_ARENA_RELEASES, MAX_ARENA_TAGS, MAX_GIVEN_ANSWERS, MAX_GIVEN_DAYS,
    MAX_LEASE_SECONDS, MAX_PAIR_ITEMS, MAX_REVIEW_ITEMS, MAX_REVIEW_LABELS, MAX_REVIEW_WINDOW_DAYS,
    MAX_REVIEWS, MIN_LEASE_SECONDS, PickedItems, PredictionSaid, REVIEW_DAYS, Review, ReviewAnswer,
    ReviewItem, ReviewLease, ReviewLink, ReviewPolicy, ReviewSpec, Served, Verdict, Vote, guest_reviewer,
};
pub use role::Role;
pub use run::{
    Experiment, ExperimentChange, HistoryPage, Latest, LatestValue, MAX_POINTS, MAX_RUN_BYTES,
    MAX_RUN_NAME_BYTES, MAX_RUN_VALUE_BYTES, NewRun, NewRunBody, Noted, OWN_TAGS, Point, Run, RunChange,
    RunChangeBody, RunPage, RunQuery, RunStatus, RunWithMetrics, Texts, WantedPoints, record_metrics,
};
pub use secret::{MAX_SECRETS, Secrets, parse_secret};
pub use settings::{LEADERBOARD_DAYS, LEADERBOARD_MIN_N, MAX_LEADERBOARD_DAYS, PrimaryMetric, Settings};
pub use sight::Sight;
pub use snapshot::{
    MAX_SNAPSHOT_READ_VERSION_BYTES, MAX_SNAPSHOT_WORDS_BYTES, MAX_SNAPSHOTS, SNAPSHOT_WORDS, SNAPSHOTS_OF,
    Snapshot, SnapshotContent,
};

/// The catalog in a table.
#[derive(Clone, Debug)]
pub struct Catalog {
    table: Arc<dyn Table>,
    cache_wait: Duration,
}

impl Catalog {
    /// The catalog in `table`. Each change of it is recorded in the audit log ([`log::audit`]).
    pub fn new(table: Arc<dyn Table>) -> Self {
        let table = Audited::shared(table);
        Self { table, cache_wait: Duration::from_secs(closing::CLOSING_SECONDS) }
    }

    /// Returns a catalog whose deletions of workspaces wait this long for caches to expire. Less than
    /// [`CACHED_SECONDS`] is safe only if nothing is appended.
    #[must_use]
    pub fn waiting(self, cache_wait: Duration) -> Self {
        Self { cache_wait, ..self }
    }

    /// Reads an entity, if it exists.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn find(&self, at: &EntityId) -> Result<Option<AnyEntity>> {
        self.table.get(&at.key()).await?.as_ref().map(AnyEntity::from_item).transpose()
    }

    /// Reads an entity.
    ///
    /// # Errors
    /// `NotFound`, when it does not exist.
    pub async fn get(&self, at: &EntityId) -> Result<AnyEntity> {
        let missing = || Error::not_found(format!("there is no {} `{at}`", at.kind()));
        self.find(at).await?.ok_or_else(missing)
    }

    /// Returns the category called `name`; creates it if it is new.
    ///
    /// # Errors
    /// `Invalid`, when the name cannot be one.
    pub async fn ensure_category(&self, name: &str, now: Timestamp) -> Result<Category> {
        match self.ensure(None, NewEntity::new(name, New::Category), now).await? {
            AnyEntity::Category(category) => Ok(category),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the workspace at `category/name`; creates it and its category if they are new.
    ///
    /// # Errors
    /// `Invalid`, when the path is not of that form.
    pub async fn ensure_workspace(&self, path: &str, now: Timestamp) -> Result<Workspace> {
        let (category, name) = split_path(path)?;
        check_name(name)?;
        let category = self.ensure_category(category, now).await?.entity.id;
        let parent = EntityId::Category(category.clone());
        match self.ensure(Some(&parent), NewEntity::new(name, New::Workspace { category }), now).await? {
            AnyEntity::Workspace(workspace) => Ok(workspace),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the model called `name` of a workspace; creates it if it is new.
    ///
    /// # Errors
    /// `Conflict`, when there is one with another task; `NotFound`, when the workspace is gone.
    pub async fn ensure_model(
        &self,
        workspace: &Id,
        name: &str,
        task: &Task,
        now: Timestamp,
    ) -> Result<Model> {
        self.ensure_defined_model(workspace, name, &Definition::of(task.clone()), now).await
    }

    /// Returns the model called `name` with this definition; creates it if it is new.
    ///
    /// # Errors
    /// `Conflict` if there is one with another definition; `NotFound` if the workspace is gone.
    pub async fn ensure_defined_model(
        &self,
        workspace: &Id,
        name: &str,
        definition: &Definition,
        now: Timestamp,
    ) -> Result<Model> {
        let parent = EntityId::Workspace(workspace.clone());
        let wanted = definition.clone().plain();
        let what = New::Model { workspace: workspace.clone(), definition: wanted.clone() };
        match self.ensure(Some(&parent), NewEntity::new(name, what), now).await? {
            AnyEntity::Model(model) if wanted.asks_no_more_than(&model.definition) => Ok(model),
            AnyEntity::Model(model) => {
                let known = model.definition;
                let message = match known.task.plain() == wanted.task {
                    true => format!(
                        "the model `{name}` exists and is judged otherwise; `model define` changes that"
                    ),
                    false => format!("the model `{name}` exists with another task ({})", known.task),
                };
                Err(Error::conflict(message))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the configuration called `name` of a workspace; creates it if it is new.
    ///
    /// # Errors
    /// `NotFound`, when the workspace is gone.
    pub async fn ensure_configuration(
        &self,
        workspace: &Id,
        name: &str,
        now: Timestamp,
    ) -> Result<Configuration> {
        let parent = EntityId::Workspace(workspace.clone());
        let what = New::Configuration { workspace: workspace.clone() };
        match Box::pin(self.ensure(Some(&parent), NewEntity::new(name, what), now)).await? {
            AnyEntity::Configuration(configuration) => Ok(configuration),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads the workspace of an id or of a path `category/name`.
    ///
    /// # Errors
    /// `NotFound`, when there is none.
    pub async fn workspace(&self, id_or_path: &str) -> Result<Workspace> {
        let at = self.resolve(EntityKind::Workspace, id_or_path).await?;
        let missing = || Error::not_found(format!("there is no workspace `{id_or_path}`"));
        match self.find(&at).await?.ok_or_else(missing)? {
            AnyEntity::Workspace(workspace) => Ok(workspace),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads all workspaces, by the age of their category and then by their own.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn workspaces(&self) -> Result<Vec<Workspace>> {
        let mut categories = self.every(EntityKind::Category, None).await?;
        categories.sort_by(|a, b| a.entity().by_age(b.entity()));
        let mut workspaces = Vec::new();
        for category in categories {
            let mut of_category = self.every(EntityKind::Workspace, Some(&category.at())).await?;
            of_category.sort_by(|a, b| a.entity().by_age(b.entity()));
            workspaces.extend(of_category.into_iter().filter_map(|any| match any {
                AnyEntity::Workspace(workspace) => Some(workspace),
                _ => None,
            }));
        }
        Ok(workspaces)
    }

    async fn every(&self, kind: EntityKind, parent: Option<&EntityId>) -> Result<Vec<AnyEntity>> {
        let Some(place) = key::siblings(kind, parent) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for item in query_all(&*self.table, Query::index(Index::Gsi1, place.pk)).await? {
            if EntityId::of_key(&item.key).is_some_and(|at| at.kind() == kind) {
                found.push(AnyEntity::from_item(&item)?);
            }
        }
        Ok(found)
    }

    /// Reads a workspace with its models, configurations, releases, grants and counters, by one query.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn page(&self, workspace: &Id) -> Result<WorkspacePage> {
        let query = Query::index(Index::Table, key::workspace_page(workspace));
        WorkspacePage::from_items(&query_all(&*self.table, query).await?)
    }

    /// Reads a user with groups, grants, counters, follows, answers in the week up to `now` and the latest activity, by
    /// one query.
    ///
    /// # Errors
    /// `NotFound`, when there is no such user.
    pub async fn user_page(&self, user: &Id, now: Timestamp) -> Result<UserPage> {
        let query = Query::index(Index::Table, EntityId::User(user.clone()).key().pk);
        UserPage::from_items(&query_all(&*self.table, query).await?, now)
    }

    /// Returns the entity of the same name, or creates the new one.
    async fn ensure(&self, parent: Option<&EntityId>, new: NewEntity, now: Timestamp) -> Result<AnyEntity> {
        self.find_or_create(parent, new, now).await.map(|(any, _)| any)
    }

    /// Does so, and returns whether it was created.
    async fn find_or_create(
        &self,
        parent: Option<&EntityId>,
        new: NewEntity,
        now: Timestamp,
    ) -> Result<(AnyEntity, bool)> {
        check_name(&new.name)?;
        let (kind, name) = (new.what.kind(), new.name.clone());
        if let Some(known) = self.named(parent, kind, &name).await? {
            return Ok((known, false));
        }
        match self.create(new, now).await {
            Ok(created) => Ok((created, true)),
            // Another process created it at the same time.
            Err(error) if error.is_conflict() => {
                let known = self.named(parent, kind, &name).await?;
                known.map(|known| (known, false)).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }
}

fn unexpected(found: &AnyEntity) -> Error {
    Error::corrupt(format!("{} has another type than its guard", found.at()))
}

fn no_model(name: &str) -> Error {
    Error::not_found(format!("there is no model `{name}` in this workspace; create it first"))
}

fn split_path(path: &str) -> Result<(&str, &str)> {
    path.split_once('/')
        .filter(|(_, name)| !name.contains('/'))
        .ok_or_else(|| Error::invalid(format!("`{path}` is not of the form category/workspace")))
}

/// The catalog, and the clock by which entities are created and changed.
#[derive(Debug)]
pub struct Service {
    catalog: Catalog,
    clock: Clock,
}

impl Service {
    /// A service on `table`.
    pub fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        Self { catalog: Catalog::new(table), clock }
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}
