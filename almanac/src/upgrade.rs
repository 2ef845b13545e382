//! `almanac upgrade`: writes again what is still in the form of an older Almanac, while services go on.

use std::{sync::Arc, time::Duration};

use catalog::{Catalog, Workspace};
use clap::Args;
use event::{Clock, Error, Result, Timestamp};
use log::layout::{self, LAYOUT};
use projector::{
    heartbeat::{Heartbeat, heartbeats},
    older::first_older_day,
};
use table::Table;

use crate::{
    config::Config,
    open,
    rebuild::{self, Share},
};

/// Who wrote a heartbeat within this time may still be there. They come every two seconds.
const ALIVE: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    share: Share,
}

pub(crate) async fn command(config: &Config, args: &UpgradeArgs) -> anyhow::Result<()> {
    args.share.check()?;
    let table = open::existing(config).await?;
    let catalog = Catalog::new(Arc::clone(&table));
    let clock = Clock::system();
    check_workers(&heartbeats(&*table).await?, clock.now())?;
    let found = layout::load(&*table).await?;
    if !args.dry_run {
        open::raise(&table, clock.now()).await?;
    }
    let mut left = 0;
    for workspace in catalog.workspaces().await? {
        left += settings(&catalog, &workspace, args.dry_run).await?;
        left += projections(&table, &workspace, args).await?;
    }
    let as_found = format!("layout {}, complete up to {}", found.number, found.complete);
    match (args.dry_run, left) {
        (true, 0) => println!("nothing is in an older form ({as_found})"),
        (true, left) => println!("{left} to be written again in layout {LAYOUT} ({as_found})"),
        (false, 0) => {
            layout::complete(&*table).await?;
            println!("layout {LAYOUT}, complete");
        }
        (false, left) => {
            let message = format!(
                "{left} workspaces still have projections in an older form; `almanac dlq list` says what stops them"
            );
            return Err(Error::incomplete(message).into());
        }
    }
    Ok(())
}

/// Refuses while a projector of an older Almanac is there: it would go on writing what is renewed here.
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

/// How many settings are to be renewed, when nothing is changed.
async fn settings(catalog: &Catalog, workspace: &Workspace, dry_run: bool) -> Result<usize> {
    let older = catalog.older_forms(workspace.id(), !dry_run).await?;
    for form in &older {
        println!("{}: {}, version {} to {}", workspace.path, form.what, form.version, form.today);
    }
    Ok(if dry_run { older.len() } else { 0 })
}

/// 1, when projections of a workspace are, or remain, in an older form.
async fn projections(table: &Arc<dyn Table>, workspace: &Workspace, args: &UpgradeArgs) -> Result<usize> {
    let Some(day) = first_older_day(&**table, workspace.id()).await? else { return Ok(0) };
    println!("{}: projections, in an older form from {day} on", workspace.path);
    if args.dry_run {
        return Ok(1);
    }
    rebuild::fold_again(table, workspace, &args.share).await?;
    Ok(usize::from(first_older_day(&**table, workspace.id()).await?.is_some()))
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
