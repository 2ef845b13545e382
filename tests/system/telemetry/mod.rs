//! Telemetry of a running system: its log, its metrics, and what the documentation says of them.

mod documented;
mod exposed;
mod logs;

use crate::support::{Service, ndjson, register};

const NDJSON: &str = "application/x-ndjson";
const JSON: &str = "application/json";
const WORKSPACE: &str = "/v1/workspaces/credit/prod";

/// A text that must not be in a log.
const SECRET: &str = "loan-4711";

fn prediction(key: &str, day: u8) -> String {
    format!(r#"{{"key":"{key}","predicted_at":"2026-06-0{day}T04:30:00Z","release":"v1","score":0.9}}"#)
}

/// Posts predictions and an outcome, and waits until they are evaluated.
fn run_the_pipeline(service: &Service) {
    register(service);
    let post = |kind: &str, media: &str, key: Option<&str>, body: &str, status: u16| {
        let answer = service.post(&format!("{WORKSPACE}/{kind}"), media, key, body);
        assert_eq!(answer.status, status, "{}", answer.text());
    };
    let two = format!("{}\n{}\n", prediction(SECRET, 1), prediction(SECRET, 2));
    post("predictions", NDJSON, Some("night-1"), &two, 201);
    post("predictions", NDJSON, Some("night-1"), &two, 201);
    let outcome = format!(
        r#"[{{"key":"{SECRET}","predicted_on":"2026-06-01","observed_at":"2026-06-03T00:00:00Z","label":"default"}}]"#
    );
    post("outcomes", JSON, None, &outcome, 201);
    post("predictions", NDJSON, None, &format!(r#"{{"key":"{SECRET}"}}"#), 422);
    let own_id = prediction(SECRET, 1).replace('}', r#","event_id":"of-loan-4711"}"#);
    post("predictions", NDJSON, None, &own_id, 201);
    let evaluations = format!("{WORKSPACE}/evaluations?from=2026-06-01&to=2026-06-01");
    service.get_until(&evaluations, |answer| {
        ndjson(answer.text()).first().is_some_and(|row| row["labelled"] == 1)
    });
    let joined = service.get(&format!("{WORKSPACE}/joined?from=2026-06-01&to=2026-06-02"));
    assert_eq!(joined.status, 200, "{}", joined.text());
}
