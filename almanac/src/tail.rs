//! `almanac tail`: follows the log of a workspace.

use std::{
    io::{ErrorKind, Write},
    ops::Deref,
};

use anyhow::Context;
use clap::Args;
use event::{Error, Kind};
use query::{DEFAULT_ROWS, Follow, FollowParams, Format, MAX_WAIT_SECONDS, Params, Query};

use crate::{config::Config, open};

/// The workspace of a command: its first word, or `-w`.
#[derive(Debug, Args)]
struct InWorkspace {
    /// The workspace, as category/name or by id.
    #[arg(value_name = "WORKSPACE", required_unless_present = "workspace")]
    first: Option<String>,
    /// The workspace, instead of naming it first.
    #[arg(long, short, conflicts_with = "first")]
    workspace: Option<String>,
}

impl Deref for InWorkspace {
    type Target = str;

    fn deref(&self) -> &str {
        self.workspace.as_deref().or(self.first.as_deref()).unwrap_or_default()
    }
}

/// Formats in which answers can be concatenated.
const FORMATS: [Format; 2] = [Format::Ndjson, Format::IpcStream];

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    workspace: InWorkspace,
    /// Which events: predictions, outcomes, metrics or releases.
    #[arg(long)]
    kind: String,
    /// Only what is not in this read version, as --show-read-version printed it.
    #[arg(long, value_name = "READ_VERSION", conflicts_with = "consumer")]
    after: Option<String>,
    /// Go on where this consumer has read to, and note what has been printed as read by it.
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Only days from this one on, as YYYY-MM-DD (UTC).
    #[arg(long)]
    from: Option<String>,
    /// Only this release.
    #[arg(long)]
    release: Option<String>,
    /// Only these columns, with commas between; one whose name has a comma stands in double quotes.
    #[arg(long)]
    columns: Option<String>,
    /// Only events for which this holds: an expression of SQL over their columns, such as "score > 0.5".
    #[arg(long = "where", value_name = "CONDITION")]
    filter: Option<String>,
    /// Only events with this tag. May be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    tag: Vec<String>,
    /// Only events of this key.
    #[arg(long)]
    key: Option<String>,
    /// Only events of this share of all keys, which are the same keys each time, such as 0.01.
    #[arg(long, value_name = "SHARE")]
    sample: Option<String>,
    /// About how many rows are read at a time.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_ROWS)]
    limit: usize,
    /// End when there is nothing more, instead of waiting for what comes.
    #[arg(long)]
    once: bool,
    /// Print to standard error, after the events, up to where everything has been printed.
    #[arg(long)]
    show_read_version: bool,
    /// ndjson, or ipc-stream: Arrow streams one behind the other.
    #[arg(long, default_value_t = Format::Ndjson.name().to_owned())]
    format: String,
}

/// What there is for consumers.
pub(crate) async fn tail(config: &Config, args: &TailArgs) -> anyhow::Result<()> {
    let format = Format::parse(&args.format)?;
    if !FORMATS.contains(&format) {
        let known = FORMATS.map(Format::name).join(" or ");
        return Err(Error::invalid(format!("format: events are followed as {known}")).into());
    }
    let tag = (!args.tag.is_empty()).then(|| args.tag.join(","));
    let (wait, limit) = (if args.once { 0 } else { MAX_WAIT_SECONDS }.to_string(), args.limit.to_string());
    let words = Params {
        release: args.release.as_deref(),
        columns: args.columns.as_deref(),
        filter: args.filter.as_deref(),
        tag: tag.as_deref(),
        key: args.key.as_deref(),
        sample: args.sample.as_deref(),
        ..Params::default()
    };
    let (from, after) = (args.from.as_deref(), args.after.as_deref());
    let words = FollowParams { words, from, after, wait: Some(&wait), limit: Some(&limit) };
    let follow = Follow::parse(kind(&args.kind)?, &words)?;
    let query = open::to_ask(config).await?;
    let ended = print(&query, args, (follow, format)).await;
    // Ends the search for events in the background cleanly, rather than in the middle of a read.
    query.close();
    ended
}

/// Prints followed events until there are no more, or the reader has gone.
async fn print(query: &Query, args: &TailArgs, (follow, format): (Follow, Format)) -> anyhow::Result<()> {
    let workspace = query.catalog().workspace(&args.workspace).await?;
    let workspace = workspace.id();
    let mut follow = match &args.consumer {
        Some(consumer) => query.of_consumer(workspace, consumer, follow).await?,
        None => follow,
    };
    let mut out = std::io::stdout();
    loop {
        let mut followed = query.follow(workspace, &follow).await?;
        for warning in &followed.answer.warnings {
            eprintln!("warning: {warning}");
        }
        if followed.answer.frame.height() > 0 {
            let mut bytes = Vec::new();
            format.write(&mut followed.answer.frame, &mut bytes)?;
            match out.write_all(&bytes).and_then(|()| out.flush()) {
                // A reader such as `head` has read all it wanted.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                written => written.context("the events cannot be written")?,
            }
        }
        let read_version =
            followed.answer.read_version.context("an answer of following has a read version")?;
        let is_new = follow.is_before(&read_version);
        // Only printed events are committed.
        if let Some(consumer) = args.consumer.as_ref().filter(|_| is_new) {
            query.catalog().commit(workspace, consumer, &read_version, query.now()).await?;
        }
        if args.show_read_version && is_new {
            eprintln!("read-version: {read_version}");
        }
        follow = follow.after(read_version);
        if args.once && !is_new {
            return Ok(());
        }
    }
}

fn kind(name: &str) -> Result<Kind, Error> {
    Kind::from_name(name).ok_or_else(|| {
        let known = Kind::ALL.map(Kind::name).join(", ");
        Error::invalid(format!("kind: `{name}` is none of {known}"))
    })
}
