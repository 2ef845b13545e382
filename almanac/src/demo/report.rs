//! What the demo shows: June day by day, both releases month by month, a chart, what to try next.

use std::collections::BTreeMap;

use catalog::Workspace;
use event::Day;
use polars::prelude::DataFrame;
use query::{Query, Request, What, Words, output::text_table};

use super::{WORKSPACE, chart::bars};
use crate::shown::{aligned, print as print_table};

/// How many days a column of the chart stands for.
const CHART_DAYS: usize = 4;
const CHART_LINES: usize = 6;

/// Prints what was replayed, as the evaluations say it.
pub(super) async fn print(query: &Query, workspace: &Workspace) -> anyhow::Result<()> {
    let ask = async |from: &str, to: &str, release: Option<&str>, columns: Option<&str>| {
        let words = Words { from, to, release, columns, ..Words::default() };
        let answer = query.run(workspace.id(), &Request::parse(What::Evaluations, &words)?).await;
        answer.map(|answer| answer.frame)
    };
    let june = "day,predictions,labelled,accuracy,auc,log_loss,brier";
    let june = ask("2013-06-01", "2013-06-30", Some("v1"), Some(june)).await?;
    if june.height() > 0 {
        println!("June 2013, release v1, day by day (labelled: arrived, so the truth is known):\n");
        println!("{}\n", text_table(&june));
        let predictions: i64 = june.column("predictions")?.i64()?.into_no_null_iter().sum();
        println!("{} days, {predictions} predictions\n", june.height());
    }
    let autumn = ask("2013-07-01", "2013-12-31", None, None).await?;
    if autumn.height() > 0 {
        println!("July to December 2013, both releases on the same flights:\n");
        compare(&days_of(&autumn)?);
    }
    let year = days_of(&ask("2013-04-01", "2013-12-31", Some("v1"), None).await?)?;
    let accuracy: Vec<f64> = year.iter().map(|day| day.accuracy.unwrap_or(f64::NAN)).collect();
    if accuracy.len() > CHART_DAYS {
        println!(
            "Accuracy of v1, {} to {}, a column is {CHART_DAYS} days:\n",
            year[0].day,
            year[year.len() - 1].day
        );
        let mean = |days: &[f64]| days.iter().sum::<f64>() / days.len() as f64;
        let columns: Vec<f64> = accuracy.chunks(CHART_DAYS).map(mean).collect();
        bars(&columns, CHART_LINES).iter().for_each(|line| println!("{}", line.trim_end()));
        println!();
    }
    what_next();
    Ok(())
}

/// What an evaluation says about a release on a day.
struct ReleaseDay {
    day: Day,
    release: String,
    labelled: i64,
    accuracy: Option<f64>,
    auc: Option<f64>,
    log_loss: Option<f64>,
    brier: Option<f64>,
}

fn days_of(frame: &DataFrame) -> anyhow::Result<Vec<ReleaseDay>> {
    let (days, releases) = (frame.column("day")?.to_days()?, frame.column("release")?.str()?.clone());
    let labelled = frame.column("labelled")?.i64()?.clone();
    let number = |name: &str| anyhow::Ok(frame.column(name)?.f64()?.clone());
    let (accuracy, auc, log_loss, brier) =
        (number("accuracy")?, number("auc")?, number("log_loss")?, number("brier")?);
    let day = |row: usize| ReleaseDay {
        day: days[row],
        release: releases.get(row).unwrap_or_default().to_owned(),
        labelled: labelled.get(row).unwrap_or(0),
        accuracy: accuracy.get(row),
        auc: auc.get(row),
        log_loss: log_loss.get(row),
        brier: brier.get(row),
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

/// A month of a release: means over its flights, and of the daily AUCs.
#[derive(Default)]
struct Month {
    labelled: i64,
    sums: [f64; 3],
    aucs: Vec<f64>,
}

fn compare(days: &[ReleaseDay]) {
    let mut months = BTreeMap::<(String, &str), Month>::new();
    for day in days {
        let month = months.entry((day.day.month(), &day.release)).or_default();
        month.labelled += day.labelled;
        for (sum, value) in month.sums.iter_mut().zip([day.accuracy, day.log_loss, day.brier]) {
            *sum += value.unwrap_or(0.0) * day.labelled as f64;
        }
        month.aucs.extend(day.auc);
    }
    let header = ["month", "release", "labelled", "accuracy", "log_loss", "brier", "mean daily auc"];
    let mut table = aligned(&header, &[2, 3, 4, 5, 6]);
    for ((name, release), month) in &months {
        let mean = |sum: f64| format!("{:.4}", sum / month.labelled as f64);
        let auc = month.aucs.iter().sum::<f64>() / month.aucs.len() as f64;
        let [accuracy, log_loss, brier] = month.sums.map(mean);
        table.add_row([
            name.clone(),
            (*release).to_owned(),
            month.labelled.to_string(),
            accuracy,
            log_loss,
            brier,
            format!("{auc:.4}"),
        ]);
    }
    print_table(&table);
    println!();
}

fn what_next() {
    // As this program was called, so that a line can be copied and run.
    let almanac = std::env::args().next().unwrap_or_else(|| "almanac".into());
    println!("What to try next:");
    for (command, what) in [
        (
            format!("query joined -w {WORKSPACE} --from 2013-06-13 --to 2013-06-13 --release v1"),
            "the flights of a bad day",
        ),
        (
            format!("query evaluations -w {WORKSPACE} --from 2013-06-01 --to 2013-06-30 --as-of 2013-06-15"),
            "June, as known on 15 June",
        ),
        (
            format!("query rollups -w {WORKSPACE} --from 2013-07-01 --to 2013-07-07 --format csv"),
            "counts and scores as CSV",
        ),
        ("verify".to_owned(), "fold the log again and compare"),
        ("up".to_owned(), "serve the same over HTTP on 127.0.0.1:7171"),
    ] {
        println!("  {almanac} {command}\n      {what}");
    }
}
