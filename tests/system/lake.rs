//! A lake: closed days become Delta tables, late days are exported again, and a sync is killed at any moment and run again.
//! The tables are read here by their logs alone; other engines read them in `clients/python/tests/test_lake.py`.
//! `ALMANAC_CHAOS_ROUNDS` requests more kills than the few of a test run.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Stdio,
    thread::sleep,
    time::{Duration, SystemTime},
};

use serde_json::Value;

use crate::support::{Place, Running, almanac, ndjson, on_both_engines, run, run_ok};

const WORKSPACE: &str = "flights/nyc";
const EVENTS: [&str; 3] = ["predictions", "outcomes", "releases"];

/// Default number of kills.
const KILLS: u64 = 3;

on_both_engines!(
    closed_days_export_once_and_late_ones_again,
    a_sync_that_is_killed_ends_right,
    what_has_expired_stays_in_the_lake,
);

/// A table by its log: the file of each day, its rows and its bytes.
pub(crate) type Days = BTreeMap<String, (String, u64, u64)>;

/// Reads the log of a table up to a version, and checks that its files are there.
fn days_at(table: &Path, version: Option<usize>) -> Days {
    let (log, mut files) = (table.join("_delta_log"), BTreeMap::new());
    let commits = fs::read_dir(&log).map_or(0, |entries| {
        entries
            .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().ends_with(".json"))
            .count()
    });
    for number in 0..version.map_or(commits, |version| version + 1) {
        for action in ndjson(&fs::read_to_string(log.join(format!("{number:020}.json"))).unwrap()) {
            if let Some(path) = action["remove"]["path"].as_str() {
                assert!(files.remove(path).is_some(), "{path} was not there");
            }
            if let Some(path) = action["add"]["path"].as_str() {
                assert!(files.insert(path.to_owned(), action["add"].clone()).is_none(), "{path} was there");
            }
        }
    }
    let mut days = Days::new();
    for (path, add) in files {
        let bytes = fs::metadata(table.join(&path)).unwrap_or_else(|_| panic!("{path} is missing")).len();
        assert_eq!(Some(bytes), add["size"].as_u64(), "{path}");
        let stats: Value = serde_json::from_str(add["stats"].as_str().unwrap()).unwrap();
        let day = add["partitionValues"]["day"].as_str().unwrap().to_owned();
        let rows = stats["numRecords"].as_u64().unwrap();
        assert!(days.insert(day.clone(), (path, rows, bytes)).is_none(), "two files of {day}");
    }
    days
}

pub(crate) fn days(lake: &Path, table: &str) -> Days {
    days_at(&lake.join(table), None)
}

fn rows(days: &Days) -> BTreeMap<String, u64> {
    days.iter().map(|(day, (_, rows, _))| (day.clone(), *rows)).collect()
}

/// Number of rows of a query by day.
fn queried(place: &Place, what: &str) -> BTreeMap<String, u64> {
    let window = ["--from", "2013-01-01", "--to", "2013-12-31", "--columns", "day", "--format", "ndjson"];
    let mut days = BTreeMap::new();
    for row in ndjson(&run_ok(place, &[&["query", what, "-w", WORKSPACE], &window[..]].concat())) {
        *days.entry(row["day"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    days
}

fn sync(place: &Place, lake: &Path) -> String {
    run_ok(place, &["admin", "lake", "sync", "--to", lake.to_str().unwrap(), "-w", WORKSPACE])
}

/// All files of a lake, with their times of writing.
fn files(folder: &Path) -> BTreeMap<String, SystemTime> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => {
                _ = found.insert(
                    entry.path().to_str().unwrap().to_owned(),
                    entry.metadata().unwrap().modified().unwrap(),
                )
            }
        }
    }
    found
}

fn demo(place: &Place) {
    run_ok(place, &["demo", "--until", "2013-04-04"]);
}

