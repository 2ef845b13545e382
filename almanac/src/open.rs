//! The one way to the table that the configuration names.

use std::sync::Arc;

use event::{Clock, Error, Result};
use log::{
    layout,
    store::{Shown, Store},
};
use query::{Bounds, Query};
use table::{Table, engine::Whole};

use crate::{
    config::{Config, Origin},
    export,
};

/// Opens the table for a restore: as [`to_serve`], also one whose restore has not ended.
pub(crate) async fn to_restore(config: &Config) -> Result<Arc<dyn Table>> {
    Ok(as_it_is(config, true).await?)
}

/// Opens the table for a command that begins to write, as [`to_serve`].
pub(crate) async fn to_write(config: &Config) -> Result<Arc<dyn Table>> {
    Ok(to_serve(config, true).await?)
}

/// Opens the table for services. A SQLite file is created when it is new; a DynamoDB table must be there, since
/// making one costs money and needs rights that a service should not have. If one of them `writes`, a new table says its layout from then on.
pub(crate) async fn to_serve(config: &Config, writes: bool) -> Result<Arc<Store>> {
    let store = open(config, true).await?;
    if writes {
        layout::begin(&*store, Clock::system().now()).await?;
    }
    Ok(store)
}

/// Opens the table, which must be there.
pub(crate) async fn existing(config: &Config) -> Result<Arc<dyn Table>> {
    Ok(store(config).await?)
}

/// Opens the layer over the table, which must be there.
pub(crate) async fn store(config: &Config) -> Result<Arc<Store>> {
    must_be_there(config)?;
    open(config, false).await
}

/// Opens the table, which must be there, to look at its items: also one whose restore has not ended.
pub(crate) async fn to_look(config: &Config) -> Result<Arc<dyn Table>> {
    must_be_there(config)?;
    Ok(as_it_is(config, false).await?)
}

/// What answers the questions of a command, from the table, which must be there; its queries together hold at most `--query-memory`.
pub(crate) async fn to_ask(config: &Config) -> Result<Query> {
    Ok(asking(config, existing(config).await?))
}

/// The same, from a table that is open.
pub(crate) fn asking(config: &Config, table: Arc<dyn Table>) -> Query {
    let memory = config.query_memory.value.0;
    // One waits on a machine of one's own, for as many draws of intervals as one asks for.
    Query::new(table, Clock::system()).within(Bounds { memory, drawn: u64::MAX, ..Bounds::default() })
}

fn must_be_there(config: &Config) -> Result<()> {
    match config.store.value.file() {
        Some(path) if !path.exists() => {
            let flag = if config.store.origin == Origin::Default { "--data" } else { "--store" };
            Err(Error::not_found(format!(
                "there is no data at {}; `almanac init`, `almanac up` or `almanac demo` makes it, {flag} names another place",
                path.display()
            )))
        }
        _ => Ok(()),
    }
}

/// Opens a table that is whole: half of an export would be served as if it were all, and what is written into it keeps
/// its restore from going on.
async fn open(config: &Config, may_create: bool) -> Result<Arc<Store>> {
    let table = as_it_is(config, may_create).await?;
    export::check_restored(&*table).await?;
    Ok(table)
}

async fn as_it_is(config: &Config, may_create: bool) -> Result<Arc<Store>> {
    let store = &config.store.value;
    let table = store.engine.open(&store.place, &config.surroundings(), may_create).await?;
    // What a newer Almanac wrote into is refused before anything is read or written.
    layout::load(&*table).await?;
    Ok(Store::measured(table, store.engine.scheme()))
}

/// Opens the table to go through all of its items, under the keys that services know.
pub(crate) async fn whole(config: &Config) -> Result<Box<dyn Whole>> {
    let store = &config.store.value;
    Ok(Shown::over(store.engine.open_whole(&store.place, &config.surroundings()).await?))
}

/// The same, as they stand at one instant; `None`, when the engine has no such reading.
pub(crate) async fn still(config: &Config) -> Result<Option<Box<dyn Whole>>> {
    let store = &config.store.value;
    Ok(store.engine.open_still(&store.place, &config.surroundings()).await?.map(Shown::over))
}
