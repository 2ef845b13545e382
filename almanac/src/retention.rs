//! `almanac workspace retention|pin|unpin`: how long events are kept.

use serde_json::json;
use store::{
    Clock, Day, Error, Timestamp,
    catalog::{Catalog, Pin, Retention},
};

use crate::{
    catalog::{aligned, print},
    cli::{PinArgs, ShowFormat},
    config::Config,
    open,
};

pub(crate) async fn command(
    config: &Config,
    workspace: &str,
    days: Option<&str>,
    format: ShowFormat,
) -> anyhow::Result<()> {
    let catalog = Catalog::new(open::existing(config).await?);
    let workspace = catalog.workspace(workspace).await?;
    let now = Clock::system().now();
    let retention = match days {
        Some(days) => catalog.set_retention(workspace.id(), parse(days)?, now).await?,
        None => catalog.retention(workspace.id()).await?,
    };
    show(&retention, now, format);
    Ok(())
}

pub(crate) async fn pin(config: &Config, args: PinArgs, is_pinned: bool) -> anyhow::Result<()> {
    let pin = match (args.day, args.release) {
        (Some(day), _) => Pin::Day(day.parse()?),
        (None, release) => Pin::Release(release.unwrap_or_default()),
    };
    let catalog = Catalog::new(open::existing(config).await?);
    let workspace = catalog.workspace(&args.workspace).await?;
    let now = Clock::system().now();
    let retention = catalog.pin(workspace.id(), &pin, is_pinned, now).await?;
    show(&retention, now, ShowFormat::Table);
    Ok(())
}

fn parse(days: &str) -> Result<Option<u32>, Error> {
    if days == "forever" {
        return Ok(None);
    }
    let wrong = || Error::invalid(format!("`{days}` is no number of days and not `forever`"));
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
