//! The configuration as the real binary takes it, and the commands on the table itself.

use std::{
    fmt::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use event::Clock;
use table::sqlite::SqliteTable;

/// Everything that could be set outside of a test.
const VARIABLES: [&str; 7] = ["CONFIG", "STORE", "DATA", "REGION", "ENDPOINT", "LISTEN", "LOG_FORMAT"];

/// Runs the real binary in `folder`.
fn run(folder: &Path, variables: &[(&str, &str)], args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_almanac"));
    command.current_dir(folder).args(args).stdin(Stdio::null());
    for name in VARIABLES {
        command.env_remove(format!("ALMANAC_{name}"));
    }
    command.envs(variables.iter().copied()).output().expect("the binary starts")
}

/// Runs it, and notes what it was asked and what it said.
fn says(folder: &Path, variables: &[(&str, &str)], args: &[&str], said: &mut String) {
    let output = run(folder, variables, args);
    let variables: String = variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let code = output.status.code().unwrap();
    _ = writeln!(said, "$ {variables}almanac {}\n{out}{err}exit {code}\n", args.join(" "));
}

#[test]
fn flags_override_environment_file_and_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let mut said = String::new();
    says(folder.path(), &[], &["config", "show"], &mut said);
    let file = "store = \"dynamodb:file\"\nregion = \"eu-west-1\"\n\nlisten = \"127.0.0.1:1\"\n";
    std::fs::write(folder.path().join("almanac.toml"), file).unwrap();
    says(folder.path(), &[], &["config", "show"], &mut said);
    let variables =
        [("ALMANAC_STORE", "dynamodb:environment"), ("ALMANAC_REGION", "eu-west-2"), ("ALMANAC_LISTEN", "")];
    says(folder.path(), &variables, &["config", "show"], &mut said);
    // A flag is as good before the command as after it.
    says(folder.path(), &variables, &["--store", "sqlite:flag.db", "config", "show"], &mut said);
    says(
        folder.path(),
        &variables,
        &["config", "show", "--store", "dynamodb:flag", "--endpoint", "http://localhost:8000"],
        &mut said,
    );
    std::fs::create_dir(folder.path().join("etc")).unwrap();
    std::fs::write(folder.path().join("etc/other.toml"), "data = \"kept\"\n").unwrap();
    says(
        folder.path(),
        &[],
        &["config", "show", "--config", "etc/other.toml", "--format", "json"],
        &mut said,
    );
    insta::assert_snapshot!(said);
}

#[test]
fn wrong_configuration_gives_one_line_and_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let mut said = String::new();
    let list = ["workspace", "list"];
    says(folder.path(), &[("ALMANAC_STORE", "mysql:almanac")], &list, &mut said);
    says(folder.path(), &[], &[&list[..], &["--store", "almanac.db"]].concat(), &mut said);
    says(folder.path(), &[], &[&list[..], &["--config", "missing.toml"]].concat(), &mut said);
    says(folder.path(), &[], &[&list[..], &["--store", "sqlite:missing.db"]].concat(), &mut said);
    std::fs::write(folder.path().join("almanac.toml"), "region = \"eu-west-1\"\nstor = \"sqlite:a.db\"\n")
        .unwrap();
    says(folder.path(), &[], &list, &mut said);
    says(folder.path(), &[], &["config", "show"], &mut said);
    std::fs::write(folder.path().join("almanac.toml"), "store = \"sqlite:a.db\"\n").unwrap();
    says(folder.path(), &[], &["--data", "elsewhere", "admin", "table", "create"], &mut said);
    insta::assert_snapshot!(said);
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["almanac.toml"], "nothing was made");
}

#[test]
fn table_file_can_be_created_described_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mut said = String::new();
    let on_file = |args: &[&'static str]| [&["--store", "sqlite:kept/log.db"], args].concat();
    says(folder.path(), &[], &on_file(&["admin", "table", "describe"]), &mut said);
    says(folder.path(), &[], &on_file(&["admin", "table", "create"]), &mut said);
    says(folder.path(), &[], &on_file(&["workspace", "create", "flights/nyc"]), &mut said);
    says(folder.path(), &[], &on_file(&["admin", "table", "create"]), &mut said);
    says(folder.path(), &[], &on_file(&["admin", "table", "describe"]), &mut said);
    says(folder.path(), &[], &on_file(&["admin", "table", "delete"]), &mut said);
    says(folder.path(), &[], &on_file(&["admin", "table", "delete", "--confirm", "almanac.db"]), &mut said);
    let listed = run(folder.path(), &[], &on_file(&["workspace", "list"]));
    assert!(String::from_utf8(listed.stdout).unwrap().contains("flights/nyc"));

    // A process that has it open would go on writing to a file without a name.
    let open = SqliteTable::open(&folder.path().join("kept/log.db"), Clock::system()).unwrap();
    says(folder.path(), &[], &on_file(&["admin", "table", "delete", "--confirm", "log.db"]), &mut said);
    drop(open);

    says(folder.path(), &[], &on_file(&["admin", "table", "delete", "--confirm", "log.db"]), &mut said);
    assert_eq!(
        std::fs::read_dir(folder.path().join("kept")).unwrap().count(),
        0,
        "nothing is left beside it"
    );
    says(folder.path(), &[], &on_file(&["admin", "table", "delete", "--confirm", "log.db"]), &mut said);
    // Ids and times differ.
    let is_same = |line: &&str| {
        !["id ", "category ", "created_at ", "updated_at "]
            .iter()
            .any(|name| line.trim_start().starts_with(name))
    };
    insta::assert_snapshot!(said.lines().filter(is_same).collect::<Vec<_>>().join("\n"));
}

#[test]
fn foreign_file_is_neither_described_nor_deleted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "something else entirely").unwrap();
    let mut said = String::new();
    let on_file = |args: &[&'static str]| [&["--store", "sqlite:notes.txt"], args].concat();
    says(folder.path(), &[], &on_file(&["admin", "table", "describe"]), &mut said);
    says(folder.path(), &[], &on_file(&["admin", "table", "delete", "--confirm", "notes.txt"]), &mut said);
    insta::assert_snapshot!(said);
    assert!(folder.path().join("notes.txt").exists());
}

#[test]
fn missing_dynamodb_is_reported_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")];
    // Nobody listens on port 1.
    let place = ["--store", "dynamodb:almanac", "--region", "eu-west-1", "--endpoint", "http://127.0.0.1:1"];
    for command in [&["up"][..], &["admin", "table", "create"]] {
        let output = run(folder.path(), &keys, &[&place[..], command].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {error}");
        assert!(
            error.starts_with("almanac: there is no answer at http://127.0.0.1:1"),
            "{command:?}: {error}"
        );
        assert_eq!(error.lines().count(), 1, "{command:?}: {error}");
    }
}
