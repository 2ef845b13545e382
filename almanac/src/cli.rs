//! The command line.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use event::ErrorKind;
use log::key::EntityKind;

use crate::{
    catalog::{
        self,
        args::{
            ConfigurationCommand, CounterCommand, GroupCommand, ModelCommand, ReleaseCommand, RootCommand,
            WorkspaceCommand,
        },
    },
    config::{self, Config, Flags},
    demo, dlq, follow, import, probe, projector, query, rebuild,
    role::Role,
    status, table,
    telemetry::logs,
    up, verify,
};

/// Exit code for a request that cannot be answered as it was put.
const BAD_INPUT: u8 = 2;
/// Exit code for everything else that fails.
const FAILED: u8 = 1;

/// How commands name things.
const NAMING: &str = "A workspace is named category/name, as the first word or with -w. What is in a workspace is named by \
its whole path (credit/prod/churn, credit/prod/churn@v1), by its id, or by its name and -w.";

/// The record of what ML models predicted, what then happened, and how good the predictions were.
#[derive(Debug, Parser)]
#[command(name = "almanac", version, max_term_width = 100, after_help = NAMING)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run ingest, projector and query in one process, or some of them.
    Up(UpArgs),
    /// Run a projector by itself; several share the work.
    Projector,
    /// Ask the service at the configured address whether it is alive.
    Health {
        /// Ask whether it is ready: whether it can do its work now.
        #[arg(long)]
        ready: bool,
    },
    /// Replay a year of flights: register, append, project, query.
    Demo(DemoArgs),
    /// Append the events of files: NDJSON, JSON, CSV, Parquet or Arrow.
    Import(ImportArgs),
    /// Read a window of days.
    Query(QueryArgs),
    /// Fold the log again and compare with what is stored.
    Verify(VerifyArgs),
    /// Fold the log of a workspace anew beside what is served, then serve the result.
    Rebuild(RebuildArgs),
    /// List, show, retry or skip segments that the projector refused.
    #[command(subcommand)]
    Dlq(DlqCommand),
    /// Show how far behind everything is, what the last days warn of, the workers and the leases.
    Status {
        /// How to print it.
        #[arg(long, value_enum, default_value_t = ShowFormat::Table)]
        format: ShowFormat,
    },
    /// Categories of workspaces: create, list, show, change, delete.
    #[command(subcommand)]
    Category(RootCommand),
    /// Workspaces, and who may do what on them.
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Models.
    #[command(subcommand)]
    Model(ModelCommand),
    /// Configurations of models.
    #[command(subcommand)]
    Configuration(ConfigurationCommand),
    /// Releases: register them, put them live, show what is live.
    #[command(subcommand)]
    Release(ReleaseCommand),
    /// Users.
    #[command(subcommand)]
    User(RootCommand),
    /// Groups of users.
    #[command(subcommand)]
    Group(GroupCommand),
    /// Systems: programs that call Almanac.
    #[command(subcommand)]
    System(RootCommand),
    /// Counters of any entity, for any purpose.
    #[command(subcommand)]
    Counter(CounterCommand),
    #[command(flatten)]
    Follow(follow::FollowCommand),
    /// Create, describe, read or delete the table that holds everything.
    #[command(subcommand)]
    Table(TableCommand),
    /// Show the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// A role to run; all roles when none is given. May be repeated.
    #[arg(long = "role", value_name = "ROLE", value_enum)]
    pub(crate) roles: Vec<Role>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Replay only what was posted up to the end of this day (UTC).
    #[arg(long, value_name = "DAY")]
    pub(crate) until: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files that end in .ndjson, .jsonl, .json, .csv (these also in .gz or .zst), .parquet or .arrow,
    /// or folders of such files.
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    pub(crate) workspace: String,
    /// What the rows are: predictions, outcomes, metrics or releases.
    #[arg(long, short)]
    pub(crate) kind: String,
    /// A column that is a tag (columns called tag.NAME are tags anyway). May be repeated.
    #[arg(long = "tag", value_name = "COLUMN")]
    pub(crate) tags: Vec<String>,
    /// Which column holds a field, such as score=prob,key=loan_id. May be repeated.
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = ',')]
    pub(crate) map: Vec<String>,
    /// A value that every row has, such as release=v1 or tag.source=batch. May be repeated.
    #[arg(long, value_name = "FIELD=VALUE")]
    pub(crate) set: Vec<String>,
    /// The only columns to read, with commas between.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) select: Vec<String>,
    /// Leave out columns that are no field and no tag.
    #[arg(long)]
    pub(crate) ignore_extra: bool,
    /// The time zone of times without an offset, such as America/New_York.
    #[arg(long, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
    /// How times are written: unix, unix_ms, unix_us, or as in strftime (RFC 3339 when not given).
    #[arg(long, value_name = "FORMAT")]
    pub(crate) time_format: Option<String>,
    /// Read and check everything, and store nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write bad rows and what is wrong with them to this file, as NDJSON, and store the good rows.
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    /// What to read: predictions, outcomes, metrics, releases, joined, rollups or evaluations.
    pub(crate) what: String,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    pub(crate) workspace: String,
    /// The first day, as YYYY-MM-DD (UTC).
    #[arg(long)]
    pub(crate) from: String,
    /// The last day, which is included.
    #[arg(long)]
    pub(crate) to: String,
    /// Only this release.
    #[arg(long)]
    pub(crate) release: Option<String>,
    /// Only these columns, with commas between.
    #[arg(long)]
    pub(crate) columns: Option<String>,
    /// Break rollups down by release (the default), metric, or tag.NAME.
    #[arg(long)]
    pub(crate) by: Option<String>,
    /// Only what had been appended by this instant (or by the beginning of this day).
    #[arg(long, value_name = "TIME")]
    pub(crate) as_of: Option<String>,
    /// Read what an earlier answer was read from, as --show-cut printed it: the same answer, byte for byte.
    #[arg(long, value_name = "TEXT", conflicts_with = "as_of")]
    pub(crate) cut: Option<String>,
    /// Print to standard error what the answer was read from.
    #[arg(long)]
    pub(crate) show_cut: bool,
    /// table, csv, ndjson, parquet or ipc; by default a table, or the format that the name of the file says.
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// Write to this file instead of the terminal.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Only this workspace; all when it is not given.
    #[arg(long, short)]
    pub(crate) workspace: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RebuildArgs {
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    pub(crate) workspace: String,
    /// The share of the time to work, above 0 and at most 1; other work gets the rest.
    #[arg(long, default_value_t = 0.5)]
    pub(crate) share: f64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DlqCommand {
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
    /// The segment, as `dlq list` names it: 2013-06-01/p/00/42; or the projection: 2013-06-01/evaluation.
    pub(crate) segment: String,
    /// The workspace, as category/name or by id.
    #[arg(long, short)]
    pub(crate) workspace: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Create the table with its indexes, its change feed and its expiry; safe to repeat.
    Create,
    /// Show what the table is, where it is, and how large it is.
    Describe,
    /// Print an item by its key.
    Get(table::items::GetArgs),
    /// Print items of one partition of the table or of an index.
    Query(table::items::QueryArgs),
    /// Print or count all items, or those of some partitions. It reads the whole table.
    Scan(table::items::ScanArgs),
    /// Delete the table with all that is in it.
    Delete {
        /// The name of the table (of a SQLite file, of the file), instead of typing it when asked.
        #[arg(long, value_name = "NAME")]
        confirm: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print each value and where it comes from.
    Show {
        /// How to print them.
        #[arg(long, value_enum, default_value_t = ShowFormat::Table)]
        format: ShowFormat,
    },
}

/// How the configuration is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ShowFormat {
    /// Aligned, for people.
    Table,
    /// For programs.
    Json,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // Not `Cli::parse`, which does not tell flags from the environment.
    let matches = Cli::command().get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.format(&mut Cli::command()).exit(),
    };
    let config = match cli.flags.resolve(&matches) {
        Ok(config) => config,
        Err(error) => return report(&error.into()),
    };
    logs::init(config.log_format.value);
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return report(&anyhow::Error::new(error).context("cannot start")),
    };
    let ended = runtime.block_on(run(cli.command, &config));
    logs::flush();
    match ended {
        Ok(code) => code,
        Err(error) => report(&error),
    }
}

