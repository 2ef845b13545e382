//! The catalog from the command line and over HTTP.

use crate::support::{self, Place, Service, on_both_engines, run, run_ok};
use serde_json::{Value, json};

on_both_engines!(the_table_is_read_item_by_item, commands_say_the_same_over_http);

fn json_of(place: &Place, args: &[&str]) -> Value {
    serde_json::from_str(&run_ok(place, args)).unwrap()
}

fn refused(place: &Place, args: &[&str]) -> String {
    let output = run(place, args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).unwrap().trim().to_owned()
}

/// One rule for all commands: a workspace is the first word or `-w`, an entity in it has a path, or a name and `-w`.
#[test]
fn every_verb_takes_a_workspace_in_both_ways() {
    let place = Place::sqlite();
    let ok = |args: &[&str]| run_ok(&place, args);
    let same = |one: &[&str], other: &[&str]| {
        let printed = ok(one);
        assert_eq!(printed, ok(other), "{one:?} {other:?}");
        printed
    };
    ok(&["workspace", "create", "credit/prod"]);
    ok(&["model", "create", "churn", "-w", "credit/prod", "--task", "regression"]);
    ok(&["release", "create", "v1", "-w", "credit/prod", "--model", "churn"]);
    ok(&["user", "create", "ann"]);
    ok(&["follow", "add", "ann", "-w", "credit/prod"]);
    ok(&["workspace", "settings", "-w", "credit/prod", "--primary-metric", "rmse"]);
    let w = ["-w", "credit/prod"];
    for verb in [
        &["workspace", "show"][..],
        &["workspace", "settings"],
        &["workspace", "retention"],
        &["release", "live"],
        &["release", "history"],
        &["release", "leaderboard"],
        &["follow", "followers"],
    ] {
        same(&[verb, &["credit/prod"]].concat(), &[verb, &w].concat());
    }
    same(&["model", "show", "credit/prod/churn"], &["model", "show", "churn", "-w", "credit/prod"]);
    same(&["release", "list", "credit/prod"], &["release", "list", "-w", "credit/prod"]);
    ok(&["release", "promote", "credit/prod/churn@v1", "--environment", "production"]);
    let again = ["release", "promote", "v1", "-w", "credit/prod", "--environment", "production"];
    assert_eq!(ok(&again).lines().count(), 1, "it is live already: the heading alone");
    let of_model = ["release", "promote", "churn@v1", "-w", "credit/prod", "--environment", "production"];
    assert_eq!(ok(&of_model), ok(&again));
    ok(&["release", "retire", "credit/prod/v1"]);
    ok(&["workspace", "retention", "-w", "credit/prod", "90"]);
    assert!(ok(&["workspace", "retention", "credit/prod"]).contains(" 90"));
    ok(&["workspace", "pin", "-w", "credit/prod", "2026-06-01"]);
    ok(&["workspace", "unpin", "credit/prod", "2026-06-01"]);
    ok(&["access", "grant", "user:ann", "reader", "-w", "credit/prod"]);
    ok(&["access", "revoke", "user:ann", "-w", "credit/prod"]);
    ok(&["alert", "raise", "-w", "credit/prod", "drift", "It moved."]);
    ok(&["workspace", "update", "-w", "credit/prod", "--set", "team=lending"]);
    ok(&["workspace", "settings", "-w", "credit/prod", "--lanes", "2"]);
    same(&["workspace", "settings", "credit/prod"], &["workspace", "settings", "-w", "credit/prod"]);
    ok(&["model", "create", "spare", "-w", "credit/prod", "--task", "regression"]);
    ok(&["model", "update", "spare", "--name", "leaving", "-w", "credit/prod"]);
    ok(&["model", "update", "credit/prod/leaving", "--name", "spare"]);
    ok(&["workspace", "update", "-w", "credit/prod", "--name", "current"]);
    ok(&["workspace", "update", "credit/current", "--name", "prod"]);
}