/// Appends a prediction of a past day, and waits until it is judged.
pub(crate) fn late(place: &Place, day: &str, name: &str) {
    let judged = |service: &Running| {
        let path = format!(
            "/v1/workspaces/{WORKSPACE}/evaluations?from={day}&to={day}&columns=predictions&format=ndjson"
        );
        let answer = service.get(&path);
        ndjson(answer.text()).iter().map(|row| row["predictions"].as_u64().unwrap()).sum::<u64>()
    };
    let service = Running::start(place, &[], &[]);
    let before = judged(&service);
    let body = format!(
        r#"{{"key":"{name}","predicted_at":"{day}T12:00:00Z","release":"v1","score":0.25,"tags":{{"Late":"yes","late":"1"}}}}"#
    );
    let answer =
        service.post(&format!("/v1/workspaces/{WORKSPACE}/predictions"), "application/x-ndjson", None, &body);
    assert_eq!(answer.status, 201, "{}", answer.text());
    for _ in 0..1_200 {
        if judged(&service) > before {
            service.stop();
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("{day} was not evaluated again");
}

fn closed_days_export_once_and_late_ones_again(place: &Place) {
    demo(place);
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let dry = run_ok(
        place,
        &["admin", "lake", "sync", "--to", lake.to_str().unwrap(), "-w", WORKSPACE, "--dry-run"],
    );
    assert!(dry.contains("predictions 2013-04-01: new") && !lake.exists(), "{dry}");
    // From a day on; days before it are exported on request.
    let since = folder.path().join("since");
    let arguments = ["admin", "lake", "sync", "--to", since.to_str().unwrap(), "-w", WORKSPACE];
    let from = |day: &str| run_ok(place, &[&arguments[..], &["--since", day]].concat());
    assert!(from("2013-04-03").contains("predictions: 2 days, version 1; 2 exported now"));
    assert_eq!(days(&since, "evaluations").into_keys().collect::<Vec<_>>(), ["2013-04-03", "2013-04-04"]);
    assert!(from("2013-04-02").contains("predictions: 3 days, version 2; 1 exported now and 0 again"));
    let first = sync(place, &lake);
    assert!(first.contains("predictions: 4 days, version 3; 4 exported now and 0 again"), "{first}");
    for table in EVENTS.iter().chain(&["evaluations"]) {
        assert_eq!(rows(&days(&lake, table)), queried(place, table), "{table}");
    }
    // Exported days are not written again.
    let (before, again) = (files(&lake), sync(place, &lake));
    assert!(again.lines().all(|line| line.contains("0 exported now and 0 again, 0 rows")), "{again}");
    assert_eq!(files(&lake), before);
    // A late day is exported again: its rows are there once, and the version before is there as well.
    let (old, old_evaluations) = (days(&lake, "predictions"), days(&lake, "evaluations"));
    late(place, "2013-04-02", "late-1");
    let dry = run_ok(
        place,
        &["admin", "lake", "sync", "--to", lake.to_str().unwrap(), "-w", WORKSPACE, "--dry-run"],
    );
    assert_eq!(dry, "predictions 2013-04-02: again\nevaluations 2013-04-02: again\n");
    let said = sync(place, &lake);
    assert!(said.contains("predictions: 4 days, version 4; 0 exported now and 1 again"), "{said}");
    assert!(said.contains("outcomes: 4 days, version 3; 0 exported now and 0 again"), "{said}");
    let new = days(&lake, "predictions");
    assert_eq!(rows(&new), queried(place, "predictions"));
    assert_eq!(new["2013-04-02"].1, old["2013-04-02"].1 + 1);
    assert_eq!(days_at(&lake.join("predictions"), Some(3)), old, "the past is there");
    assert_ne!(days(&lake, "evaluations"), old_evaluations);
    // Later columns are columns of the table from then on.
    let last =
        fs::read_to_string(lake.join("predictions/_delta_log").join(format!("{:020}.json", 4))).unwrap();
    assert!(last.contains("tag.Late") && last.contains("tag.late~2"), "{last}");
    refused(place, &lake);
}

/// Tables that a sync leaves alone: those of another workspace, and a folder in which another sync works.
fn refused(place: &Place, lake: &Path) {
    run_ok(place, &["workspace", "create", "other/one"]);
    let args = ["admin", "lake", "sync", "--to", lake.to_str().unwrap(), "-w", "other/one"];
    let output = run(place, &args);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && error.contains("is of the workspace"), "{error}");
    let lock = fs::File::open(lake).unwrap();
    lock.lock().unwrap();
    let output = run(place, &["admin", "lake", "sync", "--to", lake.to_str().unwrap(), "-w", WORKSPACE]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("another `almanac admin lake sync` works"), "{error}");
}

fn kills() -> u64 {
    let asked = std::env::var("ALMANAC_CHAOS_ROUNDS").ok();
    asked.map_or(KILLS, |rounds| rounds.parse().expect("ALMANAC_CHAOS_ROUNDS is a number"))
}

/// Kills a sync at many moments. At each the tables are right, and in the end they equal those of an uninterrupted sync.
fn a_sync_that_is_killed_ends_right(place: &Place) {
    demo(place);
    let folder = tempfile::tempdir().unwrap();
    let (lake, whole) = (folder.path().join("lake"), folder.path().join("whole"));
    let tables = ["predictions", "outcomes", "releases", "evaluations"];
    let expected: BTreeMap<&str, _> = tables.map(|table| (table, queried(place, table))).into();
    let commits = || tables.map(|table| files_of_log(&lake.join(table))).iter().sum::<usize>();
    let (mut killed, mut amid) = (0, 0);
    // On a machine of any speed, some are killed in the middle: after a number of further commits.
    for round in 0..kills() {
        let mut process =
            almanac(place, &["admin", "lake", "sync", "--to", lake.to_str().unwrap(), "-w", WORKSPACE])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
        let begun = commits();
        while process.try_wait().unwrap().is_none() && commits() < begun + 1 + (round as usize) % 2 {
            sleep(Duration::from_millis(1));
        }
        sleep(Duration::from_millis(round * 7 % 30));
        killed += u64::from(process.try_wait().unwrap().is_none());
        _ = process.kill();
        process.wait().unwrap();
        let is_amid = tables.iter().any(|table| days(&lake, table).len() < expected[table].len());
        amid += u64::from(is_amid);
        if !is_amid {
            fs::remove_dir_all(&lake).unwrap();
        }
    }
    assert!(killed > 0 && amid > 0, "{killed} were killed, {amid} in the middle");
    sync(place, &lake);
    sync(place, &whole);
    for table in tables {
        let known = |lake: &Path| {
            let days = days(lake, table).into_iter();
            // A path ends in the digest of the file: equal rows give equal bytes.
            let digest = |path: &str| path.rsplit_once('-').unwrap().1.to_owned();
            days.map(|(day, (path, rows, _))| (day, rows, digest(&path))).collect::<Vec<_>>()
        };
        assert_eq!(known(&lake), known(&whole), "{table}");
        assert_eq!(rows(&days(&lake, table)), expected[table], "{table}");
    }
}

fn files_of_log(table: &Path) -> usize {
    fs::read_dir(table.join("_delta_log")).map_or(0, Iterator::count)
}

fn what_has_expired_stays_in_the_lake(place: &Place) {
    demo(place);
    let folder = tempfile::tempdir().unwrap();
    sync(place, folder.path());
    let before = EVENTS.map(|table| days(folder.path(), table));
    run_ok(place, &["workspace", "retention", "-w", WORKSPACE, "90"]);
    assert_eq!(queried(place, "predictions"), BTreeMap::new());
    let said = sync(place, folder.path());
    assert!(said.lines().all(|line| line.contains("0 exported now and 0 again")), "{said}");
    assert_eq!(EVENTS.map(|table| days(folder.path(), table)), before);
}
