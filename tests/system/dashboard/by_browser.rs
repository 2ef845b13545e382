//! Pages in chromium, compared with the answers of the API.

use std::sync::OnceLock;

use serde_json::Value;

use crate::{
    browser::Browser,
    support::{Answer, Place, Running, alone, ndjson, run_ok},
};

mod absent;
mod arena;
mod charts;
mod drift;
mod expected;
mod hostile;
mod operate;
mod overview;
mod parts;
mod review;
mod runs;
mod session;
mod slices;
mod trial;
mod year;

const WORKSPACE: &str = "/v1/workspaces/flights/nyc";
const WINDOW: &str = "from=2013-06-20&to=2013-07-08";

/// Pages: the name of the picture, the heading, and the address.
const PAGES: [(&str, &str, &str); 21] = [
    ("overview", "Overview of flights/nyc", "#/w/flights/nyc"),
    ("help", "Help", "#/help"),
    ("metrics", "Performance", "#/w/flights/nyc/metrics?from=2013-06-20&to=2013-07-08&metric=accuracy"),
    ("weeks", "Performance", "#/w/flights/nyc/metrics?from=2013-06-20&to=2013-07-08&metric=auc&period=week"),
    ("interval", "Performance", "#/w/flights/nyc/metrics?from=2013-07-01&to=2013-07-03&interval=true"),
    (
        "expected",
        "Performance",
        "#/w/flights/nyc/metrics?from=2013-06-20&to=2013-07-08&metric=accuracy&period=week&expected=true&reference=2013-05-01..2013-06-15",
    ),
    ("day", "Day", "#/w/flights/nyc/day?day=2013-07-05&release=v2&bin=4"),
    ("compare", "Compare", "#/w/flights/nyc/compare?from=2013-07-01&to=2013-07-08"),
    ("weakest", "Slices", "#/w/flights/nyc/slices?from=2013-07-01&to=2013-07-08"),
    ("by-tag", "Compare", "#/w/flights/nyc/compare?from=2013-07-01&to=2013-07-08&group-by=tag.carrier"),
    ("drift", "Drift", "#/w/flights/nyc/drift?from=2013-07-01&to=2013-07-08"),
    ("alerts", "Alerts", "#/w/flights/nyc/alerts"),
    ("review", "Review", "#/w/flights/nyc/review"),
    ("arena", "Arena", "#/w/flights/nyc/arena"),
    ("runs", "Runs", "#/w/training/trees/runs"),
    ("run", "Run of", "#/w/training/trees/run?run=2NBs0tD5Ihm2PVFzM3kZvMYdQX2"),
    (
        "compared",
        "Compared runs",
        "#/w/training/trees/compared?runs=2NBs0tD5Ihm2PVFzM3kZvMYdQX1,2NBs0tD5Ihm2PVFzM3kZvMYdQX2&whole=true",
    ),
    ("catalog", "Catalog", "#/w/flights/nyc/catalog"),
    ("sql", "SQL", "#/w/flights/nyc/sql"),
    (
        "asked",
        "SQL",
        "#/w/flights/nyc/sql?sql=select+day,+release,+auc+from+evaluations+where+day+>+'2013-07-01'+order+by+day,+release",
    ),
    ("operate", "Operate", "#/operate"),
];

/// Three months of the demo, and some runs, made once for these tests.
fn scene() -> &'static Place {
    static SCENE: OnceLock<Place> = OnceLock::new();
    SCENE.get_or_init(|| {
        let place = Place::sqlite();
        run_ok(&place, &["demo", "--until", "2013-07-09"]);
        runs::train(&place);
        place
    })
}

/// Waits until the page shows this heading, and all its cards are filled.
fn shown(browser: &Browser, heading: &str) {
    browser.wait_for(
        "!document.querySelector('[aria-busy]') && document.querySelector('h1')?.innerText.startsWith(arguments[0])",
        &[heading.into()],
    );
}

/// Cells of the first table, by row.
fn cells(browser: &Browser) -> Vec<Vec<String>> {
    let script = "return [...document.querySelector('table').tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.innerText))";
    serde_json::from_value(browser.run(script, &[])).unwrap()
}

