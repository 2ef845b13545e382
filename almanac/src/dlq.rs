//! `almanac dlq`: segments that a projection refused, and what to do about them.

use catalog::{Catalog, Workspace};
use event::Error;
use log::key::{self, OfDay};
use projector::{
    WorkspaceDay,
    dlq::{self, DeadLetter, Retried},
    unwritten::{self, Unwritten},
};
use table::Table;

use crate::{
    cli::{DlqCommand, Letter},
    config::Config,
    lines::Lines,
    open,
};

pub(crate) async fn command(config: &Config, command: DlqCommand) -> anyhow::Result<()> {
    let table = open::existing(config).await?;
    let catalog = Catalog::new(table.clone());
    match command {
        DlqCommand::List { workspace } => {
            let workspaces = match workspace {
                Some(workspace) => vec![catalog.workspace(&workspace).await?],
                None => catalog.workspaces().await?,
            };
            print_list(&*table, &workspaces).await?;
        }
        DlqCommand::Show(letter) => match of_day(&catalog, &letter).await? {
            Some((day, what)) => print_unwritten(&unwritten::find(&*table, &day, what).await?),
            None => print(&find(&*table, &catalog, &letter).await?),
        },
        DlqCommand::Retry(letter) => {
            if let Some((day, what)) = of_day(&catalog, &letter).await? {
                let letter = unwritten::find(&*table, &day, what).await?;
                return match unwritten::retry(&*table, &letter).await? {
                    Retried::Done => {
                        println!("{letter} is written; its dead letter is deleted");
                        Ok(())
                    }
                    Retried::Refused(reason) => {
                        Err(Error::corrupt(format!("{letter} still cannot be written: {reason}")).into())
                    }
                };
            }
            let letter = find(&*table, &catalog, &letter).await?;
            match dlq::retry(&*table, &letter).await? {
                Retried::Done => println!("{letter} is folded; its dead letter is deleted"),
                Retried::Refused(reason) => {
                    return Err(Error::corrupt(format!("{letter} is still refused: {reason}")).into());
                }
            }
        }
        DlqCommand::Skip(letter) => {
            if of_day(&catalog, &letter).await?.is_some() {
                let message = "only a segment can be skipped; `almanac dlq retry` writes a projection again";
                return Err(Error::invalid(message).into());
            }
            let letter = find(&*table, &catalog, &letter).await?;
            dlq::skip(&*table, &letter).await?;
            println!("{letter} is left out; the next projector that runs folds what comes after it");
        }
    }
    Ok(())
}

/// Which projection of which day a letter is of; `None`, when it is one of a segment.
async fn of_day(catalog: &Catalog, letter: &Letter) -> anyhow::Result<Option<(WorkspaceDay, OfDay)>> {
    let parts = letter.segment.split_once('/');
    let parsed = parts.and_then(|(day, what)| Some((day.parse().ok()?, OfDay::of_name(what)?)));
    let Some((day, what)) = parsed else { return Ok(None) };
    let workspace = catalog.workspace(&letter.workspace).await?.id().clone();
    Ok(Some((WorkspaceDay { workspace, day }, what)))
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
    Ok(dlq::find(table, &log, seq).await?)
}

/// The name by which a command line knows the segment of a dead letter.
fn name(letter: &DeadLetter) -> String {
    format!("{}/{}/{}", letter.log.day, letter.log.name(), letter.seq)
}

async fn print_list(table: &dyn Table, workspaces: &[Workspace]) -> anyhow::Result<()> {
    let mut lines = Lines::new(&["workspace", "segment", "state", "refused by", "since", "reason"]);
    for workspace in workspaces {
        for letter in dlq::list(table, workspace.id()).await? {
            lines.add(vec![
                workspace.path.clone(),
                name(&letter),
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
                dlq::State::Stopped.name().to_owned(),
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
    for (label, value) in [
        ("segment", name(letter)),
        ("state", letter.state.name().to_owned()),
        ("refused by", letter.refused.name().to_owned()),
        ("version", letter.version.to_string()),
        ("since", letter.at.to_string()),
        ("reason", letter.reason.clone()),
    ] {
        println!("{label:<12}{value}");
    }
}

fn print_unwritten(letter: &Unwritten) {
    for (label, value) in [
        ("projection", letter.to_string()),
        ("state", dlq::State::Stopped.name().to_owned()),
        ("version", letter.version.to_string()),
        ("since", letter.at.to_string()),
        ("reason", letter.reason.clone()),
    ] {
        println!("{label:<12}{value}");
    }
}
