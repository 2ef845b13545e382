//! The places where clients put artifacts, and the models that they log there.

use serde_json::{Value, json};

use super::{done, post, refused};
use crate::support::{Place, Running, Service, run_ok};

/// A new run of an experiment, as it is shown.
fn begun(service: &Service, experiment: &Value) -> Value {
    post(service, "mlflow/runs/create", &json!({ "experiment_id": experiment }))["run"].clone()
}

#[test]
fn artifact_location_follows_experiment_or_service() {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    // Beside the file of the service, where only this machine is served.
    let service = Running::start(&place, &["--mlflow"], &[]);
    let uri = begun(&service, &json!("0"))["info"]["artifact_uri"].as_str().unwrap().to_owned();
    assert!(uri.starts_with("file:///") && uri.contains("/mlflow-artifacts/"), "{uri}");
    drop(service);
    let service = Running::start(&place, &["--mlflow", "--mlflow-artifacts", "none"], &[]);
    let nowhere = begun(&service, &json!("0"));
    let uri = nowhere["info"]["artifact_uri"].as_str().unwrap().to_owned();
    assert!(uri.starts_with("mlflow-artifacts:/"), "{uri}");
    let model = json!({ "source_run_id": nowhere["info"]["run_id"], "name": "model" });
    refused(&service, "mlflow/logged-models", &model, "INVALID_PARAMETER_VALUE");
    drop(service);
    let service = Running::start(&place, &["--mlflow", "--mlflow-artifacts", "s3://bucket/mlflow/"], &[]);
    let run = begun(&service, &json!("0"));
    let id = run["info"]["run_id"].as_str().unwrap();
    let uri = run["info"]["artifact_uri"].as_str().unwrap().to_owned();
    assert!(uri.starts_with("s3://bucket/mlflow/") && uri.ends_with(&format!("/0/{id}/artifacts")), "{uri}");
    let own = json!({ "name": "own", "artifact_location": "s3://other/place" });
    let own = post(&service, "mlflow/experiments/create", &own)["experiment_id"].clone();
    let of_own = begun(&service, &own)["info"]["artifact_uri"].clone();
    assert!(of_own.as_str().unwrap().starts_with("s3://other/place/"), "{of_own}");
    // A run that was begun before keeps what it said.
    let before = format!("mlflow/runs/get?run_id={}", nowhere["info"]["run_id"].as_str().unwrap());
    let before = done(&service, ("GET", &before), &json!({}));
    assert_eq!(before["run"]["info"]["artifact_uri"], nowhere["info"]["artifact_uri"]);
    logged(&service, id, &uri);
}

/// A model that a run logs, from its beginning to a version.
fn logged(service: &Service, run: &str, uri: &str) {
    let param = json!({ "key": "C", "value": "0.5" });
    let model = json!({ "source_run_id": run, "name": "model", "params": [param] });
    let model = post(service, "mlflow/logged-models", &model)["model"].clone();
    let (info, id) = (&model["info"], model["info"]["model_id"].as_str().unwrap());
    let root = uri.strip_suffix(&format!("/{run}/artifacts")).unwrap();
    assert_eq!(info["artifact_uri"], format!("{root}/models/{id}/artifacts"));
    assert_eq!(
        (&info["status"], &model["data"]["params"]),
        (&json!("LOGGED_MODEL_PENDING"), &json!([param]))
    );
    let path = format!("mlflow/logged-models/{id}");
    let outputs = json!({ "run_id": run, "models": [{ "model_id": id, "step": 3 }] });
    post(service, "mlflow/runs/outputs", &outputs);
    done(service, ("PATCH", &path), &json!({ "model_id": id, "status": "LOGGED_MODEL_READY" }));
    let ready = done(service, ("GET", &path), &json!({}))["model"]["info"]["status"].clone();
    assert_eq!(ready, "LOGGED_MODEL_READY");
    let shown = done(service, ("GET", &format!("mlflow/runs/get?run_id={run}")), &json!({}))["run"].clone();
    assert_eq!(shown["outputs"]["model_outputs"], json!([{ "model_id": id, "step": 3 }]));
    assert!(!shown["data"]["tags"].to_string().contains("almanac.model"), "{shown}");
    let search = |filter: &str| {
        let asked = json!({ "experiment_ids": ["0"], "filter": filter });
        let found = post(service, "mlflow/logged-models/search", &asked)["models"].clone();
        found.as_array().unwrap().iter().map(|model| model["info"]["model_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(search("name = 'model'"), [id]);
    assert!(search("name = 'other'").is_empty());
    post(service, "mlflow/registered-models/create", &json!({ "name": "kept" }));
    let version = json!({ "name": "kept", "source": format!("models:/{id}"), "run_id": run });
    let version = post(service, "mlflow/model-versions/create", &version)["model_version"].clone();
    assert_eq!(version["source"], info["artifact_uri"]);
}
