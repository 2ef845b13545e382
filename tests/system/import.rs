//! `almanac import`: files and folders, mapped columns, bad rows, interruption.

use std::{fmt::Write as _, fs, io::Write as _, path::Path, process::Stdio};

use serde_json::json;

use crate::support::{Located, Place, Service, almanac, ndjson, on_both_engines, register, run, run_ok};

on_both_engines!(
    a_folder_with_files_without_rows_is_imported,
    mended_rows_are_imported_from_rejects_file,
    a_body_without_rows_is_zero_rows,
    a_history_is_known_when_its_import_says,
);

fn workspace() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    let place = data.path();
    run_ok(place, &["workspace", "create", "credit/prod"]);
    run_ok(place, &["model", "create", "--task", "binary", "risk", "-w", "credit/prod"]);
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
fn bad_rows_fail_import_or_become_rejects() {
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
    // An existing file is not overwritten.
    assert_eq!(said(data.path(), &file, &["--rejects", rejects.to_str().unwrap()]).0, Some(2));
    // The repaired rows there can be imported by themselves.
    let mended = fs::read_to_string(&rejects).unwrap().replace(":7}", ":0.7}");
    let mended = mended.replace(r#""release":"v0""#, r#""release":"v1""#);
    fs::write(&rejects, mended.lines().take(2).collect::<Vec<_>>().join("\n")).unwrap();
    assert!(import(data.path(), &rejects, &[]).contains("2 appended"));
    assert_eq!(stored(data.path()).len(), 5);
}

/// Output and exit code of an import into `credit/prod`.
fn imported(place: &Place, path: &Path, more: &[&str]) -> (Option<i32>, String) {
    let path = path.to_str().unwrap();
    let output = run(place, &[&["import", path, "-w", "credit/prod", "-k", "predictions"], more].concat());
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

fn prepared(place: &(impl Located + ?Sized)) {
    run_ok(place, &["workspace", "create", "credit/prod"]);
    run_ok(place, &["model", "create", "--task", "binary", "risk", "-w", "credit/prod"]);
    run_ok(place, &["release", "create", "v1", "-w", "credit/prod", "--model", "risk"]);
}

fn a_folder_with_files_without_rows_is_imported(place: &Place) {
    prepared(place);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a.csv"), "key,predicted_at,release,score\n").unwrap();
    fs::write(path("b.csv"), "").unwrap();
    fs::write(path("c.ndjson"), rows(0..2)).unwrap();
    fs::write(path("d.ndjson"), "\n").unwrap();
    fs::write(path("e.json"), "[]").unwrap();
    let (code, text) = imported(place, folder.path(), &[]);
    assert_eq!(
        (code, text.as_str()),
        (Some(0), "2 predictions read from 5 files: 2 appended, 0 were there before\n")
    );
    let (code, text) = imported(place, &path("a.csv"), &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.ends_with("a.csv: 0 appended, 0 were there before\n"), "{text}");
    // A file that is not of its format is named, and nothing was stored before.
    fs::write(path("c.ndjson"), rows(2..4)).unwrap();
    fs::write(path("f.parquet"), "PAR1 and no more").unwrap();
    let rejects = tempfile::tempdir().unwrap();
    let rejects = rejects.path().join("bad.ndjson");
    let (code, text) = imported(place, folder.path(), &["--rejects", rejects.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("f.parquet: ") && !text.contains("appended"), "{text}");
    assert!(!rejects.exists(), "the same command can be given again");
    fs::remove_file(path("f.parquet")).unwrap();
    assert!(imported(place, folder.path(), &[]).1.contains("2 appended"));
}

fn mended_rows_are_imported_from_rejects_file(place: &Place) {
    prepared(place);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("in")).unwrap();
    let csv = "loan,at,prob,branch,note\na,2026-06-01 04:30:00,0.5,north,\"x, y\"\nb,2026-06-01 04:30:00,1.35,south,\n";
    fs::write(path("in/a.csv"), csv).unwrap();
    let row = json!({ "loan": "c", "at": "2026-06-01 04:30:00", "prob": 7, "branch": "north" });
    fs::write(path("in/b.ndjson"), format!("{row}\n")).unwrap();
    let options = ["--map", "key=loan,score=prob,predicted_at=at", "--set", "release=v1", "--tag", "branch"];
    let options =
        [&options[..], &["--time-zone", "America/New_York", "--ignore-extra", "--rejects"]].concat();
    let import = |from: &str, rejects: &str| {
        let rejects = path(rejects);
        imported(place, &path(from), &[&options[..], &[rejects.to_str().unwrap()]].concat())
    };
    let (code, text) = import("in", "one.ndjson");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("1 appended, 0 were there before, 2 were bad"), "{text}");
    assert!(
        text.contains("in/a.csv: row 2: `score`") && text.contains("in/b.ndjson: row 1: `score`"),
        "{text}"
    );
    // Unchanged, they are as bad as before.
    let (code, text) = import("one.ndjson", "two.ndjson");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("0 appended, 0 were there before, 2 were bad"), "{text}");
    let mended = fs::read_to_string(path("two.ndjson")).unwrap();
    fs::write(
        path("two.ndjson"),
        mended.replace(r#""1.35""#, r#""0.35""#).replace(r#""prob":7"#, r#""prob":0.7"#),
    )
    .unwrap();
    let (code, text) = import("two.ndjson", "three.ndjson");
    assert_eq!((code, text.contains("2 appended, 0 were there before")), (Some(0), true), "{text}\n{mended}");
    let asked = ["query", "predictions", "-w", "credit/prod", "--from", "2026-06-01", "--to", "2026-06-01"];
    let asked = [&asked[..], &["--columns", "key,predicted_at,score,tag.branch", "--format", "csv"]].concat();
    let mut rows: Vec<String> = run_ok(place, &asked).lines().skip(1).map(str::to_owned).collect();
    rows.sort();
    let at = "2026-06-01T08:30:00Z";
    assert_eq!(
        rows,
        [format!("a,{at},0.5,north"), format!("b,{at},0.35,south"), format!("c,{at},0.7,north")]
    );
    let (code, text) = import("in", "bad.txt");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("it should end in .ndjson or .jsonl"), "{text}");
}

