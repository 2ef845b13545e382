//! Commands on snapshots.

use ::catalog::{AnyEntity, SNAPSHOTS_OF, new::NewSnapshot};
use clap::{Args, Subcommand};
use event::{Error, Result};
use log::key::EntityKind;
use serde_json::{Number, json};

use super::{
    created,
    entity::{EntityCommand, Noted, ReadCommand, change, parse_attributes, read},
    existing,
};
use crate::{
    config::Config,
    named::One,
    open,
    query::{NarrowedArgs, WindowArgs, list, names},
    shown::{Shown, show_one},
};

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Keep the events of a window as they are known now; `query --snapshot` reads them again.
    ///
    /// What was asked for, the cut and the digest of the rows are kept, and no copy of them. The days are pinned as long as the
    /// snapshot is there.
    Create(Box<SnapshotArgs>),
    /// Read the rows of a snapshot again, and compare their digest.
    Verify {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        shown: Shown,
    },
    #[command(flatten)]
    Read(ReadCommand),
    #[command(flatten)]
    Entity(EntityCommand),
}

/// A snapshot to be created.
#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// Its name.
    name: String,
    /// What a row is: predictions, outcomes, metrics, releases, or joined (predictions with their outcomes).
    #[arg(long, default_value = SNAPSHOTS_OF[0])]
    what: String,
    #[command(flatten)]
    window: WindowArgs,
    /// Only these columns, with commas between; all of them without it. One whose name has a comma stands in double quotes.
    #[arg(long)]
    columns: Vec<String>,
    #[command(flatten)]
    narrowed: NarrowedArgs,
    /// Only what had been appended by this instant (or by the beginning of this day).
    #[arg(long, value_name = "TIME")]
    as_of: Option<String>,
    #[command(flatten)]
    noted: Noted,
}

/// Runs the command; returns false if it did not find its subject.
pub(crate) async fn command(config: &Config, command: SnapshotCommand) -> anyhow::Result<bool> {
    let kind = EntityKind::Snapshot;
    match command {
        SnapshotCommand::Create(args) => {
            let query = open::to_ask(config).await?;
            let format = args.noted.shown.format;
            let new = asked(*args)?;
            let (snapshot, warnings) = query.create_snapshot(&new).await?;
            warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            created(&AnyEntity::Snapshot(snapshot), &new.name, format);
        }
        SnapshotCommand::Verify { one, shown } => {
            let query = open::to_ask(config).await?;
            let at = query.catalog().resolve(kind, &one.path(kind)?).await?;
            let verified = query.verify_snapshot(&at).await?;
            verified.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            let known = &verified.snapshot.content;
            let value = json!({
                "snapshot": verified.snapshot.entity.name,
                "same": verified.is_same(),
                "rows": verified.rows,
                "rows_then": known.rows,
                "digest": verified.digest,
                "digest_then": known.digest,
            });
            show_one(&value, shown.format);
            return Ok(verified.is_same());
        }
        SnapshotCommand::Read(command) => read(&existing(config).await?, kind, command).await?,
        SnapshotCommand::Entity(command) => change(&existing(config).await?, kind, command).await?,
    }
    Ok(true)
}

fn asked(args: SnapshotArgs) -> Result<NewSnapshot> {
    let SnapshotArgs { name, what, window, columns, narrowed, as_of, noted } = args;
    let number = |name: &str, word: Option<String>| {
        let wrong = |word: &str| Error::invalid(format!("{name}: `{word}` is not a number"));
        word.map(|word| word.parse::<Number>().map_err(|_| wrong(&word))).transpose()
    };
    let columns = names("--columns", &columns)?;
    Ok(NewSnapshot {
        workspace: window.workspace,
        name,
        what: Some(what),
        from: window.from,
        to: window.to,
        last: window.last,
        release: window.release,
        filter: narrowed.filter,
        tag: list(&narrowed.tag),
        key: narrowed.key,
        limit: number("limit", narrowed.limit)?,
        sample: number("sample", narrowed.sample)?,
        order: narrowed.order,
        columns: Some(columns).filter(|columns| !columns.is_empty()),
        as_of,
        attributes: parse_attributes(noted.attributes.as_deref())?,
    })
}
