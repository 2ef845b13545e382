//! `almanac query`: a window of days.

use std::{
    fs::File,
    io::{BufWriter, IsTerminal, Write},
    path::PathBuf,
};

use anyhow::Context;
use clap::Args;
use event::{Clock, Error, Timestamp};
use log::segment_item::CLOSED_AFTER_SECONDS;
use query::{Answer, Format, Query, Request, What, Words};

use crate::{config::Config, open};

#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    /// What to read: predictions, outcomes, metrics, releases, joined, rollups, evaluations, classes or confusion.
    pub(crate) what: String,
    #[command(flatten)]
    pub(crate) window: WindowArgs,
    /// Only these columns, with commas between. Without it a table has the main ones, every other format all.
    #[arg(long)]
    pub(crate) columns: Option<String>,
    #[command(flatten)]
    pub(crate) narrowed: NarrowedArgs,
    #[command(flatten)]
    pub(crate) figures: FiguresArgs,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

/// Which days are read, of what.
#[derive(Debug, Args)]
pub(crate) struct WindowArgs {
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    pub(crate) workspace: String,
    /// The first day, as YYYY-MM-DD (UTC).
    #[arg(long)]
    pub(crate) from: String,
    /// The last day, which is included.
    #[arg(long)]
    pub(crate) to: String,
    /// Only this release.
    #[arg(long)]
    pub(crate) release: Option<String>,
}

/// How figures are made of what is read.
#[derive(Debug, Args)]
pub(crate) struct FiguresArgs {
    /// Break rollups down by release (the default), metric, tag.NAME, feature, or feature.NAME; evaluations by release (the
    /// default) or model, and by tag.NAME and feature.NAME. May be given several times.
    #[arg(long, value_delimiter = ',')]
    pub(crate) by: Vec<String>,
    /// The bins of features: how many, which begin at quantiles (10 by default), or the numbers at which they begin, with
    /// commas between.
    #[arg(long, value_name = "NUMBERS", allow_hyphen_values = true)]
    pub(crate) bins: Option<String>,
    /// Only what had been appended by this instant (or by the beginning of this day).
    #[arg(long, value_name = "TIME")]
    pub(crate) as_of: Option<String>,
    /// Read what an earlier answer was read from, as --show-cut printed it: the same answer, byte for byte.
    #[arg(long, value_name = "TEXT", conflicts_with = "as_of")]
    pub(crate) cut: Option<String>,
    /// Show figures of each hour, day (the default), week, month or quarter, or of all days of the window together.
    #[arg(long, value_name = "PERIOD")]
    pub(crate) group_by: Option<String>,
    /// The time zone in which hours, days, weeks and months begin, such as Europe/Berlin; UTC by default.
    #[arg(long, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
    /// Judge only predictions of releases that were live in this environment when they predicted: one row a model, or a
    /// release with --by release.
    #[arg(long, value_name = "NAME")]
    pub(crate) environment: Option<String>,
    /// Judge instead what was not live in the environment when it predicted.
    #[arg(long, requires = "environment")]
    pub(crate) shadow: bool,
    /// Judge predictions with a score as positive from this score on, whatever their labels and definitions say.
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true)]
    pub(crate) threshold: Option<String>,
    /// What a prediction of a binary model gains (tp, tn) and costs (fp, fn), such as tp=10,fp=2,fn=50, whatever its definition
    /// says; what is not named is 0.
    #[arg(long)]
    pub(crate) costs: Option<String>,
    /// What precision, recall, F1, specificity and the means of classes say where they divide by zero: 0, 1 or null (the
    /// default).
    #[arg(long, value_name = "VALUE")]
    pub(crate) zero_division: Option<String>,
    /// Say how sure each figure is: columns FIGURE_n, FIGURE_low and FIGURE_high, a 95% interval.
    #[arg(long)]
    pub(crate) interval: bool,
}

/// Which events are read.
#[derive(Debug, Args)]
pub(crate) struct NarrowedArgs {
    /// Only events for which this holds: an expression of SQL over their columns, such as "score > 0.5".
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) filter: Option<String>,
    /// Only events with this tag. May be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) tag: Vec<String>,
    /// Only events of this key.
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Only the first so many events.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<String>,
    /// Only events of this share of all keys, which are the same keys each time, such as 0.01.
    #[arg(long, value_name = "SHARE")]
    pub(crate) sample: Option<String>,
    /// oldest (the default: as they stand in the log) or newest: the last day first, of each day the latest event first.
    #[arg(long)]
    pub(crate) order: Option<String>,
}

