//! Logged metrics, day by day.

use std::collections::{BTreeMap, BTreeSet};

use fold::{AnyFigure, figure::LoggedStatistic};
use plot::{Chart, Line, Point};
use query::{What, Words};

use super::{
    ask::Ask,
    live,
    page::{Grid, Section},
    rows::Rows,
};

/// Maximum metrics on the page; the primary metric is the first.
const MOST_METRICS: usize = 6;

const COLUMNS: &str = "day,metric,release,metrics,value_mean,value_sum,value_min,value_max,value_last";

pub(super) async fn section(ask: &Ask) -> anyhow::Result<Section> {
    let mut section = Section::new("metrics", "Logged metrics");
    let words = Words { by: Some("metric"), columns: Some(COLUMNS), change: Some("day"), ..ask.words() };
    let answer = ask.answer(What::Rollups, words).await?;
    let rows = Rows(&answer.frame);
    let is_narrow = ask.model.is_some() || ask.release.is_some();
    let is_told = |row: &usize| match rows.text("release", *row) {
        Some(release) => ask.has(release),
        // This row is the total of all releases.
        None => !is_narrow,
    };
    let told: Vec<usize> = rows.numbers().filter(is_told).collect();
    let primary = ask.settings.primary_metric.as_ref().map(|primary| &primary.metric);
    let logged = primary.and_then(AnyFigure::logged);
    let first = logged.map(|logged| logged.metric());
    let names: BTreeSet<&str> = told.iter().filter_map(|row| rows.text("metric", *row)).collect();
    if names.is_empty() {
        section.lack("No metric was logged on these days. Clients post them over HTTP, or log them with the Python client.");
        return Ok(section);
    }
    let in_order = first.into_iter().filter(|name| names.contains(name));
    let in_order = in_order.chain(names.iter().copied().filter(|name| Some(*name) != first));
    for name in in_order.take(MOST_METRICS) {
        let statistic =
            logged.filter(|_| Some(name) == first).map_or(LoggedStatistic::Mean, |of| of.statistic());
        let of: Vec<usize> =
            told.iter().copied().filter(|row| rows.text("metric", *row) == Some(name)).collect();
        section.chart(Chart {
            title: format!("{name}: {} by day", statistic.name()),
            lines: lines(&rows, &of, statistic),
            marks: live::marks(ask),
            ..Chart::default()
        });
        section.table(grid(&rows, &of, (name, statistic)));
    }
    if names.len() > MOST_METRICS {
        let more = names.len() - MOST_METRICS;
        section.say(format!(
            "{more} more are logged; the command almanac query rollups --by metric shows them."
        ));
    }
    section.say("A change is the difference to the day before.");
    Ok(section)
}

fn column(statistic: LoggedStatistic) -> String {
    format!("value_{}", statistic.name())
}

/// Makes a line for each release, and one for all together.
fn lines(rows: &Rows<'_>, of: &[usize], statistic: LoggedStatistic) -> Vec<Line> {
    let mut lines = BTreeMap::<&str, Vec<Point>>::new();
    for row in of {
        let point = Point::new(rows.day(*row).start(), rows.number(&column(statistic), *row));
        lines.entry(rows.text("release", *row).unwrap_or("all")).or_default().push(point);
    }
    lines.into_iter().map(|(name, points)| Line { name: name.to_owned(), points }).collect()
}

fn grid(rows: &Rows<'_>, of: &[usize], (name, statistic): (&str, LoggedStatistic)) -> Grid {
    let of_value = column(statistic);
    let columns = ["day", "release", "observations", statistic.name(), "change"];
    let mut grid = Grid::new(format!("{name} by day"), &columns);
    let change = format!("{of_value}_change");
    for row in of {
        let cells = ["day", "release", "metrics", &of_value, &change].map(|column| rows.cell(column, *row));
        grid.rows.push(cells.to_vec());
    }
    grid
}
