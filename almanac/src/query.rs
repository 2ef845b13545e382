//! `almanac query`: reads a window of days.

use std::fmt::Display;

use clap::Args;
use event::{Clock, Error, plain::listed};
use query::{Format, Last, Made, Request, What, Words};

use crate::{answer::Shown, config::Config, open};

#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    /// What to read: predictions, outcomes, metrics, releases, joined, rollups, evaluations, classes, confusion, maturity, estimates, segments, drift, head-to-head or challengers.
    pub(crate) what: String,
    #[command(flatten)]
    pub(crate) window: WindowArgs,
    /// Instead of a window and all that narrows it: read the rows of this snapshot again, as they were known when it was made.
    #[arg(long, value_name = "NAME")]
    pub(crate) snapshot: Option<String>,
    /// Only these columns, with commas between; one whose name has a comma stands in double quotes. Without it a table has the main ones, every other format all.
    #[arg(long)]
    pub(crate) columns: Option<String>,
    #[command(flatten)]
    pub(crate) narrowed: NarrowedArgs,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// The metric by which segments are ranked; by default the primary metric of the workspace.
    #[arg(long)]
    pub(crate) metric: Option<String>,
    /// Compute drift from the events, without the errors of sketches, and compare tags by release too. --as-of does as well.
    #[arg(long)]
    pub(crate) exact: bool,
    /// Of drift only this column of predictions: score, value, latency_ms, label, tag.NAME or feature.NAME. May be given several times; without a
    /// feature among them features are not read.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) column: Vec<String>,
    /// Of maturity: count how many outcomes had arrived at each age of their own predictions, instead of at ages that begin when the day ends. It reads
    /// the events.
    #[arg(long)]
    pub(crate) after_prediction: bool,
    /// Rank segments of two splits too, which reads the events.
    #[arg(long)]
    pub(crate) pairs: bool,
    /// The model whose live release is challenged: in production, or in the environment of --environment.
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Add to each number of rollups, evaluations, classes, confusion, drift, maturity and estimates how it changed, as the column NAME_change: its
    /// difference to the same number of the same series a day, a week or a period before. A period is the day, week, month or quarter of --group-by.
    #[arg(long, value_name = "BEFORE")]
    pub(crate) change: Option<String>,
    /// Show what was read, and how long each step took, in the place of the rows; --format json shows it as JSON. The rows
    /// are made all the same, in the form of Arrow.
    #[arg(long)]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

/// Which days are read, of what.
#[derive(Debug, Args)]
pub(crate) struct WindowArgs {
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    pub(crate) workspace: String,
    /// The first day, as YYYY-MM-DD (UTC); or, of events and joined rows, an instant: then only those that happened then or later.
    #[arg(long, value_name = "DAY")]
    pub(crate) from: Option<String>,
    /// The last day, which is included; or, of events and joined rows, an instant: then only those that happened before it.
    #[arg(long, value_name = "DAY")]
    pub(crate) to: Option<String>,
    /// Instead of --from and --to: the last days or weeks, with today, such as 7d or 2w; of events and joined rows also the last
    /// hours, such as 6h.
    #[arg(long, conflicts_with_all = ["from", "to"], value_name = "TIME")]
    pub(crate) last: Option<String>,
    /// Only this release.
    #[arg(long)]
    pub(crate) release: Option<String>,
}

/// How metrics are made of what is read.
#[derive(Debug, Args)]
pub(crate) struct MetricsArgs {
    /// Break rollups down by one of release (the default), metric, tag.NAME, feature and feature.NAME. Break evaluations, classes,
    /// confusion and maturity down by release (the default) or model, and estimates and head-to-head by release; all of these also by
    /// tag.NAME and feature.NAME, of which several may be given.
    #[arg(long, value_delimiter = ',')]
    pub(crate) by: Vec<String>,
    /// The bins of features: how many, which begin at quantiles (10 by default), or the numbers at which they begin, with
    /// commas between.
    #[arg(long, value_name = "NUMBERS", allow_hyphen_values = true)]
    pub(crate) bins: Option<String>,
    /// Only what had been appended by this instant (or by the beginning of this day).
    #[arg(long, value_name = "TIME")]
    pub(crate) as_of: Option<String>,
    /// Read what an earlier answer was read from, as --show-read-version printed it: the same answer, byte for byte.
    #[arg(long, value_name = "TEXT", conflicts_with = "as_of")]
    pub(crate) read_version: Option<String>,
    /// Show metrics of each hour, day (the default), week, month or quarter, or of all days of the window together.
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
    /// Say how sure each metric is: columns METRIC_n, METRIC_low and METRIC_high, a 95% interval.
    #[arg(long)]
    pub(crate) interval: bool,
    /// Leave out days of evaluations that have less of their truth than this share, such as 0.9. What will come is told by the days of
    /// the window, of which some must be 30 days old.
    #[arg(long, value_name = "SHARE")]
    pub(crate) mature: Option<String>,
    /// The days that drift is measured from, or whose outcomes say what a score means for estimates, as FROM..TO (YYYY-MM-DD..YYYY-MM-DD), one day,
    /// snapshot:NAME, release:NAME for those that a release was trained on, or release:NAME/BASELINE.
    #[arg(long, value_name = "DAYS")]
    pub(crate) reference: Option<String>,
    /// The release that the one of --release is compared with, of head-to-head.
    #[arg(long, value_name = "RELEASE")]
    pub(crate) against: Option<String>,
}

