//! Pairs of releases compared in the browser: by a signed-in user, and by a guest with a link.

use serde_json::{Value, json};

use super::{cells, hostile::HOSTILE, shown};
use crate::{
    browser::Browser,
    support::{Place, Running, alone, ndjson, register},
};

const WORKSPACE: &str = "/v1/workspaces/credit/prod";

/// Predictions of two releases for three keys; all texts are hostile.
fn predictions() -> Value {
    let one = |release: &str, score: f64, text: &str| {
        json!({"key": text, "predicted_at": "2026-06-01T02:00:00Z", "release": release, "score": score,
               "tags": {"text": format!("{text}{release}"), "question": text, "payload": "https://example.com/a"}})
    };
    let of_both = |text: &&str| [one("v1", 0.75, text), one("v2", 0.25, text)];
    HOSTILE.iter().take(3).flat_map(of_both).collect()
}

fn post(service: &Running, path: &str, body: &Value) -> Value {
    let answer = service.post(&format!("{WORKSPACE}{path}"), "application/json", None, &body.to_string());
    assert!((200..300).contains(&answer.status), "{path}: {}", answer.text());
    answer.json()
}

/// Waits until the desk has this heading, and the keyboard focus.
fn desk(browser: &Browser, heading: &str) {
    browser.wait_for("document.querySelector('.desk h2')?.innerText === arguments[0]", &[heading.into()]);
    browser.wait_for("document.activeElement?.classList.contains('desk')", &[]);
}

/// Side of the first release, found by its score.
fn first_side(browser: &Browser) -> usize {
    let side = "return [...document.querySelectorAll('.sides section')].findIndex((one) => one.textContent.includes('0.7500'))";
    browser.run(side, &[]).as_u64().unwrap() as usize
}

#[test]
fn pairs_can_be_compared_by_keyboard_and_link() {
    let _alone = alone();
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    register(&service);
    let release = json!({"workspace": "credit/prod", "name": "v2", "model": "risk"}).to_string();
    let made = service.post("/v1/releases", "application/json", None, &release);
    assert!(made.status == 201 || made.status == 409, "{}", made.text());
    post(&service, "/predictions", &predictions());
    let duel = json!({"name": "duel", "from": "2026-06-01", "to": "2026-06-01", "policy": "pairs", "releases": ["v1", "v2"]});
    assert_eq!(post(&service, "/reviews", &duel)["items"], 3);
    let browser = Browser::start();
    let page = format!("http://{}/#/w/credit/prod/arena?arena=duel", service.address());
    browser.open(&page);
    shown(&browser, "Arena of credit/prod");
    desk(&browser, "Which is better?");
    let text = browser.text(".desk");
    assert!(!text.contains("Release") && text.matches("https://example.com/a").count() == 1, "{text}");
    assert_eq!(browser.run("return document.querySelectorAll('main script, main img').length", &[]), 0);
    assert_ne!(browser.run("return document.title", &[]), "owned");
    let link = "return [...document.querySelectorAll('.desk a')].map((one) => one.rel + one.target).join()";
    assert_eq!(browser.run(link, &[]), "noopener noreferrer_blank");
    browser.picture("arena-pair");
    assert_eq!(browser.violations(), [""; 0]);
    // For the first release, by the arrow of its side.
    let keys = ["\u{e012}", "\u{e014}"];
    browser.press(keys[first_side(&browser)]);
    desk(&browser, "Answered");
    assert!(browser.text(".desk table").contains("v1"), "{}", browser.text(".desk"));
    browser.wait_for(
        "document.querySelector('[aria-label=\"Ranking\"] tbody').rows[0].textContent.startsWith('v1')",
        &[],
    );
    browser.press("n");
    desk(&browser, "Which is better?");
    browser.press("\u{e015}");
    desk(&browser, "Answered");
    // A guest has the third one.
    let next = post(&service, "/reviews/next", &json!({"review": "duel", "guest": "bob"}));
    let judge = format!("http://{}/#/judge/{}", service.address(), next["item"]["link"].as_str().unwrap());
    browser.open("about:blank");
    browser.open(&judge);
    desk(&browser, "Which is better?");
    assert_eq!(browser.violations(), [""; 0]);
    browser
        .click(&format!(".answers button[data-key='{}']", ["arrowleft", "arrowright"][first_side(&browser)]));
    desk(&browser, "Answered");
    browser.open("about:blank");
    browser.open(&page);
    shown(&browser, "Arena of credit/prod");
    browser.wait_for("document.querySelector('.desk h2')?.innerText === 'Compare'", &[]);
    assert!(browser.text(".desk").contains("Nothing of this arena is left for you."));
    browser.picture("arena");
    assert_eq!(browser.violations(), [""; 0]);
    assert_eq!(browser.console(), [""; 0]);
    let ranking = cells(&browser);
    assert_eq!(
        (&*ranking[0][0], &ranking[0][4..7]),
        ("v1", &["2".into(), "0".into(), "1".into()][..]),
        "{ranking:?}"
    );
    let told = service.get(&format!("{WORKSPACE}/reviews/ranking?review=duel")).json();
    assert_eq!((&told["votes"], &told["releases"][0]["release"]), (&json!(3), &json!("v1")));
    assert!(super::is_shown(&ranking[0][1], &told["releases"][0]["strength"]));
    let today =
        service.get("/v1/workspaces/credit/prod/reviews/answers").json()["to"].as_str().unwrap().to_owned();
    let votes = ndjson(service.get(&format!("{WORKSPACE}/metrics?from={today}&to={today}")).text());
    assert_eq!(votes.iter().filter(|vote| vote["name"] == "arena.duel").count(), 6, "two of each vote");
}