#[test]
fn refusals_name_options_and_words() {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    run_ok(&place, &["model", "create", "churn", "-w", "credit/prod", "--task", "regression"]);
    run_ok(&place, &["release", "create", "v1", "-w", "credit/prod", "--model", "churn"]);
    run_ok(&place, &["user", "create", "ann"]);
    for (args, why) in [
        (&["release", "promote", "v1", "--environment", "x"][..], "in which workspace is `v1`?"),
        (&["workspace", "retention"], "the workspace is missing; name it first, or with -w"),
        (&["workspace", "pin", "credit/prod"], "give either `days`, or `pinned` with a `day` or a `release`"),
        (&["user", "show", "ann", "-w", "credit/prod"], "unexpected argument '-w'"),
        (
            &["release", "promote", "credit/prod/nope@v1", "--environment", "x"],
            "there is no release `credit/prod/nope@v1`",
        ),
        (&["release", "retire", "nope@v1", "-w", "credit/prod"], "there is no release `credit/prod/nope@v1`"),
        (&["user", "show", ""], "the user is empty"),
        (&["workspace", "show", "credit/"], "`credit/` is no workspace"),
        (
            &["model", "create", "x", "-w", "credit/prod", "--body", "no.toml"],
            "almanac: no.toml: No such file",
        ),
        (&["model", "list", "credit/prod", "--limit", "x"], "almanac: --limit: `x` is not a whole number"),
        (
            &["workspace", "list", "--limit", "1"],
            "almanac: OF: name the category whose workspaces are listed",
        ),
        (&["query", "predictions", "-w", "credit/prod"], "almanac: --from: name the first day"),
        (&["workspace", "retention", "credit/prod", "0"], "almanac: DAYS: `0` is not a whole number"),
        (
            &["workspace", "settings", "credit/prod", "--leaderboard-days=2.5"],
            "almanac: --leaderboard-days: `2.5` is not a whole number",
        ),
        (
            &["model", "update", "credit/prod/churn", "--name", "x", "--if-version", "two"],
            "almanac: --if-version: `two` is not a version",
        ),
    ] {
        let said = refused(&place, args);
        assert!(said.contains(why), "{args:?}: {said}");
    }
}

/// Items of the table, by key. Access pattern D1.
fn the_table_is_read_item_by_item(place: &Place) {
    run_ok(place, &["workspace", "create", "credit/prod"]);
    run_ok(place, &["model", "create", "churn", "-w", "credit/prod", "--task", "regression"]);
    let shown = json_of(place, &["workspace", "show", "credit/prod", "--format", "json"]);
    let key = shown["id"].as_str().unwrap().replace('_', "#");
    let item = json_of(place, &["admin", "table", "get", &key, "--format", "ndjson"]);
    assert_eq!((&item["SK"], &item["path"], &item["v"]), (&json!(key), &json!("credit/prod"), &json!(1)));
    let printed = run_ok(place, &["admin", "table", "get", &key]);
    assert!(printed.lines().any(|line| line.split_whitespace().eq(["path", "credit/prod"])), "{printed}");
    let lines = |args: &[&str]| -> Vec<Value> {
        support::ndjson(&run_ok(place, &[args, &["--format", "ndjson"]].concat()))
    };
    let models = lines(&["admin", "table", "query", &key, "--prefix", "m#"]);
    assert_eq!((models.len(), &models[0]["name"]), (1, &json!("churn")));
    let all = lines(&["admin", "table", "query", &key]);
    let mut backward = lines(&["admin", "table", "query", &key, "--backward"]);
    backward.reverse();
    assert_eq!(all, backward);
    let from = all[1]["SK"].as_str().unwrap();
    assert_eq!(lines(&["admin", "table", "query", &key, "--from", from, "--to", from]), all[1..2]);
    assert_eq!(lines(&["admin", "table", "query", &key, "--limit", "1"]), all[..1]);
    let categories = lines(&["admin", "table", "query", "wc", "--index", "gsi1"]);
    assert_eq!((categories.len(), &categories[0]["name"]), (1, &json!("credit")));
    assert!(
        run_ok(place, &["admin", "table", "scan"]).contains(" ...\n"),
        "long attributes are cut for people"
    );
    let scanned = lines(&["admin", "table", "scan", "--limit", "1000"]);
    assert_eq!(run_ok(place, &["admin", "table", "scan", "--count"]), format!("{}\n", scanned.len()));
    assert!(all.iter().all(|item| scanned.contains(item)));
    let names = lines(&["admin", "table", "scan", "--prefix", "@name#"]);
    assert!(!names.is_empty() && names.len() < scanned.len());
    assert_eq!(
        refused(place, &["admin", "table", "get", "nothing", "here"]),
        "almanac: there is no item nothing / here"
    );
}

