//! A table leaves for S3 and comes back, what is interrupted ends right, and what cannot be done says what to do.

use std::{collections::BTreeMap, fs, process::Stdio, thread::sleep, time::Duration};

use serde_json::Value;

use crate::{
    moving::{all_as_the_log_says, error, kills},
    support::{
        Place,
        s3::{Bucket, run, run_ok, with_s3},
    },
};

/// The number of looks at a bucket before a test gives up.
const MAX_LOOKS: usize = 10_000;

/// A table with events, projections, an audit log and a token.
fn filled() -> Place {
    let place = Place::sqlite();
    run_ok(&place, &["demo", "--until", "2013-04-06"]);
    run_ok(&place, &["init", "--user", "ann"]);
    place
}

fn manifest(bucket: &Bucket, prefix: &str) -> Value {
    serde_json::from_slice(&bucket.read(&format!("{prefix}/manifest.json"))).unwrap()
}

fn lasting(place: &Place) -> Value {
    let (folder, bucket) = (tempfile::tempdir().unwrap(), Bucket::new("fine"));
    let out = folder.path().join("out");
    run_ok(place, &["admin", "export", "--to", out.to_str().unwrap()]);
    run_ok(place, &["admin", "export", "--to", &bucket.at("out")]);
    let there = manifest(&bucket, "out");
    let here: Value = serde_json::from_str(&fs::read_to_string(out.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(here["files"], there["files"], "an export is the same wherever it goes");
    assert_eq!(here["lasting"], there["lasting"]);
    here["lasting"].clone()
}

#[test]
fn a_table_leaves_for_s3_and_comes_back() {
    let (from, bucket, folder) = (filled(), Bucket::new("fine"), tempfile::tempdir().unwrap());
    let [whole, later] = ["a/whole", "a/later/"].map(|prefix| bucket.at(prefix));
    // Files beside the prefix are left as they are.
    bucket.put("a/whole.txt", b"mine");
    let said = run_ok(&from, &["admin", "export", "--to", &whole]);
    assert!(said.starts_with(&format!("{whole}: ")), "{said}");
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let again =
        with_s3(&from, &["admin", "export", "--to", &whole]).env("TMPDIR", &temporary).output().unwrap();
    let again = error(&again);
    assert!(again.contains(&format!("{whole} holds an export already; name another prefix")), "{again}");
    // Files, by their names, are as in the manifest, and as those of a folder.
    let here = folder.path().join("here");
    run_ok(&from, &["admin", "export", "--to", here.to_str().unwrap()]);
    let copied = folder.path().join("copied");
    bucket.copy("a/whole", &copied);
    let files = |folder| -> BTreeMap<_, _> {
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
        let files = files.map(|file| (file.file_name(), fs::read(file.path()).unwrap()));
        files.filter(|(name, _)| name != "manifest.json").collect()
    };
    assert_eq!(files(&copied), files(&here));
    // A row may stand in both; each of its exports is named by what its manifest is.
    run_ok(&from, &["workspace", "category", "create", "late"]);
    let said = run_ok(&from, &["admin", "export", "--to", &later, "--since", copied.to_str().unwrap()]);
    assert!(said.contains("items changed since"), "{said}");
    let more = folder.path().join("more");
    run_ok(&from, &["admin", "export", "--to", more.to_str().unwrap(), "--since", &whole, "--since", &later]);
    let target = Place::sqlite();
    let missing = error(&run(&target, &["admin", "restore", "--from", &later]));
    assert!(missing.contains("s3://") && missing.contains("name its folder too"), "{missing}");
    let all = ["admin", "restore", "--from", &later, "--from", &whole, "--from", more.to_str().unwrap()];
    let mut restore = with_s3(&target, &all);
    assert!(restore.env("TMPDIR", &temporary).status().unwrap().success());
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left of what was fetched");
    assert!(run_ok(&target, &all).contains("nothing was changed"));
    assert_eq!(all_as_the_log_says(&target), all_as_the_log_says(&from));
    assert_eq!(lasting(&target), lasting(&from));
    // An export with a file that is not as it was brings nothing in.
    let mut bytes = bucket.read("a/whole/items-00001.ndjson.zst");
    bytes[100] ^= 1;
    bucket.put("a/whole/items-00001.ndjson.zst", &bytes);
    let refused = error(&run(&Place::sqlite(), &["admin", "restore", "--from", &whole]));
    assert!(refused.contains("items-00001.ndjson.zst is not the file that was exported"), "{refused}");
}

#[test]
fn killed_s3_export_and_restore_finish_when_repeated() {
    let (from, bucket) = (filled(), Bucket::new("stuck"));
    let out = bucket.at("out");
    let mut process =
        with_s3(&from, &["admin", "export", "--to", &out]).stderr(Stdio::null()).spawn().unwrap();
    let mut looks = 0;
    while bucket.keys().len() < 2 {
        assert!(process.try_wait().unwrap().is_none(), "it waits for its manifest");
        assert!(looks < MAX_LOOKS, "no files came: {:?}", bucket.keys());
        looks += 1;
        sleep(Duration::from_millis(5));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(!bucket.keys().contains(&"out/manifest.json".to_owned()));
    let missing = error(&run(&Place::sqlite(), &["admin", "restore", "--from", &out]));
    assert!(missing.contains("out/manifest.json is not there"), "{missing}");
    // Files that it has left, and those of an older export, go; files that are no export's stay, and are named.
    bucket.put("out/segments-00009.ndjson.zst", b"half");
    bucket.put("out/thesis.tex", b"mine");
    let refused = error(&run(&from, &["admin", "export", "--to", &out]));
    assert!(refused.contains(&format!("{out} holds other files, such as thesis.tex")), "{refused}");
    let below = error(&run(&from, &["admin", "export", "--to", &format!("s3://{}", bucket.name)]));
    assert!(below.contains("holds other files, such as out; name an empty prefix"), "{below}");
    let other = Bucket::new("fine");
    other.put("out/segments-00009.ndjson.zst", b"half");
    let out = other.at("out");
    run_ok(&from, &["admin", "export", "--to", &out]);
    assert!(!other.keys().contains(&"out/segments-00009.ndjson.zst".to_owned()), "{:?}", other.keys());
    let target = Place::sqlite();
    let mut killed = 0;
    for round in 0..kills() {
        let restore = ["admin", "restore", "--from", &*out];
        let mut process = with_s3(&target, &restore).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(15 + round * 37 % 400));
        killed += u64::from(process.try_wait().unwrap().is_none());
        _ = process.kill();
        process.wait().unwrap();
    }
    assert!(killed > 0, "nothing was killed");
    run_ok(&target, &["admin", "restore", "--from", &out]);
    assert_eq!(all_as_the_log_says(&target), all_as_the_log_says(&from));
}

#[test]
fn answers_of_s3_that_are_lost_are_settled() {
    let (from, bucket) = (filled(), Bucket::new("deaf"));
    run_ok(&from, &["admin", "export", "--to", &bucket.at("out")]);
    let target = Place::sqlite();
    assert!(run_ok(&target, &["admin", "restore", "--from", &bucket.at("out")]).contains("as they were at"));
}

#[test]
fn what_s3_refuses_says_what_to_do() {
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    let denied = Bucket::new("denied");
    let refused = |args: &[&str], variables: &[(&str, Option<&str>)]| {
        let mut command = with_s3(&place, args);
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = command.output().unwrap();
        (output.status.code(), error(&output))
    };
    let home = tempfile::tempdir().unwrap();
    let nobody = [
        ("AWS_ACCESS_KEY_ID", None),
        ("AWS_SECRET_ACCESS_KEY", None),
        ("HOME", Some(home.path().to_str().unwrap())),
    ];
    for (to, variables, code, says) in [
        ("s3://not-there/out", &[][..], Some(2), "there is no bucket `not-there`; make it"),
        (
            &denied.at("out"),
            &[],
            None,
            "access is denied (AccessDenied: It is so); the credentials need s3:ListBucket",
        ),
        ("s3://not-there/out", &nobody, Some(2), "there are no AWS credentials; set AWS_ACCESS_KEY_ID"),
        ("s3://not-there/out", &[("AWS_ALLOW_HTTP", None)], Some(2), "set AWS_ALLOW_HTTP=true"),
        ("s3://Not_There/out", &[], Some(2), "`Not_There` is no name of a bucket"),
        ("gs://not-there/out", &[], Some(2), "`gs://` is not known; name a folder, or s3://BUCKET/PREFIX"),
    ] {
        for args in [
            &["admin", "export", "--to", to][..],
            &["admin", "restore", "--from", to],
            &["admin", "lake", "sync", "-w", "credit/prod", "--to", to],
        ] {
            let (found, error) = refused(args, variables);
            assert!(error.contains(says), "{args:?}: {error}");
            assert!(code.is_none() || found == code, "{args:?}: {found:?}");
        }
    }
}
