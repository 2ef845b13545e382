//! One workspace leaves a table as files and comes into another one, beside the workspaces that are there; it is killed at any moment and run again.

use std::{
    fs,
    path::{Path, PathBuf},
};

use event::Id;
use log::key;
use serde_json::Value;
use sha2::{Digest, Sha256};
use table::{Condition, Item};

use crate::{
    moving::{all_as_the_log_says, error, kill_after, kills},
    support::{Located, Place, block_on, on_both_engines, run, run_ok},
};

on_both_engines!(
    a_workspace_moves_beside_others,
    what_changed_of_a_workspace_comes_back,
    workspace_is_restored_only_where_names_are_free,
    remains_of_killed_restore_stay_out_of_workspace,
);

const FLIGHTS: &str = "flights/nyc";

/// A table with two workspaces and people who have roles in one of them.
fn filled() -> Place {
    let place = Place::sqlite();
    for args in [
        &["demo", "--until", "2013-04-04"][..],
        &["workspace", "create", "credit/prod"],
        &["user", "create", "ann"],
        &["user", "create", "bob"],
        &["group", "create", "risk"],
        &["user", "create", "carl"],
        &["access", "grant", "user:ann", "maintainer", "-w", FLIGHTS],
        &["access", "grant", "group:risk", "reader", "-w", FLIGHTS],
        &["access", "grant", "user:carl", "reader", "-w", "credit/prod"],
        &["follow", "add", "bob", "-w", FLIGHTS],
    ] {
        run_ok(&place, args);
    }
    place
}

fn export(place: &Place, to: &Path, since: &[&Path]) -> Value {
    let mut args = vec!["admin", "export", "--to", to.to_str().unwrap(), "-w", FLIGHTS];
    since.iter().for_each(|folder| args.extend(["--since", folder.to_str().unwrap()]));
    run_ok(place, &args);
    serde_json::from_str(&fs::read_to_string(to.join("manifest.json")).unwrap()).unwrap()
}

fn restoring<'a>(folders: &[&'a Path]) -> Vec<&'a str> {
    let from = folders.iter().flat_map(|folder| ["--from", folder.to_str().unwrap()]);
    ["admin", "restore"].into_iter().chain(from).collect()
}

/// The answers to questions about the workspace, wherever it is.
fn answers(place: &Place) -> Vec<String> {
    let window = ["-w", FLIGHTS, "--from", "2013-04-01", "--to", "2013-04-04"];
    let questions =
        [&["query", "evaluations"][..], &["query", "rollups"], &["query", "predictions", "--limit", "100"]];
    let mut answers: Vec<String> =
        questions.iter().map(|question| run_ok(place, &[question, &window[..]].concat())).collect();
    for question in [
        &["follow", "followers", FLIGHTS][..],
        &["audit", "-w", FLIGHTS],
        &["release", "list", "-w", FLIGHTS],
        &["access", "list", "-w", FLIGHTS],
    ] {
        answers.push(run_ok(place, question));
    }
    answers
}

/// A table that has a workspace of its own and a category of the name.
fn taken_in(place: &Place) {
    for args in [
        &["workspace", "create", "credit/other"][..],
        &["workspace", "category", "create", "flights"],
        &["user", "create", "eve"],
    ] {
        run_ok(place, args);
    }
}

fn a_workspace_moves_beside_others(place: &Place) {
    let (from, folder) = (filled(), tempfile::tempdir().unwrap());
    let [out, again] = ["out", "again"].map(|name| folder.path().join(name));
    let exported = export(&from, &out, &[]);
    assert_eq!((&exported["version"], &exported["workspace"]["path"]), (&1.into(), &FLIGHTS.into()));
    assert!(exported["events"].as_u64().unwrap() > 1_000 && exported["segments"].as_u64().unwrap() > 10);
    taken_in(place);
    let restore = restoring(&[&out]);
    for round in 0..kills() {
        kill_after(place, &restore, 15 + round * 53 % 500);
        let listed = run_ok(place, &["workspace", "list"]);
        assert!(listed.contains("credit/other"), "{listed}");
    }
    run_ok(place, &restore);
    let repeated = run_ok(place, &restore);
    assert!(repeated.contains("nothing was changed"), "{repeated}");
    let moved = export(place, &again, &[]);
    for what in ["segments", "events", "lasting"] {
        assert_eq!(moved[what], exported[what], "{what}");
    }
    assert_eq!(answers(place), answers(&from));
    let users = run_ok(place, &["user", "list"]);
    for (name, is_there) in [("ann", true), ("bob", true), ("eve", true), ("carl", false)] {
        assert_eq!(users.contains(name), is_there, "{users}");
    }
    let category: Value = serde_json::from_str(&run_ok(
        place,
        &["workspace", "category", "show", "flights", "--format", "json"],
    ))
    .unwrap();
    assert_eq!(category["count_of_workspaces"], 1, "{category}");
    // It lives on there.
    run_ok(place, &["demo", "--until", "2013-04-05"]);
    all_as_the_log_says(place);
}

