//! Logged models that several clients change, and searches of them.

use std::sync::{Arc, Mutex};

use almanac::up::Options;
use catalog::{Catalog, RunChange};
use event::{Clock, Id};
use serde_json::{Value, json};
use table::{Table, sqlite::SqliteTable};
use tests::between::{Between, Happens};

use super::{ask, done, post};
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

/// What another process does to tags of a run: sets one.
fn tagged(table: &Arc<dyn Table>, run: &str, tag: (String, Value)) -> Happens {
    let (catalog, run) = (Catalog::new(Arc::clone(table)), Id::parse(run).unwrap());
    Box::pin(async move {
        let workspace = catalog.workspace("credit/prod").await.unwrap();
        let change = RunChange { tags: [(tag.0, Some(tag.1.to_string()))].into(), ..RunChange::default() };
        catalog.change_run(workspace.id(), &run, &change, Clock::system().now()).await.unwrap();
    })
}

#[test]
fn tags_that_two_give_a_model_at_one_time_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let inner: Arc<dyn Table> =
        Arc::new(SqliteTable::open(&folder.path().join("almanac.db"), Clock::system()).unwrap());
    // What happens before the next write of this run.
    let next = Arc::new(Mutex::new(None::<(String, Happens)>));
    let table = Between::new(Arc::clone(&inner), {
        let next = Arc::clone(&next);
        move |call| {
            let mut next = next.lock().unwrap();
            let is_now = next.as_ref().is_some_and(|(run, _)| call.writes("", run));
            if is_now { next.take().map(|(_, happens)| happens) } else { None }
        }
    });
    let options = Options { mlflow: true, ..Options::new(Clock::system()) };
    let service = Service::start_on(Arc::new(table), options);
    let made = service.post("/v1/workspaces", "application/json", None, r#"{"path":"credit/prod"}"#);
    assert_eq!(made.status, 201, "{}", made.text());
    let run = begun(&service, &experiment(&service));
    let id = logged(&service, &run, "model");
    let path = format!("mlflow/logged-models/{id}");
    let pair = |key: &str, value: &str| json!({ "key": key, "value": value });
    let overtaken = |of: &str, texts: Value| {
        let happens = tagged(&inner, &run, (format!("almanac.model/{id}/{of}/0"), texts));
        *next.lock().unwrap() = Some((run.clone(), happens));
    };
    overtaken("tags", json!({ "theirs": "1" }));
    let tags = json!({ "tags": [pair("ours", "2")] });
    done(&service, ("PATCH", &format!("{path}/tags")), &tags);
    assert!(next.lock().unwrap().is_none(), "another process was quicker");
    overtaken("params", json!({ "theirs": "3" }));
    post(&service, &format!("{path}/params"), &json!({ "params": [pair("ours", "4")] }));
    let model = done(&service, ("GET", &path), &json!({}))["model"].clone();
    assert_eq!(model["info"]["tags"], json!([pair("ours", "2"), pair("theirs", "1")]));
    assert_eq!(model["data"]["params"], json!([pair("ours", "4"), pair("theirs", "3")]));
    // One that is not there stays so.
    let other = format!("mlflow/logged-models/m-{run}-{run}");
    let ready = json!({ "status": "LOGGED_MODEL_READY" });
    let answer = ask(&service, ("PATCH", &other), None, &ready);
    assert_eq!((answer.status, &answer.json()["error_code"]), (404, &json!("RESOURCE_DOES_NOT_EXIST")));
    assert_eq!(answer.json()["message"], format!("Logged model with ID 'm-{run}-{run}' not found."));
}
