//! Commands on the catalog: a module for each type of entity, with the arguments of its commands.

mod baseline;
pub(crate) mod configuration;
pub(crate) mod counter;
mod define;
mod entity;
mod gates;
pub(crate) mod group;
pub(crate) mod model;
pub(crate) mod release;
pub(crate) mod root;
pub(crate) mod run;
pub(crate) mod snapshot;
pub(crate) mod workspace;

use ::catalog::{Service, json};
use catalog::AnyEntity;
use event::Clock;

use crate::{
    config::Config,
    open,
    shown::{ShowFormat, print_json},
};

/// Opens the catalog of an existing table.
async fn existing(config: &Config) -> anyhow::Result<Service> {
    Ok(Service::new(open::existing(config).await?, Clock::system()))
}

/// Prints the created entity: in words, or as JSON.
fn created(any: &AnyEntity, name: &str, format: ShowFormat) {
    match format {
        ShowFormat::Json => print_json(&json::any(any)),
        ShowFormat::Table => println!("{} {name} is {}", any.at().kind(), any.at()),
    }
}
