//! State of the service on the page Operate.

use super::shown;
use crate::{
    browser::Browser,
    support::{Answer, Place, Running, alone},
};

#[test]
fn workers_are_those_of_the_api() {
    let _alone = alone();
    // A table of its own: a killed service of another test stays listed for an hour.
    let place = Place::sqlite();
    let service = Running::start(&place, &[], &[]);
    service.get_until("/readyz", |answer| answer.status == 200);
    let workers_of = |answer: &Answer| serde_json::from_str::<serde_json::Value>(answer.text()).unwrap();
    // Its first heartbeat comes before it reads the feed.
    let answer = service.get_until("/v1/workers", |answer| workers_of(answer)["workers"][0]["shards"] == 1);
    let answer = workers_of(&answer);
    let workers = answer["workers"].as_array().unwrap();
    // The worker of this test.
    assert_eq!(workers.len(), 1, "{answer}");
    assert!(workers[0]["heartbeat_seconds_ago"].as_f64().unwrap() >= 0.0, "{answer}");
    let browser = Browser::start();
    browser.open(&format!("http://{}/#/operate", service.address()));
    shown(&browser, "Operate");
    let names = "return [...document.querySelectorAll('[aria-label=\"Workers\"] tbody td:first-child')].map((cell) => cell.innerText)";
    assert_eq!(browser.run(names, &[]), serde_json::json!([workers[0]["worker"]]));
    assert_eq!(browser.console(), [""; 0]);
}
