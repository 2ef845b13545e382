//! `almanac import`: files and folders, mapped columns, bad rows, interruption.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::{fmt::Write as _, fs, path::Path, process::Stdio};

use support::{almanac, ndjson, run, run_ok};

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
