//! Bodies of requests to create and change entities, in JSON, over HTTP and from the command line.

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

/// Tag of a run in which MLflow records the commit of the code.
const COMMIT_TAG: &str = "mlflow.source.git.commit";

/// A JSON object of attributes.
type Attributes = Option<Map<String, Value>>;

/// Entity without a parent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRoot {
    /// Name.
    pub name: String,
    /// Attributes that people give to it.
    pub attributes: Attributes,
}

/// A workspace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewWorkspace {
    /// Path `category/name`.
    pub path: String,
    /// Attributes that people give to it.
    pub attributes: Attributes,
}

/// A model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewModel {
    /// The workspace, by id or path.
    pub workspace: String,
    /// Name.
    pub name: String,
    /// Task of its predictions.
    pub task: String,
    /// Label whose probability the score of a binary model is.
    pub positive_label: Option<String>,
    /// Score from which a prediction without a label is positive.
    pub threshold: Option<f64>,
    /// Gains and costs of predictions.
    pub costs: Option<String>,
    /// Share of real numbers that predicted intervals are to hold.
    pub interval_level: Option<f64>,
    /// Dimensions by which evaluations are stored.
    pub dimensions: Option<Vec<String>>,
    /// Metrics of its own: expressions by name.
    pub custom_metrics: Option<BTreeMap<String, Option<String>>>,
    /// Attributes that people give to it.
    pub attributes: Attributes,
}

/// A configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewConfiguration {
    /// The workspace, by id or path.
    pub workspace: String,
    /// Name.
    pub name: String,
    /// Attributes that people give to it.
    pub attributes: Attributes,
}

/// Snapshot: the words of a query.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshot {
    /// The workspace, by id or path.
    pub workspace: String,
    /// Name.
    pub name: String,
    /// Kind of its rows; one of [`crate::SNAPSHOTS_OF`].
    pub what: Option<String>,
    /// First day or instant.
    pub from: Option<String>,
    /// Last day, or an instant.
    pub to: Option<String>,
    /// Length of the window that ends now, in place of both.
    pub last: Option<String>,
    /// Release whose rows are taken.
    pub release: Option<String>,
    /// Condition that rows must meet.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// Tags that rows must have, as `NAME=VALUE` with commas between.
    pub tag: Option<String>,
    /// Key that rows must have.
    pub key: Option<String>,
    /// Maximum number of rows.
    pub limit: Option<serde_json::Number>,
    /// Share of all keys whose rows are taken.
    pub sample: Option<serde_json::Number>,
    /// Order of rows: `oldest` or `newest` first.
    pub order: Option<String>,
    /// Columns to take, in this order.
    pub columns: Option<Vec<String>>,
    /// Instant by which rows must have been appended.
    pub as_of: Option<String>,
    /// Attributes that people give to it.
    pub attributes: Attributes,
}

impl NewSnapshot {
    /// Attributes that people give to it.
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
    /// Name.
    pub name: String,
    /// Name of the model.
    pub model: String,
    /// Name of the configuration; created when it is new.
    pub configuration: Option<String>,
    /// Environment for which it is made.
    pub environment: Option<String>,
    /// Commit of the code.
    pub commit: Option<String>,
    /// Location of the trained model.
    pub artefact_uri: Option<String>,
    /// Digest of the trained model.
    pub artefact_digest: Option<String>,
    /// Name of the snapshot that it was tuned on; its days are those of the training data.
    pub snapshot: Option<String>,
    /// First day of the training data.
    pub snapshot_from: Option<String>,
    /// Last day of the training data.
    pub snapshot_to: Option<String>,
    /// Metrics measured at training time.
    pub metrics: Option<BTreeMap<String, serde_json::Number>>,
    /// Id of the run that trained it: fields missing here are taken from it.
    pub from_run: Option<String>,
    /// Names of the secrets that it needs, each with its version.
    pub secrets: Option<Secrets>,
    /// Remarks.
    pub notes: Option<String>,
    /// Author.
    pub author: Option<String>,
    /// Attributes that people give to it.
    pub attributes: Attributes,
}

/// A change.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// New name.
    pub name: Option<String>,
    /// True to archive it, false to unarchive it.
    pub archived: Option<bool>,
    /// Attributes to set; null ones are removed.
    pub attributes: Attributes,
}

fn attributes_of(json: &Attributes) -> Result<attributes::Attributes> {
    json.as_ref().map_or_else(|| Ok(attributes::Attributes::new()), attributes::from_json)
}

impl NewRoot {
    /// Creates the entity.
    ///
    /// # Errors
    /// Errors of [`Catalog::create`].
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
    /// Creates the workspace, and its category when that is new. Without attributes, an existing workspace is returned.
    ///
    /// # Errors
    /// Errors of [`Catalog::create`].
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
    /// Creates the model. Without attributes, an existing one that is judged alike is returned.
    ///
    /// # Errors
    /// `Conflict`, when there is one that is judged otherwise; errors of [`Catalog::create`].
    pub async fn create(self, catalog: &Catalog, now: Timestamp) -> Result<AnyEntity> {
        let Self { positive_label, threshold, costs, interval_level, dimensions, custom_metrics, .. } = self;
        let new = NewDefinition {
            positive_label,
            threshold,
            costs,
            interval_level,
            dimensions,
            custom_metrics,
            ..Default::default()
        };
        let definition = new.first(&self.task)?;
        let attributes = attributes_of(&self.attributes)?;
        let workspace = catalog.workspace(&self.workspace).await?.entity.id;
        if attributes.is_empty() {
            let model = catalog.ensure_defined_model(&workspace, &self.name, &definition, now).await?;
            return Ok(AnyEntity::Model(model));
        }
        let what = New::Model { workspace, definition };
        catalog.create(NewEntity { name: self.name, attributes, what }, now).await
    }
}

impl NewConfiguration {
    /// Creates the configuration.
    ///
    /// # Errors
    /// Errors of [`Catalog::create`].
    pub async fn create(self, catalog: &Catalog, now: Timestamp) -> Result<AnyEntity> {
        let attributes = attributes_of(&self.attributes)?;
        let workspace = catalog.workspace(&self.workspace).await?.entity.id;
        catalog
            .create(NewEntity { name: self.name, attributes, what: New::Configuration { workspace } }, now)
            .await
    }
}

impl NewRelease {
    /// Fills the request from the run that it names: its latest metrics that are finite; its parameters and its id, as
    /// attributes; and its commit, by the tag in which MLflow records it.
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

    /// Specification of the release, without the workspace.
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
    /// Patch of the change.
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
