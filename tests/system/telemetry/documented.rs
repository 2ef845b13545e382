//! Metrics in the documentation: the page that lists them, and the dashboard.

use super::exposed::base_name;
use meter::{Instrument, Of};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The lists of `docs/telemetry.md`.
fn documented() -> String {
    let mut text = String::new();
    for of in [Of::Every, Of::Ingest, Of::Projector, Of::Query, Of::Sqlite, Of::Dynamodb, Of::Linux] {
        _ = write!(text, "\n## {}\n\n| metric | says |\n| --- | --- |\n", of.title());
        for metric in meter::ALL.iter().filter(|metric| metric.of == of) {
            let Instrument { name, labels, help, .. } = metric;
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            _ = writeln!(text, "| `{name}{labels}` | {help} |");
        }
    }
    text
}

/// The line at which the lists begin.
const LISTS: &str = "<!-- lists -->\n";

#[test]
fn the_documentation_lists_every_metric() {
    let path = docs().join("telemetry.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, after) = text.split_once(LISTS).unwrap();
    if std::env::var_os("ALMANAC_UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{LISTS}{}", documented())).unwrap();
        return;
    }
    assert_eq!(
        after,
        documented(),
        "write it again: ALMANAC_UPDATE_DOCS=1 cargo test --workspace --test system telemetry"
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
