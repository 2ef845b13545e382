//! `almanac admin erase`: erases keys of events from a workspace.

use std::{
    io::{self, Read},
    path::PathBuf,
    sync::Mutex,
};

use anyhow::Context;
use catalog::{Catalog, Erasure, ErasurePhase, Workspace, http};
use clap::Args;
use event::Clock;
use projector::erase::{Pace, carry_out};

use crate::{
    config::Config,
    open,
    output::{ShowFormat, Shown},
    rebuild::Share,
};

/// Takes keys out of all that is stored of a workspace, for good.
///
/// Times, releases, scores, labels and values of the events of a key stay, under a random pseudonym; their tags, features and
/// texts go. With --values scores, labels, values and other numbers go too, and metrics are made again without them. From then on events of the key are refused. What is folded of the events is folded again. Broken off, the same command
/// goes on. docs/security.md says which copies there are, and when each is gone.
#[derive(Debug, Args)]
pub(crate) struct EraseArgs {
    /// A key; may be given several times.
    #[arg(long = "key", value_name = "KEY", required_unless_present = "keys")]
    key: Vec<String>,
    /// A file with a key a line, or `-` for the standard input: so that no key stands in the history of a shell.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Erase scores, labels, values and other numbers too: metrics change. Later nothing is found by these keys, so it is now or never.
    #[arg(long)]
    values: bool,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    workspace: String,
    /// Why. It stays, so it must not have a key in it.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    share: Share,
    #[command(flatten)]
    shown: Shown,
}

/// Erases keys; returns true if all stored data could be read.
pub(crate) async fn command(config: &Config, args: EraseArgs) -> anyhow::Result<bool> {
    args.share.check()?;
    let mut keys = args.key;
    if let Some(file) = &args.keys {
        keys.extend(read(file)?.lines().map(str::to_owned));
    }
    let table = open::existing(config).await?;
    let catalog = Catalog::new(table.clone());
    let workspace = catalog.workspace(&args.workspace).await?;
    let clock = Clock::system();
    let begun =
        catalog.begin_erasure(workspace.id(), (&keys, args.values), &args.reason, clock.now()).await?;
    let pace = Pace { share: args.share.share, ..Pace::new(clock) };
    let last = Mutex::new(None);
    let tell = |erasure: &Erasure| {
        if let Ok(mut last) = last.lock()
            && last.replace(erasure.phase) != Some(erasure.phase)
            && erasure.phase != ErasurePhase::Done
        {
            eprintln!("{}: {}", workspace.path, doing(erasure.phase));
        }
    };
    let done = carry_out(&table, (workspace.id(), &begun.id), &pace, &tell).await?;
    match args.shown.format {
        ShowFormat::Json => println!("{}", http::erasure_json(&done)),
        ShowFormat::Table => show(&workspace, &done),
    }
    Ok(done.unreadable.is_empty())
}

fn read(file: &PathBuf) -> anyhow::Result<String> {
    if file.as_os_str() == "-" {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("the standard input cannot be read")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))
}

fn doing(phase: ErasurePhase) -> &'static str {
    match phase {
        ErasurePhase::Waiting => "waiting until every service refuses events of these keys",
        ErasurePhase::Looking => "looking for their events",
        ErasurePhase::Rewriting => "writing segments again",
        ErasurePhase::Folding => "folding again",
        ErasurePhase::Clearing => "clearing what was deleted",
        ErasurePhase::Done => "done",
    }
}

fn show(workspace: &Workspace, done: &Erasure) {
    println!(
        "{}: erased keys{}: {}; events: {}, in segments: {}, of days: {}; items of reviews: {}",
        workspace.path,
        if done.with_values { " with their values" } else { "" },
        done.count,
        done.rows,
        done.segments,
        done.days,
        done.items
    );
    for pseudonym in &done.pseudonyms {
        println!("{}: in the place of one stands {pseudonym}", workspace.path);
    }
    for segment in &done.unreadable {
        println!("{}: UNREADABLE {segment}: what it holds is not known", workspace.path);
    }
}
