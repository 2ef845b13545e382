//! What somebody asks to have created, as JSON says it, over HTTP and from the command line.

use std::collections::BTreeMap;

use event::{Error, Id, NewDefinition, Result, Timestamp, Window, id::check_name};
use log::key::EntityKind;
use serde::Deserialize;
use serde_json::{Map, Value};
use table::item::Number;

use crate::{
    AnyEntity, Catalog, DetailedSpec, LatestValue, MAX_METRICS, New, NewEntity, Patch, ReleaseDetails,
    ReleaseSpec, RunWithMetrics, Secrets, attributes,
};

/// The tag of a run in which MLflow notes the commit of the code.
const COMMIT_TAG: &str = "mlflow.source.git.commit";

/// A JSON object of attributes.
type Attributes = Option<Map<String, Value>>;

/// What stands by itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRoot {
    /// Its name.
    pub name: String,
    /// What people note of it.
    pub attributes: Attributes,
}

/// A workspace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewWorkspace {
    /// `category/name`.
    pub path: String,
    /// What people note of it.
    pub attributes: Attributes,
}

/// A model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewModel {
    /// The workspace, by id or path.
    pub workspace: String,
    /// Its name.
    pub name: String,
    /// What its predictions say.
    pub task: String,
    /// The label that a binary model's score is the probability of.
    pub positive_label: Option<String>,
    /// From which score on a prediction without a label is positive.
    pub threshold: Option<f64>,
    /// What predictions gain and cost.
    pub costs: Option<String>,
    /// The share of real numbers that predicted intervals are to hold.
    pub interval_level: Option<f64>,
    /// By what evaluations are stored.
    pub splits: Option<Vec<String>>,
    /// Figures of its own: expressions by name.
    pub figures: Option<BTreeMap<String, Option<String>>>,
    /// What people note of it.
    pub attributes: Attributes,
}

/// A configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewConfiguration {
    /// The workspace, by id or path.
    pub workspace: String,
    /// Its name.
    pub name: String,
    /// What people note of it.
    pub attributes: Attributes,
}

/// A snapshot: the words of a query.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshot {
    /// The workspace, by id or path.
    pub workspace: String,
    /// Its name.
    pub name: String,
    /// What a row is; one of [`crate::SNAPSHOTS_OF`].
    pub what: Option<String>,
    /// The first day or instant.
    pub from: Option<String>,
    /// The last day, or an instant.
    pub to: Option<String>,
    /// How long the window is that ends now, in place of both.
    pub last: Option<String>,
    /// Only what belongs to this release.
    pub release: Option<String>,
    /// Only rows for which this holds.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// Only rows with these tags, as `NAME=VALUE` with commas between.
    pub tag: Option<String>,
    /// Only rows of this key.
    pub key: Option<String>,
    /// Only the first so many.
    pub limit: Option<serde_json::Number>,
    /// Only rows of this share of all keys.
    pub sample: Option<serde_json::Number>,
    /// `oldest` or `newest` first.
    pub order: Option<String>,
    /// Only these columns, in this order.
    pub columns: Option<Vec<String>>,
    /// Only what had been appended by then.
    pub as_of: Option<String>,
    /// What people note of it.
    pub attributes: Attributes,
}

impl NewSnapshot {
    /// What people note of it.
    ///
    /// # Errors
    /// `Invalid`, when an attribute cannot be stored.
    pub fn attributes(&self) -> Result<attributes::Attributes> {
        attributes_of(&self.attributes)
    }
}

