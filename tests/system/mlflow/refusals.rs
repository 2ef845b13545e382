//! Requests that the door refuses: what it cannot keep is no success.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::{ask, done, new_run, open_door, post, refused};
use crate::support::{Place, Running, on_both_engines, run_ok};

on_both_engines!(wrong_json_types_are_refused_and_store_nothing, long_datasets_come_back_whole);

/// A service with the door to `credit/prod`.
fn opened(place: &Place) -> Running {
    run_ok(place, &["workspace", "create", "credit/prod"]);
    Running::start(place, &["--mlflow", "--mlflow-artifacts", "s3://bucket/mlflow"], &[])
}

/// The run as the door shows it.
fn shown(service: &Running, run: &Value) -> Value {
    done(service, ("GET", &format!("mlflow/runs/get?run_id={}", run.as_str().unwrap())), &json!({}))["run"]
        .clone()
}

/// A metric, or one that says something else.
fn metric(more: Value) -> Value {
    let mut metric = json!({ "key": "loss", "value": 0.5, "timestamp": 1_780_000_000_000_i64 });
    metric.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    metric
}

/// Changes of a run, each with a value of a wrong type.
fn wrong_changes() -> Vec<(&'static str, Value)> {
    vec![
        ("log-parameter", json!({ "key": "depth", "value": 5 })),
        ("log-parameter", json!({ "key": 5, "value": "6" })),
        ("log-batch", json!({ "metrics": "foo" })),
        ("log-batch", json!({ "metrics": [metric(json!({})), "foo"] })),
        ("log-batch", json!({ "metrics": [metric(json!({})), metric(json!({ "model_id": 5 }))] })),
        ("log-batch", json!({ "metrics": [metric(json!({ "dataset_name": {} }))] })),
        ("log-batch", json!({ "metrics": [metric(json!({ "step": 0.5 }))] })),
        ("log-batch", json!({ "params": { "depth": "6" } })),
        ("log-batch", json!({ "params": [{ "key": "depth", "value": 6 }] })),
        ("log-batch", json!({ "tags": [{ "key": "team", "value": { "a": 1 } }] })),
        ("log-batch", json!({ "tags": [{ "key": "team", "value": ["a"] }], "metrics": [metric(json!({}))] })),
        ("log-metric", metric(json!({ "value": true }))),
        ("log-metric", metric(json!({ "key": ["loss"] }))),
        ("set-tag", json!({ "key": "team", "value": { "a": 1 } })),
        ("set-tag", json!({ "key": "team", "value": false })),
        ("delete-tag", json!({ "key": 5 })),
        ("update", json!({ "run_name": 5 })),
        ("update", json!({ "status": 3 })),
        ("log-inputs", json!({ "datasets": "loans" })),
        ("log-inputs", json!({ "datasets": [{ "dataset": "loans" }] })),
        (
            "log-inputs",
            json!({ "datasets": [{ "dataset": { "name": "loans", "digest": "d", "source": 5 } }] }),
        ),
        (
            "log-inputs",
            json!({ "datasets": [{ "dataset": { "name": "loans", "digest": "d" }, "tags": "a" }] }),
        ),
        ("outputs", json!({ "models": [{ "model_id": 5 }] })),
    ]
}

/// Further requests of wrong types.
fn wrong_requests(run: &Value, model: &str) -> Vec<(String, Value)> {
    let all = [
        ("mlflow/runs/create", json!({ "experiment_id": 0 })),
        ("mlflow/runs/create", json!({ "tags": { "a": "b" } })),
        ("mlflow/runs/create", json!({ "run_name": ["first"] })),
        ("mlflow/runs/search", json!({ "experiment_ids": [0] })),
        ("mlflow/runs/search", json!({ "experiment_ids": ["0"], "filter": 5 })),
        ("mlflow/runs/search", json!({ "experiment_ids": ["0"], "order_by": [5] })),
        ("mlflow/runs/search", json!({ "experiment_ids": ["0"], "run_view_type": "all" })),
        ("mlflow/runs/search", json!({ "experiment_ids": ["0"], "page_token": 5 })),
        ("mlflow/experiments/create", json!({ "name": "second", "artifact_location": 5 })),
        ("mlflow/experiments/create", json!({ "name": "second", "tags": "a" })),
        ("mlflow/experiments/set-experiment-tag", json!({ "experiment_id": "0", "key": "a", "value": 1 })),
        ("mlflow/registered-models/create", json!({ "name": "other", "description": 5 })),
        ("mlflow/registered-models/create", json!({ "name": "other", "tags": [{ "key": "a", "value": 5 }] })),
        ("mlflow/registered-models/alias", json!({ "name": "risk", "alias": 5, "version": "1" })),
        ("mlflow/registered-models/set-tag", json!({ "name": "risk", "key": "a", "value": 5 })),
        ("mlflow/model-versions/create", json!({ "name": "risk", "source": 5 })),
        ("mlflow/model-versions/create", json!({ "name": "risk", "source": "s3://m", "run_link": 5 })),
        ("mlflow/logged-models", json!({ "source_run_id": run, "name": 5 })),
        ("mlflow/logged-models", json!({ "source_run_id": run, "params": "a" })),
        (&format!("mlflow/logged-models/{model}/params"), json!({ "params": [{ "key": "a", "value": 5 }] })),
    ];
    all.map(|(path, body)| (path.to_owned(), body)).into()
}

