//! Maturity of the days.

use std::collections::BTreeMap;

use event::Day;
use fold::maturity::AGES;
use plot::{Chart, Line, Point};
use query::{What, Words};

use super::{
    ask::Ask,
    page::{Grid, Section},
    rows::{Cell, Rows},
};

/// Name of the latest age: by all that is known.
const LATEST: &str = "latest";

/// Minimum share of its truth for a complete day; others are named.
const COMPLETE: f64 = 0.9;

/// Maximum number of named days.
const NAMED: usize = 10;

/// For each age, by its place, and each day: the number of predictions judged by then, of all releases in the report, and the
/// number expected in the end; a day without an expectation is left out.
type ByDay = BTreeMap<usize, BTreeMap<Day, (f64, f64)>>;

/// Ages that are drawn, the last by all that is known.
const DRAWN: [&str; 5] = ["1h", "1d", "7d", "30d", LATEST];

/// Totals of one release at an age.
#[derive(Default)]
struct AtAge {
    days: u64,
    labelled: u64,
    /// Expected number of judged predictions, over the days with an expectation.
    expected: f64,
    of_expected: u64,
    /// Weighted sums of figures that are means of predictions.
    accuracy: Mean,
    mae: Mean,
}

#[derive(Default)]
struct Mean {
    sum: f64,
    n: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>, n: u64) {
        if let Some(value) = value {
            self.sum += value * n as f64;
            self.n += n as f64;
        }
    }

    fn value(&self) -> Option<f64> {
        (self.n > 0.0).then(|| self.sum / self.n)
    }
}

pub(super) async fn section(ask: &Ask) -> anyhow::Result<Section> {
    let mut section = Section::new("maturity", "Whether the days can be believed yet");
    let columns = "day,release,age,labelled,completeness,expected_labelled,accuracy,mae";
    let answer = ask.answer(What::Maturity, Words { columns: Some(columns), ..ask.words() }).await?;
    let rows = Rows(&answer.frame);
    let mut at_ages = BTreeMap::<(&str, usize), AtAge>::new();
    let mut early = Vec::<(Day, &str, f64)>::new();
    let mut by_day = ByDay::new();
    for row in rows.numbers() {
        let release = rows.text("release", row).unwrap_or_default();
        let age = rows.text("age", row).unwrap_or_default();
        if !ask.has(release) {
            continue;
        }
        let (labelled, expected) = (rows.count("labelled", row), rows.number("expected_labelled", row));
        let so_far = by_day.entry(place(age)).or_default().entry(rows.day(row)).or_default();
        *so_far = (so_far.0 + labelled as f64, so_far.1 + expected.unwrap_or(f64::NAN));
        at_ages.entry((release, place(age))).or_default().add(&rows, row);
        let completeness = rows.number("completeness", row);
        if let Some(share) = completeness.filter(|share| age == LATEST && *share < COMPLETE) {
            early.push((rows.day(row), release, share));
        }
    }
    if at_ages.values().all(|at| at.labelled == 0) {
        section.lack("No outcome has come yet for the predictions of these days, so it is not known how late outcomes come.");
        return Ok(section);
    }
    section
        .say("How much of the truth that will come had come when days had an age, and what they said then.");
    let chart = chart(&by_day);
    if !chart.is_empty() {
        section.chart(chart);
    }
    section.table(grid(&at_ages));
    match early.len() {
        0 => section.say("No day is known to lack more than a tenth of its truth."),
        count => {
            let named = |(day, release, share): &(Day, &str, f64)| {
                format!("{day} of {release} has {:.0}% of it", share * 100.0)
            };
            let days = early.iter().take(NAMED).map(named).collect::<Vec<_>>().join(", ");
            let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
            let text = format!("Days that lack more than a tenth of their truth: {days}{more}.");
            section.brief.push(text.clone());
            section.say(text);
        }
    }
    if at_ages.values().any(|at| at.of_expected == 0) {
        section.lack("How much will come is told by days that are 30 days old; a window without such days shows counts alone.");
    }
    Ok(section)
}

/// Place of an age among all of them.
fn place(age: &str) -> usize {
    AGES.iter().position(|known| known.name == age).unwrap_or(AGES.len())
}

impl AtAge {
    fn add(&mut self, rows: &Rows<'_>, row: usize) {
        let labelled = rows.count("labelled", row);
        self.days += 1;
        self.labelled += labelled;
        if let Some(expected) = rows.number("expected_labelled", row) {
            self.expected += expected;
            self.of_expected += labelled;
        }
        self.accuracy.add(rows.number("accuracy", row), labelled);
        self.mae.add(rows.number("mae", row), labelled);
    }
}

fn grid(at_ages: &BTreeMap<(&str, usize), AtAge>) -> Grid {
    let columns = ["release", "age", "days", "labelled", "completeness", "accuracy", "mae"];
    let has_mae = at_ages.values().any(|at| at.mae.n > 0.0);
    let has_accuracy = at_ages.values().any(|at| at.accuracy.n > 0.0);
    let is_shown = |column: &&str| (*column != "mae" || has_mae) && (*column != "accuracy" || has_accuracy);
    let shown: Vec<&str> = columns.into_iter().filter(is_shown).collect();
    let mut grid = Grid::new("All days together, by age", &shown);
    for ((release, place), at) in at_ages {
        let age = AGES.get(*place).map_or(LATEST, |age| age.name);
        let completeness = (at.expected > 0.0).then(|| at.of_expected as f64 / at.expected);
        let mut cells = vec![Cell::text(*release), Cell::text(age), Cell::count(at.days)];
        cells.extend([Cell::count(at.labelled), Cell::number(completeness)]);
        cells.extend(has_accuracy.then(|| Cell::number(at.accuracy.value())));
        cells.extend(has_mae.then(|| Cell::number(at.mae.value())));
        grid.rows.push(cells);
    }
    grid
}

/// Chart of the share of the expected truth that each day had, with a line for each age.
fn chart(by_day: &ByDay) -> Chart {
    let line = |age: &&str| {
        let days = by_day.get(&place(age))?;
        let point = |(day, (labelled, expected)): (&Day, &(f64, f64))| {
            Point::new(day.start(), (*expected > 0.0).then(|| labelled / expected))
        };
        let name = if *age == LATEST { "by all that is known".to_owned() } else { format!("{age} old") };
        Some(Line { name, points: days.iter().map(point).collect() })
    };
    Chart {
        title: "Share of the truth that had come, by day and its age".to_owned(),
        lines: DRAWN.iter().filter_map(line).collect(),
        ..Chart::default()
    }
}
