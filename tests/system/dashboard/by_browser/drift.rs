//! Drift of a workspace that has few days.

use super::shown;
use crate::{
    browser::Browser,
    support::{Place, Running, alone, run_ok},
};

#[test]
fn few_days_are_compared_with_earlier_ones() {
    let _alone = alone();
    let place = Place::sqlite();
    run_ok(&place, &["demo", "--until", "2013-04-20"]);
    let service = Running::start(&place, &[], &[]);
    service.get_until("/readyz", |answer| answer.status == 200);
    let browser = Browser::start();
    let page = |chosen: &str| {
        browser.open("about:blank");
        browser.open(&format!("http://{}/#/w/flights/nyc/drift{chosen}", service.address()));
        shown(&browser, "Drift");
        assert_eq!(browser.violations(), [""; 0], "{chosen}");
    };
    page("");
    assert_eq!(browser.text(".card-head p"), "2013-04-11 to 2013-04-20 against 2013-04-01 to 2013-04-10");
    // Nothing is before the first day: the first half of the window is the reference, and of a single day it is said what can be chosen.
    page("?from=2013-04-01&to=2013-04-20");
    let half = "2013-04-01 to 2013-04-20 against 2013-04-01 to 2013-04-10, which share days";
    assert_eq!(browser.text(".card-head p"), half);
    page("?from=2013-04-01&to=2013-04-01");
    let says = browser.text(".empty");
    let none = "None of the 60 days before 2013-04-01 has predictions, and fewer than two days of the window have. Choose";
    assert!(says.starts_with(none), "{says}");
    page("?from=2013-04-01&to=2013-04-20&reference-from=2013-04-01&reference-to=2013-04-20");
    let same = "2013-04-01 to 2013-04-20 against 2013-04-01 to 2013-04-20, which share days";
    assert_eq!(browser.text(".card-head p"), same);
    assert_eq!(browser.console(), [""; 0]);
}
