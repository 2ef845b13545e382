//! A year of twenty releases on one page.

use serde_json::{Value, json};

use super::shown;
use crate::{
    browser::Browser,
    support::{Place, Running, alone, run_ok},
};

const DAYS: usize = 365;
const RELEASES: usize = 20;

/// Days of 2025.
fn days() -> impl Iterator<Item = event::Day> {
    let window = event::Window::new("2025-01-01".parse().unwrap(), "2025-12-31".parse().unwrap()).unwrap();
    window.days().collect::<Vec<_>>().into_iter()
}

fn import(place: &Place, kind: &str, rows: impl Iterator<Item = Value>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{kind}.ndjson"));
    std::fs::write(&file, rows.map(|row| format!("{row}\n")).collect::<String>()).unwrap();
    run_ok(place, &["import", "-w", "credit/prod", "--kind", kind, file.to_str().unwrap()]);
}

#[test]
fn a_year_of_twenty_releases_is_shown() {
    let _alone = alone();
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    let model = ["model", "create", "risk", "-w", "credit/prod", "--task", "binary", "--positive-label", "1"];
    run_ok(&place, &model);
    let name = |release: usize| format!("r{release:02}");
    let registered = (0..RELEASES).map(|release| {
        json!({"release": name(release), "model": "risk", "action": "register", "released_at": "2025-01-01T00:00:00Z"})
    });
    import(&place, "releases", registered);
    let predicted = days().zip(0..).flat_map(|(day, number): (event::Day, usize)| {
        (0..RELEASES).map(move |release| {
            let score = ((number * 7 + release * 13) % 100) as f64 / 100.0;
            json!({"release": name(release), "key": "k", "predicted_at": format!("{day}T01:00:00Z"), "score": score})
        })
    });
    import(&place, "predictions", predicted);
    let came = days().zip(0..).map(|(day, number): (event::Day, usize)| {
        let label = if number % 3 == 0 { "1" } else { "0" };
        json!({"key": "k", "predicted_at": format!("{day}T01:00:00Z"), "observed_at": format!("{day}T02:00:00Z"), "label": label})
    });
    import(&place, "outcomes", came);
    run_ok(&place, &["admin", "rebuild", "-w", "credit/prod", "--share", "1"]);
    let service = Running::start(&place, &[], &[]);
    let browser = Browser::start();
    browser.resize(1360, 1000);
    let url = format!(
        "http://{}/#/w/credit/prod/metrics?from=2025-01-01&to=2025-12-31&metric=accuracy",
        service.address()
    );
    browser.open(&url);
    shown(&browser, "Performance");
    let lines =
        "return new Set([...document.querySelectorAll('.legend bdi')].map((one) => one.textContent)).size";
    assert_eq!(browser.run(lines, &[]), RELEASES);
    // With any number of releases, the chart stays below their names.
    let many = "const all = document.querySelector('.legend'); const names = [...all.children]; \
        for (let n = 0; n < 30; n++) all.append(...names.map((one) => one.cloneNode(true))); \
        const seen = all.clientHeight <= 200 && all.scrollHeight > 200 && all.tabIndex === 0; \
        all.replaceChildren(...names); return seen";
    assert_eq!(browser.run(many, &[]), true);
    let points = "return [...document.querySelectorAll('.stage path.line')].map((one) => one.getAttribute('d').split(/[ML]/).length - 1).reduce((a, b) => a + b, 0)";
    assert_eq!(browser.run(points, &[]), DAYS * RELEASES, "every day of every release");
    // A browser would take seconds to paint thousands of dashes.
    let dashed = "return Math.max(...[...document.querySelectorAll('.stage path.line')].map((one) => one.pathLength.baseVal || one.getTotalLength()))";
    assert!(browser.run(dashed, &[]).as_f64().unwrap() <= 3_000.0);
    let more = "return document.querySelector('.more')?.textContent";
    assert_eq!(browser.run(more, &[]), format!("Show all {} rows", DAYS * RELEASES));
    assert_eq!(browser.console(), [""; 0]);
    if std::env::var_os("ALMANAC_FIRST_PAINT").is_some() {
        tell_paints(&browser, &url);
    }
}

/// Prints the milliseconds until the page was painted with all its lines, from the beginning of its navigation on. The metric is
/// meaningful for a release build (`ALMANAC_BINARY`) on an idle machine.
fn tell_paints(browser: &Browser, url: &str) {
    // A frame is painted before a task that the frame itself requested.
    let painted = "const done = arguments[0]; const look = () => {
        const whole = !document.getElementById('main').hasAttribute('aria-busy') && document.querySelector('.stage path.line');
        requestAnimationFrame(whole ? () => setTimeout(() => done(performance.now())) : look);
    }; look();";
    let mut times: Vec<f64> = (0..11)
        .map(|_| {
            browser.open("about:blank");
            browser.open(url);
            browser.run_until_done(painted, &[]).as_f64().unwrap()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let [least, median, most] = [times[0], times[times.len() / 2], times[times.len() - 1]];
    println!(
        "first paint of {DAYS} days of {RELEASES} releases: {median:.0} ms ({least:.0} to {most:.0}, {} times)",
        times.len()
    );
}
