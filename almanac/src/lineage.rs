//! `almanac lineage`: where events came from, and what was made of them.

mod post;

use anyhow::ensure;
use clap::Args;
use query::{Format, LineageFormat, LineageRequest, LineageWords};

use crate::{answer::Shown, config::Config, open};

/// The columns of a table for people.
const MAIN: [&str; 11] =
    ["day", "kind", "system", "job", "run", "dataset", "release", "judges", "rows", "evaluated", "live"];

#[derive(Debug, Args)]
#[command(after_help = "\
Where events come from is what their batches say: `almanac import --source job=nightly`, the header Almanac-Source, or connect(source=...).\n\n\
  almanac lineage -w credit/prod --source dataset=s3://lake/loans     # what was made of a dataset\n  \
  almanac lineage -w credit/prod --release v1                         # what a release was fed with, and what judged it\n  \
  almanac lineage -w credit/prod --format openlineage              # events of OpenLineage, one a line\n  \
  almanac lineage -w credit/prod --post https://lineage.example.com/api/v1/lineage")]
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
    /// The namespace of what belongs to Almanac in events of OpenLineage; almanac by default.
    #[arg(long)]
    namespace: Option<String>,
    /// Post the events of OpenLineage to this URL, one by one, instead of writing them; ALMANAC_OPENLINEAGE_TOKEN holds the bearer.
    #[arg(long, value_name = "URL")]
    post: Option<String>,
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
    let usual = if args.post.is_some() { LineageFormat::OPENLINEAGE } else { Format::Table.name() };
    let named = args.shown.format.as_deref().unwrap_or(usual);
    // Of a format of rows, the file and the terminal have a say.
    let format = match LineageFormat::parse(named, args.namespace.as_deref())? {
        LineageFormat::Rows(_) => LineageFormat::Rows(args.shown.format()?),
        openlineage @ LineageFormat::OpenLineage { .. } => openlineage,
    };
    let is_for_post = matches!(format, LineageFormat::OpenLineage { .. }) && args.shown.output.is_none();
    ensure!(
        args.post.is_none() || is_for_post,
        "--post sends events of OpenLineage; it goes with no other --format, and no --output"
    );
    let query = open::to_ask(config).await?;
    let request = LineageRequest::parse(&words, query.now())?;
    let workspace = query.catalog().workspace(&args.workspace).await?;
    match format {
        LineageFormat::OpenLineage { namespace } => {
            let lines = query.openlineage(workspace.id(), &request, &namespace).await?;
            let Some(url) = &args.post else { return args.shown.write_text(&lines) };
            let token = std::env::var(post::TOKEN).ok().filter(|token| !token.is_empty());
            let sent = post::lines(url, token.as_deref(), &lines).await?;
            eprintln!("{sent} events posted to {url}");
            Ok(())
        }
        LineageFormat::Rows(format) => {
            let mut answer = query.lineage(workspace.id(), &request).await?;
            if format == Format::Table {
                answer = answer.only(&MAIN)?;
            }
            args.shown.write(format, &mut answer)
        }
    }
}
