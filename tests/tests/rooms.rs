//! The rooms of the house: which package may depend on which, from the ground up.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use serde_json::Value;

/// Each room, and the rooms that its code may use. A room stands below those that use it, so there is no circle.
const ROOMS: [(&str, &[&str]); 22] = [
    ("event", &[]),
    ("meter", &[]),
    ("segment", &["event"]),
    ("fold", &["event"]),
    ("plot", &["event"]),
    ("views", &["event"]),
    ("table", &["event", "meter"]),
    ("dynamodb", &["event", "meter", "table"]),
    ("log", &["event", "meter", "segment", "table"]),
    ("web", &["event"]),
    ("dashboard", &["web"]),
    ("catalog", &["event", "fold", "log", "table", "web"]),
    ("access", &["catalog", "event", "log", "table", "web"]),
    ("evaluate", &["catalog", "event", "fold", "log", "segment", "table"]),
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
            "dynamodb",
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
        &[
            "catalog",
            "dynamodb",
            "evaluate",
            "event",
            "fold",
            "ingest",
            "log",
            "projector",
            "query",
            "segment",
            "table",
        ],
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

/// The dependencies that packages are built of, each by its name and version.
fn built_of(select: &[&str]) -> BTreeSet<String> {
    let tree = cargo(&[&["tree", "--edges", "normal,build", "--prefix", "none"], select].concat());
    tree.lines().map(|line| line.split(" (").next().unwrap().to_owned()).collect()
}

/// The AWS SDK is 40 crates to compile, for which only its engine, the binary and the tests wait.
#[test]
fn no_room_below_the_binary_needs_aws() {
    let sdk = |select: &[&str]| -> Vec<String> {
        // `aws-lc` is cryptography, for TLS.
        let is_sdk = |name: &String| name.starts_with("aws-") && !name.starts_with("aws-lc-");
        built_of(select).into_iter().filter(is_sdk).collect()
    };
    let below = ROOMS.into_iter().map(|(room, _)| room).take_while(|room| *room != "almanac");
    let below: Vec<String> =
        below.filter(|room| *room != "dynamodb").map(|room| format!("--package=almanac-{room}")).collect();
    assert_eq!(sdk(&below.iter().map(String::as_str).collect::<Vec<_>>()), [""; 0]);
    assert_eq!(sdk(&["--package=almanac"]), [""; 0], "it is built without DynamoDB");
    assert!(sdk(&["--package=almanac", "--features=dynamodb"]).len() > 5, "the SDK has other names");
}

/// Events, segments and folds are built and tested without a table, HTTP or an executor.
#[test]
fn pure_rooms_build_without_an_engine() {
    for room in ["event", "segment", "fold"] {
        let package = format!("almanac-{room}");
        let built_of = built_of(&["--package", &package]);
        assert!(built_of.iter().any(|name| name.starts_with(&package)), "{built_of:?}");
        for engine in ["rusqlite", "libsqlite3-sys", "aws-", "tokio", "axum", "hyper"] {
            let named: Vec<&String> = built_of.iter().filter(|name| name.starts_with(engine)).collect();
            assert!(named.is_empty(), "{room} builds {named:?}");
        }
    }
}
