//! Pages of what is not there: outcomes that have not come, and a service that is away.

use serde_json::json;

use super::{cells, shown};
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
    shown(&browser, "Workspaces");
    // The day of the registration has no events of predictions.
    assert!(cells(&browser)[0].contains(&"2026-03-02".to_owned()), "{:?}", cells(&browser));
    browser.open(&format!("{base}#/w/credit/prod/day?day=2026-03-02"));
    shown(&browser, "Day");
    browser.picture("unlabelled-day");
    let day = browser.text("main");
    assert!(day.contains("No outcome of this day has come yet."), "{day}");
    assert!(!day.contains("undefined") && !day.contains("declares"), "{day}");
    assert_eq!(browser.console(), [""; 0]);

    service.stop();
    browser.run("location.hash = arguments[0]", &["#/w/credit/prod/drift".into()]);
    shown(&browser, "This cannot be shown");
    let away = browser.text("main");
    assert!(away.contains("The server does not answer."), "{away}");
}
