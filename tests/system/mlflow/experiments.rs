//! Experiments, which are known by their names.

use serde_json::json;

use super::{ask, done, open_door, post, refused};

#[test]
fn an_experiment_keeps_its_name() {
    let (_place, service) = open_door();
    let made = post(&service, "mlflow/experiments/create", &json!({ "name": "depths" }));
    let id = made["experiment_id"].clone();
    let path = "mlflow/experiments/update";
    let named = |name: &str| json!({ "experiment_id": id, "new_name": name });
    refused(&service, path, &named("heights"), "INVALID_PARAMETER_VALUE");
    let said = ask(&service, ("POST", path), None, &named("heights")).json()["message"].clone();
    assert!(said.as_str().unwrap().contains("cannot be called 'heights'"), "{said}");
    post(&service, path, &named("depths"));
    let shown = format!("mlflow/experiments/get?experiment_id={}", id.as_str().unwrap());
    assert_eq!(done(&service, ("GET", &shown), &json!({}))["experiment"]["name"], "depths");
    let none = json!({ "experiment_id": "none", "new_name": "heights" });
    assert_eq!(ask(&service, ("POST", path), None, &none).status, 404);
}
