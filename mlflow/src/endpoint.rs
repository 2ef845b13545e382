//! The endpoints, and what each demands of its caller.

use event::{Kind, Right};
use web::Demand;

/// What an endpoint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their paths say it")]
pub enum Does {
    CreateExperiment,
    GetExperiment,
    GetExperimentByName,
    SearchExperiments,
    DeleteExperiment,
    UntagExperiment,
    RestoreExperiment,
    TagExperiment,
    CreateRun,
    GetRun,
    UpdateRun,
    DeleteRun,
    RestoreRun,
    LogMetric,
    LogParam,
    LogBatch,
    LogInputs,
    TagRun,
    UntagRun,
    SearchRuns,
    MetricHistory,
    ListArtifacts,
    NoArtifacts,
    CreateModel,
    GetModel,
    UpdateModel,
    DeleteModel,
    TagModel,
    UntagModel,
    SearchModels,
    LatestVersions,
    SetAlias,
    GetAlias,
    DeleteAlias,
    CreateVersion,
    GetVersion,
    UpdateVersion,
    DeleteVersion,
    TagVersion,
    UntagVersion,
    SetStage,
    SearchVersions,
    VersionUri,
}

/// An endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// The method.
    pub method: &'static str,
    /// The path after `/api/2.0/`.
    pub path: &'static str,
    /// What it does.
    pub does: Does,
    /// The right that the caller needs on the workspace.
    pub right: Right,
}

const fn get(path: &'static str, does: Does) -> Endpoint {
    Endpoint { method: "GET", path, does, right: Right::Read }
}

const fn post(path: &'static str, does: Does, right: Right) -> Endpoint {
    Endpoint { method: "POST", path, does, right }
}

/// One that changes the registry of models.
const fn registry(method: &'static str, path: &'static str, does: Does) -> Endpoint {
    Endpoint { method, path, does, right: Right::Maintain }
}

/// All of them.
pub const ENDPOINTS: &[Endpoint] = &[
    post("mlflow/experiments/create", Does::CreateExperiment, Right::Append),
    get("mlflow/experiments/get", Does::GetExperiment),
    get("mlflow/experiments/get-by-name", Does::GetExperimentByName),
    get("mlflow/experiments/search", Does::SearchExperiments),
    post("mlflow/experiments/search", Does::SearchExperiments, Right::Read),
    post("mlflow/experiments/delete", Does::DeleteExperiment, Right::Append),
    post("mlflow/experiments/restore", Does::RestoreExperiment, Right::Append),
    post("mlflow/experiments/set-experiment-tag", Does::TagExperiment, Right::Append),
    post("mlflow/experiments/delete-experiment-tag", Does::UntagExperiment, Right::Append),
    post("mlflow/runs/create", Does::CreateRun, Right::Append),
    get("mlflow/runs/get", Does::GetRun),
    post("mlflow/runs/update", Does::UpdateRun, Right::Append),
    post("mlflow/runs/delete", Does::DeleteRun, Right::Append),
    post("mlflow/runs/restore", Does::RestoreRun, Right::Append),
    post("mlflow/runs/log-metric", Does::LogMetric, Right::Append),
    post("mlflow/runs/log-parameter", Does::LogParam, Right::Append),
    post("mlflow/runs/log-batch", Does::LogBatch, Right::Append),
    post("mlflow/runs/log-inputs", Does::LogInputs, Right::Append),
    post("mlflow/runs/set-tag", Does::TagRun, Right::Append),
    post("mlflow/runs/delete-tag", Does::UntagRun, Right::Append),
    post("mlflow/runs/search", Does::SearchRuns, Right::Read),
    get("mlflow/metrics/get-history", Does::MetricHistory),
    get("mlflow/artifacts/list", Does::ListArtifacts),
    get("mlflow-artifacts/artifacts", Does::NoArtifacts),
    registry("POST", "mlflow/registered-models/create", Does::CreateModel),
    get("mlflow/registered-models/get", Does::GetModel),
    registry("PATCH", "mlflow/registered-models/update", Does::UpdateModel),
    registry("DELETE", "mlflow/registered-models/delete", Does::DeleteModel),
    registry("POST", "mlflow/registered-models/set-tag", Does::TagModel),
    registry("DELETE", "mlflow/registered-models/delete-tag", Does::UntagModel),
    get("mlflow/registered-models/search", Does::SearchModels),
    get("mlflow/registered-models/get-latest-versions", Does::LatestVersions),
    post("mlflow/registered-models/get-latest-versions", Does::LatestVersions, Right::Read),
    registry("POST", "mlflow/registered-models/alias", Does::SetAlias),
    get("mlflow/registered-models/alias", Does::GetAlias),
    registry("DELETE", "mlflow/registered-models/alias", Does::DeleteAlias),
    registry("POST", "mlflow/model-versions/create", Does::CreateVersion),
    get("mlflow/model-versions/get", Does::GetVersion),
    registry("PATCH", "mlflow/model-versions/update", Does::UpdateVersion),
    registry("DELETE", "mlflow/model-versions/delete", Does::DeleteVersion),
    registry("POST", "mlflow/model-versions/set-tag", Does::TagVersion),
    registry("DELETE", "mlflow/model-versions/delete-tag", Does::UntagVersion),
    registry("POST", "mlflow/model-versions/transition-stage", Does::SetStage),
    get("mlflow/model-versions/search", Does::SearchVersions),
    get("mlflow/model-versions/get-download-uri", Does::VersionUri),
];

impl Endpoint {
    /// What it demands of its caller.
    pub fn demand(&self) -> Demand {
        let demand = Demand::workspace(self.right);
        match self.does {
            Does::LogMetric | Does::LogBatch | Does::GetRun | Does::SearchRuns | Does::MetricHistory => {
                demand.of_kinds(&[Kind::Metrics])
            }
            _ => demand,
        }
    }
}
