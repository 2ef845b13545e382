//! Figures of the predictions.

use std::collections::{BTreeMap, BTreeSet};

use event::Day;
use fold::figure::Evidence;
use plot::{Chart, Line, Point};
use query::{Source, What, Words};

use super::{
    ask::Ask,
    live,
    page::{Grid, Section},
    rows::{Cell, Rows},
};

/// Figures that are shown if known.
const SHOWN: [&str; 10] =
    ["accuracy", "auc", "brier", "log_loss", "f1", "macro_f1", "mae", "rmse", "bias", "value_per_prediction"];

/// Default figures to follow a release by, if the workspace has no primary metric; they have an interval.
const USUAL: [&str; 2] = ["accuracy", "mae"];

/// Results for the other sections.
#[derive(Default)]
pub(super) struct Told {
    /// Releases that predicted in the window.
    pub(super) predicted: BTreeSet<String>,
    /// Figure by which releases are followed.
    pub(super) figure: Option<String>,
}

pub(super) async fn section(ask: &Ask) -> anyhow::Result<(Section, Told)> {
    let mut section = Section::new("figures", "How good the predictions were");
    // A logged metric has a section of its own.
    let primary = ask.settings.primary_metric.as_ref().map(|primary| &primary.metric);
    let primary = primary.filter(|metric| metric.logged().is_none()).map(|metric| metric.name().to_owned());
    let mut figures: Vec<&str> = SHOWN.to_vec();
    figures.extend(primary.as_deref().filter(|primary| !SHOWN.contains(primary)));
    let columns = ["day", "release", "predictions", "labelled"].iter().chain(&figures);
    let columns = columns.copied().collect::<Vec<_>>().join(",");
    let words = Words { columns: Some(&columns), group_by: Some(ask.period), ..ask.words() };
    let answer = ask.answer(What::Evaluations, words).await?;
    let rows = Rows(&answer.frame);
    let told_of: Vec<usize> =
        rows.numbers().filter(|row| ask.has(rows.text("release", *row).unwrap_or_default())).collect();
    let name = |row: &usize| rows.text("release", *row).unwrap_or_default().to_owned();
    let mut told = Told { predicted: told_of.iter().map(name).collect(), figure: None };
    if told_of.is_empty() {
        section.lack(
            "There are no predictions of these days. They are appended over HTTP, or by almanac import.",
        );
        return Ok((section, told));
    }
    let labelled: u64 = told_of.iter().map(|row| rows.count("labelled", *row)).sum();
    if labelled == 0 {
        section.lack("No outcome has come yet for the predictions of these days, so nothing can be judged.");
    }
    figures.retain(|figure| rows.has(figure));
    let usual = USUAL.into_iter().find(|figure| figures.contains(figure));
    let followed = primary.as_deref().filter(|primary| figures.contains(primary));
    told.figure = followed.or(usual).map(str::to_owned);
    let of_auc = figures.iter().copied().find(|figure| *figure == "auc");
    let drawn: BTreeSet<&str> = told.figure.as_deref().into_iter().chain(of_auc).collect();
    for figure in drawn {
        section.chart(Chart {
            title: format!("{figure} by {}", ask.period),
            lines: lines(&rows, &told_of, figure),
            marks: live::marks(ask),
            ..Chart::default()
        });
    }
    section.table(grid(ask, &rows, &told_of, (&figures, usual)));
    section.say(match answer.source {
        Some(Source::Stored) => "The figures are those that are stored of each day.",
        _ => "The figures are made of all events of a period, and are not means of days.",
    });
    if let Some(usual) = usual {
        section.say(format!(
            "The interval is that of {usual} at 95%, for predictions that do not depend on each other."
        ));
    }
    Ok((section, told))
}

/// Makes a line for each release that has the figure.
fn lines(rows: &Rows<'_>, told_of: &[usize], figure: &str) -> Vec<Line> {
    let mut lines = BTreeMap::<&str, Vec<Point>>::new();
    for row in told_of {
        let (value, interval) = (rows.number(figure, *row), interval(rows, *row, figure));
        let (low, high) = interval.unzip();
        let point = Point::new(rows.day(*row).start(), value).within(low, high);
        lines.entry(rows.text("release", *row).unwrap_or_default()).or_default().push(point);
    }
    lines.into_iter().map(|(name, points)| Line { name: name.to_owned(), points }).collect()
}

/// Interval of a figure that is a share or a mean of single predictions, so that the figure itself determines it.
fn interval(rows: &Rows<'_>, row: usize, figure: &str) -> Option<(f64, f64)> {
    let n = rows.count("labelled", row);
    let size = n as f64;
    match figure {
        "accuracy" => {
            let right = (rows.number(figure, row)? * size).round() as u64;
            Evidence::Share { right, n }.interval()
        }
        "mae" => {
            let (mae, rmse) = (rows.number(figure, row)?, rows.number("rmse", row)?);
            Evidence::Mean { n, sum: size * mae, squares: size * rmse * rmse }.interval()
        }
        _ => None,
    }
}

fn grid(ask: &Ask, rows: &Rows<'_>, told_of: &[usize], (figures, usual): (&[&str], Option<&str>)) -> Grid {
    let mut columns = vec![ask.period, "release", "predictions", "labelled"];
    for figure in figures {
        columns.push(figure);
        columns.extend((Some(*figure) == usual).then_some("interval"));
    }
    let mut grid = Grid::new(format!("Figures by {} and release", ask.period), &columns);
    for row in told_of {
        let mut cells: Vec<Cell> =
            ["day", "release", "predictions", "labelled"].map(|column| rows.cell(column, *row)).to_vec();
        for figure in figures {
            cells.push(rows.cell(figure, *row));
            cells.extend((Some(*figure) == usual).then(|| Cell::interval(interval(rows, *row, figure))));
        }
        grid.rows.push(cells);
    }
    grid
}

/// First day of a period, in the words of a sentence.
pub(super) fn named(period: &str, day: Day) -> String {
    match period {
        "day" => day.to_string(),
        "month" => day.month(),
        other => format!("the {other} of {day}"),
    }
}
