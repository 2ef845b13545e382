//! Two releases compared by the values of a tag.

use catalog::{Catalog, ReleaseSpec};
use event::Timestamp;
use serde_json::Value;

use super::{WORKSPACE, is_shown, scene, shown};
use crate::{
    browser::Browser,
    support::{Located as _, Place, Running, alone, block_on, ndjson, run_ok},
};

#[test]
fn tag_comparison_matches_the_api() {
    let _alone = alone();
    let service = Running::start(scene(), &[], &[]);
    let window = "from=2013-07-01&to=2013-07-08";
    let asked =
        format!("{WORKSPACE}/head-to-head?{window}&release=v2&against=v1&group-by=tag.carrier&period=all");
    let mut rows = ndjson(service.get(&asked).text());
    rows.sort_by_key(|row| std::cmp::Reverse(row["n"].as_u64()));
    assert!(rows.len() > 10, "{rows:?}");
    let browser = Browser::start();
    browser.open(&format!("http://{}/#/w/flights/nyc/compare?{window}", service.address()));
    shown(&browser, "Compare");
    // The tags to choose from are those that there are.
    let choose = "const choice = document.querySelector('form[aria-label=\"By which tag\"] select'); choice.value = arguments[0]; choice.dispatchEvent(new Event('change')); return choice.value";
    assert_eq!(browser.run(choose, &["tag.carrier".into()]), "tag.carrier");
    let table = "document.querySelector('[aria-label=\"Advantage by tag.carrier\"] tbody')";
    browser.wait_for(table, &[]);
    let read = format!("return [...{table}.rows].map((row) => [...row.cells].map((cell) => cell.innerText))");
    let cells: Vec<Vec<String>> = serde_json::from_value(browser.run(&read, &[])).unwrap();
    assert_eq!(cells.len(), rows.len());
    for row in &rows {
        let shown = cells.iter().find(|cells| row["tag.carrier"] == *cells[0]).unwrap();
        assert_eq!(shown[1].replace(',', ""), row["n"].to_string());
        for (shown, column) in shown[4..7].iter().zip(["advantage_so_far", "low_so_far", "high_so_far"]) {
            assert!(is_shown(shown, &row[column]), "{column}: {shown}, {}", row[column]);
        }
        let decided = row["decided_at"].as_str();
        let says = decided
            .map_or_else(|| "open".to_owned(), |day| format!("{}, {day}", row["winner"].as_str().unwrap()));
        assert_eq!(shown[7], says);
    }
    // A line for each of those with the most predictions, whose last point is what the table says.
    let lines = browser.run("return document.querySelectorAll('.multiples .multiple').length", &[]);
    assert_eq!(lines, 6);
    let days = ndjson(service.get(&asked.replace("&period=all", "")).text());
    let first = &rows[0];
    let last = days.iter().rfind(|row| row["tag.carrier"] == first["tag.carrier"]).unwrap();
    for column in ["advantage_so_far", "low_so_far", "high_so_far"] {
        let [whole, last] = [first, last].map(|row: &Value| row[column].as_f64().unwrap());
        assert!((whole - last).abs() < 1e-9, "{column}: {whole}, {last}");
    }
    assert_eq!(browser.console(), [""; 0]);
}

/// Ids of four milliseconds stand in no order; releases are shown in that in which they were made.
#[test]
fn releases_made_at_once_stand_in_their_order() {
    let _alone = alone();
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "flights/nyc"]);
    run_ok(
        &place,
        &["model", "create", "late", "-w", "flights/nyc", "--task", "binary", "--positive-label", "1"],
    );
    let made = ["v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8"];
    block_on(async {
        let catalog = Catalog::new(place.store().open().await);
        let workspace = catalog.workspace("flights/nyc").await.unwrap();
        for (micros, name) in made.iter().enumerate() {
            let (name, model) = ((*name).into(), "late".into());
            let spec = ReleaseSpec { name, model, configuration: None, environment: None };
            let at = Timestamp::from_micros(1_780_000_000_000_000 + micros as i64).unwrap();
            catalog.ensure_release(workspace.id(), &spec, at).await.unwrap();
        }
    });
    let service = Running::start(&place, &[], &[]);
    let browser = Browser::start();
    browser
        .open(&format!("http://{}/#/w/flights/nyc/compare?from=2013-07-01&to=2013-07-08", service.address()));
    shown(&browser, "Compare");
    let names = browser
        .run("return [...document.querySelector('#main select').options].map((one) => one.innerText)", &[]);
    assert_eq!(names, serde_json::json!(made));
    assert!(browser.text("h2").starts_with("Is v8 better than v7?"), "{}", browser.text("h2"));
    assert_eq!(browser.console(), [""; 0]);
}
