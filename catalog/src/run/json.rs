//! Runs as JSON, as they are asked for and answered.

use std::collections::BTreeMap;

use event::{Error, Id, Result, Timestamp};
use log::key::EntityId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Experiment, HistoryPage, LatestValue, NewRun, OWN_TAGS, Point, Run, RunChange, RunStatus, RunWithMetrics,
    Texts,
};
use crate::http::instant;

/// A run to be created, as JSON says it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRunBody {
    /// The workspace, by id or path.
    pub workspace: String,
    /// The id, where the caller chooses it.
    pub id: Option<String>,
    /// The experiment, by name.
    pub experiment: Option<String>,
    /// What people call it.
    pub name: Option<String>,
    /// When it began.
    pub started_at: Option<String>,
    /// The run that it is a part of.
    pub parent: Option<String>,
    /// The snapshot of data that it uses.
    pub snapshot: Option<String>,
    /// What it is given.
    pub params: Option<Texts>,
    /// What people note of it.
    pub tags: Option<Texts>,
}

/// A change of a run, as JSON says it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunChangeBody {
    /// Another name.
    pub name: Option<String>,
    /// How it is going.
    pub status: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Parameters that it is given.
    pub params: Option<Texts>,
    /// Tags to set; those that are null are taken away.
    pub tags: Option<BTreeMap<String, Option<String>>>,
    /// Whether it is archived.
    pub archived: Option<bool>,
}

impl NewRunBody {
    /// What is to be created, without the workspace.
    ///
    /// # Errors
    /// `Invalid`, when an id or a time is none.
    pub fn run(self) -> Result<NewRun> {
        let id = |text: Option<String>| text.as_deref().map(Id::parse).transpose();
        Ok(NewRun {
            id: id(self.id)?,
            experiment: self.experiment,
            name: self.name,
            started_at: self.started_at.as_deref().map(instant).transpose()?,
            parent: id(self.parent)?,
            snapshot: self.snapshot,
            params: self.params.unwrap_or_default(),
            tags: self.tags.unwrap_or_default(),
        })
    }
}

impl RunChangeBody {
    /// The change that it asks for.
    ///
    /// # Errors
    /// `Invalid`, when a status or a time is none, or a tag is Almanac's own: one that says where the artifacts of a run are, for example, would
    /// lead its readers elsewhere.
    pub fn change(self) -> Result<RunChange> {
        let names = self.tags.iter().flatten().map(|(name, _)| name);
        if let Some(name) = names.into_iter().find(|name| name.starts_with(OWN_TAGS)) {
            return Err(Error::invalid(format!(
                "the tag `{name}` cannot be changed: names that begin with `{OWN_TAGS}` are Almanac's own; choose another name"
            )));
        }
        Ok(RunChange {
            name: self.name,
            status: self.status.as_deref().map(RunStatus::parse).transpose()?,
            ended_at: self.ended_at.as_deref().map(instant).transpose()?,
            params: self.params.unwrap_or_default(),
            tags: self.tags.unwrap_or_default(),
            archived: self.archived,
            unless_archived: false,
        })
    }
}

fn time(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, |at| at.to_string().into())
}

/// A number; what JSON has no number for by its name.
fn number(value: f64) -> Value {
    match value {
        _ if value.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        value => value.into(),
    }
}

impl Run {
    /// The run as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id.as_str(),
            "workspace": EntityId::Workspace(self.workspace.clone()).to_string(),
            "experiment": self.experiment,
            "experiment_id": self.experiment_id(),
            "name": self.name,
            "status": self.status.name(),
            "started_at": self.started_at.to_string(),
            "ended_at": time(self.ended_at),
            "parent": self.parent.as_ref().map(Id::as_str),
            "snapshot": self.snapshot,
            "params": self.params,
            "tags": self.tags,
            "created_at": self.created_at.to_string(),
            "archived_at": time(self.archived_at),
            "version": self.version,
        })
    }
}

impl LatestValue {
    /// The value as JSON.
    pub fn to_json(&self) -> Value {
        json!({ "value": number(self.value), "at": self.at.to_string(), "step": self.step })
    }
}

impl RunWithMetrics {
    /// The run as JSON, with its latest metrics.
    pub fn to_json(&self) -> Value {
        let mut run = self.run.to_json();
        let metrics = self.metrics.iter().map(|(name, latest)| (name.clone(), latest.to_json()));
        run["metrics"] = Value::Object(metrics.collect());
        run
    }
}

impl Experiment {
    /// The experiment as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id(),
            "name": self.name,
            "tags": self.tags,
            "created_at": self.created_at.to_string(),
            "updated_at": self.updated_at.to_string(),
            "archived_at": time(self.archived_at),
            "version": self.version,
        })
    }
}

impl Point {
    /// The value as JSON.
    pub fn to_json(&self) -> Value {
        json!({ "step": self.step, "at": self.at.to_string(), "value": number(self.value) })
    }
}

impl HistoryPage {
    /// The values as JSON.
    pub fn to_json(&self) -> Value {
        let points: Vec<Value> = self.points.iter().map(Point::to_json).collect();
        json!({ "points": points, "next_cursor": self.next })
    }
}
