//! `almanac import`: files and folders, mapped columns, bad rows, interruption.

use std::{fmt::Write as _, fs, path::Path, process::Stdio};

use crate::support::{almanac, ndjson, run, run_ok};

fn workspace() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    let place = data.path();
    run_ok(place, &["workspace", "create", "credit/prod"]);
    run_ok(place, &["model", "create", "risk", "-w", "credit/prod"]);
    run_ok(place, &["release", "create", "v1", "-w", "credit/prod", "--model", "risk"]);
    data
}

fn import(data: &Path, path: &Path, more: &[&str]) -> String {
    let path = path.to_str().unwrap();
    run_ok(data, &[&["import", path, "-w", "credit/prod", "-k", "predictions"], more].concat())
}

fn said(data: &Path, path: &Path, more: &[&str]) -> (Option<i32>, String) {
    let path = path.to_str().unwrap();
    let output = run(data, &[&["import", path, "-w", "credit/prod", "-k", "predictions"], more].concat());
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap().replace(data.to_str().unwrap(), "DATA"))
}

fn stored(data: &Path) -> Vec<serde_json::Value> {
    let window = ["--from", "2026-01-01", "--to", "2026-12-31", "--format", "ndjson"];
    ndjson(&run_ok(data, &[&["query", "predictions", "-w", "credit/prod"], &window[..]].concat()))
}

fn rows(range: std::ops::Range<usize>) -> String {
    range.fold(String::new(), |mut body, row| {
        let day = 1 + row / 20_000;
        _ = writeln!(
            body,
            r#"{{"key":"k{row}","predicted_at":"2026-06-0{day}T04:30:00Z","release":"v1","score":0.5}}"#
        );
        body
    })
}

#[test]
fn a_folder_is_imported_once_however_often() {
    let data = workspace();
    let folder = data.path().join("in");
    fs::create_dir_all(folder.join("more")).unwrap();
    fs::write(folder.join("a.ndjson"), rows(0..3)).unwrap();
    fs::write(folder.join("more/b.csv"), "key,predicted_at,release,score\nb1,2026-06-03T04:30:00Z,v1,0.25\n")
        .unwrap();
    fs::write(folder.join("readme.txt"), "not events").unwrap();
    let first = import(data.path(), &folder, &[]);
    assert_eq!(first, "4 predictions read from 2 files: 4 appended, 0 were there before\n");
    let again = import(data.path(), &folder, &[]);
    assert_eq!(again, "4 predictions read from 2 files: 0 appended, 4 were there before\n");
    assert_eq!(stored(data.path()).len(), 4);
}

