//! `almanac plot`: charts of numbers over time.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::IsTerminal,
    path::PathBuf,
};

use anyhow::Context;
use clap::Args;
use console::Term;
use event::{Error, Timestamp, Window};
use plot::{Chart, Line, MAX_LINES, NO_NUMBERS, Point};
use polars::prelude::{DataFrame, DataType};
use query::{Format, HOUR};
use serde_json::Value;

/// Maximum columns of a chart on a terminal; columns and lines where there is no terminal.
const MOST_COLUMNS: usize = 160;
const COLUMNS: usize = 100;
const LINES: usize = 22;

/// Name of the line of all releases together.
const ALL: &str = "all";

/// Default metrics: the first of these that has numbers is drawn.
const USUAL: [&str; 8] =
    ["accuracy", "mae", "f1", "count", "predictions", "js_distance", "accuracy_expected", SO_FAR];

/// Columns by which evaluations are told apart; without its breakdown.
const KEYS: [&str; 4] = ["day", HOUR, "model", RELEASE];

pub(crate) const RELEASE: &str = "release";

/// Text before the numbers that names no line: in drift, the sort of a column.
const SORT: &str = "sort";

/// Metric whose interval has names of its own.
const SO_FAR: &str = "advantage_so_far";

/// Lines of a chart, and its place.
#[derive(Debug, Args)]
pub(crate) struct PlotArgs {
    /// The metrics to draw: columns with numbers, as `almanac query` has them, with commas between. By default the main one, such as
    /// accuracy of evaluations, or mae where there is none.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    metric: Vec<String>,
    /// Write an SVG image to this file instead of drawing on the terminal.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl PlotArgs {
    /// Checks the name of the image.
    ///
    /// # Errors
    /// `Invalid`, if it does not end with `.svg`.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.output.as_ref().filter(|path| path.extension().is_none_or(|end| end != "svg")) {
            Some(path) => {
                Err(Error::invalid(format!("{}: the name of an image ends with .svg", path.display())))
            }
            None => Ok(()),
        }
    }

    /// Columns of evaluations with the intervals of the drawn metrics alone: those of every metric take long.
    pub(crate) fn columns(&self, by: &str) -> String {
        let by = by.split(',').filter(|by| !(by.is_empty() || KEYS.contains(by)));
        let usual = USUAL.into_iter().take(2).filter(|_| self.metric.is_empty());
        let metrics = self.metric.iter().map(String::as_str).chain(usual);
        let metrics = metrics.filter(|metric| !KEYS.contains(metric));
        let with_ends = metrics.flat_map(|metric| ["", "_low", "_high"].map(|end| format!("{metric}{end}")));
        KEYS.into_iter().chain(by).map(str::to_owned).chain(with_ends).collect::<Vec<_>>().join(",")
    }

    /// Draws the rows of a dataset of a workspace.
    ///
    /// # Errors
    /// `Invalid`, for a metric that is no column of numbers; errors of writing the image.
    pub(crate) fn draw(
        &self,
        (what, workspace): (&str, &str),
        days: Option<Window>,
        mut frame: DataFrame,
    ) -> anyhow::Result<()> {
        let keys = keys(&frame);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let metrics = self.metrics(what, &frame)?;
        let title = format!("{} of {workspace}", metrics.join(", "));
        let metrics: Vec<&str> = metrics.iter().map(String::as_str).collect();
        let lines = lines(&rows(&mut frame)?, &keys, &metrics)?;
        let chart = Chart { title, lines, days, ..Chart::default() };
        if chart.lines.len() > MAX_LINES {
            let count = chart.lines.len();
            eprintln!(
                "{count} lines, of which the first {MAX_LINES} are drawn; --release and --metric choose others"
            );
        }
        match &self.output {
            Some(path) => {
                fs::write(path, chart.svg()).with_context(|| format!("cannot write {}", path.display()))?;
                if chart.is_empty() {
                    eprintln!("{NO_NUMBERS}");
                }
                eprintln!("written to {}", path.display());
            }
            None if chart.is_empty() => println!("{NO_NUMBERS}"),
            None => print(&chart, LINES),
        }
        Ok(())
    }

    /// The metrics to draw, which are columns of numbers.
    fn metrics(&self, what: &str, frame: &DataFrame) -> Result<Vec<String>, Error> {
        let numbers =
            |name: &str| frame.column(name).ok().filter(|column| column.dtype().is_primitive_numeric());
        if let Some(wrong) = self.metric.iter().find(|metric| numbers(metric).is_none()) {
            return Err(Error::invalid(format!(
                "{wrong} is no column of numbers; `almanac query {what}` shows all"
            )));
        }
        if !self.metric.is_empty() {
            return Ok(self.metric.clone());
        }
        let has_numbers =
            |name: &&str| numbers(name).is_some_and(|column| column.null_count() < column.len());
        let there = |name: &&str| numbers(name).is_some();
        let usual = USUAL.into_iter().find(has_numbers).or_else(|| USUAL.into_iter().find(there));
        Ok(usual.into_iter().map(str::to_owned).collect())
    }
}

/// Prints a chart as wide as the terminal and at most `lines` lines high.
pub(crate) fn print(chart: &Chart, lines: usize) {
    let terminal = Term::stdout();
    let (height, width) = terminal.size_checked().map_or((lines, COLUMNS), |(height, width)| {
        (usize::from(height).clamp(8, lines), usize::from(width).min(MOST_COLUMNS))
    });
    let colour = std::io::stdout().is_terminal() && console::colors_enabled();
    chart.terminal(width, height, colour).lines().for_each(|line| println!("{line}"));
}

