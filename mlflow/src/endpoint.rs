//! Endpoints, with the permissions that they require.

use event::{Kind, Right};
use web::RequiredPermission;

/// The action of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their paths say it")]
pub enum Does {
    CreateExperiment,
    GetExperiment,
    GetExperimentByName,
    SearchExperiments,
    RenameExperiment,
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
    CreateLoggedModel,
    GetLoggedModel,
    EndLoggedModel,
    DeleteLoggedModel,
    TagLoggedModel,
    UntagLoggedModel,
    LogModelParams,
    SearchLoggedModels,
    LogOutputs,
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
    /// The path after `/api/2.0/`. A name in braces is a field of the request.
    pub path: &'static str,
    /// Its action.
    pub does: Does,
    /// Required permission on the workspace.
    pub right: Right,
}

const fn get(path: &'static str, does: Does) -> Endpoint {
    Endpoint { method: "GET", path, does, right: Right::Read }
}

const fn post(path: &'static str, does: Does, right: Right) -> Endpoint {
    Endpoint { method: "POST", path, does, right }
}

/// Builds an endpoint that adds to the content of runs.
const fn append(method: &'static str, path: &'static str, does: Does) -> Endpoint {
    Endpoint { method, path, does, right: Right::Append }
}

/// Builds an endpoint that changes the model registry.
const fn registry(method: &'static str, path: &'static str, does: Does) -> Endpoint {
    Endpoint { method, path, does, right: Right::Maintain }
}

/// All endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    post("mlflow/experiments/create", Does::CreateExperiment, Right::Append),
    get("mlflow/experiments/get", Does::GetExperiment),
    get("mlflow/experiments/get-by-name", Does::GetExperimentByName),
    get("mlflow/experiments/search", Does::SearchExperiments),
    post("mlflow/experiments/search", Does::SearchExperiments, Right::Read),
    post("mlflow/experiments/update", Does::RenameExperiment, Right::Append),
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
    post("mlflow/runs/outputs", Does::LogOutputs, Right::Append),
    post("mlflow/logged-models", Does::CreateLoggedModel, Right::Append),
    post("mlflow/logged-models/search", Does::SearchLoggedModels, Right::Read),
    get("mlflow/logged-models/{model_id}", Does::GetLoggedModel),
    append("PATCH", "mlflow/logged-models/{model_id}", Does::EndLoggedModel),
    append("DELETE", "mlflow/logged-models/{model_id}", Does::DeleteLoggedModel),
    append("PATCH", "mlflow/logged-models/{model_id}/tags", Does::TagLoggedModel),
    append("DELETE", "mlflow/logged-models/{model_id}/tags/{tag_key}", Does::UntagLoggedModel),
    append("POST", "mlflow/logged-models/{model_id}/params", Does::LogModelParams),
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
    /// Returns true if its path matches a path after `/api/2.0/`.
    pub fn is_at(&self, path: &str) -> bool {
        let (mut own, mut asked) = (self.path.split('/'), path.split('/'));
        loop {
            match (own.next(), asked.next()) {
                (None, None) => return true,
                (Some(own), Some(asked)) if own == asked || own.starts_with('{') => {}
                _ => return false,
            }
        }
    }

    /// Returns the permission that it requires.
    pub fn demand(&self) -> RequiredPermission {
        let demand = RequiredPermission::workspace(self.right);
        match self.does {
            // The endpoints of logged models answer a model with its metrics.
            Does::LogMetric
            | Does::LogBatch
            | Does::GetRun
            | Does::SearchRuns
            | Does::MetricHistory
            | Does::GetLoggedModel
            | Does::SearchLoggedModels
            | Does::EndLoggedModel
            | Does::TagLoggedModel => demand.of_kinds(&[Kind::Metrics]),
            // A version is registered by a release event, and an alias is set and removed by one.
            Does::CreateVersion | Does::SetAlias | Does::DeleteAlias => demand.of_kinds(&[Kind::Releases]),
            _ => demand,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_match_anything() {
        let served = |path: &str| ENDPOINTS.iter().any(|endpoint| endpoint.is_at(path));
        for path in ["mlflow/runs/get", "mlflow/logged-models/m-1", "mlflow/logged-models/m-1/tags/team"] {
            assert!(served(path), "{path}");
        }
        for path in ["mlflow/runs", "mlflow/runs/get/more", "mlflow/logged-models/m-1/artifacts", ""] {
            assert!(!served(path), "{path}");
        }
    }
}
