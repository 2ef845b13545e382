//! The invariants of ARCHITECTURE.md that can be read off the source, checked.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    fs,
    path::{Path, PathBuf},
};

#[path = "tidy/layout.rs"]
mod layout;
#[path = "tidy/words.rs"]
mod words;

const MAX_FUNCTION_LINES: usize = 70;
const CRATES: [&str; 18] = [
    "access",
    "meter",
    "event",
    "segment",
    "table",
    "log",
    "fold",
    "catalog",
    "dashboard",
    "dynamodb",
    "evaluate",
    "ingest",
    "plot",
    "views",
    "projector",
    "query",
    "web",
    "almanac",
];

/// A source file: its path from the root, its lines, and how many of them come before its unit tests.
struct Source {
    path: String,
    lines: Vec<String>,
    code: usize,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are one level down").to_owned()
}

/// The files below a folder whose names end so, but for what is built or hidden.
fn files(dir: &Path, endings: &[&str], into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                files(&path, endings, into);
            }
        } else if path.extension().is_some_and(|ending| endings.iter().any(|one| *one == ending)) {
            into.push(path);
        }
    }
}

/// The files of a folder of this repository.
fn read_below(dir: &Path, endings: &[&str]) -> Vec<Source> {
    let mut paths = Vec::new();
    files(dir, endings, &mut paths);
    paths.sort();
    let read = |path: PathBuf| {
        let lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        let code = lines.iter().position(|line| line == "#[cfg(test)]").unwrap_or(lines.len());
        let path = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        Source { path, lines, code }
    };
    paths.into_iter().map(read).collect()
}

/// All Rust of this repository, tests and measurements included.
fn everything() -> Vec<Source> {
    let everything = read_below(&root(), &["rs"]);
    let has = |folder: &str| everything.iter().any(|source| source.path.starts_with(folder));
    assert!(has("tests/system/") && has("bench/src/") && has("ingest/src/append/tests"));
    everything
}

/// The code of the rooms that make up Almanac, without tests.
fn sources() -> Vec<Source> {
    let below = |name: &&str| read_below(&root().join(name).join("src"), &["rs"]);
    let is_test = |path: &str| path.split('/').any(|part| part == "tests" || part == "tests.rs");
    let mut sources: Vec<Source> = CRATES.iter().flat_map(below).collect();
    sources.retain(|source| !is_test(&source.path));
    sources.iter_mut().for_each(|source| source.lines.truncate(source.code));
    assert!(sources.len() > 60, "only {} source files were found", sources.len());
    sources
}

/// `path:line` of every line of code that holds one of `words`, in files for which `applies` says so.
fn lines_with(words: &[&str], applies: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| applies(&source.path)) {
        for (number, line) in (1..).zip(&source.lines) {
            let is_comment = line.trim_start().starts_with("//");
            if !is_comment && words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{number}", source.path));
            }
        }
    }
    found
}

const NONE: [String; 0] = [];

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for source in everything() {
        // The code is formatted, so a function ends at the first brace as far in as it begins.
        for (start, line) in source.lines.iter().enumerate() {
            let code = line.trim_start();
            let indent = &line[..line.len() - code.len()];
            let is_function = ["fn ", "pub fn ", "async fn ", "pub async fn ", "const fn ", "pub const fn "]
                .iter()
                .chain(&["pub(crate) fn ", "pub(super) fn ", "pub(crate) async fn ", "pub(super) async fn "])
                .any(|word| code.starts_with(word));
            if is_function && !code.ends_with(';') && !code.ends_with('}') {
                let is_end =
                    |line: &String| line.strip_prefix(indent).is_some_and(|rest| rest.starts_with('}'));
                let end = source.lines[start..].iter().position(is_end);
                let lines = end.map_or(0, |end| end + 1);
                if lines > MAX_FUNCTION_LINES {
                    long.push(format!("{}:{}: {lines} lines", source.path, start + 1));
                }
            }
        }
    }
    assert_eq!(long, NONE, "functions are at most {MAX_FUNCTION_LINES} lines");
}

#[test]
fn sql_is_named_only_in_its_engine() {
    // Statements of clients are SQL as well, but none that an engine sees.
    let elsewhere = lines_with(&["rusqlite", "SELECT ", "INSERT INTO"], |path| {
        !path.starts_with("table/src/sqlite") && !path.starts_with("query/src/sql")
    });
    assert_eq!(elsewhere, NONE);
}

