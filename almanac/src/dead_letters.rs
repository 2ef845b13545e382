//! `almanac admin dead-letters`: segments that a projection refused, and commands to handle them.

use std::fmt::Display;

use catalog::{Catalog, Workspace};
use clap::{Args, Subcommand};
use event::{Clock, Error, Id, Timestamp, plain::on_one_line};
use log::{
    active,
    key::{self, OfDay, OfWorkspace},
};
use projector::{
    WorkspaceDay,
    dead_letters::{self, DeadLetter},
    retry::{self, Retried},
    undone::{self, Undone},
    unwritten::{self, Unwritten},
};
use table::Table;

use crate::{config::Config, open, output::Lines};

#[derive(Debug, Subcommand)]
pub(crate) enum DeadLettersCommand {
    /// List the dead letters.
    List {
        /// Only those of this workspace.
        #[arg(long, short)]
        workspace: Option<String>,
    },
    /// Show a dead letter.
    Show(Letter),
    /// Fold the segment again, or write the projection again; after an update that may succeed.
    Retry(Letter),
    /// Leave the segment out and continue after it.
    Skip(Letter),
}

#[derive(Debug, Args)]
pub(crate) struct Letter {
    /// The segment, as `list` names it: 2013-06-01/p/00/42; or the projection: 2013-06-01/evaluation.
    pub(crate) segment: String,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    pub(crate) workspace: String,
}

pub(crate) async fn command(config: &Config, command: DeadLettersCommand) -> anyhow::Result<()> {
    let table = open::existing(config).await?;
    let catalog = Catalog::new(table.clone());
    match command {
        DeadLettersCommand::List { workspace } => {
            let workspaces = match workspace {
                Some(workspace) => vec![catalog.workspace(&workspace).await?],
                None => catalog.workspaces().await?,
            };
            print_list(&*table, &workspaces).await?;
        }
        DeadLettersCommand::Show(letter) => match named(&catalog, &letter).await? {
            Named::OfDay(day, what) => print_unwritten(&unwritten::find(&*table, &day, what).await?),
            Named::OfWorkspace(workspace, what) => {
                print_undone(&undone::find(&*table, &workspace, what).await?);
            }
            Named::Segment => print(&find(&*table, &catalog, &letter).await?),
        },
        DeadLettersCommand::Retry(letter) => match named(&catalog, &letter).await? {
            Named::OfDay(day, what) => {
                let letter = unwritten::find(&*table, &day, what).await?;
                tell(retry::projection(&*table, &letter).await?, &letter, "is written", "cannot be written")?;
            }
            Named::OfWorkspace(workspace, what) => {
                let letter = undone::find(&*table, &workspace, what).await?;
                let retried = retry::task(&*table, &catalog, &letter, Clock::system().now()).await?;
                tell(retried, &letter, "is done", "cannot be done")?;
            }
            Named::Segment => {
                let letter = find(&*table, &catalog, &letter).await?;
                tell(retry::segment(&*table, &letter).await?, &letter, "is folded", "is refused")?;
            }
        },
        DeadLettersCommand::Skip(letter) => {
            if !matches!(named(&catalog, &letter).await?, Named::Segment) {
                let message = "only a segment can be skipped; `almanac admin dead-letters retry` writes a projection again";
                return Err(Error::invalid(message).into());
            }
            let letter = find(&*table, &catalog, &letter).await?;
            dead_letters::skip(&*table, &letter).await?;
            let is_read = active::load(&*table, &letter.log.workspace).await?.version == letter.version;
            let next = match is_read {
                true => "the next projector that runs folds what comes after it",
                false => "call the rebuild or the erasure that it stopped again, which goes on",
            };
            println!("{letter} is left out; {next}");
        }
    }
    Ok(())
}

/// Prints the result of another try; one that is refused is an error.
fn tell(retried: Retried, letter: &impl Display, done: &str, not_done: &str) -> Result<(), Error> {
    match retried {
        Retried::Done => {
            println!("{letter} {done}; its dead letter is deleted");
            Ok(())
        }
        Retried::Refused(reason) => Err(Error::corrupt(format!("{letter} still {not_done}: {reason}"))),
    }
}

