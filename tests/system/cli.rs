//! Answers of the command line to bad input: one clear line and exit code 2.

use std::fmt::Write as _;

use crate::support::{run, run_ok};

fn says(data: &std::path::Path, args: &[&str], said: &mut String) {
    let output = run(data, args);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let err = err.replace(data.to_str().unwrap(), "DATA");
    _ = writeln!(
        said,
        "$ almanac {}\n{out}{err}exit {}\n",
        args.join(" ").replace(data.to_str().unwrap(), "DATA"),
        output.status.code().unwrap()
    );
}

#[test]
fn bad_input_gives_one_line_and_code_2() {
    let data = tempfile::tempdir().unwrap();
    let mut said = String::new();
    let window = ["--from", "2013-06-01", "--to", "2013-06-30"];
    let query = |more: &[&'static str]| [&["query", "predictions", "-w", "flights/nyc"], more].concat();
    says(data.path(), &query(&window), &mut said);
    run_ok(data.path(), &["demo", "--until", "2013-04-02"]);
    says(data.path(), &[&["query", "predictions", "-w", "flights/sfo"], &window[..]].concat(), &mut said);
    says(data.path(), &[&["query", "predictions", "-w", "flights"], &window[..]].concat(), &mut said);
    says(data.path(), &[&["query", "prediction", "-w", "flights/nyc"], &window[..]].concat(), &mut said);
    says(data.path(), &query(&["--from", "2013-06-02", "--to", "2013-06-01"]), &mut said);
    says(data.path(), &query(&["--from", "2013-02-30", "--to", "2013-06-01"]), &mut said);
    says(data.path(), &query(&[&window[..], &["--columns", "scor"]].concat()), &mut said);
    says(
        data.path(),
        &query(&["--from", "2013-04-01", "--to", "2013-04-01", "--columns", "tag.carier"]),
        &mut said,
    );
    says(data.path(), &query(&[&window[..], &["--release", "v9"]].concat()), &mut said);
    says(data.path(), &query(&[&window[..], &["--format", "xlsx"]].concat()), &mut said);
    says(data.path(), &query(&[&window[..], &["--as-of", "yesterday"]].concat()), &mut said);
    says(data.path(), &query(&["--from", "2013-04-01", "--to", "2013-04-01", "--output", "rows"]), &mut said);
    let into = |file: &str| data.path().join(file).to_str().unwrap().to_owned();
    let import = |file: &str, said: &mut String| {
        says(data.path(), &["import", &into(file), "-w", "flights/nyc", "--kind", "predictions"], said);
    };
    import("missing.csv", &mut said);
    import("almanac.db", &mut said);
    for (file, content) in [
        ("no.parquet", "not parquet"),
        ("empty.json", "\n"),
        (
            "bad.ndjson",
            "{\"key\":\"a\"}\n{\"key\":\"b\",\"predicted_at\":\"2013-06-01\",\"release\":\"v1\",\"score\":2}\n",
        ),
        (
            "bad.csv",
            "key,predicted_at,release,score\na,2013-06-01T04:30:00Z,v1,high\nb,2013-06-01T04:30:00Z,v7,0.5\n",
        ),
        ("unknown.csv", "key,predicted_at,release,score\na,2013-06-01T04:30:00Z,v7,0.5\n"),
    ] {
        std::fs::write(data.path().join(file), content).unwrap();
        import(file, &mut said);
    }
    let before = run_ok(data.path(), &["workspace", "show", "flights/nyc"]);
    says(
        data.path(),
        &["model", "create", "late-arrival", "-w", "flights/nyc", "--task", "regression"],
        &mut said,
    );
    says(data.path(), &["release", "create", "v1", "-w", "flights/nyc", "--model", "other"], &mut said);
    says(data.path(), &["workspace", "create", "flights"], &mut said);
    says(data.path(), &["demo", "--until", "2013-03-01"], &mut said);
    assert_eq!(run_ok(data.path(), &["workspace", "show", "flights/nyc"]), before, "nothing was changed");
    insta::assert_snapshot!(said);
}

#[test]
fn foreign_data_file_is_refused() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("almanac.db"), "something else entirely").unwrap();
    let mut said = String::new();
    says(data.path(), &["admin", "verify"], &mut said);
    says(data.path(), &["up", "--listen", "127.0.0.1:0"], &mut said);
    insta::assert_snapshot!(said);
}
