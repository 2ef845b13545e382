//! Commands on the free counters of entities.

use clap::{Args, Subcommand};
use event::Error;
use log::key::EntityKind;

use super::existing;
use crate::config::Config;

/// Which counter.
#[derive(Debug, Args)]
pub(crate) struct CounterArgs {
    /// The type of the entity: category, workspace, model, configuration, release, user, group or system.
    pub(crate) kind: String,
    /// The entity, by id or path.
    pub(crate) entity: String,
    /// The counter's name.
    pub(crate) name: String,
}

/// How much.
#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) counter: CounterArgs,
    /// The amount.
    #[arg(default_value_t = 1)]
    pub(crate) by: i64,
    /// A name for this change: repeated with the same key, it counts once.
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CounterCommand {
    /// Add to a counter and print its new value.
    Inc(CountArgs),
    /// Subtract from a counter and print its new value.
    Dec(CountArgs),
    /// Print a counter.
    Get(CounterArgs),
}

pub(crate) async fn command(config: &Config, command: CounterCommand) -> anyhow::Result<()> {
    let service = existing(config).await?;
    let of = async |counter: &CounterArgs| {
        service.catalog().resolve(EntityKind::parse(&counter.kind)?, &counter.entity).await
    };
    let add = async |args: CountArgs, by: Option<i64>| {
        let by = by.ok_or_else(|| Error::invalid("the change is too large"))?;
        let at = of(&args.counter).await?;
        service.catalog().count(&at, &args.counter.name, by, args.idempotency_key.as_deref()).await
    };
    let value = match command {
        CounterCommand::Inc(args) => {
            let by = Some(args.by);
            add(args, by).await?
        }
        CounterCommand::Dec(args) => {
            let by = args.by.checked_neg();
            add(args, by).await?
        }
        CounterCommand::Get(counter) => {
            service.catalog().counter(&of(&counter).await?, &counter.name).await?
        }
    };
    println!("{value}");
    Ok(())
}
