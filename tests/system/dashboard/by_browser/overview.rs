//! The overview of a workspace, the tabs below it, and the first steps of who has nothing yet.

use std::{os::unix::fs::symlink, process::Command};

use serde_json::Value;

use super::{is_shown, scene, shown};
use crate::{
    browser::Browser,
    support::{Place, Running, almanac, alone, ndjson, run_ok},
};

const WORKSPACE: &str = "/v1/workspaces/flights/nyc";

/// Columns of the evaluation of a window.
const METRIC: &str = "columns=day,release,predictions,labelled,accuracy&release=v1&period=all";

/// Texts of all matches of a selector.
fn texts(browser: &Browser, selector: &str) -> Vec<String> {
    let script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)";
    serde_json::from_value(browser.run(script, &[selector.into()])).unwrap()
}

/// Text of the card with this title.
fn card(browser: &Browser, title: &str) -> String {
    let script = "return [...document.querySelectorAll('.cards .card')].find((one) => one.querySelector('h2').innerText === arguments[0])?.innerText ?? ''";
    browser.run(script, &[title.into()]).as_str().unwrap().to_owned()
}

/// Runs a text of the page in a shell, where `almanac` is the binary under test.
fn run_snippet(place: &Place, text: &str) {
    let folder = tempfile::tempdir().unwrap();
    symlink(almanac(place, &[]).get_program(), folder.path().join("almanac")).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let output =
        Command::new("sh").args(["-c", text]).env("PATH", path).current_dir(&folder).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("\"status\":4"), "{text}: {said}");
}

fn row(service: &Running, path: &str) -> Value {
    ndjson(service.get(&format!("{WORKSPACE}/{path}")).text()).remove(0)
}

/// The metric of both periods and how many labels have come, as the API tells them; `now` is the evaluation of the later one.
fn shows_primary_metric(browser: &Browser, service: &Running, now: &Value) {
    let before = row(service, &format!("evaluations?from=2013-04-22&to=2013-05-21&{METRIC}"));
    assert!(is_shown(&browser.text(".headline .big"), &now["accuracy"]), "{now}");
    assert!(is_shown(&browser.text(".headline .before"), &before["accuracy"]), "{before}");
    let labelled = format!("of {} labelled", now["labelled"]);
    assert!(browser.text(".headline").replace(',', "").contains(&labelled), "{}", browser.text(".headline"));
    let last = row(service, &format!("evaluations?from=2013-06-14&to=2013-06-20&{METRIC}"));
    let share = last["labelled"].as_f64().unwrap() / last["predictions"].as_f64().unwrap();
    assert_eq!(browser.text(".completeness"), format!("{:.0} %", share * 100.0));
}

#[test]
fn overview_shows_what_the_api_says() {
    let _alone = alone();
    let place = Place::sqlite();
    run_ok(&place, &["demo", "--until", "2013-06-20"]);
    run_ok(
        &place,
        &[
            "model",
            "define",
            "flights/nyc/late-arrival",
            "--dimension",
            "tag.carrier",
            "--from",
            "2013-04-01",
        ],
    );
    let service = Running::start(&place, &[], &[]);
    let now = row(&service, &format!("evaluations?from=2013-05-22&to=2013-06-20&{METRIC}"));
    let asked = format!("{WORKSPACE}/slices?from=2013-05-22&to=2013-06-20&release=v1&metric=accuracy");
    // Every day is evaluated again by the new definition.
    let slices = service.get_until(&asked, |answer| {
        let rows = ndjson(answer.text());
        rows.iter().map(|row| row["n"].as_u64().unwrap()).sum::<u64>() == now["labelled"]
    });
    let browser = Browser::start();
    browser.resize(1360, 1000);
    browser.open(&format!("http://{}/", service.address()));
    shown(&browser, "Overview of flights/nyc");

    shows_primary_metric(&browser, &service, &now);
    let worst = ndjson(slices.text()).into_iter().find(|row| row["n"].as_u64() >= Some(30)).unwrap();
    assert_eq!(browser.text(".worst strong"), worst["slice"].as_str().unwrap());
    assert!(is_shown(&browser.text(".worst .big"), &worst["value"]), "{worst}");
    let asked = format!(
        "{WORKSPACE}/drift?from=2013-05-22&to=2013-06-20&reference=2013-04-01..2013-05-21&period=all"
    );
    let mut drift = ndjson(service.get(&asked).text());
    drift.retain(|row| row["release"].is_null() && row["js_distance"].is_number());
    drift.sort_by(|a, b| b["js_distance"].as_f64().unwrap().total_cmp(&a["js_distance"].as_f64().unwrap()));
    let most = format!(
        "{} moved most, by {:.4}",
        drift[0]["column"].as_str().unwrap(),
        drift[0]["js_distance"].as_f64().unwrap()
    );
    assert!(card(&browser, "Drift").contains(&most), "{most}: {}", card(&browser, "Drift"));

    let live = service.get(&format!("{WORKSPACE}/live")).json();
    let since = live["live"][0]["since"].as_str().unwrap()[..16].replace('T', " ");
    assert!(
        card(&browser, "Live").contains(&format!("v1 of late-arrival in production\nsince {since} UTC")),
        "{}",
        card(&browser, "Live")
    );
    let changes = texts(&browser, ".timeline .badge");
    assert_eq!(changes, ["defined", "promoted", "registered"], "{changes:?}");
    // No rule is no good news.
    let good = "[...document.querySelectorAll('.health .badge.good')].map((one) => one.innerText).join() === 'up to date'";
    browser.wait_for(good, &[]);
    assert_eq!(browser.violations(), [""; 0]);

    // A rule, by the command that the page names; it appears without a reload.
    run_snippet(&place, &browser.text(".health pre"));
    browser
        .wait_for("document.querySelector('.health').innerText.includes('1 rule, not evaluated yet')", &[]);
    assert_eq!(browser.console(), [""; 0]);
}

