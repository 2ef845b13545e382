//! `almanac lineage`: sources of events, and their uses.

use clap::Args;
use query::{Format, LineageRequest, LineageWords};

use crate::{answer::Shown, config::Config, open};

/// Columns of the table for people.
const MAIN: [&str; 11] =
    ["day", "kind", "system", "job", "run", "dataset", "release", "judges", "rows", "evaluated", "live"];

#[derive(Debug, Args)]
#[command(after_help = "\
Where events come from is what their batches say: `almanac import --source job=nightly`, the header Almanac-Source, or connect(source=...).\n\n\
  almanac lineage -w credit/prod --source dataset=s3://lake/loans     # what was made of a dataset\n  \
  almanac lineage -w credit/prod --release v1                         # what a release was fed with, and what judged it")]
pub(crate) struct LineageArgs {
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    workspace: String,
    /// Only what came from this source: system, job, run or dataset. May be repeated; all must fit.
    #[arg(long, value_name = "WORD=VALUE")]
    source: Vec<String>,
    /// Only what this release made, and the outcomes that judge it.
    #[arg(long)]
    release: Option<String>,
    /// The first day, as YYYY-MM-DD (UTC); six days before the last one by default.
    #[arg(long)]
    from: Option<String>,
    /// The last day, which is included; today by default.
    #[arg(long)]
    to: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) async fn command(config: &Config, args: &LineageArgs) -> anyhow::Result<()> {
    let source = (!args.source.is_empty()).then(|| args.source.join(";"));
    let words = LineageWords {
        source: source.as_deref(),
        release: args.release.as_deref(),
        from: args.from.as_deref(),
        to: args.to.as_deref(),
    };
    let format = args.shown.format()?;
    let query = open::to_ask(config).await?;
    let request = LineageRequest::parse(&words, query.now())?;
    let workspace = query.catalog().workspace(&args.workspace).await?;
    let mut answer = query.lineage(workspace.id(), &request).await?;
    if format == Format::Table {
        answer = answer.only(&MAIN)?;
    }
    args.shown.write(format, &mut answer)
}
