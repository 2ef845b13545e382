//! Runs: parameters, tags and metrics of a training job or an experiment.
//!
//! A run is an item of its workspace with its parameters, which never change once they are set, and its tags, which may. Its
//! metrics are events of the log like all others, with the fields `run` and `step`. The latest value of each is stored beside the
//! run ([`latest`]), with the segments in which the metric stands, so that its history is a read of a range of one log
//! ([`history`]).
//!
//! Runs are grouped by experiment. An experiment is known by its name, from which its id is made.

mod change;
mod experiment;
mod history;
mod item;
mod json;
mod latest;
mod list;
mod span;

use std::collections::BTreeMap;

use event::{Error, Id, Result, Timestamp};
use log::key::{self, DEFAULT_EXPERIMENT};
use serde::{Deserialize, Serialize};
use table::{Condition, unless_overtaken};

pub use self::{
    change::RunChange,
    experiment::{Experiment, ExperimentChange},
    history::{HistoryPage, MAX_POINTS, Point, WantedPoints},
    json::{NewRunBody, RunChangeBody},
    latest::{Latest, LatestValue, Noted, record_metrics},
    list::{RunPage, RunQuery, RunWithMetrics},
};
use super::Catalog;

/// Maximum bytes of the name of a parameter, a tag, a run or an experiment.
pub const MAX_RUN_NAME_BYTES: usize = 250;

/// Maximum bytes of the value of a parameter or a tag.
pub const MAX_RUN_VALUE_BYTES: usize = 8_000;

/// Prefix of the names of tags in which Almanac itself stores a property of a run or an experiment, such as the location of its
/// artifacts.
pub const OWN_TAGS: &str = "almanac.";

/// Maximum bytes of all parameters and tags of a run together.
pub const MAX_RUN_BYTES: usize = 256 * 1024;

/// Status of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// In progress.
    #[default]
    Running,
    /// To begin later.
    Scheduled,
    /// Ended normally.
    Finished,
    /// Ended by an error.
    Failed,
    /// Stopped.
    Killed,
}

impl RunStatus {
    /// All statuses.
    pub const ALL: [Self; 5] = [Self::Running, Self::Scheduled, Self::Finished, Self::Failed, Self::Killed];

    /// Name of the status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Scheduled => "scheduled",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }

    /// Finds the status of a name.
    ///
    /// # Errors
    /// `Invalid`, naming the existing ones.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("`{name}` is no status of a run; there are {known}"))
        })
    }

    /// Returns whether a run of this status has ended.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Killed)
    }
}

/// Texts by name: parameters or tags.
pub type Texts = BTreeMap<String, String>;

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Id, by which metrics name it.
    #[serde(skip_serializing)]
    pub id: Id,
    /// The workspace.
    #[serde(skip_serializing)]
    pub workspace: Id,
    /// Name of the experiment.
    pub experiment: String,
    /// Name for people; several runs may have one name.
    pub name: String,
    /// Status of the run.
    pub status: RunStatus,
    /// Time of its start.
    pub started_at: Timestamp,
    /// Time of its end, if it has ended.
    pub ended_at: Option<Timestamp>,
    /// Run of which it is a part.
    pub parent: Option<Id>,
    /// Name of the snapshot of data that it used.
    pub snapshot: Option<String>,
    /// Parameters. A value never changes once it is set.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub params: Texts,
    /// Tags that people give to it.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub tags: Texts,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time since which it is archived, if it is.
    pub archived_at: Option<Timestamp>,
    /// Version: counts its changes, from 1 on.
    #[serde(rename = "ver")]
    pub version: i64,
}

/// Run to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRun {
    /// Id, if the caller chooses it, so that a repeated creation makes no second run.
    pub id: Option<Id>,
    /// Name of the experiment; it is created when it is new.
    pub experiment: Option<String>,
    /// Name for people; the beginning of its id by default.
    pub name: Option<String>,
    /// Time of its start; now by default.
    pub started_at: Option<Timestamp>,
    /// Run of which it is a part.
    pub parent: Option<Id>,
    /// Name of the snapshot of data that it uses.
    pub snapshot: Option<String>,
    /// Parameters.
    pub params: Texts,
    /// Tags that people give to it.
    pub tags: Texts,
}

impl Run {
    /// Id of its experiment.
    pub fn experiment_id(&self) -> String {
        key::experiment_id(&self.experiment)
    }

    /// Refuses an archived run, for callers to whom an archived run is a deleted one.
    ///
    /// # Errors
    /// `Invalid`, naming it.
    pub fn check_active(&self) -> Result<()> {
        match self.archived_at {
            None => Ok(()),
            Some(_) => {
                Err(Error::invalid(format!("the run `{}` is archived, so nothing of it changes", self.id)))
            }
        }
    }
}

