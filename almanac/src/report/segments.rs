//! Segments of poor predictions.

use event::Period;
use plot::{Chart, Line, Point};
use query::{What, Words, number_text};

use super::{
    ask::Ask,
    figures::Told,
    page::{Grid, Section},
    rows::Rows,
};

/// Maximum segments in the table.
const MAX_SEGMENTS: usize = 20;

/// Maximum segments in the chart, all of one split each.
const MAX_LINES: usize = 5;

const COLUMNS: [&str; 8] = ["segment", "release", "n", "share", "value", "whole", "gap", "p_adjusted"];

pub(super) async fn section(ask: &Ask, told: &Told) -> anyhow::Result<Section> {
    let mut section = Section::new("segments", "Where predictions are bad");
    let Some(figure) = &told.figure else {
        section.lack("No figure is known of these days yet by which segments could be ranked.");
        return Ok(section);
    };
    let words = |pairs| Words { figure: Some(figure), pairs, ..ask.words() };
    let mut answer = ask.answer(What::Segments, words(true)).await?;
    if answer.frame.height() == 0 {
        // Pairs come from events, which may have expired; stored figures of single splits remain.
        answer = ask.answer(What::Segments, words(false)).await?;
    }
    let rows = Rows(&answer.frame);
    let found: Vec<usize> =
        rows.numbers().filter(|row| ask.has(rows.text("release", *row).unwrap_or_default())).collect();
    let Some(worst) = found.first() else {
        section.lack(
            "No segment is known of these days. A model declares by what it is split, as in almanac model define W/MODEL --split \
             tag.NAME --from DAY.",
        );
        return Ok(section);
    };
    let text = |column| rows.text(column, *worst).unwrap_or_default();
    let number = |column| rows.number(column, *worst).map_or_else(String::new, number_text);
    section.brief.push(format!(
        "{} of {} is worst for {}: {} where all its predictions have {}.",
        figure,
        text("release"),
        text("segment"),
        number("value"),
        number("whole")
    ));
    let single = found.iter().filter(|row| rows.count("splits", **row) == 1).take(MAX_LINES);
    let drawn: Vec<[String; 2]> = single
        .map(|row| {
            ["release", "segment"].map(|column| rows.text(column, *row).unwrap_or_default().to_owned())
        })
        .collect();
    let chart = chart(ask, figure, &drawn).await?;
    if !chart.is_empty() {
        section.chart(chart);
    }
    let caption =
        format!("The worst segments of {}, by how far their {figure} is from that of all", found.len());
    let mut grid = Grid::new(caption, &COLUMNS);
    for row in found.iter().take(MAX_SEGMENTS) {
        grid.rows.push(COLUMNS.map(|column| rows.cell(column, *row)).to_vec());
    }
    section.table(grid);
    Ok(section)
}

/// Chart of the distance of segments, each with its release, from all predictions in each period.
async fn chart(ask: &Ask, figure: &str, drawn: &[[String; 2]]) -> anyhow::Result<Chart> {
    let mut lines: Vec<Line> = drawn
        .iter()
        .map(|[release, segment]| Line { name: format!("{segment} of {release}"), points: Vec::new() })
        .collect();
    if drawn.is_empty() {
        return Ok(Chart::default());
    }
    let period = Period::parse(ask.period)?;
    for part in period.parts(ask.window) {
        let [from, to] = [part.from(), part.to()].map(|day| day.to_string());
        let words = Words { from: &from, to: &to, figure: Some(figure), ..ask.words() };
        let answer = ask.answer(What::Segments, words).await?;
        let rows = Rows(&answer.frame);
        for (line, [release, segment]) in lines.iter_mut().zip(drawn) {
            let is_it = |row: &usize| {
                rows.text("release", *row) == Some(release.as_str())
                    && rows.text("segment", *row) == Some(segment.as_str())
            };
            let gap = rows.numbers().find(is_it).and_then(|row| rows.number("gap", row));
            line.points.push(Point::new(part.from().start(), gap));
        }
    }
    Ok(Chart {
        title: format!("How far the {figure} of the worst segments is from that of all, by {}", ask.period),
        lines,
        ..Chart::default()
    })
}
