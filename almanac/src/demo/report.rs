//! Output of the demo: tables of evaluations, a chart, commands to try next.

use std::{borrow::Cow, fmt::Write as _, net::SocketAddr};

use ::plot::Chart;
use catalog::Workspace;
use event::Day;
use query::{Dataset, Params, Query, Request, output::text_table};

use super::set::{ChartView, Set, TableView};
use crate::{config::Config, plot};

const CHART_LINES: usize = 10;

/// Prints the evaluations of the replay, up to the end of a day or all.
pub(super) async fn print(
    query: &Query,
    workspace: &Workspace,
    (set, until): (&Set, Option<Day>),
    config: &Config,
) -> anyhow::Result<()> {
    let until = until.map(|day| day.to_string());
    let until = until.as_deref();
    let ask = async |words: Params<'_>| {
        let answer = query.run(workspace.id(), &Request::parse(Dataset::Evaluations, &words)?).await;
        answer.map(|answer| answer.frame)
    };
    for TableView { title, window, release, period, columns } in &set.views.tables {
        let Some((from, to)) = replayed(*window, until) else { continue };
        let words = Params {
            from,
            to,
            release: *release,
            columns: Some(columns),
            period: *period,
            ..Params::default()
        };
        let rows = ask(words).await?;
        if rows.height() > 0 {
            println!("{}\n\n{}\n", titled(title, window.1, to), text_table(&rows)?);
        }
        if period.is_none() && rows.height() > 0 {
            let predictions: i64 = rows.column("predictions")?.i64()?.into_no_null_iter().sum();
            println!("{} days, {predictions} predictions\n", rows.height());
        }
    }
    let ChartView { title, window, release, metric } = &set.views.chart;
    let (from, to) = replayed(*window, until).unwrap_or(*window);
    let columns = format!("day,release,{metric}");
    let columns = Some(columns.as_str());
    let period = Some("week");
    let mut weeks =
        ask(Params { from, to, release: Some(release), columns, period, ..Params::default() }).await?;
    let lines = plot::lines(&plot::rows(&mut weeks)?, &["release"], &[metric])?;
    // A chart needs more than two points.
    if lines.iter().any(|line| line.points.len() > 2) {
        println!("{title}, by week, {from} to {to}:");
        plot::print(&Chart { lines, ..Chart::default() }, CHART_LINES);
        println!();
    }
    // The name by which this program was called, so that a line can be copied and run.
    let almanac = std::env::args().next().unwrap_or_else(|| "almanac".into());
    print!("{}", what_next(set, until, &(almanac + &config.again), config.listen.value));
    Ok(())
}

/// Replayed part of a window, whose days are texts in order; `None`, when nothing was replayed.
fn replayed<'a>((from, to): (&'a str, &'a str), until: Option<&'a str>) -> Option<(&'a str, &'a str)> {
    let to = until.map_or(to, |until| until.min(to));
    (from <= to).then_some((from, to))
}

/// Title of a table, with its last day if that is before the end of its window.
fn titled<'a>(title: &'a str, last: &str, to: &str) -> Cow<'a, str> {
    match to == last {
        true => title.into(),
        false => format!("{}, up to {to}:", title.trim_end_matches(':')).into(),
    }
}

/// Returns whether the first day of the options was replayed.
fn begins_within(options: &str, until: Option<&str>) -> bool {
    let from = options.strip_prefix("--from ").and_then(|days| days.split(' ').next());
    from.zip(until).is_none_or(|(from, until)| from <= until)
}

/// Commands to try, each with its purpose; `almanac` begins each line.
fn what_next(set: &Set, until: Option<&str>, almanac: &str, listen: SocketAddr) -> String {
    let queries = set
        .views
        .next
        .iter()
        .filter(|(_, options, _)| begins_within(options, until))
        .map(|(what, options, shows)| (format!("query {what} -w {} {options}", set.workspace), *shows));
    let serve = format!("serve the same over HTTP on {listen}");
    let always = [("admin verify", "fold the log again and compare"), ("up", serve.as_str())];
    let always = always.map(|(command, does)| (command.to_owned(), does));
    let mut lines = "What to try next:\n".to_owned();
    for (command, shows) in queries.chain(always) {
        _ = writeln!(lines, "  {almanac} {command}\n      {shows}");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::set::SETS;

    #[test]
    fn suggested_commands_keep_store_and_address() {
        let listen = "127.0.0.1:9000".parse().unwrap();
        let lines = what_next(&SETS[0], None, "almanac --store sqlite:zz.db", listen);
        let commands = lines.lines().skip(1).step_by(2);
        assert!(commands.clone().count() > 2);
        for line in commands {
            assert!(line.starts_with("  almanac --store sqlite:zz.db "), "{line}");
            let parsed = crate::cli::all().try_get_matches_from(line.split_whitespace());
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
        }
        assert!(lines.ends_with(
            "  almanac --store sqlite:zz.db up\n      serve the same over HTTP on 127.0.0.1:9000\n"
        ));
    }

    #[test]
    fn what_is_shown_ends_where_the_replay_did() {
        let window = ("2013-07-01", "2013-12-31");
        assert_eq!(replayed(window, None), Some(window));
        assert_eq!(replayed(window, Some("2014-01-01")), Some(window));
        assert_eq!(replayed(window, Some("2013-07-09")), Some(("2013-07-01", "2013-07-09")));
        assert_eq!(replayed(window, Some("2013-06-30")), None);
        assert_eq!(titled("Until winter:", "2013-12-31", "2013-12-31"), "Until winter:");
        assert_eq!(titled("Until winter:", "2013-12-31", "2013-07-09"), "Until winter, up to 2013-07-09:");
        let options = "--from 2013-07-01 --to 2013-07-07 --format csv";
        assert!(begins_within(options, None) && begins_within(options, Some("2013-07-01")));
        assert!(!begins_within(options, Some("2013-06-30")));
    }
}