fn wrong_json_types_are_refused_and_store_nothing(place: &Place) {
    let service = opened(place);
    let run = new_run(&service, "first");
    post(&service, "mlflow/registered-models/create", &json!({ "name": "risk" }));
    let model = post(&service, "mlflow/logged-models", &json!({ "source_run_id": run }));
    let model = model["model"]["info"]["model_id"].as_str().unwrap().to_owned();
    let before = (shown(&service, &run), everything(&service));
    for (path, mut body) in wrong_changes() {
        body["run_id"] = run.clone();
        refused(&service, &format!("mlflow/runs/{path}"), &body, "INVALID_PARAMETER_VALUE");
    }
    for (path, body) in &wrong_requests(&run, &model) {
        let answer = ask(&service, ("POST", path), None, body);
        let code = answer.json()["error_code"].clone();
        assert_eq!(
            (answer.status, code),
            (400, json!("INVALID_PARAMETER_VALUE")),
            "{path} {body}: {}",
            answer.text()
        );
    }
    assert_eq!((shown(&service, &run), everything(&service)), before);
    // The request with the right types is taken.
    let whole = json!({ "run_id": run, "metrics": [metric(json!({ "step": "1" }))], "params": [{ "key": "depth", "value": "6" }] });
    post(&service, "mlflow/runs/log-batch", &whole);
    let data = shown(&service, &run)["data"].clone();
    assert_eq!(
        (&data["params"], &data["metrics"][0]["step"]),
        (&json!([{ "key": "depth", "value": "6" }]), &json!(1))
    );
}

/// The runs, experiments, models and versions that there are.
fn everything(service: &Running) -> Vec<Value> {
    let runs =
        post(service, "mlflow/runs/search", &json!({ "experiment_ids": ["0"], "run_view_type": "ALL" }));
    let get = |path: &str| done(service, ("GET", path), &json!({}));
    vec![
        runs,
        get("mlflow/experiments/search?view_type=ALL"),
        get("mlflow/registered-models/search"),
        get("mlflow/model-versions/search"),
    ]
}

fn long_datasets_come_back_whole(place: &Place) {
    let service = opened(place);
    let run = new_run(&service, "first");
    let log = |source: &str, schema: &str| {
        let dataset = json!({ "name": "loans", "digest": "d1", "source_type": "s3", "source": source, "schema": schema });
        json!({ "run_id": run, "datasets": [{ "dataset": dataset, "tags": [{ "key": "mlflow.data.context", "value": "training" }] }] })
    };
    for (source, schema) in [
        ("s".repeat(60_000), "é".repeat(30_000)),
        ("t".repeat(20_000), "[]".to_owned()),
        ("{}".to_owned(), "x".repeat(9_000)),
    ] {
        let given = log(&source, &schema);
        post(&service, "mlflow/runs/log-inputs", &given);
        let run = shown(&service, &run);
        assert_eq!(run["inputs"]["dataset_inputs"], given["datasets"]);
        let tags = run["data"]["tags"].as_array().unwrap();
        assert!(tags.iter().all(|tag| !tag["key"].as_str().unwrap().starts_with("almanac.")), "{tags:?}");
    }
    let before = shown(&service, &run);
    for too_long in [log(&"s".repeat(400_000), "[]"), log(&"s".repeat(200_000), &"x".repeat(200_000))] {
        refused(&service, "mlflow/runs/log-inputs", &too_long, "INVALID_PARAMETER_VALUE");
    }
    assert_eq!(shown(&service, &run), before);
    let found = json!({ "experiment_ids": ["0"], "filter": "dataset.context = 'training'" });
    assert_eq!(post(&service, "mlflow/runs/search", &found)["runs"][0]["info"]["run_name"], "first");
}

