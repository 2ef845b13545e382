//! Logged models that several clients change, their metrics and their end, and searches of them.

use std::sync::{Arc, Mutex};

use almanac::up::Options;
use catalog::RunChange;
use event::{Clock, ErrorKind};
use serde_json::{Value, json};
use table::sqlite::SqliteTable;
use tests::hooked::{Asked, Hooked, Turn};

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
fn concurrent_model_tags_are_both_kept() {
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
fn model_search_continues_from_page_to_page() {
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

/// The models of an experiment that a search finds, by their ids.
fn found(service: &Service, experiment: &Value, filter: &str) -> Vec<Value> {
    let asked = json!({ "experiment_ids": [experiment], "filter": filter });
    let models = post(service, "mlflow/logged-models/search", &asked)["models"].clone();
    models.as_array().unwrap().iter().map(|one| one["info"]["model_id"].clone()).collect()
}

#[test]
fn model_has_its_latest_logged_values() {
    let (_place, service) = open_door();
    let service = &*service;
    let experiment = experiment(service);
    let (run, other) = (begun(service, &experiment), begun(service, &experiment));
    let (first, second) = (logged(service, &run, "first"), logged(service, &run, "second"));
    let metric = |key: &str, value: Value, step: i64, model: &str| json!({ "key": key, "value": value, "step": step, "timestamp": 1_780_000_000_000_i64 + step, "model_id": model });
    let metrics = [
        metric("auc", json!(0.5), 1, &first),
        metric("auc", json!(0.75), 2, &first),
        metric("auc", json!(0.75), 2, &second),
        metric("loss", json!("NaN"), 1, &first),
        metric("gap", json!(1), 1, "m-elsewhere"),
    ];
    let batch = json!({ "run_id": run, "metrics": metrics });
    post(service, "mlflow/runs/log-batch", &batch);
    post(service, "mlflow/runs/log-batch", &batch);
    // An earlier step, and another run that measures it on a dataset.
    let mut earlier = metric("auc", json!(0.25), 0, &first);
    earlier["run_id"] = run.as_str().into();
    post(service, "mlflow/runs/log-metric", &earlier);
    let mut judged = metric("auc", json!(0.875), 9, &first);
    judged["run_id"] = other.as_str().into();
    judged["dataset_name"] = "loans".into();
    judged["dataset_digest"] = "d1".into();
    post(service, "mlflow/runs/log-metric", &judged);
    let told = |model: &str| {
        let model =
            done(service, ("GET", &format!("mlflow/logged-models/{model}")), &json!({}))["model"].clone();
        let mut metrics = model["data"]["metrics"].as_array().unwrap().clone();
        metrics.sort_by_key(|metric| (metric["key"].to_string(), metric["step"].as_i64()));
        metrics
    };
    let own = |key: &str, value: Value, step: i64, model: &str| {
        let mut metric = metric(key, value, step, model);
        metric["run_id"] = run.as_str().into();
        metric
    };
    let expected = [own("auc", json!(0.75), 2, &first), judged.clone(), own("loss", json!("NaN"), 1, &first)];
    assert_eq!(told(&first), expected);
    assert_eq!(told(&second), [own("auc", json!(0.75), 2, &second)]);
    assert_eq!(found(service, &experiment, "metrics.auc > 0.8"), [json!(first)], "by what was measured last");
    assert_eq!(found(service, &experiment, "metrics.auc > 0.7").len(), 2);
    // The run has each of them once, and its tags show nothing of this.
    let shown = done(service, ("GET", &format!("mlflow/runs/get?run_id={run}")), &json!({}))["run"].clone();
    assert_eq!(shown["data"]["metrics"].as_array().unwrap().len(), 3);
    assert!(!shown["data"]["tags"].to_string().contains("almanac.model"), "{shown}");
}

#[test]
fn metrics_unnoted_at_model_are_noted_when_resent() {
    let folder = tempfile::tempdir().unwrap();
    let table = SqliteTable::open(&folder.path().join("almanac.db"), Clock::system()).unwrap();
    // The run that cannot be written.
    let stuck = Arc::new(Mutex::new(None::<String>));
    let of_hook = Arc::clone(&stuck);
    let is_stuck = move |sk: &str| {
        let stuck = of_hook.lock().unwrap();
        stuck.as_ref().is_some_and(|run| sk.strip_prefix("run#") == Some(run.as_str()))
    };
    let hooked = Hooked::new(Arc::new(table), move |asked| match asked {
        Asked::Write(key) if key.pk.ends_with("/run") && is_stuck(&key.sk) => {
            Turn::Fail(ErrorKind::Unavailable)
        }
        _ => Turn::Pass,
    });
    let options = Options { mlflow: true, ..Options::new(Clock::system()) };
    let service = &Service::start_on(hooked, options);
    let made = service.post("/v1/workspaces", "application/json", None, r#"{"path":"credit/prod"}"#);
    assert_eq!(made.status, 201, "{}", made.text());
    let experiment = experiment(service);
    let (maker, judge) = (begun(service, &experiment), begun(service, &experiment));
    let model = logged(service, &maker, "model");
    let metric = |step: i64| json!({ "key": "auc", "value": 0.5, "timestamp": 1_780_000_000_000_i64 + step, "step": step, "model_id": model });
    let params = json!([{ "key": "depth", "value": "6" }]);
    let batch = json!({ "run_id": judge, "metrics": [metric(1), metric(2)], "params": params });
    let mut alone = metric(3);
    alone["run_id"] = judge.as_str().into();
    let log = || {
        post(service, "mlflow/runs/log-batch", &batch);
        post(service, "mlflow/runs/log-metric", &alone);
    };
    // The number of values that the run has, its parameters, and the step of the value beside the model.
    let told = || {
        let get = |path: String| done(service, ("GET", &path), &json!({}));
        let history = get(format!("mlflow/metrics/get-history?run_id={judge}&metric_key=auc"));
        let run = get(format!("mlflow/runs/get?run_id={judge}"));
        let noted =
            get(format!("mlflow/logged-models/{model}"))["model"]["data"]["metrics"][0]["step"].clone();
        (history["metrics"].as_array().unwrap().len(), run["run"]["data"]["params"].clone(), noted)
    };
    *stuck.lock().unwrap() = Some(maker.clone());
    log();
    assert_eq!(told(), (3, params.clone(), Value::Null));
    *stuck.lock().unwrap() = None;
    log();
    assert_eq!(told(), (3, params, json!(3)));
}

#[test]
fn deleted_model_is_no_longer_found() {
    let (_place, service) = open_door();
    let service = &*service;
    let experiment = experiment(service);
    let run = begun(service, &experiment);
    let (kept, gone) = (logged(service, &run, "kept"), logged(service, &run, "gone"));
    let outputs = json!({ "run_id": run, "models": [{ "model_id": gone, "step": 1 }] });
    post(service, "mlflow/runs/outputs", &outputs);
    assert_eq!(found(service, &experiment, "").len(), 2);
    let path = format!("mlflow/logged-models/{gone}");
    let none = json!({});
    // Also of a run that is archived, and twice.
    post(service, "mlflow/runs/delete", &json!({ "run_id": run }));
    assert_eq!(done(service, ("DELETE", &path), &none), none);
    assert_eq!(done(service, ("DELETE", &path), &none), none);
    post(service, "mlflow/runs/restore", &json!({ "run_id": run }));
    assert_eq!(found(service, &experiment, ""), [json!(kept)]);
    let ready = json!({ "status": "LOGGED_MODEL_READY" });
    let params = json!({ "params": [{ "key": "C", "value": "1" }] });
    for (method, path, body) in [
        ("GET", path.clone(), &none),
        ("PATCH", path.clone(), &ready),
        ("POST", format!("{path}/params"), &params),
    ] {
        let answer = ask(service, (method, &path), None, body);
        assert_eq!(
            (answer.status, &answer.json()["message"]),
            (404, &json!(format!("Logged model with ID '{gone}' not found."))),
            "{method} {path}"
        );
    }
    // The run keeps what the model was to it, and what it logs for the model is a metric of the run.
    let metric = json!({ "run_id": run, "key": "auc", "value": 1, "timestamp": 1_780_000_000_000_i64, "model_id": gone });
    post(service, "mlflow/runs/log-metric", &metric);
    let shown = done(service, ("GET", &format!("mlflow/runs/get?run_id={run}")), &none)["run"].clone();
    assert_eq!(shown["outputs"]["model_outputs"], json!([{ "model_id": gone, "step": 1 }]));
    for other in [format!("m-{run}-{run}"), format!("{kept}%2Ftags%2F0"), "m-none".to_owned()] {
        let answer = ask(service, ("DELETE", &format!("mlflow/logged-models/{other}")), None, &none);
        assert_eq!(
            (answer.status, &answer.json()["error_code"]),
            (404, &json!("RESOURCE_DOES_NOT_EXIST")),
            "{other}"
        );
    }
}
