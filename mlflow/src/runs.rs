//! Runs: their parameters, tags, status and metrics.

use catalog::{LatestValue, NewRun, Run, RunChange, RunStatus, RunWithMetrics, Workspace};
use event::{Error, Id};
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Failure},
    artifacts::{artifact_uri, artifacts_of_run},
    asked::{Asked, millis},
    door::Door,
    experiments::{ARTIFACTS, pairs, stage, tag_of, tags_of},
    inputs::without_datasets,
    logged::take_outputs,
    metrics::shown_number,
};

/// The tags of MLflow for which Almanac has fields.
const RUN_NAME: &str = "mlflow.runName";
const PARENT: &str = "mlflow.parentRunId";
const USER: &str = "mlflow.user";

/// Returns MLflow's name of the status of a run.
pub(crate) fn status_of(status: RunStatus) -> String {
    status.name().to_uppercase()
}

fn info(run: &Run) -> Value {
    json!({
        "run_id": run.id.as_str(),
        "run_uuid": run.id.as_str(),
        "run_name": run.name,
        "experiment_id": run.experiment_id(),
        "user_id": run.tags.get(USER).map_or("", String::as_str),
        "status": status_of(run.status),
        "start_time": millis(run.started_at),
        "end_time": run.ended_at.map(millis),
        "artifact_uri": artifact_uri(run),
        "lifecycle_stage": stage(run.archived_at.is_some()),
    })
}

/// Returns a run in MLflow's form.
pub(crate) fn shown(of: &RunWithMetrics) -> Value {
    let metric = |(key, latest): (&String, &LatestValue)| {
        json!({
            "key": key,
            "value": shown_number(latest.value),
            "timestamp": millis(latest.at),
            "step": latest.step.unwrap_or(0),
        })
    };
    let metrics: Vec<Value> = of.metrics.iter().map(metric).collect();
    let (mut tags, datasets) = without_datasets(&of.run.tags);
    let outputs = take_outputs(&mut tags);
    tags.remove(ARTIFACTS);
    tags.insert(RUN_NAME.to_owned(), of.run.name.clone());
    if let Some(parent) = &of.run.parent {
        tags.insert(PARENT.to_owned(), parent.to_string());
    }
    json!({
        "info": info(&of.run),
        "data": { "metrics": metrics, "params": pairs(&of.run.params), "tags": pairs(&tags) },
        "inputs": { "dataset_inputs": datasets },
        "outputs": { "model_outputs": outputs },
    })
}

fn no_run(run: &str) -> Failure {
    Failure::missing(format!("Run with id={run} not found"))
}

impl Door {
    /// Returns the id of the run that a request names.
    pub(crate) fn run_id(asked: &Asked) -> Answer<Id> {
        let run = asked.run()?;
        Id::parse(run).map_err(|_| no_run(run))
    }

    /// Returns the run that a request names.
    pub(crate) async fn run_of(&self, workspace: &Workspace, asked: &Asked) -> Answer<Run> {
        self.find_run(workspace, asked.run()?).await
    }

    /// Returns the run of an id.
    pub(crate) async fn find_run(&self, workspace: &Workspace, run: &str) -> Answer<Run> {
        let id = Id::parse(run).map_err(|_| no_run(run))?;
        let found = self.ingest.catalog().find_run(workspace.id(), &id).await?;
        found.ok_or_else(|| no_run(run))
    }

