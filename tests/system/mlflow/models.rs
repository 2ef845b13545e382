//! Logged models that several clients change, and searches of them.

use catalog::RunChange;
use serde_json::{Value, json};

use super::{ask, done, open_door, overtaken::Overtaken, post, refused};
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

#[test]
fn a_search_of_models_goes_on_from_page_to_page() {
    let (_place, service) = open_door();
    let (service, path) = (&*service, "mlflow/logged-models/search");
    let (first, second) = (experiment(service), json!("0"));
    let runs: Vec<String> = (0..3).map(|_| begun(service, &first)).collect();
    let names =
        |run: &String| (0..3).map(|n| logged(service, run, &format!("model {n}"))).collect::<Vec<_>>();
    let mut logged_by: Vec<(String, Vec<String>)> =
        runs.iter().map(|run| (run.clone(), names(run))).collect();
    // The latest runs come first, models of a run by their ids.
    logged_by.sort_by(|a, b| b.0.cmp(&a.0));
    logged_by.iter_mut().for_each(|(_, models)| models.sort());
    let expected: Vec<String> = logged_by.into_iter().flat_map(|(_, models)| models).collect();
    let search = |token: &Value| {
        let asked =
            json!({ "experiment_ids": [first, second, first], "max_results": 2, "page_token": token });
        let found = post(service, path, &asked);
        let models = found["models"].as_array().unwrap().clone();
        let ids = models.iter().map(|one| one["info"]["model_id"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<_>>(), found["next_page_token"].clone())
    };
    let (mut all, mut next) = search(&Value::Null);
    assert_eq!(all.len(), 2);
    while next != Value::Null {
        let (some, after) = search(&next);
        assert!(some.len() == 2 || all.len() + some.len() == expected.len(), "{some:?}");
        all.extend(some);
        next = after;
    }
    assert_eq!(all, expected);
    let strange = json!({ "experiment_ids": [second], "page_token": "3" });
    refused(service, path, &strange, "INVALID_PARAMETER_VALUE");
    let foreign = json!({ "experiment_ids": [second], "page_token": search(&Value::Null).1 });
    refused(service, path, &foreign, "INVALID_PARAMETER_VALUE");
}
