//! Truth of the README and the pages of `docs`: their commands run as they stand, from top to bottom, in an empty folder, and
//! print the shown output.
//!
//! The info string of a fenced block decides its use:
//! - `sh` runs and must succeed; `python` likewise, with the client of this repository;
//! - `python tools` is run by the tests of the Python client, where the libraries that it imports are installed, and
//!   `sql` there as well;
//! - `sh background` is a service, which runs until the page ends;
//! - `sh dynamodb-local` runs on DynamoDB Local;
//! - `sh no-run` needs what a test does not have (an account, Docker, damaged data); how many there are is asserted;
//! - `text`, `json` and `csv` are the output of the block before; a line `...` stands for any lines.

#[allow(dead_code, unreachable_pub, reason = "it is a program of its own")]
#[path = "../../examples/embed.rs"]
mod embed;

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::{PermissionsExt, symlink},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use event::{Clock, Day};
use regex::{Captures, Regex};
use serde_json::Value;
use tempfile::TempDir;
use tests::local::fresh_table;

/// Address in the pages, replaced by a free one in each run.
const ADDRESS: &str = "127.0.0.1:7171";
/// Address of DynamoDB Local in the pages.
const EMULATOR: &str = "http://127.0.0.1:8000";
/// Table on DynamoDB in the pages.
const TABLE: &str = "dynamodb:almanac";
/// Maximum looks at a condition before a test gives up on it, and the pause between two looks.
const MAX_LOOKS: usize = 1_200;
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Replacement for `cargo run -- ARGUMENTS`, and nothing else, with the existing binary.
const CARGO: &str = "#!/bin/sh\n[ \"$1 $2\" = 'run --' ] || exit 64\nshift 2\nexec almanac \"$@\"\n";

/// Pages, and the numbers of their blocks that do not run.
const PAGES: [(&str, usize); 13] = [
    ("README.md", 1),
    ("CONTRIBUTING.md", 4),
    ("docs/posting.md", 0),
    ("docs/sagemaker.md", 0),
    ("docs/querying.md", 0),
    ("docs/following.md", 0),
    ("docs/reviewing.md", 0),
    ("docs/lake.md", 1),
    ("docs/catalog.md", 0),
    ("docs/commands.md", 0),
    ("docs/operating.md", 12),
    ("docs/operations.md", 1),
    ("docs/security.md", 0),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Fenced block of a page.
#[derive(Debug)]
struct Block {
    /// Place for messages: the page and the line of its fence.
    place: String,
    info: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let source = fs::read_to_string(root().join(page)).unwrap();
    let mut blocks = Vec::new();
    let mut lines = (1..).zip(source.lines());
    while let Some((number, line)) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let text: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            let place = format!("{page}:{number}");
            blocks.push(Block { place, info: info.to_owned(), text: text.join("\n") });
        }
    }
    blocks
}

/// Run of a page: a folder, empty at first, an address, and the started services.
struct Run {
    folder: TempDir,
    commands: TempDir,
    address: String,
    services: Vec<Child>,
}

impl Run {
    fn new() -> Self {
        let (folder, commands) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(env!("CARGO_BIN_EXE_almanac"), commands.path().join("almanac")).unwrap();
        let cargo = commands.path().join("cargo");
        fs::write(&cargo, CARGO).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Self { folder, commands, address: free.to_string(), services: Vec::new() }
    }

