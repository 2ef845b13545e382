//! `almanac workspace retention|pin|unpin`: how long events are kept.

use catalog::{Catalog, Pin, Retention};
use clap::{Args, Subcommand};
use event::{Clock, Day, Error, Timestamp};
use serde_json::json;

use crate::{
    config::Config,
    named::after,
    open,
    shown::{ShowFormat, aligned, print},
};

/// What there is under `workspace` for how long events are kept.
#[derive(Debug, Subcommand)]
pub(crate) enum KeepCommand {
    /// Show or set how long a workspace keeps its events.
    ///
    /// A day of events expires so many days after its end: it is neither read nor appended to any more,
    /// and deleted an hour later or more. Release events, rollups and evaluations stay.
    Retention {
        /// The workspace, as category/name or by id; not with -w.
        #[arg(value_name = "WORKSPACE")]
        first: Option<String>,
        /// For how many days, or `forever`; only shown when it is not given.
        #[arg(value_name = "DAYS")]
        second: Option<String>,
        /// The workspace, instead of naming it first.
        #[arg(long, short)]
        workspace: Option<String>,
        /// How to print it.
        #[arg(long, value_enum, default_value_t = ShowFormat::Table)]
        format: ShowFormat,
    },
    /// Keep the events of a day, or of all days of a release, for good.
    Pin(PinArgs),
    /// Remove a pin.
    Unpin(PinArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PinArgs {
    /// The workspace, as category/name or by id; not with -w.
    #[arg(value_name = "WORKSPACE")]
    first: Option<String>,
    /// The day, as YYYY-MM-DD (UTC).
    #[arg(value_name = "DAY")]
    second: Option<String>,
    /// The workspace, instead of naming it first.
    #[arg(long, short)]
    workspace: Option<String>,
    /// The release.
    #[arg(long)]
    release: Option<String>,
    /// How to print what is set then.
    #[arg(long, value_enum, default_value_t = ShowFormat::Table)]
    format: ShowFormat,
}

pub(crate) async fn command(config: &Config, command: KeepCommand) -> anyhow::Result<()> {
    let catalog = Catalog::new(open::existing(config).await?);
    let now = Clock::system().now();
    let (retention, format) = match command {
        KeepCommand::Retention { first, second, workspace, format } => {
            let (workspace, [days]) = after(workspace, first, [second])?;
            let workspace = catalog.workspace(&workspace).await?;
            let retention = match days {
                Some(days) => catalog.set_retention(workspace.id(), parse(&days)?, now).await?,
                None => catalog.retention(workspace.id()).await?,
            };
            (retention, format)
        }
        KeepCommand::Pin(args) => (pin(&catalog, &args, true, now).await?, args.format),
        KeepCommand::Unpin(args) => (pin(&catalog, &args, false, now).await?, args.format),
    };
    show(&retention, now, format);
    Ok(())
}

async fn pin(catalog: &Catalog, args: &PinArgs, is_pinned: bool, now: Timestamp) -> Result<Retention, Error> {
    let (workspace, [day]) = after(args.workspace.clone(), args.first.clone(), [args.second.clone()])?;
    let pin = match (day, &args.release) {
        (Some(day), None) => Pin::Day(day.parse()?),
        (None, Some(release)) => Pin::Release(release.clone()),
        (None, None) => return Err(Error::invalid("name a day, or a release with --release")),
        (Some(_), Some(_)) => return Err(Error::invalid("name a day or a release, not both")),
    };
    let workspace = catalog.workspace(&workspace).await?;
    catalog.pin(workspace.id(), &pin, is_pinned, now).await
}

fn parse(days: &str) -> Result<Option<u32>, Error> {
    if days == "forever" {
        return Ok(None);
    }
    let wrong = || Error::invalid(format!("`{days}` is neither a number of days nor `forever`"));
    days.parse().map(Some).map_err(|_| wrong())
}

fn show(retention: &Retention, now: Timestamp, format: ShowFormat) {
    let days: Vec<String> = retention.pinned_days.iter().map(Day::to_string).collect();
    let releases: Vec<String> = retention.pinned_releases.iter().cloned().collect();
    let first = retention.first_day(now).map(|day| day.to_string());
    match format {
        ShowFormat::Json => {
            let body = json!({
                "days": retention.days, "first_day": first, "pinned_days": days, "pinned_releases": releases,
            });
            println!("{body}");
        }
        ShowFormat::Table => {
            let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
            let kept = retention.days.map_or_else(|| "forever".to_owned(), |days| format!("{days} days"));
            let mut table = aligned(&["events are kept", "since", "pinned days", "pinned releases"], &[]);
            table.add_row([
                kept,
                or_none(first.unwrap_or_default()),
                or_none(days.join(" ")),
                or_none(releases.join(" ")),
            ]);
            print(&table);
        }
    }
}