/// Which events, or joined rows, are read.
#[derive(Debug, Args)]
pub(crate) struct NarrowedArgs {
    /// Only rows for which this holds: an expression of SQL over their columns, such as "score > 0.5". Of evaluations, classes, confusion
    /// and head-to-head: judge only such predictions; so do --tag and --key.
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) filter: Option<String>,
    /// Only rows with this tag. May be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) tag: Vec<String>,
    /// Only rows of this key.
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Only the first so many rows.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<String>,
    /// Only rows of this share of all keys, which are the same keys each time, such as 0.01.
    #[arg(long, value_name = "SHARE")]
    pub(crate) sample: Option<String>,
    /// oldest (the default: as they stand in the log) or newest: the last day first, of each day the latest row first.
    #[arg(long)]
    pub(crate) order: Option<String>,
}

pub(crate) async fn command(config: &Config, args: &QueryArgs) -> anyhow::Result<()> {
    let explains = args.explain.then(|| args.shown.format_of_explanation()).transpose()?;
    let format = if args.explain { Format::IpcStream } else { args.shown.format()? };
    let narrowed = &args.narrowed;
    let (by, tag, column) = (list(&args.metrics.by), list(&narrowed.tag), list(&args.column));
    let query = open::to_ask(config).await?;
    let reference = query.reference_days(&args.window.workspace, args.metrics.reference.as_deref()).await?;
    let words = Words {
        columns: args.columns.as_deref(),
        filter: narrowed.filter.as_deref(),
        tag: tag.as_deref(),
        key: narrowed.key.as_deref(),
        limit: narrowed.limit.as_deref(),
        sample: narrowed.sample.as_deref(),
        order: narrowed.order.as_deref(),
        metric: args.metric.as_deref(),
        column: column.as_deref(),
        exact: args.exact,
        after_prediction: args.after_prediction,
        pairs: args.pairs,
        model: args.model.as_deref(),
        change: args.change.as_deref(),
        reference: reference.as_deref(),
        ..words(&args.window, &args.metrics, by.as_deref())
    };
    let what = What::parse(&args.what)?;
    let asked = match &args.snapshot {
        Some(_) if words != Words::default() => {
            return Err(Error::invalid("--snapshot says all that is read; leave the other words out").into());
        }
        Some(_) => None,
        None => Some(Request::parse(what, &words)?),
    };
    let workspace = query.catalog().workspace(&args.window.workspace).await?;
    let request = match asked {
        Some(request) => request,
        None => query.snapshot(workspace.id(), what, args.snapshot.as_deref().unwrap_or_default()).await?,
    };
    say_window(&request);
    if let Some(shown) = explains {
        let explanation = query.explain(workspace.id(), &request, format).await?;
        return args.shown.write_explanation(&explanation, shown);
    }
    match query.answer_as(workspace.id(), &request, format).await? {
        Made::Whole(mut answer) => {
            args.shown.say(&answer, request.as_of);
            let is_told = !request.breakdown.columns.is_empty() || request.slicing.is_some();
            if let (Some(source), true) = (answer.source, is_told) {
                eprintln!("source: {}", source.name());
            }
            if format == Format::Table && request.columns.is_none() {
                query::shorten(&mut answer.frame, request.what);
            }
            args.shown.write(format, &mut answer)
        }
        Made::Streamed(streamed) => args.shown.write_stream(*streamed, request.as_of).await,
    }
}

/// Prints the days of a window that was named by its length.
pub(crate) fn say_window(request: &Request) {
    if let Some([from, to]) = &request.last {
        say_days(from, to);
    }
}

/// Prints the days of an answer that were not named.
pub(crate) fn say_days(from: impl Display, to: impl Display) {
    eprintln!("window: {from} to {to}");
}

/// Names in an option, which may be given several times.
///
/// # Errors
/// `Invalid`, when a value is not a list of names.
pub(crate) fn names(option: &str, lists: &[String]) -> event::Result<Vec<String>> {
    let lists = lists.iter().map(|list| listed(list)).collect::<Result<Vec<_>, _>>();
    lists.map(|lists| lists.concat()).map_err(|message| Error::invalid(format!("{option}: {message}")))
}

/// Joins words with commas.
pub(crate) fn list(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(","))
}

/// Parameters of a query of metrics.
pub(crate) fn words<'a>(window: &'a WindowArgs, metrics: &'a MetricsArgs, by: Option<&'a str>) -> Words<'a> {
    Words {
        by,
        bins: metrics.bins.as_deref(),
        time_zone: metrics.time_zone.as_deref(),
        environment: metrics.environment.as_deref(),
        shadow: metrics.shadow,
        as_of: metrics.as_of.as_deref(),
        read_version: metrics.read_version.as_deref(),
        threshold: metrics.threshold.as_deref(),
        costs: metrics.costs.as_deref(),
        group_by: metrics.group_by.as_deref(),
        zero_division: metrics.zero_division.as_deref(),
        interval: metrics.interval,
        mature: metrics.mature.as_deref(),
        reference: metrics.reference.as_deref(),
        against: metrics.against.as_deref(),
        ..window_words(window)
    }
}

/// Parameters for the days and the release of a query.
pub(crate) fn window_words(window: &WindowArgs) -> Words<'_> {
    Words {
        from: window.from.as_deref().unwrap_or_default(),
        to: window.to.as_deref().unwrap_or_default(),
        last: window.last.as_deref().map(|word| Last { word, now: Clock::system().now() }),
        release: window.release.as_deref(),
        ..Words::default()
    }
}