fn a_body_without_rows_is_zero_rows(place: &Place) {
    let service = Service::start(place);
    register(&service);
    let path = "/v1/workspaces/credit/prod/predictions";
    let bodies = [
        ("application/x-ndjson", ""),
        ("application/x-ndjson", "\n"),
        ("application/json", "[]"),
        ("application/json", r#"{"key":[],"predicted_at":[],"release":[],"score":[]}"#),
        ("text/csv", ""),
        ("text/csv", "key,predicted_at,release,score\n"),
    ];
    for (content_type, body) in bodies {
        let answer = service.post(path, content_type, None, body);
        assert_eq!(answer.status, 201, "{content_type} {body:?}: {}", answer.text());
        let told = answer.json();
        assert_eq!((&told["rows"], &told["appended"], &told["days"]), (&json!(0), &json!(0), &json!({})));
    }
    // A key without rows is free.
    for (body, appended) in
        [("[]", 0), (r#"[{"key":"a","predicted_at":"2026-06-01T04:30:00Z","release":"v1","score":0.5}]"#, 1)]
    {
        let answer = service.post(path, "application/json", Some("once"), body);
        assert_eq!(
            (answer.status, answer.json()["appended"].as_u64()),
            (201, Some(appended)),
            "{}",
            answer.text()
        );
    }
    let answer = service.post(path, "application/json", None, "");
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(answer.text().contains("it is empty; an array without objects is []"), "{}", answer.text());
}

#[test]
fn what_options_name_is_filled_or_refused() {
    let data = workspace();
    let file = data.path().join("a.csv");
    fs::write(&file, "key,t,prob,amount,branch,\"a,b\"\nx,2026-06-01T04:30:00Z,0.5,12.5,north,1\n").unwrap();
    let fields = ["--set", "release=v1", "--map", "predicted_at=t,score=prob,feature.p=prob,value=amount"];
    let options =
        [&fields[..], &["--feature", "amount", "--map", r#""feature.ab=a,b""#, "--ignore-extra"]].concat();
    let (code, text) = said(data.path(), &file, &[&options[..], &["--tag", "brunch"]].concat());
    assert_eq!(code, Some(2), "{text}");
    let expected = "a.csv: --tag names the column `brunch`, which is not in it; did you mean `branch`?";
    assert!(text.contains(expected), "{text}");
    let (code, text) =
        said(data.path(), &file, &[&fields[..], &["--feature", "amount", "--tag", "branch"]].concat());
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("the column `a,b` is not known"), "{text}");
    import(data.path(), &file, &[&options[..], &["--tag", "branch"]].concat());
    let row = stored(data.path()).remove(0);
    assert_eq!(row["score"], 0.5);
    assert_eq!(
        (&row["feature.p"], &row["value"], &row["feature.amount"]),
        (&json!(0.5), &json!(12.5), &json!(12.5))
    );
    assert_eq!((&row["tag.branch"], &row["feature.ab"]), (&json!("north"), &json!(1.0)));
    // A column missing in all rows is reported once all are read, before anything is stored.
    let lines = data.path().join("b.ndjson");
    fs::write(&lines, rows(0..2)).unwrap();
    let (code, text) = said(
        data.path(),
        &lines,
        &["--tag", "branch", "--rejects", data.path().join("r.ndjson").to_str().unwrap()],
    );
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("b.ndjson: --tag names the column `branch`, which is not in it"), "{text}");
    assert_eq!(stored(data.path()).len(), 1, "nothing more was stored");
}

#[test]
fn negative_keys_and_comma_columns_can_be_queried() {
    let data = workspace();
    let file = data.path().join("a.ndjson");
    let row = json!({ "key": -1, "predicted_at": "2026-06-01T04:30:00Z", "release": "v1",
        "scores": { "late, very": 0.25, "on time": 0.75 } });
    fs::write(&file, row.to_string()).unwrap();
    import(data.path(), &file, &[]);
    let window = ["query", "predictions", "-w", "credit/prod", "--from", "2026-06-01", "--to", "2026-06-01"];
    let columns = ["--key", "-1", "--columns", r#"key,"score.late, very""#, "--format", "ndjson"];
    let asked = run_ok(data.path(), &[&window[..], &columns].concat());
    assert_eq!(ndjson(&asked), [json!({ "key": "-1", "score.late, very": 0.25 })]);
}

#[test]
fn texts_for_absent_values_warn_or_become_null() {
    let data = workspace();
    let file = data.path().join("a.csv");
    let at = "2026-06-01T04:30:00Z,v1";
    fs::write(
        &file,
        format!("key,predicted_at,release,label\na,{at},NA\nb,{at},<NA>\nc,{at},NA\nd,{at},yes\n"),
    )
    .unwrap();
    let (code, text) = said(data.path(), &file, &["--dry-run"]);
    assert_eq!(code, Some(0), "{text}");
    let warning = "warning: `label` is the text `<NA>` in 1 row, `NA` in 2 rows; --null '<NA>' --null 'NA' reads such texts as no value\n";
    assert!(text.ends_with(warning), "{text}");
    let (code, text) = said(data.path(), &file, &["--null", "NA", "--null", "<NA>"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("row 1: a prediction needs a score") && !text.contains("warning"), "{text}");
}

/// Rows that were bad and are good now are stored; stored rows are not stored again.
#[test]
fn reimport_stores_only_newly_valid_rows() {
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
        let rejects = data.path().join(format!("{rejects}.ndjson"));
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
    // In another format, or with another option, it is another file; uncompressed it is the same.
    let tagged = data.path().join("some.jsonl");
    fs::copy(&file, &tagged).unwrap();
    assert!(
        said(data.path(), &tagged, &["--rejects", data.path().join("5.ndjson").to_str().unwrap()])
            .1
            .contains("0 appended")
    );
}

#[test]
fn killed_import_resumes_where_it_ended() {
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

fn a_history_is_known_when_its_import_says(place: &Place) {
    prepared(place);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("predictions.ndjson"), rows(0..4)).unwrap();
    let known_at = |at: &'static str| ["--known-at", at];
    let (code, text) = imported(place, &path("predictions.ndjson"), &known_at("2026-06-01T04:31:00Z"));
    assert_eq!((code, text.contains("4 appended")), (Some(0), true), "{text}");
    let outcome = |n: usize, loaded: &str| format!("k{n},2026-06-01,2026-06-09 12:00,1,{loaded}\n");
    let header = "key,predicted_on,observed_at,label,loaded\n";
    let [first, second] = ["2026-06-11 06:00", "2026-06-12 06:00"];
    let rows = [header, &outcome(0, second), &outcome(1, first), &outcome(2, first)].concat();
    fs::write(path("outcomes.csv"), rows).unwrap();
    let outcomes = |file: &str, more: &[&str]| {
        let file = path(file);
        let times = ["--time-format", "%Y-%m-%d %H:%M", "--time-zone", "UTC"];
        let args = ["import", file.to_str().unwrap(), "-w", "credit/prod", "-k", "outcomes"];
        let output = run(place, &[&args[..], &times, more].concat());
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    assert_eq!(outcomes("outcomes.csv", &known_at("loaded")), {
        let said = format!(
            "3 outcomes read from {}: 3 appended, 0 were there before\n",
            path("outcomes.csv").display()
        );
        (Some(0), said)
    });
    let labelled = |as_of: &str| {
        let asked =
            ["query", "evaluations", "-w", "credit/prod", "--from", "2026-06-01", "--to", "2026-06-01"];
        let asked = [&asked[..], &["--columns", "predictions,labelled", "--format", "csv", "--as-of", as_of]]
            .concat();
        let output = run(place, &asked);
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for (as_of, expected) in
        [("2026-06-10", "4,0"), ("2026-06-11T06:00:00Z", "4,2"), ("2026-06-12T06:00:00Z", "4,3")]
    {
        let (rows, said) = labelled(as_of);
        assert_eq!(rows, format!("predictions,labelled\n{expected}\n"), "as of {as_of}");
        assert!(said.contains("when their import states that they were known"), "{said}");
    }
    // A stored row keeps the time that was stated first.
    let again = outcomes("outcomes.csv", &["--known-at", "2026-06-20", "--ignore-extra"]).1;
    assert!(again.contains("0 appended, 3 were there"), "{again}");
    // An event that is known earlier and comes later counts from the time of the rows before it.
    fs::write(path("late.csv"), [header, &outcome(3, first)].concat()).unwrap();
    let (code, text) = outcomes("late.csv", &known_at("loaded"));
    assert!(code == Some(0) && text.contains("count as known only from 2026-06-12T06:00:00Z"), "{text}");
    for (loaded, why) in [
        ("2026-06-09 11:59", "`observed_at` is 2026-06-09T12:00:00Z, which is later than it was known"),
        ("", "`known_at` is missing"),
        ("9999-01-01 00:00", "`known_at` is more than 24 hours in the future"),
    ] {
        fs::write(path("bad.csv"), [header, &outcome(3, loaded)].concat()).unwrap();
        let (code, text) = outcomes("bad.csv", &known_at("loaded"));
        assert!(code == Some(2) && text.contains(why), "{text}");
    }
    let typo = outcomes("outcomes.csv", &["--known-at", "loded", "--ignore-extra"]).1;
    assert!(typo.contains("--known-at names the column `loded`"), "{typo}");
    assert!(outcomes("outcomes.csv", &known_at("2026-06-20T")).1.contains("--known-at"));
    let audit_log = run_ok(
        place,
        &["audit", "-w", "credit/prod", "--from", "2026-06-01", "--to", "2026-06-01", "--format", "csv"],
    );
    assert!(audit_log.contains("known_at=2026-06-11T06:00:00Z"), "{audit_log}");
}

#[test]
fn files_of_other_tools_are_imported() {
    let data = workspace();
    let folder = data.path().join("in");
    let path = |name: &str| folder.join(name);
    for folder in [folder.clone(), path("_temporary"), path(".cache")] {
        fs::create_dir_all(folder).unwrap();
    }
    let at = "2026-06-01T04:30:00Z";
    for (name, key) in
        [("_temporary/part.csv", "a"), (".cache/b.csv", "b"), ("_metadata.json", "c"), (".d.csv", "d")]
    {
        fs::write(path(name), format!("key,predicted_at,release,score\n{key},{at},v1,2\n")).unwrap();
    }
    fs::write(path("e.tsv"), format!("key\tpredicted_at\trelease\tscore\ne, f\t{at}\tv1\t0.5\n")).unwrap();
    fs::write(path("g.json"), rows(0..2)).unwrap();
    fs::write(path("h.json"), rows(2..3).trim_end()).unwrap();
    assert_eq!(
        import(data.path(), &folder, &[]),
        "4 predictions read from 3 files: 4 appended, 0 were there before\n"
    );
    // Cells are separated by another character in the file and in its rejects.
    let part = data.path().join("part-00000");
    let cells = format!("key;predicted_at;release;score\n\"i;j\";{at};v1;0.5\n\"k;l\";{at};v1;1.5\n");
    fs::write(&part, &cells).unwrap();
    let (code, text) = said(data.path(), &part, &[]);
    assert!(code == Some(2) && text.contains("DATA/part-00000; --input-format names it"), "{text}");
    let rejects = data.path().join("bad.ndjson");
    let options = ["--input-format", "csv", "--delimiter", ";", "--rejects", rejects.to_str().unwrap()];
    assert!(import(data.path(), &part, &options).contains("1 appended"));
    assert!(fs::read_to_string(&rejects).unwrap().contains(r#""event":{"key":"k;l""#));
    let (code, text) = said(data.path(), &part, &["--delimiter", ";;"]);
    assert!(code == Some(2) && text.contains("one character"), "{text}");
}

#[test]
fn standard_input_is_imported_like_a_file() {
    let data = workspace();
    let piped = |body: &str, more: &[&str]| {
        let args = [&["import", "-", "-w", "credit/prod", "-k", "predictions"], more].concat();
        let mut child = almanac(data.path(), &args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (code, text) = piped(&rows(0..60_000), &["--input-format", "ndjson"]);
    let expected = "60000 predictions read from -: 60000 appended, 0 were there before\n";
    assert_eq!((code, text.as_str()), (Some(0), expected));
    let csv = "key,predicted_at,release,score\na,2026-11-01 01:30,v1,7\nb,2026-11-01 01:30,v1,0.5\n";
    let options = ["--input-format", "csv", "--time-zone", "America/New_York"];
    let (code, text) = piped(csv, &options);
    assert!(
        code == Some(2) && text.contains("row 1: `predicted_at` `2026-11-01 01:30:00` is there twice"),
        "{text}"
    );
    let rejects = data.path().join("bad.ndjson");
    let more = ["--ambiguous", "latest", "--rejects", rejects.to_str().unwrap()];
    let (code, text) = piped(csv, &[&options[..], &more].concat());
    assert!(code == Some(0) && text.contains("1 appended, 0 were there before, 1 were bad"), "{text}");
    let day = ["--from", "2026-11-01", "--to", "2026-11-01", "--format", "ndjson"];
    let stored = run_ok(data.path(), &[&["query", "predictions", "-w", "credit/prod"], &day[..]].concat());
    assert_eq!(ndjson(&stored)[0]["predicted_at"], "2026-11-01T06:30:00Z");
    let (code, text) = piped(csv, &[]);
    assert!(code == Some(2) && text.contains("--input-format has to name the format"), "{text}");
}

#[test]
fn sagemaker_lines_are_imported_or_rejected() {
    let data = workspace();
    let line = |id: &str, output: &str| {
        let data = json!({ "endpointOutput": { "mode": "OUTPUT", "data": output, "encoding": "CSV" } });
        let metadata = json!({ "eventId": id, "inferenceTime": "2026-06-01T04:30:00Z" });
        json!({ "captureData": data, "eventMetadata": metadata, "eventVersion": "0" }).to_string()
    };
    let truth =
        json!({ "groundTruthData": { "data": "1", "encoding": "CSV" }, "eventMetadata": { "eventId": "a" } });
    let file = data.path().join("capture.jsonl");
    let lines =
        [line("a", "0.25"), line("b", "1.5"), truth.to_string(), line("c", "0.5\n0.75"), "{}".to_owned()];
    fs::write(&file, lines.join("\n")).unwrap();
    let rejects = data.path().join("bad.ndjson");
    let options = ["--from", "sagemaker-capture", "--map", "score=output[0]", "--set", "release=v1"];
    let (code, text) =
        said(data.path(), &file, &[&options[..], &["--rejects", rejects.to_str().unwrap()]].concat());
    assert!(code == Some(0) && text.contains("3 appended, 0 were there before, 3 were bad"), "{text}");
    for bad in [
        "row 2: `score` is a probability from 0 to 1, but 1.5 was given",
        "row 3: has no captureData; import ground truth with --kind outcomes",
        "row 6: is not a line of SageMaker Model Monitor: ",
    ] {
        assert!(text.contains(bad), "{text}");
    }
    let mended = fs::read_to_string(&rejects).unwrap().replace(r#""1.5""#, r#""0.5""#);
    fs::write(&rejects, mended.lines().next().unwrap()).unwrap();
    assert!(import(data.path(), &rejects, &options).contains("1 appended"));
    let mut keys: Vec<_> =
        stored(data.path()).iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect();
    keys.sort();
    assert_eq!(keys, ["a", "b", "c:1", "c:2"]);
    let (_, text) = said(
        data.path(),
        &file,
        &[&options[..2], &["--map", "score=output.scor", "--ignore-extra"]].concat(),
    );
    assert!(text.contains("--map names the column `output.scor`, which is not in it"), "{text}");
}
