//! `almanac sql`: a statement over the data of a workspace.

use clap::Args;
use query::{Format, Sql, SqlWords};

use crate::{answer::Shown, config::Config, open};

#[derive(Debug, Args)]
#[command(after_help = "\
Tables: predictions, outcomes, metrics, releases, joined, rollups, evaluations, classes, confusion, drift, maturity, transitions; `almanac query` tells what a row of each is. \
A statement says for each table which days it reads, with conditions on `day` alone. \
It takes at most --query-memory; a join that would make too many rows is refused before it begins.\n\n\
  almanac sql -w flights/nyc \"select release, avg(score) from predictions where day between '2013-06-01' and '2013-06-30' group by release\"")]
pub(crate) struct SqlArgs {
    /// One SELECT, with common table expressions, joins and unions.
    statement: String,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    workspace: String,
    /// Read all days of tables of which the statement does not say the days.
    #[arg(long)]
    all_days: bool,
    /// Only what had been appended by this instant (or by the beginning of this day).
    #[arg(long, value_name = "TIME")]
    as_of: Option<String>,
    /// Read what an earlier answer of the statement was read from, as --show-read-version printed it.
    #[arg(long, value_name = "TEXT", conflicts_with = "as_of")]
    read_version: Option<String>,
    /// Show what was read, and how long each step took, in the place of the rows; --format json shows it as JSON. The rows
    /// are made all the same, in the form of Arrow.
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) async fn command(config: &Config, args: SqlArgs) -> anyhow::Result<()> {
    let explains = args.explain.then(|| args.shown.format_of_explanation()).transpose()?;
    let format = if args.explain { Format::IpcStream } else { args.shown.format()? };
    let sql = Sql::parse(&SqlWords {
        statement: &args.statement,
        all_days: args.all_days,
        as_of: args.as_of.as_deref(),
        read_version: args.read_version.as_deref(),
    })?;
    let query = open::to_ask(config).await?;
    let workspace = query.catalog().workspace(&args.workspace).await?;
    if let Some(shown) = explains {
        let explanation = query.explain_sql(workspace.id(), &sql, format).await?;
        return args.shown.write_explanation(&explanation, shown);
    }
    let mut answer = query.sql(workspace.id(), &sql).await?;
    args.shown.say(&answer, sql.as_of);
    args.shown.write(format, &mut answer)
}
