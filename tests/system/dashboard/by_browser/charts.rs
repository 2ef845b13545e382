//! Charts and windows: usual lengths, zoom, a legend that hides series, and a readout beside the lines.

use serde_json::json;

use super::{WORKSPACE, cells, scene, shown};
use crate::{
    browser::Browser,
    support::{Running, alone, ndjson},
};

/// Points of the first line between the ends of its chart.
const WITHIN: &str = "return [...document.querySelectorAll('.stage path.line')].map((one) => {
    const clip = one.closest('svg').querySelector('clipPath rect');
    const [from, to] = [Number(clip.getAttribute('x')), Number(clip.getAttribute('x')) + Number(clip.getAttribute('width'))];
    return one.getAttribute('d').split(/[ML]/).slice(1).map((place) => Number(place.split(' ')[0])).filter((x) => x >= from && x <= to).length;
})";

fn open(browser: &Browser, service: &Running, page: &str, heading: &str) {
    browser.open("about:blank");
    browser.open(&format!("http://{}/#/w/flights/nyc/{page}", service.address()));
    shown(browser, heading);
}

#[test]
fn usual_windows_end_with_the_last_predictions() {
    let _alone = alone();
    let service = Running::start(scene(), &[], &[]);
    service.get_until("/readyz", |answer| answer.status == 200);
    let browser = Browser::start();
    browser.resize(1360, 1000);
    open(&browser, &service, "metrics?metric=accuracy", "Performance");
    for (at, from) in [(0, "2013-07-03"), (1, "2013-06-10"), (2, "2013-04-11"), (3, "2013-04-01")] {
        let press = "document.querySelectorAll('.presets button')[arguments[0]].click()";
        browser.run(press, &[at.into()]);
        let is_pressed = "document.querySelectorAll('.presets button')[arguments[0]].ariaPressed === 'true' && !document.querySelector('[aria-busy]')";
        browser.wait_for(is_pressed, &[at.into()]);
        let days = "return [...document.querySelectorAll('input[type=date]')].map((one) => one.value)";
        assert_eq!(browser.run(days, &[]), json!([from, "2013-07-09"]));
        let asked = format!("{WORKSPACE}/evaluations?from={from}&to=2013-07-09");
        assert_eq!(cells(&browser).len(), ndjson(service.get(&asked).text()).len());
    }
    assert_eq!(browser.violations(), [""; 0]);
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn dragging_zooms_and_the_legend_hides() {
    let _alone = alone();
    let service = Running::start(scene(), &[], &[]);
    service.get_until("/readyz", |answer| answer.status == 200);
    let browser = Browser::start();
    browser.resize(1360, 1000);
    let window = "from=2013-06-09&to=2013-07-08";
    open(&browser, &service, &format!("metrics?{window}&metric=accuracy"), "Performance");
    let of = |release: &str| {
        ndjson(service.get(&format!("{WORKSPACE}/evaluations?{window}&release={release}")).text()).len()
    };
    browser.wait_for("document.querySelectorAll('.stage path.line').length === 2", &[]);
    assert_eq!(browser.run(WITHIN, &[]), json!([of("v1"), of("v2")]));
    let titles = "return ['.title-x', '.title-y'].map((one) => document.querySelector(one).textContent)";
    assert_eq!(browser.run(titles, &[]), json!(["day (UTC)", "accuracy"]));

    browser.drag(".stage", 0.3, 0.6);
    browser.wait_for("!document.querySelector('.reset').hidden", &[]);
    let zoomed = browser.run(WITHIN, &[])[0].as_u64().unwrap();
    assert!((5..15).contains(&zoomed), "a third of {} days: {zoomed}", of("v1"));
    assert_eq!(browser.violations(), [""; 0]);
    // The readout stands below the lines.
    let below = "const box = (one) => document.querySelector(one).getBoundingClientRect(); return box('.tip').top >= box('.stage svg').bottom - 1";
    browser.run("document.querySelector('.stage').focus()", &[]);
    browser.press("\u{E014}");
    assert_eq!(browser.run(below, &[]), true);
    browser.picture("zoomed");
    browser.click(".reset");
    assert_eq!(browser.run(WITHIN, &[]), json!([of("v1"), of("v2")]));

    browser.click(".legend button");
    assert_eq!(browser.run(WITHIN, &[]), json!([of("v2")]));
    assert_eq!(browser.run("return document.querySelector('.legend button').ariaPressed", &[]), "false");
    assert_eq!(browser.violations(), [""; 0]);
    browser.click(".legend button");
    assert_eq!(browser.run(WITHIN, &[]), json!([of("v1"), of("v2")]));
    assert_eq!(browser.console(), [""; 0]);
}
