//! Runs as JSON, in requests and answers.

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

/// Body of a request to create a run.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRunBody {
    /// The workspace, by id or path.
    pub workspace: String,
    /// Id, if the caller chooses it.
    pub id: Option<String>,
    /// Name of the experiment.
    pub experiment: Option<String>,
    /// Name for people.
    pub name: Option<String>,
    /// Time of its start.
    pub started_at: Option<String>,
    /// Run of which it is a part.
    pub parent: Option<String>,
    /// Name of the snapshot of data that it uses.
    pub snapshot: Option<String>,
    /// Parameters.
    pub params: Option<Texts>,
    /// Tags that people give to it.
    pub tags: Option<Texts>,
}

/// Body of a request to change a run.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunChangeBody {
    /// New name.
    pub name: Option<String>,
    /// New status.
    pub status: Option<String>,
    /// Time of its end.
    pub ended_at: Option<String>,
    /// Parameters to set.
    pub params: Option<Texts>,
    /// Tags to set; null ones are removed.
    pub tags: Option<BTreeMap<String, Option<String>>>,
    /// True to archive it, false to unarchive it.
    pub archived: Option<bool>,
}

impl NewRunBody {
    /// Run to create, without the workspace.
    ///
    /// # Errors
    /// `Invalid`, when an id or a time is not valid.
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
    /// Change of the run.
    ///
    /// # Errors
    /// `Invalid`, when a status or a time is not valid, or a tag is Almanac's own: the one with the location of a run's
    /// artifacts, for example, would lead its readers elsewhere.
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

/// Number as JSON; NaN and infinities by their names.
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
