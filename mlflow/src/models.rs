//! Registered models are models; their aliases are environments in which a version is live.

use axum::http::StatusCode;
use catalog::{Entity, Model, New, NewEntity, Release, Workspace, WorkspacePage, attributes};
use event::{Definition, Task};
use log::key::EntityId;
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Failure},
    asked::{Asked, millis},
    door::Door,
    experiments::{page, texts},
    filter::{Attributes, Filter, Order, Subject},
    notes::{Note, noted, notes, tag, tags},
    registry::{NO_STAGE, number_of, shown_version},
};

/// The tags of a registered model that define how its predictions are evaluated.
const TASK: &str = "almanac.task";
const POSITIVE_LABEL: &str = "almanac.positive_label";

/// The attributes of registered models.
const ATTRIBUTES: Attributes = Attributes {
    numbers: &["creation_timestamp", "last_updated_timestamp"],
    texts: &["name"],
    datasets: &[],
};

/// Maximum number of registered models of a page.
const MAX_MODELS: usize = 1_000;

/// Returns the task by which the predictions of a model are evaluated, from its tags.
fn task(asked: &Asked) -> Answer<Task> {
    let tags = texts(asked.list("tags")?)?;
    let task = tags.get(TASK).map_or("multiclass", String::as_str);
    Ok(Task::parse(task, tags.get(POSITIVE_LABEL).map(String::as_str))?)
}

/// Returns the aliases of a model, each with its release.
fn aliases<'a>(page: &'a WorkspacePage, model: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    page.live.iter().filter_map(move |(environment, live)| {
        Some((environment.as_str(), live.get(model)?.release.as_str()))
    })
}

/// Returns the aliases of a release.
pub(crate) fn aliases_of(page: &WorkspacePage, release: &Release) -> Vec<String> {
    let of = aliases(page, &release.model).filter(|(_, name)| *name == release.entity.name);
    of.map(|(alias, _)| alias.to_owned()).collect()
}

/// Returns the versions of a model, the oldest first.
pub(crate) fn versions<'a>(page: &'a WorkspacePage, model: &'a str) -> Vec<(u64, &'a Release)> {
    let of = page.releases.iter().filter(|release| release.model == model);
    let mut all: Vec<_> = of.filter_map(|release| Some((number_of(release)?, release))).collect();
    all.sort_by_key(|(number, _)| *number);
    all
}

fn shown(page: &WorkspacePage, model: &Model) -> Value {
    let (entity, notes) = (&model.entity, notes(&model.entity.attributes));
    let number =
        |name: &str| page.releases.iter().find(|release| release.entity.name == name).and_then(number_of);
    let aliases: Vec<Value> = aliases(page, &entity.name)
        .filter_map(|(alias, name)| Some(json!({ "alias": alias, "version": number(name)?.to_string() })))
        .collect();
    let latest: Vec<Value> = versions(page, &entity.name)
        .last()
        .map(|(_, release)| shown_version(page, release))
        .into_iter()
        .collect();
    json!({
        "name": entity.name,
        "creation_timestamp": millis(entity.created_at),
        "last_updated_timestamp": millis(entity.updated_at),
        "description": notes["description"].as_str().unwrap_or_default(),
        "tags": tags(&notes),
        "aliases": aliases,
        "latest_versions": latest,
    })
}

fn missing(name: &str) -> Failure {
    Failure::missing(format!("Registered Model with name={name} not found"))
}

/// Returns the time at which a model or a version was created or changed, in milliseconds.
pub(crate) fn time_of(entity: &Entity, name: &str) -> Option<f64> {
    match name {
        "creation_timestamp" => Some(millis(entity.created_at) as f64),
        "last_updated_timestamp" => Some(millis(entity.updated_at) as f64),
        _ => None,
    }
}

impl Subject for Model {
    fn text(&self, of: &str, name: &str) -> Option<String> {
        match (of, name) {
            ("attributes", "name") => Some(self.entity.name.clone()),
            ("tags", name) => tag(&self.entity.attributes, name),
            _ => None,
        }
    }

    fn number(&self, of: &str, name: &str) -> Option<f64> {
        (of == "attributes").then(|| time_of(&self.entity, name))?
    }
}

impl Door {
    /// Returns the page of a workspace, if it has the model.
    pub(crate) async fn page_with(&self, workspace: &Workspace, model: &str) -> Answer<WorkspacePage> {
        let page = self.ingest.catalog().page(workspace.id()).await?;
        match page.models.iter().any(|known| known.entity.name == model) {
            true => Ok(page),
            false => Err(missing(model)),
        }
    }

