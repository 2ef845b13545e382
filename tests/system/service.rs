//! The services over HTTP: post, project, query, restart, query again.

use crate::support::{Answer, Place, Service, ndjson, on_both_engines, register, run, run_ok};
use serde_json::{Value, json};

const NDJSON: &str = "application/x-ndjson";
const JSON: &str = "application/json";

const PREDICTIONS: &str = r#"{"key":"a","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.9,"tags":{"branch":"north"}}
{"key":"b","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.2}
{"key":"c","predicted_at":"2026-06-02T04:30:00Z","release":"v1","score":0.6}
"#;

const OUTCOMES: &str = r#"[{"key":"a","predicted_on":"2026-06-01","observed_at":"2026-06-03T00:00:00Z","label":"default"},
 {"key":"b","predicted_at":"2026-06-01T04:30:00Z","observed_at":"2026-06-03T00:00:00Z","label":"paid"}]"#;

on_both_engines!(
    post_project_query_restart_query_again,
    a_retried_upload_is_counted_once,
    many_writers_leave_no_hole_and_lose_nothing,
);

fn evaluations(day: &str) -> String {
    format!("/v1/workspaces/credit/prod/evaluations?from={day}&to={day}")
}

fn post_project_query_restart_query_again(place: &Place) {
    let before = {
        let service = Service::start(place);
        register(&service);
        let answer =
            service.post("/v1/workspaces/credit/prod/predictions", NDJSON, Some("night-1"), PREDICTIONS);
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(answer.json()["days"]["2026-06-01"], 2);
        assert!(!answer.replayed);
        let answer = service.post("/v1/workspaces/credit/prod/outcomes", JSON, None, OUTCOMES);
        assert_eq!(answer.status, 201, "{}", answer.text());

        let judged = service.get_until(&evaluations("2026-06-01"), |answer| {
            answer.status == 200 && ndjson(answer.text()).iter().any(|row| row["labelled"] == 2)
        });
        let row = &ndjson(judged.text())[0];
        assert_eq!(row["accuracy"], 1.0);
        assert_eq!(row["auc"], 1.0);
        let brier = row["brier"].as_f64().unwrap();
        assert!((brier - (0.01 + 0.04) / 2.0).abs() < 1e-15, "{brier}");

        // Another process reads the same file while the services run.
        let args =
            ["query", "predictions", "-w", "credit/prod", "--from", "2026-06-01", "--to", "2026-06-02"];
        let csv = run_ok(
            place,
            &[&args[..], &["--columns", "day,key,score,tag.branch", "--format", "csv"]].concat(),
        );
        assert_eq!(
            csv,
            "day,key,score,tag.branch\n2026-06-01,a,0.9,north\n2026-06-01,b,0.2,\n2026-06-02,c,0.6,\n"
        );
        judged.body
    };
    let service = Service::start(place);
    assert_eq!(service.get(&evaluations("2026-06-01")).body, before, "the same after a restart");
    let page = service.get("/v1/workspaces/credit/prod?counts=true").json();
    assert_eq!(page["counts"]["predictions"], 3);
    assert_eq!(page["counts"]["outcomes"], 2);
    assert_eq!(page["releases"][0]["counts"]["predictions"], 3);
    drop(service);
    assert!(run_ok(place, &["admin", "verify"]).contains("all as the log says"));
}

fn a_retried_upload_is_counted_once(place: &Place) {
    let path = "/v1/workspaces/credit/prod/predictions";
    let again = {
        let service = Service::start(place);
        register(&service);
        let first = service.post(path, NDJSON, Some("night-1"), PREDICTIONS);
        let again = service.post(path, NDJSON, Some("night-1"), PREDICTIONS);
        assert_eq!((again.status, again.replayed), (201, true));
        let said =
            |answer: &Answer| ["appended", "rows", "replay_of"].map(|name| answer.json()[name].clone());
        assert_eq!(said(&first), [json!(3), json!(3), Value::Null]);
        assert_eq!(said(&again), [json!(0), json!(3), json!("night-1")]);
        // Without a key, the events themselves are the key: in another format, too.
        let unnamed = service.post(path, NDJSON, None, PREDICTIONS.lines().next().unwrap());
        assert_eq!((unnamed.status, unnamed.replayed), (201, false));
        let array = format!("[{}]", PREDICTIONS.lines().next().unwrap());
        assert!(service.post(path, JSON, None, &array).replayed);
        let repeat = |value| {
            let headers = [("Content-Type", JSON), ("Almanac-Repeat", value)];
            service.send("POST", path, &headers, Some(array.as_bytes()))
        };
        let stored = repeat("store");
        assert_eq!(
            (stored.status, stored.json()["appended"].as_u64()),
            (201, Some(1)),
            "where that is wanted"
        );
        assert_eq!(repeat("twice").status, 422);
        again.body
    };
    let service = Service::start(place);
    assert_eq!(service.post(path, NDJSON, Some("night-1"), PREDICTIONS).body, again, "also after a restart");
    let other = service.post(path, NDJSON, Some("night-1"), PREDICTIONS.lines().nth(1).unwrap());
    assert_eq!(other.status, 409, "{}", other.text());
    assert_eq!(other.content_type, "application/problem+json");
    let rows = service.get("/v1/workspaces/credit/prod/predictions?from=2026-06-01&to=2026-06-02");
    assert_eq!(ndjson(rows.text()).len(), 5);
}