/// Returns whether a text shows this number, to four places.
fn is_shown(text: &str, number: &Value) -> bool {
    match number.as_f64() {
        None => text == "–",
        Some(number) => {
            let text: f64 = text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text} is no number"));
            (text - number).abs() <= 0.000_050_1
        }
    }
}

#[test]
fn every_page_shows_api_answers_in_both_themes() {
    let _alone = alone();
    let place = scene();
    let service = Running::start(place, &[], &[]);
    service.get_until("/readyz", |answer| answer.status == 200);
    let base = format!("http://{}/", service.address());
    let browser = Browser::start();
    let mut looked_at = 0;
    for (theme, width, height) in
        [("light", 1360, 1000), ("dark", 1360, 1000), ("light", 500, 900), ("dark", 500, 900)]
    {
        browser.resize(width, height);
        browser.open(&base);
        browser.run("localStorage.setItem('almanac-theme', arguments[0])", &[theme.into()]);
        for (name, heading, hash) in PAGES {
            browser.open("about:blank");
            browser.open(&format!("{base}{hash}"));
            shown(&browser, heading);
            browser.picture(&format!("{name}-{theme}-{width}"));
            assert_eq!(browser.violations(), [""; 0], "{name} {theme} {width}");
            assert_eq!(browser.console(), [""; 0], "{name} {theme} {width}");
            let wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(browser.run(wide, &[]), 0, "{name} is wider than the window of {width}");
            let raw = "const main = document.querySelector('main').cloneNode(true);
                main.querySelectorAll('pre, textarea').forEach((one) => one.remove());
                return /`|{\"|T\\d\\d:\\d\\d:\\d\\d\\.\\d+Z/.exec(main.textContent)?.[0] ?? ''";
            assert_eq!(browser.run(raw, &[]), "", "{name} shows what is for machines");
            looked_at += 1;
        }
    }
    assert_eq!(looked_at, 4 * PAGES.len());
}

#[test]
fn metrics_are_those_of_the_api() {
    let _alone = alone();
    let place = scene();
    let service = Running::start(place, &[], &[]);
    service.get_until("/readyz", |answer| answer.status == 200);
    let base = format!("http://{}/", service.address());
    let browser = Browser::start();
    browser.resize(1360, 1000);

    for (metric, group) in [("accuracy", "day"), ("auc", "day"), ("log_loss", "week"), ("mcc", "day")] {
        let hash = format!("#/w/flights/nyc/metrics?{WINDOW}&metric={metric}&period={group}");
        browser.open("about:blank");
        browser.open(&format!("{base}{hash}"));
        shown(&browser, "Performance");
        let rows = ndjson(service.get(&format!("{WORKSPACE}/evaluations?{WINDOW}&period={group}")).text());
        let shown = cells(&browser);
        assert_eq!(shown.len(), rows.len());
        for (shown, row) in shown.iter().zip(rows.iter().rev()) {
            assert_eq!(shown[0], row["day"].as_str().unwrap());
            assert_eq!(shown[1], row["release"].as_str().unwrap());
            assert_eq!(shown[2].replace(',', ""), row["labelled"].to_string());
            assert!(is_shown(&shown[3], &row[metric]), "{metric}: {shown:?}, {}", row[metric]);
        }
    }
    // The line of a release has as many points as there are days with a metric; the promotion is marked.
    browser.open(&format!("{base}#/w/flights/nyc/metrics?{WINDOW}&metric=accuracy"));
    browser.wait_for("document.querySelector('h2')?.innerText === 'accuracy'", &[]);
    let days = ndjson(service.get(&format!("{WORKSPACE}/evaluations?{WINDOW}&release=v1")).text()).len();
    let points = browser
        .run("return document.querySelector('path.line.c0').getAttribute('d').split(/[ML]/).length - 1", &[]);
    assert_eq!(points, days);
    assert!(browser.text(".mark-text").starts_with("v2 live"), "{}", browser.text("svg"));

    // As known on a day: by the address, and equal to the API.
    let asked = format!("{WORKSPACE}/evaluations?{WINDOW}&as-of=2013-06-23");
    let rows = ndjson(service.get(&asked).text());
    browser.open(&format!("{base}#/w/flights/nyc/metrics?{WINDOW}&metric=accuracy&as-of=2013-06-23"));
    browser.wait_for("document.querySelector('output')?.innerText === '2013-06-23' && !document.querySelector('[aria-busy]')", &[]);
    let shown = cells(&browser);
    assert_eq!(shown.len(), rows.len());
    assert!(shown.iter().zip(rows.iter().rev()).all(|(shown, row)| is_shown(&shown[3], &row["accuracy"])));
    assert_eq!(browser.console(), [""; 0]);
}

/// The point of a week stands at its first day, and its shade begins there.
#[test]
fn immature_week_is_shaded_over_its_whole_length() {
    let _alone = alone();
    let service = Running::start(scene(), &[], &[]);
    service.get_until("/readyz", |answer| answer.status == 200);
    let browser = Browser::start();
    browser.resize(1360, 1000);
    let asked = "from=2013-06-10&to=2013-07-08&period=week&as-of=2013-07-02";
    let weeks = ndjson(service.get(&format!("{WORKSPACE}/evaluations?{asked}&release=v1")).text());
    let immature = weeks.iter().filter(|row| row["maturity"].as_f64().is_some_and(|share| share < 0.9));
    assert_eq!(immature.map(|row| &row["day"]).collect::<Vec<_>>(), ["2013-07-01"]);
    browser.open(&format!("http://{}/#/w/flights/nyc/metrics?{asked}", service.address()));
    shown(&browser, "Performance");
    let ends = "const shade = document.querySelector('.stage rect.shade'); const from = Number(shade.getAttribute('x'));
        const day = (text) => Number([...document.querySelectorAll('.stage text.tick')].find((one) => one.textContent === text).getAttribute('x'));
        return [from, from + Number(shade.getAttribute('width')), day('1 Jul'), day('8 Jul')].map(Math.round)";
    let [from, to, first, next]: [i64; 4] = serde_json::from_value(browser.run(ends, &[])).unwrap();
    assert_eq!((from, to), (first, next));
    assert_eq!(browser.text("th"), "Week from");
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn the_keyboard_does_what_the_pointer_does() {
    let _alone = alone();
    let place = scene();
    let service = Running::start(place, &[], &[]);
    let base = format!("http://{}/", service.address());
    let browser = Browser::start();
    browser.open(&format!("{base}#/w/flights/nyc/metrics?{WINDOW}&metric=accuracy"));
    shown(&browser, "Performance");
    browser.press("\u{E004}");
    assert_eq!(browser.run("return document.activeElement.id", &[]), "skip");
    browser.press("\u{E007}");
    assert_eq!(browser.run("return document.activeElement.id", &[]), "main");
    // On a chart the arrow keys read point after point.
    browser.run("document.querySelector('.stage').focus()", &[]);
    browser.press("\u{E014}");
    browser.press("\u{E014}");
    let first = ndjson(service.get(&format!("{WORKSPACE}/evaluations?{WINDOW}&release=v1")).text()).remove(1);
    let said = browser.text(".tip");
    assert!(said.contains(first["day"].as_str().unwrap()), "{said}");
    assert!(said.contains(&format!("{:.4}", first["accuracy"].as_f64().unwrap())), "{said}");
    // The request in other forms; the one for curl has the answer shown.
    browser.click("details.share summary");
    let ways = browser.text(".ways");
    assert!(
        ways.contains("almanac query evaluations -w flights/nyc --from 2013-06-20 --to 2013-07-08"),
        "{ways}"
    );
    let curl = browser.run("return [...document.querySelectorAll('.way pre')].at(-1).innerText", &[]);
    let path =
        curl.as_str().unwrap().trim_matches(|sign| sign == '\'').split_once(&service.address()).unwrap().1;
    let answer: Answer = service.get(path.trim_end_matches('\''));
    assert_eq!((answer.status, ndjson(answer.text()).len()), (200, cells(&browser).len()));
    assert_eq!(browser.console(), [""; 0]);
}

/// A day: its confusion matrices, the bins of scores and the predictions of one bin.
#[test]
fn a_day_is_that_of_the_api() {
    let _alone = alone();
    let place = scene();
    let service = Running::start(place, &[], &[]);
    service.get_until("/readyz", |answer| answer.status == 200);
    let base = format!("http://{}/", service.address());
    let browser = Browser::start();
    browser.resize(1360, 1000);
    browser.open(&format!("{base}#/w/flights/nyc/metrics?{WINDOW}&metric=accuracy"));
    shown(&browser, "Performance");
    // From a day in the table to the page of the day.
    browser.click("td a[href*='2013-07-05']");
    shown(&browser, "Day");
    let all = ndjson(service.get(&format!("{WORKSPACE}/confusion?from=2013-07-05&to=2013-07-05")).text());
    let read = "return [...document.querySelectorAll('.matrix')].map((one) => [one.caption.innerText, [...one.tHead.rows[0].cells].slice(1).map((cell) => cell.innerText), [...one.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.innerText))])";
    let matrices: Vec<(String, Vec<String>, Vec<Vec<String>>)> =
        serde_json::from_value(browser.run(read, &[])).unwrap();
    let mut compared = 0;
    for (release, predicted, rows) in &matrices {
        for row in rows {
            for (predicted, count) in predicted.iter().zip(&row[1..]) {
                let is_it = |one: &&Value| {
                    one["release"] == **release && one["truth"] == *row[0] && one["predicted"] == **predicted
                };
                let there = all.iter().find(is_it).map_or(0, |one| one["count"].as_u64().unwrap());
                assert_eq!(
                    count.replace(',', ""),
                    there.to_string(),
                    "{release}: {} for {predicted}",
                    row[0]
                );
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 8);
    // All predictions of the release with a score are in a bin; the list of a bin is as long as its count.
    let row = &ndjson(
        service.get(&format!("{WORKSPACE}/evaluations?from=2013-07-05&to=2013-07-05&release=v2")).text(),
    )[0];
    let bins = cells(&browser);
    let sum: u64 = bins.iter().map(|bin| bin[1].replace(',', "").parse::<u64>().unwrap()).sum();
    assert_eq!(sum, row["predictions"]);
    let bin =
        bins.iter().find(|bin| bin[1].parse::<u64>().is_ok_and(|rows| (2..100).contains(&rows))).unwrap();
    browser.run(
        "[...document.querySelectorAll('td a')].find((one) => one.innerText === arguments[0]).click()",
        &[bin[0].as_str().into()],
    );
    browser.wait_for("[...document.querySelectorAll('h2')].some((one) => one.innerText.startsWith('Predictions with a score')) && !document.querySelector('[aria-busy]')", &[]);
    let behind =
        "return document.querySelector('[aria-label=\"Predictions behind the bar\"] tbody').rows.length";
    assert_eq!(browser.run(behind, &[]).to_string(), bin[1]);
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn a_comparison_is_that_of_the_api() {
    let _alone = alone();
    let place = scene();
    let service = Running::start(place, &[], &[]);
    let base = format!("http://{}/", service.address());
    let browser = Browser::start();
    let asked = format!("{WORKSPACE}/head-to-head?from=2013-07-01&to=2013-07-08&release=v2&against=v1");
    let rows = ndjson(service.get(&asked).text());
    browser.open(&format!("{base}#/w/flights/nyc/compare?from=2013-07-01&to=2013-07-08"));
    browser.wait_for("document.querySelector('h2')?.innerText === 'Is v2 better than v1?'", &[]);
    for (shown, row) in cells(&browser).iter().zip(rows.iter().rev()) {
        assert_eq!(shown[0], row["day"].as_str().unwrap());
        for (shown, column) in shown[1..4].iter().zip(["advantage_so_far", "low_so_far", "high_so_far"]) {
            assert!(is_shown(shown, &row[column]), "{column}: {shown}, {}", row[column]);
        }
    }
    let last = rows.last().unwrap();
    for says in [
        format!("Verdict\n{}", last["winner"].as_str().unwrap()),
        format!("is better, decided on {}", last["decided_at"].as_str().unwrap()),
    ] {
        assert!(browser.text(".stats").contains(&says), "{says}: {}", browser.text(".stats"));
    }
    let wins: u64 = rows.iter().map(|row| row["wins"].as_u64().unwrap()).sum();
    assert!(
        browser.text(".stats").replace(',', "").contains(&format!("v2 wins\n{wins}")),
        "{}",
        browser.text(".stats")
    );
    assert_eq!(browser.console(), [""; 0]);
}
