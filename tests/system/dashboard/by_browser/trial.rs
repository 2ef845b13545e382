//! A rule tested on the page of alerts.

use serde_json::{Value, json};

use super::shown;
use crate::{
    browser::Browser,
    support::{Place, Running, alone, ndjson, register},
};

/// Script for the days of the test's card, latest first: the day and its transition.
const DAYS: &str = "return [...document.querySelector('[aria-label=\"Days on which it was tried\"] tbody').rows].map((row) => [row.cells[0].innerText, row.cells[4].innerText])";

#[test]
fn a_rule_is_tried_with_another_threshold() {
    let _alone = alone();
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    register(&service);
    let path = "/v1/workspaces/credit/prod";
    let prediction = r#"[{"key":"a","predicted_at":"2026-06-02T02:00:00Z","release":"v1","score":0.9}]"#;
    assert_eq!(
        service.post(&format!("{path}/predictions"), "application/json", None, prediction).status,
        201
    );
    let rollups = format!("{path}/rollups?from=2026-06-02&to=2026-06-02");
    service.get_until(&rollups, |answer| {
        ndjson(answer.text()).first().is_some_and(|row| row["predictions"] == 1)
    });
    let rules = json!({ "rules": [{ "name": "few", "count": "predictions", "below": 1.0, "clear": 1.0 }] })
        .to_string();
    let headers = [("Content-Type", "application/json")];
    let applied = service.send("put", &format!("{path}/alert-rules"), &headers, Some(rules.as_bytes()));
    assert_eq!(applied.status, 200);
    let browser = Browser::start();
    browser
        .open(&format!("http://{}/#/w/credit/prod/alerts?from=2026-06-01&to=2026-06-03", service.address()));
    shown(&browser, "Alerts");
    assert_eq!(browser.violations(), [""; 0]);
    browser.click("td a[href*='rule=few']");
    let says = "[...document.querySelectorAll('.card-head p')].some((one) => one.innerText.startsWith(arguments[0]))";
    browser.wait_for(says, &["It would have fired on 2 of 3 days from 2026-06-01 to 2026-06-03".into()]);
    let expected = json!([["2026-06-03", "fires"], ["2026-06-02", "resolves"], ["2026-06-01", "fires"]]);
    assert_eq!(browser.run(DAYS, &[]), expected);
    assert_eq!(browser.violations(), [""; 0]);
    browser.picture("trial");
    // Another threshold, which stands in the address and is not applied.
    let set = "const input = document.querySelector('form[aria-label=\"What is tried\"] input[step=any]'); input.value = arguments[0]; input.dispatchEvent(new Event('change'))";
    browser.run(set, &["2".into()]);
    browser.wait_for(says, &["It would have fired on 1 of 3 days".into()]);
    assert!(browser.run("return location.hash", &[]).as_str().unwrap().contains("bound=2"));
    let rule: Value = service.get(&format!("{path}/alert-rules")).json()["rules"][0].clone();
    assert_eq!(rule["below"], 1.0);
    // An impossible test is reported beside its form.
    browser.run(set, &["".into()]);
    browser.wait_for(says, &["It would have fired on 2 of 3 days".into()]);
    browser.open(&format!(
        "http://{}/#/w/credit/prod/alerts?rule=few&from=2020-01-01&to=2026-06-03",
        service.address()
    ));
    browser.wait_for("document.querySelector('.notice')?.innerText.includes('at most 1000 days')", &[]);
    assert_eq!(browser.violations(), [""; 0]);
}