/// A release.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRelease {
    /// The workspace, by id or path.
    pub workspace: String,
    /// Its name.
    pub name: String,
    /// The model, by name.
    pub model: String,
    /// The configuration, by name; created when it is new.
    pub configuration: Option<String>,
    /// The environment that it is made for.
    pub environment: Option<String>,
    /// The commit of the code.
    pub commit: Option<String>,
    /// Where the trained model is.
    pub artefact_uri: Option<String>,
    /// Its digest.
    pub artefact_digest: Option<String>,
    /// The snapshot that it was tuned on, by name; its days are those of the data that it was trained on.
    pub snapshot: Option<String>,
    /// The first day of the data that it was trained on.
    pub snapshot_from: Option<String>,
    /// The last one.
    pub snapshot_to: Option<String>,
    /// What it measured at training time.
    pub metrics: Option<BTreeMap<String, serde_json::Number>>,
    /// The run that trained it, by its id: what is not said of the release is taken from it.
    pub from_run: Option<String>,
    /// The secrets that it needs, by name, each with its version.
    pub secrets: Option<Secrets>,
    /// Remarks.
    pub notes: Option<String>,
    /// Who made it.
    pub author: Option<String>,
    /// What people note of it.
    pub attributes: Attributes,
}

/// A change.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Another name.
    pub name: Option<String>,
    /// Whether it is archived.
    pub archived: Option<bool>,
    /// Attributes to set; those that are null are taken away.
    pub attributes: Attributes,
}

fn attributes_of(json: &Attributes) -> Result<attributes::Attributes> {
    json.as_ref().map_or_else(|| Ok(attributes::Attributes::new()), attributes::from_json)
}

impl NewRoot {
    /// Creates it.
    ///
    /// # Errors
    /// Those of [`Catalog::create`].
    pub async fn create(self, kind: EntityKind, catalog: &Catalog, now: Timestamp) -> Result<AnyEntity> {
        let what = match kind {
            EntityKind::Category => New::Category,
            EntityKind::User => New::User,
            EntityKind::Group => New::Group,
            EntityKind::System => New::System,
            other => return Err(Error::invalid(format!("a {other} does not stand by itself"))),
        };
        let attributes = attributes_of(&self.attributes)?;
        catalog.create(NewEntity { name: self.name, attributes, what }, now).await
    }
}

impl NewWorkspace {
    /// Creates it, and its category when that is new. Without attributes, one that is there already is
    /// taken for it.
    ///
    /// # Errors
    /// Those of [`Catalog::create`].
    pub async fn create(self, catalog: &Catalog, now: Timestamp) -> Result<AnyEntity> {
        let attributes = attributes_of(&self.attributes)?;
        if attributes.is_empty() {
            return catalog.ensure_workspace(&self.path, now).await.map(AnyEntity::Workspace);
        }
        attributes::check_attributes(&attributes)?;
        let (category, name) = self.path.split_once('/').ok_or_else(|| {
            Error::invalid(format!("`{}` is not of the form category/workspace", self.path))
        })?;
        let category = catalog.ensure_category(category, now).await?.entity.id;
        let what = New::Workspace { category };
        catalog.create(NewEntity { name: name.to_owned(), attributes, what }, now).await
    }
}

impl NewModel {
    /// Creates it.
    ///
    /// # Errors
    /// Those of [`Catalog::create`].
    pub async fn create(self, catalog: &Catalog, now: Timestamp) -> Result<AnyEntity> {
        let Self { positive_label, threshold, costs, interval_level, splits, figures, .. } = self;
        let new = NewDefinition {
            positive_label,
            threshold,
            costs,
            interval_level,
            splits,
            figures,
            ..Default::default()
        };
        let definition = new.first(&self.task)?;
        let attributes = attributes_of(&self.attributes)?;
        let workspace = catalog.workspace(&self.workspace).await?.entity.id;
        let what = New::Model { workspace, definition };
        catalog.create(NewEntity { name: self.name, attributes, what }, now).await
    }
}

impl NewConfiguration {
    /// Creates it.
    ///
    /// # Errors
    /// Those of [`Catalog::create`].
    pub async fn create(self, catalog: &Catalog, now: Timestamp) -> Result<AnyEntity> {
        let attributes = attributes_of(&self.attributes)?;
        let workspace = catalog.workspace(&self.workspace).await?.entity.id;
        catalog
            .create(NewEntity { name: self.name, attributes, what: New::Configuration { workspace } }, now)
            .await
    }
}