/// From nothing to a metric by what the pages say, and by nothing else.
#[test]
fn first_steps_of_the_page_run() {
    let _alone = alone();
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    let base = format!("http://{}/", service.address());
    let browser = Browser::start();
    browser.resize(1360, 1000);
    browser.open(&base);
    shown(&browser, "There is no workspace yet");
    assert_eq!(browser.violations(), [""; 0]);
    let run = |count: usize| {
        let steps = texts(&browser, "main .way pre");
        assert!(steps[count].starts_with("import almanac_ml"), "{steps:?}");
        for step in &steps[..count] {
            run_snippet(&place, step);
        }
    };
    run_snippet(&place, &texts(&browser, "main .way pre")[0]);
    browser.open("about:blank");
    browser.open(&base);
    shown(&browser, "Overview of credit/prod");
    assert!(card(&browser, "Send the first prediction").contains("Release"));
    run(4);
    browser.wait_for("document.querySelector('.headline')?.innerText.includes('of 1 labelled')", &[]);
    assert_eq!(browser.text(".headline .big.few"), "1.0000");
    assert_eq!(browser.console(), [""; 0]);
}

/// Pages, by old addresses too: the heading, the tab, and the link below it.
const ADDRESSES: [(&str, &str, &str, &str); 12] = [
    ("", "Overview", "Overview", ""),
    ("/metrics", "Performance", "Performance", "Over time"),
    ("/day?day=2013-07-05", "Day", "Performance", "Day"),
    ("/review", "Review", "Performance", "Review"),
    ("/sql", "SQL", "Performance", "SQL"),
    ("/slices", "Slices", "Slices & drift", "Slices"),
    ("/drift", "Drift", "Slices & drift", "Drift"),
    ("/compare", "Compare", "Compare", "Releases"),
    ("/arena", "Arena", "Compare", "Arena"),
    ("/alerts", "Alerts", "Alerts", "Rules"),
    ("/operate", "Operate", "Alerts", "Service"),
    ("/catalog", "Catalog", "Catalog", ""),
];

#[test]
fn six_tabs_lead_everywhere_on_phones_too() {
    let _alone = alone();
    let service = Running::start(scene(), &[], &[]);
    service.get_until("/readyz", |answer| answer.status == 200);
    let base = format!("http://{}/", service.address());
    let browser = Browser::start();
    browser.resize(500, 900);
    for (page, heading, tab, below) in ADDRESSES {
        browser.open("about:blank");
        browser.open(&format!("{base}#/w/flights/nyc{page}"));
        shown(&browser, heading);
        let tabs = texts(&browser, ".tabs a");
        assert_eq!(tabs, ["Overview", "Performance", "Slices & drift", "Compare", "Alerts", "Catalog"]);
        assert_eq!(browser.text(".tabs [aria-current]"), tab, "{page}");
        assert_eq!(browser.text(".under [aria-current]"), below, "{page}");
        let is_seen = "[...document.querySelectorAll('nav [aria-current]')].every((one) => { const box = one.getBoundingClientRect(); return box.left >= 0 && box.right <= innerWidth; })";
        browser.wait_for(is_seen, &[]);
    }
    // Old addresses of no workspace; the choice of another workspace stays on the page.
    for page in ["#/workspaces", "#/"] {
        browser.open("about:blank");
        browser.open(&format!("{base}{page}"));
        shown(&browser, "Overview of flights/nyc");
    }
    browser.run("location.hash = '#/w/flights/nyc/alerts'", &[]);
    shown(&browser, "Alerts of flights/nyc");
    browser.run("const choice = document.getElementById('workspace'); choice.value = 'training/trees'; choice.dispatchEvent(new Event('change'))", &[]);
    shown(&browser, "Alerts of training/trees");
    let version = format!("Help, {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(browser.text("a[href='#/help']"), version);
    assert_eq!(browser.console(), [""; 0]);
}
