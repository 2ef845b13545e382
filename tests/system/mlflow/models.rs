//! Logged models that several clients change, and searches of them.

use catalog::RunChange;
use serde_json::{Value, json};

use super::{ask, done, overtaken::Overtaken, post};
use crate::support::Service;

/// A new experiment whose artifacts have a place.
fn experiment(service: &Service) -> Value {
    let named = json!({ "name": "models", "artifact_location": "s3://bucket/models" });
    post(service, "mlflow/experiments/create", &named)["experiment_id"].clone()
}

/// A new run of an experiment.
fn begun(service: &Service, experiment: &Value) -> String {
    let run = post(service, "mlflow/runs/create", &json!({ "experiment_id": experiment }));
    run["run"]["info"]["run_id"].as_str().unwrap().to_owned()
}

/// A model that a run logs, by its id.
fn logged(service: &Service, run: &str, name: &str) -> String {
    let model = post(service, "mlflow/logged-models", &json!({ "source_run_id": run, "name": name }));
    model["model"]["info"]["model_id"].as_str().unwrap().to_owned()
}

#[test]
fn tags_that_two_give_a_model_at_one_time_are_kept() {
    let overtaken = Overtaken::open();
    let service = &overtaken.service;
    let run = begun(service, &experiment(service));
    let id = logged(service, &run, "model");
    let path = format!("mlflow/logged-models/{id}");
    let pair = |key: &str, value: &str| json!({ "key": key, "value": value });
    let theirs = |of: &str, texts: Value| {
        let tags = [(format!("almanac.model/{id}/{of}/0"), Some(texts.to_string()))].into();
        overtaken.by(&run, RunChange { tags, ..RunChange::default() });
    };
    theirs("tags", json!({ "theirs": "1" }));
    let tags = json!({ "tags": [pair("ours", "2")] });
    done(service, ("PATCH", &format!("{path}/tags")), &tags);
    assert!(overtaken.has_happened());
    theirs("params", json!({ "theirs": "3" }));
    post(service, &format!("{path}/params"), &json!({ "params": [pair("ours", "4")] }));
    assert!(overtaken.has_happened());
    let model = done(service, ("GET", &path), &json!({}))["model"].clone();
    assert_eq!(model["info"]["tags"], json!([pair("ours", "2"), pair("theirs", "1")]));
    assert_eq!(model["data"]["params"], json!([pair("ours", "4"), pair("theirs", "3")]));
    // One that is not there stays so.
    let other = format!("mlflow/logged-models/m-{run}-{run}");
    let ready = json!({ "status": "LOGGED_MODEL_READY" });
    let answer = ask(service, ("PATCH", &other), None, &ready);
    assert_eq!((answer.status, &answer.json()["error_code"]), (404, &json!("RESOURCE_DOES_NOT_EXIST")));
    assert_eq!(answer.json()["message"], format!("Logged model with ID 'm-{run}-{run}' not found."));
}
