//! `almanac workspace retention|pin|unpin`: retention of events.

use catalog::{Catalog, Pin, Retention, http};
use clap::{Args, Subcommand};
use event::{Clock, Day, Error, Id, Timestamp, Window};
use serde_json::json;

use crate::{
    config::Config,
    named::after,
    open,
    shown::{ShowFormat, Shown, aligned, print},
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
        #[command(flatten)]
        shown: Shown,
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
    #[command(flatten)]
    shown: Shown,
}

pub(crate) async fn command(config: &Config, command: KeepCommand) -> anyhow::Result<()> {
    let catalog = Catalog::new(open::existing(config).await?);
    let now = Clock::system().now();
    let (workspace, retention, format) = match command {
        KeepCommand::Retention { first, second, workspace, shown: Shown { format } } => {
            let (workspace, [days]) = after(workspace, first, [second])?;
            let workspace = catalog.workspace(&workspace).await?;
            let retention = match days {
                Some(days) => catalog.set_retention(workspace.id(), parse(&days)?, now).await?,
                None => catalog.retention(workspace.id()).await?,
            };
            (workspace.entity.id, retention, format)
        }
        KeepCommand::Pin(args) => pin(&catalog, args, true, now).await?,
        KeepCommand::Unpin(args) => pin(&catalog, args, false, now).await?,
    };
    show(&workspace, &retention, now, format);
    Ok(())
}

async fn pin(
    catalog: &Catalog,
    args: PinArgs,
    is_pinned: bool,
    now: Timestamp,
) -> Result<(Id, Retention, ShowFormat), Error> {
    let (workspace, [day]) = after(args.workspace, args.first, [args.second])?;
    let pin = match (day, args.release) {
        (Some(day), None) => Pin::Day(day.parse()?),
        (None, Some(release)) => Pin::Release(release),
        (None, None) => return Err(Error::invalid("name a day, or a release with --release")),
        (Some(_), Some(_)) => return Err(Error::invalid("name a day or a release, not both")),
    };
    let workspace = catalog.workspace(&workspace).await?;
    let retention = catalog.pin(workspace.id(), &pin, is_pinned, now).await?;
    Ok((workspace.entity.id, retention, args.shown.format))
}

fn parse(days: &str) -> Result<Option<u32>, Error> {
    if days == "forever" {
        return Ok(None);
    }
    let wrong = || Error::invalid(format!("`{days}` is neither a number of days nor `forever`"));
    days.parse().map(Some).map_err(|_| wrong())
}

fn show(workspace: &Id, retention: &Retention, now: Timestamp, format: ShowFormat) {
    let days: Vec<String> = retention.pinned_days.iter().map(Day::to_string).collect();
    let releases: Vec<String> = retention.pinned_releases.iter().cloned().collect();
    let snapshots = http::pinned_snapshots(workspace, retention);
    let first = retention.first_day(now).map(|day| day.to_string());
    match format {
        ShowFormat::Json => {
            let body = json!({
                "days": retention.days, "first_day": first, "pinned_days": days, "pinned_releases": releases,
                "pinned_snapshots": snapshots,
            });
            println!("{body}");
        }
        ShowFormat::Table => {
            let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
            let days_of = |days: &Window| format!("{}/{}", days.from(), days.to());
            let of_snapshots: Vec<String> = retention.pinned_snapshots.values().map(days_of).collect();
            let kept = retention.days.map_or_else(|| "forever".to_owned(), |days| format!("{days} days"));
            let mut table = aligned(
                &["events are kept", "since", "pinned days", "pinned releases", "days of snapshots"],
                &[],
            );
            table.add_row([
                kept,
                or_none(first.unwrap_or_default()),
                or_none(days.join(" ")),
                or_none(releases.join(" ")),
                or_none(of_snapshots.join(" ")),
            ]);
            print(&table);
        }
    }
}
