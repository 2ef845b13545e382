//! The log of a running system.

use super::{NDJSON, SECRET, WORKSPACE, exposed::metric, prediction, run_the_pipeline};
use crate::support::{Located, Place, Running, Service, block_on, register};
use catalog::Catalog;
use log::key;
use serde_json::{Value, json};
use std::fs;
use table::Condition;

/// Damages the rollup of a day.
fn damage(place: &Place) {
    block_on(async {
        let table = place.store().open().await;
        let workspace = Catalog::new(table.clone()).workspace("credit/prod").await.unwrap();
        let day = "2026-06-01".parse().unwrap();
        let item = table.get(&key::rollup(workspace.id(), 1, day)).await.unwrap().unwrap();
        let damaged = item.with("state", "no state");
        table.put(damaged, Condition::Exists).await.unwrap();
    });
}

/// The lines with this message, oldest first.
fn lines<'a>(log: &'a [Value], message: &'a str) -> impl Iterator<Item = &'a Value> {
    log.iter().filter(move |line| line["message"] == message)
}

#[test]
fn log_mentions_requests_but_not_their_contents() {
    let place = Place::sqlite();
    let levels =
        [("ALMANAC_LOG", "warn,almanac=debug,ingest=debug,projector=debug"), ("ALMANAC_LOG_FORMAT", "json")];
    let service = Running::start(&place, &[], &levels);
    run_the_pipeline(&service);
    let path = format!("{WORKSPACE}/predictions");
    let body = prediction("b", 3);
    let headers = [("X-Request-Id", "req-42"), ("Content-Type", NDJSON), ("Idempotency-Key", "night-3")];
    let posted = service.send("POST", &path, &headers, Some(body.as_bytes()));
    assert_eq!((posted.status, &*posted.request_id), (201, "req-42"));
    let made = service.get("/healthz").request_id;
    assert!(!made.is_empty());
    let refused = service.send("GET", &path, &[("X-Request-Id", "not sane")], None);
    assert!(refused.status == 400 && !refused.request_id.is_empty() && refused.request_id != "not sane");
    damage(&place);
    let window = format!("{WORKSPACE}/rollups?from=2026-06-01&to=2026-06-01");
    let broken = service.send("GET", &window, &[("X-Request-Id", "req-43")], None);
    assert_eq!((broken.status, &*broken.request_id), (500, "req-43"), "{}", broken.text());
    let workspace = service.get(WORKSPACE).json()["id"].as_str().unwrap().trim_start_matches("w_").to_owned();
    let workspace = Value::from(workspace);
    // The day is folded before the end, so that there is a line of it.
    let rollups = format!("{WORKSPACE}/rollups?from=2026-06-03&to=2026-06-03");
    service.get_until(&rollups, |answer| !answer.body.is_empty());

    let log = service.stop();
    assert!(log.iter().all(|line| !line.contains(SECRET)), "{log:#?}");
    let log: Vec<Value> = log.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(log.iter().all(|line| line["level"].is_string() && line["timestamp"].is_string()));

    let request = lines(&log, "request").find(|line| line["request_id"] == "req-42").unwrap();
    for (name, value) in [
        ("level", json!("DEBUG")),
        ("method", json!("POST")),
        ("route", json!("/v1/workspaces/{category}/{name}/predictions")),
        ("status", json!(201)),
        ("bytes", json!(body.len())),
        ("response_bytes", json!(posted.body.len())),
        ("workspace", workspace.clone()),
        ("kind", json!("predictions")),
        ("rows", json!(1)),
        ("batch", json!("night-3")),
    ] {
        assert_eq!(request[name], value, "{name} of {request}");
    }
    assert!(request["latency_ms"].as_f64().unwrap() > 0.0, "{request}");
    assert!(lines(&log, "request").any(|line| line["request_id"] == made.as_str()), "{made}");

    let appended = lines(&log, "appended").find(|line| line["span"]["request_id"] == "req-42").unwrap();
    let place_of =
        |line: &Value| ["workspace", "day", "kind", "lane", "seq", "rows"].map(|name| line[name].clone());
    assert_eq!(
        place_of(appended),
        [workspace.clone(), json!("2026-06-03"), json!("predictions"), json!(0), json!(1), json!(1)]
    );
    let folded = lines(&log, "folded").find(|line| line["day"] == "2026-06-03").unwrap();
    assert_eq!((&folded["workspace"], &folded["segments"]), (&workspace, &json!(1)));
    assert!(folded["lag_seconds"].as_f64().unwrap() >= 0.0, "{folded}");

    // An error leads to its request in the log, and the other way round.
    let error = lines(&log, "request failed").find(|line| line["span"]["request_id"] == "req-43").unwrap();
    assert_eq!(error["level"], "ERROR");
    let request = lines(&log, "request").find(|line| line["request_id"] == "req-43").unwrap();
    assert_eq!((&request["level"], &request["status"]), (&json!("ERROR"), &json!(500)));
    assert_reported(&log);
}

/// The last report of the process is whole.
fn assert_reported(log: &[Value]) {
    let telemetry = lines(log, "telemetry").last().unwrap();
    for name in ["lag_segments", "lag_seconds", "dead_letters", "requests", "errors"] {
        assert!(telemetry[name].is_number(), "{name} of {telemetry}");
    }
    assert_eq!((&telemetry["level"], &telemetry["errors"]), (&json!("INFO"), &json!(1)), "{telemetry}");
    assert!(telemetry["requests"].as_u64().unwrap() >= 12, "{telemetry}");
}

#[test]
fn a_log_at_its_usual_level_is_quiet() {
    let place = Place::sqlite();
    let service = Running::start(&place, &["--log-format", "json", "--role", "ingest"], &[]);
    register(&service);
    let log: Vec<Value> = service.stop().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<&str> = log.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert!(messages[0].starts_with("listening on http://127.0.0.1:"), "{messages:?}");
    assert_eq!(messages[1..], ["stopping", "telemetry"]);
    assert_eq!(log[0]["roles"], "ingest");
    let telemetry = log.last().unwrap();
    assert_eq!((&telemetry["requests"], &telemetry["errors"]), (&json!(3), &json!(0)));
    assert!(telemetry.get("lag_seconds").is_none(), "an ingest service knows no lag: {telemetry}");
}

/// The most verbose log, so that every thread writes lines.
const ALL_LINES: [(&str, &str); 1] = [("ALMANAC_LOG", "trace")];

/// Posts predictions, one after the other, and says how the service is.
fn appends_go_on(service: &Service) {
    register(service);
    for number in 0..20 {
        let body = prediction(&format!("k{number}"), 1);
        let answer = service.post(&format!("{WORKSPACE}/predictions"), NDJSON, None, &body);
        assert_eq!(answer.status, 201, "{number}: {}", answer.text());
    }
    service.get_until("/readyz", |answer| answer.status == 200);
}

#[cfg(target_os = "linux")]
#[test]
fn log_on_full_disk_loses_only_lines() {
    let place = Place::sqlite();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let service = Running::start_logging_to(&place, full, &ALL_LINES);
    appends_go_on(&service);
    let metrics = service.get("/metrics");
    let dropped = metric(metrics.text(), r#"almanac_log_lines_dropped_total{reason="failed"}"#);
    assert!(dropped > 20.0, "{dropped}");
    assert_eq!(metric(metrics.text(), "almanac_panics_total"), 0.0);
}

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    let place = Place::sqlite();
    // The pipe is never emptied, and is full after some lines.
    let (_unread, log) = std::io::pipe().unwrap();
    let service = Running::start_logging_to(&place, log, &ALL_LINES);
    appends_go_on(&service);
}