    /// Makes a command in the folder, with the commands of the pages on its path and nothing configured.
    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).args(args).stdin(Stdio::null());
        for name in [
            "DATA",
            "STORE",
            "REGION",
            "ENDPOINT",
            "CONFIG",
            "LOG",
            "LOG_FORMAT",
            "QUERY_MEMORY",
            "ADMIN_TOKEN",
        ] {
            command.env_remove(format!("ALMANAC_{name}"));
        }
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.commands.path().display()));
        command.env("ALMANAC_LISTEN", &self.address);
        command.env("PYTHONPATH", root().join("clients/python/src")).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Runs a command, which must succeed, and returns its output.
    fn output(&self, place: &str, mut command: Command) -> String {
        let output = command.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{place} fails with {}:\n{out}\n{err}", output.status);
        out.replace(&self.address, ADDRESS)
    }

    /// Runs a block of shell commands.
    fn shell(&self, block: &Block, text: &str) -> String {
        self.settle(&block.place);
        let text = text.replace(ADDRESS, &self.address);
        self.output(&block.place, self.command("bash", &["-euo", "pipefail", "-c", &text]))
    }

    fn python(&self, block: &Block) -> String {
        let python = std::env::var("ALMANAC_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
        let text = block.text.replace(ADDRESS, &self.address);
        self.output(&block.place, self.command(&python, &["-c", &text]))
    }

    /// Starts a service, and waits until the address answers.
    fn start(&mut self, block: &Block) {
        assert_eq!(block.text.lines().count(), 1, "{}: one service a block", block.place);
        let text = format!("exec {}", block.text);
        let mut command = self.command("bash", &["-c", &text]);
        self.services.push(command.stderr(Stdio::null()).spawn().unwrap());
        self.until(&block.place, || TcpStream::connect(&self.address).is_ok());
    }

    /// Waits until all appended events are projected, as a reader would have before typing the next command.
    fn settle(&self, place: &str) {
        if self.services.is_empty() {
            return;
        }
        self.until(place, || {
            let status = self.output(place, self.command("almanac", &["status", "--format", "json"]));
            let status: Value = serde_json::from_str(&status).unwrap();
            let workspaces = status["workspaces"].as_array().unwrap();
            workspaces.iter().all(|workspace| {
                ["dirty_days", "unevaluated_days"].iter().all(|left| workspace[*left].as_u64() == Some(0))
            })
        });
    }

    fn until(&self, place: &str, is_so: impl Fn() -> bool) {
        for _ in 0..MAX_LOOKS {
            if is_so() {
                return;
            }
            sleep(LOOK_EVERY);
        }
        panic!("{place}: what it needs never came");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for service in &mut self.services {
            _ = service.kill();
            _ = service.wait();
        }
    }
}

/// Lines of an output, without durations, which differ from run to run.
fn lines(text: &str) -> Vec<String> {
    let duration = Regex::new(r"[0-9]+(\.[0-9]+)? (s|events/s)\b").unwrap();
    text.trim_end().lines().map(|line| duration.replace_all(line.trim_end(), "# $2").into_owned()).collect()
}

/// Returns whether an output matches the shown one, in which a line `...` stands for any lines.
fn is_as_shown(shown: &[String], output: &[String]) -> bool {
    match shown.split_first() {
        None => output.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=output.len()).any(|skipped| is_as_shown(rest, &output[skipped..]))
        }
        Some((first, rest)) => output.first() == Some(first) && is_as_shown(rest, &output[1..]),
    }
}

/// Runs the blocks of a page.
fn run(page: &str) {
    let mut run = Run::new();
    let mut output = None;
    for block in blocks(page) {
        match &*block.info {
            "sh" => output = Some(run.shell(&block, &block.text)),
            "python" => output = Some(run.python(&block)),
            "sh background" => run.start(&block),
            // YAML is for another program, SQL for the tests of the Python client.
            "sh no-run" | "python tools" | "sh dynamodb-local" | "yaml" | "sql" => output = None,
            "text" | "json" | "csv" => {
                let output = output.take().unwrap_or_else(|| panic!("{}: of which command?", block.place));
                let is_right = is_as_shown(&lines(&block.text), &lines(&output));
                assert!(is_right, "{} shows\n{}\nand it is\n{output}", block.place, block.text);
            }
            info => panic!("{}: no block is called `{info}`", block.place),
        }
    }
}

/// Makes a test for each page.
macro_rules! pages_run {
    ($($test:ident: $page:literal),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                run($page);
            }
        )*
    };
}

