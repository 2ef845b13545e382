//! Releases from the command line and over HTTP.

use crate::support::{self, Place, Service, run_ok};
use serde_json::{Value, json};

/// A value without what each workspace and each second has for itself.
fn timeless(mut value: Value) -> Value {
    const OWN: [&str; 14] = [
        "id",
        "workspace",
        "model_id",
        "configuration_id",
        "entry",
        "at",
        "since",
        "created_at",
        "updated_at",
        "released_at",
        "appended_at",
        "lane",
        "path",
        "seq",
    ];
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, _| !OWN.contains(&name.as_str()));
            fields.values_mut().for_each(|value| *value = timeless(value.take()));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = timeless(value.take())),
        _ => {}
    }
    value
}

/// The views of the releases of a workspace: the log, the history, a feed, what is live, and the release.
fn releases_of(place: &Place, service: &Service, workspace: &str) -> Vec<Value> {
    let days = ["--from", "2026-01-01", "--to", "2035-12-31"];
    let query = [&["query", "releases", "-w", workspace, "--format", "ndjson"], &days[..]].concat();
    let escaped = workspace.replace('/', "%2F");
    let user = workspace.replace('/', "-");
    let mut seen = support::ndjson(&run_ok(place, &query));
    seen.extend(
        ["history", "live"].map(|what| service.get(&format!("/v1/workspaces/{workspace}/{what}")).json()),
    );
    seen.push(service.get(&format!("/v1/users/{user}/feed")).json());
    seen.push(service.get(&format!("/v1/releases/{escaped}%2Fv1")).json());
    seen.into_iter().map(timeless).collect()
}

