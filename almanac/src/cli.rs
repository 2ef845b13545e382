//! The command line.

use std::{path::PathBuf, process::ExitCode};

use ::access::Token;
use anyhow::Context;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use event::{Error, plain::on_one_line};
use log::audit::by;
use rustix::{fs::Mode, process::umask};

use crate::{
    access::{self, InitArgs, TokenCommand},
    alert::{self, AlertCommand},
    arena::{self, ArenaCommand},
    author,
    compact::{self, CompactArgs},
    completions::{self, CompletionsArgs},
    config::{self, Config, ConfigCommand, Flags, Origin},
    cost::{self, CostArgs},
    demo::{self, DemoArgs},
    dlq::{self, DlqCommand},
    doctor::{self, DoctorArgs},
    erase::{self, EraseArgs},
    examples::with_examples,
    exit::{self, Exit},
    export::{self, BackupArgs, ExportArgs, RestoreArgs},
    follow::{self, FollowCommand},
    import::{self, ImportArgs},
    lake::{self, LakeCommand},
    listening::outlive_size_limit,
    operations::{self, ReleaseCommand},
    probe, projector,
    rebuild::{self, RebuildArgs},
    report::{self as page, ReportArgs},
    review::{self, ReviewCommand},
    shown::Shown,
    status,
    table::{self, TableCommand},
    tail::{self, TailArgs},
    telemetry::logs,
    up::{self, UpArgs},
    upgrade::{self, UpgradeArgs},
    verify::{self, VerifyArgs},
    webhook::WebhookArgs,
};

/// Text on the names that commands take.
const NAMING: &str = "A workspace is named category/name, as the first word or with -w. What is in a workspace is named by \
its whole path (credit/prod/churn, credit/prod/churn@v1), by its id, or by its name and -w.";

/// Stack of a thread of the runtime. Unoptimised, a sweep that reads from DynamoDB takes 2.2 MB; untouched pages take no memory.
const THREAD_STACK_BYTES: usize = 4 * 1024 * 1024;

/// Version for `--version`, with the engine that this build lacks.
const VERSION: &str = if cfg!(feature = "dynamodb") {
    env!("CARGO_PKG_VERSION")
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (without DynamoDB)")
};

/// The record of what ML models predicted, what then happened, and how good the predictions were.
#[derive(Debug, Parser)]
#[command(name = "almanac", version = VERSION, max_term_width = 100, after_help = after_help())]
pub(crate) struct Cli {
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    verb: Verb,
}

/// Text below the list of commands.
fn after_help() -> String {
    format!("{NAMING}\n\n{}", exit::help())
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Configured(Box<Command>),
    /// Look for what is wrong with the settings, the table, the clock, the disk and the projector, and say what to do.
    Doctor(DoctorArgs),
    /// Print the script by which a shell completes commands and options.
    Completions(CompletionsArgs),
}

