//! Batches of metrics, parameters and tags of a run: all of one is stored, or nothing.

use catalog::RunChange;
use event::{Clock, Timestamp};
use serde_json::{Value, json};

use super::{ask, done, new_run, open_door, overtaken::Overtaken, post, refused};
use crate::support::Service;

/// The data of a run: what it was given, and measured.
fn data(service: &Service, run: &Value) -> Value {
    let path = format!("mlflow/runs/get?run_id={}", run.as_str().unwrap());
    done(service, ("GET", &path), &json!({}))["run"]["data"].clone()
}

/// A metric that was measured so many days from now.
fn metric(days: i64) -> Value {
    let now: Timestamp = Clock::system().now();
    json!({ "key": "loss", "value": 0.5, "timestamp": now.micros() / 1_000 + days * 86_400_000 })
}

fn pair(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": value })
}

#[test]
fn refused_batch_stores_nothing() {
    let (_place, service) = open_door();
    let run = new_run(&service, "refused");
    let path = "mlflow/runs/log-batch";
    post(&service, path, &json!({ "run_id": run, "params": [pair("depth", "6")] }));
    let before = data(&service, &run);
    let step =
        |step: i64| json!({ "key": "loss", "value": 1, "timestamp": 1_780_000_000_000_i64, "step": step });
    let (param, tag) = (pair("rate", "0.1"), pair("team", "risk"));
    let batches = [
        // Metrics that cannot be: from the future, without a time, of no name, at a step that has no place.
        json!({ "metrics": [metric(9)], "params": [param], "tags": [tag] }),
        json!({ "metrics": [metric(0), { "key": "auc", "value": 1 }], "params": [param], "tags": [tag] }),
        json!({ "metrics": [{ "key": "x".repeat(5_000), "value": 1, "timestamp": 1 }], "tags": [tag] }),
        json!({ "metrics": [step((1 << 53) + 1)], "tags": [tag] }),
        json!({ "metrics": [step(1 << 62)], "tags": [tag] }),
        // Parameters that cannot be: given before, given twice, too long.
        json!({ "metrics": [metric(0)], "params": [param, pair("depth", "7")], "tags": [tag] }),
        json!({ "metrics": [metric(0)], "params": [pair("x", "1"), pair("x", "2")], "tags": [tag] }),
        json!({ "metrics": [metric(0)], "params": [pair("long", &"x".repeat(100_000))], "tags": [tag] }),
        json!({ "metrics": [metric(0)], "tags": [tag, pair("long", &"x".repeat(100_000))] }),
    ];
    for mut batch in batches {
        batch["run_id"] = run.clone();
        refused(&service, path, &batch, "INVALID_PARAMETER_VALUE");
        assert_eq!(data(&service, &run), before, "{batch}");
    }
    let whole = json!({
        "run_id": run, "metrics": [metric(0)], "params": [param, param, pair("depth", "6")], "tags": [tag],
    });
    post(&service, path, &whole);
    let after = data(&service, &run);
    assert_eq!(after["params"], json!([pair("depth", "6"), pair("rate", "0.1")]));
    assert_eq!(after["metrics"][0]["value"], 0.5);
}

#[test]
fn empty_batch_needs_an_existing_run() {
    let (_place, service) = open_door();
    let path = "mlflow/runs/log-batch";
    post(&service, path, &json!({ "run_id": new_run(&service, "empty") }));
    let answer = ask(&service, ("POST", path), None, &json!({ "run_id": "0".repeat(32) }));
    assert_eq!((answer.status, &answer.json()["error_code"]), (404, &json!("RESOURCE_DOES_NOT_EXIST")));
}

