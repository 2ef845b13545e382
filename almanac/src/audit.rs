//! `almanac audit`: changes and their authors.

use catalog::Catalog;
use clap::Args;
use event::{Clock, Error};
use log::key::{EntityKind, Trail, parse_id};
use query::{AuditRequest, AuditWords, Format, Query};

use crate::{answer::Shown, config::Config, open, query::say_days};

pub(crate) mod refusals;
#[cfg(test)]
mod tests;

/// Columns of the table for people.
const MAIN: [&str; 7] = ["at", "principal", "action", "object", "name", "day", "rows"];

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The workspace, as category/name or by id, which a deleted one keeps; without it, what belongs to none.
    #[arg(long, short)]
    workspace: Option<String>,
    /// Only what this principal did, such as user:ann, system:nightly or local:root.
    #[arg(long)]
    principal: Option<String>,
    /// Only this action, such as token.create, or all of token.
    #[arg(long)]
    action: Option<String>,
    /// The first day, as YYYY-MM-DD (UTC); six days before the last one by default. Changes are found by their own day, batches by the days of
    /// their events.
    #[arg(long)]
    from: Option<String>,
    /// The last day, which is included; today by default.
    #[arg(long)]
    to: Option<String>,
    /// At most so many rows; 1000 by default.
    #[arg(long, value_name = "N")]
    limit: Option<String>,
    /// Go on after what an earlier page ended with.
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,
    /// Whether the oldest come first (the default) or the newest.
    #[arg(long, value_name = "oldest|newest")]
    order: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) async fn command(config: &Config, args: &AuditArgs) -> anyhow::Result<()> {
    let format = args.shown.format()?;
    let table = open::existing(config).await?;
    let trail = match &args.workspace {
        None => Trail::Server,
        Some(named) => trail_of(&Catalog::new(table.clone()), named).await?,
    };
    let words = AuditWords {
        principal: args.principal.as_deref(),
        action: args.action.as_deref(),
        from: args.from.as_deref(),
        to: args.to.as_deref(),
        limit: args.limit.as_deref(),
        after: args.after.as_deref(),
        order: args.order.as_deref(),
    };
    let query = Query::new(table, Clock::system());
    let request = AuditRequest::parse(&words, query.now())?;
    let (mut answer, next) = query.audit(&trail, &request).await?;
    if format == Format::Table {
        if args.from.is_none() && args.to.is_none() {
            say_days(request.window().from(), request.window().to());
        }
        answer = answer.only(&MAIN)?;
    }
    args.shown.write(format, &mut answer)?;
    if let Some(next) = next {
        eprintln!("there is more: --after {next}");
    }
    Ok(())
}

/// The trail of a workspace. A deleted workspace is found by its id.
async fn trail_of(catalog: &Catalog, named: &str) -> Result<Trail, Error> {
    match parse_id(named) {
        Some((None | Some(EntityKind::Workspace), id)) => Ok(Trail::Workspace(id)),
        _ => Ok(Trail::Workspace(catalog.workspace(named).await?.id().clone())),
    }
}