/// What needs the configuration.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run ingest, projector and query in one process, or some of them.
    Up(UpArgs),
    /// Run a projector by itself; several share the work.
    Projector(WebhookArgs),
    /// Ask the service at the configured address whether it is alive.
    Health {
        /// Ask whether it is ready: whether it can do its work now.
        #[arg(long)]
        ready: bool,
        /// The certificate with which the service listens; without one it is asked without TLS.
        #[arg(long, value_name = "FILE", env = "ALMANAC_TLS_CERT")]
        tls_cert: Option<PathBuf>,
    },
    /// Replay months of flights or of weather: register, append, project, query.
    Demo(DemoArgs),
    /// Append the events of files: NDJSON, JSON, CSV, Parquet or Arrow.
    Import(ImportArgs),
    /// Print the events of a workspace: those that are stored, then those that come.
    Tail(Box<TailArgs>),
    /// Reviews: predictions that people judge, one at a time.
    #[command(subcommand)]
    Review(ReviewCommand),
    /// Arenas: pairs of releases that people compare, and how they rank by votes.
    #[command(subcommand)]
    Arena(ArenaCommand),
    /// Write a page that says how the models of a workspace fare: metrics, drift, expectations, comparisons, alerts.
    Report(Box<ReportArgs>),
    /// Fold the log again and compare with what is stored.
    Verify(VerifyArgs),
    /// Fold the log of a workspace again beside what is served, then serve the result.
    Rebuild(RebuildArgs),
    /// Merge the small segments of days that are over, now.
    Compact(CompactArgs),
    /// Take keys out of all that is stored of a workspace, for good.
    Erase(EraseArgs),
    /// Raise the layout of the table, and write again what is in an older form, while services go on.
    Upgrade(UpgradeArgs),
    /// List, show, retry or skip segments that the projector refused.
    #[command(subcommand)]
    Dlq(DlqCommand),
    /// Show how far behind everything is, what the last days warn of, the workers and the leases.
    Status {
        #[command(flatten)]
        shown: Shown,
    },
    /// Releases: register them, put them live, show what is live.
    #[command(subcommand)]
    Release(ReleaseCommand),
    /// Alert rules: which numbers are watched, and when they would have fired.
    #[command(subcommand)]
    Alert(AlertCommand),
    #[command(flatten)]
    Follow(FollowCommand),
    /// Make the first user, who may do everything, and its token.
    Init(InitArgs),
    /// Tokens, by which services know their callers.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Create, describe, read or delete the table that holds everything.
    #[command(subcommand)]
    Table(TableCommand),
    /// Write all of the table to files, from which `restore` makes it again, on any engine.
    Export(ExportArgs),
    /// Fill a new table from what `export` wrote.
    Restore(RestoreArgs),
    /// Tables of Delta Lake, with the days of a workspace as Parquet, for Spark, Trino, DuckDB and polars.
    #[command(subcommand)]
    Lake(LakeCommand),
    /// Copy the SQLite file while services go on.
    Backup(BackupArgs),
    /// Say what a load costs a month on DynamoDB, or what a workspace takes.
    Cost(CostArgs),
    /// Show the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // `Cli::parse` would not distinguish flags from the environment.
    let matches = with_examples(taking_numbers(operations::with_commands(Cli::command()))).get_matches();
    if let Some((verb, given)) = operations::called(&matches) {
        let called = Flags::from_arg_matches(&matches).map_err(anyhow::Error::from).and_then(|flags| {
            umask(Mode::RWXG | Mode::RWXO);
            configured(&flags, &matches, async |config| operations::run(config, verb, given).await)
        });
        return called.unwrap_or_else(|error| report(&error)).into();
    }
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.format(&mut Cli::command()).exit(),
    };
    let ended = match cli.verb {
        Verb::Configured(command) => {
            // Files of the process are for its user alone. A lake is for other engines, which may run as another user.
            if !matches!(*command, Command::Lake(_)) {
                umask(Mode::RWXG | Mode::RWXO);
            }
            configured(&cli.flags, &matches, async |config| run(*command, config).await)
        }
        Verb::Doctor(args) => doctor::command(cli.flags.resolve(&matches), &args),
        Verb::Completions(args) => {
            completions::command(&args, operations::with_commands(Cli::command()));
            Ok(Exit::Done)
        }
    };
    ended.unwrap_or_else(|error| report(&error)).into()
}

