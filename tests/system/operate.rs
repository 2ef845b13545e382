//! Work of an operator: to look at the status, deal with a segment that cannot be read, and rebuild.

use crate::support::{Answer, Located, Place, Running, Service, block_on, ndjson, register, run, run_ok};
use catalog::Catalog;
use log::{key, scan};
use serde_json::Value;
use table::{Condition, item};

const NDJSON: &str = "application/x-ndjson";
const WORKSPACE: &str = "/v1/workspaces/credit/prod";

/// Posts one prediction on each of two days.
fn predict(service: &Service, key: &str) {
    let row = |day: u8| {
        format!(r#"{{"key":"{key}","predicted_at":"2026-06-0{day}T04:30:00Z","release":"v1","score":0.9}}"#)
    };
    let body = [row(1), row(2)].join("\n");
    let answer = service.post(&format!("{WORKSPACE}/predictions"), NDJSON, Some(key), &body);
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// The predictions of each of the two days, as the rollups say.
fn counts(text: &str) -> Vec<u64> {
    let rows = ndjson(text);
    let whole = rows.iter().filter(|row| row["release"].is_null());
    whole.map(|row| row["predictions"].as_u64().unwrap()).filter(|count| *count > 0).collect()
}

fn wait_for(service: &Service, wanted: &[u64]) {
    let path = format!("{WORKSPACE}/rollups?from=2026-06-01&to=2026-06-02");
    service.get_until(&path, |answer| counts(answer.text()) == wanted);
}

fn status(place: &Place) -> Value {
    serde_json::from_str(&run_ok(place, &["status", "--format", "json"])).unwrap()
}

/// Damages the newest segment of the first day; returns what it was, and its name.
fn damage(place: &Place) -> (table::Item, String) {
    block_on(async {
        let table = place.store().open().await;
        let workspace = Catalog::new(table.clone()).workspace("credit/prod").await.unwrap();
        let heads = scan::heads(&*table, workspace.id()).await.unwrap();
        let head = heads
            .iter()
            .find(|head| {
                head.log.kind == event::Kind::Predictions && head.log.day.to_string() == "2026-06-01"
            })
            .unwrap();
        let item = table.get(&key::segment(&head.log, head.seq)).await.unwrap().unwrap();
        let damaged = item.clone().with("data", item::Value::B(vec![1, 2, 3]));
        table.put(damaged, Condition::Exists).await.unwrap();
        (item, format!("{}/{}/{}", head.log.day, head.log.name(), head.seq))
    })
}

fn mend(place: &Place, item: table::Item) {
    block_on(async { place.store().open().await.put(item, Condition::Exists).await.unwrap() });
}

/// Appends a prediction while nobody projects, and damages the segment on the first day.
fn damaged_place() -> (Place, table::Item, String) {
    let place = Place::sqlite();
    {
        let service = Service::start(&place);
        register(&service);
        predict(&service, "a");
        wait_for(&service, &[1, 1]);
    }
    let rows = r#"{"key":"b","predicted_at":"2026-06-01T05:30:00Z","release":"v1","score":0.2}
{"key":"b","predicted_at":"2026-06-02T05:30:00Z","release":"v1","score":0.2}"#;
    let file = tempfile::Builder::new().suffix(".ndjson").tempfile().unwrap();
    std::fs::write(file.path(), rows).unwrap();
    run_ok(&place, &["import", file.path().to_str().unwrap(), "-w", "credit/prod", "-k", "predictions"]);
    let (item, name) = damage(&place);
    (place, item, name)
}

#[test]
fn unreadable_segment_stops_only_its_log() {
    let (place, _, name) = damaged_place();
    let service = Service::start(&place);
    wait_for(&service, &[1, 2]);
    service.get_until("/metrics", |answer| answer.text().contains("almanac_projector_dead_letters_total 1"));
    service.get_until("/metrics", |answer| answer.text().contains("almanac_projector_dead_letters 1\n"));
    let listed = run_ok(&place, &["admin", "dead-letters", "list"]);
    assert!(listed.contains(&name) && listed.contains("stopped"), "{listed}");
    assert!(
        run_ok(&place, &["admin", "dead-letters", "show", &name, "-w", "credit/prod"]).contains("refused by")
    );
    let found = &status(&place)["workspaces"][0];
    assert_eq!(
        (&found["dead_letters"], &found["lag_segments"], &found["dirty_days"]),
        (&1.into(), &1.into(), &1.into())
    );

    let refused = run(&place, &["admin", "dead-letters", "retry", &name, "-w", "credit/prod"]);
    assert!(!refused.status.success(), "it cannot be read still");

    // Segments that come after it wait for it.
    predict(&service, "c");
    wait_for(&service, &[1, 3]);
    run_ok(&place, &["admin", "dead-letters", "skip", &name, "-w", "credit/prod"]);
    wait_for(&service, &[2, 3]);
    // A segment that was dealt with is not counted any more.
    service.get_until("/metrics", |answer| answer.text().contains("almanac_projector_dead_letters 0\n"));
    assert!(
        !run(&place, &["admin", "dead-letters", "skip", &name, "-w", "credit/prod"]).status.success(),
        "only once"
    );
    let verified = service_verified(&place);
    assert!(verified.contains("all as the log says"), "{verified}");
    assert_eq!(status(&place)["workspaces"][0]["skipped"], 1);

    // A rebuild comes to the same, and remembers what was left out.
    let rebuilt = run_ok(&place, &["admin", "rebuild", "-w", "credit/prod", "--share", "1"]);
    assert!(rebuilt.contains("version 2 is read now"), "{rebuilt}");
    wait_for(&service, &[2, 3]);
    assert!(run_ok(&place, &["admin", "dead-letters", "list"]).contains("skipped"));
    assert!(service_verified(&place).contains("all as the log says"));
}

/// Verifies once the evaluations are there too.
fn service_verified(place: &Place) -> String {
    for _ in 0..600 {
        let found = &status(place)["workspaces"][0];
        if found["unevaluated_days"] == 0 && found["lag_segments"] == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    run_ok(place, &["admin", "verify"])
}

#[test]
fn restored_segment_is_folded_by_a_retry() {
    let (place, item, name) = damaged_place();
    let service = Service::start(&place);
    wait_for(&service, &[1, 2]);
    // The metric counts those of all services of this process.
    let is_there = |_| !run_ok(&place, &["admin", "dead-letters", "list"]).contains("no dead letters");
    assert!((0..300).any(is_there), "no dead letter came");
    // A projector hears of the segment that is put again, and would fold it before the retry does.
    drop(service);
    mend(&place, item);
    assert!(
        run_ok(&place, &["admin", "dead-letters", "retry", &name, "-w", "credit/prod"]).contains("is folded")
    );
    let service = Service::start(&place);
    wait_for(&service, &[2, 2]);
    assert!(run_ok(&place, &["admin", "dead-letters", "list"]).contains("no dead letters"));
    assert!(service_verified(&place).contains("all as the log says"));
}

#[test]
fn rebuild_beside_the_service_deletes_old_version() {
    let place = Place::sqlite();
    let service = Service::start(&place);
    register(&service);
    (0..20).for_each(|at| predict(&service, &format!("k{at}")));
    for version in 2..4_u64 {
        let rebuilt = run_ok(&place, &["admin", "rebuild", "-w", "credit/prod", "--share", "1"]);
        assert!(rebuilt.contains(&format!("version {version} is read now")), "{rebuilt}");
        predict(&service, &format!("after-{version}"));
        wait_for(&service, &[19 + version, 19 + version]);
    }
    let left = block_on(async {
        let table = place.store().open().await;
        let workspace = Catalog::new(table.clone()).workspace("credit/prod").await.unwrap();
        let mut left = Vec::new();
        for version in 1..4 {
            let query = table::Query::table(key::all_projections(workspace.id(), version));
            left.push(table::query_all(&*table, query).await.unwrap().len());
        }
        left
    });
    assert_eq!((left[0], left[1]), (0, 0));
    assert!(left[2] >= 3);
    assert!(service_verified(&place).contains("all as the log says"));
    let ready = service.get("/readyz");
    assert_eq!((ready.status, ready.text()), (200, "ready\n"));
    let metrics = status(&place);
    assert_eq!(metrics["leases"].as_array().unwrap().len(), 1, "{metrics:#}");
    assert_eq!(metrics["leases"][0]["owner"], metrics["workers"][0]["worker"], "{metrics:#}");
}

/// Asked over HTTP, the projector of the process carries an erasure out, in the loops that it has.
#[test]
fn asked_service_carries_out_the_erasure() {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    run_ok(
        &place,
        &["model", "create", "m", "-w", "credit/prod", "--task", "binary", "--positive-label", "1"],
    );
    run_ok(&place, &["release", "create", "v1", "-w", "credit/prod", "--model", "m"]);
    let service = Running::start(&place, &[], &[]);
    let row = |key: &str| {
        format!(r#"{{"key":"{key}","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.9}}"#)
    };
    let rows = [row("loan-1"), row("loan-2")].join("\n");
    let post = |path: &str, media: &str, body: &str| {
        service.send(
            "post",
            &format!("{WORKSPACE}/{path}"),
            &[("Content-Type", media)],
            Some(body.as_bytes()),
        )
    };
    assert_eq!(post("predictions", NDJSON, &rows).status, 201);
    let rollups = format!("{WORKSPACE}/rollups?from=2026-06-01&to=2026-06-01");
    service.get_until(&rollups, |answer| counts(answer.text()) == [2]);
    let body = r#"{"keys":["loan-1"],"reason":"asked for by letter 9"}"#;
    let begun = post("erasures", "application/json", body);
    assert_eq!(begun.status, 202, "{}", begun.text());
    let erasures = format!("{WORKSPACE}/erasures");
    let done = service.get_until(&erasures, |answer| answer.text().contains(r#""phase":"done""#));
    assert!(done.text().contains(r#""rows":1"#), "{}", done.text());
    let left = service.get(&format!("{WORKSPACE}/predictions?from=2026-06-01&to=2026-06-01&format=ndjson"));
    assert!(left.text().contains("loan-2") && left.text().contains("erased~"), "{}", left.text());
    assert!(!left.text().contains("loan-1"), "{}", left.text());
    service.get_until(&rollups, |answer| counts(answer.text()) == [2]);
    let refused = post("predictions", NDJSON, &row("loan-1"));
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(run_ok(&place, &["admin", "verify"]).contains("all as the log says"));
}

/// Posts a prediction alone.
fn trickle(running: &Running, number: u8) {
    let row = format!(
        r#"{{"key":"k{number}","predicted_at":"2026-06-01T04:{number:02}:00Z","release":"v1","score":0.5}}"#
    );
    let answer = running.post(&format!("{WORKSPACE}/predictions"), NDJSON, None, &row);
    assert_eq!(answer.status, 201, "{}", answer.text());
}

#[test]
fn small_segments_are_merged_unless_disabled() {
    let place = Place::sqlite();
    let off = Running::start(&place, &["--compact", "off"], &[]);
    for args in [
        &["workspace", "create", "credit/prod"][..],
        &["model", "create", "m", "-w", "credit/prod", "--task", "binary", "--positive-label", "yes"],
        &["release", "create", "v1", "-w", "credit/prod", "--model", "m"],
    ] {
        run_ok(&place, args);
    }
    (0..20).for_each(|number| trickle(&off, number));
    off.stop();
    let compaction = || status(&place)["workspaces"][0]["compaction"].clone();
    let swept = |answer: &Answer| {
        let sweeps =
            answer.text().lines().find_map(|line| line.strip_prefix("almanac_projector_sweeps_total "));
        sweeps.is_some_and(|sweeps| sweeps != "0")
    };
    let planned =
        || run_ok(&place, &["admin", "compact", "-w", "credit/prod", "--to", "2026-06-01", "--dry-run"]);
    // A projector sweeps when it starts.
    let off = Running::start(&place, &[], &[("ALMANAC_COMPACT", "off")]);
    off.get_until("/metrics", swept);
    off.stop();
    assert!(compaction()["until"].is_null() && compaction()["merged_items"] == 0, "{}", compaction());
    assert!(planned().starts_with("credit/prod: 20 items with "), "{}", planned());
    assert!(
        planned().contains(" would be 2 with ") && planned().ends_with(": 1 written, 18 deleted\n"),
        "{}",
        planned()
    );
    assert_eq!(planned(), planned(), "nothing is written");
    let on = Running::start(&place, &[], &[]);
    on.get_until("/metrics", |answer| answer.text().contains("almanac_projector_merged_items_total 1\n"));
    on.stop();
    assert_eq!(compaction()["merged_items"], 1, "{}", compaction());
    assert!(planned().ends_with(": 0 written, 18 deleted\n"), "{}", planned());
    let refused = run(&place, &["admin", "compact", "-w", "credit/prod", "--to", "2200-01-01"]);
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("2200-01-01 is too late"));
}
