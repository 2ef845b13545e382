//! Where predictions are bad.

use query::{What, Words, number_text};

use super::{
    ask::Ask,
    figures::Told,
    page::{Grid, Section},
    rows::Rows,
};

/// How many segments are shown.
const MAX_SEGMENTS: usize = 20;

const COLUMNS: [&str; 8] = ["segment", "release", "n", "share", "value", "whole", "gap", "p_adjusted"];

pub(super) async fn section(ask: &Ask, told: &Told) -> anyhow::Result<Section> {
    let mut section = Section::new("segments", "Where predictions are bad");
    let Some(figure) = &told.figure else {
        section.lack("No figure is known of these days yet by which segments could be ranked.");
        return Ok(section);
    };
    let answer = ask.answer(What::Segments, Words { figure: Some(figure), ..ask.words() }).await?;
    let rows = Rows(&answer.frame);
    let found: Vec<usize> =
        rows.numbers().filter(|row| ask.has(rows.text("release", *row).unwrap_or_default())).collect();
    let Some(worst) = found.first() else {
        section.lack(
            "No segment is stored of these days. A model declares by what it is split, as in almanac model define W/MODEL --split \
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
    let caption =
        format!("The worst segments of {}, by how far their {figure} is from that of all", found.len());
    let mut grid = Grid::new(caption, &COLUMNS);
    for row in found.iter().take(MAX_SEGMENTS) {
        grid.rows.push(COLUMNS.map(|column| rows.cell(column, *row)).to_vec());
    }
    section.table(grid);
    Ok(section)
}
