//! Expected and realised quality of predictions.

use std::collections::BTreeMap;

use plot::{Chart, Line, Point};
use query::{What, number_text};

use super::{
    ask::Ask,
    figures::named,
    page::{Grid, Section},
    rows::{Cell, Rows},
};

/// Maximum releases with a chart.
const MAX_CHARTS: usize = 4;

pub(super) async fn section(ask: &Ask) -> anyhow::Result<Section> {
    let mut section = Section::new("expected", "Expected and realised");
    let answer = ask.answer(What::Estimates, ask.words_from_reference(ask.period)).await?;
    let rows = Rows(&answer.frame);
    let mut of_release = BTreeMap::<&str, Vec<usize>>::new();
    for row in rows.numbers() {
        let release = rows.text("release", row).unwrap_or_default();
        if ask.has(release) {
            of_release.entry(release).or_default().push(row);
        }
    }
    if of_release.is_empty() {
        section.lack(format!(
            "Nothing can be expected: in the reference ({}) no release that predicted in these days has outcomes of both classes that judge \
             scores from 0 to 1. --reference names other days.",
            ask.reference()
        ));
    } else {
        section.say(format!(
            "What accuracy should be by the scores alone, which mean what they meant in {}; and what it turned out to be. The gap is what \
             scores did not foresee.",
            ask.reference()
        ));
    }
    for (release, found) in of_release.iter().take(MAX_CHARTS) {
        section.chart(chart(&rows, release, found));
        section.brief.extend(farthest(ask, &rows, release, found));
    }
    if !of_release.is_empty() {
        section.table(grid(ask, &rows, of_release.values().flatten()));
    }
    for warning in answer.warnings.iter().filter(|_| !of_release.is_empty()) {
        section.lack(format!("Of these days {warning}."));
    }
    Ok(section)
}

fn chart(rows: &Rows<'_>, release: &str, found: &[usize]) -> Chart {
    let point = |row: &usize, column| Point::new(rows.day(*row).start(), rows.number(column, *row));
    let ends = ("accuracy_expected_low", "accuracy_expected_high");
    let expected = |row: &usize| {
        let (low, high) = rows.interval(ends, *row).unzip();
        point(row, "accuracy_expected").within(low, high)
    };
    let line = |name: &str, points| Line { name: name.to_owned(), points };
    Chart {
        title: format!("Accuracy of {release}: expected and realised"),
        lines: vec![
            line("expected", found.iter().map(expected).collect()),
            line("realised", found.iter().map(|row| point(row, "accuracy")).collect()),
        ],
        ..Chart::default()
    }
}

/// States the period in which the realised accuracy was farthest from the expected one.
fn farthest(ask: &Ask, rows: &Rows<'_>, release: &str, found: &[usize]) -> Option<String> {
    let gaps = found.iter().filter_map(|row| Some((*row, rows.number("accuracy_gap", *row)?)));
    let (row, gap) = gaps.max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs()))?;
    let side = if gap < 0.0 { "below" } else { "above" };
    Some(format!(
        "The accuracy of {release} was {} {side} what was expected of it in {}, which is the farthest.",
        number_text(gap.abs()),
        named(ask.period, rows.day(row))
    ))
}

fn grid<'a>(ask: &Ask, rows: &Rows<'_>, found: impl Iterator<Item = &'a usize>) -> Grid {
    let columns = [
        ask.period,
        "release",
        "n",
        "labelled",
        "accuracy expected",
        "band",
        "accuracy",
        "gap",
        "auc expected",
        "auc",
        "gap",
    ];
    let mut grid = Grid::new(format!("Expected and realised by {} and release", ask.period), &columns);
    for row in found {
        let cell = |column| rows.cell(column, *row);
        let mut cells: Vec<Cell> =
            ["day", "release", "n", "labelled", "accuracy_expected"].map(cell).to_vec();
        let band = rows.interval(("accuracy_expected_low", "accuracy_expected_high"), *row);
        cells.push(Cell::interval(band));
        cells.extend(["accuracy", "accuracy_gap", "auc_expected", "auc", "auc_gap"].map(cell));
        grid.rows.push(cells);
    }
    grid
}
