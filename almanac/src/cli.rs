//! The command line.

use std::{path::PathBuf, process::ExitCode};

use ::access::Token;
use anyhow::Context;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::{Shell, generate};
use event::{Error, plain::on_one_line};
use log::audit::by;
use rustix::{fs::Mode, process::umask};

use crate::{
    access::{self, InitArgs, TokenCommand},
    author,
    compact::{self, CompactArgs},
    config::{self, Config, ConfigCommand, Flags, Origin},
    cost::{self, CostArgs},
    dead_letters::{self, DeadLettersCommand},
    demo::{self, DemoArgs},
    doctor::{self, DoctorArgs},
    erase::{self, EraseArgs},
    examples::with_examples,
    exit::{self, Exit},
    export::{self, BackupArgs, ExportArgs, RestoreArgs},
    import::{self, ImportArgs},
    lake::{self, LakeCommand},
    listening::outlive_size_limit,
    mcp,
    operations::{self, ReleaseCommand},
    output::Shown,
    probe, projector,
    rebuild::{self, RebuildArgs},
    report::{self as page, ReportArgs},
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
#[command(name = "almanac", version = VERSION, max_term_width = 100, after_long_help = after_help())]
pub(crate) struct Cli {
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    command: Command,
}

/// Text below the list of commands.
fn after_help() -> String {
    format!("{NAMING}\n\n{}", exit::help())
}

/// Headings of the list of commands, each with its commands.
const HEADINGS: [(&str, &[&str]); 7] = [
    ("Start", &["init", "up", "demo"]),
    ("Log", &["workspace", "import", "tail", "outcome"]),
    ("Look", &["query", "sql", "plot", "report", "status", "audit", "mcp"]),
    ("Release", &["model", "run", "release", "review"]),
    ("Alert", &["alert", "follow"]),
    ("People", &["user", "group", "system", "access", "token"]),
    ("Admin", &["admin", "config", "projector", "health"]),
];

/// All commands, with their help.
pub(crate) fn all() -> clap::Command {
    let command = taking_numbers(operations::with_commands(Cli::command()));
    let list = listed(&command);
    let command = command.mut_args(|arg| if arg.is_global_set() { arg.hide_short_help(true) } else { arg });
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}{{after-help}}"
    ))
}

/// The list of commands, under their headings.
fn listed(command: &clap::Command) -> String {
    let line = |name: &&str| {
        let says = command.find_subcommand(name).and_then(clap::Command::get_about);
        format!("  {name:<11}{}\n", says.map(ToString::to_string).unwrap_or_default())
    };
    let group = |(heading, names): &(&str, &[&str])| {
        format!("{heading}:\n{}\n", names.iter().map(line).collect::<String>())
    };
    HEADINGS.iter().map(group).collect()
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the first user, who may do everything, and its token.
    Init(InitArgs),
    /// Run ingest, projector and query in one process, or some of them.
    Up(UpArgs),
    /// Replay months of flights or of weather: register, append, project, query.
    Demo(DemoArgs),
    /// Append the events of files: NDJSON, JSON, CSV, Parquet or Arrow.
    Import(ImportArgs),
    /// Print the events of a workspace: those that are stored, then those that come.
    Tail(Box<TailArgs>),
    /// Write a page that says how the models of a workspace fare.
    Report(Box<ReportArgs>),
    /// Show how far behind everything is, what the last days warn of, workers and leases.
    Status {
        #[command(flatten)]
        shown: Shown,
    },
    /// Serve assistants: operations that only read, as tools of the Model Context Protocol.
    ///
    /// It speaks on standard input and output; a service does at /mcp. With --url it asks the service there, with the rights of the token in
    /// ALMANAC_TOKEN.
    Mcp,
    /// Releases: register them, put them live, show what is live.
    #[command(subcommand)]
    Release(ReleaseCommand),
    /// Tokens, by which services know their callers, and sessions of browsers.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Work on the table itself: create, export, verify, rebuild, upgrade, look for faults.
    #[command(subcommand)]
    Admin(AdminCommand),
    /// Show the configuration; its options are good with every command.
    #[command(subcommand)]
    Config(ConfigCommand),
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
}

