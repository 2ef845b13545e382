//! Alert rules tried over HTTP: the same as on the command line, and nothing is written.

use serde_json::{Value, json};

use crate::support::{Answer, Place, Running, ndjson, on_both_engines, register, run_ok};

on_both_engines!(rule_trial_matches_command_and_writes_nothing);

const RULES: &str = "/v1/workspaces/credit/prod/alert-rules";

/// Asks for the trial of a rule.
fn ask(service: &Running, body: &Value) -> Answer {
    service.post(&format!("{RULES}/test"), "application/json", None, &body.to_string())
}

/// Adds the first three days of June, of which only the second has a prediction.
fn of_june(what: &Value) -> Value {
    let mut asked = json!({ "from": "2026-06-01", "to": "2026-06-03" });
    asked.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
    asked
}

/// A rule on how few predictions there are, applied.
fn scene(service: &Running) -> Value {
    register(service);
    let prediction = r#"[{"key":"a","predicted_at":"2026-06-02T02:00:00Z","release":"v1","score":0.9}]"#;
    let path = "/v1/workspaces/credit/prod/predictions";
    assert_eq!(service.post(path, "application/json", None, prediction).status, 201);
    let rollups = "/v1/workspaces/credit/prod/rollups?from=2026-06-02&to=2026-06-02";
    service.get_until(rollups, |answer| {
        ndjson(answer.text()).first().is_some_and(|row| row["predictions"] == 1)
    });
    let few = json!({ "name": "few", "count": "predictions", "below": 1.0 });
    let (headers, rules) = ([("Content-Type", "application/json")], json!({ "rules": [few] }).to_string());
    let applied = service.send("put", RULES, &headers, Some(rules.as_bytes()));
    assert_eq!(applied.status, 200, "{}", applied.text());
    few
}

fn rule_trial_matches_command_and_writes_nothing(place: &Place) {
    let service = Running::start(place, &[], &[]);
    let few = scene(&service);
    let tried = ask(&service, &of_june(&json!({ "name": "few" })));
    assert_eq!(tried.status, 200, "{}", tried.text());
    let tried = tried.json();
    let days = (&tried["from"], &tried["to"], &tried["fired"]);
    assert_eq!(days, (&json!("2026-06-01"), &json!("2026-06-03"), &json!(2)));
    let all = tried["days"].as_array().unwrap();
    let transitions: Vec<&Value> = all.iter().map(|day| &day["transition"]).collect();
    assert_eq!(transitions, [&json!("fires"), &json!("resolves"), &json!("fires")]);
    let args = "alert test few -w credit/prod --from 2026-06-01 --to 2026-06-03 --format json";
    let told = run_ok(place, &args.split(' ').collect::<Vec<_>>());
    assert_eq!(tried, serde_json::from_str::<Value>(&told).unwrap(), "as the command line says");
    // One that is not applied.
    let many = json!({ "name": "many", "rules": [{ "name": "many", "count": "predictions", "above": 0.5 }] });
    assert_eq!(ask(&service, &of_june(&many)).json()["fired"], 1);
    assert_eq!(service.get(RULES).json()["rules"].as_array().unwrap().len(), 1, "nothing was written");
    // Up to yesterday, 30 days, unless it is said.
    let usual = ask(&service, &json!({ "name": "few" })).json();
    assert_eq!(usual["days"].as_array().unwrap().len(), 30);

    for (wrong, status, says) in [
        (of_june(&json!({})), 422, "name"),
        (
            of_june(&json!({ "name": "many", "rules": [few] })),
            404,
            "there is no alert rule `many` in `rules`",
        ),
        (of_june(&json!({ "name": "many" })), 404, "there is no alert rule `many`"),
        (of_june(&json!({ "name": "x", "rules": [{ "name": "x" }] })), 400, "`x`"),
        (json!({ "name": "few", "from": "2020-01-01" }), 400, "at most 1000 days"),
        (json!({ "name": "few", "from": "June" }), 422, "June"),
        (json!({ "name": "few", "days": 3 }), 422, "days"),
    ] {
        let answer = ask(&service, &wrong);
        assert_eq!(answer.status, status, "{wrong}: {}", answer.text());
        assert!(answer.text().contains(says), "{wrong}: {}", answer.text());
    }
}
