//! The rooms of the house: which package may depend on which, from the ground up.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use serde_json::Value;

/// Each room, and the rooms that its code may use. A room stands below those that use it, so there is no circle.
const ROOMS: [(&str, &[&str]); 21] = [
    ("event", &[]),
    ("meter", &[]),
    ("segment", &["event"]),
    ("fold", &["event"]),
    ("plot", &["event"]),
    ("views", &["event"]),
    ("table", &["event", "meter"]),
    ("log", &["event", "meter", "segment", "table"]),
    ("web", &["event"]),
    ("dashboard", &["web"]),
    ("catalog", &["event", "fold", "log", "table", "web"]),
    ("access", &["catalog", "event", "log", "table", "web"]),
    ("evaluate", &["catalog", "event", "fold", "log", "table"]),
    ("ingest", &["catalog", "event", "log", "meter", "table", "web"]),
    ("mlflow", &["catalog", "event", "ingest", "log", "table", "web"]),
    ("projector", &["catalog", "evaluate", "event", "fold", "log", "meter", "table"]),
    ("query", &["catalog", "evaluate", "event", "fold", "log", "meter", "table", "views", "web"]),
    (
        "almanac",
        &[
            "access",
            "catalog",
            "dashboard",
            "evaluate",
            "event",
            "fold",
            "ingest",
            "log",
            "meter",
            "mlflow",
            "plot",
            "projector",
            "query",
            "segment",
            "table",
            "web",
            "workspace-hack",
        ],
    ),
    (
        "tests",
        &["catalog", "evaluate", "event", "fold", "ingest", "log", "projector", "query", "segment", "table"],
    ),
    (
        "bench",
        &["almanac", "catalog", "event", "fold", "ingest", "log", "projector", "query", "segment", "table"],
    ),
    (
        "fuzz",
        &["access", "almanac", "catalog", "event", "ingest", "log", "mlflow", "query", "segment", "table"],
    ),
];

fn cargo(arguments: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(arguments)
        .args(["--locked", "--offline"])
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The packages of the workspace by their folders, each with the folders of those that its code uses.
fn rooms() -> BTreeMap<String, BTreeSet<String>> {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])).unwrap();
    let folder = |path: &Value| path.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap();
    let used = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let ours = dependencies.filter(|of| of["kind"].is_null() && of["path"].is_string());
        ours.map(|of| folder(&of["path"])).collect()
    };
    let name = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned();
        let folder = manifest.file_name().unwrap().to_str().unwrap().to_owned();
        let package = package["name"].as_str().unwrap();
        let expected = if ["almanac", "workspace-hack"].contains(&&*folder) {
            folder.clone()
        } else {
            format!("almanac-{folder}")
        };
        assert_eq!(package, expected, "a package is called by its folder");
        folder
    };
    packages.iter().map(|package| (name(package), used(package))).collect()
}

#[test]
fn rooms_use_only_rooms_below_them() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ROOMS.iter().map(|(room, may)| (*room, may.iter().copied().collect())).collect();
    let mut below = BTreeSet::from(["workspace-hack"]);
    for (room, may) in ROOMS {
        for other in may {
            assert!(below.contains(other), "{room} uses {other}, which stands above it in the table");
        }
        below.insert(room);
    }
    for (room, uses) in rooms() {
        if room != "workspace-hack" {
            let may = allowed.get(&*room).unwrap_or_else(|| panic!("give {room} a place among the rooms"));
            let wrong: Vec<&String> = uses.iter().filter(|used| !may.contains(&***used)).collect();
            assert!(wrong.is_empty(), "{room} must not know {wrong:?}");
        }
    }
}

/// Events, segments and folds are built and tested without a table, HTTP or an executor.
#[test]
fn pure_rooms_build_without_an_engine() {
    for room in ["event", "segment", "fold"] {
        let package = format!("almanac-{room}");
        let tree = cargo(&["tree", "--package", &package, "--edges", "normal,build", "--prefix", "none"]);
        assert!(tree.contains(&package), "{tree}");
        for engine in ["rusqlite", "libsqlite3-sys", "aws-", "tokio", "axum", "hyper"] {
            let named: Vec<&str> = tree.lines().filter(|line| line.starts_with(engine)).collect();
            assert!(named.is_empty(), "{room} builds {named:?}");
        }
    }
}
