//! Dependencies that the binary is built of are those that the tests are built of.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{collections::BTreeMap, path::Path, process::Command};

/// Each third-party dependency with its version and features, for the packages that `select` names.
fn features(select: &[&str], edges: &str) -> BTreeMap<String, Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p}\t{f}"])
        .args(["--edges", edges])
        .args(select)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let Some((package, features)) = line.split_once('\t') else { continue };
        // A package that stands a second time is marked, and not followed again: each package would be followed on all of
        // millions of ways.
        let features = features.strip_suffix(" (*)").unwrap_or(features);
        let is_ours = package.contains(" (") && !package.contains("(proc-macro)");
        if !is_ours {
            let sets = found.entry(package.to_owned()).or_default();
            if !sets.iter().any(|known| known == features) {
                sets.push(features.to_owned());
            }
        }
    }
    found.values_mut().for_each(|sets| sets.sort());
    found
}

/// A dependency that the tests want with other features than the binary would be compiled a second time
/// by `tests/run` after `cargo run -- demo`, and everything that depends on it as well.
#[test]
fn nothing_compiles_twice() {
    let binary = features(&["--package", "almanac"], "normal,build");
    let workspace = features(&["--workspace"], "normal,build,dev");
    assert!(binary.len() > 200, "only {} dependencies were found", binary.len());
    let differs = |(package, features): (&String, &Vec<String>)| {
        let tests = workspace.get(package)?;
        (tests != features).then(|| format!("{package}: the binary has {features:?}, the tests {tests:?}"))
    };
    let twice: Vec<String> = binary.iter().filter_map(differs).collect();
    assert!(twice.is_empty(), "ask for these features in workspace-hack/Cargo.toml:\n{}", twice.join("\n"));
}
