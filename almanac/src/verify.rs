//! `almanac verify`: is what is stored what the log says?

use std::{cell::RefCell, sync::Arc};

use catalog::Catalog;
use clap::Args;
use event::{Error, plain::on_one_line};
use log::{audit::chain, key::Trail};
use table::Table;

use crate::{config::Config, open, progress::Progress};

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Only this workspace; all when it is not given.
    #[arg(long, short)]
    pub(crate) workspace: Option<String>,
}

/// Returns whether everything is as it should be.
pub(crate) async fn command(config: &Config, args: &VerifyArgs) -> anyhow::Result<bool> {
    let table = open::existing(config).await?;
    let catalog = Catalog::new(table.clone());
    let workspaces = match &args.workspace {
        Some(workspace) => vec![catalog.workspace(workspace).await?],
        None => catalog.workspaces().await?,
    };
    let mut is_good = true;
    for workspace in workspaces {
        let progress = RefCell::new(None);
        let tell = |done: usize, total: usize| {
            let mut progress = progress.borrow_mut();
            progress.get_or_insert_with(|| Progress::new("verifying", total as u64)).at(done as u64, "days");
        };
        let report = projector::verify(&table, workspace.id(), tell).await?;
        if let Some(progress) = progress.into_inner() {
            progress.finish();
        }
        println!("{}: {report}", workspace.path);
        if report.behind > 0 {
            println!(
                "{}: {} are not projected yet; run `almanac up` to catch up",
                workspace.path, report.behind
            );
        }
        if report.skipped > 0 {
            println!(
                "{}: {} segments were skipped by an operator; see `almanac dlq`",
                workspace.path, report.skipped
            );
        }
        if report.expired > 0 {
            println!(
                "{}: {} days have expired, their projections are not compared",
                workspace.path, report.expired
            );
        }
        if report.older > 0 {
            println!(
                "{}: {} rollups were written by an older version, only their counts are compared; `almanac rebuild` folds them again",
                workspace.path, report.older
            );
        }
        if report.erased > 0 {
            println!(
                "{}: the keys of {} events were erased; their tags, features and texts went with them",
                workspace.path, report.erased
            );
        }
        for fault in &report.faults {
            println!("{}: FAULT {}", workspace.path, on_one_line(fault));
        }
        let is_chained = trail(&table, &workspace.path, &Trail::Workspace(workspace.id().clone())).await?;
        println!(
            "{}: {}",
            workspace.path,
            if report.faults.is_empty() { "all as the log says" } else { "NOT as the log says" }
        );
        is_good &= report.faults.is_empty() && is_chained;
    }
    if args.workspace.is_none() {
        is_good &= trail(&table, "server", &Trail::Server).await?;
    }
    Ok(is_good)
}

/// Checks an audit trail, and says what it is; whether it is whole.
async fn trail(table: &Arc<dyn Table>, of: &str, trail: &Trail) -> Result<bool, Error> {
    let found = chain::verify(&**table, trail).await?;
    let digest: String = found.digest.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{of}: audit trail of {} records up to {digest}", found.records);
    if let Some((seq, wrong)) = &found.broken {
        println!("{of}: FAULT audit record {seq}: {wrong}");
    }
    Ok(found.broken.is_none())
}