    pub(crate) async fn create_model(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        workspace.check_open()?;
        let name = asked.text("name")?;
        let definition = Definition::of(task(asked)?);
        let mut new = NewEntity::new(name, New::Model { workspace: workspace.id().clone(), definition });
        new.attributes = attributes::from_json(&noted(asked, &[TASK, POSITIVE_LABEL])?)?;
        match self.ingest.catalog().create(new, self.ingest.clock().now()).await {
            Ok(_) => self.get_model(workspace, asked).await,
            Err(error) if error.is_conflict() => {
                Err(Failure::exists(format!("Registered Model (name={name}) already exists.")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the model that a request names, and its page.
    pub(crate) async fn model_of(
        &self,
        workspace: &Workspace,
        asked: &Asked,
    ) -> Answer<(WorkspacePage, Model)> {
        let name = asked.text("name")?;
        let page = self.page_with(workspace, name).await?;
        let model = page.models.iter().find(|model| model.entity.name == name).cloned();
        let model = model.ok_or_else(|| missing(name))?;
        Ok((page, model))
    }

    pub(crate) async fn get_model(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let (page, model) = self.model_of(workspace, asked).await?;
        Ok(json!({ "registered_model": shown(&page, &model) }))
    }

    /// Changes MLflow's notes of a model, and answers as [`Door::get_model`] does.
    pub(crate) async fn note_model(&self, workspace: &Workspace, asked: &Asked, note: Note<'_>) -> Answer {
        let (_, model) = self.model_of(workspace, asked).await?;
        self.note(&EntityId::Model(workspace.id().clone(), model.entity.id), note).await?;
        self.get_model(workspace, asked).await
    }

    /// Deletes a model with its versions, unless one of them has events.
    pub(crate) async fn delete_model(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let (page, model) = self.model_of(workspace, asked).await?;
        let name = &model.entity.name;
        let versions = versions(&page, name);
        let all = page.releases.iter().filter(|release| release.model == *name).count();
        if all > versions.len() {
            let others = all - versions.len();
            let message = format!("`{name}` has {others} releases that are no versions; delete them first");
            return Err(Failure::of(StatusCode::CONFLICT, message));
        }
        let releases = versions.into_iter().map(|(_, release)| release.entity.id.clone());
        let releases: Vec<_> = releases.map(|id| EntityId::Release(workspace.id().clone(), id)).collect();
        // A version that cannot be deleted keeps all of them.
        for release in &releases {
            self.ingest.catalog().check_deletable(release).await?;
        }
        for release in &releases {
            self.delete_entity(release).await?;
        }
        self.delete_entity(&EntityId::Model(workspace.id().clone(), model.entity.id)).await
    }

    /// Deletes a model or a release, unless it has events.
    pub(crate) async fn delete_entity(&self, at: &EntityId) -> Answer {
        self.ingest.catalog().delete(at, None, self.ingest.clock().now()).await?;
        Ok(json!({}))
    }

    pub(crate) async fn search_models(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let limit = asked.limit(100, MAX_MODELS)?;
        let filter = Filter::parse(asked.text_if("filter")?.unwrap_or_default(), &ATTRIBUTES)?;
        let orders = Order::parse_all(&asked.texts("order_by")?, &ATTRIBUTES)?;
        let known = self.ingest.catalog().page(workspace.id()).await?;
        let mut found: Vec<&Model> = known.models.iter().filter(|model| filter.matches(*model)).collect();
        found.sort_by(|a, b| {
            Order::compare_by(&orders, *a, *b).then_with(|| a.entity.name.cmp(&b.entity.name))
        });
        let (some, next) = page(&found, asked.text_if("page_token")?, limit)?;
        let shown: Vec<Value> = some.iter().map(|model| shown(&known, model)).collect();
        Ok(json!({ "registered_models": shown, "next_page_token": next }))
    }

    pub(crate) async fn latest_versions(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let name = asked.text("name")?;
        let page = self.page_with(workspace, name).await?;
        let stages = asked.texts("stages")?;
        let is_wanted = stages.is_empty() || stages.iter().any(|stage| stage.eq_ignore_ascii_case(NO_STAGE));
        let latest = versions(&page, name).last().map(|(_, release)| shown_version(&page, release));
        let latest = latest.filter(|_| is_wanted);
        Ok(json!({ "model_versions": latest.into_iter().collect::<Vec<_>>() }))
    }

    pub(crate) async fn set_alias(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let (alias, (_, release)) = (asked.text("alias")?, self.version_of(workspace, asked).await?);
        self.ingest.promote(workspace, &release.entity.name, alias, None).await?;
        Ok(json!({}))
    }

    /// Returns the release that has an alias.
    async fn of_alias(&self, workspace: &Workspace, asked: &Asked) -> Answer<(WorkspacePage, Release)> {
        let (name, alias) = (asked.text("name")?, asked.text("alias")?);
        let page = self.page_with(workspace, name).await?;
        let live = page.live.get(alias).and_then(|live| live.get(name));
        let found =
            live.and_then(|live| page.releases.iter().find(|known| known.entity.name == live.release));
        let found = found.filter(|release| number_of(release).is_some()).cloned();
        let missing = || Failure::missing(format!("Registered model alias {alias} not found."));
        Ok((page, found.ok_or_else(missing)?))
    }

    pub(crate) async fn get_alias(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let (page, release) = self.of_alias(workspace, asked).await?;
        Ok(json!({ "model_version": shown_version(&page, &release) }))
    }

    pub(crate) async fn delete_alias(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let (_, release) = self.of_alias(workspace, asked).await?;
        self.ingest.retire(workspace, &release.entity.name, Some(asked.text("alias")?), None).await?;
        Ok(json!({}))
    }
}
