//! Processes whose clock is ahead.

use std::{fs, io::Write as _, thread::sleep, time::Duration};

use crate::{
    clock::library,
    support::{Located as _, Place, Running, Store, on_both_engines, register, run_ok},
};

on_both_engines!(a_clock_ahead_decides_nothing_for_good);

/// For longer than an outcome waits.
const AHEAD_SECONDS: i64 = 91 * 24 * 60 * 60;

/// A service whose clock is months ahead when it starts: on DynamoDB it is not ready, and decides by the clock of the table. A file has no other clock: what
/// has expired waits again once the clock is right, whether a service sees it set back or starts later.
fn a_clock_ahead_decides_nothing_for_good(place: &Place) {
    let folder = tempfile::tempdir().unwrap();
    let (library, wrong_by) = (library(folder.path()), folder.path().join("clock"));
    fs::write(&wrong_by, 0_i64.to_ne_bytes()).unwrap();
    let set = |seconds: i64| {
        // In place: the process reads it through memory.
        let mut file = fs::OpenOptions::new().write(true).open(&wrong_by).unwrap();
        file.write_all(&(seconds * 1_000_000).to_ne_bytes()).unwrap();
    };
    let variables =
        [("LD_PRELOAD", library.to_str().unwrap()), ("ALMANAC_TEST_CLOCK", wrong_by.to_str().unwrap())];
    let service = Running::start(place, &[], &variables);
    register(&service);
    let observed = event::Clock::system().now();
    let outcome = format!(r#"{{"key":"k","observed_at":"{observed}","label":"default"}}"#);
    let posted = service.post("/v1/workspaces/credit/prod/outcomes", "application/x-ndjson", None, &outcome);
    assert_eq!(posted.status, 201, "{}", posted.text());
    until("waiting", || outcomes(place), WAITING);
    assert!(!service.stop().iter().any(|line| line.contains("set back")));
    let is_file = matches!(place.store(), Store::Sqlite(_));
    let log = folder.path().join("log");
    for is_seen in [true, false] {
        set(AHEAD_SECONDS);
        let service = Running::start_logging_to(place, fs::File::create(&log).unwrap(), &variables);
        if is_file {
            until("expired", || outcomes(place), r#""state": "expired""#);
        } else {
            let ready = service.get_until("/readyz", |answer| answer.text().contains("s ahead"));
            assert_eq!(ready.status, 503, "{}", ready.text());
        }
        if is_seen {
            set(0);
            service.get_until("/readyz", |answer| answer.status == 200);
            until("noticed", || fs::read_to_string(&log).unwrap(), "set back");
            until("waiting", || outcomes(place), WAITING);
        } else {
            drop(service);
            set(0);
            let service = Running::start(place, &[], &variables);
            service.get_until("/readyz", |answer| answer.status == 200);
            until("waiting", || outcomes(place), WAITING);
        }
    }
    run_ok(place, &["admin", "verify"]);
}

const WAITING: &str = r#""state": "waiting""#;

/// The one outcome, as it is.
fn outcomes(place: &Place) -> String {
    run_ok(place, &["outcome", "unmatched", "-w", "credit/prod", "--format", "json"])
}

/// Waits until a text has a part.
fn until(what: &str, text: impl Fn() -> String, part: &str) {
    for _ in 0..300 {
        if text().contains(part) {
            return;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("it is not {what}: {}", text());
}
