//! How a running system is watched: its log, its metrics, and what the documentation says of them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use catalog::Catalog;
use log::key;
use meter::{Metric, Of, Shape};
use serde_json::{Value, json};
use support::{Located, Place, Running, Service, block_on, ndjson, register};
use table::Condition;

const NDJSON: &str = "application/x-ndjson";
const JSON: &str = "application/json";
const WORKSPACE: &str = "/v1/workspaces/credit/prod";
/// What must not be in a log.
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
fn the_log_tells_of_requests_and_of_nothing_that_is_in_them() {
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

    // Who looks for an error finds the request, and the other way round.
    let error = lines(&log, "request failed").find(|line| line["span"]["request_id"] == "req-43").unwrap();
    assert_eq!(error["level"], "ERROR");
    let request = lines(&log, "request").find(|line| line["request_id"] == "req-43").unwrap();
    assert_eq!((&request["level"], &request["status"]), (&json!("ERROR"), &json!(500)));

    let telemetry = lines(&log, "telemetry").last().unwrap();
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
fn a_log_on_a_full_disk_costs_lines_and_nothing_else() {
    let place = Place::sqlite();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let service = Running::start_logging_to(&place, full, &ALL_LINES);
    appends_go_on(&service);
    let metrics = service.get("/metrics");
    let dropped = figure(metrics.text(), r#"almanac_log_lines_dropped_total{reason="failed"}"#);
    assert!(dropped > 20.0, "{dropped}");
    assert_eq!(figure(metrics.text(), "almanac_panics_total"), 0.0);
}

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    let place = Place::sqlite();
    // The pipe is never emptied, and is full after some lines.
    let (_unread, log) = std::io::pipe().unwrap();
    let service = Running::start_logging_to(&place, log, &ALL_LINES);
    appends_go_on(&service);
}

/// What is exposed: of each metric its type, its help, and the names and values of its labels.
#[derive(Debug, Default)]
struct Family {
    shape: String,
    help: String,
    labels: BTreeMap<String, BTreeSet<String>>,
    series: usize,
}

fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::<String, Family>::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            families.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, shape) = rest.split_once(' ').unwrap();
            families.entry(name.to_owned()).or_default().shape = shape.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let family = base_name(name, |name| families.contains_key(name));
            let family = families.get_mut(&family).unwrap_or_else(|| panic!("{name} has no type"));
            family.series += 1;
            for label in labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty()) {
                let (name, value) = label.split_once("=\"").unwrap();
                let values = family.labels.entry(name.to_owned()).or_default();
                values.insert(value.trim_end_matches('"').to_owned());
            }
        }
    }
    families
}

/// The metric that a series or an expression names: without the endings of histograms.
fn base_name(name: &str, is_known: impl Fn(&str) -> bool) -> String {
    let endings = ["_bucket", "_sum", "_count"].iter();
    let histogram = endings.filter_map(|ending| name.strip_suffix(ending)).find(|name| is_known(name));
    if is_known(name) { name } else { histogram.unwrap_or(name) }.to_owned()
}

fn every_metric_is_exposed_and_described(place: &Place, other_engine: Of) {
    let service = Running::start(place, &[], &[]);
    run_the_pipeline(&service);
    let exposed = families(service.get("/metrics").text());
    let has = |of: Of| of != other_engine && (of != Of::Linux || cfg!(target_os = "linux"));
    let expected: BTreeMap<&str, &Metric> =
        meter::ALL.iter().filter(|metric| has(metric.of)).map(|metric| (metric.name, metric)).collect();
    let names: BTreeSet<&str> = exposed.keys().map(String::as_str).collect();
    assert_eq!(names, expected.keys().copied().collect(), "what is exposed, and what should be");
    for (name, family) in &exposed {
        let metric = expected[&**name];
        assert_eq!((&*family.shape, &*family.help), (metric.shape.name(), metric.help), "{name}");
        let is_histogram = matches!(metric.shape, Shape::Histogram(_));
        let labels: BTreeSet<&str> =
            family.labels.keys().map(String::as_str).filter(|name| *name != "le").collect();
        assert_eq!(labels, metric.labels.iter().copied().collect(), "{name}");
        assert_eq!(family.labels.contains_key("le"), is_histogram, "{name}");
        for value in family.labels.values().flatten() {
            // No label grows with what clients send.
            assert!(
                ["credit", "prod", "v1", "risk", SECRET, "night-1"].iter().all(|word| value != word),
                "{name}: {value}"
            );
            assert!(value.len() < 64, "{name}: {value}");
        }
    }
    let series: usize = exposed.values().map(|family| family.series).sum();
    assert!(series < 1_500, "{series} series");
    figures_are_right(&service, &exposed["almanac_http_request_duration_seconds"]);
}

/// The value of a series.
fn figure(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is not in\n{text}")).parse().unwrap()
}

