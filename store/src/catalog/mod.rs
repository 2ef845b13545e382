//! The catalog: categories, workspaces, models, configurations and releases.
//!
//! An entity is created in one transaction with the guard of its name and its parent's counter,
//! so names are unique, counters exact, and a repeat of a creation finds what is there.

mod board;
mod entity;
mod feed;
mod lanes;
mod live;
mod page;
mod retention;
mod settings;

use std::sync::Arc;

use crate::{
    Error, ErrorKind, Id, Item, Result, Table, Timestamp,
    id::check_name,
    key::{self, Key},
    table::{Condition, Index, Query, Write, query_all},
};

pub use board::{MAX_BOARD, Ranked, RankedRelease};
pub use entity::{Category, Configuration, Entity, Model, Release, Task, Workspace};
pub use feed::{
    Alert, Digest, FEED_LOOK_BACK, FeedEntry, Happening, History, HistoryOf, MAX_ALERT_BYTES, MAX_ENTRIES,
    MAX_FOLLOWS, MAX_MARKS, SEEN_SECONDS,
};
pub use lanes::{LANES_DELAY_SECONDS, Lanes, MAX_LANES};
pub use live::{Action, Live, LiveChange, LiveState, MAX_LIVE, ReleaseChange, record};
pub use page::WorkspacePage;
pub use retention::{
    EXPIRY_GRACE_SECONDS, Keeping, Kept, MAX_PINNED_DAYS, MAX_PINNED_RELEASES, MAX_RETENTION_DAYS, Pin,
    Retention,
};
pub use settings::{Direction, Metric, PrimaryMetric, Settings};

/// Names that stand for what is in a workspace, in paths such as `/v1/workspaces/{id}/joined`.
const RESERVED: &[&str] = &[
    "predictions",
    "outcomes",
    "metrics",
    "releases",
    "joined",
    "rollups",
    "evaluations",
    "models",
    "configurations",
    "lanes",
    "retention",
    "pins",
    "settings",
    "live",
    "history",
    "leaderboard",
    "alerts",
    "promotions",
    "rollbacks",
    "retirements",
];

/// The catalog in a table.
#[derive(Clone, Debug)]
pub struct Catalog {
    table: Arc<dyn Table>,
}

/// What a release is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseSpec {
    /// Its name, unique in the workspace.
    pub name: String,
    /// The model, by name.
    pub model: String,
    /// The configuration, by name; created when it is new.
    pub configuration: Option<String>,
    /// The environment that it is made for.
    pub environment: Option<String>,
}

/// Where a new entity goes: its parent, its type as in keys, and the parent's counter.
struct Place<'a> {
    parent: Option<(&'a Key, &'static str)>,
    kind: &'static str,
}

impl Place<'_> {
    fn guard(&self, name: &str) -> Key {
        key::name_guard(self.parent.map_or("", |(key, _)| &key.sk), self.kind, name)
    }
}

impl Catalog {
    /// The catalog in `table`.
    pub fn new(table: Arc<dyn Table>) -> Self {
        Self { table }
    }

    /// The category called `name`, created when it is new.
    ///
    /// # Errors
    /// `Invalid`, when the name cannot be one.
    pub async fn ensure_category(&self, name: &str, now: Timestamp) -> Result<Category> {
        let place = Place { parent: None, kind: "wc" };
        let make = |entity| Category { entity, count_of_workspaces: 0 }.to_item();
        Category::from_item(&self.ensure(&place, name, now, make, key::category).await?)
    }

    /// The workspace at `category/name`, created when it is new, as is its category.
    ///
    /// # Errors
    /// `Invalid`, when the path is not of that form.
    pub async fn ensure_workspace(&self, path: &str, now: Timestamp) -> Result<Workspace> {
        let (category, name) = split_path(path)?;
        check_name(name)?;
        if RESERVED.contains(&name) {
            return Err(Error::invalid(format!(
                "`{name}` cannot be the name of a workspace: it stands for what is in one"
            )));
        }
        let category = self.ensure_category(category, now).await?.entity.id;
        let parent = key::category(&category);
        let place = Place { parent: Some((&parent, "count_of_workspaces")), kind: "w" };
        let make = |entity| Workspace { entity, category: category.clone(), path: path.to_owned() }.to_item();
        Workspace::from_item(&self.ensure(&place, name, now, make, key::workspace).await?)
    }

