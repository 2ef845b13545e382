//! Drift of predictions.

use std::collections::{BTreeMap, BTreeSet};

use event::Day;
use plot::{Chart, Line, MAX_LINES, Point};
use query::{What, number_text};

use super::{
    ask::Ask,
    figures::named,
    page::{Grid, Section},
    rows::{Cell, Rows},
};

/// Maximum columns of predictions, and maximum periods.
const MAX_COLUMNS: usize = 20;
const MAX_PERIODS: usize = 16;

/// Row that counts the predictions themselves.
const PREDICTIONS: &str = "predictions";

/// Distance at which a cell has its full shade.
const FAR: f64 = 0.25;

/// Distance of each column from its reference, by the period of the comparison.
type Distances = BTreeMap<String, BTreeMap<Day, Option<f64>>>;

pub(super) async fn section(ask: &Ask) -> anyhow::Result<Section> {
    let mut section = Section::new("drift", "What has changed");
    let whole = ask.answer(What::Drift, ask.words_from_reference("all")).await?;
    let rows = Rows(&whole.frame);
    let is_empty = rows.numbers().all(|row| rows.text("column", row) == Some(PREDICTIONS));
    if is_empty || rows.count("n_reference", 0) == 0 {
        let which = if is_empty { "These days have" } else { "The reference has" };
        section.lack(format!(
            "{which} no predictions, so there is nothing to compare with {}. --reference names other days.",
            ask.reference()
        ));
        return Ok(section);
    }
    let of = match &ask.release {
        Some(release) => format!("the predictions of {release}"),
        None => "all predictions of the workspace".to_owned(),
    };
    section.say(format!(
        "How far {of} are from those of {}; what changed most stands first. With many predictions nearly any change is significant \
         (p adjusted), so the distance is what to look at: 0 is the same, 1 has nothing in common.",
        ask.reference()
    ));
    let names: Vec<String> = rows
        .numbers()
        .filter_map(|row| rows.text("column", row))
        .filter(|name| *name != PREDICTIONS)
        .take(MAX_COLUMNS)
        .map(str::to_owned)
        .collect();
    let by_period = ask.answer(What::Drift, ask.words_from_reference(ask.drift_period)).await?;
    let distances = distances(&Rows(&by_period.frame), &names);
    section.brief.extend(farthest(ask, &distances));
    section.chart(chart(ask, &names, &distances));
    section.table(ranked(ask, &rows));
    section.table(by_column(ask, &names, &distances));
    Ok(section)
}

fn ranked(ask: &Ask, rows: &Rows<'_>) -> Grid {
    let columns = [
        "column",
        "n",
        "n_reference",
        "js_distance",
        "psi",
        "wasserstein_scaled",
        "ks",
        "l_infinity",
        "p_adjusted",
        "null_rate",
        "unseen_names",
    ];
    let mut grid = Grid::new(format!("All days against {}", ask.reference()), &columns);
    for row in rows.numbers().take(MAX_COLUMNS + 1) {
        grid.rows.push(columns.iter().map(|column| rows.cell(column, row)).collect());
    }
    grid
}

fn distances(rows: &Rows<'_>, names: &[String]) -> Distances {
    let mut distances = Distances::new();
    for row in rows.numbers() {
        let name = rows.text("column", row).unwrap_or_default();
        if names.iter().any(|known| known == name) {
            let of_column = distances.entry(name.to_owned()).or_default();
            of_column.insert(rows.day(row), rows.number("js_distance", row));
        }
    }
    distances
}

/// Names the column and period farthest from the reference.
fn farthest(ask: &Ask, distances: &Distances) -> Option<String> {
    let all = distances.iter().flat_map(|(name, days)| {
        days.iter().filter_map(move |(day, distance)| Some((name, *day, (*distance)?)))
    });
    let (name, day, distance) = all.max_by(|one, other| one.2.total_cmp(&other.2))?;
    Some(format!(
        "{name} moved most: in {} its Jensen-Shannon distance from {} was {}.",
        named(ask.drift_period, day),
        ask.reference(),
        number_text(distance)
    ))
}

fn chart(ask: &Ask, names: &[String], distances: &Distances) -> Chart {
    let line = |name: &String| {
        let days = distances.get(name).into_iter().flatten();
        let points = days.map(|(day, distance)| Point::new(day.start(), *distance)).collect();
        Line { name: name.clone(), points }
    };
    Chart {
        title: format!("Distance from {} by {}", ask.reference(), ask.drift_period),
        lines: names.iter().take(MAX_LINES).map(line).collect(),
        ..Chart::default()
    }
}

/// Makes a row for each column of predictions, and a column for each period.
fn by_column(ask: &Ask, names: &[String], distances: &Distances) -> Grid {
    let all: BTreeSet<Day> = distances.values().flat_map(|days| days.keys()).copied().collect();
    let days: Vec<Day> = all.iter().rev().take(MAX_PERIODS).rev().copied().collect();
    let heads: Vec<String> = days
        .iter()
        .map(|day| if ask.drift_period == "month" { day.month() } else { day.to_string() })
        .collect();
    let mut columns = vec!["column"];
    columns.extend(heads.iter().map(String::as_str));
    let mut grid = Grid::new(format!("Jensen-Shannon distance by {}", ask.drift_period), &columns);
    for name in names {
        let cell = |day: &Day| {
            let distance = distances.get(name).and_then(|days| *days.get(day)?);
            Cell { shade: distance.map(|distance| distance / FAR), ..Cell::number(distance) }
        };
        grid.rows.push(std::iter::once(Cell::text(name)).chain(days.iter().map(cell)).collect());
    }
    grid
}