fn figures_are_right(service: &Service, requests: &Family) {
    let text = service.get_until("/metrics", |answer| {
        figure(answer.text(), r#"almanac_projector_rows_folded_total{kind="predictions"}"#) == 3.0
    });
    let figure = |series: &str| figure(text.text(), series);
    for (kind, outcome, batches, rows) in [
        ("predictions", "stored", 2.0, 3.0),
        ("predictions", "replayed", 1.0, 2.0),
        ("predictions", "refused", 1.0, 1.0),
        ("outcomes", "stored", 1.0, 1.0),
    ] {
        let labels = format!(r#"{{kind="{kind}",outcome="{outcome}"}}"#);
        assert_eq!(figure(&format!("almanac_append_batches_total{labels}")), batches, "{labels}");
        assert_eq!(figure(&format!("almanac_append_rows_total{labels}")), rows, "{labels}");
    }
    assert_eq!(figure(r#"almanac_append_duration_seconds_count{kind="outcomes"}"#), 1.0);
    // Of two predictions of one key at one instant the last one counts.
    assert_eq!(figure(r#"almanac_query_rows_total{what="joined"}"#), 2.0);
    assert_eq!(figure(r#"almanac_http_responses_total{status="422"}"#), 1.0);
    let created = figure(r#"almanac_http_responses_total{status="201"}"#);
    assert!(created >= 7.0, "{created}");
    for series in [
        r#"almanac_append_segment_bytes_total{kind="predictions"}"#,
        "almanac_http_request_bytes_total",
        "almanac_http_response_bytes_total",
        "almanac_projector_decoded_bytes_total",
        "almanac_query_decoded_bytes_total",
        "process_start_time_seconds",
    ] {
        assert!(figure(series) > 0.0, "{series}");
    }
    assert_eq!(figure(r#"almanac_gate_requests_in_flight{size="small"}"#), 0.0);
    assert!(requests.labels["route"].contains("/v1/workspaces/{category}/{name}/predictions"));
    assert_eq!(requests.labels["status"], ["2xx", "4xx"].map(String::from).into());
}

#[test]
fn every_metric_is_exposed_and_described_on_sqlite() {
    every_metric_is_exposed_and_described(&Place::sqlite(), Of::Dynamodb);
}

mod dynamodb_local {
    use super::{Of, Place, every_metric_is_exposed_and_described};

    #[test]
    fn every_metric_is_exposed_and_described_on_dynamodb() {
        every_metric_is_exposed_and_described(&Place::dynamodb_local(), Of::Sqlite);
    }
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The lists of `docs/metrics.md`.
fn documented() -> String {
    let mut text = String::new();
    for of in [Of::Every, Of::Ingest, Of::Projector, Of::Query, Of::Sqlite, Of::Dynamodb, Of::Linux] {
        _ = write!(
            text,
            "\n## {}\n\n| metric | type | labels | says |\n| --- | --- | --- | --- |\n",
            of.title()
        );
        for metric in meter::ALL.iter().filter(|metric| metric.of == of) {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let Metric { name, help, .. } = metric;
            _ = writeln!(text, "| `{name}` | {} | {} | {help} |", metric.shape.name(), labels.join(", "));
        }
    }
    text
}

/// Where the lists begin.
const LISTS: &str = "<!-- lists -->\n";

#[test]
fn the_documentation_lists_every_metric() {
    let path = docs().join("metrics.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, after) = text.split_once(LISTS).unwrap();
    if std::env::var_os("ALMANAC_UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{LISTS}{}", documented())).unwrap();
        return;
    }
    assert_eq!(
        after,
        documented(),
        "write it again: ALMANAC_UPDATE_DOCS=1 cargo test --workspace --test telemetry"
    );
}

/// Every panel of a dashboard, those in rows that are folded included.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let all = dashboard["panels"].as_array().unwrap();
    all.iter().chain(all.iter().flat_map(|row| row["panels"].as_array().into_iter().flatten())).collect()
}

#[test]
fn the_dashboard_names_only_metrics_that_there_are() {
    let text = fs::read_to_string(docs().join("grafana-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let name = regex::Regex::new(r"\b(almanac|process)_[a-z_]+").unwrap();
    let known = |name: &str| meter::ALL.iter().any(|metric| metric.name == name);
    let (mut ids, mut rows, mut named) = (BTreeSet::new(), 0, BTreeSet::new());
    let mut places = Vec::new();
    for panel in panels(&dashboard) {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "two panels have one id: {panel}");
        let title = panel["title"].as_str().unwrap();
        let at = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(at[0] + at[2] <= 24 && at[2] > 0 && at[3] > 0, "{title} is outside of the grid");
        places.push((title, at));
        if panel["type"] == "row" {
            rows += 1;
            continue;
        }
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && panel["description"].is_string(), "{title}");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            let found: Vec<&str> = name.find_iter(expression).map(|found| found.as_str()).collect();
            assert!(!found.is_empty(), "{title}: {expression}");
            for found in found {
                let metric = base_name(found, known);
                assert!(known(&metric), "{title}: there is no metric {found}");
                named.insert(metric);
            }
        }
    }
    for (at, (one, [x, y, w, h])) in places.iter().enumerate() {
        for (other, [a, b, c, d]) in &places[at + 1..] {
            let is_apart = x + w <= *a || a + c <= *x || y + h <= *b || b + d <= *y;
            assert!(is_apart, "`{one}` and `{other}` lie over one another");
        }
    }
    assert!(rows >= 5 && named.len() >= 25, "{rows} rows, {} metrics", named.len());
}
