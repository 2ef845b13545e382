//! A lake in S3: equal to one in a folder, without duplicates, even if another program writes there.
//! `clients/python/tests/test_lake.py` reads one by deltalake.

use std::{
    collections::BTreeMap,
    process::{Child, Stdio},
    thread::sleep,
    time::Duration,
};

use crate::{
    lake::{Days, days, late},
    support::{
        Place,
        s3::{Bucket, run_ok, with_s3},
    },
};

const WORKSPACE: &str = "flights/nyc";
const TABLES: [&str; 4] = ["predictions", "outcomes", "releases", "evaluations"];

/// Maximum looks at a lake before a test gives up.
const MAX_LOOKS: usize = 20_000;

fn demo() -> Place {
    let place = Place::sqlite();
    run_ok(&place, &["demo", "--until", "2013-04-04"]);
    place
}

fn sync(place: &Place, to: &str) -> String {
    run_ok(place, &["admin", "lake", "sync", "--to", to, "-w", WORKSPACE])
}

fn begin(place: &Place, to: &str) -> Child {
    let mut command = with_s3(place, &["admin", "lake", "sync", "--to", to, "-w", WORKSPACE]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Tables of a lake, from their logs; their files are there.
fn tables(bucket: &Bucket) -> BTreeMap<&'static str, Days> {
    let folder = tempfile::tempdir().unwrap();
    bucket.copy("lake", folder.path());
    TABLES.map(|table| (table, days(folder.path(), table))).into()
}

/// Tables without the numbers of commits in the paths, which give the order of the exports.
fn without_order(tables: BTreeMap<&'static str, Days>) -> Vec<(&'static str, String, u64, String)> {
    let digest = |path: &str| path.rsplit_once('-').unwrap().1.to_owned();
    let rows = tables.into_iter().flat_map(|(table, days)| {
        days.into_iter().map(move |(day, (path, rows, _))| (table, day, rows, digest(&path)))
    });
    rows.collect()
}

#[test]
fn lake_in_s3_equals_lake_in_folder() {
    let (place, bucket, folder) = (demo(), Bucket::new("fine"), tempfile::tempdir().unwrap());
    let to = bucket.at("lake");
    let dry = run_ok(&place, &["admin", "lake", "sync", "--to", &to, "-w", WORKSPACE, "--dry-run"]);
    assert!(dry.contains("predictions 2013-04-01: new") && bucket.keys().is_empty(), "{dry}");
    let first = sync(&place, &to);
    assert!(first.contains("predictions: 4 days, version 3; 4 exported now and 0 again"), "{first}");
    sync(&place, folder.path().to_str().unwrap());
    let here: BTreeMap<_, _> = TABLES.map(|table| (table, days(folder.path(), table))).into();
    assert_eq!(tables(&bucket), here);
    let (before, again) = (bucket.keys(), sync(&place, &to));
    assert!(again.lines().all(|line| line.contains("0 exported now and 0 again, 0 rows")), "{again}");
    assert_eq!(bucket.keys(), before);
    late(&place, "2013-04-02", "late-1");
    let said = sync(&place, &to);
    assert!(said.contains("predictions: 4 days, version 4; 0 exported now and 1 again"), "{said}");
    assert_eq!(tables(&bucket)["predictions"]["2013-04-02"].1, here["predictions"]["2013-04-02"].1 + 1);
}

#[test]
fn two_syncs_at_once_export_each_day_once() {
    let (place, alone, bucket) = (demo(), Bucket::new("fine"), Bucket::new("fine"));
    sync(&place, &alone.at("lake"));
    let to = bucket.at("lake");
    let mut both = [begin(&place, &to), begin(&place, &to)];
    for sync in &mut both {
        assert!(sync.wait().unwrap().success());
    }
    assert_eq!(without_order(tables(&bucket)), without_order(tables(&alone)));
    assert!(sync(&place, &to).lines().all(|line| line.contains("0 exported now and 0 again, 0 rows")));
    let logs = |bucket: &Bucket| bucket.keys().into_iter().filter(|key| key.contains("/_delta_log/")).count();
    assert_eq!(logs(&bucket), logs(&alone), "a commit a day, of either writer");
}

#[test]
fn a_commit_that_another_program_put_first_stays() {
    let (place, bucket) = (demo(), Bucket::new("beaten"));
    let said = sync(&place, &bucket.at("lake"));
    assert!(said.contains("predictions: 4 days, version 4; 4 exported now and 0 again"), "{said}");
    let other = bucket.read("lake/predictions/_delta_log/00000000000000000001.json");
    assert_eq!(other, b"{\"commitInfo\":{\"timestamp\":0,\"operation\":\"OPTIMIZE\"}}\n");
    assert_eq!(tables(&bucket)["predictions"].len(), 4);
}

#[test]
fn commit_with_lost_answer_is_put_once() {
    let (place, bucket) = (demo(), Bucket::new("deaf"));
    let said = sync(&place, &bucket.at("lake"));
    assert!(said.contains("predictions: 4 days, version 3; 4 exported now and 0 again"), "{said}");
    assert_eq!(tables(&bucket)["predictions"].len(), 4);
}

#[test]
fn killed_s3_sync_finishes_when_repeated() {
    let (place, whole, bucket) = (demo(), Bucket::new("fine"), Bucket::new("fine"));
    sync(&place, &whole.at("lake"));
    let to = bucket.at("lake");
    let is_commit = |key: &String| key.ends_with(".json");
    let mut process = begin(&place, &to);
    let mut looks = 0;
    while bucket.keys().iter().filter(|key| is_commit(key)).count() < 2 {
        assert!(looks < MAX_LOOKS, "no commit came");
        looks += 1;
        sleep(Duration::from_millis(1));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let found = without_order(tables(&bucket)).len();
    let expected = without_order(tables(&whole));
    assert!(found >= 2 && found < expected.len(), "it was killed in the middle: {found} days");
    sync(&place, &to);
    assert_eq!(without_order(tables(&bucket)), expected);
}
