//! A table leaves as files and comes back, on another engine too; it is backed up while events arrive; and each of it is
//! killed at any moment and run again. `ALMANAC_CHAOS_ROUNDS` asks for more kills than the few of a test run.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use log::key;
use serde_json::Value;
use table::Condition;

use crate::support::{Located, Place, Running, Store, almanac, block_on, run, run_ok};

const WORKSPACE: &str = "/v1/workspaces/credit/prod";

/// The number of kills, unless more are asked for.
const KILLS: u64 = 3;

pub(crate) fn kills() -> u64 {
    let asked = std::env::var("ALMANAC_CHAOS_ROUNDS").ok();
    asked.map_or(KILLS, |rounds| rounds.parse().expect("ALMANAC_CHAOS_ROUNDS is a number"))
}

fn export(place: &(impl Located + ?Sized), to: &Path) -> Value {
    run_ok(place, &["admin", "export", "--to", to.to_str().unwrap()]);
    serde_json::from_str(&fs::read_to_string(to.join("manifest.json")).unwrap()).unwrap()
}

fn restore(place: &(impl Located + ?Sized), from: &Path) -> String {
    run_ok(place, &["admin", "restore", "--from", from.to_str().unwrap()])
}

pub(crate) fn error(output: &Output) -> String {
    assert!(!output.status.success(), "it should fail");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A table with events, projections, an audit log and a token.
fn filled() -> Place {
    let place = Place::sqlite();
    run_ok(&place, &["demo", "--until", "2013-04-10"]);
    run_ok(&place, &["init", "--user", "ann"]);
    place
}

pub(crate) fn all_as_the_log_says(place: &(impl Located + ?Sized)) -> String {
    let verified = run_ok(place, &["admin", "verify"]);
    assert!(verified.contains("all as the log says") && !verified.contains("FAULT"), "{verified}");
    verified
}

/// Runs a command, kills it after so many milliseconds, and says whether it was killed.
pub(crate) fn kill_after(place: &Place, args: &[&str], millis: u64) -> bool {
    let mut process = almanac(place, args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(millis));
    let was_running = process.try_wait().unwrap().is_none();
    _ = process.kill();
    process.wait().unwrap();
    was_running
}

/// Exports and restores, each killed at several moments first, and compares what was exported with what came back.
fn killed_and_run_again(to: impl Fn() -> Place) {
    let (from, folder) = (filled(), tempfile::tempdir().unwrap());
    let out = folder.path().join("out");
    let mut killed = 0;
    for round in 0..kills() {
        let export = ["admin", "export", "--to", out.to_str().unwrap()];
        killed += u64::from(kill_after(&from, &export, 10 + round * 13 % 90));
        if out.join("manifest.json").exists() {
            fs::remove_dir_all(&out).unwrap();
        }
    }
    let exported = export(&from, &out);
    let target = to();
    for round in 0..kills() {
        let restore = ["admin", "restore", "--from", out.to_str().unwrap()];
        killed += u64::from(kill_after(&target, &restore, 15 + round * 37 % 400));
    }
    assert!(killed > 0, "nothing was killed");
    restore(&target, &out);
    let again = export(&target, &folder.path().join("again"));
    assert_eq!(again["lasting"], exported["lasting"]);
    assert_eq!(all_as_the_log_says(&target), all_as_the_log_says(&from));
}

#[test]
fn killed_export_and_restore_finish_when_repeated() {
    killed_and_run_again(Place::sqlite);
}

#[test]
fn repeated_restore_is_harmless_and_overwrites_nothing() {
    let (from, folder) = (filled(), tempfile::tempdir().unwrap());
    let out = folder.path().join("out");
    let exported = export(&from, &out);
    assert!(exported["events"].as_u64().unwrap() > 1_000 && exported["segments"].as_u64().unwrap() > 10);
    for file in fs::read_dir(&out).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "only the owner may read it");
    }
    let target = Place::sqlite();
    assert!(restore(&target, &out).contains("as they were at"));
    assert!(restore(&target, &out).contains("nothing was changed"));
    // Neither what is in use, nor what came from another export, is written to.
    let args = |folder: &Path| ["admin", "restore", "--from", folder.to_str().unwrap()].map(str::to_owned);
    let refused =
        |place: &Place, folder: &Path| error(&run(place, &args(folder).each_ref().map(String::as_str)));
    assert!(refused(&from, &out).contains("the table holds something"), "{}", refused(&from, &out));
    let other = folder.path().join("other");
    run_ok(&from, &["workspace", "category", "create", "late"]);
    export(&from, &other);
    assert!(refused(&target, &other).contains("restored from another export"));
    let taken = error(&run(&from, &["admin", "export", "--to", out.to_str().unwrap()]));
    assert!(taken.contains("holds an export already"), "{taken}");
    // A file that is not as it was is found before anything is written.
    let file = out.join("items-00001.ndjson.zst");
    let mut bytes = fs::read(&file).unwrap();
    bytes[100] ^= 1;
    fs::write(&file, bytes).unwrap();
    let fresh = Place::sqlite();
    assert!(refused(&fresh, &out).contains("its SHA-256 differs"));
    assert!(restore(&fresh, &other).contains("as they were at"), "nothing was written to it");
}

