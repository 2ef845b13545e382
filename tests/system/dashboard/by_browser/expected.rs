//! Expected metrics from scores, beside the realised ones.

use super::{is_shown, scene, shown};
use crate::{
    browser::Browser,
    support::{Running, alone, ndjson},
};

#[test]
fn what_was_expected_is_what_the_api_says() {
    let _alone = alone();
    let service = Running::start(scene(), &[], &[]);
    service.get_until("/readyz", |answer| answer.status == 200);
    let browser = Browser::start();
    browser.resize(1360, 1000);
    let asked = "from=2013-06-10&to=2013-07-07&period=week&reference=2013-04-01..2013-05-31";
    browser.open(&format!(
        "http://{}/#/w/flights/nyc/metrics?{asked}&metric=accuracy&expected=true",
        service.address()
    ));
    shown(&browser, "Performance");
    let script = "return [...document.querySelector('[aria-label=\"accuracy expected and realised\"] tbody').rows].map((row) => [...row.cells].map((cell) => cell.innerText))";
    let mut rows: Vec<Vec<String>> = serde_json::from_value(browser.run(script, &[])).unwrap();
    rows.reverse();
    assert_eq!(browser.text("[aria-label='accuracy expected and realised'] th"), "Week from");
    let columns = "day,release,accuracy_expected,accuracy,accuracy_gap";
    let told = service.get(&format!("/v1/workspaces/flights/nyc/estimates?{asked}&columns={columns}"));
    let told = ndjson(told.text());
    assert!(told.len() >= 4, "{told:?}");
    assert_eq!(rows.len(), told.len());
    for (row, told) in rows.iter().zip(&told) {
        assert_eq!([&*row[0], &*row[1]], [told["day"].as_str().unwrap(), told["release"].as_str().unwrap()]);
        for (cell, metric) in [(3, "accuracy_expected"), (4, "accuracy"), (5, "accuracy_gap")] {
            assert!(is_shown(&row[cell], &told[metric]), "{row:?} and {told}");
        }
    }
    assert_eq!(browser.console(), [""; 0]);
}