#[test]
fn no_tag_leads_artifacts_elsewhere() {
    let place = Place::sqlite();
    let service = opened(&place);
    let run = new_run(&service, "first");
    let before = shown(&service, &run);
    assert!(before["info"]["artifact_uri"].as_str().unwrap().starts_with("s3://bucket/mlflow/"), "{before}");
    let evil = json!([{ "key": "almanac.artifacts", "value": "s3://evil" }]);
    let one = |name: &str| json!({ "run_id": run, "experiment_id": "0", "name": "risk", "version": "1", "key": name, "value": "s3://evil" });
    for (path, body) in [
        ("runs/set-tag", one("almanac.artifacts")),
        ("runs/set-tag", one("almanac.model/m-1")),
        ("runs/set-tag", one("almanac.dataset/loans@d1")),
        ("runs/delete-tag", one("almanac.artifacts")),
        ("runs/log-batch", json!({ "run_id": run, "tags": evil })),
        ("runs/create", json!({ "tags": evil })),
        ("experiments/create", json!({ "name": "second", "tags": evil })),
        ("experiments/set-experiment-tag", one("almanac.artifacts")),
        ("experiments/delete-experiment-tag", one("almanac.artifacts")),
        (
            "registered-models/create",
            json!({ "name": "risk", "tags": [{ "key": "almanac.taks", "value": "binary" }] }),
        ),
    ] {
        refused(&service, &format!("mlflow/{path}"), &body, "INVALID_PARAMETER_VALUE");
    }
    // Tags that count when a model is made have no effect later.
    post(&service, "mlflow/registered-models/create", &json!({ "name": "risk" }));
    refused(&service, "mlflow/registered-models/set-tag", &one("almanac.task"), "INVALID_PARAMETER_VALUE");
    // Nor by the native routes and commands.
    let id = run.as_str().unwrap();
    let path = format!("/v1/runs/credit%2Fprod/{id}");
    let change = json!({ "tags": { "almanac.artifacts": "s3://evil" } }).to_string();
    let answer =
        service.send("patch", &path, &[("Content-Type", "application/json")], Some(change.as_bytes()));
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.text().contains("Almanac's own"), "{}", answer.text());
    let tagged = crate::support::run(
        &place,
        &["run", "update", "-w", "credit/prod", id, "--tag", "almanac.artifacts=s3://evil"],
    );
    assert_eq!(tagged.status.code(), Some(2), "{}", String::from_utf8_lossy(&tagged.stderr));
    assert_eq!(shown(&service, &run), before);
    let experiment = done(&service, ("GET", "mlflow/experiments/get?experiment_id=0"), &json!({}));
    assert_eq!(experiment["experiment"]["tags"], json!([]));
}

#[test]
fn filters_of_many_comparisons_are_refused_soon() {
    let (_place, service) = open_door();
    let path = "mlflow/runs/search";
    let search = |filter: String| json!({ "experiment_ids": ["0"], "filter": filter });
    let joined = |count: usize| vec!["metrics.loss > 0.5"; count].join(" AND ");
    post(&service, path, &search(joined(100)));
    let long_list: Vec<String> = (0..2_000).map(|id| format!("'{id}'")).collect();
    post(&service, path, &search(format!("attributes.run_id IN ({})", long_list.join(", "))));
    for filter in [
        joined(101),
        joined(80_000),
        format!("metrics.`{}` > 'x'", "x".repeat(60_000)),
        format!("'{}'", "x".repeat(300_000)),
        format!("params.x LIKE '{}'", "%a".repeat(2_000)),
    ] {
        let answer = ask(&service, ("POST", path), None, &search(filter));
        assert_eq!(answer.status, 400);
        assert!(answer.text().len() < 5_000, "an error of {} bytes", answer.text().len());
    }
    let orders = json!({ "experiment_ids": ["0"], "order_by": vec!["metrics.loss"; 101] });
    refused(&service, path, &orders, "INVALID_PARAMETER_VALUE");
}