#[test]
fn table_of_unfinished_restore_is_refused() {
    let (from, folder) = (filled(), tempfile::tempdir().unwrap());
    let out = folder.path().join("out");
    export(&from, &out);
    let target = Place::sqlite();
    restore(&target, &out);
    // As a restore leaves it that is killed before it has compared what it stored.
    block_on(async {
        let table = target.store().open().await;
        let marker = table.get(&key::restored()).await.unwrap().unwrap();
        table.put(marker.with("state", "begun"), Condition::Exists).await.unwrap();
    });
    let items = || run_ok(&target, &["admin", "table", "scan", "--count"]);
    let before = items();
    for command in [
        &["admin", "verify"][..],
        &["up"],
        &["projector"],
        &["demo"],
        &["workspace", "category", "create", "late"],
        &["status"],
    ] {
        let refused = error(&run(&target, command));
        assert!(refused.contains("call `almanac admin restore` again"), "{command:?}: {refused}");
    }
    let found = run(&target, &["admin", "doctor"]);
    let said = String::from_utf8_lossy(&found.stdout);
    assert!(said.contains("fault") && said.contains("call `almanac admin restore` again"), "{said}");
    assert_eq!(found.status.code(), Some(1));
    assert_eq!(items(), before, "nothing was written into it");
    assert!(restore(&target, &out).contains("as they were at"));
    assert_eq!(all_as_the_log_says(&target), all_as_the_log_says(&from));
}

/// A whole export and two of what changed since: more days, a day that expires, a setting that changes and one that goes and comes
/// back. The three together bring back the table as it is.
fn what_changed_is_exported_and_comes_back(to: impl Fn() -> Place) {
    let (place, folder) = (Place::sqlite(), tempfile::tempdir().unwrap());
    let out = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let said = |args: &[&str]| run_ok(&place, args);
    said(&["demo", "--until", "2013-04-04"]);
    // An item that goes, and comes back as another.
    let table = block_on(place.store().open());
    let workspace = block_on(catalog::Catalog::new(table.clone()).workspace("flights/nyc")).unwrap();
    let settings = key::settings(workspace.id());
    let set = |lanes| {
        let catalog = catalog::Catalog::new(table.clone());
        block_on(catalog.change_settings(workspace.id(), |settings| settings.lanes = Some(lanes))).unwrap();
    };
    set(1);
    said(&["admin", "export", "--to", &out("whole")]);
    said(&["demo", "--until", "2013-04-06"]);
    block_on(table.delete(&settings, Condition::None)).unwrap();
    let first = said(&["admin", "export", "--to", &out("first"), "--since", &out("whole")]);
    assert!(first.contains("items changed since") && !first.contains(", 0 are gone"), "{first}");
    set(2);
    said(&["admin", "rebuild", "-w", "flights/nyc", "--share", "1"]);
    said(&["demo", "--until", "2013-04-07"]);
    let without = error(&run(&place, &["admin", "export", "--to", &out("x"), "--since", &out("first")]));
    assert!(without.contains("name its folder too"), "{without}");
    let since = ["--since", &out("whole"), "--since", &out("first")];
    said(&[&["admin", "export", "--to", &out("second")], &since[..]].concat());
    let still =
        said(&[&["admin", "export", "--to", &out("third"), "--since", &out("second")], &since[..]].concat());
    assert!(still.contains(": 0 items changed since") && still.contains(", 0 are gone"), "{still}");
    let segments = |name: &str| {
        let names = fs::read_dir(out(name)).unwrap().map(|file| file.unwrap());
        let segments = names.filter(|file| file.file_name().to_str().unwrap().starts_with("segments"));
        segments.map(|file| file.metadata().unwrap().len()).sum::<u64>()
    };
    assert!(
        segments("second") < segments("first") && segments("first") < segments("whole"),
        "only new segments"
    );

    let target = to();
    let refused = |args: &[&str]| error(&run(&target, &[&["admin", "restore"], args].concat()));
    let missing = refused(&["--from", &out("second"), "--from", &out("whole")]);
    assert!(missing.contains("name its folder too"), "{missing}");
    let twice = refused(&["--from", &out("first"), "--from", &out("whole"), "--from", &out("whole")]);
    assert!(twice.contains("hold the same export"), "{twice}");
    let all =
        ["admin", "restore", "--from", &out("first"), "--from", &out("whole"), "--from", &out("second")];
    for round in 0..kills() {
        kill_after(&target, &all, 20 + round * 41 % 500);
    }
    run_ok(&target, &all);
    assert!(run_ok(&target, &all).contains("nothing was changed"));
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    assert_eq!(export(&target, &there)["lasting"], export(&place, &here)["lasting"]);
    assert_eq!(all_as_the_log_says(&target), all_as_the_log_says(&place));
    let found = block_on(async { target.store().open().await.get(&settings).await }).unwrap();
    assert_eq!(found, block_on(table.get(&settings)).unwrap());
    assert_eq!(found.unwrap().int("lanes").unwrap(), 2);
}

