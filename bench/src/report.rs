//! The report: the lines as a table for the terminal, and as `docs/benchmarks.md`.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use anyhow::Context;
use event::{Clock, Day};

use crate::{
    goals::TOLERANCE,
    line::{Line, figure, ratio_text},
};

/// Parameters of the run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Profile that both programs were built with.
    pub profile: String,
    /// Number of predictions.
    pub rows: usize,
    /// Number of days.
    pub days: usize,
    /// Number of rounds.
    pub rounds: usize,
}

/// Formats one line for the terminal.
pub fn told(line: &Line) -> String {
    let mut text = format!("{}: ", line.work);
    match &line.figures {
        Err(why) => _ = write!(text, "not run: {why}"),
        Ok(figures) => {
            text += &figure(figures.almanac.median(), line.unit);
            if let (Some(peer), Some(found), Some(ratio)) = (&line.peer, &figures.peer, figures.ratio()) {
                _ = write!(text, "; {peer} {}, {}", figure(found.median(), line.unit), ratio_text(ratio));
            }
        }
    }
    for goal in goal_texts(line) {
        _ = write!(text, " [{goal}]");
    }
    text
}

/// Formats the goals of a line. Those that are met stand alone.
fn goal_texts(line: &Line) -> Vec<String> {
    let text = |(goal, holds): (String, Option<bool>)| match holds {
        None => format!("{goal} not run"),
        Some(true) => goal,
        Some(false) => format!("{goal} missed"),
    };
    line.goals(0.0).into_iter().map(text).collect()
}

/// Result of checking a goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// True if it is met, within the tolerance.
    pub is_met: bool,
    /// Description: the line, the figure, and the goal.
    pub text: String,
}

/// Checks all goals of some lines. A goal of a line without a measurement is missed.
pub fn judged(lines: &[Line]) -> Vec<Judged> {
    let of = |line: &Line| {
        let goals = line.goals(TOLERANCE).into_iter().zip(line.goals(0.0));
        let judged = goals.map(|((goal, nearly), (_, reached))| {
            let word = match (nearly, reached) {
                (_, Some(true)) => "met",
                (Some(true), _) => "nearly met",
                (Some(false), _) => "MISSED",
                (None, _) => "NOT RUN",
            };
            let found = match &line.figures {
                Err(why) => why.clone(),
                Ok(figures) => {
                    let ratio = figures.ratio().map(|ratio| format!(", {}", ratio_text(ratio)));
                    figure(figures.almanac.median(), line.unit) + &ratio.unwrap_or_default()
                }
            };
            Judged { is_met: nearly == Some(true), text: format!("{word}: {}: {found}; {goal}", line.id) }
        });
        judged.collect::<Vec<_>>()
    };
    lines.iter().flat_map(of).collect()
}

/// Returns the table in Markdown, of the lines that have a goal. A row does not repeat the work of the row above.
fn table(lines: &[Line]) -> String {
    let mut text =
        "| work | Almanac | beside | its figure | ratio | goal |\n| --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    let mut above = (String::new(), String::new());
    for line in lines.iter().filter(|line| !line.goals(0.0).is_empty()) {
        let (ours, theirs, ratio) = match &line.figures {
            Err(why) => (format!("not run: {}", why.replace(['|', '\n'], " ")), String::new(), String::new()),
            Ok(figures) => (
                figure(figures.almanac.median(), line.unit),
                figures.peer.as_ref().map_or(String::new(), |peer| figure(peer.median(), line.unit)),
                figures.ratio().map_or(String::new(), ratio_text),
            ),
        };
        let peer = line.peer.as_deref().unwrap_or_default();
        let goals = goal_texts(line).join("; ");
        let row = (line.work.clone(), ours);
        let (work, ours) = if row == above { (String::new(), String::new()) } else { row.clone() };
        above = row;
        _ = writeln!(text, "| {work} | {ours} | {peer} | {theirs} | {ratio} | {goals} |");
    }
    text
}

/// Marker in `docs/benchmarks.md` behind which the results of a run begin.
const MEASURED: &str = "<!-- measured -->\n";
/// Marker at which they end.
const END: &str = "<!-- end -->\n";

/// Writes the results of a run into `docs/benchmarks.md`, between its markers.
///
/// # Errors
/// Fails if the page cannot be read or written, or lacks a marker.
pub fn write(root: &Path, setting: &Setting, lines: &[Line]) -> anyhow::Result<()> {
    let path = root.join("docs/benchmarks.md");
    let page = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let (before, rest) = page.split_once(MEASURED).context("the page does not say where results begin")?;
    let (_, after) = rest.split_once(END).context("the page does not say where results end")?;
    let Setting { profile, rows, days, rounds } = setting;
    let today: Day = Clock::system().now().day();
    let mut measured = "| | |\n| --- | --- |\n".to_owned();
    for (name, value) in [
        ("date", today.to_string()),
        ("machine", machine()),
        ("profile", profile.clone()),
        ("events", format!("{rows} predictions over {days} days, and their outcomes; {rounds} rounds")),
        ("versions", versions(root)?),
    ] {
        _ = writeln!(measured, "| {name} | {value} |");
    }
    let page = format!("{before}{MEASURED}{measured}\n{}{END}{after}", table(lines));
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("written: {}", path.display());
    Ok(())
}

/// Describes the machine, from `/proc`.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "a processor".to_owned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
    let gigabytes = memory.trim_end_matches("kB").trim().parse::<f64>().unwrap_or(0.0) * 1024.0 / 1e9;
    let system = read("/proc/sys/kernel/osrelease");
    // The rest identifies the builder of the kernel.
    let version = system.trim().split('-').next().unwrap_or_default();
    format!("{model}, {cores} cores used, {gigabytes:.0} GB, Linux {version}")
}

/// Lists the versions: this commit, the compiler, the pinned peers.
fn versions(root: &Path) -> anyhow::Result<String> {
    let said = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).current_dir(root).output();
        output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let pins = fs::read_to_string(root.join("bench/requirements.txt")).context("bench/requirements.txt")?;
    let pins = pins.lines().filter(|line| line.contains("==")).map(|line| line.replace("==", " "));
    let commit = said("git", &["rev-parse", "--short", "HEAD"]);
    let own = [format!("Almanac {commit}"), said("rustc", &["--version"]), said("python3", &["--version"])];
    Ok(own.into_iter().chain(pins).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Samples;

    #[test]
    fn benchmark_goals_are_judged_met_or_missed() {
        let line = |rows: f64| Line {
            id: "ndjson/sqlite",
            work: "NDJSON".into(),
            unit: "rows/s",
            peer: Some("SQLite".into()),
            figures: Ok(crate::line::Figures {
                almanac: Samples::new(vec![rows]),
                peer: Some(Samples::new(vec![100.0])),
            }),
        };
        let absent = Line::alone("memory", "memory", "MB", Err("it did not start".into()));
        let judged = judged(&[line(610.0), line(560.0), line(433.0), absent]);
        let told: Vec<(bool, &str)> = judged.iter().map(|one| (one.is_met, &*one.text)).collect();
        assert_eq!(
            told,
            [
                (true, "met: ndjson/sqlite: 610 rows/s, 6.10x; ≥6.00x"),
                (true, "nearly met: ndjson/sqlite: 560 rows/s, 5.60x; ≥6.00x"),
                (false, "MISSED: ndjson/sqlite: 433 rows/s, 4.33x; ≥6.00x"),
                (false, "NOT RUN: memory: it did not start; ≤400 MB"),
            ]
        );
    }
}