/// How an answer is shown.
#[derive(Debug, Args)]
pub(crate) struct Shown {
    /// Print to standard error what the answer was read from.
    #[arg(long)]
    pub(crate) show_cut: bool,
    /// table, csv, ndjson, parquet or ipc; by default a table, or the format that the name of the file says.
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// Write to this file instead of the terminal.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

pub(crate) async fn command(config: &Config, args: &QueryArgs) -> anyhow::Result<()> {
    let format = args.shown.format()?;
    let narrowed = &args.narrowed;
    let (by, tag) = (list(&args.figures.by), list(&narrowed.tag));
    let words = Words {
        columns: args.columns.as_deref(),
        filter: narrowed.filter.as_deref(),
        tag: tag.as_deref(),
        key: narrowed.key.as_deref(),
        limit: narrowed.limit.as_deref(),
        sample: narrowed.sample.as_deref(),
        order: narrowed.order.as_deref(),
        ..words(&args.window, &args.figures, by.as_deref())
    };
    let request = Request::parse(What::parse(&args.what)?, &words)?;
    let query = Query::new(open::existing(config).await?, Clock::system());
    let workspace = query.catalog().workspace(&args.window.workspace).await?;
    let mut answer = query.run(workspace.id(), &request).await?;
    args.shown.say(&answer, request.as_of);
    if let (Some(source), false) = (answer.source, request.breakdown.columns.is_empty()) {
        eprintln!("source: {}", source.name());
    }
    if format == Format::Table && request.columns.is_none() {
        query::shorten(&mut answer.frame, request.what);
    }
    args.shown.write(format, &mut answer)
}

/// Several words as one, with commas between.
pub(crate) fn list(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(","))
}

/// The words of a query of figures.
pub(crate) fn words<'a>(window: &'a WindowArgs, figures: &'a FiguresArgs, by: Option<&'a str>) -> Words<'a> {
    Words {
        from: &window.from,
        to: &window.to,
        release: window.release.as_deref(),
        by,
        bins: figures.bins.as_deref(),
        time_zone: figures.time_zone.as_deref(),
        environment: figures.environment.as_deref(),
        shadow: figures.shadow,
        as_of: figures.as_of.as_deref(),
        cut: figures.cut.as_deref(),
        threshold: figures.threshold.as_deref(),
        costs: figures.costs.as_deref(),
        group_by: figures.group_by.as_deref(),
        zero_division: figures.zero_division.as_deref(),
        interval: figures.interval,
        ..Words::default()
    }
}

impl Shown {
    /// Writes an answer.
    pub(crate) fn write(&self, format: Format, answer: &mut Answer) -> anyhow::Result<()> {
        let frame = &mut answer.frame;
        match &self.output {
            None => {
                // Formatted first, written then: a reader that goes away early is no failure of ours.
                let mut text = Vec::new();
                format.write(frame, &mut text)?;
                let mut out = std::io::stdout().lock();
                out.write_all(&text)?;
                out.flush()?;
            }
            Some(path) => {
                let context = || format!("cannot write {}", path.display());
                let mut out = BufWriter::new(File::create(path).with_context(context)?);
                format.write(frame, &mut out)?;
                out.flush().with_context(context)?;
                eprintln!("{} rows written to {}", frame.height(), path.display());
            }
        }
        Ok(())
    }

    /// Says of an answer what its rows do not: as of when it is, what it lacks, and what it was read from.
    pub(crate) fn say(&self, answer: &Answer, asked: Option<Timestamp>) {
        if let Some(as_of) = answer.as_of.filter(|as_of| asked.is_some_and(|asked| asked > *as_of)) {
            eprintln!(
                "as of {as_of}, the last closed instant: the last {CLOSED_AFTER_SECONDS} s may still change"
            );
        }
        answer.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        match &answer.cut {
            Some(cut) if self.show_cut => eprintln!("cut: {cut}"),
            None if self.show_cut => {
                eprintln!("no cut: stored figures are not read from the log; --as-of reads it")
            }
            _ => {}
        }
    }

    /// The format that was asked for; without one, that of the file's name, or a table on the terminal.
    pub(crate) fn format(&self) -> anyhow::Result<Format> {
        let ending = self.output.as_ref().and_then(|path| path.extension()?.to_str());
        let name = match (&self.format, &self.output, ending) {
            (Some(format), _, _) => format.as_str(),
            (None, None, _) => "table",
            (None, Some(_), Some("arrow" | "feather")) => "ipc",
            (None, Some(_), Some("jsonl")) => "ndjson",
            (None, Some(_), Some(ending)) if Format::parse(ending).is_ok() => ending,
            (None, Some(path), _) => {
                let message = format!("the name of {} does not say a format; add --format", path.display());
                return Err(Error::invalid(message).into());
            }
        };
        let format = Format::parse(name)?;
        if format == Format::Table && self.output.is_some() {
            return Err(Error::invalid(
                "a table is for the terminal and may be cut; a file takes another --format",
            )
            .into());
        }
        if format.is_binary() && self.output.is_none() && std::io::stdout().is_terminal() {
            return Err(Error::invalid("this format is binary; name a file with --output").into());
        }
        Ok(format)
    }
}
