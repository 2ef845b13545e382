//! Runs: what a training job or an experiment is given, says and measures.
//!
//! A run is an item of its workspace with its parameters, which never change once they are said, and its tags, which may. Its
//! metrics are events of the log like all others, with the fields `run` and `step`. The latest value of each is kept beside
//! the run ([`latest`]), with the segments in which the metric stands, so that its history is a read of a range of one log
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

/// The most bytes in the name of a parameter, a tag, a run or an experiment.
pub const MAX_RUN_NAME_BYTES: usize = 250;

/// The most bytes in the value of a parameter or a tag.
pub const MAX_RUN_VALUE_BYTES: usize = 8_000;

/// What the names of tags begin with in which Almanac itself keeps something of a run or an experiment, such as where its artifacts are.
pub const OWN_TAGS: &str = "almanac.";

/// The most bytes of all parameters and tags of a run together.
pub const MAX_RUN_BYTES: usize = 256 * 1024;

/// How a run is going.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunStatus {
    /// It goes on.
    #[default]
    Running,
    /// It is to begin later.
    Scheduled,
    /// It came to its end.
    Finished,
    /// It ended by an error.
    Failed,
    /// It was stopped.
    Killed,
}

impl RunStatus {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Running, Self::Scheduled, Self::Finished, Self::Failed, Self::Killed];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Scheduled => "scheduled",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }

    /// The status of a name.
    ///
    /// # Errors
    /// `Invalid`, naming those there are.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("`{name}` is no status of a run; there are {known}"))
        })
    }

    /// Whether a run of this status has ended.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Killed)
    }
}

/// Texts by name: parameters or tags.
pub type Texts = BTreeMap<String, String>;

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its id, by which metrics name it.
    pub id: Id,
    /// The workspace.
    pub workspace: Id,
    /// The experiment, by name.
    pub experiment: String,
    /// What people call it; several runs may have one name.
    pub name: String,
    /// How it is going.
    pub status: RunStatus,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// The run that it is a part of.
    pub parent: Option<Id>,
    /// The snapshot of data that it used, by name.
    pub snapshot: Option<String>,
    /// What it was given. A value never changes once it is said.
    pub params: Texts,
    /// What people note of it.
    pub tags: Texts,
    /// When it was created.
    pub created_at: Timestamp,
    /// Since when it is archived, if it is.
    pub archived_at: Option<Timestamp>,
    /// Counts its changes, from 1 on.
    pub version: i64,
}

/// A run to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRun {
    /// Its id, where the caller chooses it, so that the run can be created again without being there twice.
    pub id: Option<Id>,
    /// The experiment, by name; it is created when it is new.
    pub experiment: Option<String>,
    /// What people call it; the beginning of its id when it is not given.
    pub name: Option<String>,
    /// When it began; now, when it is not given.
    pub started_at: Option<Timestamp>,
    /// The run that it is a part of.
    pub parent: Option<Id>,
    /// The snapshot of data that it uses, by name.
    pub snapshot: Option<String>,
    /// What it is given.
    pub params: Texts,
    /// What people note of it.
    pub tags: Texts,
}

impl Run {
    /// The id of its experiment.
    pub fn experiment_id(&self) -> String {
        key::experiment_id(&self.experiment)
    }

    /// Refuses a run that is archived, for those to whom such a one is deleted.
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
    /// `NotFound`, when its parent is not there; `Conflict`, when the experiment is archived or a run has its id; `Invalid`, when a part of
    /// it cannot be stored.
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

    /// The run of an id as people write it.
    ///
    /// # Errors
    /// `NotFound`, when there is none of this id in the workspace.
    pub async fn run_named(&self, workspace: &Id, run: &str) -> Result<Run> {
        let id = Id::parse(run).map_err(|_| no_run(run))?;
        self.run(workspace, &id).await
    }

    /// The run, if it is there.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn find_run(&self, workspace: &Id, run: &Id) -> Result<Option<Run>> {
        let item = self.table.get(&key::run(workspace, run)).await?;
        item.as_ref().map(Run::from_item).transpose()
    }

    /// The run with the latest value of each of its metrics: two reads.
    ///
    /// # Errors
    /// `NotFound`, when there is none of this id in the workspace.
    pub async fn run_with_metrics(&self, workspace: &Id, run: &Id) -> Result<RunWithMetrics> {
        self.find_with_metrics(workspace, run).await?.ok_or_else(|| no_run(run.as_str()))
    }

    /// The experiment of a name, created when it is new.
    ///
    /// # Errors
    /// `Invalid`, when the name cannot be one.
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

/// Refuses a name that cannot be one.
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