fn many_writers_leave_no_hole_and_lose_nothing(place: &Place) {
    let service = Service::start(place);
    register(&service);
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let service = &service;
            scope.spawn(move || {
                for n in 0..10 {
                    let row =
                        PREDICTIONS.lines().next().unwrap().replace("\"a\"", &format!("\"{writer}-{n}\""));
                    let answer = service.post("/v1/workspaces/credit/prod/predictions", NDJSON, None, &row);
                    assert_eq!(answer.status, 201, "{}", answer.text());
                }
            });
        }
    });
    let rows = service.get("/v1/workspaces/credit/prod/predictions?from=2026-06-01&to=2026-06-01");
    let mut keys: Vec<String> = ndjson(rows.text()).iter().map(|row| row["key"].to_string()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 80);
    let rollups = "/v1/workspaces/credit/prod/rollups?from=2026-06-01&to=2026-06-01&release=v1";
    service.get_until(rollups, |answer| ndjson(answer.text()).iter().any(|row| row["predictions"] == 80));
    drop(service);
    let report = run_ok(place, &["admin", "verify"]);
    assert!(report.contains("all as the log says"), "{report}");
}

#[test]
fn bad_requests_say_what_is_wrong() {
    let place = Place::sqlite();
    let service = Service::start(&place);
    register(&service);
    let post = |kind: &str, content_type: &str, key: Option<&str>, body: &str| {
        let answer = service.post(&format!("/v1/workspaces/credit/prod/{kind}"), content_type, key, body);
        assert_eq!(answer.content_type, "application/problem+json", "{}", answer.text());
        let mut problem = answer.json();
        // Every request has its own.
        assert!(problem.as_object_mut().unwrap().remove("request_id").is_some(), "{problem}");
        format!("{}\n", serde_json::to_string_pretty(&problem).unwrap())
    };
    let long_key = "k".repeat(300);
    let rows = r#"{"key":"a","predicted_at":"2026-06-01T04:30:00Z","release":"v9","score":0.5}
{"key":"b","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.5}"#;
    let mut said = String::new();
    said += &post("predictions", NDJSON, None, rows);
    said += &post("predictions", NDJSON, None, "{\"key\":1");
    said += &post("predictions", "text/plain", None, PREDICTIONS);
    said += &post("predictions", JSON, None, "");
    said += &post("predictions", NDJSON, Some(&long_key), PREDICTIONS);
    said += &post(
        "releases",
        JSON,
        None,
        r#"[{"release":"v2","model":"other","action":"register","released_at":"2026-05-31T00:00:00Z"}]"#,
    );
    for path in [
        "/v1/workspaces/credit/test/predictions?from=2026-06-01&to=2026-06-01",
        "/v1/workspaces/credit/prod/predictions?from=2026-06-02&to=2026-06-01",
        "/v1/workspaces/credit/prod/predictions?from=2026-02-30&to=2026-06-01",
        "/v1/workspaces/credit/prod/predictions?from=2026-06-01&to=2026-06-01&columns=scor",
        "/v1/workspaces/credit/prod/predictions?from=2026-06-01&to=2026-06-01&frmat=csv",
        "/v1/workspaces/credit/prod/outcomes?from=2026-06-01&to=2026-06-01&release=v1",
        "/v2/nothing",
    ] {
        let answer = service.get(path);
        assert_eq!(answer.content_type, "application/problem+json", "{path}: {}", answer.text());
        said += &format!("{} {}\n", answer.status, answer.json()["detail"]);
    }
    insta::assert_snapshot!(said);
    // A refused batch of releases registers none of them.
    let releases = r#"[{"release":"v2","model":"risk","action":"register","released_at":"2026-05-31T00:00:00Z"},
        {"release":"v3","model":"other","action":"register","released_at":"2026-05-31T00:00:00Z"}]"#;
    assert_eq!(service.post("/v1/workspaces/credit/prod/releases", JSON, None, releases).status, 422);
    assert_eq!(service.get("/v1/workspaces/credit/prod").json()["releases"].as_array().unwrap().len(), 1);
    let nothing = service.get("/v1/workspaces/credit/prod/predictions?from=2026-06-01&to=2026-06-30");
    assert_eq!((nothing.status, nothing.text()), (200, ""), "nothing of a refused batch was stored");
    assert!(!run(&place, &["admin", "verify", "-w", "credit/test"]).status.success());
}