fn what_changed_of_a_workspace_comes_back(place: &Place) {
    let (from, folder) = (filled(), tempfile::tempdir().unwrap());
    let [whole, changed, there, here, other] =
        ["whole", "changed", "there", "here", "other"].map(|name| folder.path().join(name));
    export(&from, &whole, &[]);
    for args in [
        &["demo", "--until", "2013-04-05"][..],
        &["admin", "rebuild", "-w", FLIGHTS, "--share", "1"],
        &["access", "revoke", "user:ann", "-w", FLIGHTS],
        &["access", "grant", "user:carl", "writer", "-w", FLIGHTS],
    ] {
        run_ok(&from, args);
    }
    let sum = export(&from, &changed, &[&whole]);
    assert!(sum["base"].is_string(), "{sum}");
    run_ok(&from, &["admin", "export", "--to", other.to_str().unwrap()]);
    let mixed = [
        "admin",
        "export",
        "--to",
        there.to_str().unwrap(),
        "-w",
        FLIGHTS,
        "--since",
        other.to_str().unwrap(),
    ];
    let refused = error(&run(&from, &mixed));
    assert!(refused.contains("is an export of all of a table"), "{refused}");
    let alone = error(&run(place, &restoring(&[&changed])));
    assert!(alone.contains("name its folder too"), "{alone}");
    let restore = restoring(&[&whole, &changed]);
    for round in 0..kills() {
        kill_after(place, &restore, 20 + round * 71 % 500);
    }
    run_ok(place, &restore);
    assert_eq!(export(place, &there, &[])["lasting"], export(&from, &here, &[])["lasting"]);
    assert_eq!(answers(place), answers(&from));
    let users = run_ok(place, &["user", "list"]);
    assert!(users.contains("carl") && !users.contains("ann"), "{users}");
    all_as_the_log_says(place);
}

fn workspace_is_restored_only_where_names_are_free(place: &Place) {
    let (from, folder) = (filled(), tempfile::tempdir().unwrap());
    let out = folder.path().join("out");
    export(&from, &out, &[]);
    let restore = restoring(&[&out]);
    let refused = |place: &Place| error(&run(place, &restore));
    assert!(refused(&from).contains("holds the workspace flights/nyc already"), "{}", refused(&from));
    let other = Place::sqlite();
    run_ok(&other, &["workspace", "create", FLIGHTS]);
    let taken = refused(&other);
    assert!(
        taken.contains("there is a workspace called `nyc` already") && taken.contains("rename"),
        "{taken}"
    );
    run_ok(place, &["user", "create", "ann"]);
    let taken = refused(place);
    assert!(taken.contains("there is a user called `ann` already"), "{taken}");
    run_ok(place, &["user", "update", "ann", "--name", "another-ann"]);
    let table = block_on(place.store().open());
    let now = event::Clock::system().now();
    let beat = Item::new(key::worker("busy-one")).with("v", 1).with("layout", 2).with("beat", 7);
    let beat = beat.with("at", now.to_string());
    let metrics = ["shards", "dirty", "oldest_ms", "retries"];
    let beat = metrics.into_iter().fold(beat, |item, metric| item.with(metric, 0));
    block_on(table.put(beat, Condition::None)).unwrap();
    let busy = refused(place);
    assert!(busy.contains("projectors are at work: busy-one"), "{busy}");
    block_on(table.delete(&key::worker("busy-one"), Condition::None)).unwrap();
    let listed = run_ok(place, &["workspace", "list"]);
    assert!(!listed.contains(FLIGHTS), "nothing was restored: {listed}");
    run_ok(place, &restore);
    assert_eq!(answers(place), answers(&from));
}

/// The digest of an export, by which a restore knows it.
fn digest(folder: &Path) -> String {
    let text = fs::read(folder.join("manifest.json")).unwrap();
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn remains_of_killed_restore_stay_out_of_workspace(place: &Place) {
    let (from, folder) = (filled(), tempfile::tempdir().unwrap());
    let out: PathBuf = folder.path().join("out");
    let exported = export(&from, &out, &[]);
    let id = Id::parse(exported["workspace"]["id"].as_str().unwrap()).unwrap();
    run_ok(place, &["workspace", "create", "credit/other"]);
    let table = block_on(place.store().open());
    let put = |item: Item| block_on(table.put(item, Condition::None)).unwrap();
    // A projector folded what was half there.
    let stray = Item::new(key::rollup(&id, 7, "2013-04-01".parse().unwrap())).with("v", 1);
    put(stray.clone());
    let restore = restoring(&[&out]);
    let refused = error(&run(place, &restore));
    assert!(refused.contains("the table holds something of the workspace"), "{refused}");
    let marker = |digest: String, files: i64| {
        let item = Item::new(key::restored_workspace(&id)).with("v", 1).with("manifest", digest);
        item.with("files", files).with("state", "begun")
    };
    // It says that all files are stored, and they are not.
    let files = exported["files"].as_array().unwrap().len() as i64;
    put(marker(digest(&out), files));
    let wrong = error(&run(place, &restore));
    assert!(wrong.contains("is not what was exported") && wrong.contains("begins from the start"), "{wrong}");
    assert!(!run_ok(place, &["workspace", "list"]).contains(FLIGHTS));
    // A marker that another export left does not count.
    put(marker("0".repeat(64), files));
    run_ok(place, &restore);
    assert_eq!(block_on(table.get(&stray.key)).unwrap(), None);
    assert_eq!(answers(place), answers(&from));
    all_as_the_log_says(place);
}
