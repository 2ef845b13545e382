//! What the demo shows: tables of evaluations, a chart, what to try next.

use ::plot::Chart;
use catalog::Workspace;
use query::{Query, Request, What, Words, output::text_table};

use super::set::{ChartView, Set, TableView};
use crate::plot;

const CHART_LINES: usize = 10;

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
            println!("{title}\n\n{}\n", text_table(&rows)?);
        }
        if group_by.is_none() && rows.height() > 0 {
            let predictions: i64 = rows.column("predictions")?.i64()?.into_no_null_iter().sum();
            println!("{} days, {predictions} predictions\n", rows.height());
        }
    }
    let ChartView { title, window: (from, to), release, figure } = &set.views.chart;
    let columns = format!("day,release,{figure}");
    let columns = Some(columns.as_str());
    let group_by = Some("week");
    let weeks =
        ask(Words { from, to, release: Some(release), columns, group_by, ..Words::default() }).await?;
    let lines = plot::lines(&weeks, What::Evaluations, &[figure])?;
    // Two points make no line to look at.
    if lines.iter().any(|line| line.points.len() > 2) {
        let title = format!("{title}, by week, {from} to {to}:\n");
        plot::print(&Chart { title, lines, ..Chart::default() }, CHART_LINES);
        println!();
    }
    what_next(set);
    Ok(())
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