/// Says of both workspaces how predictions are judged, and looks at what the model shows of it.
fn define_by_both_doors(place: &Place, service: &Service) {
    let post = |body: &Value| {
        service.post("/v1/workspaces/by/wire/definitions", "application/json", None, &body.to_string())
    };
    let wire = |body: Value| {
        let answer = post(&body);
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    run_ok(place, &["release", "define", "by/hand/v2", "--threshold", "0.7", "--from", "2026-06-01"]);
    wire(json!({ "release": "v2", "threshold": 0.7, "from": "2026-06-01" }));
    let metrics =
        ["--custom-metric", "mean=avg(score)", "--custom-metric", "hits=sum(label = outcome_label)"];
    run_ok(place, &[&["model", "define", "by/hand/risk", "--from", "2026-06-02"], &metrics[..]].concat());
    let metrics = json!({ "mean": "avg(score)", "hits": "sum(label = outcome_label)" });
    wire(json!({ "model": "risk", "custom_metrics": metrics, "from": "2026-06-02" }));
    let fewer = ["release", "define", "by/hand/v2", "--custom-metric", "hits=none", "--from", "2026-06-03"];
    run_ok(place, &fewer);
    wire(json!({ "release": "v2", "custom_metrics": { "hits": null }, "from": "2026-06-03" }));
    // A dimension from an earlier day leaves the threshold as it was said before.
    let threshold = ["release", "define", "by/hand/v2", "--threshold", "0.4", "--from", "2026-06-20"];
    assert!(run_ok(place, &threshold).contains("2026-06-20"));
    let dimension = ["release", "define", "by/hand/v2", "--dimension", "tag.branch", "--from", "2026-06-10"];
    let dimension = run_ok(place, &dimension);
    assert!(dimension.contains("2026-06-10"), "{dimension}");
    let again = run_ok(place, &threshold);
    assert!(!again.contains("v2"), "{again}");
    let threshold = json!({ "release": "v2", "threshold": 0.4, "from": "2026-06-20" });
    wire(threshold.clone());
    wire(json!({ "release": "v2", "dimensions": ["tag.branch"], "from": "2026-06-10" }));
    assert_eq!(post(&threshold).json(), json!({ "definitions": [] }));
    for workspace in ["by/hand", "by/wire"] {
        let model = service.get(&format!("/v1/models/{}", format!("{workspace}/risk").replace('/', "%2F")));
        assert_eq!(model.json()["custom_metrics"], metrics);
    }
    let wrong = post(&json!({ "model": "risk", "custom_metrics": { "mean": "score" } }));
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    assert!(wrong.text().contains("the column `score` stands outside of an aggregate"), "{}", wrong.text());
}

/// The command line and HTTP leave the same of a release in the log, the feed and the catalog.
fn refused(place: &Place, args: &[&str]) -> String {
    let output = support::run(place, args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn both_doors_leave_the_same_of_a_release() {
    let place = Place::sqlite();
    let service = Service::start(&place);
    for workspace in ["by/hand", "by/wire"] {
        run_ok(&place, &["workspace", "create", workspace]);
        run_ok(
            &place,
            &["model", "create", "--task", "binary", "risk", "-w", workspace, "--positive-label", "default"],
        );
        let user = workspace.replace('/', "-");
        run_ok(&place, &["user", "create", &user]);
        run_ok(&place, &["follow", "add", &user, "-w", workspace]);
    }
    let hand = |args: &[&str]| run_ok(&place, &[args, &["-w", "by/hand"]].concat());
    let post = |path: &str, body: &Value| service.post(path, "application/json", None, &body.to_string());
    let wire = |verb: &str, body: Value| {
        let answer = post(&format!("/v1/workspaces/by/wire/{verb}"), &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    let create =
        ["release", "create", "v1", "--model", "risk", "--configuration", "deep", "--commit", "9f2c1e7"];
    let create =
        [&create[..], &["--metric", "auc=0.8", "--notes", "First.", "--attributes", r#"{"team":"a"}"#]]
            .concat();
    let body = json!({
        "workspace": "by/wire", "name": "v1", "model": "risk", "configuration": "deep", "commit": "9f2c1e7",
        "metrics": { "auc": 0.8 }, "notes": "First.", "attributes": { "team": "a" },
    });
    hand(&create);
    assert_eq!(post("/v1/releases", &body).status, 201);
    let created = releases_of(&place, &service, "by/hand");
    assert_eq!(created, releases_of(&place, &service, "by/wire"));
    assert_eq!(created[0]["action"], "register", "{created:?}");
    assert_eq!((created[0]["note"].as_str(), created[0]["task"].as_str()), (Some("First."), Some("binary")));
    // Again, it is there, and there is one event of it.
    let again = refused(&place, &[&create[..], &["-w", "by/hand"]].concat());
    assert!(again.contains("there is a release called `v1` already"), "{again}");
    assert_eq!(post("/v1/releases", &body).status, 409);
    hand(&["release", "create", "v2", "--model", "risk"]);
    assert_eq!(
        post("/v1/releases", &json!({ "workspace": "by/wire", "name": "v2", "model": "risk" })).status,
        201
    );
    for release in ["v1", "v2"] {
        hand(&["release", "promote", release, "--environment", "production", "--note", "Better."]);
        let of = json!({ "release": release, "environment": "production", "note": "Better." });
        wire("promotions", of);
    }
    hand(&["release", "rollback", "--environment", "production"]);
    wire("rollbacks", json!({ "environment": "production" }));
    define_by_both_doors(&place, &service);
    let changed = releases_of(&place, &service, "by/hand");
    assert_eq!(changed, releases_of(&place, &service, "by/wire"));
    let events = changed.iter().filter(|value| value.get("action").is_some()).count();
    assert_eq!(events, 11, "{changed:?}");
    hand(&["release", "retire", "v1"]);
    wire("retirements", json!({ "release": "v1" }));
    assert_eq!(releases_of(&place, &service, "by/hand"), releases_of(&place, &service, "by/wire"));
}

/// A release that was registered by mistake is deleted, and its name is free; the log keeps both registrations.
#[test]
fn unused_release_can_be_deleted_and_recreated() {
    let place = Place::sqlite();
    let service = Service::start(&place);
    support::register(&service);
    run_ok(&place, &["model", "create", "price", "-w", "credit/prod", "--task", "regression"]);
    let post = |model: &str| {
        let body = json!({ "workspace": "credit/prod", "name": "v2", "model": model }).to_string();
        assert_eq!(service.post("/v1/releases", "application/json", None, &body).status, 201);
    };
    let counted = |count: i64| {
        let is_counted = |answer: &support::Answer| {
            let page = answer.json();
            let of_v2 =
                page["releases"].as_array().and_then(|all| all.iter().find(|one| one["name"] == "v2"));
            of_v2.is_some_and(|release| release["counts"]["releases"] == count)
        };
        service.get_until("/v1/workspaces/credit/prod?counts=true", is_counted);
    };
    post("risk");
    counted(1);
    run_ok(&place, &["release", "delete", "credit/prod/v2"]);
    post("price");
    let days = ["--from", "2026-01-01", "--to", "2035-12-31", "--columns", "release,model,action"];
    let query =
        [&["query", "releases", "-w", "credit/prod", "--release", "v2", "--format", "csv"], &days[..]]
            .concat();
    assert_eq!(run_ok(&place, &query), "release,model,action\nv2,risk,register\nv2,price,register\n");
}

/// A release that an event registered is not registered again by those who create it later.
#[test]
fn a_release_is_registered_once_through_either_door() {
    let place = Place::sqlite();
    let service = Service::start(&place);
    support::register(&service);
    let body = json!({ "workspace": "credit/prod", "name": "v1", "model": "risk" }).to_string();
    assert_eq!(service.post("/v1/releases", "application/json", None, &body).status, 409);
    let create = ["release", "create", "v1", "-w", "credit/prod", "--model", "risk"];
    assert!(refused(&place, &create).contains("there is a release called `v1` already"));
    let history = service.get("/v1/workspaces/credit/prod/history").json();
    assert_eq!(history["entries"].as_array().unwrap().len(), 1, "{history}");
}
