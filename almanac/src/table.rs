//! `almanac admin table`: creates, describes, reads and deletes the table itself.

use std::io::{BufRead, IsTerminal, Write};

use clap::Subcommand;
use event::Error;
use table::engine::Lines;

use crate::config::Config;

mod items;

#[derive(Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Create the table with its indexes, its change feed and its expiry; safe to repeat.
    Create,
    /// Show what the table is, where it is, and how large it is.
    Describe,
    /// Print an item by its key.
    Get(items::GetArgs),
    /// Print items of one partition of the table or of an index.
    Query(items::QueryArgs),
    /// Print or count all items, or those of some partitions. It reads the whole table.
    Scan(items::ScanArgs),
    /// Delete the table with all that is in it.
    Delete {
        /// The name of the table (of a SQLite file, of the file), instead of typing it when asked.
        #[arg(long, value_name = "NAME")]
        confirm: Option<String>,
    },
}

pub(crate) async fn command(config: &Config, command: TableCommand) -> anyhow::Result<()> {
    match command {
        TableCommand::Create => create(config).await,
        TableCommand::Describe => {
            print(&describe(config).await?, &mut std::io::stdout())?;
            Ok(())
        }
        TableCommand::Delete { confirm } => delete(config, confirm).await,
        TableCommand::Get(args) => items::get(config, &args).await,
        TableCommand::Query(args) => items::query(config, args).await,
        TableCommand::Scan(args) => items::scan(config, &args).await,
    }
}

async fn create(config: &Config) -> anyhow::Result<()> {
    let store = &config.store.value;
    store.engine.create(&store.place, &config.surroundings()).await?;
    println!("the table {store} is ready");
    Ok(())
}

async fn describe(config: &Config) -> event::Result<Lines> {
    let store = &config.store.value;
    match store.file() {
        Some(path) if !path.exists() => Err(Error::not_found(format!(
            "there is no file {}; `almanac admin table create` makes it",
            path.display()
        ))),
        _ => store.engine.describe(&store.place, &config.surroundings()).await,
    }
}

/// Deletes the table with all its items, once a person has given its name.
async fn delete(config: &Config, confirm: Option<String>) -> anyhow::Result<()> {
    let store = &config.store.value;
    let name = store.name();
    let given = match confirm {
        Some(given) => given,
        None if std::io::stdin().is_terminal() => ask(&describe(config).await?)?,
        None => {
            let message = format!("this would delete all of {store}; to go on, add --confirm {name}");
            return Err(Error::invalid(message).into());
        }
    };
    if given != name {
        let message = format!("nothing was deleted: the table is called `{name}`, not `{given}`");
        return Err(Error::invalid(message).into());
    }
    store.engine.delete(&store.place, &config.surroundings()).await?;
    println!("the table {store} is gone");
    Ok(())
}

/// Shows a person the table to be deleted, and asks for its name.
fn ask(lines: &Lines) -> std::io::Result<String> {
    let mut terminal = std::io::stderr();
    print(lines, &mut terminal)?;
    write!(terminal, "\nAll of it would be deleted. To go on, type the table's name: ")?;
    terminal.flush()?;
    let mut name = String::new();
    std::io::stdin().lock().read_line(&mut name)?;
    Ok(name.trim().to_owned())
}

fn print(lines: &Lines, out: &mut dyn Write) -> std::io::Result<()> {
    lines.iter().try_for_each(|(label, value)| writeln!(out, "{label:<11}{value}"))
}