#[test]
fn aws_sdk_is_named_only_in_its_engine() {
    let elsewhere =
        lines_with(&["aws_sdk", "aws_config", "aws_smithy"], |path| !path.starts_with("dynamodb/src"));
    assert_eq!(elsewhere, NONE);
}

#[test]
fn keys_are_built_in_one_place() {
    let elsewhere =
        lines_with(&["\"w#", "\"wc#", "\"day#", "\"m#", "\"r#", "\"count#", "\"@name#"], |path| {
            !path.starts_with("log/src/key")
        });
    assert_eq!(elsewhere, NONE);
}

#[test]
fn http_statuses_are_named_only_in_http_modules() {
    let elsewhere = lines_with(&["StatusCode"], |path| {
        let of_binary = ["almanac/src/openapi.rs", "almanac/src/client.rs"];
        !path.contains("/http/") && !path.starts_with("web/") && !of_binary.contains(&path)
    });
    assert_eq!(elsewhere, NONE);
}

/// Services can be used and tested without HTTP. Their types may derive schemas.
#[test]
fn only_http_modules_use_the_http_crates() {
    let is_domain = |path: &str| {
        ["access/", "catalog/", "ingest/", "projector/", "query/"]
            .iter()
            .any(|service| path.starts_with(service))
            && !path.contains("/http/")
    };
    assert_eq!(lines_with(&["web::", "axum::", "hyper::", "utoipa::openapi"], is_domain), NONE);
}

#[test]
fn routes_are_added_with_their_description() {
    let elsewhere = lines_with(&["Router::new", ".route("], |path| path != "web/src/routes.rs");
    assert_eq!(elsewhere, NONE, "web::Routes adds a route to the OpenAPI document as well");
}

#[test]
fn formats_and_folds_are_synchronous() {
    let pure = |path: &str| {
        path.starts_with("fold/")
            || path.starts_with("segment/")
            || ["event/src/columns", "event/src/fields", "event/src/lane", "event/src/task", "table/src/item"]
                .iter()
                .chain(&["log/src/key.", "log/src/key/"])
                .chain(&["log/src/segment_item", "log/src/projection", "log/src/batch"])
                .any(|name| path.starts_with(name))
    };
    assert_eq!(lines_with(&["async ", ".await", "Clock"], pure), NONE);
}

/// The macros of the standard library panic when nothing takes what they print.
#[test]
fn services_print_nothing() {
    let printing = lines_with(&["println!", "eprint!", "print!("], |path| !path.starts_with("almanac/"));
    assert_eq!(printing, NONE, "`almanac/src/stdout.rs` has macros that do not panic");
    assert_eq!(lines_with(&["std::print", "std::eprint", " eprint!"], |_| true), NONE);
}

#[test]
fn nothing_is_left_unfinished_or_skipped() {
    assert_eq!(lines_with(&["todo!", "unimplemented!", "TEMPORARY", "FIXME"], |_| true), NONE);
    let mut tests = String::new();
    every_source(&root().join("tests"), &mut tests);
    let ignored = format!("#[{}", "ignore");
    assert!(!tests.contains(&ignored), "a test that is skipped is no test");
}

/// Each library says what it is with an example, which runs as a test.
#[test]
fn libraries_begin_with_an_example() {
    let is_shown = |name: &str| {
        let text = fs::read_to_string(root().join(name).join("src/lib.rs")).unwrap();
        text.lines().take_while(|line| line.starts_with("//!")).any(|line| line == "//! ```")
    };
    let without: Vec<&str> =
        CRATES.into_iter().filter(|name| *name != "almanac" && !is_shown(name)).collect();
    assert_eq!(without, [""; 0], "`cargo test --doc` runs the examples");
}

/// The files and folders that ARCHITECTURE.md and the pages behind it name are there.
#[test]
fn the_architecture_names_what_exists() {
    let mut pages = vec![root().join("ARCHITECTURE.md")];
    files(&root().join("docs/internals"), &["md"], &mut pages);
    let text: String = pages.iter().map(|page| fs::read_to_string(page).unwrap()).collect();
    let is_name = |part: &str| {
        !part.is_empty()
            && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
    };
    // `sys/...` are keys of items.
    let is_path =
        |span: &&str| span.contains('/') && span.split('/').all(is_name) && !span.starts_with("sys/");
    let paths: Vec<&str> =
        text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(is_path).collect();
    assert!(paths.len() > 80, "only {} paths", paths.len());
    let missing: Vec<&str> = paths.into_iter().filter(|path| !root().join(path).exists()).collect();
    assert_eq!(missing, [""; 0], "these pages name files that are not there: say where it is now");
}

