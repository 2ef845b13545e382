//! `almanac admin rebuild`: folds a workspace again, beside the served version.

use std::sync::{Arc, Mutex};

use catalog::{Catalog, Workspace};
use clap::Args;
use event::{Clock, Error, Result};
use projector::rebuild::{self, Pace};
use table::Table;

use crate::{config::Config, open, progress::Progress};

#[derive(Debug, Args)]
pub(crate) struct RebuildArgs {
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    pub(crate) workspace: String,
    #[command(flatten)]
    pub(crate) share: Share,
}

/// How much of the time long work takes.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Share {
    /// The share of the time to work, above 0 and at most 1; other work gets the rest.
    #[arg(long, default_value_t = 0.5)]
    pub(crate) share: f64,
}

impl Share {
    /// Refuses a number that is no share.
    ///
    /// # Errors
    /// `Invalid`.
    pub(crate) fn check(self) -> Result<()> {
        match self.share > 0.0 && self.share <= 1.0 {
            true => Ok(()),
            false => {
                Err(Error::invalid(format!("--share is {}; it must be above 0 and at most 1", self.share)))
            }
        }
    }
}

pub(crate) async fn command(config: &Config, args: &RebuildArgs) -> anyhow::Result<()> {
    args.share.check()?;
    let table = open::existing(config).await?;
    let workspace = Catalog::new(table.clone()).workspace(&args.workspace).await?;
    Ok(fold_again(&table, &workspace, &args.share).await?)
}

/// Rebuilds the projections of a workspace, and prints the result.
///
/// # Errors
/// Errors of [`rebuild::rebuild`].
pub(crate) async fn fold_again(table: &Arc<dyn Table>, workspace: &Workspace, share: &Share) -> Result<()> {
    let pace = Pace { share: share.share, clock: Clock::system() };
    let progress = Mutex::new(None);
    let tell = |now: rebuild::Progress| {
        if let Ok(mut progress) = progress.lock() {
            let progress = progress.get_or_insert_with(|| Progress::new("folding", now.of));
            // Each pass adds the segments that came during the one before it.
            progress.set_total(now.of);
            progress.at(now.segments, "segments");
        }
    };
    let report = rebuild::rebuild(&**table, workspace.id(), &pace, tell).await?;
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
