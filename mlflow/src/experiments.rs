//! Experiments.

use catalog::{Experiment, ExperimentChange, OWN_TAGS, Texts, Workspace};
use log::key;
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Failure},
    asked::{Asked, millis, needed, text},
    door::Door,
    filter::{Attributes, Filter, Order, Subject},
};

/// Maximum number of experiments of a page.
const MAX_EXPERIMENTS: usize = 50_000;

/// The tag with the address of the artifacts of an experiment or a run.
pub(crate) const ARTIFACTS: &str = "almanac.artifacts";

/// Returns MLflow's stage of an item that may be archived.
pub(crate) fn stage(is_archived: bool) -> &'static str {
    if is_archived { "deleted" } else { "active" }
}

/// Converts texts to a list of keys and values.
pub(crate) fn pairs(texts: &Texts) -> Vec<Value> {
    texts.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect()
}

/// Reads texts from a list of keys and values.
pub(crate) fn texts(pairs: &[Value]) -> Answer<Texts> {
    let pair = |pair: &Value| {
        let key = needed(text(pair.get("key"), "key")?, "key")?;
        Ok((key.to_owned(), text(pair.get("value"), "value")?.unwrap_or_default().to_owned()))
    };
    pairs.iter().map(pair).collect()
}

/// Returns true if a tag belongs to Almanac itself, such as [`ARTIFACTS`].
pub(crate) fn is_own(name: &str) -> bool {
    name.starts_with(OWN_TAGS)
}

/// Builds the refusal of a tag that belongs to Almanac itself.
pub(crate) fn own_name(name: &str) -> Failure {
    Failure::invalid(format!(
        "The tag '{name}' cannot be set or deleted: names that begin with 'almanac.' are Almanac's own. The place of artifacts is said by the \
         artifact_location of a new experiment, and 'almanac.task' with 'almanac.positive_label' by the tags of a new registered model."
    ))
}

/// Reads the tags that a client sets on an experiment or a run; Almanac's own are refused.
pub(crate) fn tags_of(pairs: &[Value]) -> Answer<Texts> {
    let tags = texts(pairs)?;
    tags.keys().find(|name| is_own(name)).map_or(Ok(()), |name| Err(own_name(name)))?;
    Ok(tags)
}

/// Reads the tag that a request sets, with its value, or removes.
pub(crate) fn tag_of(asked: &Asked, is_set: bool) -> Answer<(String, Option<String>)> {
    let (key, value) = (asked.text("key")?, asked.text_if("value")?.unwrap_or_default());
    if is_own(key) { Err(own_name(key)) } else { Ok((key.to_owned(), is_set.then(|| value.to_owned()))) }
}

/// Parses a view of active or archived items; returns a predicate on being archived.
pub(crate) fn view(asked: &Asked, name: &str) -> Answer<fn(bool) -> bool> {
    match asked.text_if(name)? {
        None | Some("ACTIVE_ONLY") => Ok(|is_archived| !is_archived),
        Some("DELETED_ONLY") => Ok(|is_archived| is_archived),
        Some("ALL") => Ok(|_| true),
        Some(other) => Err(Failure::invalid(format!(
            "Invalid value '{other}' for parameter '{name}': ACTIVE_ONLY, DELETED_ONLY or ALL is expected."
        ))),
    }
}

fn missing(id: &str) -> Failure {
    Failure::missing(format!("No Experiment with id={id} exists"))
}

impl Subject for Experiment {
    fn text(&self, of: &str, name: &str) -> Option<String> {
        match (of, name) {
            ("tags", name) => self.tags.get(name).cloned(),
            ("attributes", "name") => Some(self.name.clone()),
            ("attributes", "experiment_id") => Some(self.id()),
            _ => None,
        }
    }

    fn number(&self, of: &str, name: &str) -> Option<f64> {
        match (of, name) {
            ("attributes", "creation_time") => Some(millis(self.created_at) as f64),
            ("attributes", "last_update_time") => Some(millis(self.updated_at) as f64),
            _ => None,
        }
    }
}

/// The attributes of experiments.
const ATTRIBUTES: Attributes = Attributes {
    numbers: &["creation_time", "last_update_time"],
    texts: &["name", "experiment_id"],
    datasets: &[],
};

impl Door {
    /// Returns an experiment in MLflow's form.
    fn shown_experiment(&self, experiment: &Experiment) -> Value {
        let mut tags = experiment.tags.clone();
        tags.remove(ARTIFACTS);
        json!({
            "experiment_id": experiment.id(),
            "name": experiment.name,
            "artifact_location": self.artifact_location(experiment),
            "lifecycle_stage": stage(experiment.archived_at.is_some()),
            "creation_time": millis(experiment.created_at),
            "last_update_time": millis(experiment.updated_at),
            "tags": pairs(&tags),
        })
    }