/// Lets all values of a command be negative numbers, as in `--key -1`: no option has such a name.
fn taking_numbers(command: clap::Command) -> clap::Command {
    let takes_any = |arg: clap::Arg| {
        let is_value = arg.get_action().takes_values() && !arg.is_allow_hyphen_values_set();
        if is_value { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(takes_any).mut_subcommands(taking_numbers)
}

/// Runs a command with the configuration of this process.
fn configured(
    flags: &Flags,
    matches: &ArgMatches,
    run: impl AsyncFnOnce(&Config) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    let config = flags.resolve(matches)?;
    logs::init(config.log_format.value);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime =
        runtime.enable_all().thread_stack_size(THREAD_STACK_BYTES).build().context("cannot start")?;
    let ended = runtime.block_on(async {
        outlive_size_limit();
        by(author::local(), run(&config)).await
    });
    logs::flush();
    ended
}

impl Command {
    /// Refuses a service to call, if the command opens the table itself.
    fn check_url(&self, config: &Config) -> Result<(), Error> {
        let may_call = match self {
            Self::Release(_) | Self::Config(_) | Self::Token(_) => true,
            // A service may run where commands call it.
            Self::Up(_) | Self::Projector(_) | Self::Health { .. } => {
                !matches!(config.url.origin, Origin::Flag(_))
            }
            _ => false,
        };
        match &config.url.value {
            Some(url) if !may_call => Err(Error::invalid(format!(
                "this command opens the table itself, and cannot call {url} ({}); leave that out",
                config.url.origin
            ))),
            _ => Ok(()),
        }
    }
}

async fn run(command: Command, config: &Config) -> anyhow::Result<Exit> {
    command.check_url(config)?;
    match command {
        Command::Up(args) => up::command(config, &args).await?,
        Command::Health { ready, tls_cert } => {
            let has_tls = tls_cert.is_some_and(|path| !path.as_os_str().is_empty());
            return Ok(Exit::of_check(probe::command(config, ready, has_tls).await?));
        }
        Command::Demo(args) => demo::command(config, &args).await?,
        Command::Import(args) => import::command(config, &args).await?,
        Command::Tail(args) => tail::tail(config, &args).await?,
        Command::Arena(command) => arena::command(config, command).await?,
        Command::Review(command) => review::command(config, command).await?,
        Command::Report(args) => page::command(config, &args).await?,
        Command::Verify(args) => {
            return Ok(Exit::of_check(verify::command(config, &args).await?));
        }
        Command::Projector(webhooks) => projector::command(config, &webhooks).await?,
        Command::Rebuild(args) => rebuild::command(config, &args).await?,
        Command::Compact(args) => compact::command(config, &args).await?,
        Command::Erase(args) => {
            return Ok(Exit::of_check(erase::command(config, args).await?));
        }
        Command::Upgrade(args) => upgrade::command(config, &args).await?,
        Command::Dlq(command) => dlq::command(config, command).await?,
        Command::Status { shown: Shown { format } } => status::command(config, format).await?,
        Command::Release(command) => operations::releases(config, command).await?,
        Command::Alert(command) => alert::command(config, command).await?,
        Command::Follow(command) => follow::command(config, command).await?,
        Command::Init(args) => access::init(config, &args).await?,
        Command::Token(TokenCommand::Generate) => println!("{}", Token::new().text()),
        Command::Table(command) => table::command(config, command).await?,
        Command::Export(args) => export::export(config, &args).await?,
        Command::Restore(args) => export::restore(config, &args).await?,
        Command::Lake(command) => lake::command(config, command).await?,
        Command::Backup(args) => export::backup(config, &args).await?,
        Command::Cost(args) => cost::command(config, &args).await?,
        Command::Config(ConfigCommand::Show { shown: Shown { format } }) => config::show(config, format)?,
    }
    Ok(Exit::Done)
}

/// Prints one line, and returns the exit of the command.
fn report(error: &anyhow::Error) -> Exit {
    let exit = Exit::of(error);
    if exit != Exit::Done {
        eprintln!("almanac: {}", on_one_line(&format!("{error:#}")));
    }
    exit
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use catalog::Action;

    use super::*;

    #[test]
    fn every_action_on_a_release_is_a_command() {
        let command = operations::with_commands(Cli::command());
        let release = command.find_subcommand("release").unwrap();
        // A release is registered as it is created.
        for action in Action::ALL.into_iter().filter(|action| *action != Action::Register) {
            assert!(release.find_subcommand(action.name()).is_some(), "{action:?}");
        }
    }

    /// Every command that the dashboard names after `almanac` exists, with its options.
    #[test]
    fn what_the_dashboard_advises_is_a_command() {
        let all = operations::with_commands(Cli::command());
        let mut commands = BTreeSet::new();
        for file in dashboard::FILES {
            for advice in file.text.split("almanac ").skip(1) {
                let advice = advice.split(['`', '\\', '\'', '"', '<']).next().unwrap_or_default();
                let mut command = &all;
                for word in advice.split_whitespace() {
                    match word.strip_prefix("--") {
                        Some(option) => {
                            let is_there = command.get_arguments().any(|arg| arg.get_long() == Some(option));
                            assert!(is_there, "{}: almanac {advice}", file.name);
                        }
                        None => command = command.find_subcommand(word).unwrap_or(command),
                    }
                }
                assert_ne!(command.get_name(), all.get_name(), "{}: almanac {advice}", file.name);
                commands.insert(command.get_name().to_owned());
            }
        }
        assert!(commands.len() > 10, "{commands:?}");
    }

    #[test]
    fn values_may_be_negative_numbers() {
        for args in [
            &["query", "predictions", "-w", "a/b", "--last", "7d", "--key", "-1"][..],
            &["erase", "-w", "a/b", "--key", "-1", "--reason", "asked"],
            &["import", "a.csv", "-w", "a/b", "-k", "outcomes", "--null", "-1", "--null", "-"],
        ] {
            let command = ["almanac"].iter().chain(args);
            let read =
                taking_numbers(operations::with_commands(Cli::command())).try_get_matches_from(command);
            assert!(read.is_ok(), "{args:?}: {}", read.unwrap_err());
        }
        taking_numbers(operations::with_commands(Cli::command())).debug_assert();
    }

    /// A switch has no value, so its help names no default.
    #[test]
    fn no_switch_says_a_default() {
        let mut commands = vec![operations::with_commands(Cli::command())];
        while let Some(command) = commands.pop() {
            for arg in command.get_arguments().filter(|arg| !arg.get_action().takes_values()) {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.contains("[default"), "{} {:?}: {help}", command.get_name(), arg.get_long());
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
