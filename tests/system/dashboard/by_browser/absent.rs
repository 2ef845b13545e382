//! Pages of what is not there: outcomes that have not come, and a service that is away.

use serde_json::json;

use super::shown;
use crate::{
    browser::Browser,
    support::{Place, Running, alone, run_ok},
};

#[test]
fn unlabelled_days_and_absent_services_are_named() {
    let _alone = alone();
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    let model = ["model", "create", "risk", "-w", "credit/prod", "--task", "binary", "--positive-label", "1"];
    run_ok(&place, &model);
    run_ok(&place, &["release", "create", "v1", "-w", "credit/prod", "--model", "risk"]);
    let service = Running::start(&place, &[], &[]);
    let row = |row: i32| json!({"key": row.to_string(), "predicted_at": "2026-03-02T06:00:00Z", "release": "v1", "score": f64::from(row) / 20.0});
    let rows: String = (0..20).map(|number| format!("{}\n", row(number))).collect();
    let sent = service.post("/v1/workspaces/credit/prod/predictions", "application/x-ndjson", None, &rows);
    assert!(matches!(sent.status, 200 | 201), "{}", sent.text());
    let evaluated = "/v1/workspaces/credit/prod/evaluations?from=2026-03-02&to=2026-03-02&format=csv";
    service.get_until(evaluated, |answer| answer.text().contains("v1,20,0"));

    let base = format!("http://{}/", service.address());
    let browser = Browser::start();
    browser.resize(1360, 1000);
    browser.open(&base);
    shown(&browser, "Overview of credit/prod");
    // The day of the registration has no events of predictions.
    let health = browser.text(".health");
    assert!(health.starts_with("Latest predictions\n2026-03-02"), "{health}");
    browser.open(&format!("{base}#/w/credit/prod/day?day=2026-03-02"));
    shown(&browser, "Day");
    browser.picture("unlabelled-day");
    let day = browser.text("main");
    assert!(day.contains("No outcome of this day has come yet."), "{day}");
    assert!(!day.contains("undefined") && !day.contains("declares"), "{day}");
    assert_eq!(browser.console(), [""; 0]);

    browser.open(&base);
    shown(&browser, "Overview of credit/prod");
    service.stop();
    // What is shown stays, with what is the matter above it.
    browser.wait_for("document.querySelector('.away')?.innerText.includes('does not answer')", &[]);
    shown(&browser, "Overview of credit/prod");
    assert_eq!(browser.violations(), [""; 0]);
    browser.run("location.hash = arguments[0]", &["#/w/credit/prod/drift".into()]);
    shown(&browser, "This cannot be shown");
    let away = browser.text("main");
    assert!(
        away.contains(&format!("The service at {} does not answer.", base.trim_end_matches('/'))),
        "{away}"
    );
}
