//! The one way to the table that the configuration names.

use std::sync::Arc;

use event::{Clock, Error, Result};
use table::{
    Measured, Table,
    dynamodb::{DynamoConfig, DynamoTable},
    sqlite::SqliteTable,
};

use crate::config::{Config, Origin, Store};

/// Opens the table. A SQLite file is created when it is new; a DynamoDB table must be there, since
/// making one costs money and needs rights that a service should not have.
pub(crate) async fn create(config: &Config) -> Result<Arc<dyn Table>> {
    match &config.store.value {
        Store::Sqlite(path) => Ok(sqlite(SqliteTable::open(path, Clock::system())?)),
        Store::DynamoDb(table) => connect(config, table).await,
    }
}

fn sqlite(table: SqliteTable) -> Arc<dyn Table> {
    Measured::over(Arc::new(table), "sqlite")
}

/// Opens the table, which must be there.
pub(crate) async fn existing(config: &Config) -> Result<Arc<dyn Table>> {
    match &config.store.value {
        Store::Sqlite(path) if !path.exists() => {
            let flag = if config.store.origin == Origin::Default { "--data" } else { "--store" };
            Err(Error::not_found(format!(
                "there is no data at {}; `almanac up` or `almanac demo` creates some, {flag} names another place",
                path.display()
            )))
        }
        Store::Sqlite(path) => Ok(sqlite(SqliteTable::open_existing(path, Clock::system())?)),
        Store::DynamoDb(table) => connect(config, table).await,
    }
}

async fn connect(config: &Config, table: &str) -> Result<Arc<dyn Table>> {
    let table = DynamoTable::connect(dynamodb(config, table)).await?;
    Ok(Measured::over(Arc::new(table), "dynamodb"))
}

/// What the DynamoDB engine needs to know.
pub(crate) fn dynamodb(config: &Config, table: &str) -> DynamoConfig {
    DynamoConfig {
        table: table.to_owned(),
        region: config.region.value.clone(),
        endpoint: config.endpoint.value.clone(),
        clock: Clock::system(),
    }
}