/// Work of those who operate the table, which is opened for it.
#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// Look for what is wrong with the settings, the table, the clock, the disk and the projector, and say what to do.
    Doctor(DoctorArgs),
    /// Create, describe, read or delete the table that holds everything.
    #[command(subcommand)]
    Table(TableCommand),
    /// Write all of the table to files, from which `restore` makes it again, on any engine.
    Export(ExportArgs),
    /// Fill a new table from what `export` wrote.
    Restore(RestoreArgs),
    /// Copy the SQLite file while services go on.
    Backup(BackupArgs),
    /// Tables of Delta Lake, with the days of a workspace as Parquet, for Spark, Trino, DuckDB and polars.
    #[command(subcommand)]
    Lake(LakeCommand),
    /// Fold the log again and compare with what is stored.
    Verify(VerifyArgs),
    /// Fold the log of a workspace again beside what is served, then serve the result.
    Rebuild(RebuildArgs),
    /// List, show, retry or skip segments that the projector refused.
    #[command(subcommand)]
    DeadLetters(DeadLettersCommand),
    /// Merge the small segments of days that are over, now.
    Compact(CompactArgs),
    /// Take keys out of all that is stored of a workspace, for good.
    Erase(EraseArgs),
    /// Raise the layout of the table, and write again what is in an older form, while services go on.
    Upgrade(UpgradeArgs),
    /// Count what a workspace takes, and what that costs a month on DynamoDB.
    Cost(CostArgs),
    /// Print the script by which a shell completes commands and options.
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for a shell, made from the declared commands.
fn complete(args: &CompletionsArgs, mut command: clap::Command) {
    let mut script = Vec::new();
    // The script is made in memory first: `generate` panics when its output accepts nothing, and `print!` here does not.
    generate(args.shell, &mut command, "almanac", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // `Cli::parse` would not distinguish flags from the environment.
    let matches = with_examples(all()).get_matches();
    let called = operations::called(&matches);
    let ended = match called {
        Some((verb, given)) => {
            Flags::from_arg_matches(&matches).map_err(anyhow::Error::from).and_then(|flags| {
                umask(Mode::RWXG | Mode::RWXO);
                started(flags.resolve(&matches), async |config| operations::run(&config?, verb, given).await)
            })
        }
        None => {
            let Cli { flags, command } = match Cli::from_arg_matches(&matches) {
                Ok(cli) => cli,
                Err(error) => error.format(&mut all()).exit(),
            };
            // Files of the process are for its user alone. A lake is for other engines, which may run as another user.
            if !matches!(command, Command::Admin(AdminCommand::Lake(_))) {
                umask(Mode::RWXG | Mode::RWXO);
            }
            started(flags.resolve(&matches), async |config| run(command, config).await)
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

/// Runs a command with the configuration of this process, or with what is wrong with it.
fn started(
    config: Result<Config, Error>,
    run: impl AsyncFnOnce(Result<Config, Error>) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    logs::init(config.as_ref().map(|config| config.log_format.value).unwrap_or_default());
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime =
        runtime.enable_all().thread_stack_size(THREAD_STACK_BYTES).build().context("cannot start")?;
    let ended = runtime.block_on(async {
        outlive_size_limit();
        by(author::local(), run(config)).await
    });
    logs::flush();
    ended
}

impl Command {
    /// Refuses a service to call, if the command opens the table itself.
    fn check_url(&self, config: &Config) -> Result<(), Error> {
        let may_call = match self {
            Self::Release(_) | Self::Config(_) | Self::Token(_) | Self::Mcp => true,
            Self::Admin(AdminCommand::Doctor(_) | AdminCommand::Completions(_)) => true,
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

async fn run(command: Command, config: Result<Config, Error>) -> anyhow::Result<Exit> {
    if let Ok(config) = &config {
        command.check_url(config)?;
    }
    match command {
        Command::Init(args) => access::init(&config?, &args).await?,
        Command::Up(args) => up::command(&config?, &args).await?,
        Command::Demo(args) => demo::command(&config?, &args).await?,
        Command::Import(args) => import::command(&config?, &args).await?,
        Command::Tail(args) => tail::tail(&config?, &args).await?,
        Command::Report(args) => page::command(&config?, &args).await?,
        Command::Status { shown: Shown { format } } => status::command(&config?, format).await?,
        Command::Mcp => mcp::command(&config?).await?,
        Command::Release(command) => operations::releases(&config?, command).await?,
        Command::Token(TokenCommand::Generate) => println!("{}", Token::new().text()),
        Command::Admin(command) => return admin(command, config).await,
        Command::Config(ConfigCommand::Show { shown: Shown { format } }) => config::show(&config?, format)?,
        Command::Projector(webhooks) => projector::command(&config?, &webhooks).await?,
        Command::Health { ready, tls_cert } => {
            let has_tls = tls_cert.is_some_and(|path| !path.as_os_str().is_empty());
            return Ok(Exit::of_check(probe::command(&config?, ready, has_tls).await?));
        }
    }
    Ok(Exit::Done)
}

async fn admin(command: AdminCommand, config: Result<Config, Error>) -> anyhow::Result<Exit> {
    match command {
        AdminCommand::Doctor(args) => return doctor::command(config, &args).await,
        AdminCommand::Completions(args) => complete(&args, all()),
        AdminCommand::Table(command) => table::command(&config?, command).await?,
        AdminCommand::Export(args) => export::export(&config?, &args).await?,
        AdminCommand::Restore(args) => export::restore(&config?, &args).await?,
        AdminCommand::Backup(args) => export::backup(&config?, &args).await?,
        AdminCommand::Lake(command) => lake::command(&config?, command).await?,
        AdminCommand::Verify(args) => return Ok(Exit::of_check(verify::command(&config?, &args).await?)),
        AdminCommand::Rebuild(args) => rebuild::command(&config?, &args).await?,
        AdminCommand::DeadLetters(command) => dead_letters::command(&config?, command).await?,
        AdminCommand::Compact(args) => compact::command(&config?, &args).await?,
        AdminCommand::Erase(args) => return Ok(Exit::of_check(erase::command(&config?, args).await?)),
        AdminCommand::Upgrade(args) => upgrade::command(&config?, &args).await?,
        AdminCommand::Cost(args) => cost::command(&config?, &args).await?,
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
        let command = all();
        let release = command.find_subcommand("release").unwrap();
        // A release is registered as it is created.
        for action in Action::ALL.into_iter().filter(|action| *action != Action::Register) {
            assert!(release.find_subcommand(action.name()).is_some(), "{action:?}");
        }
    }

    #[test]
    fn every_command_is_under_one_heading() {
        let listed: Vec<&str> = HEADINGS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let root = all();
        let mut names: Vec<&str> = root.get_subcommands().map(clap::Command::get_name).collect();
        let mut sorted = listed.clone();
        names.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(sorted, names);
        assert!(listed.len() <= 29, "{} commands", listed.len());
    }

    #[test]
    fn short_help_is_short_and_long_help_complete() {
        let mut root = all();
        let (short, long) = (root.render_help().to_string(), root.render_long_help().to_string());
        assert!(short.lines().all(|line| line.chars().count() <= 100), "{short}");
        assert!(short.lines().count() <= 55 && !short.contains("--data"), "{short}");
        assert!(long.contains("People:") && long.contains("--data") && long.contains("Exit codes"), "{long}");
        root.build();
        let promote = root.find_subcommand_mut("release").unwrap().find_subcommand_mut("promote").unwrap();
        assert!(!promote.render_help().to_string().contains("--data"));
        let config = root.find_subcommand_mut("config").unwrap();
        assert!(config.render_long_help().to_string().contains("--data"));
    }

    #[test]
    fn mistyped_words_are_answered_with_near_ones() {
        for (line, near) in [
            ("almanac relase", "'release'"),
            ("almanac admin verfy", "'verify'"),
            ("almanac alert aply", "'apply'"),
            ("almanac workspace categry list", "'category'"),
            ("almanac release promote v1 --enviroment x", "'--environment'"),
            ("almanac import a.ndjson --workspac a/b", "'--workspace'"),
        ] {
            let said = all().try_get_matches_from(line.split(' ')).unwrap_err().to_string();
            assert!(said.contains(near), "{line}: {said}");
        }
    }

    /// Every command that the dashboard names after `almanac` exists, with its options.
    #[test]
    fn what_the_dashboard_advises_is_a_command() {
        let mut root = all();
        // Every command then has the options of the configuration.
        root.build();
        let mut commands = BTreeSet::new();
        for file in dashboard::FILES {
            for advice in file.text.split("almanac ").skip(1) {
                let advice = advice.split(['`', '\\', '\'', '"', '<']).next().unwrap_or_default();
                let mut command = &root;
                for word in advice.split_whitespace() {
                    match word.strip_prefix("--") {
                        Some(option) => {
                            let is_there = command.get_arguments().any(|arg| arg.get_long() == Some(option));
                            assert!(is_there, "{}: almanac {advice}", file.name);
                        }
                        None => command = command.find_subcommand(word).unwrap_or(command),
                    }
                }
                assert_ne!(command.get_name(), root.get_name(), "{}: almanac {advice}", file.name);
                commands.insert(command.get_name().to_owned());
            }
        }
        assert!(commands.len() > 10, "{commands:?}");
    }

    #[test]
    fn values_may_be_negative_numbers() {
        for args in [
            &["query", "predictions", "-w", "a/b", "--last", "7d", "--key", "-1"][..],
            &["admin", "erase", "-w", "a/b", "--key", "-1", "--reason", "asked"],
            &["import", "a.csv", "-w", "a/b", "-k", "outcomes", "--null", "-1", "--null", "-"],
        ] {
            let command = ["almanac"].iter().chain(args);
            let read = all().try_get_matches_from(command);
            assert!(read.is_ok(), "{args:?}: {}", read.unwrap_err());
        }
        all().debug_assert();
    }

    /// A switch has no value, so its help names no default.
    #[test]
    fn no_switch_says_a_default() {
        let mut commands = vec![all()];
        while let Some(command) = commands.pop() {
            for arg in command.get_arguments().filter(|arg| !arg.get_action().takes_values()) {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.contains("[default"), "{} {:?}: {help}", command.get_name(), arg.get_long());
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
