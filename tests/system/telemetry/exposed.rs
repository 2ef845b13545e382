//! The metrics that a running system exposes.

use super::{SECRET, run_the_pipeline};
use crate::support::{Place, Running, Service, run_ok};
use meter::{Instrument, Of, Shape, catalogue};
use std::collections::{BTreeMap, BTreeSet};

/// A metric as it is exposed: its type, its help, and the names and values of its labels.
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
pub(super) fn base_name(name: &str, is_known: impl Fn(&str) -> bool) -> String {
    let endings = ["_bucket", "_sum", "_count"].iter();
    let histogram = endings.filter_map(|ending| name.strip_suffix(ending)).find(|name| is_known(name));
    if is_known(name) { name } else { histogram.unwrap_or(name) }.to_owned()
}

fn every_metric_is_exposed_and_described(place: &Place, other_engine: Of) {
    let service = Running::start(place, &["--model-metrics"], &[]);
    run_the_pipeline(&service);
    // The number of rules that fire is exposed once they were judged.
    let is_judged = format!("\n{} ", catalogue::PROJECTOR_FIRING.name);
    let exposed = service.get_until("/metrics", |answer| answer.text().contains(&is_judged));
    let exposed = families(exposed.text());
    let has = |of: Of| of != other_engine && (of != Of::Linux || cfg!(target_os = "linux"));
    let expected: BTreeMap<&str, &Instrument> =
        meter::ALL.iter().filter(|metric| has(metric.of)).map(|metric| (metric.name, metric)).collect();
    let names: BTreeSet<&str> = exposed.keys().map(String::as_str).collect();
    assert_eq!(names, expected.keys().copied().collect(), "what is exposed, and what should be");
    for (name, family) in &exposed {
        let metric = expected[&**name];
        assert_eq!((&*family.shape, &*family.help), (metric.shape.name(), metric.help), "{name}");
        let is_histogram = matches!(metric.shape, Shape::Histogram(_));
        let labels: BTreeSet<&str> =
            family.labels.keys().map(String::as_str).filter(|name| *name != "le").collect();
        // Each rule that fires has a series, and each live release: here there is none.
        let is_of_few = name.starts_with("almanac_model_") || *name == catalogue::PROJECTOR_FIRING_RULE.name;
        assert_eq!(family.series == 0, is_of_few, "{name}");
        assert!(
            family.series == 0 || labels == metric.labels.iter().copied().collect(),
            "{name}: {labels:?}"
        );
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
    metrics_are_right(&service, &exposed["almanac_http_request_duration_seconds"]);
}

/// The value of a series.
pub(super) fn metric(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is not in\n{text}")).parse().unwrap()
}

fn metrics_are_right(service: &Service, requests: &Family) {
    let text = service.get_until("/metrics", |answer| {
        metric(answer.text(), r#"almanac_projector_rows_folded_total{kind="predictions"}"#) == 3.0
    });
    let metric = |series: &str| metric(text.text(), series);
    for (kind, outcome, batches, rows) in [
        ("predictions", "stored", 2.0, 3.0),
        ("predictions", "replayed", 1.0, 2.0),
        ("predictions", "refused", 1.0, 1.0),
        ("outcomes", "stored", 1.0, 1.0),
    ] {
        let labels = format!(r#"{{kind="{kind}",outcome="{outcome}"}}"#);
        assert_eq!(metric(&format!("almanac_append_batches_total{labels}")), batches, "{labels}");
        assert_eq!(metric(&format!("almanac_append_rows_total{labels}")), rows, "{labels}");
    }
    assert_eq!(metric(r#"almanac_append_duration_seconds_count{kind="outcomes"}"#), 1.0);
    // The last of two predictions of one key at one instant counts.
    assert_eq!(metric(r#"almanac_query_rows_total{what="joined"}"#), 2.0);
    assert_eq!(metric(r#"almanac_http_responses_total{status="422"}"#), 1.0);
    let created = metric(r#"almanac_http_responses_total{status="201"}"#);
    assert!(created >= 7.0, "{created}");
    for series in [
        r#"almanac_append_segment_bytes_total{kind="predictions"}"#,
        "almanac_http_request_bytes_total",
        "almanac_http_response_bytes_total",
        "almanac_query_decoded_bytes_total",
        "process_start_time_seconds",
    ] {
        assert!(metric(series) > 0.0, "{series}");
    }
    // Segments that were handed over are not unpacked.
    let handed = metric(r#"almanac_segment_cache_segments_total{outcome="taken"}"#);
    assert!(handed + metric("almanac_projector_decoded_bytes_total") > 0.0, "{handed}");
    assert_eq!(metric(r#"almanac_gate_requests_in_flight{size="small"}"#), 0.0);
    assert!(requests.labels["route"].contains("/v1/workspaces/{category}/{name}/predictions"));
    assert_eq!(requests.labels["status"], ["2xx", "4xx"].map(String::from).into());
}

#[test]
fn metrics_of_live_releases_are_exposed_if_wanted() {
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    run_the_pipeline(&service);
    assert!(!service.get("/metrics").text().contains("almanac_model_"), "series name workspaces");
    drop(service);
    run_ok(&place, &["release", "promote", "v1", "-w", "credit/prod", "--environment", "production"]);
    let service = Running::start(&place, &[], &[("ALMANAC_MODEL_METRICS", "true")]);
    let labels = r#"workspace="credit/prod",model="risk",release="v1",environment="production""#;
    let text = service.get_until("/metrics", |answer| answer.text().contains("\nalmanac_model_metric{"));
    let of = |name: &str, more: &str| metric(text.text(), &format!("almanac_model_{name}{{{labels}{more}}}"));
    assert_eq!((of("labelled", ""), of("maturity", "")), (1.0, 1.0));
    assert_eq!(
        (of("metric", r#",metric="accuracy""#), of("metric", r#",metric="log_loss""#)),
        (1.0, 0.105_360_515_657_826_28)
    );
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
