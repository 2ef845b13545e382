//! `almanac admin compact`: merges the small segments of days that are over, now.

use std::{sync::Mutex, time::Duration};

use catalog::Catalog;
use clap::Args;
use event::{Clock, Day};
use projector::compact::window::{Report, Step, Window, merge_window, plan_window};

use crate::{config::Config, open, progress::Progress};

/// Merges the small segments of days that are over, now.
///
/// The projector does it by itself with its sweeps, unless `--compact off`. Nothing that is asked changes by it. What is merged is deleted after two
/// minutes, for which this waits. Broken off, the same command goes on, and so does the projector.
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    workspace: String,
    /// The first day; all days when it is not given.
    #[arg(long, value_name = "DAY")]
    from: Option<Day>,
    /// The last day, at the latest and unless it is given the one before yesterday.
    #[arg(long, value_name = "DAY")]
    to: Option<Day>,
    /// Only say what it would come to.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn command(config: &Config, args: &CompactArgs) -> anyhow::Result<()> {
    let table = open::existing(config).await?;
    let workspace = Catalog::new(table.clone()).workspace(&args.workspace).await?;
    let (window, now) = (Window { from: args.from, to: args.to }, Clock::system().now());
    let what = if args.dry_run { "looking at" } else { "merging" };
    let progress = Mutex::new(None);
    let tell = |step: Step| {
        let Ok(mut progress) = progress.lock() else { return };
        match step {
            Step::Days(done, of) => {
                progress.get_or_insert_with(|| Progress::new(what, of as u64)).at(done as u64, "days");
            }
            Step::Waiting(left) => {
                progress.take().into_iter().for_each(Progress::finish);
                eprintln!(
                    "waiting {} s: then the items of segments that are merged may be deleted",
                    left.as_secs_f64().ceil()
                );
            }
        }
    };
    let report = match args.dry_run {
        true => plan_window(&*table, workspace.id(), window, now, tell).await?,
        false => {
            let wait = async |left: Duration| tokio::time::sleep(left).await;
            merge_window(&*table, workspace.id(), window, now, tell, wait).await?
        }
    };
    if let Ok(Some(progress)) = progress.into_inner() {
        progress.finish();
    }
    println!("{}: {}", workspace.path, says(&report, args.dry_run));
    Ok(())
}

fn says(report: &Report, is_planned: bool) -> String {
    let Report { days, before, after, merged, deleted } = report;
    let before = format!("{} items with {} bytes of {days} days", before.items, before.bytes);
    let after = format!("{} with {} bytes", after.items, after.bytes);
    match (merged + deleted, is_planned) {
        (0, _) => format!("{before}, of which nothing is to be merged"),
        (_, true) => format!("{before} would be {after}: {merged} written, {deleted} deleted"),
        (_, false) => format!("{before} are {after} now: {merged} written, {deleted} deleted"),
    }
}

#[cfg(test)]
mod tests {
    use projector::compact::Held;

    use super::*;

    #[test]
    fn what_was_done_is_one_line() {
        let held = |items, bytes| Held { items, bytes };
        let report = Report { days: 2, before: held(40, 9_000), after: held(4, 900), merged: 2, deleted: 36 };
        let would = "40 items with 9000 bytes of 2 days would be 4 with 900 bytes: 2 written, 36 deleted";
        assert_eq!(says(&report, true), would);
        assert_eq!(says(&report, false), would.replace("would be", "are").replace("bytes:", "bytes now:"));
        let none = Report { after: report.before, merged: 0, deleted: 0, ..report };
        assert_eq!(
            says(&none, false),
            "40 items with 9000 bytes of 2 days, of which nothing is to be merged"
        );
    }
}
