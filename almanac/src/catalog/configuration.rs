//! Commands on configurations of models.

use ::catalog::new;
use clap::Subcommand;
use log::key::EntityKind;

use super::{
    created,
    entity::{EntityCommand, Noted, ReadCommand, change, parse_attributes, read},
    existing,
};
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigurationCommand {
    /// Create a configuration.
    Create {
        /// Its name.
        name: String,
        /// The workspace, as category/name or by id.
        #[arg(long, short)]
        workspace: String,
        #[command(flatten)]
        noted: Noted,
    },
    #[command(flatten)]
    Read(ReadCommand),
    #[command(flatten)]
    Entity(EntityCommand),
}

pub(crate) async fn command(config: &Config, command: ConfigurationCommand) -> anyhow::Result<()> {
    let service = existing(config).await?;
    match command {
        ConfigurationCommand::Create { name, workspace, noted } => {
            let attributes = parse_attributes(noted.attributes.as_deref())?;
            let new = new::NewConfiguration { workspace, name: name.clone(), attributes };
            let any = new.create(service.catalog(), service.clock().now()).await?;
            created(&any, &name, noted.shown.format);
            Ok(())
        }
        ConfigurationCommand::Read(command) => read(&service, EntityKind::Configuration, command).await,
        ConfigurationCommand::Entity(command) => change(&service, EntityKind::Configuration, command).await,
    }
}
