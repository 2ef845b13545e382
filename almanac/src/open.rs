//! The one way to the table that the configuration names.

use std::sync::Arc;

use event::{Error, Result};
use table::{Measured, Table};

use crate::config::{Config, Origin};

/// Opens the table. A SQLite file is created when it is new; a DynamoDB table must be there, since
/// making one costs money and needs rights that a service should not have.
pub(crate) async fn create(config: &Config) -> Result<Arc<dyn Table>> {
    open(config, true).await
}

/// Opens the table, which must be there.
pub(crate) async fn existing(config: &Config) -> Result<Arc<dyn Table>> {
    match config.store.value.file() {
        Some(path) if !path.exists() => {
            let flag = if config.store.origin == Origin::Default { "--data" } else { "--store" };
            Err(Error::not_found(format!(
                "there is no data at {}; `almanac up` or `almanac demo` creates some, {flag} names another place",
                path.display()
            )))
        }
        _ => open(config, false).await,
    }
}

async fn open(config: &Config, may_create: bool) -> Result<Arc<dyn Table>> {
    let store = &config.store.value;
    let table = store.engine.open(&store.place, &config.surroundings(), may_create).await?;
    Ok(Measured::over(table, store.engine.scheme()))
}
