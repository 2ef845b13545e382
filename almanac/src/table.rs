//! `almanac table`: making, describing, reading and deleting the table itself.

use std::{
    io::{BufRead, IsTerminal, Write},
    path::Path,
};

use clap::Subcommand;
use event::{Clock, Error};
use table::{
    dynamodb::{self, TableDescription},
    sqlite::{self, FileDescription, SqliteTable},
};

use crate::{
    config::{Config, Store},
    open,
};

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

/// What a description says: a label and a value a line.
type Lines = Vec<(&'static str, String)>;

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
    match store {
        Store::Sqlite(path) => drop(SqliteTable::open(path, Clock::system())?),
        Store::DynamoDb(table) => drop(dynamodb::create(&open::dynamodb(config, table)).await?),
    }
    println!("the table {store} is ready");
    Ok(())
}

async fn describe(config: &Config) -> event::Result<Lines> {
    match &config.store.value {
        Store::Sqlite(path) if !path.exists() => Err(Error::not_found(format!(
            "there is no file {}; `almanac table create` makes it",
            path.display()
        ))),
        Store::Sqlite(path) => Ok(file_lines(path, config, &sqlite::describe(path)?)),
        Store::DynamoDb(table) => Ok(table_lines(dynamodb::describe(&open::dynamodb(config, table)).await?)),
    }
}

/// Deletes the table with all that is in it, once a person has given its name.
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
    match store {
        Store::Sqlite(path) => sqlite::delete(path)?,
        Store::DynamoDb(table) => dynamodb::delete(&open::dynamodb(config, table)).await?,
    }
    println!("the table {store} is gone");
    Ok(())
}

/// Shows a person what would be deleted, and asks for its name.
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

fn file_lines(path: &Path, config: &Config, file: &FileDescription) -> Lines {
    let mut lines = vec![
        ("table", config.store.value.name()),
        ("engine", format!("SQLite, file version {}", file.version)),
        ("place", path.display().to_string()),
        ("key", file.key.clone()),
    ];
    lines.extend(file.indexes.iter().map(|index| ("index", format!("{} ({})", index.name, index.key))));
    lines.extend([
        ("feed", format!("{} changes, kept for a day", file.changes)),
        ("expiry", format!("by {}", file.time_to_live)),
        ("items", file.items.to_string()),
        ("size", format!("{} bytes, and {} in the write-ahead log", file.bytes, file.log_bytes)),
    ]);
    lines
}

fn table_lines(table: TableDescription) -> Lines {
    let place = match table.endpoint {
        Some(endpoint) => format!("{endpoint} (region {})", table.region),
        None => table.region,
    };
    let mut lines = vec![
        ("table", table.name),
        ("engine", format!("DynamoDB, {}, {}", table.status, table.billing)),
        ("place", place),
        ("arn", table.arn),
    ];
    lines.extend(table.created_at.map(|created| ("created", created.to_string())));
    lines.push(("key", table.key));
    lines.extend(table.indexes.into_iter().map(|index| {
        ("index", format!("{} ({}), {}, about {} items", index.name, index.key, index.status, index.items))
    }));
    lines.extend([
        ("feed", table.stream.map_or("none".into(), |stream| format!("{}, {}", stream.view, stream.arn))),
        ("expiry", table.time_to_live.map_or("none".into(), |attribute| format!("by {attribute}"))),
        ("items", format!("about {}, counted every six hours", table.items)),
        ("size", format!("about {} bytes", table.bytes)),
    ]);
    if table.is_protected {
        lines.push(("protected", "yes: it must be unlocked before it can be deleted".into()));
    }
    lines.extend(table.problems.into_iter().map(|problem| ("problem", problem)));
    lines
}
