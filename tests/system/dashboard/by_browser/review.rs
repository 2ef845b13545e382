//! Predictions judged in the browser: by who is signed in, and by who has a link.

use serde_json::{Value, json};

use super::{hostile::HOSTILE, shown};
use crate::{
    browser::Browser,
    support::{Place, Running, alone, ndjson, register, run_ok},
};

const REVIEWS: &str = "/v1/workspaces/credit/prod/reviews";
const DAY: &str = "from=2026-06-01&to=2026-06-01";

/// Waits until the heading of the desk is this one.
fn desk(browser: &Browser, heading: &str) {
    browser.wait_for("document.querySelector('.desk h2')?.innerText === arguments[0]", &[heading.into()]);
}

/// Predictions whose keys and tags are hostile, from the least certain on.
fn predictions() -> Value {
    let scores = [0.5, 0.7, 0.95];
    let one = |(score, text): (f64, &str)| json!({"key": text, "predicted_at": "2026-06-01T02:00:00Z", "release": "v1", "score": score, "tags": {"text": text}});
    scores.into_iter().zip(HOSTILE).map(one).collect()
}

fn review() -> Value {
    json!({"name": "june", "from": "2026-06-01", "to": "2026-06-01", "policy": "uncertain", "labels": ["default", HOSTILE[1]]})
}

/// Nothing of what was posted became part of the page but text.
fn safe(browser: &Browser, text: &str) {
    assert_eq!(browser.run("return document.querySelectorAll('main script, main img').length", &[]), 0);
    let said = browser.run("return document.querySelector('.asked').textContent", &[]);
    assert_eq!(said.as_str().unwrap().matches(text).count(), 2, "as the key and as the tag: {said}");
    assert_ne!(browser.run("return document.title", &[]), "owned");
}

#[test]
fn a_reviewer_judges_by_the_keyboard() {
    let _alone = alone();
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    register(&service);
    for (path, body) in [("/v1/workspaces/credit/prod/predictions", predictions()), (REVIEWS, review())] {
        let answer = service.post(path, "application/json", None, &body.to_string());
        assert_eq!(answer.status, 201, "{path}: {}", answer.text());
    }
    let browser = Browser::start();
    let page = format!("http://{}/#/w/credit/prod/review", service.address());
    browser.open(&page);
    shown(&browser, "Review of credit/prod");
    browser.run("const choice = document.querySelector('main select'); choice.value = 'june'; choice.dispatchEvent(new Event('change'))", &[]);
    desk(&browser, "What is it?");
    safe(&browser, HOSTILE[0]);
    browser.picture("review");
    assert_eq!(browser.violations(), [""; 0]);
    // The desk has the focus, so its keys are heard.
    browser.wait_for("document.activeElement?.classList.contains('desk')", &[]);
    browser.press("1");
    desk(&browser, "Answered");
    assert!(browser.text(".desk table").contains("v1"), "{}", browser.text(".desk"));
    assert_eq!(browser.violations(), [""; 0]);
    browser.press("n");
    desk(&browser, "What is it?");
    safe(&browser, HOSTILE[1]);
    browser.press("s");
    desk(&browser, "Given back");
    browser.press("n");
    desk(&browser, "What is it?");
    // The pointer does the same.
    browser.click(".answers button[data-key='2']");
    desk(&browser, "Answered");
    browser.press("n");
    desk(&browser, "Judge");
    assert!(browser.text(".desk").contains("Nothing of this review is left for you."));
    let outcomes = ndjson(service.get(&format!("/v1/workspaces/credit/prod/outcomes?{DAY}")).text());
    let mut answered: Vec<_> =
        outcomes.iter().map(|row| (row["key"].as_str(), row["label"].as_str())).collect();
    answered.sort_unstable();
    let mut expected = [(Some(HOSTILE[0]), Some("default")), (Some(HOSTILE[2]), Some(HOSTILE[1]))];
    expected.sort_unstable();
    assert_eq!(answered, expected);
    browser.open("about:blank");
    browser.open(&page);
    shown(&browser, "Review of credit/prod");
    let rows = "return document.querySelector('[aria-label=\"Answers\"] tbody').rows.length";
    assert_eq!(browser.run(rows, &[]), 2);
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn link_holder_judges_one_prediction_without_account() {
    let _alone = alone();
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    run_ok(
        &place,
        &["model", "create", "risk", "-w", "credit/prod", "--task", "binary", "--positive-label", "default"],
    );
    run_ok(&place, &["release", "create", "v1", "-w", "credit/prod", "--model", "risk"]);
    let admin = run_ok(&place, &["token", "generate"]).trim().to_owned();
    let service = Running::start(&place, &[], &[("ALMANAC_ADMIN_TOKEN", &admin)]);
    let bearer = format!("Bearer {admin}");
    let headers = [("Authorization", &*bearer), ("Content-Type", "application/json")];
    let post = |path: &str, body: Value| {
        let answer = service.send("post", path, &headers, Some(body.to_string().as_bytes()));
        assert!((200..300).contains(&answer.status), "{path}: {}", answer.text());
        answer
    };
    post("/v1/workspaces/credit/prod/predictions", predictions());
    post(REVIEWS, review());
    let next = post(&format!("{REVIEWS}/next"), json!({"review": "june", "guest": "bob"})).json();
    let link = next["item"]["link"].as_str().unwrap();
    let browser = Browser::start();
    let page = format!("http://{}/#/judge/{link}", service.address());
    browser.open(&page);
    desk(&browser, "What is it?");
    safe(&browser, HOSTILE[0]);
    assert_eq!(browser.violations(), [""; 0]);
    browser.wait_for("document.activeElement?.classList.contains('desk')", &[]);
    browser.press("2");
    desk(&browser, "Answered");
    assert_eq!(browser.violations(), [""; 0]);
    assert_eq!(browser.console(), [""; 0]);
    let told = service.send("get", &format!("/v1/workspaces/credit/prod/outcomes?{DAY}"), &headers, None);
    let outcomes = ndjson(told.text());
    assert_eq!((outcomes.len(), &outcomes[0]["label"]), (1, &json!(HOSTILE[1])));
    // It was good for one.
    browser.open("about:blank");
    browser.open(&page);
    desk(&browser, "This cannot be done");
    assert!(browser.text(".desk").contains("was answered"), "{}", browser.text(".desk"));
}
