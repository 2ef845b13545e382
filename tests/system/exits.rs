//! Exit codes of the binary, and completions for shells.

use std::{
    collections::BTreeMap,
    process::{Command, Output, Stdio},
};

use crate::support::{Place, Running, almanac, run, run_ok};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

/// Exit codes that `almanac help` lists, with the number of times each was seen.
fn codes_of_help(place: &Place) -> BTreeMap<i32, usize> {
    let help = run_ok(place, &["help"]);
    let (_, list) = help.split_once("Exit codes:\n").expect("the help lists them");
    let codes = list.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  ")?.0.parse().ok());
    codes.map(|code| (code, 0)).collect()
}

/// Runs a line of a shell, in which `$0` is the binary.
fn shell(line: &str) -> Output {
    let mut bash = Command::new("bash");
    bash.args(["-c", line, env!("CARGO_BIN_EXE_almanac")]).stdin(Stdio::null());
    bash.output().expect("there is a bash")
}

#[test]
fn exit_codes_of_help_match_the_binary() {
    let place = Place::sqlite();
    let mut seen = codes_of_help(&place);
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    let mut ends = |args: &[&str], wanted: i32| {
        let output = run(&place, args);
        let code = output.status.code().expect("it was not killed");
        assert_eq!(code, wanted, "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        *seen.get_mut(&code).expect("a code of the help") += 1;
    };
    ends(&["--version"], 0);
    // A missing entity, a wrong option, an unknown command, and no command at all.
    ends(&["status"], 2);
    ends(&["workspace", "list", "--formt", "json"], 2);
    ends(&["wokspace"], 2);
    ends(&[], 2);
    ends(&["workspace", "create", "credit/prod"], 0);
    let model = ["model", "create", "risk", "-w", "credit/prod", "--task"];
    ends(&[&model[..], &["regression"]].concat(), 0);
    ends(&[&model[..], &["multiclass"]].concat(), 2);
    ends(&["workspace", "show", "credit/test"], 2);
    ends(&["status", "--config", "missing.toml"], 2);
    ends(&["admin", "verify"], 0);
    // A port without a listener.
    ends(&["health", "--listen", "127.0.0.1:1"], 1);
    assert!(seen.values().all(|times| *times > 0), "{seen:?}");
}

#[test]
fn closed_pipe_succeeds_and_full_disk_fails() {
    let output = shell("set -o pipefail; \"$0\" admin completions zsh | head -n 1");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"#compdef almanac\n");
    let output = shell("\"$0\" admin completions zsh >/dev/full");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("almanac: the answer cannot be written"));
}

#[cfg(unix)]
#[test]
fn file_size_limit_fails_the_command_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let output = shell(&format!("ulimit -f 1; \"$0\" --data {at} workspace create credit/prod"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{:?}: {error}", output.status);
    assert!(error.contains("almanac: ") && error.contains("almanac.db"), "{error}");
    assert!(error.contains("a limit on the size of files (`ulimit -f`)"), "{error}");
}

#[test]
fn service_stops_cleanly_on_request() {
    let place = Place::sqlite();
    // Even right after it has started to listen.
    for _ in 0..5 {
        Running::start(&place, &[], &[]).stop();
    }
    let running = Running::start(&place, &[], &[]);
    assert_eq!(running.get("/healthz").status, 200);
    let log = running.stop();
    assert!(log.iter().any(|line| line.contains("listening on")), "{log:?}");
}

/// Commands that `almanac help` lists.
fn commands(place: &Place) -> Vec<String> {
    let help = run_ok(place, &["help"]);
    let (list, _) = help.split_once("\nOptions:\n").expect("the help lists them before the options");
    let listed = list.lines();
    let names = listed.filter_map(|line| {
        line.strip_prefix("  ")?.split_whitespace().next().filter(|_| !line.starts_with("   "))
    });
    names.map(str::to_owned).collect()
}

#[test]
fn the_script_of_each_shell_has_all_commands() {
    let place = Place::sqlite();
    let commands = commands(&place);
    assert!(commands.len() > 20, "{commands:?}");
    for shell in SHELLS {
        let script = run_ok(&place, &["admin", "completions", shell]);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell} lacks {command}");
        }
        assert!(script.contains("primary-metric"), "{shell} lacks an option of a command below");
    }
    let output = run(&place, &["admin", "completions", "tcsh"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(SHELLS.iter().all(|shell| said.contains(shell)), "{said}");
}

/// Completions of bash for the last of these words.
fn offered(words: &str) -> Vec<String> {
    let line = format!(
        "set -eu; source <(\"$0\" admin completions bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
         _almanac almanac \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let output = shell(&line);
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    assert_eq!(offered("almanac works"), ["workspace"]);
    assert_eq!(offered("almanac admin completions e"), ["elvish"]);
    assert_eq!(offered("almanac workspace settings --primary-m"), ["--primary-metric"]);
    assert_eq!(offered("almanac status --format j"), ["json"]);
    assert_eq!(offered("almanac query --quer"), ["--query-memory"], "a setting is good with every command");
}

/// A shell reads the script when it starts, in any folder.
#[test]
fn completions_need_no_configuration() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("almanac.toml"), "stor = \"sqlite:a.db\"\n").unwrap();
    let place = Place::sqlite();
    let output =
        almanac(&place, &["admin", "completions", "fish"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let refused = almanac(&place, &["config", "show"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}