    /// The model called `name` of a workspace, created when it is new.
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
        let parent = key::workspace(workspace);
        let place = Place { parent: Some((&parent, "count_of_models")), kind: "m" };
        let make = |entity| Model { entity, task: task.clone() }.to_item(workspace);
        let item = self.ensure(&place, name, now, make, |id| key::model(workspace, id)).await?;
        let model = Model::from_item(&item)?;
        if model.task != *task {
            let message = format!("the model `{name}` exists with another task ({})", model.task);
            return Err(Error::conflict(message));
        }
        Ok(model)
    }

    /// The configuration called `name` of a workspace, created when it is new.
    ///
    /// # Errors
    /// `NotFound`, when the workspace is gone.
    pub async fn ensure_configuration(
        &self,
        workspace: &Id,
        name: &str,
        now: Timestamp,
    ) -> Result<Configuration> {
        let parent = key::workspace(workspace);
        let place = Place { parent: Some((&parent, "count_of_configurations")), kind: "c" };
        let make = |entity| Configuration { entity }.to_item(workspace);
        let item = self.ensure(&place, name, now, make, |id| key::configuration(workspace, id)).await?;
        Configuration::from_item(&item)
    }

    /// The release that `spec` describes, created when it is new.
    ///
    /// # Errors
    /// `Conflict`, when there is one of that name made of something else; `NotFound`, when its model
    /// is unknown.
    pub async fn ensure_release(
        &self,
        workspace: &Id,
        spec: &ReleaseSpec,
        now: Timestamp,
    ) -> Result<Release> {
        let parent = key::workspace(workspace);
        let models = Place { parent: Some((&parent, "count_of_models")), kind: "m" };
        let model = self.id_of(&models.guard(&spec.model)).await?.ok_or_else(|| no_model(&spec.model))?;
        if let Some(configuration) = &spec.configuration {
            self.ensure_configuration(workspace, configuration, now).await?;
        }
        let place = Place { parent: Some((&parent, "count_of_releases")), kind: "r" };
        let make = |entity| spec.release(entity).to_item(workspace, &model);
        let item = self.ensure(&place, &spec.name, now, make, |id| key::release(workspace, id)).await?;
        let release = Release::from_item(&item)?;
        spec.check_same(&release)?;
        Ok(release)
    }

    /// Checks, without writing, that [`Catalog::ensure_release`] would succeed by what `page` shows.
    ///
    /// # Errors
    /// As [`Catalog::ensure_release`].
    pub fn check_release(page: &WorkspacePage, spec: &ReleaseSpec) -> Result<()> {
        check_name(&spec.name)?;
        if let Some(known) = page.releases.iter().find(|release| release.entity.name == spec.name) {
            return spec.check_same(known);
        }
        match page.models.iter().any(|model| model.entity.name == spec.model) {
            true => Ok(()),
            false => Err(no_model(&spec.model)),
        }
    }

    /// The workspace of an id or of a path `category/name`.
    ///
    /// # Errors
    /// `NotFound`, when there is none.
    pub async fn workspace(&self, id_or_path: &str) -> Result<Workspace> {
        let missing = || Error::not_found(format!("there is no workspace `{id_or_path}`"));
        let id = if id_or_path.contains('/') {
            let (category, name) = split_path(id_or_path)?;
            check_name(category).and_then(|()| check_name(name))?;
            let category = self.id_of(&Place { parent: None, kind: "wc" }.guard(category)).await?;
            let parent = key::category(&category.ok_or_else(missing)?);
            let place = Place { parent: Some((&parent, "count_of_workspaces")), kind: "w" };
            self.id_of(&place.guard(name)).await?.ok_or_else(missing)?
        } else {
            Id::parse(id_or_path).map_err(|_| {
                let message =
                    format!("there is no workspace `{id_or_path}` (a workspace is named category/name)");
                Error::not_found(message)
            })?
        };
        Workspace::from_item(&self.table.get(&key::workspace(&id)).await?.ok_or_else(missing)?)
    }

    /// All workspaces, by the age of their category and then by their own.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn workspaces(&self) -> Result<Vec<Workspace>> {
        let categories = query_all(&*self.table, Query::index(Index::Gsi1, key::CATEGORIES)).await?;
        let mut categories = categories.iter().map(Category::from_item).collect::<Result<Vec<_>>>()?;
        categories.sort_by(|a, b| a.entity.by_age(&b.entity));
        let mut workspaces = Vec::new();
        for category in categories {
            let query = Query::index(Index::Gsi1, key::workspaces_of(&category.entity.id));
            let items = query_all(&*self.table, query).await?;
            let mut of_category = items.iter().map(Workspace::from_item).collect::<Result<Vec<_>>>()?;
            of_category.sort_by(|a, b| a.entity.by_age(&b.entity));
            workspaces.append(&mut of_category);
        }
        Ok(workspaces)
    }

    /// A workspace with its models, configurations, releases and counters, by one query.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn page(&self, workspace: &Id) -> Result<WorkspacePage> {
        let query = Query::index(Index::Table, key::workspace_page(workspace));
        WorkspacePage::from_items(&query_all(&*self.table, query).await?)
    }

    async fn id_of(&self, guard: &Key) -> Result<Option<Id>> {
        match self.table.get(guard).await? {
            Some(item) => Ok(Some(Id::parse(item.text("id")?)?)),
            None => Ok(None),
        }
    }

    /// The item of the entity called `name`, created when it is new.
    async fn ensure(
        &self,
        place: &Place<'_>,
        name: &str,
        now: Timestamp,
        make: impl Fn(Entity) -> Item,
        key_of: impl Fn(&Id) -> Key,
    ) -> Result<Item> {
        check_name(name)?;
        let guard = place.guard(name);
        if self.id_of(&guard).await?.is_none() {
            let id = Id::new(now);
            let item = make(Entity { id: id.clone(), name: name.to_owned(), created_at: now });
            let mut writes = vec![
                Write::Put(Item::new(guard.clone()).with("v", 1).with("id", id.as_str()), Condition::Absent),
                Write::Put(item, Condition::Absent),
            ];
            if let Some((parent, counter)) = place.parent {
                writes.push(Write::Add(parent.clone(), counter.to_owned(), 1));
            }
            match self.table.transact(writes).await {
                // Somebody else was quicker, or the parent is gone: the guard tells.
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                other => other?,
            }
        }
        let gone =
            || Error::not_found(format!("`{name}` cannot be created: what it belongs to does not exist"));
        let id = self.id_of(&guard).await?.ok_or_else(gone)?;
        let key = key_of(&id);
        self.table
            .get(&key)
            .await?
            .ok_or_else(|| Error::corrupt(format!("the name `{name}` leads to {key}, which is missing")))
    }
}

fn no_model(name: &str) -> Error {
    Error::not_found(format!("there is no model `{name}` in this workspace; create it first"))
}

impl ReleaseSpec {
    /// A release never changes: `known` must be made of what this says.
    fn check_same(&self, known: &Release) -> Result<()> {
        if *known == self.release(known.entity.clone()) {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "the release `{}` exists with another model, configuration or environment; \
             a release never changes, so give the new one a new name",
            self.name
        )))
    }

    fn release(&self, entity: Entity) -> Release {
        Release {
            entity,
            model: self.model.clone(),
            configuration: self.configuration.clone(),
            environment: self.environment.clone(),
        }
    }
}

fn split_path(path: &str) -> Result<(&str, &str)> {
    path.split_once('/')
        .filter(|(_, name)| !name.contains('/'))
        .ok_or_else(|| Error::invalid(format!("`{path}` is not of the form category/workspace")))
}