/// Columns by which the rows of an answer are told apart: the texts before its first number.
fn keys(frame: &DataFrame) -> Vec<String> {
    let keys = frame.columns().iter().take_while(|column| !column.dtype().is_primitive_numeric());
    let keys = keys.filter(|key| *key.dtype() == DataType::String && key.name() != SORT);
    keys.map(|key| key.name().to_string()).collect()
}

/// Rows of an answer as JSON objects.
pub(crate) fn rows(frame: &mut DataFrame) -> anyhow::Result<Vec<Value>> {
    let mut lines = Vec::new();
    Format::Ndjson.write(frame, &mut lines)?;
    Ok(serde_json::Deserializer::from_slice(&lines).into_iter().collect::<Result<_, _>>()?)
}

/// Texts of the keys of a row, and the place of a metric.
type Group<'a> = (Vec<Option<&'a str>>, usize);

/// Makes a line for each metric of each group of rows, without those that have no numbers if others have.
pub(crate) fn lines(rows: &[Value], keys: &[&str], metrics: &[&str]) -> anyhow::Result<Vec<Line>> {
    let mut groups: BTreeMap<Group<'_>, Vec<Point>> = BTreeMap::new();
    for row in rows {
        let at = row[HOUR].as_str().or(row["day"].as_str()).context("a row without its time")?;
        let (at, number) = (Timestamp::parse_or_day(at)?, |name: String| row[name].as_f64());
        for (index, metric) in metrics.iter().enumerate() {
            let end = |end: &str| match *metric {
                SO_FAR => number(format!("{end}_so_far")),
                metric => number(format!("{metric}_{end}")),
            };
            let point = Point::new(at, number((*metric).to_owned()), (end("low"), end("high")));
            let group = keys.iter().map(|key| row[*key].as_str()).collect();
            groups.entry((group, index)).or_default().push(point);
        }
    }
    let release = keys.iter().position(|key| *key == RELEASE);
    let releases: BTreeSet<&str> = groups.keys().filter_map(|(group, _)| group[release?]).collect();
    let is_total =
        |group: &[Option<&str>]| !releases.is_empty() && release.is_some_and(|at| group[at].is_none());
    if releases.len() == 1 {
        // Totals that equal the line of the only release would hide it.
        let parts = groups.iter().filter(|((group, _), _)| !is_total(group));
        let parts: Vec<Vec<Point>> = parts.map(|(_, points)| points.clone()).collect();
        groups.retain(|(group, _), points| !is_total(group) || !parts.contains(points));
    }
    let named = |((group, index), points): (Group<'_>, Vec<Point>)| {
        let words = is_total(&group).then_some(ALL).into_iter().chain(group.into_iter().flatten());
        let name = words.chain((metrics.len() > 1).then(|| metrics[index])).collect::<Vec<_>>().join(" ");
        Line { name, points }
    };
    let mut lines: Vec<Line> = groups.into_iter().map(named).collect();
    if lines.iter().any(Line::has_numbers) {
        lines.retain(Line::has_numbers);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Two days of rollups: of all, of v1, and of v2 if it has numbers.
    fn rollups(v2: Option<f64>) -> Vec<Value> {
        let row = |day: u32, release: Option<&str>, mean: f64| {
            let outcomes = release.is_none().then_some(mean);
            json!({ "day": format!("2026-06-0{day}"), "release": release, "mean": mean, "top": mean, "outcomes": outcomes })
        };
        let mut rows = vec![row(1, None, 1.0 + v2.unwrap_or(0.0)), row(1, Some("v1"), 1.0)];
        rows.extend([row(2, None, 3.0), row(2, Some("v1"), 3.0)]);
        rows.extend(v2.map(|v2| row(2, Some("v2"), v2)));
        rows
    }

    fn names(rows: &[Value], metrics: &[&str]) -> Vec<String> {
        lines(rows, &[RELEASE], metrics).unwrap().into_iter().map(|line| line.name).collect()
    }

    #[test]
    fn totals_have_a_name_and_come_first() {
        let of_two = rollups(Some(4.0));
        let both = ["all top", "all mean", "v1 top", "v1 mean", "v2 top", "v2 mean"];
        assert_eq!(names(&of_two, &["top", "mean"]), both);
        assert_eq!(names(&of_two, &["mean"]), ["all", "v1", "v2"]);
    }

    #[test]
    fn totals_of_the_only_release_are_not_drawn() {
        assert_eq!(names(&rollups(None), &["mean"]), ["v1"]);
        assert_eq!(names(&rollups(None), &["mean", "top"]), ["v1 mean", "v1 top"]);
        // With two releases, the totals stay even if they equal one of them.
        assert_eq!(names(&rollups(Some(0.0)), &["mean"]), ["all", "v1", "v2"]);
    }

    #[test]
    fn totals_without_releases_need_no_name() {
        // Releases have no outcomes of their own.
        assert_eq!(names(&rollups(None), &["outcomes"]), ["all"]);
        let of_nothing: Vec<Value> = rollups(None).into_iter().filter(|row| row[RELEASE].is_null()).collect();
        assert_eq!(names(&of_nothing, &["mean"]), [""]);
    }

    #[test]
    fn ungrouped_lines_are_named_by_metric() {
        let names = |metrics: &[&str]| -> Vec<String> {
            let lines = lines(&rollups(None), &[], metrics).unwrap();
            lines.into_iter().map(|line| line.name).collect()
        };
        assert_eq!(names(&["mean"]), [""]);
        assert_eq!(names(&["mean", "top"]), ["mean", "top"]);
    }
}