#[test]
fn commands_manage_an_entity_through_its_life() {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    run_ok(&place, &["model", "create", "churn", "-w", "credit/prod", "--task", "regression"]);
    let create = ["model", "configuration", "create", "deep", "-w", "credit/prod", "--format", "json"];
    let made = json_of(
        &place,
        &[&create[..], &["--attributes", r#"{"depth": 6, "features": {"$set": ["b", "a"]}}"#]].concat(),
    );
    assert_eq!(made["attributes"], json!({ "depth": 6, "features": { "$set": ["a", "b"] } }));
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("c_"), "{id}");
    let said = refused(&place, &create);
    assert_eq!(said, "almanac: there is a configuration called `deep` already");

    let update = [
        "model",
        "configuration",
        "update",
        id,
        "--set",
        "depth=7",
        "--set",
        "note=from hand",
        "--unset",
        "features",
    ];
    let updated = json_of(&place, &[&update[..], &["--if-version", "1", "--format", "json"]].concat());
    assert_eq!(
        (&updated["version"], &updated["attributes"]),
        (&json!(2), &json!({ "depth": 7, "note": "from hand" }))
    );
    let said = refused(&place, &[&update[..], &["--if-version", "1"]].concat());
    assert_eq!(said, "almanac: it has changed: its version is 2, not 1; read it again");

    run_ok(&place, &["model", "configuration", "update", "credit/prod/deep", "--name", "deeper"]);
    assert_eq!(
        refused(&place, &["model", "configuration", "show", "credit/prod/deep"]),
        "almanac: there is no configuration `credit/prod/deep`"
    );
    let shown =
        json_of(&place, &["model", "configuration", "show", "credit/prod/deeper", "--format", "json"]);
    assert_eq!(shown["id"], *id);

    a_release_is_created_and_found(&place);
    let said = refused(&place, &["model", "configuration", "delete", "credit/prod/deeper"]);
    assert!(said.contains("has 1 releases; archive it first"), "{said}");
    run_ok(&place, &["model", "configuration", "update", "credit/prod/deeper", "--archived"]);
    run_ok(&place, &["model", "configuration", "delete", "credit/prod/deeper"]);
    assert_eq!(
        run_ok(&place, &["model", "configuration", "list", "credit/prod"]).lines().count(),
        1,
        "the heading"
    );
    a_counter_counts_up_and_down(&place);
}

/// A release with all details of its making.
fn a_release_is_created_and_found(place: &Place) {
    let release = [
        "release",
        "create",
        "v1",
        "-w",
        "credit/prod",
        "--model",
        "churn",
        "--configuration",
        "deeper",
        "--commit",
        "9f2c1e7",
        "--snapshot-from",
        "2026-01-01",
        "--snapshot-to",
        "2026-05-31",
        "--metric",
        "rmse=0.21",
        "--notes",
        "x",
    ];
    run_ok(place, &release);
    assert!(refused(place, &release).contains("there is a release called `v1` already"));
    let shown = json_of(place, &["release", "show", "credit/prod/churn@v1", "--format", "json"]);
    assert_eq!((&shown["metrics"], &shown["snapshot_to"]), (&json!({ "rmse": 0.21 }), &json!("2026-05-31")));
    assert!(
        refused(place, &["release", "update", "credit/prod/churn@v1", "--name", "v2"])
            .contains("keeps its name")
    );
    let listed = json_of(place, &["release", "list", "credit/prod/churn", "--format", "json"]);
    assert_eq!(listed["releases"][0]["id"], shown["id"]);
}

/// A free counter of a model.
fn a_counter_counts_up_and_down(place: &Place) {
    let count = |args: &[&str]| run_ok(place, args);
    assert_eq!(count(&["workspace", "counter", "add", "model", "credit/prod/churn", "example", "1"]), "1\n");
    let retried = [
        "workspace",
        "counter",
        "add",
        "model",
        "credit/prod/churn",
        "example",
        "4",
        "--idempotency-key",
        "k",
    ];
    assert_eq!((count(&retried), count(&retried)), ("5\n".to_owned(), "5\n".to_owned()));
    assert_eq!(count(&["workspace", "counter", "add", "model", "credit/prod/churn", "example", "-2"]), "3\n");
    assert_eq!(count(&["workspace", "counter", "show", "model", "credit/prod/churn", "example"]), "3\n");
}

#[test]
fn members_and_roles_show_on_both_pages() {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    for (kind, name) in [("user", "ann"), ("group", "lenders"), ("system", "nightly")] {
        run_ok(&place, &[kind, "create", name]);
    }
    run_ok(&place, &["group", "add", "lenders", "ann"]);
    run_ok(&place, &["access", "grant", "group:lenders", "reader", "-w", "credit/prod"]);
    run_ok(&place, &["access", "grant", "user:ann", "admin", "-w", "credit/prod"]);
    assert!(
        refused(&place, &["access", "grant", "user:ann", "king", "-w", "credit/prod"]).contains("no role")
    );
    let page = json_of(&place, &["user", "show", "ann", "--format", "json"]);
    assert_eq!(page["grants"][0]["role"], "admin");
    assert_eq!(page["groups"].as_array().unwrap().len(), 1);
    assert_eq!(page["activity"].as_array().unwrap().len(), 2);
    let page = json_of(&place, &["workspace", "show", "credit/prod", "--format", "json"]);
    assert_eq!(page["grants"].as_array().unwrap().len(), 2);
    let members = run_ok(&place, &["group", "members", "lenders"]);
    assert!(members.contains("ann"), "{members}");
    run_ok(&place, &["group", "remove", "lenders", "ann"]);
    run_ok(&place, &["access", "revoke", "user:ann", "-w", "credit/prod"]);
    assert_eq!(
        json_of(&place, &["access", "list", "-w", "credit/prod", "--format", "json"])["grants"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn stale_change_over_http_is_refused() {
    let place = Place::sqlite();
    let service = Service::start(&place);
    let json_type = ("Content-Type", "application/json");
    let post = |path: &str, body: Value| service.post(path, "application/json", None, &body.to_string());
    let patch = |headers: &[(&str, &str)], body: Value| {
        let headers = [&[json_type], headers].concat();
        service.send("patch", "/v1/users/ann", &headers, Some(body.to_string().as_bytes()))
    };
    let made = post("/v1/users", json!({ "name": "ann", "attributes": { "a": 1, "b": 2 } }));
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(post("/v1/users", json!({ "name": "ann" })).status, 409);
    let changed = patch(&[("If-Match", "\"1\"")], json!({ "attributes": { "a": null, "c": [3] } }));
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(changed.json()["attributes"], json!({ "b": 2, "c": [3] }));
    let stale = patch(&[("If-Match", "\"1\"")], json!({ "name": "anna" }));
    assert_eq!(stale.status, 412, "{}", stale.text());
    assert_eq!(patch(&[("If-Match", "1")], json!({})).status, 400);
    let large = json!({ "attributes": { "a": "x".repeat(400_000) } });
    let large = patch(&[], large);
    assert_eq!(large.status, 400);
    assert!(large.text().contains("358400"), "{}", large.text());
    assert_eq!(service.send("delete", "/v1/users/ann", &[("If-Match", "\"1\"")], None).status, 412);
    assert_eq!(service.send("delete", "/v1/users/ann", &[], None).status, 204);
    assert_eq!(service.get("/v1/users/ann").status, 404);

    // Page by page, only names.
    for n in 0..5 {
        assert_eq!(post("/v1/systems", json!({ "name": format!("s{n}") })).status, 201);
    }
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = service.get(&format!("/v1/systems?limit=2&fields=name{cursor}")).json();
        for system in page["systems"].as_array().unwrap() {
            assert_eq!(system.as_object().unwrap().len(), 2, "id and name");
            names.push(system["name"].as_str().unwrap().to_owned());
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    names.sort();
    assert_eq!(names, ["s0", "s1", "s2", "s3", "s4"]);
    for wrong in
        ["limit=0", "limit=x", "cursor=x", "order=up", "fields=nothing", "of=credit", "since=noon", "what=1"]
    {
        let answer = service.get(&format!("/v1/systems?{wrong}"));
        assert_eq!(
            (answer.status, answer.content_type.as_str()),
            (400, "application/problem+json"),
            "{wrong}"
        );
    }
}

#[test]
fn audit_table_states_its_window() {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    let says = |args: &[&str]| {
        let output = run(&place, args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let says_days =
        |more: &[&str]| says(&[&["audit", "-w", "credit/prod"], more].concat()).contains("window: 20");
    assert!(says_days(&[]));
    assert!(!says_days(&["--from", "2026-01-01"]) && !says_days(&["--format", "csv"]));
    // More than one page is said, and a deleted workspace keeps its audit log.
    for model in ["risk", "price"] {
        run_ok(&place, &["model", "create", model, "-w", "credit/prod", "--task", "binary"]);
    }
    let id = json_of(&place, &["workspace", "show", "credit/prod", "--format", "json"])["id"].clone();
    assert!(says(&["audit", "-w", "credit/prod", "--limit", "1"]).contains("there is more: --after "));
    run_ok(&place, &["workspace", "update", "credit/prod", "--archived"]);
    run_ok(&place, &["workspace", "delete", "credit/prod"]);
    assert!(run_ok(&place, &["audit", "-w", id.as_str().unwrap()]).contains("model.create"));
    assert!(refused(&place, &["audit", "-w", "credit/prod"]).contains("there is no workspace"));
    assert!(
        refused(&place, &["audit", "-w", "w_2NBs0sLBnJxEcoDLgVnQdJkhEgV"]).contains("there is no workspace")
    );
}

/// The command as it is typed where the service is elsewhere.
fn remote(url: &str, token: Option<&str>, args: &[&str]) -> std::process::Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_almanac"));
    let folder = tempfile::tempdir().unwrap();
    command.current_dir(folder.path()).args(args).args(["--url", url]).env_remove("ALMANAC_TOKEN");
    if let Some(token) = token {
        command.env("ALMANAC_TOKEN", token);
    }
    command.output().unwrap()
}

/// An arena of two releases, on which a guest votes.
fn judge_over_http(service: &support::Running, ok: &impl Fn(&[&str]) -> String) {
    let row = |release: &str, key: &str| json!({ "key": key, "predicted_at": "2026-06-02T02:00:00Z", "release": release, "score": 0.5 });
    let rows = json!([row("v1", "a"), row("v2", "a"), row("v1", "b"), row("v2", "b")]).to_string();
    let path = "/v1/workspaces/credit/prod/predictions";
    assert_eq!(service.post(path, "application/json", None, &rows).status, 201);
    let days = ["--from", "2026-06-02", "--to", "2026-06-02"];
    let create = ["review", "create", "credit/prod/duel", "--policy", "pairs"];
    let releases = ["--releases", "v1", "--releases", "v2"];
    assert!(ok(&[&create[..], &days, &releases].concat()).contains("duel"));
    ok(&["review", "refresh", "duel", "-w", "credit/prod"]);
    let one = ["duel", "-w", "credit/prod"];
    let next = ok(&[&["review", "next"], &one[..], &["--guest", "bob", "--format", "json"]].concat());
    let link = serde_json::from_str::<Value>(&next).unwrap()["link"].clone();
    let vote = json!({ "link": link, "vote": "left" }).to_string();
    assert_eq!(service.post("/v1/judgements", "application/json", None, &vote).status, 200);
    let item: Value =
        serde_json::from_str(&ok(&[&["review", "next"], &one[..], &["--format", "json"]].concat())).unwrap();
    let item = item["item"].to_string();
    ok(&[&["review", "answer"], &one[..], &["--item", &item, "--skip"]].concat());
    assert_eq!(ok(&[&["review", "next"], &one[..]].concat()), "none\n");
    let items = ok(&[&["review", "items"], &one[..]].concat());
    assert!(items.contains("left") && items.contains("guest:bob"), "{items}");
    assert!(ok(&["review", "mine", "credit/prod", "--reviewer", "guest:bob"]).contains("left"));
    assert!(ok(&[&["review", "ranking"], &one[..]].concat()).contains("votes"));
}

/// Commands that read.
const READING: &[&[&str]] = &[
    &["workspace", "show", "credit/prod"],
    &["workspace", "list"],
    &["workspace", "settings", "credit/prod"],
    &["model", "list", "credit/prod", "--fields", "task"],
    &["release", "diff", "v1", "v2", "-w", "credit/prod"],
    &["release", "live", "credit/prod"],
    &["release", "history", "credit/prod"],
    &["access", "list", "-w", "credit/prod"],
    &["audit", "credit/prod"],
    &["user", "show", "ann"],
    &["follow", "list", "ann"],
    &["follow", "followers", "credit/prod"],
    &["follow", "feed", "ann"],
    &["follow", "digest", "ann"],
    &["follow", "digest"],
    &["alert", "list", "credit/prod"],
    &["alert", "show", "credit/prod/few"],
    &["alert", "test", "few", "-w", "credit/prod"],
    &["alert", "webhooks", "credit/prod"],
    &["alert", "events", "credit/prod"],
    &["review", "list", "credit/prod"],
    &["review", "show", "duel", "-w", "credit/prod"],
    &["review", "items", "duel", "-w", "credit/prod"],
    &["review", "ranking", "duel", "-w", "credit/prod"],
    &["review", "mine", "credit/prod", "--reviewer", "guest:bob"],
];

/// A command says the same by a service as with the table at hand.
fn commands_say_the_same_over_http(place: &Place) {
    let service = support::Running::start(place, &[], &[]);
    let url = format!("http://{}", service.address());
    let folder = tempfile::tempdir().unwrap();
    let ok = |args: &[&str]| {
        let output = remote(&url, None, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    ok(&["workspace", "create", "credit/prod"]);
    ok(&["model", "create", "credit/prod/risk", "--task", "binary"]);
    ok(&["release", "create", "v1", "-w", "credit/prod", "--model", "risk", "--metric", "auc=0.8"]);
    ok(&["release", "create", "v2", "-w", "credit/prod", "--model", "risk"]);
    ok(&["user", "create", "ann"]);
    ok(&["access", "grant", "user:ann", "reader", "-w", "credit/prod"]);
    ok(&["workspace", "settings", "credit/prod", "--primary-metric", "auc"]);
    ok(&["release", "promote", "credit/prod/v1", "--environment", "production"]);
    ok(&["follow", "add", "ann", "credit/prod"]);
    let rule = r#"{"rules": [{"name": "few", "count": "predictions", "below": 1}]}"#;
    let rules = folder.path().join("rules.json");
    std::fs::write(&rules, rule).unwrap();
    ok(&["alert", "apply", "credit/prod", rules.to_str().unwrap()]);
    judge_over_http(&service, &ok);
    datasets_over_http(place, &service, &url, &ok);
    for args in READING {
        assert_eq!(ok(args), run_ok(place, args), "{args:?}");
    }
    a_reader_cannot_write(&url, rules.to_str().unwrap(), &ok);
}

/// Datasets, charts and statements are the same over HTTP, in every format.
fn datasets_over_http(place: &Place, service: &support::Running, url: &str, ok: &impl Fn(&[&str]) -> String) {
    let prediction = r#"{"key":"a","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.9,"tags":{"a":"b","c":"d"},"features":{"x":0.5}}"#;
    let sent =
        service.post("/v1/workspaces/credit/prod/predictions", "application/x-ndjson", None, prediction);
    assert_eq!(sent.status, 201, "{}", sent.text());
    let days = ["-w", "credit/prod", "--from", "2026-06-01", "--to", "2026-06-02"];
    let query = |more: &[&'static str]| [&["query"][..], more, &days].concat();
    for format in ["table", "csv", "ndjson", "ipc-stream", "parquet"] {
        let file = tempfile::tempdir().unwrap().path().with_extension("rows");
        let args = query(&["predictions", "--format", format]);
        let to_file = [&args[..], &["--output", file.to_str().unwrap()]].concat();
        if format != "table" {
            let written = remote(url, None, &to_file);
            let said = String::from_utf8(written.stderr).unwrap();
            assert!(said.contains(" rows written to "), "{said}");
            let first = std::fs::read(&file).unwrap();
            run_ok(place, &to_file);
            assert_eq!(first, std::fs::read(&file).unwrap(), "{format}");
        }
    }
    for args in [
        query(&["predictions", "--tag", "a=b", "--tag", "c=d", "--format", "ndjson"]),
        query(&["predictions"]),
        query(&["joined", "--columns", "key", "--columns", "score", "--order", "newest", "--format", "csv"]),
        query(&["evaluations", "--group-by", "feature.x", "--bins", "-1,0,1", "--format", "csv"]),
        query(&["drift", "--reference", "2026-06-01", "--exact"]),
    ] {
        assert_eq!(ok(&args), run_ok(place, &args), "{args:?}");
    }
    let last =
        remote(url, None, &["query", "predictions", "-w", "credit/prod", "--last", "1d", "--format", "csv"]);
    assert!(String::from_utf8(last.stderr).unwrap().starts_with("window: 20"));
    let args = query(&["predictions", "--show-read-version", "--format", "csv"]);
    let said = String::from_utf8(remote(url, None, &args).stderr).unwrap();
    let read_version = said.trim().strip_prefix("read-version: ").unwrap_or_else(|| panic!("{said}"));
    assert_eq!(ok(&[&args[..], &["--read-version", read_version]].concat()), ok(&args));
    let drawn = [&["plot", "rollups", "--metric", "predictions"][..], &days].concat();
    assert_eq!(ok(&drawn), run_ok(place, &drawn));
    let sql = ["sql", "select key, score from predictions where day = '2026-06-01'", "-w", "credit/prod"];
    assert_eq!(ok(&sql), run_ok(place, &sql));
}

/// A token of a reader reads, and writes nothing.
fn a_reader_cannot_write(url: &str, rules: &str, ok: &impl Fn(&[&str]) -> String) {
    let fails = |token: Option<&str>, args: &[&str]| {
        let output = remote(url, token, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(fails(None, &["model", "show", "credit/prod/none"]).contains("there is no model"));
    let token = ok(&["token", "create", "user:ann", "--name", "laptop"]).trim().to_owned();
    // There is a token now, so callers are asked for one within some seconds.
    let is_asked = || remote(url, None, &["workspace", "list"]).status.code() == Some(2);
    assert!((0..600).any(|_| is_asked() || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        false
    }));
    let shown = remote(url, Some(&token), &["model", "show", "credit/prod/risk"]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let said = fails(Some(&token), &["model", "update", "credit/prod/risk", "--set", "a=1"]);
    assert!(said.contains("maintain"), "{said}");
    for args in [
        &["alert", "apply", "credit/prod", rules][..],
        &["review", "delete", "duel", "-w", "credit/prod"],
        &["follow", "add", "bob", "credit/prod"],
    ] {
        let said = fails(Some(&token), args);
        assert!(
            said.contains("maintain") || said.contains("bob") || said.contains("may not"),
            "{args:?}: {said}"
        );
    }
    // Options that have no effect are refused.
    let idle = fails(Some(&token), &["workspace", "list", "--data", "here"]);
    assert!(idle.contains("--data would have no effect"), "{idle}");
    let opens = fails(Some(&token), &["admin", "verify"]);
    assert!(opens.contains("opens the table itself"), "{opens}");
}

#[test]
fn settings_change_alone_and_keep_the_rest() {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    let settings = |more: &[&str]| {
        json_of(&place, &[&["workspace", "settings", "credit/prod", "--format", "json"], more].concat())
    };
    settings(&["--primary-metric", "auc", "--accept-unknown-releases"]);
    // The direction is that of the new metric, and not the one that followed from the old metric.
    let rmse = settings(&["--primary-metric", "rmse"]);
    assert_eq!((&rmse["direction"], &rmse["accept_unknown_releases"]), (&json!("min"), &json!(true)));
    let days = settings(&["--leaderboard-days", "14"]);
    assert_eq!((&days["primary_metric"], &days["leaderboard_days"]), (&json!("rmse"), &json!(14)));
    assert_eq!(settings(&["--leaderboard-days", "none"])["leaderboard_days"], Value::Null);
    settings(&["--quota", "rows_per_day=1000", "--quota", "bytes_per_day=9000"]);
    let changed = settings(&["--quota", "rows_per_day=none"]);
    assert_eq!(
        (&changed["quota"], &changed["primary_metric"]),
        (&json!({ "bytes_per_day": 9000 }), &json!("rmse"))
    );
    run_ok(&place, &["user", "create", "ann"]);
    let both = ["access", "grant", "user:ann", "admin", "-w", "credit/prod", "--category", "credit"];
    assert!(refused(&place, &both).contains("cannot be used with"));
    for verb in [&["grant", "user:ann", "reader"][..], &["revoke", "user:ann"]] {
        let verb = [&["access"], verb].concat();
        assert!(refused(&place, &verb).contains("|--server>"));
        assert_eq!(run_ok(&place, &[&verb[..], &["--server"]].concat()), "done\n");
    }
}

/// Changes of different limits at the same time all stay.
#[test]
fn simultaneous_changes_of_limits_all_stay() {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    let service = Service::start(&place);
    let limits = ["rows_per_day", "bytes_per_day", "requests_per_day", "rows_per_second", "bytes_per_second"];
    std::thread::scope(|scope| {
        for limit in limits {
            let service = &service;
            scope.spawn(move || {
                let body = json!({ "quota": { limit: 7 } }).to_string();
                let json_type = [("Content-Type", "application/json")];
                let path = "/v1/workspaces/credit/prod/settings";
                assert_eq!(service.send("patch", path, &json_type, Some(body.as_bytes())).status, 200);
            });
        }
    });
    let quota = service.get("/v1/workspaces/credit/prod/settings").json()["quota"].clone();
    assert!(limits.iter().all(|limit| quota[limit] == 7), "{quota}");
}

#[test]
fn alert_rules_are_applied_listed_tried_and_deleted() {
    let place = Place::sqlite();
    let ok = |args: &[&str]| run_ok(&place, args);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.toml");
    let write = |rules: &str| std::fs::write(&file, rules).unwrap();
    let path = file.to_str().unwrap();
    let w = ["-w", "credit/prod"];
    ok(&["workspace", "create", "credit/prod"]);
    let few = "[[rules]]\nname = \"few\"\ncount = \"predictions\"\nbelow = 1\n";
    write(few);
    let apply = [&["alert", "apply", path], &w[..]].concat();
    assert!(ok(&apply).contains("few"));
    let list = ok(&["alert", "list", "credit/prod"]);
    assert_eq!(list, ok(&[&["alert", "list"], &w[..]].concat()));
    assert!(list.contains("few") && list.contains("below") && list.contains("predictions"), "{list}");
    assert!(list.contains("no_data"), "it has judged no day: {list}");
    let shown = json_of(&place, &["alert", "show", "credit/prod/few", "--format", "json"]);
    assert_eq!((&shown["count"], &shown["below"]), (&json!("predictions"), &json!(1.0)));
    let days = ["--from", "2026-06-01", "--to", "2026-06-03"];
    let tried = ok(&[&["alert", "test", "few", "--format", "json"], &w[..], &days].concat());
    let tried: Value = serde_json::from_str(&tried).unwrap();
    let fires = json!({ "day": "2026-06-01", "value": 0.0, "n": null, "measured": 0.0, "state": "firing", "days": 0, "transition": "fires" });
    assert_eq!((&tried["fired"], &tried["days"][0]), (&json!(1), &fires));
    // A rule that is not applied, tested from its file.
    write(&few.replace("few", "many").replace("below = 1", "above = 1"));
    let of_file = [&["alert", "test", "many", path][..], &w, &days].concat();
    let tried = ok(&of_file);
    let fired = tried.lines().nth(1).unwrap().split_whitespace().last();
    assert_eq!((fired, tried.lines().count()), (Some("0"), 7), "{tried}");
    let mut fed = support::almanac(&place, &[&["alert", "test", "many", "-"][..], &w, &days].concat());
    let fed = fed.stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    assert_eq!(String::from_utf8(fed.stdout).unwrap(), tried, "as read from the standard input");
    write(&format!("{few}{}", few.replace("below = 1", "below = 2")));
    for (args, why) in [
        (&apply[..], "alert rule `few` is given twice"),
        (&["alert", "show", "many", "-w", "credit/prod"], "there is no alert rule `many`"),
        (&["alert", "test", "few", "-w", "credit/prod", "--from", "2020-01-01"], "at most 1000 days"),
    ] {
        let said = refused(&place, args);
        assert!(said.contains(why), "{args:?}: {said}");
    }
    // A webhook in the same file, which is deleted again.
    let hook = "[[webhooks]]\nname = \"chat\"\nurl_from = \"slack_url\"\nformat = \"slack\"\n";
    write(&format!("{hook}{few}notify = [\"chat\"]\n"));
    let applied = ok(&apply);
    assert!(applied.contains("chat") && applied.contains("few"), "{applied}");
    let webhooks = json_of(&place, &["alert", "webhooks", "credit/prod", "--format", "json"]);
    let webhook = &webhooks["webhooks"][0];
    assert_eq!(
        (&webhook["name"], &webhook["url_from"], &webhook["format"]),
        (&json!("chat"), &json!("slack_url"), &json!("slack"))
    );
    assert!(!ok(&[&["alert", "deliveries"], &w[..]].concat()).contains("chat"), "nothing crossed");
    let delete = [&["alert", "delete", "--webhook", "chat"], &w[..]].concat();
    assert!(refused(&place, &delete).contains("`few` notifies the webhook `chat`"));
    write(few);
    ok(&apply);
    assert_eq!(ok(&delete), "done\n");
    write("[[rules]]\nname = \"few\"\ncounts = \"predictions\"\n");
    assert!(refused(&place, &apply).contains("unknown field `counts`"));
    assert_eq!(ok(&["alert", "delete", "credit/prod/few"]), "done\n");
    assert!(!ok(&[&["alert", "list"], &w[..]].concat()).contains("few"));
}
