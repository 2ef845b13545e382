//! `almanac plot`: charts of figures over time.

use std::{
    collections::BTreeMap,
    fs,
    io::IsTerminal,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::Args;
use console::Term;
use event::{Error, Timestamp, time::DAY_MICROS};
use plot::{Chart, Line, MAX_LINES, NO_NUMBERS, Point};
use polars::prelude::{Column, DataFrame, DataType, Float64Chunked};
use query::{HOUR, Request, What, Words};

use crate::{
    config::Config,
    open,
    query::{FiguresArgs, WindowArgs, list, say_window, words},
};

/// Maximum columns of a chart on a terminal; columns and lines where there is no terminal.
const MOST_COLUMNS: usize = 160;
const COLUMNS: usize = 100;
const LINES: usize = 22;

/// Name of lines of everything, rather than of one release.
const ALL: &str = "all";

#[derive(Debug, Args)]
#[command(
    after_help = "  almanac plot evaluations -w flights/nyc --from 2013-04-01 --to 2013-12-31 --group-by week --figure auc"
)]
pub(crate) struct PlotArgs {
    /// What to draw: evaluations, classes or rollups.
    what: String,
    #[command(flatten)]
    window: WindowArgs,
    /// The figures to draw: columns with numbers, as `almanac query` has them, with commas between. By default accuracy, or mae
    /// where there is none; f1 of classes; predictions of rollups.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    figure: Vec<String>,
    #[command(flatten)]
    figures: FiguresArgs,
    /// Write an SVG image to this file instead of drawing on the terminal.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Default figures: the first of these that has numbers is drawn.
fn usual(what: What) -> Result<&'static [&'static str], Error> {
    match what {
        What::Evaluations => Ok(&["accuracy", "mae"]),
        What::Classes => Ok(&["f1"]),
        What::Rollups => Ok(&["predictions"]),
        other => Err(Error::invalid(format!(
            "`almanac plot` draws evaluations, classes and rollups over time, and not {}",
            other.name()
        ))),
    }
}

/// Refuses the name of an image other than SVG.
fn check_image(path: &Path) -> Result<(), Error> {
    match path.extension().is_some_and(|end| end == "svg") {
        true => Ok(()),
        false => Err(Error::invalid(format!("{}: the name of an image ends with .svg", path.display()))),
    }
}