    pub(crate) async fn create_run(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        workspace.check_open()?;
        let experiment = asked.text_if("experiment_id")?.unwrap_or(log::key::DEFAULT_EXPERIMENT.1);
        let experiment = self.find_experiment(workspace, experiment).await?;
        if experiment.archived_at.is_some() {
            let message = format!("The experiment {} must be in the 'active' state.", experiment.id());
            return Err(Failure { code: "INVALID_STATE", ..Failure::invalid(message) });
        }
        let mut tags = tags_of(asked.list("tags")?)?;
        let (named, parent) = (tags.remove(RUN_NAME), tags.remove(PARENT));
        if let Some(user) = asked.text_if("user_id")? {
            tags.entry(USER.to_owned()).or_insert_with(|| user.to_owned());
        }
        let now = self.ingest.clock().now();
        let id = Id::new(now);
        if let Some(location) = self.location_of(&experiment) {
            tags.insert(ARTIFACTS.to_owned(), artifacts_of_run(&location, &id));
        }
        let new = NewRun {
            id: Some(id),
            experiment: Some(experiment.name),
            name: asked.text_if("run_name")?.map(str::to_owned).or(named),
            started_at: asked.time("start_time")?.filter(|at| at.micros() != 0),
            parent: parent.map(|parent| Id::parse(&parent).map_err(|_| no_run(&parent))).transpose()?,
            tags,
            ..NewRun::default()
        };
        let run = self.ingest.catalog().create_run(workspace.id(), new, now).await?;
        Ok(json!({ "run": shown(&RunWithMetrics { run, metrics: Default::default() }) }))
    }

    pub(crate) async fn get_run(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let run = self.run_of(workspace, asked).await?;
        let metrics = self.ingest.catalog().latest_metrics(workspace.id(), &run.id).await?.metrics;
        Ok(json!({ "run": shown(&RunWithMetrics { run, metrics }) }))
    }

    pub(crate) async fn change(
        &self,
        workspace: &Workspace,
        asked: &Asked,
        change: &RunChange,
    ) -> Answer<Run> {
        self.change_run(workspace, &Self::run_id(asked)?, change).await
    }

    pub(crate) async fn change_run(
        &self,
        workspace: &Workspace,
        run: &Id,
        change: &RunChange,
    ) -> Answer<Run> {
        let now = self.ingest.clock().now();
        let changed = self.ingest.catalog().change_run(workspace.id(), run, change, now).await;
        changed.map_err(|error| Self::not_changed(run, error))
    }

    /// Maps the error of a change. For MLflow, a conflict is an invalid value.
    pub(crate) fn not_changed(run: &Id, error: Error) -> Failure {
        match error.is_conflict() {
            true => Failure::invalid(format!("Changing param values is not allowed: {error} (run '{run}')")),
            false => error.into(),
        }
    }

    pub(crate) async fn update_run(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let status =
            asked.text_if("status")?.map(|status| RunStatus::parse(&status.to_lowercase())).transpose()?;
        let change = RunChange {
            name: asked.text_if("run_name")?.map(str::to_owned),
            status,
            ended_at: asked.time("end_time")?.filter(|at| at.micros() != 0),
            unless_archived: true,
            ..RunChange::default()
        };
        let run = self.change(workspace, asked, &change).await?;
        Ok(json!({ "run_info": info(&run) }))
    }

    pub(crate) async fn archive_run(
        &self,
        workspace: &Workspace,
        asked: &Asked,
        is_archived: bool,
    ) -> Answer {
        let change = RunChange { archived: Some(is_archived), ..RunChange::default() };
        self.change(workspace, asked, &change).await?;
        Ok(json!({}))
    }

    pub(crate) async fn log_param(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let value = asked.text_if("value")?.unwrap_or_default();
        let params = [(asked.text("key")?.to_owned(), value.to_owned())].into();
        let change = RunChange { params, unless_archived: true, ..RunChange::default() };
        self.change(workspace, asked, &change).await?;
        Ok(json!({}))
    }

    pub(crate) async fn tag_run(&self, workspace: &Workspace, asked: &Asked, is_set: bool) -> Answer {
        let change = tagging([tag_of(asked, is_set)?]);
        self.change(workspace, asked, &change).await?;
        Ok(json!({}))
    }

    pub(crate) async fn list_artifacts(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let run = self.run_of(workspace, asked).await?;
        Ok(json!({ "root_uri": artifact_uri(&run), "files": [] }))
    }
}

/// Builds a change of tags, for a run that is not archived. The tag of the name changes the name.
pub(crate) fn tagging(tags: impl IntoIterator<Item = (String, Option<String>)>) -> RunChange {
    let tags = tags.into_iter().collect();
    let mut change = RunChange { tags, unless_archived: true, ..RunChange::default() };
    change.name = change.tags.remove(RUN_NAME).flatten();
    change
}
