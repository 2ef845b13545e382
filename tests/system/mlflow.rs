//! An unmodified MLflow client logs through the door; without the setting there is none.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::support::{Place, Running, run_ok};

/// What the script needs.
const PACKAGES: [&str; 3] = ["mlflow-skinny==3.17.2", "scikit-learn", "pandas"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A Python with MLflow's client: that of `ALMANAC_TEST_MLFLOW`, or of an environment that is made once. `None`, when nothing
/// can be installed here.
fn python() -> Option<PathBuf> {
    if let Some(python) = std::env::var_os("ALMANAC_TEST_MLFLOW") {
        return Some(python.into());
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mlflow-venv");
    let python = folder.join("bin/python");
    let works =
        |command: &mut Command| command.stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if works(Command::new(&python).args(["-c", "import mlflow, sklearn"]).stderr(Stdio::null())) {
        return Some(python);
    }
    let is_made = works(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    let is_there = is_made && works(Command::new(&python).args(pip).args(PACKAGES));
    is_there.then_some(python)
}

#[test]
fn an_unmodified_client_logs_and_reads() {
    let Some(python) = python() else {
        eprintln!("MLflow's door was SKIPPED: {} cannot be installed here", PACKAGES.join(", "));
        return;
    };
    let place = Place::sqlite();
    run_ok(&place, &["workspace", "create", "credit/prod"]);
    let token = run_ok(&place, &["init"]);
    let token = token.trim().to_owned();
    let served = Running::start(&place, &["--mlflow"], &[]);
    let door = format!("http://{}/mlflow/credit/prod", served.address());
    let script = |variables: &[(&str, &str)]| {
        let output = Command::new(&python)
            .arg(root().join("tests/mlflow/client.py"))
            .arg("sklearn")
            .env("MLFLOW_TRACKING_URI", &door)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (is_ok, said) = script(&[]);
    assert!(!is_ok && said.contains("UNAUTHENTICATED"), "{said}");
    let (is_ok, said) = script(&[("MLFLOW_TRACKING_TOKEN", &token)]);
    assert!(is_ok && said.contains("\nok\n"), "{said}");
    let (is_ok, said) = script(&[("MLFLOW_TRACKING_USERNAME", "ann"), ("MLFLOW_TRACKING_PASSWORD", &token)]);
    assert!(
        !is_ok && said.contains("RESOURCE_ALREADY_EXISTS"),
        "it got in, and found what was there: {said}"
    );
    drop(served);
    // What it logged are runs, events and releases like all others.
    let runs = run_ok(&place, &["run", "list", "-w", "credit/prod", "--experiment", "depths of trees"]);
    assert!(runs.contains("finished") && runs.contains("loss=0.2"), "{runs}");
    assert!(run_ok(&place, &["release", "list", "--of", "credit/prod/risk"]).contains("risk-2"));
}

#[test]
fn there_is_no_door_without_the_setting() {
    let place = Place::sqlite();
    let served = Running::start(&place, &[], &[]);
    let answer = served.get("/mlflow/credit/prod/api/2.0/mlflow/experiments/search");
    assert_eq!(answer.status, 404);
}