    pub(crate) async fn create_experiment(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        workspace.check_open()?;
        let (name, mut tags) = (asked.text("name")?, tags_of(asked.list("tags")?)?);
        if let Some(location) = asked.text_if("artifact_location")? {
            tags.insert(ARTIFACTS.to_owned(), location.trim_end_matches('/').to_owned());
        }
        let now = self.ingest.clock().now();
        match self.ingest.catalog().create_experiment(workspace.id(), name, tags, now).await {
            Ok(experiment) => Ok(json!({ "experiment_id": experiment.id() })),
            Err(error) if error.is_conflict() => {
                Err(Failure::exists(format!("Experiment(name={name}) already exists.")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the experiment of an id. The default one exists without having been created.
    pub(crate) async fn find_experiment(&self, workspace: &Workspace, id: &str) -> Answer<Experiment> {
        let catalog = self.ingest.catalog();
        let found = catalog.find_experiment(workspace.id(), id).await?;
        match found {
            Some(found) => Ok(found),
            None if id == key::DEFAULT_EXPERIMENT.1 => Ok(Experiment {
                workspace: workspace.id().clone(),
                name: key::DEFAULT_EXPERIMENT.0.to_owned(),
                tags: Texts::new(),
                created_at: workspace.entity.created_at,
                updated_at: workspace.entity.created_at,
                archived_at: None,
                version: 0,
            }),
            None => Err(missing(id)),
        }
    }

    pub(crate) async fn experiment(&self, workspace: &Workspace, id: &str) -> Answer {
        let found = self.find_experiment(workspace, id).await?;
        Ok(json!({ "experiment": self.shown_experiment(&found) }))
    }

    pub(crate) async fn experiment_by_name(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let name = asked.text("experiment_name")?;
        let found = self.experiment(workspace, &key::experiment_id(name)).await;
        found.map_err(|failure| match failure.code {
            "RESOURCE_DOES_NOT_EXIST" => {
                Failure::missing(format!("Could not find experiment with name '{name}'"))
            }
            _ => failure,
        })
    }

    pub(crate) async fn search_experiments(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let limit = asked.limit(1_000, MAX_EXPERIMENTS)?;
        let filter = Filter::parse(asked.text_if("filter")?.unwrap_or_default(), &ATTRIBUTES)?;
        let orders = Order::parse_all(&asked.texts("order_by")?, &ATTRIBUTES)?;
        let is_wanted = view(asked, "view_type")?;
        let mut all = self.ingest.catalog().experiments(workspace.id()).await?;
        if !all.iter().any(|one| one.id() == key::DEFAULT_EXPERIMENT.1) {
            all.insert(0, self.find_experiment(workspace, key::DEFAULT_EXPERIMENT.1).await?);
        }
        all.retain(|one| is_wanted(one.archived_at.is_some()) && filter.matches(one));
        // The newest first by default, as in MLflow.
        all.reverse();
        all.sort_by(|a, b| Order::compare_by(&orders, a, b));
        let (page, next) = page(&all, asked.text_if("page_token")?, limit)?;
        let shown: Vec<Value> = page.iter().map(|one| self.shown_experiment(one)).collect();
        Ok(json!({ "experiments": shown, "next_page_token": next }))
    }

    /// Refuses another name: the id of an experiment is made from its name, and its runs have both.
    pub(crate) async fn rename_experiment(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let experiment = self.find_experiment(workspace, asked.text("experiment_id")?).await?;
        match asked.text_if("new_name")?.filter(|name| *name != experiment.name) {
            None => Ok(json!({})),
            Some(name) => Err(Failure::invalid(format!(
                "The experiment '{}' cannot be called '{name}': Almanac knows an experiment by its name, which never changes. \
                 Create an experiment of the new name for further runs, or say it in a tag of this one.",
                experiment.name
            ))),
        }
    }

    pub(crate) async fn archive_experiment(
        &self,
        workspace: &Workspace,
        asked: &Asked,
        is_archived: bool,
    ) -> Answer {
        let change = ExperimentChange { archived: Some(is_archived), ..ExperimentChange::default() };
        self.change_experiment(workspace, asked, &change).await
    }

    pub(crate) async fn tag_experiment(&self, workspace: &Workspace, asked: &Asked, is_set: bool) -> Answer {
        let tags = [tag_of(asked, is_set)?].into();
        self.change_experiment(workspace, asked, &ExperimentChange { tags, ..ExperimentChange::default() })
            .await
    }

    async fn change_experiment(
        &self,
        workspace: &Workspace,
        asked: &Asked,
        change: &ExperimentChange,
    ) -> Answer {
        let (id, now) = (asked.text("experiment_id")?, self.ingest.clock().now());
        let catalog = self.ingest.catalog();
        if id == key::DEFAULT_EXPERIMENT.1 {
            catalog.ensure_experiment(workspace.id(), key::DEFAULT_EXPERIMENT.0, now).await?;
        }
        catalog.change_experiment(workspace.id(), id, change, now).await?;
        Ok(json!({}))
    }
}

/// Builds the failure of an invalid page token.
pub(crate) fn no_page() -> Failure {
    Failure::invalid("Invalid page token")
}

/// Returns the index at which the page of a token begins.
pub(crate) fn beginning(token: Option<&str>) -> Answer<usize> {
    token.map_or(Ok(0), str::parse).map_err(|_| no_page())
}

/// Returns a page of all results, and the token of the next one.
pub(crate) fn page<'a, T>(
    all: &'a [T],
    token: Option<&str>,
    limit: usize,
) -> Answer<(&'a [T], Option<String>)> {
    let from = beginning(token)?;
    let rest = all.get(from..).unwrap_or_default();
    let page = &rest[..limit.min(rest.len())];
    Ok((page, (rest.len() > limit).then(|| (from + limit).to_string())))
}