pages_run!(
    the_readme_runs: "README.md",
    posting_runs: "docs/posting.md",
    sagemaker_runs: "docs/sagemaker.md",
    querying_runs: "docs/querying.md",
    following_runs: "docs/following.md",
    reviewing_runs: "docs/reviewing.md",
    the_lake_runs: "docs/lake.md",
    the_catalog_runs: "docs/catalog.md",
    security_runs: "docs/security.md",
    operating_runs: "docs/operating.md",
    operations_run: "docs/operations.md",
);

/// Output without values that differ from run to run: ids, secrets, present times, durations, and widths of columns.
fn without_chance(text: &str, today: Day) -> String {
    let long = Regex::new(r"[0-9A-Za-z]{27}[0-9A-Za-z_-]*").unwrap();
    let text = long.replace_all(text, |found: &Captures<'_>| match found[0].len() {
        27 => "2NBs0sLBnJxEcoDLgVnQdJkhEgV".to_owned(),
        _ => "0f343b0931126a20f133d67c2b018a3b".to_owned(),
    });
    // The number of items that a worker has written about itself depends on the time.
    let items = Regex::new(r"\b[0-9]{3} items").unwrap();
    let text = items.replace_all(&text, "422 items");
    let instant = Regex::new(&format!(r"{today}T[0-9:.]+Z")).unwrap();
    let text = instant.replace_all(&text, "2026-12-01T09:00:00Z");
    let text = text.replace(&today.to_string(), "2026-12-01");
    let blanks = Regex::new(r"\b {2,}| {2,}\b").unwrap();
    lines(&text).iter().map(|line| blanks.replace_all(line, "  ").into_owned() + "\n").collect()
}

/// Runs the examples of commands, and compares their output; with `INSTA_UPDATE=always` it is written.
#[test]
fn every_command_prints_what_its_example_shows() {
    const COMMANDS: &str = "docs/commands.md";
    let (mut run, clock) = (Run::new(), Clock::system());
    let page = fs::read_to_string(root().join(COMMANDS)).unwrap();
    let (mut written, mut wrong, mut rest) = (String::new(), Vec::new(), page.as_str());
    let is_shell =
        Regex::new("(?s)^(.*?)```(sh|sh background)\n(.*?)\n```\n(?:```text\n(.*?\n)```\n)?").unwrap();
    while let Some(found) = is_shell.captures(rest) {
        rest = &rest[found[0].len()..];
        let block =
            |text: &str| Block { place: format!("{COMMANDS}: {text}"), info: "sh".into(), text: text.into() };
        let (typed, shown) = (&found[3], found.get(4).map_or("", |shown| shown.as_str()));
        written += &format!("{}```{}\n{typed}\n```\n", &found[1], &found[2]);
        if &found[2] == "sh background" {
            run.start(&block(typed));
            continue;
        }
        let printed = catch_unwind(AssertUnwindSafe(|| run.shell(&block(typed), typed)));
        let printed =
            printed.map_or("fails\n".to_owned(), |printed| without_chance(&printed, clock.now().day()));
        if printed != shown {
            wrong.push(format!("{typed}\nprints\n{printed}"));
        }
        if !printed.is_empty() {
            written += &format!("```text\n{printed}```\n");
        }
    }
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(root().join(COMMANDS), written + rest).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn operating_runs_on_dynamodb_local() {
    let config = fresh_table(Clock::system());
    let run = Run::new();
    let blocks = blocks("docs/operating.md");
    let here: Vec<&Block> = blocks.iter().filter(|block| block.info == "sh dynamodb-local").collect();
    assert_eq!(here.len(), 1);
    for block in here {
        assert!(block.text.contains(EMULATOR) && block.text.contains(TABLE), "{}", block.place);
        let text = block.text.replace(EMULATOR, config.endpoint.as_deref().unwrap());
        run.shell(block, &text.replace(TABLE, &format!("dynamodb:{}", config.table)));
    }
}

#[test]
fn few_blocks_do_not_run() {
    for (page, count) in PAGES {
        let skipped = blocks(page).iter().filter(|block| block.info == "sh no-run").count();
        assert_eq!(skipped, count, "{page}");
    }
}

#[test]
fn readme_is_short_and_names_one_test_command() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 150, "{} lines", readme.lines().count());
    let commands: Vec<Block> =
        blocks("README.md").into_iter().filter(|block| block.info.starts_with("sh")).collect();
    let tests: Vec<&str> = commands
        .iter()
        .flat_map(|block| block.text.lines())
        .filter(|line| line.contains("test"))
        .map(|line| line.split('#').next().unwrap().trim())
        .collect();
    assert_eq!(tests, ["tests/run"]);
    assert!(root().join("tests/run").is_file());
}