pub(crate) async fn command(config: &Config, args: &PlotArgs) -> anyhow::Result<()> {
    let what = What::parse(&args.what)?;
    let usual = usual(what)?;
    args.output.as_deref().map_or(Ok(()), check_image)?;
    let wanted: Vec<&str> = match args.figure.is_empty() {
        true => usual.to_vec(),
        false => args.figure.iter().map(String::as_str).collect(),
    };
    let by = list(&args.figures.by);
    let columns = columns(what, args, &wanted);
    let query = open::to_ask(config).await?;
    let reference = query.reference_days(&args.window.workspace, args.figures.reference.as_deref()).await?;
    let asked =
        Words { reference: reference.as_deref(), ..words(&args.window, &args.figures, by.as_deref()) };
    // The columns of intervals request the intervals of the drawn figures alone; `interval` would compute that of every figure.
    let interval = asked.interval && what != What::Evaluations;
    let request = Request::parse(what, &Words { columns: columns.as_deref(), interval, ..asked })?;
    say_window(&request);
    let workspace = query.catalog().workspace(&args.window.workspace).await?;
    let answer = query.run(workspace.id(), &request).await?;
    answer.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));

    let mut figures = wanted;
    if args.figure.is_empty() {
        let has_numbers =
            |name: &&&str| answer.frame.column(name).is_ok_and(|column| column.null_count() < column.len());
        let first = figures.iter().find(has_numbers).or(figures.first()).copied();
        figures = first.into_iter().collect();
    }
    let lines = lines(&answer.frame, what, &figures)?;
    let chart = Chart {
        title: title(&figures, &args.window.workspace, &lines),
        lines,
        days: Some(request.window),
        ..Chart::default()
    };
    if chart.lines.len() > MAX_LINES {
        let count = chart.lines.len();
        eprintln!(
            "{count} lines, of which the first {MAX_LINES} are drawn; --release and --figure choose others"
        );
    }
    match &args.output {
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

/// Title of a chart. A single line has no legend, so the title has its name.
fn title(figures: &[&str], workspace: &str, lines: &[Line]) -> String {
    let title = format!("{} of {workspace}", figures.join(", "));
    match lines {
        [only] if only.name != ALL => format!("{title}, {}", only.name),
        _ => title,
    }
}

/// Columns to request: all; for evaluations, whose columns each cost time, only the drawn ones.
fn columns(what: What, args: &PlotArgs, figures: &[&str]) -> Option<String> {
    if what != What::Evaluations {
        return None;
    }
    let hour = args.figures.group_by.as_deref() == Some("hour");
    let by = args.figures.by.iter().map(String::as_str).filter(|by| *by != "release");
    let places: Vec<&str> = ["day", "release"].into_iter().chain(hour.then_some(HOUR)).chain(by).collect();
    // A key column named as a figure is left out here; [`lines`] reports that it has no numbers.
    let drawn: Vec<&str> = figures.iter().copied().filter(|figure| !places.contains(figure)).collect();
    let ends = |figure: &str| [format!("{figure}_low"), format!("{figure}_high")];
    let ends = drawn.iter().filter(|_| args.figures.interval).flat_map(|figure| ends(figure));
    let named = places.iter().chain(&drawn).map(|name| (*name).to_owned());
    Some(named.chain(ends).collect::<Vec<_>>().join(","))
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

/// Texts of a row that name its line. The totals of rollups have no release.
type Group = Vec<Option<String>>;

/// Makes a line for each figure of each group, without those that have no numbers if others have.
pub(crate) fn lines(frame: &DataFrame, what: What, figures: &[&str]) -> anyhow::Result<Vec<Line>> {
    let times = times(frame)?;
    let is_name =
        |column: &&Column| *column.dtype() == DataType::String && !figures.contains(&column.name().as_str());
    let names: Vec<&Column> = frame.columns().iter().filter(is_name).collect();
    let of_release =
        names.iter().position(|column| what == What::Rollups && column.name().as_str() == "release");
    let mut lines: BTreeMap<(Group, usize), Vec<Point>> = BTreeMap::new();
    for (index, figure) in figures.iter().enumerate() {
        let Some(values) = numbers(frame, figure)? else {
            let column = frame.column(figure).is_ok();
            let problem = if column { "has no numbers" } else { "is no column of this answer" };
            return Err(Error::invalid(format!(
                "{figure} {problem}; `almanac query {}` shows all",
                what.name()
            ))
            .into());
        };
        let (low, high) =
            (numbers(frame, &format!("{figure}_low"))?, numbers(frame, &format!("{figure}_high"))?);
        let end = |ends: &Option<Float64Chunked>, row: usize| ends.as_ref().and_then(|ends| ends.get(row));
        for (row, at) in times.iter().enumerate() {
            let text = |column: &&Column| Some(column.str().ok()?.get(row)?.to_owned());
            let point = Point::new(*at, values.get(row)).within(end(&low, row), end(&high, row));
            lines.entry((names.iter().map(text).collect(), index)).or_default().push(point);
        }
    }
    if let Some(release) = of_release {
        lines = without_totals_of_one(&lines, release);
    }
    let has_groups = lines.keys().any(|(group, _)| group.iter().any(Option::is_some));
    let named = |((group, index), points): ((Group, usize), Vec<Point>)| {
        let of_group = has_groups.then(|| group_name(&group, of_release));
        let figure = (figures.len() > 1).then(|| figures[index].to_owned());
        let words: Vec<String> = of_group.into_iter().chain(figure).collect();
        Line { name: if words.is_empty() { ALL.to_owned() } else { words.join(" ") }, points }
    };
    let mut lines: Vec<Line> = lines.into_iter().map(named).collect();
    if lines.iter().any(Line::has_numbers) {
        lines.retain(Line::has_numbers);
    }
    Ok(lines)
}

/// Leaves out the totals that equal the line of an only release, which would hide them.
fn without_totals_of_one(
    lines: &BTreeMap<(Group, usize), Vec<Point>>,
    release: usize,
) -> BTreeMap<(Group, usize), Vec<Point>> {
    let mut parts: BTreeMap<(Group, usize), Vec<&Vec<Point>>> = BTreeMap::new();
    for ((group, index), points) in lines.iter().filter(|((group, _), _)| group[release].is_some()) {
        let mut total = group.clone();
        total[release] = None;
        parts.entry((total, *index)).or_default().push(points);
    }
    let is_hidden = |key: &(Group, usize), points: &Vec<Point>| {
        parts.get(key).is_some_and(|parts| parts.as_slice() == [points])
    };
    let shown = lines.iter().filter(|(key, points)| !is_hidden(key, points));
    shown.map(|(key, points)| (key.clone(), points.clone())).collect()
}

/// Name of a group: the texts of its columns; totals are named as all releases.
fn group_name(group: &[Option<String>], of_release: Option<usize>) -> String {
    let total = |at: usize| (of_release == Some(at)).then_some(ALL);
    let texts = group.iter().enumerate().filter_map(|(at, text)| text.as_deref().or_else(|| total(at)));
    let name = texts.collect::<Vec<_>>().join(" ");
    if name.is_empty() { ALL.to_owned() } else { name }
}

/// Instants of the rows: their hours, or the beginnings of their days.
fn times(frame: &DataFrame) -> anyhow::Result<Vec<Timestamp>> {
    let micros: Vec<Option<i64>> = match frame.column(HOUR) {
        Ok(hours) => hours.datetime()?.physical().iter().collect(),
        Err(_) => {
            let days = frame.column("day")?.date()?.physical();
            days.iter().map(|day| day.map(|day| i64::from(day) * DAY_MICROS)).collect()
        }
    };
    let time =
        |micros: Option<i64>| micros.and_then(Timestamp::from_micros).context("a row without its time");
    micros.into_iter().map(time).collect()
}

/// Numbers of a column, if it exists and is numeric.
fn numbers(frame: &DataFrame, name: &str) -> anyhow::Result<Option<Float64Chunked>> {
    let Ok(column) = frame.column(name) else { return Ok(None) };
    let is_number = column.dtype().is_primitive_numeric();
    Ok(is_number
        .then(|| column.cast(&DataType::Float64))
        .transpose()?
        .map(|column| column.f64().cloned())
        .transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two days of rollups: of all, of v1, and of v2 if it has numbers.
    fn rollups(v2: Option<f64>) -> DataFrame {
        let of_all = v2.unwrap_or(0.0);
        let mut rows = vec![(1, None, 1.0 + of_all), (1, Some("v1"), 1.0)];
        rows.extend([(2, None, 3.0), (2, Some("v1"), 3.0)]);
        rows.extend(v2.map(|v2| (2, Some("v2"), v2)));
        let days: Vec<i32> = rows.iter().map(|row| row.0).collect();
        let releases: Vec<Option<&str>> = rows.iter().map(|row| row.1).collect();
        let means: Vec<f64> = rows.iter().map(|row| row.2).collect();
        let day = Column::new("day".into(), days).cast(&DataType::Date).unwrap();
        let (mean, top) = (Column::new("mean".into(), means.clone()), Column::new("top".into(), means));
        let columns = vec![day, Column::new("release".into(), releases), mean, top];
        DataFrame::new(rows.len(), columns).unwrap()
    }

    fn names(frame: &DataFrame, what: What, figures: &[&str]) -> Vec<String> {
        lines(frame, what, figures).unwrap().into_iter().map(|line| line.name).collect()
    }

    #[test]
    fn totals_have_a_name_and_come_first() {
        let of_two = rollups(Some(4.0));
        let both = ["all top", "all mean", "v1 top", "v1 mean", "v2 top", "v2 mean"];
        assert_eq!(names(&of_two, What::Rollups, &["top", "mean"]), both);
        assert_eq!(names(&of_two, What::Rollups, &["mean"]), ["all", "v1", "v2"]);
    }

    #[test]
    fn totals_of_the_only_release_are_not_drawn() {
        assert_eq!(names(&rollups(None), What::Rollups, &["mean"]), ["v1"]);
        assert_eq!(names(&rollups(None), What::Rollups, &["mean", "top"]), ["v1 mean", "v1 top"]);
        // With two releases, the totals stay even if they equal one of them.
        assert_eq!(names(&rollups(Some(0.0)), What::Rollups, &["mean"]), ["all", "v1", "v2"]);
    }

    #[test]
    fn single_line_is_named_in_plot_title() {
        let gap = |row: usize| row.is_multiple_of(2).then_some(1.0);
        let mut frame = rollups(None);
        let outcomes: Vec<Option<f64>> = (0..4).map(gap).collect();
        frame = frame.hstack(&[Column::new("outcomes".into(), outcomes)]).unwrap();
        // Releases have no outcomes of their own.
        assert_eq!(names(&frame, What::Rollups, &["outcomes"]), ["all"]);
        let title_of =
            |figure: &str| title(&[figure], "flights/nyc", &lines(&frame, What::Rollups, &[figure]).unwrap());
        assert_eq!(title_of("outcomes"), "outcomes of flights/nyc");
        assert_eq!(title_of("mean"), "mean of flights/nyc, v1");
    }

    #[test]
    fn ungrouped_lines_are_named_by_figure() {
        let frame = rollups(None).drop("release").unwrap();
        assert_eq!(names(&frame, What::Rollups, &["mean"]), ["all"]);
        assert_eq!(names(&frame, What::Rollups, &["mean", "top"]), ["mean", "top"]);
    }
}
