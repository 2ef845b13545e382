//! `almanac admin upgrade`: raises the layout of a table, and writes again what is in an older form, while services go on.

use std::{sync::Arc, time::Duration};

use catalog::Catalog;
use clap::Args;
use event::{Clock, Error, Result, Timestamp};
use log::layout::{self, LAYOUT};
use projector::heartbeat::{Heartbeat, heartbeats};

use crate::{config::Config, open};

/// Who wrote a heartbeat within this time may still be there. They come every two seconds.
const ALIVE: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn command(config: &Config, args: &UpgradeArgs) -> anyhow::Result<()> {
    let table = open::existing(config).await?;
    let (catalog, clock) = (Catalog::new(Arc::clone(&table)), Clock::system());
    check_workers(&heartbeats(&*table).await?, clock.now())?;
    let found = layout::load(&*table).await?.number;
    if !args.dry_run {
        // Before anything is in a form that an older Almanac would misread.
        layout::raise(&*table, clock.now()).await?;
    }
    let mut older = 0;
    for workspace in catalog.workspaces().await? {
        if catalog.renew_retention(workspace.id(), !args.dry_run).await? {
            println!("{}: retention, version 1 to 2", workspace.path);
            older += 1;
        }
    }
    match args.dry_run {
        true => println!("layout {found} to {LAYOUT}, {older} items to be written again"),
        false => println!("layout {LAYOUT}"),
    }
    Ok(())
}

/// Refuses while a projector of an older Almanac is there: it would misread what is written here.
fn check_workers(workers: &[Heartbeat], now: Timestamp) -> Result<()> {
    let alive = workers.iter().filter(|worker| is_alive(worker, now));
    let older = alive.filter(|worker| worker.layout < LAYOUT);
    let older: Vec<&str> = older.map(|worker| worker.worker.as_str()).collect();
    match older.is_empty() {
        true => Ok(()),
        false => Err(Error::conflict(format!(
            "projectors of an older Almanac are at work: {}; replace them first, and wait a minute",
            older.join(", ")
        ))),
    }
}

/// Whether a worker may still be there.
pub(crate) fn is_alive(worker: &Heartbeat, now: Timestamp) -> bool {
    now.micros().saturating_sub(worker.at.micros()) < ALIVE.as_micros() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_projectors_that_are_there_are_named() {
        let now = Timestamp::parse("2026-06-10T00:00:00Z").unwrap();
        let worker = |name: &str, seconds: i64, layout| Heartbeat {
            worker: name.into(),
            at: now.plus_seconds(-seconds),
            layout,
            ..Heartbeat::default()
        };
        check_workers(&[], now).unwrap();
        check_workers(&[worker("gone", 61, 1), worker("new", 1, LAYOUT)], now).unwrap();
        let error = check_workers(&[worker("old", 1, 1), worker("new", 1, LAYOUT)], now).unwrap_err();
        assert!(error.to_string().contains("at work: old;"), "{error}");
    }
}