#[test]
fn columns_and_times_are_mapped() {
    let data = workspace();
    let file = data.path().join("loans.csv");
    fs::write(&file, "loan_id,when,prob,branch,v\nx,2026-07-01 08:30,0.75,north,v1\n").unwrap();
    let map = ["--map", "key=loan_id,predicted_at=when,score=prob", "--map", "release=v", "--tag", "branch"];
    let time = ["--time-format", "%Y-%m-%d %H:%M", "--time-zone", "America/New_York"];
    import(data.path(), &file, &[&map[..], &time[..]].concat());
    let rows = stored(data.path());
    assert_eq!(rows[0]["key"], "x");
    assert_eq!(rows[0]["predicted_at"], "2026-07-01T12:30:00Z");
    assert_eq!(rows[0]["score"], 0.75);
    assert_eq!(rows[0]["tag.branch"], "north");
    let (code, text) = said(data.path(), &file, &["--map", "score"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("--map score is not of the form field=column"), "{text}");
    let (code, text) = said(data.path(), &file, &["--time-zone", "Mars/Olympus"]);
    assert_eq!(code, Some(2), "{text}");
}

#[test]
fn bad_rows_refuse_the_whole_or_go_to_a_file() {
    let data = workspace();
    let file = data.path().join("some.ndjson");
    let bad = r#"{"key":"bad","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":7}"#;
    let unknown = r#"{"key":"old","predicted_at":"2026-06-01T04:30:00Z","release":"v0","score":0.5}"#;
    fs::write(&file, format!("{}{bad}\n{unknown}\nno json\n{}", rows(0..2), rows(2..3))).unwrap();
    let (code, refused) = said(data.path(), &file, &[]);
    assert_eq!(code, Some(2));
    let (code, dry) = said(data.path(), &file, &["--dry-run"]);
    assert_eq!(code, Some(2));
    assert!(stored(data.path()).is_empty(), "nothing was stored");
    let rejects = data.path().join("rejects.ndjson");
    let (code, went_on) = said(data.path(), &file, &["--rejects", rejects.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{went_on}");
    let written = fs::read_to_string(&rejects).unwrap().replace(data.path().to_str().unwrap(), "DATA");
    insta::assert_snapshot!(format!("{refused}\n{dry}\n{went_on}\n{written}"));
    assert_eq!(stored(data.path()).len(), 3);
    // A file that is there is not written over.
    assert_eq!(said(data.path(), &file, &["--rejects", rejects.to_str().unwrap()]).0, Some(2));
    // What was mended is imported by itself.
    let mended: String = ndjson(&written)
        .iter()
        .filter_map(|row| row["raw"].as_str().filter(|raw| raw.starts_with('{')))
        .map(|raw| raw.replace(":7", ":0.7").replace("v0", "v1") + "\n")
        .collect();
    fs::write(&file, mended).unwrap();
    assert!(import(data.path(), &file, &[]).contains("2 appended"));
    assert_eq!(stored(data.path()).len(), 5);
}

/// Rows that were bad and are good now are stored; those that were stored before are not stored again.
#[test]
fn importing_a_file_again_stores_only_what_became_good_since() {
    let data = workspace();
    let file = data.path().join("some.ndjson");
    let row = |key: &str, day: u32, release: &str| {
        format!(
            r#"{{"key":"{key}","predicted_at":"2026-06-{day:02}T04:30:00Z","release":"{release}","score":0.5}}"#
        )
    };
    let body = [
        row("a", 1, "v1"),
        row("b", 1, "v2"),
        "no json".to_owned(),
        String::new(),
        row("c", 2, "v1"),
        row("d", 3, "v2"),
    ];
    fs::write(&file, body.join("\n")).unwrap();
    let again = |rejects: &str| {
        let rejects = data.path().join(rejects);
        said(data.path(), &file, &["--rejects", rejects.to_str().unwrap()]).1
    };
    let first = again("1");
    assert!(
        first.contains("5 predictions read") && first.contains("2 appended, 0 were there before"),
        "{first}"
    );
    assert!(again("2").contains("0 appended, 2 were there before"));
    run_ok(data.path(), &["release", "create", "v2", "-w", "credit/prod", "--model", "risk"]);
    let since = again("3");
    assert!(since.contains("2 appended, 2 were there before"), "{since}");
    assert!(again("4").contains("0 appended, 4 were there before"));
    let keys: Vec<String> = stored(data.path()).iter().map(|row| row["key"].to_string()).collect();
    assert_eq!(keys, [r#""a""#, r#""b""#, r#""c""#, r#""d""#]);
    // As another format, or with another option, it is another file; unpacked it is the same.
    let tagged = data.path().join("some.jsonl");
    fs::copy(&file, &tagged).unwrap();
    assert!(
        said(data.path(), &tagged, &["--rejects", data.path().join("5").to_str().unwrap()])
            .1
            .contains("0 appended")
    );
}

/// A data folder that 0.1 wrote, with files that it imported: 40 rows of which 10 were of a release that nobody
/// had registered, 20 rows and 5, with labels that were not made plain then.
#[test]
fn files_that_version_0_1_imported_add_nothing_but_what_became_good_since() {
    let data = tempfile::tempdir().unwrap();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/v0.1");
    fs::copy(old.join("almanac.db"), data.path().join("almanac.db")).unwrap();
    assert_eq!(stored(data.path()).len(), 55);
    let again = |name: &str, rejects: &str| {
        let rejects = data.path().join(rejects);
        said(data.path(), &old.join(name), &["--rejects", rejects.to_str().unwrap()]).1
    };
    // It is another file by what becomes good before it is imported again.
    run_ok(data.path(), &["release", "create", "v2", "-w", "credit/prod", "--model", "risk"]);
    for (name, first, then) in [
        ("a.ndjson", "10 appended, 30 were there before", "0 appended, 40 were there before"),
        ("b.csv", "0 appended, 20 were there before", "0 appended, 20 were there before"),
        ("c.json", "0 appended, 5 were there before", "0 appended, 5 were there before"),
    ] {
        let said = again(name, &format!("{name}.1"));
        assert!(said.contains(first), "{name}: {said}");
        let said = again(name, &format!("{name}.2"));
        assert!(said.contains(then), "{name}: {said}");
    }
    assert_eq!(stored(data.path()).len(), 65);
    assert!(run_ok(data.path(), &["verify"]).contains("all as the log says"));
}

#[test]
fn a_file_that_version_0_1_imported_is_known_before_and_after_a_row_of_it_becomes_good() {
    let data = tempfile::tempdir().unwrap();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/v0.1");
    fs::copy(old.join("almanac.db"), data.path().join("almanac.db")).unwrap();
    let again = |rejects: &str| {
        let rejects = data.path().join(rejects);
        said(data.path(), &old.join("a.ndjson"), &["--rejects", rejects.to_str().unwrap()]).1
    };
    assert!(again("1").contains("0 appended, 30 were there before"));
    run_ok(data.path(), &["release", "create", "v2", "-w", "credit/prod", "--model", "risk"]);
    assert!(again("2").contains("10 appended, 30 were there before"));
    assert!(again("3").contains("0 appended, 40 were there before"));
}

#[test]
fn an_import_that_was_killed_goes_on_where_it_ended() {
    let data = workspace();
    let file = data.path().join("large.ndjson");
    fs::write(&file, rows(0..130_000)).unwrap();
    let args = ["import", file.to_str().unwrap(), "-w", "credit/prod", "-k", "predictions"];
    let mut child = almanac(data.path(), &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let count = ["query", "predictions", "-w", "credit/prod", "--from", "2026-06-01", "--to", "2026-06-07"];
    let count = [&count[..], &["--columns", "key", "--format", "csv"]].concat();
    while child.try_wait().unwrap().is_none() && run_ok(data.path(), &count).lines().count() < 2 {}
    child.kill().unwrap();
    child.wait().unwrap();
    let before = run_ok(data.path(), &count).lines().count() - 1;
    let printed = import(data.path(), &file, &[]);
    assert!(printed.starts_with("130000 predictions read"), "{printed}");
    assert!(before > 0);
    assert_eq!(run_ok(data.path(), &count).lines().count() - 1, 130_000);
    assert!(import(data.path(), &file, &[]).contains("0 appended, 130000 were there before"));
}