#[test]
fn what_changed_since_an_export_comes_back() {
    what_changed_is_exported_and_comes_back(Place::sqlite);
}

/// Posts predictions until it is told to stop; how many.
fn post(service: &Running, stop: &AtomicBool) -> usize {
    let mut posted = 0;
    while !stop.load(Ordering::Relaxed) {
        let day = posted % 3 + 1;
        let body = format!(
            r#"{{"key":"k{posted}","predicted_at":"2026-06-0{day}T04:30:00Z","release":"v1","score":0.5}}"#
        );
        let path = format!("{WORKSPACE}/predictions");
        let answer = service.post(&path, "application/x-ndjson", Some(&format!("b{posted}")), &body);
        assert_eq!(answer.status, 201, "{}", answer.text());
        posted += 1;
    }
    posted
}

/// Copies a table while events are appended and projected: each copy is of one state, in which every projection is the fold of
/// the logs beside it.
fn copied_while_events_arrive(copy: impl Fn(&Place, &Path, usize) -> Place) {
    let place = Place::sqlite();
    for args in [
        &["workspace", "create", "credit/prod"][..],
        &["model", "create", "m", "-w", "credit/prod", "--task", "binary", "--positive-label", "yes"],
        &["release", "create", "v1", "-w", "credit/prod", "--model", "m"],
    ] {
        run_ok(&place, args);
    }
    let service = Running::start(&place, &[], &[]);
    let (stop, folder) = (AtomicBool::new(false), tempfile::tempdir().unwrap());
    let events = |place: &Place, round: usize| {
        all_as_the_log_says(place);
        export(place, &folder.path().join(format!("{round}-counted")))["events"].as_u64().unwrap() as usize
    };
    thread::scope(|scope| {
        let posting = scope.spawn(|| post(&service, &stop));
        // However this ends, the posting does.
        let stopping = Stopping(&stop);
        let mut last = 0;
        for round in 0..4 {
            thread::sleep(Duration::from_millis(300));
            let found = events(&copy(&place, folder.path(), round), round);
            assert!(found >= last, "{found} events after {last}");
            last = found;
        }
        drop(stopping);
        assert!(posting.join().unwrap() > last && last > 0, "events came all the time");
    });
}

/// Ends what looks at it.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn export_during_appends_is_of_one_instant() {
    copied_while_events_arrive(|place, folder, round| {
        let out: PathBuf = folder.join(round.to_string());
        let exported = export(place, &out);
        let target = Place::sqlite();
        restore(&target, &out);
        assert_eq!(export(&target, &folder.join(format!("{round}-again")))["lasting"], exported["lasting"]);
        target
    });
}

#[test]
fn backup_is_of_one_instant_and_replaces_nothing() {
    copied_while_events_arrive(|place, _, round| {
        let target = Place::sqlite();
        let Store::Sqlite(data) = target.store() else { panic!("it is a file") };
        let file = data.join("almanac.db");
        let args = ["admin", "backup", "--to", file.to_str().unwrap()];
        if round % 2 == 0 {
            kill_after(place, &args, 12);
        }
        if !file.exists() {
            run_ok(place, &args);
        }
        assert!(error(&run(place, &args)).contains("is there already"));
        target
    });
}

mod dynamodb_local {
    use super::*;

    #[test]
    fn table_round_trips_between_engines_with_equal_bytes() {
        let (from, folder) = (filled(), tempfile::tempdir().unwrap());
        let outs = ["one", "two", "three"].map(|name| folder.path().join(name));
        let (there, back) = (Place::dynamodb_local(), Place::sqlite());
        let first = export(&from, &outs[0]);
        restore(&there, &outs[0]);
        let second = export(&there, &outs[1]);
        restore(&back, &outs[1]);
        let third = export(&back, &outs[2]);
        for other in [&second, &third] {
            for what in ["items", "segments", "events", "lasting"] {
                assert_eq!(other[what], first[what], "{what}");
            }
        }
        // SQLite gives items in the order of their keys, so there even the files are the same.
        assert_eq!(third["files"], first["files"]);
        let verified = all_as_the_log_says(&from);
        assert_eq!([&there, &back].map(all_as_the_log_says), [verified.clone(), verified]);
        let refused =
            error(&run(&there, &["admin", "backup", "--to", folder.path().join("x.db").to_str().unwrap()]));
        assert!(refused.contains("point-in-time recovery"), "{refused}");
    }

    #[test]
    fn killed_export_and_restore_finish_when_repeated() {
        killed_and_run_again(Place::dynamodb_local);
    }

    #[test]
    fn what_changed_since_an_export_comes_back() {
        what_changed_is_exported_and_comes_back(Place::dynamodb_local);
    }
}