async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(args) => up::command(config, &args).await?,
        Command::Health { ready } => return probe::command(config, ready).await,
        Command::Demo(args) => demo::command(config, &args).await?,
        Command::Import(args) => import::command(config, &args).await?,
        Command::Query(args) => query::command(config, args).await?,
        Command::Verify(args) => {
            if !verify::command(config, &args).await? {
                return Ok(ExitCode::from(FAILED));
            }
        }
        Command::Projector => projector::command(config).await?,
        Command::Rebuild(args) => rebuild::command(config, &args).await?,
        Command::Dlq(command) => dlq::command(config, command).await?,
        Command::Status { format } => status::command(config, format).await?,
        Command::Category(command) => catalog::root(config, EntityKind::Category, command).await?,
        Command::Workspace(command) => catalog::workspace(config, command).await?,
        Command::Model(command) => catalog::model(config, command).await?,
        Command::Configuration(command) => catalog::configuration(config, command).await?,
        Command::Release(command) => catalog::release(config, command).await?,
        Command::User(command) => catalog::root(config, EntityKind::User, command).await?,
        Command::Group(command) => catalog::group(config, command).await?,
        Command::System(command) => catalog::root(config, EntityKind::System, command).await?,
        Command::Counter(command) => catalog::counter(config, command).await?,
        Command::Follow(command) => follow::command(config, command).await?,
        Command::Table(command) => table::command(config, command).await?,
        Command::Config(ConfigCommand::Show { format }) => config::show(config, format)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints one line, and tells bad input from failure by the exit code.
fn report(error: &anyhow::Error) -> ExitCode {
    if error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    {
        return ExitCode::SUCCESS;
    }
    eprintln!("almanac: {error:#}");
    let is_bad_input = error.chain().any(|cause| {
        let of_batch = cause.downcast_ref::<ingest::SubmitError>();
        if matches!(of_batch, Some(ingest::SubmitError::Refused(_))) {
            return true;
        }
        let below = of_batch.and_then(|error| match error {
            ingest::SubmitError::Store(error) => Some(error),
            ingest::SubmitError::Refused(_) => None,
        });
        if let Some(error) = cause.downcast_ref::<event::Error>().or(below) {
            return matches!(
                error.kind(),
                ErrorKind::Invalid
                    | ErrorKind::NotFound
                    | ErrorKind::Conflict
                    | ErrorKind::Stale
                    | ErrorKind::TooLarge
            );
        }
        cause.downcast_ref::<ingest::Refused>().is_some()
    });
    ExitCode::from(if is_bad_input { BAD_INPUT } else { FAILED })
}

#[cfg(test)]
mod tests {
    use catalog::Action;

    use super::*;

    #[test]
    fn every_action_on_a_release_is_a_command() {
        let command = Cli::command();
        let release = command.find_subcommand("release").unwrap();
        for action in Action::ALL {
            assert!(release.find_subcommand(action.name()).is_some(), "{action:?}");
        }
    }
}