/// Subject of a dead letter.
enum Named {
    /// A projection of a day.
    OfDay(WorkspaceDay, OfDay),
    /// A task of a workspace.
    OfWorkspace(Id, OfWorkspace),
    /// A segment.
    Segment,
}

async fn named(catalog: &Catalog, letter: &Letter) -> anyhow::Result<Named> {
    let Some((of, what)) = letter.segment.split_once('/') else { return Ok(Named::Segment) };
    let workspace = async || catalog.workspace(&letter.workspace).await.map(|found| found.id().clone());
    if of == "workspace"
        && let Some(what) = OfWorkspace::of_name(what)
    {
        return Ok(Named::OfWorkspace(workspace().await?, what));
    }
    match (of.parse(), OfDay::of_name(what)) {
        (Ok(day), Some(what)) => Ok(Named::OfDay(WorkspaceDay { workspace: workspace().await?, day }, what)),
        _ => Ok(Named::Segment),
    }
}

async fn find(table: &dyn Table, catalog: &Catalog, letter: &Letter) -> anyhow::Result<DeadLetter> {
    let workspace = catalog.workspace(&letter.workspace).await?;
    let (log, seq) = key::parse_segment_name(workspace.id(), &letter.segment).ok_or_else(|| {
        let message = format!(
            "`{}` is neither a segment such as 2013-06-01/p/00/42 nor a projection such as 2013-06-01/evaluation",
            letter.segment
        );
        Error::invalid(message)
    })?;
    Ok(dead_letters::find(table, &log, seq).await?)
}

async fn print_list(table: &dyn Table, workspaces: &[Workspace]) -> anyhow::Result<()> {
    let mut lines = Lines::new(&["workspace", "segment", "state", "refused by", "since", "reason"]);
    for workspace in workspaces {
        for letter in dead_letters::list(table, workspace.id()).await? {
            lines.add(vec![
                workspace.path.clone(),
                letter.segment(),
                letter.state.name().to_owned(),
                letter.refused.name().to_owned(),
                letter.at.to_string(),
                letter.reason.clone(),
            ]);
        }
    }
    for workspace in workspaces {
        for letter in unwritten::list(table, workspace.id()).await? {
            lines.add(vec![
                workspace.path.clone(),
                letter.to_string(),
                dead_letters::LetterState::Stopped.name().to_owned(),
                letter.what.name().to_owned(),
                letter.at.to_string(),
                letter.reason.clone(),
            ]);
        }
    }
    for workspace in workspaces {
        for letter in undone::list(table, workspace.id()).await? {
            lines.add(vec![
                workspace.path.clone(),
                letter.to_string(),
                dead_letters::LetterState::Stopped.name().to_owned(),
                letter.what.name().to_owned(),
                letter.at.to_string(),
                letter.reason.clone(),
            ]);
        }
    }
    match lines.is_empty() {
        true => println!("there are no dead letters"),
        false => print!("{lines}"),
    }
    Ok(())
}

fn print(letter: &DeadLetter) {
    print_lines([
        ("segment", letter.segment()),
        ("state", letter.state.name().to_owned()),
        ("refused by", letter.refused.name().to_owned()),
        ("version", letter.version.to_string()),
        ("since", letter.at.to_string()),
        ("reason", letter.reason.clone()),
    ]);
}

fn print_unwritten(letter: &Unwritten) {
    print_stopped(("projection", letter.to_string()), letter.version, letter.at, &letter.reason);
}

fn print_undone(letter: &Undone) {
    print_stopped(("task", letter.to_string()), letter.version, letter.at, &letter.reason);
}

/// Prints what was stopped, and is tried again until it succeeds.
fn print_stopped(subject: (&str, String), version: u32, at: Timestamp, reason: &str) {
    print_lines([
        subject,
        ("state", dead_letters::LetterState::Stopped.name().to_owned()),
        ("version", version.to_string()),
        ("since", at.to_string()),
        ("reason", reason.to_owned()),
    ]);
}

fn print_lines<const N: usize>(lines: [(&str, String); N]) {
    for (label, value) in lines {
        println!("{label:<12}{}", on_one_line(&value));
    }
}