impl NewRelease {
    /// The same with what the run says that it is from: its latest metrics that are finite; its
    /// parameters and its id, as attributes; and its commit, by the tag in which MLflow notes it.
    ///
    /// # Errors
    /// `NotFound`, when there is no such run.
    pub async fn with_run(mut self, catalog: &Catalog, workspace: &Id) -> Result<Self> {
        let Some(run) = &self.from_run else { return Ok(self) };
        let run = catalog.run_named(workspace, run).await?.id;
        let RunWithMetrics { run, metrics } = catalog.run_with_metrics(workspace, &run).await?;
        if self.metrics.as_ref().is_none_or(BTreeMap::is_empty) {
            let number = |(name, latest): (String, LatestValue)| {
                Some((name, serde_json::Number::from_f64(latest.value)?))
            };
            let names = metrics.into_iter().filter(|(name, _)| check_name(name).is_ok());
            self.metrics = Some(names.filter_map(number).take(MAX_METRICS).collect());
        }
        self.commit = self.commit.or_else(|| run.tags.get(COMMIT_TAG).cloned());
        let attributes = self.attributes.get_or_insert_default();
        let own = [("run", run.id.as_str().into()), ("params", serde_json::json!(run.params))];
        for (name, value) in own {
            attributes.entry(name).or_insert(value);
        }
        Ok(self)
    }

    fn details(&self) -> Result<ReleaseDetails> {
        let day = |text: &Option<String>| text.as_deref().map(str::parse).transpose();
        let snapshot = match (day(&self.snapshot_from)?, day(&self.snapshot_to)?) {
            (Some(from), Some(to)) => Some(Window::new(from, to)?),
            (None, None) => None,
            _ => return Err(Error::invalid("`snapshot_from` and `snapshot_to` belong together")),
        };
        if snapshot.is_some() && self.snapshot.is_some() {
            return Err(Error::invalid(
                "`snapshot` names the days itself: leave `snapshot_from` and `snapshot_to` out",
            ));
        }
        let metrics = self.metrics.iter().flatten().map(|(name, number)| {
            let value = Number::parse(&number.to_string());
            value
                .map(|value| (name.clone(), value))
                .map_err(|error| Error::invalid(format!("the metric `{name}`: {error}")))
        });
        Ok(ReleaseDetails {
            commit: self.commit.clone(),
            artefact_uri: self.artefact_uri.clone(),
            artefact_digest: self.artefact_digest.clone(),
            snapshot,
            tuned_on: None,
            metrics: metrics.collect::<Result<_>>()?,
            secrets: self.secrets.clone().unwrap_or_default(),
            notes: self.notes.clone(),
            author: self.author.clone(),
        })
    }

    /// What is to be created, without the workspace.
    ///
    /// # Errors
    /// `Invalid`, when a part of it cannot be stored.
    pub fn spec(self) -> Result<DetailedSpec> {
        let details = self.details()?;
        let attributes = attributes_of(&self.attributes)?;
        let Self { name, model, configuration, environment, snapshot, .. } = self;
        let spec = ReleaseSpec { name, model, configuration, environment };
        Ok(DetailedSpec { spec, details, snapshot, attributes })
    }
}

impl Change {
    /// The patch that it asks for.
    ///
    /// # Errors
    /// `Invalid`, when an attribute cannot be stored.
    pub fn patch(self) -> Result<Patch> {
        let mut attributes = BTreeMap::new();
        for (name, value) in self.attributes.unwrap_or_default() {
            let value = match value {
                Value::Null => None,
                value => attributes::from_json(&Map::from_iter([(name.clone(), value)]))?.remove(&name),
            };
            attributes.insert(name, value);
        }
        Ok(Patch { name: self.name, archived: self.archived, attributes })
    }
}
