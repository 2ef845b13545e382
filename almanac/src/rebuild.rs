//! `almanac rebuild`: folds a workspace again beside what is served.

use std::sync::Mutex;

use catalog::Catalog;
use clap::Args;
use event::{Clock, Error};
use projector::rebuild::{self, Pace};

use crate::{config::Config, open, progress::Progress};

#[derive(Debug, Args)]
pub(crate) struct RebuildArgs {
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    pub(crate) workspace: String,
    /// The share of the time to work, above 0 and at most 1; other work gets the rest.
    #[arg(long, default_value_t = 0.5)]
    pub(crate) share: f64,
}

pub(crate) async fn command(config: &Config, args: &RebuildArgs) -> anyhow::Result<()> {
    if !(args.share > 0.0 && args.share <= 1.0) {
        let message = format!("--share is {}; it must be above 0 and at most 1", args.share);
        return Err(Error::invalid(message).into());
    }
    let table = open::existing(config).await?;
    let catalog = Catalog::new(table.clone());
    let workspace = catalog.workspace(&args.workspace).await?;
    let pace = Pace { share: args.share, clock: Clock::system() };
    let progress = Mutex::new(None);
    let tell = |now: rebuild::Progress| {
        if let Ok(mut progress) = progress.lock() {
            progress.get_or_insert_with(|| Progress::new("folding", now.of)).at(now.segments, "segments");
        }
    };
    let report = rebuild::rebuild(&*table, workspace.id(), &pace, tell).await?;
    if let Ok(Some(progress)) = progress.into_inner() {
        progress.finish();
    }
    println!(
        "{}: version {} is read now; {} days, {} segments folded, {} items of older versions deleted",
        workspace.path, report.version, report.days, report.segments, report.deleted
    );
    for letter in &report.stopped {
        println!("{}: STOPPED at {letter}: {}", workspace.path, letter.reason);
    }
    Ok(())
}
