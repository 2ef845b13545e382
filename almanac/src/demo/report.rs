//! What the demo shows: a month day by day, both releases month by month, a chart, what to try next.

use std::collections::BTreeMap;

use catalog::Workspace;
use event::Day;
use polars::prelude::DataFrame;
use query::{Query, Request, What, Words, output::text_table};

use super::{
    chart::bars,
    set::{ChartView, MonthsView, Set},
};
use crate::shown::{aligned, print as print_table};

/// How many days a column of the chart stands for.
const CHART_DAYS: usize = 4;
const CHART_LINES: usize = 6;

/// What every list of what to try next ends with: the command, and what it does.
const ALWAYS_NEXT: [(&str, &str); 2] =
    [("verify", "fold the log again and compare"), ("up", "serve the same over HTTP on 127.0.0.1:7171")];

/// Prints what was replayed, as the evaluations say it.
pub(super) async fn print(query: &Query, workspace: &Workspace, set: &Set) -> anyhow::Result<()> {
    let ask = async |(from, to), release: Option<&str>, columns: &str| {
        let words = Words { from, to, release, columns: Some(columns), ..Words::default() };
        let answer = query.run(workspace.id(), &Request::parse(What::Evaluations, &words)?).await;
        answer.map(|answer| answer.frame)
    };
    let views = &set.views;
    let days = ask(views.days.window, Some(views.days.release), views.days.columns).await?;
    if days.height() > 0 {
        println!("{}\n\n{}\n", views.days.title, text_table(&days));
        let predictions: i64 = days.column("predictions")?.i64()?.into_no_null_iter().sum();
        println!("{} days, {predictions} predictions\n", days.height());
    }
    let figures = [views.months.means, &[views.months.daily]].concat();
    let months = ask(views.months.window, None, &columns(&figures)).await?;
    if months.height() > 0 {
        println!("{}\n", views.months.title);
        compare(&views.months, &days_of(&months, &figures)?);
    }
    let chart = &views.chart;
    let days = ask(chart.window, Some(chart.release), &columns(&[chart.figure])).await?;
    draw(chart, &days_of(&days, &[chart.figure])?);
    what_next(set);
    Ok(())
}

/// The columns that a day of a release is read from.
fn columns(figures: &[&str]) -> String {
    [&["day", "release", "labelled"], figures].concat().join(",")
}

/// What an evaluation says about a release on a day.
struct ReleaseDay {
    day: Day,
    release: String,
    labelled: i64,
    /// In the order in which they were asked for.
    figures: Vec<Option<f64>>,
}

fn days_of(frame: &DataFrame, figures: &[&str]) -> anyhow::Result<Vec<ReleaseDay>> {
    let (days, releases) = (frame.column("day")?.to_days()?, frame.column("release")?.str()?.clone());
    let labelled = frame.column("labelled")?.i64()?.clone();
    let figures = figures
        .iter()
        .map(|name| Ok(frame.column(name)?.f64()?.clone()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let day = |row: usize| ReleaseDay {
        day: days[row],
        release: releases.get(row).unwrap_or_default().to_owned(),
        labelled: labelled.get(row).unwrap_or(0),
        figures: figures.iter().map(|figure| figure.get(row)).collect(),
    };
    Ok((0..frame.height()).map(day).collect())
}

/// The days of a column.
trait Days {
    fn to_days(&self) -> anyhow::Result<Vec<Day>>;
}

impl Days for polars::prelude::Column {
    fn to_days(&self) -> anyhow::Result<Vec<Day>> {
        let numbers = self.date()?.physical().clone();
        let day = |number: i32| event::Timestamp::from_micros(i64::from(number) * event::time::DAY_MICROS);
        let days = numbers.into_no_null_iter().map(|number| day(number).map(event::Timestamp::day));
        days.collect::<Option<_>>().ok_or_else(|| anyhow::anyhow!("a day out of range"))
    }
}

/// A month of a release: sums over what is judged, and the figure of which it has the mean of its days.
#[derive(Default)]
struct Month {
    labelled: i64,
    sums: Vec<f64>,
    daily: Vec<f64>,
}

fn compare(view: &MonthsView, days: &[ReleaseDay]) {
    let mut months = BTreeMap::<(String, &str), Month>::new();
    for day in days {
        let month = months.entry((day.day.month(), &day.release)).or_default();
        month.labelled += day.labelled;
        month.sums.resize(view.means.len(), 0.0);
        // The daily figure stands behind the means.
        for (sum, value) in month.sums.iter_mut().zip(&day.figures) {
            *sum += value.unwrap_or(0.0) * day.labelled as f64;
        }
        month.daily.extend(day.figures.last().copied().flatten());
    }
    let daily = format!("mean daily {}", view.daily);
    let header = [&["month", "release", "labelled"], view.means, &[&daily]].concat();
    let numbers: Vec<usize> = (2..header.len()).collect();
    let mut table = aligned(&header, &numbers);
    for ((name, release), month) in &months {
        let mut row = vec![name.clone(), (*release).to_owned(), month.labelled.to_string()];
        row.extend(month.sums.iter().map(|sum| format!("{:.4}", sum / month.labelled as f64)));
        row.push(format!("{:.4}", month.daily.iter().sum::<f64>() / month.daily.len() as f64));
        table.add_row(row);
    }
    print_table(&table);
    println!();
}

/// Draws a figure over all days, unless they are too few.
fn draw(view: &ChartView, days: &[ReleaseDay]) {
    let values: Vec<f64> = days.iter().map(|day| day.figures[0].unwrap_or(f64::NAN)).collect();
    if values.len() <= CHART_DAYS {
        return;
    }
    let (first, last) = (days[0].day, days[days.len() - 1].day);
    println!("{}, {first} to {last}, a column is {CHART_DAYS} days:\n", view.title);
    let mean = |days: &[f64]| days.iter().sum::<f64>() / days.len() as f64;
    let columns: Vec<f64> = values.chunks(CHART_DAYS).map(mean).collect();
    bars(&columns, CHART_LINES).iter().for_each(|line| println!("{}", line.trim_end()));
    println!();
}

fn what_next(set: &Set) {
    // As this program was called, so that a line can be copied and run.
    let almanac = std::env::args().next().unwrap_or_else(|| "almanac".into());
    let queries = set
        .views
        .next
        .iter()
        .map(|(what, options, shows)| (format!("query {what} -w {} {options}", set.workspace), *shows));
    let always = ALWAYS_NEXT.iter().map(|(command, does)| ((*command).to_owned(), *does));
    println!("What to try next:");
    for (command, shows) in queries.chain(always) {
        println!("  {almanac} {command}\n      {shows}");
    }
}