impl Catalog {
    /// Creates a run, and its experiment when that is new.
    ///
    /// # Errors
    /// `NotFound`, when its parent does not exist; `Conflict`, when the experiment is archived or a run has its id; `Invalid`,
    /// when a part of it cannot be stored.
    pub async fn create_run(&self, workspace: &Id, new: NewRun, now: Timestamp) -> Result<Run> {
        let experiment = new.experiment.as_deref().unwrap_or(DEFAULT_EXPERIMENT.0);
        check_texts(&new.params, &new.tags)?;
        for (what, name) in [("name", &new.name), ("snapshot", &new.snapshot)] {
            name.as_deref().map_or(Ok(()), |name| check_run_name(what, name))?;
        }
        if let Some(parent) = &new.parent {
            self.run(workspace, parent).await?;
        }
        let experiment = self.ensure_experiment(workspace, experiment, now).await?;
        if experiment.archived_at.is_some() {
            return Err(Error::conflict(format!("the experiment `{}` is archived", experiment.name)));
        }
        let id = new.id.unwrap_or_else(|| Id::new(now));
        let run = Run {
            name: new.name.unwrap_or_else(|| format!("run-{}", &id.as_str()[..8])),
            id,
            workspace: workspace.clone(),
            experiment: experiment.name,
            status: RunStatus::Running,
            started_at: new.started_at.unwrap_or(now),
            ended_at: None,
            parent: new.parent,
            snapshot: new.snapshot,
            params: new.params,
            tags: new.tags,
            created_at: now,
            archived_at: None,
            version: 1,
        };
        match self.table.put(run.to_item(), Condition::Absent).await {
            Err(error) if error.is_conflict() => {
                Err(Error::conflict(format!("there is a run with the id `{}` already", run.id)))
            }
            written => written.map(|()| run),
        }
    }

    /// A run.
    ///
    /// # Errors
    /// `NotFound`, when there is none of this id in the workspace.
    pub async fn run(&self, workspace: &Id, run: &Id) -> Result<Run> {
        self.find_run(workspace, run).await?.ok_or_else(|| no_run(run.as_str()))
    }

    /// Reads the run of an id as people write it.
    ///
    /// # Errors
    /// `NotFound`, when there is none of this id in the workspace.
    pub async fn run_named(&self, workspace: &Id, run: &str) -> Result<Run> {
        let id = Id::parse(run).map_err(|_| no_run(run))?;
        self.run(workspace, &id).await
    }

    /// Finds a run.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn find_run(&self, workspace: &Id, run: &Id) -> Result<Option<Run>> {
        let item = self.table.get(&key::run(workspace, run)).await?;
        item.as_ref().map(Run::from_item).transpose()
    }

    /// Reads a run with the latest value of each of its metrics: two reads.
    ///
    /// # Errors
    /// `NotFound`, when there is none of this id in the workspace.
    pub async fn run_with_metrics(&self, workspace: &Id, run: &Id) -> Result<RunWithMetrics> {
        self.find_with_metrics(workspace, run).await?.ok_or_else(|| no_run(run.as_str()))
    }

    /// Returns the experiment of a name, created when it is new.
    ///
    /// # Errors
    /// `Invalid`, when the name is not valid.
    pub async fn ensure_experiment(&self, workspace: &Id, name: &str, now: Timestamp) -> Result<Experiment> {
        let id = key::experiment_id(name);
        if let Some(known) = self.find_experiment(workspace, &id).await? {
            return Ok(known);
        }
        match unless_overtaken(self.create_experiment(workspace, name, Texts::new(), now).await)? {
            Some(created) => Ok(created),
            // Another process created it in this moment.
            None => self.experiment(workspace, &id).await,
        }
    }
}

fn no_run(run: &str) -> Error {
    let run: String = run.chars().take(100).collect();
    Error::not_found(format!("there is no run `{run}` in this workspace"))
}

/// Refuses a name that is not valid.
pub(crate) fn check_run_name(what: &str, name: &str) -> Result<()> {
    match name.len() {
        0 => Err(Error::invalid(format!("the {what} is empty"))),
        1..=MAX_RUN_NAME_BYTES if !name.chars().any(char::is_control) => Ok(()),
        1..=MAX_RUN_NAME_BYTES => Err(Error::invalid(format!("the {what} holds a control character"))),
        bytes => Err(Error::invalid(format!(
            "the {what} has {bytes} bytes; at most {MAX_RUN_NAME_BYTES} are taken"
        ))),
    }
}

/// Refuses parameters and tags that cannot be stored.
fn check_texts(params: &Texts, tags: &Texts) -> Result<()> {
    let mut all = 0;
    for (what, texts) in [("parameter", params), ("tag", tags)] {
        for (name, value) in texts {
            check_run_name(&format!("name of a {what}"), name)?;
            if value.len() > MAX_RUN_VALUE_BYTES {
                let bytes = value.len();
                return Err(Error::invalid(format!(
                    "the {what} `{name}` has {bytes} bytes; at most {MAX_RUN_VALUE_BYTES} are taken"
                )));
            }
            all += name.len() + value.len() + 8;
        }
    }
    match all {
        ..=MAX_RUN_BYTES => Ok(()),
        _ => Err(Error::invalid(format!(
            "the parameters and tags have {all} bytes together; at most {MAX_RUN_BYTES} are taken"
        ))),
    }
}