/// Pages of this repository that link to one another.
const LINKED: [&str; 34] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/benchmarks.md",
    "docs/catalog.md",
    "docs/commands.md",
    "docs/dashboard.md",
    "docs/metrics.md",
    "docs/following.md",
    "docs/internals/alerts.md",
    "docs/internals/appending.md",
    "docs/internals/catalog.md",
    "docs/internals/export.md",
    "docs/internals/glossary.md",
    "docs/internals/evaluating.md",
    "docs/internals/mistakes.md",
    "docs/internals/operation.md",
    "docs/internals/projections.md",
    "docs/internals/reading.md",
    "docs/internals/retention.md",
    "docs/internals/walkthroughs.md",
    "docs/lake.md",
    "docs/telemetry.md",
    "docs/operating.md",
    "docs/operations.md",
    "docs/posting.md",
    "docs/querying.md",
    "docs/reviewing.md",
    "docs/sagemaker.md",
    "docs/scale.md",
    "docs/security.md",
    "clients/python/README.md",
    "terraform/README.md",
];

/// Anchors of a page: its headings in lower case without punctuation, a dash for each space.
fn anchors(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    let anchor = |heading: &str| -> String {
        let heading = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        heading.chars().filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut links = 0;
    for page in LINKED.map(|page| root().join(page)) {
        let text = fs::read_to_string(&page).unwrap().replace('\n', " ");
        for found in link.captures_iter(&text).map(|found| found[1].to_owned()) {
            if found.starts_with("http") {
                continue;
            }
            let (path, anchor) = found.split_once('#').unwrap_or((&found, ""));
            let path = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            assert!(path.exists(), "{}: there is no {found}", page.display());
            let is_there = anchor.is_empty() || anchors(&path).iter().any(|there| there == anchor);
            assert!(is_there, "{}: there is no heading of {found}", page.display());
            links += 1;
        }
    }
    assert!(links > 40, "only {links} links were found");
}

#[test]
fn the_version_is_the_same_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    for (page, line) in [
        ("clients/python/pyproject.toml", format!("version = \"{version}\"")),
        ("clients/python/src/almanac_ml/__init__.py", format!("__version__ = \"{version}\"")),
        ("CHANGELOG.md", format!("## {version}, ")),
        ("docs/operating.md", format!("image_tag           = \"{version}\"")),
    ] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        assert!(text.lines().any(|found| found.starts_with(&line)), "{page} lacks {line}");
    }
}

/// The example contains its own output.
#[test]
fn the_example_runs_twice() {
    let example = fs::read_to_string(root().join("examples/embed.rs")).unwrap();
    let printed = example.lines().skip_while(|line| *line != "//! ```text").nth(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("embed.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for _ in 0..2 {
        let judged = runtime.block_on(embed::judge(&file)).unwrap();
        assert_eq!(Some(&*judged), printed.strip_prefix("//! "));
    }
}

#[test]
fn outputs_are_compared() {
    let is = |shown: &str, output: &str| is_as_shown(&lines(shown), &lines(output));
    assert!(is("a\nb\n", "a \nb"));
    assert!(!is("a\nb", "a\nc") && !is("a", "a\nb") && !is("a\nb", "a"));
    assert!(is("a\n...\nd\n...", "a\nb\nc\nd") && is("...\nd", "d"));
    assert!(!is("a\n...\nd", "a\nb\nd\ne"));
    assert!(is("in 3 batches: 3.8 s, 100 events/s", "in 3 batches: 12 s, 7 events/s"));
    assert!(!is("in 3 batches: 3.8 s", "in 4 batches: 3.8 s"));
}