#[test]
fn bodies_are_json_and_say_so() {
    let (_place, service) = open_door();
    let at = |path: &str| format!("/mlflow/credit/prod/api/2.0/mlflow/{path}");
    let model = br#"{"name":"risk"}"#;
    for media in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""] {
        let answer =
            service.send("post", &at("registered-models/create"), &[("Content-Type", media)], Some(model));
        assert_eq!(answer.status, 400, "{media}: {}", answer.text());
        assert!(answer.text().contains("application/json"), "{}", answer.text());
    }
    let in_url = service.send("post", &at("registered-models/create?name=risk"), &[], Some(b""));
    assert_eq!(in_url.status, 400, "{}", in_url.text());
    let models = done(&service, ("GET", "mlflow/registered-models/search"), &json!({}));
    assert_eq!(models["registered_models"], json!([]));
    let media = [("Content-Type", "application/json; charset=utf-8")];
    assert_eq!(service.send("post", &at("registered-models/create"), &media, Some(model)).status, 200);
}

#[test]
fn pages_of_other_origins_are_refused_without_tokens() {
    for args in [&["--mlflow"][..], &["--mlflow", "--insecure"]] {
        let place = Place::sqlite();
        run_ok(&place, &["workspace", "create", "credit/prod"]);
        let service = Running::start(&place, args, &[]);
        let own = format!("http://{}", service.address());
        let port = own.rsplit(':').next().unwrap();
        let neighbour = format!("http://127.0.0.1:1{port}");
        let foreign = [
            ("Origin", "https://evil.example"),
            ("Origin", "null"),
            ("Origin", &neighbour),
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Site", "same-site"),
        ];
        let door = "/mlflow/credit/prod/api/2.0/mlflow";
        let asked = [
            ("post", format!("{door}/registered-models/create"), r#"{"name":"evil"}"#),
            ("get", format!("{door}/registered-models/search"), ""),
            ("post", "/v1/workspaces".to_owned(), r#"{"path":"evil/prod"}"#),
            ("get", "/v1/workspaces".to_owned(), ""),
            ("post", "/v1/workspaces/credit/prod/sql".to_owned(), r#"{"sql":"select 1"}"#),
            ("post", "/v1/judgements".to_owned(), "{}"),
        ];
        for (method, path, body) in &asked {
            let send = |header: (&str, &str)| {
                let headers = [header, ("Content-Type", "application/json")];
                service.send(method, path, &headers, (!body.is_empty()).then_some(body.as_bytes()))
            };
            for header in foreign {
                let answer = send(header);
                assert_eq!(answer.status, 403, "{method} {path} {header:?}: {}", answer.text());
                assert!(answer.text().contains("page of another origin"), "{}", answer.text());
            }
            for header in [("Origin", &*own), ("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "none")] {
                let answer = send(header);
                assert_ne!(answer.status, 403, "{method} {path} {header:?}: {}", answer.text());
            }
        }
        let models = done(&service, ("GET", "mlflow/registered-models/search"), &json!({}));
        assert_eq!(models["registered_models"].as_array().unwrap().len(), 1, "that of its own page");
        // A link leads to the dashboard from anywhere.
        for path in ["/", "/dashboard/main.js", "/mlflow/credit/prod/", "/healthz"] {
            let answer = service.send("get", path, &[("Sec-Fetch-Site", "cross-site")], None);
            assert_ne!(answer.status, 403, "{path}");
        }
    }
}

/// The answer of a service to bytes.
fn raw(service: &Running, request: &str) -> String {
    let mut stream = TcpStream::connect(service.address()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn two_hosts_are_refused_and_answers_not_kept() {
    let (_place, service) = open_door();
    let get = |hosts: &str| {
        raw(&service, &format!("GET /v1/workspaces HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n"))
    };
    for hosts in ["Host: localhost\r\nHost: evil.example\r\n", "Host: localhost\r\nhost: localhost\r\n"] {
        let text = get(hosts);
        assert!(text.starts_with("HTTP/1.1 400 ") && text.contains("more than one header Host"), "{text}");
    }
    let text = get("Host: localhost\r\n");
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    for path in [
        "/v1/workspaces",
        "/v1/workspaces/no/where",
        "/mlflow/credit/prod/api/2.0/mlflow/experiments/search",
        "/healthz",
        "/nowhere",
    ] {
        assert_eq!(service.get(path).header("cache-control"), Some("no-store"), "{path}");
    }
    assert_eq!(service.get("/").header("cache-control"), Some("no-cache"), "the dashboard is kept");
}
