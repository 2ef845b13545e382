//! The table in DynamoDB, for setups in which one machine is not enough.
//!
//! - **Reads and writes** are single calls (`query`, `write`) or small transactions
//!   (`transact`), with the conditions of `expression`.
//! - **Failed calls** are classified by their meaning (`fault`), and retried for a while (`retry`). A write without
//!   an answer is settled by reading.
//! - **Changes** come from the table's stream (`shards`, `changes`, `position`).
//! - **The table** itself is checked at start (`describe`, `schema`), and created and deleted on request (`manage`).
//!
//! The AWS SDK is used here and nowhere else, and takes long to compile: only the binary and the tests link this
//! crate.
//!
//! ```
//! use almanac_dynamodb::DynamoDb;
//! use table::engine::Engine;
//!
//! assert_eq!(DynamoDb.check("almanac"), Ok(()));
//! assert!(DynamoDb.check("my table").unwrap_err().contains("does not allow the table name"));
//! ```

use std::time::Duration;

use async_trait::async_trait;
use event::{Clock, Result, Timestamp};
use table::{
    Changes, Condition, Item, Key, Page, Position, Query, Shard, Table, Write, check, item::MAX_ITEM_BYTES,
};

use self::{client::Client, position::Iterators, units::Units};

pub use self::{
    account::Account,
    describe::{IndexDescription, StreamDescription, TableDescription},
    engine::DynamoDb,
    manage::{create, delete, describe},
};

mod account;
mod changes;
mod client;
mod codec;
mod cursor;
mod dates;
mod describe;
mod engine;
mod expression;
mod fault;
mod manage;
mod position;
mod query;
mod retry;
mod schema;
mod shards;
#[cfg(test)]
mod tests;
mod transact;
mod units;
mod write;

/// Table and location. Credentials come by the SDK's usual chain: environment, profile, role.
#[derive(Clone, Debug)]
pub struct DynamoConfig {
    /// Name of the table.
    pub table: String,
    /// Region; when `None`, by the SDK's usual chain.
    pub region: Option<String>,
    /// Endpoint other than that of the region, such as an emulator.
    pub endpoint: Option<String>,
    /// Clock for expiry.
    pub clock: Clock,
}

/// A table in DynamoDB.
#[derive(Debug)]
pub struct DynamoTable {
    client: Client,
    clock: Clock,
    /// Amazon resource name of the table, the prefix of those of its streams.
    arn: String,
    iterators: Iterators,
    units: Units,
}

impl DynamoTable {
    /// Connects to the table, and checks that it can be used, within seconds.
    ///
    /// # Errors
    /// `NotFound` if there is no such table; `Invalid` if it has another shape, or if there is no region or are no
    /// credentials; `Unavailable` if no server answers. Each has instructions in one line.
    pub async fn connect(config: DynamoConfig) -> Result<Self> {
        let client = Client::new(&config).await?;
        let found = describe::look(&client).await?;
        found.check(&client)?;
        let arn = found.table.table_arn.unwrap_or_default();
        Ok(Self { client, clock: config.clock, arn, iterators: Iterators::default(), units: Units::new() })
    }
}

#[async_trait]
impl Table for DynamoTable {
    async fn get(&self, key: &Key) -> Result<Option<Item>> {
        check::check_key(key)?;
        let item = self.read(key, None).await?;
        Ok(item.filter(|item| !codec::has_expired(item, self.clock.now())))
    }

    async fn query(&self, query: &Query) -> Result<Page> {
        self.page(query).await
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<()> {
        self.put_item(&item, &condition).await
    }

    async fn put_new(&self, items: Vec<Item>, within: Duration) -> (usize, Result<()>) {
        self.put_new_items(items, within).await
    }

    async fn delete(&self, key: &Key, condition: Condition) -> Result<()> {
        self.delete_item(key, &condition).await
    }

    fn item_bytes(&self) -> usize {
        MAX_ITEM_BYTES
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<()> {
        self.transact_all(&writes).await
    }

    async fn forget_deleted(&self) -> Result<()> {
        // The table keeps no deleted data here.
        Ok(())
    }

    fn engine_time(&self) -> Option<Timestamp> {
        self.client.dates.now()
    }

    async fn shards(&self) -> Result<Vec<Shard>> {
        self.list_shards().await
    }

    async fn changes(&self, shard: &str, from: &Position, wait: Duration) -> Result<Changes> {
        self.read_changes(shard, from, wait).await
    }
}
