//! `almanac admin doctor` finds nothing in a sound installation, and each fault with its remedy.

use std::{collections::BTreeMap, fs, thread::sleep, time::Duration};

use log::{key, scan};
use serde_json::Value;
use table::{Condition, item};

use crate::{
    clock,
    support::{Located, Place, Running, almanac, block_on, on_both_engines, run_ok},
};

on_both_engines!(
    what_is_well_has_no_fault,
    missing_table_is_a_fault,
    a_setting_that_is_refused_is_a_fault,
    unreadable_segment_is_a_fault,
    doctor_compares_clock_with_the_table,
);

/// Findings by check: level, observation, remedy.
type Findings = BTreeMap<String, (String, String, String)>;

/// Findings, and the exit code.
fn doctor(place: &Place, variables: &[(&str, &str)]) -> (Findings, Option<i32>) {
    let mut command = almanac(place, &["admin", "doctor", "--format", "json"]);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("JSON: {error}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings: Findings = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(&one["check"]), (text(&one["level"]), text(&one["what"]), text(&one["remedy"]))))
        .collect();
    for (check, (level, what, remedy)) in &findings {
        assert!(
            !what.is_empty() && remedy.is_empty() == (level == "ok"),
            "{check}: {level}, {what}, {remedy}"
        );
    }
    let is_well = findings.values().all(|(level, ..)| level != "fault");
    assert_eq!(found["is_well"], is_well);
    assert_eq!(output.status.code(), Some(if is_well { 0 } else { 1 }), "{findings:?}");
    (findings, output.status.code())
}

fn what_is_well_has_no_fault(place: &Place) {
    run_ok(place, &["demo", "--until", "2013-04-01"]);
    let service = Running::start(place, &[], &[]);
    for _ in 0..100 {
        if run_ok(place, &["status", "--format", "json"]).contains("\"sweeper\": \"") {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    let (mut findings, code) = doctor(place, &[]);
    assert_eq!(code, Some(0), "{findings:?}");
    // The free space in a test is unknown; a table elsewhere has no disk.
    let disk = findings.remove("disk");
    let is_file = place_is_file(place);
    assert_eq!(disk.is_some(), is_file);
    let checks = [
        "clock",
        "dead letters",
        "lag",
        "layout",
        "permissions",
        "projector",
        "settings",
        "skipped",
        "stream",
        "sweeps",
        "table",
        "times",
        "versions",
    ];
    assert_eq!(findings.keys().collect::<Vec<_>>(), checks);
    assert!(findings.values().all(|(level, ..)| level == "ok"), "{findings:?}");
    assert!(findings["versions"].1.contains(env!("CARGO_PKG_VERSION")), "{findings:?}");
    assert!(run_ok(place, &["admin", "doctor"]).contains("faults: 0"));
    drop(service);
}

fn place_is_file(place: &Place) -> bool {
    run_ok(place, &["admin", "table", "describe"]).contains("SQLite")
}

fn missing_table_is_a_fault(place: &Place) {
    run_ok(place, &["admin", "table", "create"]);
    let described = run_ok(place, &["admin", "table", "describe"]);
    let name = described.lines().find_map(|line| line.strip_prefix("table")).unwrap().trim().to_owned();
    run_ok(place, &["admin", "table", "delete", "--confirm", &name]);
    let (findings, _) = doctor(place, &[]);
    let (level, what, remedy) = &findings["table"];
    assert!(level == "fault" && what.starts_with("there is no "), "{what}");
    assert!(remedy.contains("`almanac "), "{remedy}");
    assert!(!findings.contains_key("lag"), "there is nothing to lag");
}

fn a_setting_that_is_refused_is_a_fault(place: &Place) {
    let (findings, _) = doctor(place, &[("ALMANAC_QUERY_MEMORY", "blue")]);
    let (level, what, _) = &findings["settings"];
    assert!(level == "fault" && what.contains("ALMANAC_QUERY_MEMORY") && what.contains("blue"), "{what}");
    assert_eq!(findings.len(), 1);
}

/// Appends a day while no projector runs, damages its segment, and lets a projector find that.
fn unreadable_segment_is_a_fault(place: &Place) {
    run_ok(place, &["workspace", "create", "credit/prod"]);
    run_ok(place, &["model", "create", "risk", "-w", "credit/prod", "--task", "regression"]);
    run_ok(place, &["release", "create", "v1", "--model", "risk", "-w", "credit/prod"]);
    let file = tempfile::Builder::new().suffix(".ndjson").tempfile().unwrap();
    let row = r#"{"key":"a","predicted_at":"2026-06-01T05:30:00Z","release":"v1","value":0.2}"#;
    fs::write(file.path(), row).unwrap();
    run_ok(place, &["import", file.path().to_str().unwrap(), "-w", "credit/prod", "-k", "predictions"]);
    block_on(async {
        let table = place.store().open().await;
        let workspace = catalog::Catalog::new(table.clone()).workspace("credit/prod").await.unwrap();
        let heads = scan::heads(&*table, workspace.id()).await.unwrap();
        let head = heads.iter().find(|head| head.log.kind == event::Kind::Predictions).unwrap();
        let item = table.get(&key::segment(&head.log, head.seq)).await.unwrap().unwrap();
        table.put(item.with("data", item::Value::B(vec![1, 2, 3])), Condition::Exists).await.unwrap();
    });
    let service = Running::start(place, &[], &[]);
    for _ in 0..300 {
        if run_ok(place, &["status", "--format", "json"]).contains("\"dead_letters\": 1") {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    let (findings, code) = doctor(place, &[]);
    let (level, what, remedy) = &findings["dead letters"];
    assert!(
        level == "fault" && what == "credit/prod 1" && remedy.contains("almanac admin dead-letters list"),
        "{findings:?}"
    );
    assert_eq!(code, Some(1));
    let said = almanac(place, &["admin", "doctor"]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("dead letters") && said.contains("to do") && said.contains("faults: 1"), "{said}");
    drop(service);
}

/// DynamoDB dates its answers; a file always has the clock of this machine.
fn doctor_compares_clock_with_the_table(place: &Place) {
    run_ok(place, &["admin", "table", "create"]);
    let folder = tempfile::tempdir().unwrap();
    let (library, wrong_by) = (clock::library(folder.path()), folder.path().join("clock"));
    let is_file = place_is_file(place);
    for (seconds, wanted) in [(0_i64, "ok"), (6, "warning"), (-60, "fault")] {
        fs::write(&wrong_by, (seconds * 1_000_000).to_ne_bytes()).unwrap();
        let library = library.to_str().unwrap();
        let variables = [("LD_PRELOAD", library), ("ALMANAC_TEST_CLOCK", wrong_by.to_str().unwrap())];
        let (findings, _) = doctor(place, &variables);
        let (level, what, remedy) = &findings["clock"];
        assert_eq!(level, if is_file { "ok" } else { wanted }, "{seconds} s: {what}; {remedy}");
    }
}
