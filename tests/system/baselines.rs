//! Named baselines of releases: set by commands and over HTTP, and what queries over HTTP are measured from.

use crate::support::{Place, Service, on_both_engines, run_ok};
use serde_json::{Value, json};

on_both_engines!(baselines_are_named_and_measured_from);

const WORKSPACE: &str = "/v1/workspaces/credit/prod";

/// Two days of scores that are even, and one on which all are high.
fn predict(service: &Service) {
    for (day, from) in [("2026-05-01", 0), ("2026-05-02", 0), ("2026-06-01", 9)] {
        let row = |n: usize| {
            json!({ "key": format!("k{n}"), "predicted_at": format!("{day}T01:00:00Z"), "release": "v1",
                    "score": (from + n % 10) as f64 / 20.0 })
        };
        let rows: Vec<Value> = (0..40).map(row).collect();
        let path = format!("{WORKSPACE}/predictions");
        let answer = service.post(&path, "application/json", None, &Value::from(rows).to_string());
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
    }
}

fn baselines_are_named_and_measured_from(place: &Place) {
    let service = Service::start(place);
    run_ok(place, &["workspace", "create", "credit/prod"]);
    run_ok(place, &["model", "create", "--task", "binary", "risk", "-w", "credit/prod"]);
    run_ok(place, &["release", "create", "v1", "-w", "credit/prod", "--model", "risk"]);
    predict(&service);

    let path = format!("{WORKSPACE}/baselines");
    let put = |name: &str, days: &str| {
        let body = json!({ "release": "v1", "name": name, "days": days });
        service.send("PUT", &path, &[("content-type", "application/json")], Some(body.to_string().as_bytes()))
    };
    let set = put("spring", "2026-05-01..2026-05-02");
    assert_eq!(set.status, 200, "{}", set.text());
    let spring = json!({ "release": "v1", "baselines": { "spring": "2026-05-01..2026-05-02" } });
    assert_eq!(set.json(), spring);
    assert_eq!(put("spring", "june").status, 400);
    let shown: Value =
        serde_json::from_str(&run_ok(place, &["release", "show", "credit/prod/v1", "--format", "json"]))
            .unwrap();
    assert_eq!(shown["baselines"], spring["baselines"]);

    // Drift from the baseline is that from its days, with the same words.
    let drift = |reference: &str| {
        let asked = format!(
            "{WORKSPACE}/drift?from=2026-06-01&to=2026-06-01&reference={reference}&exact=true&column=score&format=csv"
        );
        service.get(&asked)
    };
    let [named, by_days] = ["release:v1/spring", "2026-05-01..2026-05-02"].map(drift);
    assert_eq!(named.status, 200, "{}", named.text());
    assert!(named.text().lines().any(|row| row.contains(",score,numbers,40,80,")), "{}", named.text());
    assert_eq!(named.text(), by_days.text());
    let unknown = drift("release:v1/autumn");
    assert_eq!(unknown.status, 404);
    assert!(
        unknown.text().contains("release `v1` has no baseline `autumn`; there are spring"),
        "{}",
        unknown.text()
    );

    // The command changes the same, and what it said is in the audit log.
    let command = ["release", "baseline", "set", "credit/prod/v1", "june", "2026-06-01"];
    assert!(run_ok(place, &command).contains("june"));
    assert_eq!(drift("release:v1/june").status, 200);
    let june = json!({ "release": "v1", "name": "june", "days": null }).to_string();
    let gone = service.send("PUT", &path, &[("content-type", "application/json")], Some(june.as_bytes()));
    assert_eq!((gone.status, gone.json()), (200, spring));
    run_ok(place, &["release", "baseline", "delete", "credit/prod/v1", "spring"]);
    assert_eq!(drift("release:v1/spring").status, 404);
    let audit_log = run_ok(place, &["audit", "-w", "credit/prod", "--format", "csv"]);
    assert!(audit_log.lines().filter(|line| line.contains("spring")).count() >= 2, "{audit_log}");
}