/// The tests that the page of mistakes names for each kind are tests of this repository.
#[test]
fn each_kind_of_mistake_has_its_tests() {
    let text = fs::read_to_string(root().join("docs/internals/mistakes.md")).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    assert!(rows.len() >= 10, "only {} kinds", rows.len());
    let mut functions = String::new();
    every_source(&root(), &mut functions);
    for row in rows {
        let names: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {row}");
        for name in names {
            assert!(functions.contains(&format!("fn {name}(")), "there is no test `{name}`: {row}");
        }
    }
}

/// All Rust below a folder, tests included; nothing when there is no such folder.
fn every_source(dir: &Path, into: &mut String) {
    let mut paths = Vec::new();
    files(dir, &["rs"], &mut paths);
    paths.iter().for_each(|path| into.push_str(&fs::read_to_string(path).unwrap()));
}

/// The crate that asks for features of dependencies (`features.rs` says which), and that none names in its code.
const ASKS_FOR_FEATURES: &str = "workspace-hack";

/// The dependencies of a manifest: the section and the name of each, and the sources outside of its folder.
struct Manifest {
    dependencies: Vec<(String, String)>,
    elsewhere: Vec<PathBuf>,
}

impl Manifest {
    fn read(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let (mut dependencies, mut elsewhere, mut section) = (Vec::new(), Vec::new(), "");
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_matches(['[', ']']);
            } else if let Some(path) = line.strip_prefix("path = \"../") {
                elsewhere.push(root().join(path.trim_end_matches('"')));
            } else if section.ends_with("dependencies") && !line.starts_with('#') {
                let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
                dependencies.extend((!name.is_empty()).then(|| (section.to_owned(), name.to_owned())));
            }
        }
        Self { dependencies, elsewhere }
    }
}

/// True if code begins a path with the name of a crate, as in `use serde::Serialize` or `serde::de`.
fn names(code: &str, krate: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    // A hidden line of an example is code as well.
    let code = code.lines().map(|line| line.strip_prefix("//! # ").unwrap_or(line));
    let lines = code.filter(|line| !line.trim_start().starts_with("//"));
    lines.into_iter().any(|line| {
        line.match_indices(krate).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + krate.len()..]);
            // `::serde` is the crate, too.
            let outermost =
                before.strip_suffix("::").filter(|rest| !rest.ends_with(is_word) && !rest.ends_with('>'));
            let before = outermost.unwrap_or(before);
            let begins = !before.ends_with(is_word) && !before.ends_with("::");
            let is_imported = before.ends_with("use ") && after.starts_with([';', ' ']);
            begins && (after.starts_with("::") || is_imported)
        })
    })
}

#[test]
fn every_dependency_is_used() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.split("members = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
    let members: Vec<&str> = members.split('"').skip(1).step_by(2).collect();
    assert!(members.len() > 10, "only {members:?}");
    let mut unused = Vec::new();
    for member in members.into_iter().filter(|member| *member != ASKS_FOR_FEATURES) {
        let folder = root().join(member);
        let Manifest { dependencies, elsewhere } = Manifest::read(&folder);
        let (mut production, mut all) = (String::new(), String::new());
        every_source(&folder.join("src"), &mut production);
        every_source(&folder, &mut all);
        for path in elsewhere {
            all.push_str(&fs::read_to_string(&path).unwrap());
            every_source(path.parent().unwrap(), &mut all);
        }
        for (section, name) in dependencies {
            let code = if section == "dev-dependencies" { &all } else { &production };
            if name != ASKS_FOR_FEATURES && !names(code, &name.replace('-', "_")) {
                unused.push(format!("{member}: {name}"));
            }
        }
    }
    assert_eq!(unused, NONE, "take them out of the manifests");
}

#[test]
fn crate_name_is_found_at_path_start() {
    assert!(names("    serde::de::from(a)", "serde") && names("use serde;", "serde"));
    assert!(names("#[derive(thiserror::Error)]", "thiserror"));
    for other in
        ["// serde::de", "use crate::serde::Part;", "my_serde::of", "serde_json::from_str", "a serde b"]
    {
        assert!(!names(other, "serde"), "{other}");
    }
}
