//! Commands on entities outside workspaces: categories, users, groups, systems.

use ::catalog::{Service, new};
use clap::Subcommand;
use event::Clock;
use log::key::EntityKind;

use super::{
    created,
    entity::{EntityCommand, Noted, ReadCommand, change, parse_attributes, read},
    existing,
};
use crate::{config::Config, open};

#[derive(Debug, Subcommand)]
pub(crate) enum RootCommand {
    /// Create one.
    Create {
        /// Its name.
        name: String,
        #[command(flatten)]
        noted: Noted,
    },
    #[command(flatten)]
    Read(ReadCommand),
    #[command(flatten)]
    Entity(EntityCommand),
}

pub(crate) async fn command(config: &Config, kind: EntityKind, command: RootCommand) -> anyhow::Result<()> {
    match command {
        RootCommand::Create { name, noted } => {
            let service = Service::new(open::to_write(config).await?, Clock::system());
            let attributes = parse_attributes(noted.attributes.as_deref())?;
            let new = new::NewRoot { name: name.clone(), attributes };
            let any = new.create(kind, service.catalog(), service.clock().now()).await?;
            created(&any, &name, noted.shown.format);
            Ok(())
        }
        RootCommand::Read(command) => read(&existing(config).await?, kind, command).await,
        RootCommand::Entity(command) => change(&existing(config).await?, kind, command).await,
    }
}