#[test]
fn resent_batch_is_counted_once() {
    let overtaken = Overtaken::open();
    let service = &overtaken.service;
    let run = new_run(service, "overtaken");
    let path = "mlflow/runs/log-batch";
    // Two of one metric, and a parameter that is refused, since another process archives the run once the metrics are stored.
    let metrics = [metric(0), metric(-1)];
    let batch = json!({ "run_id": run, "metrics": metrics, "params": [pair("depth", "6")] });
    let archived = RunChange { archived: Some(true), ..RunChange::default() };
    overtaken.by(run.as_str().unwrap(), archived);
    refused(service, path, &batch, "INVALID_PARAMETER_VALUE");
    assert!(overtaken.has_happened());
    assert_eq!(data(service, &run)["params"], json!([]));
    let history = || {
        let path = format!("mlflow/metrics/get-history?run_id={}&metric_key=loss", run.as_str().unwrap());
        done(service, ("GET", &path), &json!({}))["metrics"].as_array().unwrap().len()
    };
    assert_eq!(history(), 2, "the metrics were stored before");
    post(service, "mlflow/runs/restore", &json!({ "run_id": run }));
    post(service, path, &batch);
    assert_eq!((history(), &data(service, &run)["params"]), (2, &json!([pair("depth", "6")])));
}

#[test]
fn batched_model_metrics_are_counted_once() {
    let (_place, service) = open_door();
    let run = new_run(&service, "linked");
    let path = "mlflow/runs/log-batch";
    // On 2026-05-28, and on the day before.
    let at = 1_780_000_000_000_i64;
    let metric =
        |key: &str, step: i64, at: i64| json!({ "key": key, "value": step, "timestamp": at, "step": step });
    let of_model = |mut metric: Value| {
        metric["model_id"] = "m-elsewhere".into();
        metric
    };
    let first = || vec![metric("loss", 1, at - 86_400_000), metric("loss", 2, at), metric("loss", 3, at + 1)];
    let log = |metrics: Vec<Value>| post(&service, path, &json!({ "run_id": run, "metrics": metrics }));
    let stored = || {
        let window = "from=2026-05-27&to=2026-05-28&format=ndjson&columns=name,step";
        let answer = service.get(&format!("/v1/workspaces/credit/prod/metrics?{window}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text().lines().count()
    };
    let with_model = |metrics: Vec<Value>| metrics.into_iter().map(of_model).collect::<Vec<_>>();
    log(with_model(first()));
    assert_eq!(stored(), 3);
    log(with_model(first()));
    assert_eq!(stored(), 3, "the same batch again");
    // Values that the run has, one of which is not its latest, and new ones: the batch again has fewer that are new.
    let more = || [first(), vec![metric("loss", 4, at + 2), metric("loss", 5, at + 3)]].concat();
    log(with_model(more()));
    assert_eq!(stored(), 5);
    log(with_model(more()));
    assert_eq!(stored(), 5);
    // Values of no model, which then are said to be of one.
    let plain = || vec![metric("auc", 1, at), metric("auc", 2, at + 1)];
    log(plain());
    log(with_model(plain()));
    assert_eq!(stored(), 7);
    // One value for each of two models.
    let both = ["m-one", "m-two"].map(|model| {
        let mut metric = metric("gap", 1, at);
        metric["model_id"] = model.into();
        metric
    });
    log(both.to_vec());
    log(both.to_vec());
    assert_eq!(stored(), 8);
    // One value of a model and of none, in either order.
    for (key, is_last) in [("early", false), ("late", true)] {
        let mut pair = [of_model(metric(key, 1, at)), metric(key, 1, at)];
        if is_last {
            pair.reverse();
        }
        log(pair.to_vec());
    }
    assert_eq!(stored(), 10);
    // Another value at a time and step that the run has is another one.
    let mut other = of_model(metric("loss", 2, at));
    other["value"] = 0.25.into();
    log(vec![other.clone()]);
    log(vec![other]);
    assert_eq!(stored(), 11);
    // One of them by itself.
    let mut alone = of_model(metric("loss", 2, at));
    alone["run_id"] = run.clone();
    post(&service, "mlflow/runs/log-metric", &alone);
    assert_eq!(stored(), 11);
}
