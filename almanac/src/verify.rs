//! `almanac admin verify`: compares the stored projections with the log.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use catalog::Catalog;
use clap::Args;
use event::{Error, plain::on_one_line};
use log::{
    audit::chain::{self, KnownRecord},
    key::AuditLog,
};
use table::Table;

use crate::{config::Config, open, progress::Progress};

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Only this workspace; all when it is not given.
    #[arg(long, short)]
    pub(crate) workspace: Option<String>,
    /// A file with what an earlier verify printed: that no audit log was cut off, deleted or rewritten since.
    #[arg(long, value_name = "FILE")]
    pub(crate) known: Option<PathBuf>,
}

/// Last record of each audit log at an earlier check.
type Known = BTreeMap<AuditLog, KnownRecord>;

/// Text in a printed line before the name of an audit log, its number of records and the digest of the last one.
const LOG: &str = ": audit log ";

fn read_known(path: &Path) -> anyhow::Result<Known> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(known(&text)?)
}

/// Parses the output of an earlier check.
///
/// # Errors
/// `Invalid`, when it is not such an output.
fn known(text: &str) -> Result<Known, Error> {
    let wrong =
        |line: &str| Error::invalid(format!("known: `{line}` is no line that `almanac admin verify` prints"));
    let mut all = Known::new();
    for line in text.lines() {
        let Some((_, said)) = line.split_once(LOG) else { continue };
        let [log, "of", records, "records", "up", "to", digest] = said.split(' ').collect::<Vec<_>>()[..]
        else {
            return Err(wrong(line));
        };
        let digest = digest
            .as_bytes()
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()));
        let digest = digest.collect::<Option<Vec<u8>>>().and_then(|all| all.try_into().ok());
        let record = records.parse().ok().zip(digest).ok_or_else(|| wrong(line))?;
        all.insert(log.parse()?, record);
    }
    match all.is_empty() {
        true => Err(Error::invalid(
            "known: the file has no line of an audit log, as `almanac admin verify` prints them",
        )),
        false => Ok(all),
    }
}

/// Checks everything; returns true if all is in order.
pub(crate) async fn command(config: &Config, args: &VerifyArgs) -> anyhow::Result<bool> {
    let known = args.known.as_deref().map_or_else(|| Ok(Known::new()), read_known)?;
    let table = open::existing(config).await?;
    let catalog = Catalog::new(table.clone());
    let workspaces = match &args.workspace {
        Some(workspace) => vec![catalog.workspace(workspace).await?],
        None => catalog.workspaces().await?,
    };
    let (mut is_good, mut seen) = (true, BTreeSet::new());
    for workspace in workspaces {
        let progress = RefCell::new(None);
        let advance = |done: usize, total: usize| {
            let mut progress = progress.borrow_mut();
            progress.get_or_insert_with(|| Progress::new("verifying", total as u64)).at(done as u64, "days");
        };
        let report = projector::verify(&table, workspace.id(), advance).await?;
        if let Some(progress) = progress.into_inner() {
            progress.finish();
        }
        println!("{}: {report}", workspace.path);
        tell(&workspace.path, &report);
        let audit_log = AuditLog::Workspace(workspace.id().clone());
        let is_chained = check(&table, &workspace.path, &audit_log, &known).await?;
        seen.insert(audit_log);
        println!(
            "{}: {}",
            workspace.path,
            if report.faults.is_empty() { "all as the log says" } else { "NOT as the log says" }
        );
        is_good &= report.faults.is_empty() && is_chained;
    }
    if args.workspace.is_none() {
        is_good &= check(&table, "server", &AuditLog::Server, &known).await?;
        // Audit logs of deleted workspaces are checked as well.
        for audit_log in
            known.keys().filter(|audit_log| **audit_log != AuditLog::Server && !seen.contains(audit_log))
        {
            is_good &= check(&table, &audit_log.to_string(), audit_log, &known).await?;
        }
    }
    Ok(is_good)
}

/// Prints the findings of a comparison other than matches.
fn tell(path: &str, report: &projector::Report) {
    let remarks = [
        (report.behind > 0, format!("{} are not projected yet; run `almanac up` to catch up", report.behind)),
        (
            report.skipped > 0,
            format!(
                "{} segments were skipped by an operator; see `almanac admin dead-letters`",
                report.skipped
            ),
        ),
        (
            report.expired > 0,
            format!("{} days have expired, their projections are not compared", report.expired),
        ),
        (
            report.erased > 0,
            format!(
                "the keys of {} events were erased; their tags, features and texts went with them",
                report.erased
            ),
        ),
    ];
    for (_, remark) in remarks.iter().filter(|(applies, _)| *applies) {
        println!("{path}: {remark}");
    }
    for fault in &report.faults {
        println!("{path}: FAULT {}", on_one_line(fault));
    }
}

/// Checks an audit log, and prints its state; returns true if it is whole.
async fn check(table: &Arc<dyn Table>, of: &str, audit_log: &AuditLog, known: &Known) -> Result<bool, Error> {
    let found = chain::verify(&**table, audit_log, known.get(audit_log).copied()).await?;
    let digest: String = found.digest.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{of}{LOG}{audit_log} of {} records up to {digest}", found.records);
    if let Some((seq, wrong)) = &found.broken {
        println!("{of}: FAULT audit record {seq}: {wrong}");
    }
    Ok(found.broken.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_printed_is_read_again() {
        let digest = "0a".repeat(32);
        let id = event::Id::new(event::Timestamp::default());
        let printed = format!(
            "credit/prod: 4 days\ncredit/prod{LOG}w_{id} of 7 records up to {digest}\nserver{LOG}server of 2 records up to {digest}\n"
        );
        let expected = [(AuditLog::Server, (2, [10; 32])), (AuditLog::Workspace(id), (7, [10; 32]))];
        assert_eq!(known(&printed).unwrap(), expected.into());
        for wrong in
            ["", "server: all well", &printed.replace("0a0a", "0a0"), &printed.replace("of 7", "of x")]
        {
            assert!(known(wrong).is_err(), "{wrong}");
        }
    }
}
