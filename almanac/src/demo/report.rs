//! What the demo shows: tables of evaluations, a chart, what to try next.

use catalog::Workspace;
use event::Day;
use polars::prelude::Float64Chunked;
use query::{Query, Request, What, Words, output::text_table};

use super::{
    chart::bars,
    set::{ChartView, Set, TableView},
};

/// How many days a column of the chart stands for.
const CHART_DAYS: usize = 4;
const CHART_LINES: usize = 6;

/// What every list of what to try next ends with: the command, and what it does.
const ALWAYS_NEXT: [(&str, &str); 2] =
    [("verify", "fold the log again and compare"), ("up", "serve the same over HTTP on 127.0.0.1:7171")];

/// Prints what was replayed, as the evaluations say it.
pub(super) async fn print(query: &Query, workspace: &Workspace, set: &Set) -> anyhow::Result<()> {
    let ask = async |words: Words<'_>| {
        let answer = query.run(workspace.id(), &Request::parse(What::Evaluations, &words)?).await;
        answer.map(|answer| answer.frame)
    };
    for TableView { title, window: (from, to), release, group_by, columns } in &set.views.tables {
        let words = Words {
            from,
            to,
            release: *release,
            columns: Some(columns),
            group_by: *group_by,
            ..Words::default()
        };
        let rows = ask(words).await?;
        if rows.height() > 0 {
            println!("{title}\n\n{}\n", text_table(&rows));
        }
        if group_by.is_none() && rows.height() > 0 {
            let predictions: i64 = rows.column("predictions")?.i64()?.into_no_null_iter().sum();
            println!("{} days, {predictions} predictions\n", rows.height());
        }
    }
    let ChartView { title, window: (from, to), release, figure } = &set.views.chart;
    let columns = format!("day,{figure}");
    let words = Words { from, to, release: Some(release), columns: Some(&columns), ..Words::default() };
    let days = ask(words).await?;
    draw(title, &days.column("day")?.to_days()?, days.column(figure)?.f64()?);
    what_next(set);
    Ok(())
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

/// Draws a figure over all days, unless they are too few.
fn draw(title: &str, days: &[Day], values: &Float64Chunked) {
    let [first, .., last] = days else { return };
    if days.len() <= CHART_DAYS {
        return;
    }
    let values: Vec<f64> = values.iter().map(|value| value.unwrap_or(f64::NAN)).collect();
    println!("{title}, {first} to {last}, a column is {CHART_DAYS} days:\n");
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
